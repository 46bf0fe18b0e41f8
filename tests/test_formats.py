"""Each format: what a file means, and that what is written is read back."""

from __future__ import annotations

import gzip
import lzma

import networkx as nx
import numpy as np
import pytest

from blogdit import formats
from blogdit.core.constraints import AllDifferent, Conflict, Count, Function, Linear, NotEqual, Sum, Table
from blogdit.core.errors import InputError
from blogdit.core.instance import Instance, Objective
from blogdit.core.result import Result
from blogdit.problems import coloring, generate, maxcut, mis, sudoku
from blogdit.problems.graphs import Graph

NINE = "53..7....6..195....98....6.8...6...34..8.3..17...2...6.6....28....419..5....8..79"
SOLVED = "534678912672195348198342567859761423426853791713924856961537284287419635345286179"


@pytest.fixture
def file(tmp_path):
    def make(text: str, name: str = "file.txt"):
        path = tmp_path / name
        path.write_text(text)
        return path

    return make


def same(first: Instance, second: Instance) -> bool:
    return formats.to_json(first) | {"name": "", "labels": 0} == formats.to_json(second) | {"name": "", "labels": 0}


def grid(text: str, apart: str = "", between: str = "", rule: str = "") -> str:
    rows = [text[i : i + 9] for i in range(0, 81, 9)]
    lines = [between.join(apart.join(row[i : i + 3]) for i in (0, 3, 6)) for row in rows]
    return "\n".join(line for i, row in enumerate(lines) for line in ([rule, row] if rule and i % 3 == 0 else [row]))


@pytest.mark.parametrize(
    "text",
    [
        NINE,
        NINE.replace(".", "0") + "\n\n",
        f"# a comment\n{NINE}\n",
        f"{NINE},{SOLVED}\n",
        f"puzzle,solution\r\n{NINE},{SOLVED}\r\n",
        grid(NINE),
        grid(NINE, " ", " "),
        grid(NINE, "", "|", "---+---+---"),
        grid(NINE, " ", " | ", "------+-------+------"),
        sudoku.render(sudoku.build(NINE)),
        "\ufeff" + NINE,
    ],
)
def test_sudoku_texts_of_one_puzzle(file, text):
    (instance,) = formats.read(file(text))
    assert sudoku.text(instance) == NINE
    assert instance.problem == "sudoku"


def test_sudoku_lines_have_names_with_their_line(file):
    instances = formats.read(file(f"{NINE}\n\n{SOLVED}\n", "hard.txt"))
    assert [instance.name for instance in instances] == ["hard:1", "hard:3"]
    assert formats.read(file(NINE, "one.txt"))[0].name == "one"


def test_sudoku_sizes_in_text(file):
    small = [sudoku.text(i) for i in generate("sudoku", 2, box=2, min_givens=6, max_givens=6)]
    assert [sudoku.text(i) for i in formats.read(file("\n".join(small)))] == small
    (large,) = generate("sudoku", 1, box=4, min_givens=200, max_givens=200)
    text = sudoku.text(large)
    rows = "\n".join(text[i : i + 16] for i in range(0, 256, 16))
    for form in (text, text.lower(), rows, sudoku.render(large)):
        assert [sudoku.text(i) for i in formats.read(file(form))] == [text]
    sixteen_small = "\n".join(["1234341221434321"] * 16)
    assert len(formats.read(file(sixteen_small))) == 16, "16 lines of digits up to 4 are 16 small puzzles"


def test_the_largest_boards_in_text(file):
    (puzzle,) = generate("sudoku", 1, seed=1, box=5)
    text = sudoku.text(puzzle)
    rows = "\n".join(text[i : i + 25] for i in range(0, 625, 25))
    for form in (text, text.lower(), rows, rows.replace(".", "0"), sudoku.render(puzzle)):
        assert [sudoku.text(i) for i in formats.read(file(form))] == [text]


