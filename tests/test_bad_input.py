"""Bad input: one clear line that names the place, and never anything else, whatever the file holds."""

from __future__ import annotations

import gzip
import json
import lzma
import os
import random
import threading

import networkx as nx
import numpy as np
import pytest

from blogdit import formats
from blogdit.cli.app import run
from blogdit.core.errors import InputError
from blogdit.problems import generate, sudoku

NINE = "53..7....6..195....98....6.8...6...34..8.3..17...2...6.6....28....419..5....8..79"
SOLVED = "534678912672195348198342567859761423426853791713924856961537284287419635345286179"
CSP = {"format": "blogdit-csp", "version": 1, "domain_sizes": [2, 2]}


def csp(**changes) -> bytes:
    return json.dumps(CSP | changes).encode()


BAD = {
    # name: (content, options, line or None, what the message says)
    "empty": (b"", {}, None, "empty file; expected an instance"),
    "blank": (b"\n  \n\n", {}, None, "empty file"),
    "binary": (bytes(range(256)), {}, 1, "expected a text file|binary"),
    "zeros": (b"\0" * 100, {}, 1, "a binary file; expected text"),
    "latin-1": ("1 2\n3 é\n".encode("latin-1"), {"problem": "mis"}, 2, "not text"),
    "prose": (b"Dear reader,\nthis is no instance\n", {}, 1, "not a known format; expected Sudoku text"),
    "gz truncated": (gzip.compress(NINE.encode() * 50)[:-12], {}, 1, "the compressed file is truncated or damaged"),
    "xz truncated": (lzma.compress(NINE.encode() * 50)[:-20], {}, 1, "the compressed file is truncated or damaged"),
    "gz damaged": (b"\x1f\x8bnot really", {}, 1, "the compressed file is truncated or damaged"),
    "sudoku short": (NINE[:-1].encode(), {}, 1, "got 80"),
    "sudoku truncated": (f"{NINE}\n{NINE[:40]}".encode(), {}, 2, "expected 81 characters per puzzle as in line 1"),
    "sudoku symbol": (NINE.replace("7", "?").encode(), {"problem": "sudoku"}, 1, "expected|'\\?' is not a digit"),
    "sudoku letter": ((NINE[:80] + "x").encode(), {}, 1, "digits of a 9x9 Sudoku go up to 9, got 33 \\(X\\) in r9c9"),
    "sudoku conflict": (("55" + NINE[2:]).encode(), {}, 1, "the givens conflict: 5 in both r1c1 and r1c2"),
    "sudoku columns": (f"{NINE},{SOLVED},3".encode(), {}, 1, "expected a puzzle or puzzle,solution, got 3 columns"),
    "sudoku solution": (
        f"{NINE},{SOLVED}\n{NINE},{SOLVED[::-1]}".encode(), {}, 2, "the solution does not solve the puzzle: given"
    ),
    "sudoku blank solution": (f"{NINE},{NINE}".encode(), {}, 1, "does not solve the puzzle: domain"),
    "sudoku rows": (b"53..7....\n6..195...\n", {}, 2, "expected 9 rows, the file ends after 2"),
    "sudoku row": (b"53..7....\n6..195..\n", {}, 2, "expected a Sudoku row of 9 cells"),
    "sudoku for a graph": (NINE.encode(), {"problem": "mis"}, 1, "Sudoku text; expected a graph, for --problem mis"),
    "sudoku forced": (b"1 2\n2 3\n", {"problem": "sudoku"}, 1, "expected a Sudoku row"),
    "latin order": (b"3\n1 2 3\n2 3 1\n3 1 2\nthree\n", {}, 5, "expected the order of a Latin square, got 'three'"),
    "latin zero": (b"0\n1 2\n2 1\n", {"problem": "latin"}, 1, "expected the order of a Latin square, got '0'"),
    "latin row": (b"4\n1 2 3 4\n2 1 4\n", {}, 3, "expected 4 numbers in row 2, got 3"),
    "latin first row": (b"5\n1 2 3 4\n2 1 4 3\n", {}, 2, "expected 5 numbers in row 1, got 4"),
    "latin rows": (b"# two\n3\n\n1 2 3\n0 0 0\n\n", {}, 6, "expected 3 rows, the file ends after 2"),
    "latin symbol": (b"3\n1 2 3\n0 4 0\n0 0 0\n", {}, 3, "expected numbers from 0 to 3, got '4'"),
    "latin negative": (b"3\n1 2 3\n0 -1 0\n0 0 0\n", {}, 3, "expected numbers from 0 to 3, got '-1'"),
    "latin digits": (b"3\n1 2 3\n0 99999999999999999999 0\n", {}, 3, "expected numbers from 0 to 3"),
    "latin conflict": (b"2\n1 2\n2 1\n\n2\n1 0\n1 0\n", {}, 5, "the givens conflict: 1 in both r1c1 and r2c1"),
    "latin for a graph": (b"4\n1 2 3 4\n", {"problem": "mis"}, 1, "Latin text; expected a graph, for --problem mis"),
    "latin forced": (NINE.encode(), {"problem": "latin"}, 1, "expected the order of a Latin square"),
    "order of a graph": (b"4\n1 2\n2 3\n", {"problem": "mis"}, 1, "not a known format"),
    "header only": (b"puzzle,solution\n", {}, 1, "not a known format"),
    "col no p": (b"c nothing\ne 1 2\n", {"colors": 3}, 2, "expected 'p edge VERTICES EDGES' first"),
    "col only comments": (b"c nothing\n", {"colors": 3}, 1, "no 'p edge"),
    "col p": (b"p edge 3\n", {"colors": 3}, 1, "expected"),
    "col p words": (b"p edge three 1\n", {"colors": 3}, 1, "expected the numbers of vertices and edges"),
    "col p twice": (b"p edge 2 1\np edge 2 1\ne 1 2\n", {"colors": 3}, 2, "a second 'p' line"),
    "col truncated": (b"p edge 3 2\ne 1 2\n", {"colors": 3}, 2, "expected 2 edges as in the 'p' line, got 1"),
    "col range": (b"p edge 3 2\ne 1 2\ne 2 4\n", {"colors": 3}, 3, "expected vertices 1..3, got 2 4"),
    "col zero": (b"p edge 3 1\ne 0 1\n", {"colors": 3}, 2, "expected vertices 1..3, got 0 1"),
    "col loop": (b"p edge 3 2\ne 1 2\ne 3 3\n", {"colors": 3}, 3, "self-loop 3 3; expected two different vertices"),
    "col line": (b"p edge 3 1\nedge 1 2\n", {"colors": 3}, 2, "expected 'e VERTEX VERTEX'"),
    "col word": (b"p edge 3 1\ne 1 two\n", {"colors": 3}, 2, "expected two vertex numbers"),
    "col weight": (b"p edge 3 1\nn 1 nan\ne 1 2\n", {"problem": "mis"}, 2, "weight of vertex 1 is not a finite number"),
    "col weight vertex": (b"p edge 3 1\nn 9 1\ne 1 2\n", {"problem": "mis"}, 2, "expected a vertex in 1..3, got 9"),
    "col huge": (b"p edge 999999999999 1\ne 1 2\n", {"colors": 3}, 1, "more than 50,000,000 vertices or variables"),
    "col large": (b"p edge 40000000 1\ne 1 2\n", {"colors": 3}, None, "40000000 vertices for 1 edges"),
    "col no colours": (b"p edge 2 1\ne 1 2\n", {}, None, "coloring needs the number of colours; expected --colors K"),
    "k = 0": (b"p edge 2 1\ne 1 2\n", {"colors": 0}, None, "colors must be a whole number of at least 1, got 0"),
    "k = -1": (b"p edge 2 1\ne 1 2\n", {"colors": -1}, None, "colors must be a whole number of at least 1, got -1"),
    "gset count": (b"3 3\n1 2 1\n2 3 1\n", {}, 3, "expected 3 edges as in the first line, got 2"),
    "gset extra": (b"3 1\n1 2 1\n2 3 1\n", {}, 3, "expected 1 edges as in the first line, got 2"),
    "gset range": (b"3 2\n1 2 1\n2 4 1\n", {}, 3, "expected vertices 1..3, got 2 4"),
    "gset loop": (b"3 2\n1 2 1\n2 2 1\n", {}, 3, "self-loop 2 2"),
    "gset columns": (b"3 2\n1 2 1\n2 3\n", {}, 3, "expected 'VERTEX VERTEX WEIGHT'"),
    "gset nan": (b"3 2\n1 2 1\n2 3 nan\n", {}, 3, "the weight of 2 3 is not a finite number"),
    "gset inf": (b"3 2\n1 2 inf\n2 3 1\n", {}, 2, "the weight of 1 2 is not a finite number"),
    "gset sum": (b"3 2\n1 2 1e308\n2 1 1e308\n", {}, None, "weights must be finite"),
    "gset word": (b"3 2\n1 2 1\n2 x 1\n", {}, 3, "expected two vertex numbers and a weight"),
    "gset huge": (b"99999999999999999999 1\n1 2 1\n", {}, 1, "expected the numbers of vertices and edges"),
    "edges problem": (b"1 2\n2 3\n", {}, None, "expected --problem with one of coloring, maxcut, mis"),
    "edges columns": (b"1 2\n2 3 4 5\n", {"problem": "mis"}, 2, "expected 2 columns"),
    "edges loop": (b"1 2\n3 3\n", {"problem": "mis"}, 2, "self-loop 3 3"),
    "edges number": (b"1 2\n3 99999999999999999999\n", {"problem": "mis"}, 2, "expected two vertex numbers"),
    "qubo p": (b"p qubo 0 3\n0 0 1\n", {}, 1, "expected 'p qubo 0 VARIABLES LINEAR COUPLINGS'"),
    "qubo p twice": (b"p qubo 0 2 0 1\np qubo 0 2 0 1\n0 1 1\n", {}, 2, "a second 'p' line"),
    "qubo counts": (b"p qubo 0 2 1 1\n0 1 1\n", {}, 2, "expected 1 linear terms and 1 couplings .*, got 0 and 1"),
    "qubo range": (b"p qubo 0 2 0 1\n0 2 1\n", {}, 2, r"expected variables 0..1, got 0 2"),
    "qubo large": (b"p qubo 0 40000000 0 1\n0 2 1\n", {}, None, "40000000 vertices for 1 edges"),
    "qubo columns": (b"# vartype=SPIN\n0 1 1\n0 1\n", {}, 3, "expected 'VARIABLE VARIABLE WEIGHT'"),
    "qubo vartype": (b"# vartype=COLOUR\n0 1 1\n", {}, 1, "expected vartype=BINARY or vartype=SPIN, got 'COLOUR'"),
    "qubo negative": (b"# vartype=SPIN\n-1 1 1\n", {}, 2, "expected variables from 0, got -1 1"),
    "qubo nan": (b"# vartype=SPIN\n0 1 nan\n", {}, 2, "the weight of 0 1 is not a finite number"),
    "qubo sum": (b"# vartype=SPIN\n0 1 1e308\n1 0 1e308\n", {}, None, "must be finite"),
    "qubo empty": (b"# vartype=SPIN\n", {}, 1, "no variable in the file"),
    "qubo offset": (b"# vartype=SPIN\n# blogdit offset=much\n0 1 1\n", {}, 2, "expected a number as offset"),
    "qubo forced": (b"1 2\n", {"problem": "qubo"}, 1, "expected 'VARIABLE VARIABLE WEIGHT'"),
    "cnf p": (b"p cnf 3\n1 0\n", {}, 1, "expected 'p cnf VARIABLES CLAUSES' or 'p wcnf"),
    "cnf p word": (b"p cnf three 1\n1 0\n", {}, 1, "expected a whole number from 0, got 'three'"),
    "cnf p twice": (b"p cnf 1 1\np cnf 1 1\n1 0\n", {}, 2, "a second 'p' line"),
    "cnf p late": (b"h 1 0\np wcnf 1 1\n", {}, 2, "a 'p' line behind clauses; expected it first"),
    "cnf count": (b"p cnf 2 2\n1 2 0\n", {}, 2, "expected 2 clauses as in the 'p' line, got 1"),
    "cnf range": (b"p cnf 2 2\n1 2 0\n-3 1 0\n", {}, 3, r"expected variables 1..2, got -3"),
    "cnf word": (b"p cnf 2 1\n1 two 0\n", {}, 2, "expected literals that end with 0, got 'two'"),
    "cnf end": (b"p cnf 2 1\n1 2\n", {}, 2, "the last clause has no end; expected 0"),
    "cnf large": (b"p cnf 40000000 1\n1 0\n", {}, None, "40000000 vertices for 1 edges"),
    "cnf none": (b"p cnf 0 0\n", {}, None, "no variable in the file"),
    "cnf for a graph": (b"p cnf 1 1\n1 0\n", {"problem": "mis"}, 1, "expected 'p edge VERTICES EDGES', got 'p cnf"),
    "opb for a graph": (b"min: +1 x1 ;\n", {"problem": "mis"}, 1, "opb text; expected a graph, for --problem mis"),
    "wcnf weight": (b"h 1 0\n-3 1 0\n", {}, 2, "expected a whole weight or 'h' before a clause, got '-3'"),
    "wcnf half": (b"p wcnf 2 1 9\n1.5 1 0\n", {}, 2, "expected a whole weight before a clause, got '1.5'"),
    "wcnf exact": (b"h 1 0\n9007199254740993 1 0\n", {}, None, "the weights add up to more than 9007199254740992"),
    "wcnf digits": (b"h 1 0\n99999999999999999999 1 0\n", {}, 2, "expected a whole weight or 'h'"),
    "opb term": (b"min: +1 x1 ;\n+1 x1 + y >= 1 ;\n", {}, 2, "a relation or ';', got '\\+'"),
    "opb name": (b"min: x1 ;\n", {}, 1, "expected a coefficient before 'x1'"),
    "opb factor": (b"min: +1 x1 ;\n+1 x1 +2 >= 1 ;\n", {}, 2, "expected a variable behind 2, got '>='"),
    "opb end": (b"min: +1 x1 ;\n+1 x1 >= 1\n", {}, 2, "expected '>=', '<=' or '=', a number and ';', got '>= 1'"),
    "opb relation": (b"min: +1 x1 ;\n+1 x1 ;\n", {}, 2, "expected '>=', '<=' or '=', a number and ';', got ';'"),
    "opb objective": (b"min: +1 x1 ;\nmin: +1 x1 ;\n", {}, 2, "a second objective"),
    "opb objective end": (b"min: +1 x1 >= 1 ;\n", {}, 1, "expected ';' behind the objective, got '>='"),
    "opb count": (b"* #variable= 1 #constraint= 2\n+1 x1 >= 0 ;\n", {}, 2, "expected 2 constraints .*, got 1"),
    "opb range": (b"* #variable= 1 #constraint= 1\n+1 x2 >= 0 ;\n", {}, None, "expected variables x1..x1 .*, got 'x2'"),
    "opb huge": (b"min: +1 x1 ;\n+99999999999999999999 x1 +1 x2 >= 1 ;\n", {}, None, "must hold|64 bits|too large"),
    "opb soft": (b"soft: x ;\n[1] +1 x1 >= 1 ;\n", {}, 1, "expected 'soft: NUMBER ;', got 'x'"),
    "opb limit": (b"soft: 1 ;\n[1] +1 x1 >= 1 ;\n", {}, None, "must cost less than 1; expected no limit"),
    "opb none": (b"min: ;\n", {}, None, "no variable in the file"),
    "problem": (b"1 2\n", {"problem": "tsp"}, None, "unknown problem 'tsp'; known: "),
    "json": (b'{"format": ', {}, 1, "not valid JSON"),
    "json lines": (csp() + b'\n{"format": }\n', {}, 2, "not valid JSON"),
    "json list": (csp() + b"\n[1]\n", {}, 2, "expected a JSON object, got list"),
    "json format": (b"{}", {}, 1, 'expected "format": "blogdit-csp"'),
    "json version": (csp(version=2), {}, 1, 'expected "version": 1, got 2'),
    "json key": (csp(domain=3), {}, 1, "the instance has no 'domain'"),
    "json key twice": (csp().replace(b"{", b'{"name": "a", "name": "b", ', 1), {}, 1, "has 'name' twice"),
    "json nan": (csp(labels=[float("nan"), 1]), {}, 1, "NaN is not a finite number"),
    "json weights": (
        csp(objective={"sense": "maximize", "unary": [[0, 1]], "unary_weights": ["x"]}), {}, 1, "must hold numbers"
    ),
    "json domains": (csp(domain_sizes=[2, 0]), {}, 1, "domain_sizes must lie in"),
    "json no domains": (csp(domain_sizes=None), {}, 1, "domain_sizes must be a list"),
    "json ragged": (csp(positions=[[0, 1], [2]]), {}, 1, "positions must be a rectangular array"),
    "json kind": (csp(constraints=[{"kind": "magic"}]), {}, 1, "one of all_different, not_equal"),
    "json kind missing": (csp(constraints=[3]), {}, 1, "a constraint must be an object"),
    "json argument": (csp(constraints=[{"kind": "not_equal"}]), {}, 1, "not_equal needs 'pairs'"),
    "json range": (csp(constraints=[{"kind": "not_equal", "pairs": [[0, 2]]}]), {}, 1, "must lie in 0..1, got 2"),
    "json loop": (csp(constraints=[{"kind": "not_equal", "pairs": [[1, 1]]}]), {}, 1, "joins variable 1 with itself"),
    "json givens": (csp(givens=[[0, 5]]), {}, 1, "givens values must lie in 0..1, got 5"),
    "json givens twice": (csp(givens=[[0, 1], [0, 0]]), {}, 1, "givens names a variable twice"),
    "json givens form": (csp(givens=[[0]]), {}, 1, r"givens must be a list of \[variable, value\] pairs"),
    "json givens type": (csp(givens=[["0", 1]]), {}, 1, "givens must hold integers"),
    "json sense": (csp(objective={"sense": "up"}), {}, 1, "sense must be minimize or maximize"),
    "json family": (csp(problem="sudoku"), {}, 1, "a Sudoku has 16, 81"),
    "json other": (csp(problem="csp"), {"problem": "mis"}, 1, "expected mis, got 'csp'"),
    "json sum": (csp(constraints=[{"kind": "sum", "scopes": [[0]], "low": 1}]), {}, 1, "sum low must be a list, got"),
    "json sum key": (csp(constraints=[{"kind": "sum", "scopes": [[0]], "bound": [1]}]), {}, 1, "sum has no 'bound'"),
    "json exactly": (
        csp(constraints=[{"kind": "sum", "scopes": [[0]], "low": [1], "when": [[1, 1]], "exactly": "no"}]), {}, 1,
        "exactly must be true or false, got 'no'",
    ),
    "json function": (
        csp(constraints=[{"kind": "function", "which": 7, "results": [0], "scopes": [[1]]}]), {}, 1,
        "which must be one of min, max, element, got 7",
    ),
    "json weight": (
        csp(constraints=[{"kind": "not_equal", "pairs": [[0, 1]], "weight": 0}]), {}, 1,
        "the weight of not_equal must be above 0, got 0",
    ),
    "json weight text": (
        csp(constraints=[{"kind": "not_equal", "pairs": [[0, 1]], "weight": "much"}]), {}, 1,
        "the weight of not_equal must hold numbers",
    ),
    "json values": (csp(values=[["a"], ["a", "b"]]), {}, 1, "1 names for the 2 values of variable 0"),
    "json values form": (csp(values="ab"), {}, 1, "values must be a list, got str"),
    "json names": (
        csp(values=["a", "b"], constraints=[{"kind": "sum", "scopes": [[0]], "low": [1]}]), {}, 1,
        "sum needs whole numbers, got 'a' among the values of variable 0",
    ),
    "json derived": (csp(derived=[[0, 0, 0]]), {}, 1, "derived variable 0 names constraint 0 of group 0, which is not"),
    "json deep": (b'{"a":' * 20_000, {}, 1, "not valid JSON"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_the_error_names_file_line_and_what_was_expected(tmp_path, capsys, name):
    content, options, line, message = BAD[name]
    path = tmp_path / "bad.txt"
    path.write_bytes(content)
    with pytest.raises(InputError, match=message) as caught:
        formats.read(path, **options)
    assert "\n" not in str(caught.value)
    if not name.startswith(("k =", "problem")):
        assert str(caught.value).startswith(f"{path}:" if line is None else f"{path}:{line}: ")
    command = ["verify", str(path), str(path)] + [f"--{key}={value}" for key, value in options.items()]
    assert run(command) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err == f"blogdit: {caught.value}\n"


def test_not_a_file(tmp_path):
    with pytest.raises(InputError, match="is a directory; expected a file"):
        formats.read(tmp_path)
    with pytest.raises(InputError, match="no such file"):
        formats.read(tmp_path / "nothing.txt")
    with pytest.raises(InputError, match="no such file"):
        formats.read_solutions(tmp_path / "nothing.txt", [])


def test_a_pipe_is_as_good_as_a_file(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for content in (NINE.encode(), gzip.compress(NINE.encode()), lzma.compress(NINE.encode())):
        writer = threading.Thread(target=pipe.write_bytes, args=(content,))
        writer.start()
        assert sudoku.text(formats.read(pipe)[0]) == NINE
        writer.join()


@pytest.mark.parametrize(("suffix", "content"), [
    (".graphml", b"<graphml><graph>"), (".gml", b"graph ["), (".g6", b"~~~~~~~~"), (".s6", b":~~~~~~~~~~"),
    (".net", b"*vertices 5\n1 a\n"), (".g6", b"\xff\xfe"),
])  # fmt: skip
def test_damaged_files_of_other_graph_formats(tmp_path, suffix, content):
    path = tmp_path / f"bad{suffix}"
    path.write_bytes(content)
    with pytest.raises(InputError) as caught:
        formats.read(path, problem="mis")
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "empty file; expected solutions"),
        (b"0 1\n", "expected 3 values for g, got 2"),
        (b"0 1 x\n", ":1: expected whole numbers, got '0 1 x'"),
        (b"0 1 99999999999999999999\n", "does not fit 64 bits"),
        (b'{"values": [0, 1]}\n', "expected 3 values for g, got 2"),
        (b'{"values": [0, 1, 0.5]}\n', ":1: values must hold integers"),
        (b'{"values": null}\n', ":1: values must"),
        (b'{"instance": "g"}\n', ":1: values must"),
        (b'{"values": [0, 1, 0]}\n{"values": [0, 1, 0]}\n', "expected 1 solutions, got 2"),
        (b"\x00\x01", "binary"),
    ],
)
def test_bad_solution_files(tmp_path, content, message):
    path = tmp_path / "solution"
    path.write_bytes(content)
    graph = formats.read(_write(tmp_path / "g.gset", b"3 1\n1 2 1\n"))
    with pytest.raises(InputError, match=message):
        formats.read_solutions(path, graph)


