"""Files people already have: recognised by content, read as instances, written back.

`docs/formats.md` describes each format. A new one is a module here and a branch in `_stream` (and in `write`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np

from blogdit.core.arrays import whole_number
from blogdit.core.errors import InputError
from blogdit.core.instance import Instance
from blogdit.formats import graph_text
from blogdit.formats.adjacency import read_npz, write_npz
from blogdit.formats.cnf_text import cnf_lines, looks_like_cnf, read_cnf, wcnf_lines
from blogdit.formats.json_text import from_json, holds_json_lines, looks_like_json, read_json, to_json, write_json
from blogdit.formats.latin_text import count_squares, looks_like_latin, read_latin, write_latin
from blogdit.formats.limits import Limits
from blogdit.formats.lp_text import looks_like_lp, read_lp
from blogdit.formats.mps_text import looks_like_mps, read_mps
from blogdit.formats.opb_text import looks_like_opb, opb_lines, read_opb
from blogdit.formats.qubo_text import looks_like_qubo, read_qubo, write_ising, write_qubo
from blogdit.formats.solutions import read_solutions, record, write_solutions
from blogdit.formats.sudoku_text import holds_puzzle_lines, looks_like_sudoku, read_sudoku, write_sudoku
from blogdit.formats.text import Lines, OnError, create_text, open_lines, plain_stem, plain_suffix
from blogdit.problems import families, family, qubo
from blogdit.problems.base import Family
from blogdit.problems.graphs import Graph

__all__ = [
    "count",
    "from_graph",
    "from_json",
    "native_suffix",
    "read",
    "read_solutions",
    "record",
    "stream",
    "to_json",
    "write",
    "write_solutions",
]

WRITERS = {
    **{".json": "json", ".jsonl": "json", ".latin": "latin", ".col": "col", ".gset": "gset", ".edges": "edges"},
    **{".npz": "npz", ".qubo": "qubo", ".ising": "ising", ".cnf": "cnf", ".wcnf": "wcnf", ".opb": "opb", ".wbo": "opb"},
}
NATIVE = {
    **{"sudoku": "sudoku", "latin": "latin", "coloring": "col", "mis": "col", "maxcut": "gset", "qubo": "qubo"},
    **{"sat": "cnf", "maxsat": "wcnf", "pseudo-boolean": "opb"},
}
SUFFIXES = {"sudoku": ".txt"}  # of formats whose suffix is not their name
FORMS = ("sudoku", *dict.fromkeys(WRITERS.values()))
OF_MANY = ("json", "sudoku", "latin")  # formats that hold any number of instances, and no graph
QUADRATIC = {"qubo": write_qubo, "ising": write_ising}
BOOLEAN = {"cnf": cnf_lines, "wcnf": wcnf_lines, "opb": opb_lines}
READERS = {"qubo": read_qubo, "cnf": read_cnf, "wcnf": read_cnf, "opb": read_opb, "lp": read_lp, "mps": read_mps}
LONGEST_PREAMBLE = 1 << 14  # lines of comments that are looked at to recognise a file by what follows them


def read(
    path: str | Path, problem: str | None = None, colors: int | None = None, limits: Limits | None = None
) -> list[Instance]:
    """Every instance in a file. `problem` forces a family; colouring a graph needs the number of `colors`. `limits` are
    what one instance may ask for."""
    return list(stream(path, problem, colors, limits=limits))


def stream(
    path: str | Path,
    problem: str | None = None,
    colors: int | None = None,
    name: str | None = None,
    on_error: OnError | None = None,
    limits: Limits | None = None,
) -> Iterator[Instance]:
    """The instances of a file one by one, so that a big file needs little memory.

    They are called `name` (that of the file, if not given), with the line where a file holds several. With `on_error`,
    what is wrong with the file is reported there instead of raised; of a file with an instance per line, only the bad
    lines are left out.
    """
    try:
        forced = None if problem is None else family(problem)
        colors = None if colors is None else whole_number(colors, "colors", 1)
    except ValueError as error:
        raise InputError(str(error)) from None
    try:
        found = plain_stem(path) if name is None else name
        yield from _stream(Path(path), forced, colors, found, on_error, limits or Limits())
    except InputError as error:
        if on_error is None:
            raise
        on_error(error)


def _stream(
    path: Path, forced: Family | None, colors: int | None, name: str, on_error: OnError | None, limits: Limits
) -> Iterator[Instance]:
    suffix = plain_suffix(path)
    if suffix == ".npz":
        yield from_graph(read_npz(path, limits), forced, colors, name, path)
        return
    with open_lines(path, limits) as lines:
        for instance in _of_lines(lines, suffix, forced, colors, name, on_error):
            lines.begin_instance()
            yield instance


def _of_lines(
    lines: Lines, suffix: str, forced: Family | None, colors: int | None, name: str, on_error: OnError | None
) -> Iterator[Instance]:
    start = _start(lines)
    if not any(line.strip() for line in start):
        raise InputError("empty file; expected an instance", lines.path)
    if suffix in graph_text.NETWORKX_SUFFIXES:
        for index, graph in enumerate(graph_text.read_with_networkx(lines, suffix)):
            yield from_graph(graph, forced, colors, f"{name}:{index + 1}" if index else name, lines.path)
    elif looks_like_json(start):
        yield from read_json(lines, name, forced.name if forced else None, on_error)
    elif (kind := _kind(start, suffix) if forced is None else NATIVE.get(forced.name)) in READERS:
        yield READERS[kind](lines, name)
    elif kind == "latin":
        yield from read_latin(lines, name)
    elif kind == "sudoku":
        yield from read_sudoku(lines, name, on_error)
    elif graph_text.looks_like_dimacs(start):
        graph, hints = graph_text.read_dimacs(lines)
        yield from_graph(graph, forced or _hinted(hints), colors or _hinted_colors(hints), name, lines.path)
    elif graph_text.looks_like_columns(start):
        if graph_text.is_gset(start):
            yield from_graph(graph_text.read_gset(lines), forced or family("maxcut"), colors, name, lines.path)
        else:
            yield from_graph(graph_text.read_edge_list(lines), forced, colors, name, lines.path)
    else:
        lines.take(1)  # says so if it is not even text
        if forced is not None and (kind := _text_kind(start)):
            raise lines.error(
                f"{kind.title() if kind in OF_MANY else kind} text; expected a graph, for --problem {forced.name}",
                line=1,
            )
        raise lines.error(
            "not a known format; expected Sudoku text, Latin squares, DIMACS .col, .cnf or .wcnf, OPB, MPS, LP, "
            "G-set, edges, a QUBO or JSON",
            line=1,
        )


def _start(lines: Lines) -> list[str]:
    """The first lines; of a file that begins with comments, these and what follows them."""
    start = lines.peek(64)
    while len(start) < LONGEST_PREAMBLE and all(line[:1] in "c*\\" for line in start):
        more = lines.peek(2 * len(start))
        if len(more) == len(start):
            break
        start = more
    return start


def _kind(start: list[str], suffix: str) -> str | None:
    """What the first lines look like. Before puzzles, the suffix decides for formats without a header."""
    named = {".cnf": "cnf", ".wcnf": "cnf", ".opb": "opb", ".wbo": "opb", ".mps": "mps", ".lp": "lp"}.get(suffix)
    kind = _text_kind(start)
    return kind if kind in READERS else named or kind


def _text_kind(start: list[str]) -> str | None:
    looks = {
        **{"qubo": looks_like_qubo, "cnf": looks_like_cnf, "mps": looks_like_mps, "lp": looks_like_lp},
        "opb": looks_like_opb,
    }
    return next((kind for kind, looks_like in looks.items() if looks_like(start)), None) or _puzzle_kind(start)


def _puzzle_kind(start: list[str]) -> str | None:
    """Which kind of puzzles the first lines of a file are those of, if any. An order before a row of so many numbers
    is more than a Sudoku can show, so it decides first."""
    return "latin" if looks_like_latin(start) else "sudoku" if looks_like_sudoku(start) else None


def count(path: str | Path) -> int:
    """How many instances a file holds if all is well: its squares, its lines where it holds one per line, else 1."""
    with open_lines(path) as lines:
        start = lines.peek(64)
        if plain_suffix(path) in (*graph_text.NETWORKX_SUFFIXES, ".npz"):
            return 1
        if looks_like_latin(start):
            return count_squares(lines)
        if not (holds_puzzle_lines(lines) or holds_json_lines(start)):
            return 1
        return sum(1 for _ in lines.parse_each(lambda line: line if line.strip() else None, lambda error: None))


def from_graph(
    graph: Graph,
    chosen: Family | None,
    colors: int | None,
    name: str,
    path: Path | None = None,
    asked: tuple[str, str] = ("--problem", "--colors K"),
) -> Instance:
    """An instance of a family of graph problems; `asked` is how a user names the problem and the colours."""
    if chosen is None or chosen.graph_of is None:
        known = ", ".join(sorted(known.name for known in families().values() if known.graph_of is not None))
        raise InputError(f"a graph without a problem; expected {asked[0]} with one of {known}", path)
    if chosen.needs_colors and colors is None:
        raise InputError(f"{chosen.name} needs the number of colours; expected {asked[1]}", path)
    options: dict[str, Any] = {"colors": colors} if chosen.needs_colors else {}
    try:
        return chosen.build(graph, name=name, **options)
    except ValueError as error:
        raise InputError(str(error), path) from None


def _hinted(hints: dict[str, str]) -> Family:
    """The family a .col file of our own names; any other .col file is a graph to colour."""
    named = families().get(hints.get("problem", ""))
    return named if named is not None and named.graph_of is not None else family("coloring")


def _hinted_colors(hints: dict[str, str]) -> int | None:
    colors = hints.get("colors", "")
    return int(colors) if colors.isdecimal() and 0 < len(colors) < 10 and int(colors) > 0 else None


def native_suffix(problem: str, form: str | None = None) -> str:
    """The suffix of a file in a format; without one in that which people use for this problem."""
    form = form or NATIVE.get(problem, "json")
    return SUFFIXES.get(form, f".{form}")


def write(instances: Instance | Iterable[Instance], path: str | Path, form: str | None = None) -> None:
    """Write instances, or one, to a file; its suffix tells the format, otherwise the problem's usual one is used.

    .json and .jsonl (an object per line), .latin, .col (DIMACS), .gset, .edges, .qubo, .ising, .cnf, .wcnf, .opb (and
    .wbo); each also with .gz or .xz behind it. .npz is a sparse matrix. `-` is standard output. `form` names a format
    where the suffix does not.
    """
    instances = [instances] if isinstance(instances, Instance) else list(instances)
    for one in instances:
        if not isinstance(one, Instance):
            raise InputError(f"expected instances, and then a path; got {type(one).__name__}")
    problems = {instance.problem for instance in instances}
    usual = NATIVE.get(problems.pop(), "json") if len(problems) == 1 else "json"
    several_sizes = len({instance.size for instance in instances}) > 1
    if (usual not in OF_MANY and len(instances) != 1) or (usual == "sudoku" and several_sizes):
        usual = "json"
    chosen = form or WRITERS.get(plain_suffix(path), usual)
    if chosen not in OF_MANY and len(instances) != 1:
        raise InputError(f"a {chosen} file holds one instance, got {len(instances)}; use .jsonl", path)
    try:
        quadratic = qubo.quadratic_of(instances[0]) if chosen in QUADRATIC else None
        text = BOOLEAN[chosen](instances[0]) if chosen in BOOLEAN else None
        graph = None if chosen in (*OF_MANY, *QUADRATIC, *BOOLEAN) else _graph_to_write(instances[0], chosen)
        if chosen == "npz" and graph is not None:
            write_npz(graph, path)
            return
        if chosen in ("latin", "sudoku"):
            instances = [family(chosen).adopt(one) for one in instances]
        with create_text(path) as handle:
            if quadratic is not None:
                QUADRATIC[chosen](quadratic, handle)
            elif text is not None:
                handle.writelines(f"{line}\n" for line in text)
            elif graph is not None:
                _write_graph(graph, instances[0], chosen, handle)
            else:
                {"json": write_json, "latin": write_latin, "sudoku": write_sudoku}[chosen](instances, handle)
    except InputError:
        raise
    except ValueError as error:
        raise InputError(str(error), path) from None


def _graph_to_write(instance: Instance, chosen: str) -> Graph:
    """The graph of an instance, if a file of this format can hold all of it."""
    graph_of = family(instance.problem).graph_of
    if graph_of is None or instance.givens:
        raise ValueError(f"a {chosen} file holds a graph and nothing else; use .json")
    graph = graph_of(instance)
    weights = graph.weights if chosen == "col" else graph.vertex_weights
    if weights is not None and (weights != 1).any():
        kind = "edges" if chosen == "col" else "vertices"
        raise ValueError(f"a {chosen} file has no place for weights of {kind}; use .json")
    if chosen == "npz" and graph.weights is not None and (graph.weights == 0).any():
        raise ValueError("a sparse matrix has no place for edges of weight 0; use .json")
    if chosen == "gset" and not len(graph.edges):
        raise ValueError("a G-set file needs an edge to be recognised; use .json")
    if chosen == "edges" and len(np.unique(graph.edges)) < graph.vertices:
        raise ValueError("an edge list cannot hold a vertex without edges; use .col")
    return graph


def _write_graph(graph: Graph, instance: Instance, chosen: str, handle: IO[str]) -> None:
    if chosen == "col":
        hints: dict[str, Any] = {"problem": instance.problem}
        if family(instance.problem).needs_colors:
            hints["colors"] = int(instance.domain_sizes.max(initial=1))
        graph_text.write_dimacs(graph, hints, handle)
    elif chosen == "gset":
        graph_text.write_gset(graph, handle)
    else:
        graph_text.write_edge_list(graph, handle)