def test_puzzles_of_several_sizes_go_into_json_lines(tmp_path):
    puzzles = generate("sudoku", 6, box="2-3")
    assert len({puzzle.size for puzzle in puzzles}) == 2
    formats.write(puzzles, tmp_path / "p.txt")
    assert [sudoku.text(i) for i in formats.read(tmp_path / "p.txt")] == [*map(sudoku.text, puzzles)]


def test_stream_reads_no_further_than_asked(file):
    stream = formats.stream(file(f"{NINE}\n{SOLVED}\n" + f"{NINE}\n" * 100 + "garbage\n"))
    assert [next(stream).size, next(stream).size] == [81, 81]
    with pytest.raises(InputError, match=":103: "):
        list(stream)


def test_dimacs(file):
    path = file("c a path\np edge 4 2\ne 1 2\ne 3 2\n", "path.col")
    (instance,) = formats.read(path, colors=3)
    assert same(instance, coloring.build((4, [[0, 1], [1, 2]]), 3))
    assert (instance.name, instance.labels[0], instance.labels[-1]) == ("path", 1, 4)
    assert same(formats.read(path, problem="mis")[0], mis.build((4, [[0, 1], [1, 2]])))
    assert same(formats.read(path, problem="maxcut")[0], maxcut.build((4, [[0, 1], [1, 2]])))


def test_dimacs_variants(file):
    """Edges given both ways, counted either way; 'p col'; vertex weights."""
    for count in (1, 2):
        (instance,) = formats.read(file(f"p col 2 {count}\ne 1 2\ne 2 1\n"), colors=2)
        assert len(instance.constraints[0]) == 1
    (weighted,) = formats.read(file("p edge 2 1\nn 2 7.5\ne 1 2\n"), problem="mis")
    assert weighted.objective.unary_weights.tolist() == [1, 7.5]


def test_gset(file):
    path = file("3 3\n1 2 1\n2 3 -1\n3 2 0.5\n", "G.txt")
    (instance,) = formats.read(path)
    assert same(instance, maxcut.build((3, [[0, 1], [1, 2]], [1, -0.5]))), "weights of a repeated edge add up"
    assert same(formats.read(path, problem="coloring", colors=2)[0], coloring.build((3, [[0, 1], [1, 2]]), 2))


def test_edge_lists(file):
    (instance,) = formats.read(file("# source target\n10 20\n20 30\n20 10\n"), problem="mis")
    assert instance.labels == (10, 20, 30)
    assert same(instance, mis.build((3, [[0, 1], [1, 2]])))
    (weighted,) = formats.read(file("0 1 2.5\n1 2 -1\n"), problem="maxcut")
    assert weighted.labels is None
    assert same(weighted, maxcut.build((3, [[0, 1], [1, 2]], [2.5, -1])))


@pytest.mark.parametrize("suffix", [".graphml", ".gml", ".g6", ".s6", ".net", ".graphml.xz", ".g6.gz"])
def test_graph_formats_of_networkx(tmp_path, suffix):
    source = nx.petersen_graph()
    plain = tmp_path / ("petersen." + suffix.split(".")[1])
    writers = {".gml": nx.write_gml, ".g6": nx.write_graph6, ".s6": nx.write_sparse6, ".net": nx.write_pajek}
    writers.get(plain.suffix, nx.write_graphml)(source, plain)
    path = tmp_path / f"petersen{suffix}"
    data = plain.read_bytes()
    path.write_bytes({"gz": gzip.compress, "xz": lzma.compress}.get(suffix.split(".")[-1], bytes)(data))
    (instance,) = formats.read(path, problem="coloring", colors=3)
    assert instance.name == "petersen"
    assert len(instance.constraints[0]) == 15
    names = instance.labels or range(10)
    for i, j in instance.constraints[0].pairs:
        assert source.has_edge(int(names[i]), int(names[j]))