def _write(path, content):
    path.write_bytes(content)
    return path


# --- every mutation of a valid file is read as a valid instance or refused with the one error -------------------

MUTATIONS_EACH = 300
KINDS = ["lines", "csv", "grid", "col", "weighted col", "gset", "edges", "json", "all kinds", "gz", "xz", "g6", "gml"]
KINDS += ["latin", "forced latin", "qubo", "ising", "npz", "cnf", "wcnf", "opb", "wbo", "lp", "mps"]
assert MUTATIONS_EACH * len(KINDS) >= 2000
FRAGMENTS = b"-1 0 99 999999999 1e400 nan NaN , \xff \0 { } [ ] null true . # | 0.5".split(b" ")
FRAGMENTS += [b"\n", b" ", b'"', b"e 1 1\n", b"p edge 3 3\n", b"1 2 3\n"]


def valid_file(kind: str, folder) -> tuple[str, bytes, dict]:
    """(file name, content, options to read it)"""
    puzzles = generate("sudoku", 2, seed=3)
    if kind == "csv":
        return "p.csv", f"puzzle,solution\n{NINE},{SOLVED}\n{NINE},{SOLVED}\n".encode(), {}
    if kind == "grid":
        return "p.txt", sudoku.render(puzzles[0]).encode(), {}
    if kind == "all kinds":
        from test_formats import EVERYTHING

        formats.write([EVERYTHING, *puzzles], folder / "p.jsonl")
        return "p.jsonl", (folder / "p.jsonl").read_bytes(), {}
    if kind == "cnf":
        return "p.cnf", b"c small\np cnf 5 5\n1 -2 0\n2 3 -4 0\n-1 0\n4 5 0\n-3 -5 0\n", {}
    if kind == "opb":
        terms = b"+2 x1 -1 ~x2 >= 1 ;\n+1 x1 x2 +1 x3 = 1 ;\n-3 x4 +1 x5 +1 x6 >= -2 ;\n+1 x3 +1 x6 <= 1 ;\n"
        return "p.opb", b"* #variable= 6 #constraint= 4\nmin: +1 x1 -2 x2 +4 x5 x6 ;\n" + terms, {}
    if kind == "wbo":
        return "p.wbo", b"soft: ;\n[3] +2 x1 -1 ~x2 >= 1 ;\n+1 x1 x2 +1 x3 = 1 ;\n[12] +1 x3 +1 x2 <= 1 ;\n", {}
    if kind in ("lp", "mps"):
        from test_formats_linear import LP, MPS

        return f"p.{kind}", (LP if kind == "lp" else MPS).encode(), {}
    if kind == "g6":
        return "p.g6", nx.to_graph6_bytes(nx.petersen_graph()), {"problem": "maxcut"}
    if kind == "gml":
        return "p.gml", "\n".join(nx.generate_gml(nx.path_graph(4))).encode(), {"problem": "maxcut"}
    problem, name, settings, options = {
        "lines": ("sudoku", "p.txt", {}, {}),
        "col": ("coloring", "p.col", {"vertices": 12, "p_min": 0.2}, {}),
        "weighted col": ("mis", "p.col", {"weighted": True}, {}),
        "gset": ("maxcut", "p.gset", {"vertices": 12, "p_min": 0.2, "weights": "normal"}, {}),
        "edges": ("coloring", "p.edges", {"vertices": 12, "p_min": 0.5, "p_max": 0.6}, {"problem": "mis"}),
        "json": ("coloring", "p.json", {"vertices": 6, "p_min": 0.2}, {}),
        "latin": ("latin", "p.txt", {"order": 5}, {}),
        "forced latin": ("latin", "p.latin", {"order": 3}, {"problem": "latin"}),
        "qubo": ("qubo", "p.qubo", {"variables": 12}, {}),
        "wcnf": ("qubo", "p.wcnf", {"variables": 6}, {}),
        "ising": ("qubo", "p.ising", {"variables": 12}, {}),
        "npz": ("maxcut", "p.npz", {"vertices": 12, "p_min": 0.2, "weights": "normal"}, {"problem": "maxcut"}),
        "gz": ("maxcut", "p.gset.gz", {"vertices": 12, "p_min": 0.2}, {}),
        "xz": ("sudoku", "p.txt.xz", {}, {}),
    }[kind]
    formats.write(generate(problem, 1, seed=3, **settings), folder / name)
    return name, (folder / name).read_bytes(), options


