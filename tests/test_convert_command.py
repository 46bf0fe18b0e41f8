"""`blogdit convert`, and pipes."""

from __future__ import annotations

import gzip
import sys

import pytest

from blogdit import formats
from blogdit.cli.app import run
from blogdit.core.constraints import Sum
from blogdit.core.instance import Instance
from blogdit.problems import generate
from test_formats import NINE, SOLVED, same


@pytest.fixture
def stdin(tmp_path, monkeypatch):
    """Makes bytes the standard input."""

    def give(content: bytes) -> None:
        path = tmp_path / "stdin"
        path.write_bytes(content)
        monkeypatch.setattr(sys, "stdin", path.open())

    return give


@pytest.mark.parametrize(
    ("problem", "first", "second", "options"),
    [
        ("coloring", "a.col", "b.json", []),
        ("coloring", "a.json", "b.edges", ["--colors", "5", "--problem", "coloring"]),
        ("maxcut", "a.gset", "b.npz", ["--problem", "maxcut"]),
        ("mis", "a.jsonl", "b.col.gz", []),
        ("qubo", "a.qubo", "b.ising", []),
        ("sudoku", "a.txt", "b.jsonl", []),
        ("pseudo-boolean", "a.opb", "b.json", []),
    ],
)
def test_there_and_back_again(tmp_path, problem, first, second, options):
    settings = {"p_min": 0.3, "p_max": 0.4} if problem == "coloring" else {}
    if problem == "pseudo-boolean":
        instance = Instance([2, 2, 2], (Sum([[0, 1, 2]], [[3, -1, 2]], [[1, 0, 1]], [2], [2]),), problem=problem)
    else:
        (instance,) = generate(problem, 1, seed=2, **settings)
    formats.write(instance, tmp_path / first)
    back = tmp_path / f"c{''.join((tmp_path / first).suffixes)}"
    assert run(["convert", str(tmp_path / first), str(tmp_path / second)]) == 0
    assert run(["convert", str(tmp_path / second), str(back), *options]) == 0
    assert same(formats.read(back)[0], instance)


def test_a_cut_becomes_a_qubo(tmp_path):
    formats.write(generate("maxcut", 1, vertices=6), tmp_path / "cut.gset")
    assert run(["convert", str(tmp_path / "cut.gset"), str(tmp_path / "cut.qubo")]) == 0
    (instance,) = formats.read(tmp_path / "cut.qubo")
    assert (instance.problem, instance.size) == ("qubo", 7)


def test_a_folder_gets_a_file_for_each(tmp_path):
    (tmp_path / "p.txt").write_text(f"{NINE}\n{SOLVED}\n")
    assert run(["convert", str(tmp_path / "p.txt"), str(tmp_path / "each")]) == 0
    assert sorted(path.name for path in (tmp_path / "each").iterdir()) == ["p-1.txt", "p-2.txt"]


def test_pipes(stdin, capsys):
    stdin(NINE.encode())
    assert run(["convert", "-", "-", "--to", "json"]) == 0
    text = capsys.readouterr().out
    assert '"name":"stdin"' in text
    stdin(gzip.compress(text.encode()))
    assert run(["convert", "-", "-"]) == 0
    assert capsys.readouterr().out == NINE + "\n"


def test_verify_and_solve_read_standard_input(stdin, tmp_path, capsys, any_model):
    (tmp_path / "p.txt").write_text(f"{NINE}\n")
    stdin(SOLVED.encode())
    assert run(["verify", str(tmp_path / "p.txt"), "-"]) == 0
    stdin(NINE.encode())
    (tmp_path / "s.txt").write_text(SOLVED)
    assert run(["verify", "-", str(tmp_path / "s.txt")]) == 0
    assert capsys.readouterr().out == "p: valid\nstdin: valid\n"
    stdin(b"p edge 3 1\ne 1 2\n")
    solve = ["solve", "-", "--colors", "2", "--model", str(any_model), "--device", "cpu", "--steps", "3", "--json"]
    assert run(solve) == 0
    assert '"instance": "stdin"' in capsys.readouterr().out


def test_errors_name_standard_input_and_its_line(stdin, capsys):
    stdin(b"3 2\n1 2 1\n2 2 1\n")
    assert run(["convert", "-", "-"]) == 2
    assert capsys.readouterr().err == "blogdit: <stdin>:3: self-loop 2 2; expected two different vertices\n"
    stdin(b"")
    assert run(["convert", "-", "-"]) == 2
    assert capsys.readouterr().err == "blogdit: <stdin>: empty file; expected an instance\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["g.gset", "g.lp"], "g.lp: no format is written as .lp; expected --to, or .json"),
        (["g.gset", "g.cnf"], "g.cnf: a cnf file has no objective; use .wcnf"),
        (["g.gset", "g.col"], "g.col: a col file has no place for weights of edges"),
        (["g.gset", "g.json", "--to", "lp"], "unknown format 'lp'; expected one of sudoku, json, latin, col"),
        (["g.gset", "-", "--to", "npz"], "a sparse matrix is no text; expected a file instead of standard output"),
        (["g.gset", "g.gset"], "g.gset: exists already; expected another file"),
        (["none.gset", "h.gset"], "none.gset: no such file"),
    ],
)
def test_what_cannot_be_converted(tmp_path, monkeypatch, capsys, arguments, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "g.gset").write_text("3 2\n1 2 1\n2 3 -1\n")
    assert run(["convert", *arguments]) == 2
    assert capsys.readouterr().err.startswith(f"blogdit: {message}")
    assert [path.name for path in tmp_path.iterdir()] == ["g.gset"]