EVERYTHING = Instance(
    np.array([3, 3, 4, 2, 5]),
    (
        AllDifferent([[0, 1, 2], [2, 3]]),
        AllDifferent([[0, 1], [1, 2, 3]], [[0, 1], [2, -2, 0]]),
        NotEqual([[0, 1]]),
        Conflict([[0, 1], [2, 3]], [[0, 1], [3, 1]]),
        Linear([[0, 1], [2]], [[1, -2], [3]], ["<=", "="], [4, 6]),
        Count([[0, 1, 2]], [1], [0], [2]),
        Sum([[0, 1, 1], [2]], [[1, -2, 3], [1]], [[-1, 2, -1], [3]], [0, None], [None, 1], [[3, 1], [0, 2, 0]], True),
        Sum([[0, 1, 4]], [[1, 1, -1]], low=[1], high=[1]),
        Function("max", [2], [[0, 1]]),
        Function("element", [0], [[3, 1, 2]]),
        Table([[0, 3]], [[0, 1], [2, 0]]),
    ),
    Objective(
        "minimize",
        [[0, 1]],
        [0.5],
        [[0, 1]],
        [-1],
        [[0, 3, 2, 1]],
        [3],
        [2, 0],
        [0.25, -1],
        [(NotEqual([[0, 1]]), 2.5), (Sum([[0, 2], [1, 2]], high=[12, 13]), [1, 3])],
    ),
    givens={2: 3},
    problem="timetable",
    name="everything",
    positions=[[0, 0], [0, 1], [1, 0], [1, 1], [2, 0]],
    labels=("a", "b", 3, ("d", "e"), "total"),
    values=[[5, 6, 7], [5, 6, 7], [8, 10, 12, 16], [0, 1], [9, 10, 11, 12, 13]],
    derived=[(4, 7, 0)],
)


@pytest.mark.parametrize("name", ["a.json", "a.jsonl", "a.json.gz", "a.jsonl.xz"])
def test_json_holds_any_instance(tmp_path, name):
    path = tmp_path / name
    formats.write([EVERYTHING], path)
    (read,) = formats.read(path)
    assert formats.to_json(read) == formats.to_json(EVERYTHING)
    rng = np.random.default_rng(0)
    for values in rng.integers(-1, 5, size=(50, 5)):
        assert [*read.verify(values).violations()] == [*EVERYTHING.verify(values).violations()]
        assert read.verify(values).objective == EVERYTHING.verify(values).objective


def test_json_over_several_lines(file):
    (instance,) = formats.read(
        file('{\n  "format": "blogdit-csp",\n  "version": 1,\n  "domain_sizes": [2, 2],\n'
             '  "constraints": [{"kind": "not_equal", "pairs": [[0, 1]]}]\n}\n', "pretty.json")
    )  # fmt: skip
    assert instance.name == "pretty"
    assert not instance.verify([1, 1]).satisfied


def test_json_of_a_sudoku_shares_the_common_arrays(tmp_path):
    puzzles = generate("sudoku", 2)
    formats.write(puzzles, tmp_path / "p.jsonl")
    for read, puzzle in zip(formats.read(tmp_path / "p.jsonl"), puzzles, strict=True):
        assert sudoku.text(read) == sudoku.text(puzzle)
        assert read.constraints[0] is puzzle.constraints[0]