def mutate(content: bytes, chance: random.Random) -> bytes:
    data = bytearray(content)
    for _ in range(chance.choice([1, 1, 1, 2, 5])):
        at = chance.randrange(len(data) + 1)
        end = min(len(data), at + chance.choice([1, 1, 2, 8, 40]))
        kind = chance.randrange(6)
        if kind == 0:
            del data[at:end]
        elif kind == 1:
            data[at:end] = bytes(chance.randrange(256) for _ in range(end - at))
        elif kind == 2:
            data[at:at] = data[at:end]
        elif kind == 3:
            del data[at:]
        elif kind == 4:
            data[at:end] = chance.choice(FRAGMENTS)
        else:
            data[at:at] = chance.choice(FRAGMENTS)
    return bytes(data)


@pytest.mark.parametrize("kind", KINDS)
def test_mutated_files(tmp_path, kind):
    name, content, options = valid_file(kind, tmp_path)
    path = tmp_path / name
    path.write_bytes(content)
    assert formats.read(path, **options), "the file is valid before it is mutated"
    refused = 0
    for seed in range(MUTATIONS_EACH):
        mutant = mutate(content, random.Random(f"{kind} {seed}"))
        path.write_bytes(mutant)
        try:
            instances, message = formats.read(path, **options), None
        except InputError as error:
            instances, message = [], str(error)
        if message is not None:
            refused += 1
            assert message.startswith(str(path)), (seed, message)
            assert "\n" not in message, (seed, message)
        for instance in instances:
            verdict = instance.verify(np.zeros(instance.size, np.int64))
            assert verdict.violated == len(list(verdict.violations())), seed
    assert refused > MUTATIONS_EACH // 10, "mutations that do no harm test nothing"