@pytest.mark.parametrize("compression", ["", ".gz", ".xz"])
@pytest.mark.parametrize(
    ("problem", "settings", "suffix"),
    [
        ("sudoku", {}, ".txt"),
        ("sudoku", {"box": 2, "min_givens": 5, "max_givens": 8}, ".sdk"),
        ("sudoku", {}, ".jsonl"),
        ("sudoku", {"box": 5}, ".txt"),
        ("latin", {"order": 12}, ".latin"),
        ("latin", {"order": 4}, ".txt"),
        ("latin", {"order": 5}, ".jsonl"),
        ("coloring", {}, ".col"),
        ("coloring", {}, ".txt"),
        ("coloring", {"vertices": 30, "p_min": 0.3, "p_max": 0.4}, ".edges"),
        ("coloring", {}, ".json"),
        ("maxcut", {}, ".gset"),
        ("maxcut", {"weights": "normal"}, ".txt"),
        ("maxcut", {"weights": "signs", "p_min": 0.3}, ".edges"),
        ("maxcut", {"weights": "normal"}, ".json"),
        ("mis", {}, ".col"),
        ("mis", {"weighted": True}, ".col"),
        ("mis", {"weighted": True}, ".jsonl"),
        ("qubo", {}, ".qubo"),
        ("qubo", {"variables": 5}, ".txt"),
        ("qubo", {}, ".ising"),
        ("qubo", {}, ".json"),
    ],
)
def test_round_trip(tmp_path, problem, settings, suffix, compression):
    """Written and read back, an instance is the same; the hint in our .col files tells problem and colours."""
    instances = generate(problem, 1, seed=11, **settings)
    path = tmp_path / f"x{suffix}{compression}"
    formats.write(instances, path)
    needed = {"problem": problem, "colors": 5} if suffix == ".edges" else {}
    read = formats.read(path, **needed)
    assert [same(a, b) for a, b in zip(read, instances, strict=True)] == [True]
    first = path.read_bytes()
    formats.write(instances, path)
    assert path.read_bytes() == first, "the same instances give the same bytes"


def test_several_graphs_go_into_json_lines(tmp_path):
    graphs = generate("mis", 2)
    formats.write(graphs, tmp_path / "many.txt")
    assert [same(a, b) for a, b in zip(formats.read(tmp_path / "many.txt"), graphs, strict=True)] == [True, True]


@pytest.mark.parametrize(
    ("instances", "name", "message"),
    [
        (generate("mis", 2), "a.col", "holds one instance, got 2"),
        ([mis.build((3, [[0, 1]]))], "a.edges", "cannot hold a vertex without edges"),
        ([maxcut.build((3, []))], "a.gset", "needs an edge"),
        ([maxcut.build(Graph(2, np.array([[0, 1]]), np.array([5.0])))], "a.col", "no place for weights of edges"),
        *(
            (
                [mis.build(Graph(2, np.array([[0, 1]]), vertex_weights=np.array([1.0, 7.0])))],
                name,
                "weights of vertices",
            )
            for name in ("a.gset", "a.edges")
        ),
        (generate("sudoku", 1), "a.col", "holds a graph and nothing else"),
        (generate("latin", 1, order=4), "a.gset", "holds a graph and nothing else"),
        (generate("sudoku", 1), "a.latin", "latin has one all_different group"),
        ([EVERYTHING], "missing/a.json", "cannot be written: No such file"),
    ],
)
def test_what_cannot_be_written(tmp_path, instances, name, message):
    with pytest.raises(InputError, match=message):
        formats.write(instances, tmp_path / name)
    assert not (tmp_path / name).exists()


def test_one_instance_is_written_as_a_list_of_one(tmp_path):
    (graph,) = generate("mis", 1)
    formats.write(graph, tmp_path / "one.json")
    assert same(formats.read(tmp_path / "one.json")[0], graph)
    with pytest.raises(InputError, match="expected instances, and then a path; got str"):
        formats.write("one.json", graph)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("5 4\n1 2\n2 3\n3 4\n4 5\n", "g.edges:1: reads like 'VERTICES EDGES' and like an edge"),
        ("# a graph\n4 2\n1 2\n2 3\n", "g.edges:2: reads like 'VERTICES EDGES' and like an edge"),
        ("4 4\n1 2\n2 3\n3 4\n4 5\n", "g.edges:1: self-loop 4 4"),  # vertex 5 is beyond four
    ],
)
def test_counts_in_front_of_an_edge_list_are_not_taken_for_an_edge(tmp_path, text, message):
    with pytest.raises(InputError, match=message):
        formats.read(_write(tmp_path / "g.edges", text), "mis")


@pytest.mark.parametrize("text", ["5 3\n1 2\n2 3\n3 4\n4 5\n", "1 2\n2 3\n3 4\n", "1 2\n"])
def test_edges_that_cannot_be_counts_are_edges(tmp_path, text):
    (graph,) = formats.read(_write(tmp_path / "g.edges", text), "mis")
    assert graph.size == len({*text.split()})


def test_solutions_round_trip(tmp_path):
    puzzles = formats.read(_write(tmp_path / "p.txt", f"{NINE}\n{SOLVED}\n"))
    values = sudoku.parse(SOLVED) - 1
    formats.write_solutions([Result(puzzle, values) for puzzle in puzzles], tmp_path / "s.jsonl.gz")
    for read in formats.read_solutions(tmp_path / "s.jsonl.gz", puzzles):
        assert read.tolist() == values.tolist()
    graph = coloring.build((3, [[0, 1]]), 2, name="g")
    formats.write_solutions([Result(graph, [0, 1, 1])], tmp_path / "g.jsonl")
    assert formats.read_solutions(tmp_path / "g.jsonl", [graph])[0].tolist() == [0, 1, 1]


def _write(path, text):
    path.write_text(text)
    return path


@pytest.mark.parametrize("text", [SOLVED, f"{NINE},{SOLVED}", grid(SOLVED), f'{{"values": "{SOLVED}"}}'])
def test_sudoku_solution_texts(file, text):
    (values,) = formats.read_solutions(file(text), [sudoku.build(NINE)])
    assert sudoku.build(NINE).verify(values).satisfied


@pytest.mark.parametrize("text", ["0 1 0", "0\n1\n0\n", "# sides\n0 1 0\n", '{"values": [0, 1, 0]}'])
def test_graph_solution_texts(file, text):
    (values,) = formats.read_solutions(file(text), [maxcut.build((3, [[0, 1]]))])
    assert values.tolist() == [0, 1, 0]


def test_solutions_are_matched_by_name_or_order(file):
    graphs = [maxcut.build((2, [[0, 1]]), name=name) for name in "ab"]
    named = file('{"instance": "b", "values": [1, 1]}\n{"instance": "a", "values": [0, 0]}\n')
    assert [v.tolist() for v in formats.read_solutions(named, graphs)] == [[0, 0], [1, 1]]
    other = file('{"instance": "x", "values": [1, 1]}\n{"instance": "y", "values": [0, 0]}\n')
    with pytest.raises(InputError, match="no solution for instance 'a'"):
        formats.read_solutions(other, graphs)
    nameless = file('{"values": [1, 1]}\n{"instance": "", "values": [0, 0]}\n')
    assert [v.tolist() for v in formats.read_solutions(nameless, graphs)] == [[1, 1], [0, 0]]
    assert [v.tolist() for v in formats.read_solutions(file("1 0\n0 1\n"), graphs)] == [[1, 0], [0, 1]]


def test_a_million_edges_are_read_as_written(tmp_path):
    """Large files go through a parser of their own, block by block; it must agree with the numbers in the file."""
    rng = np.random.default_rng(0)
    vertices, edges = 200_000, 1_000_000
    first = rng.integers(1, vertices, edges)
    second = first + rng.integers(1, vertices - first + 1)
    rows = np.stack([first, second, rng.choice([-1, 1], edges)], axis=1)
    path = tmp_path / "large.txt"
    np.savetxt(path, rows, "%d", header=f"{vertices} {edges}", comments="")
    (instance,) = formats.read(path)
    values = rng.integers(0, 2, vertices)
    cut = rows[values[first - 1] != values[second - 1], 2].sum()
    assert instance.size == vertices
    assert instance.verify(values).objective == cut
