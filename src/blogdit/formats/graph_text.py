"""Graph files: DIMACS .col, G-set, edge lists by hand (with line numbers in errors), the rest through networkx.

Policy: a self-loop is an error. A repeated edge counts once; in a file with edge weights its weights add up.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from blogdit.core.arrays import distinct
from blogdit.core.constraints import IntArray
from blogdit.core.errors import InputError
from blogdit.formats.text import Lines
from blogdit.problems.graphs import Graph, as_graph, make_graph

COLUMNS = [("first", "i8"), ("second", "i8")]
COMMENT_MARKS = "#%"
BLOCK = 1 << 14  # lines parsed at a time
MEMORY_OF_NETWORKX = 32  # bytes for each of a GraphML file (measured: 20 to 30)
NETWORKX_SUFFIXES = (".graphml", ".gml", ".g6", ".s6", ".net")


@dataclass
class Edges:
    """Edges as they are read, compact (a million take 32 MB), with the line of each."""

    lines: Lines
    ends: array[int] = field(default_factory=lambda: array("q"))
    weights: array[float] = field(default_factory=lambda: array("d"))
    numbers: array[int] = field(default_factory=lambda: array("q"))

    def add(self, fields: list[str]) -> None:
        """`fields` are two vertices and perhaps a weight."""
        try:
            self.ends.append(int(fields[0]))
            self.ends.append(int(fields[1]))
            if len(fields) == 3:
                self.weights.append(float(fields[2]))
        except (ValueError, OverflowError):
            wanted = "two vertex numbers" + (" and a weight" if len(fields) == 3 else "")
            raise self.lines.error(f"expected {wanted}, got {' '.join(fields)[:60]!r}") from None
        self.numbers.append(self.lines.number)

    def add_rows(self, width: int, expected: str, comments: str = COMMENT_MARKS) -> None:
        """All remaining lines, of `width` columns each, besides comments."""
        for line in self.lines_of_others([*COLUMNS, ("weight", "f8")][:width]):  # comments, or a mistake to name
            fields = line.split()
            if fields and fields[0][0] not in comments:
                if len(fields) != width:
                    raise self.lines.error(f"expected {expected}, got {line[:60]!r}")
                self.add(fields)

    def lines_of_others(self, columns: list[tuple[str, str]]) -> Iterator[str]:
        """Add all remaining lines, block by block. Yields the lines of blocks that hold something else than edges in
        these columns."""
        while block := self.lines.take(BLOCK):
            self.lines.limits.require("edges", len(self), self.lines.path)
            start, rows = self.lines.number - len(block), _table(block, columns)
            if rows is None:
                for self.lines.number, line in enumerate(block, start + 1):
                    yield line
                continue
            self.ends.frombytes(np.stack([rows["first"], rows["second"]], axis=1).tobytes())
            self.weights.frombytes(rows["weight"].tobytes() if "weight" in dict(columns) else b"")
            self.numbers.extend(range(start + 1, start + 1 + len(block)))

    def __len__(self) -> int:
        return len(self.numbers)

    def pairs(self) -> IntArray:
        return np.array(self.ends, np.int64).reshape(-1, 2)

    def require(self, right: Any, message: str) -> None:
        """`message` may use {edge} and is raised for the first edge that is not right."""
        if not right.all():
            at = int(np.argmin(right))
            edge = f"{self.ends[2 * at]} {self.ends[2 * at + 1]}"
            raise self.lines.error(message.format(edge=edge), self.numbers[at])

    def graph(self, vertices: int) -> Graph:
        """The graph on vertices 1 .. vertices."""
        refuse_absurd(vertices, len(self), self.lines.path)
        pairs = self.pairs()
        self.require(((pairs >= 1) & (pairs <= vertices)).all(axis=1), f"expected vertices 1..{vertices}, got {{edge}}")
        return self._checked(vertices, pairs - 1, range(1, vertices + 1))

    def labelled_graph(self) -> Graph:
        """The graph on the vertices that occur, whatever their numbers."""
        pairs = self.pairs()
        names = distinct(pairs.reshape(-1))
        numbered = len(names) == 0 or (names[0] == 0 and names[-1] == len(names) - 1)
        index = pairs if numbered else np.searchsorted(names, pairs)
        return self._checked(len(names), index, None if numbered else tuple(names.tolist()))

    def _checked(self, vertices: int, pairs: IntArray, labels: Any) -> Graph:
        self.require(pairs[:, 0] != pairs[:, 1], "self-loop {edge}; expected two different vertices")
        weights = np.array(self.weights) if len(self.weights) else None
        if weights is not None:
            self.require(np.isfinite(weights), "the weight of {edge} is not a finite number")
        try:
            return make_graph(vertices, pairs, weights, labels=labels)
        except ValueError as error:  # weights of a repeated edge that add up to infinity
            raise InputError(str(error), self.lines.path) from None


def _table(block: list[str], columns: list[tuple[str, str]]) -> npt.NDArray[Any] | None:
    """Lines as rows of numbers, several times faster than one by one; None if one of them is something else."""
    if not any(line.strip() for line in block):
        return None
    try:
        rows = np.loadtxt(block, np.dtype(columns), comments=None, ndmin=1)
    except ValueError:
        return None
    marked = "mark" not in dict(columns) or bool((rows["mark"] == b"e").all())
    return rows if len(rows) == len(block) and marked else None


def looks_like_dimacs(start: list[str]) -> bool:
    first = next((line.split() for line in start if line.strip()), [])
    return bool(first) and (first[0] == "c" or (first[0] == "p" and len(first) > 2))


def looks_like_columns(start: list[str]) -> bool:
    """Two or three columns, the first two of which are whole numbers."""
    fields = next((line.split() for line in start if not _is_comment(line)), [])
    return len(fields) in (2, 3) and all(field.removeprefix("-").isdecimal() for field in fields[:2])


def read_dimacs(lines: Lines) -> tuple[Graph, dict[str, str]]:
    """The graph, and what a comment `c blogdit problem=... colors=...` of our own writer says about it."""
    edges, hints = Edges(lines), dict[str, str]()
    vertices = expected = -1
    heavy: dict[int, float] = {}
    for line in chain(_header(lines), edges.lines_of_others([("mark", "S2"), *COLUMNS])):
        fields = line.split()
        kind = fields[0] if fields else "c"
        if kind == "c":
            if fields[1:2] == ["blogdit"]:
                hints |= dict(part.split("=", 1) for part in fields[2:] if "=" in part)
        elif kind == "p":
            if vertices >= 0:
                raise lines.error("a second 'p' line; expected one")
            if len(fields) != 4 or fields[1] not in ("edge", "edges", "col"):
                raise lines.error(f"expected 'p edge VERTICES EDGES', got {line[:60]!r}")
            vertices, expected = _counts(fields[2:], lines)
        elif vertices < 0:
            raise lines.error(f"expected 'p edge VERTICES EDGES' first, got {line[:60]!r}")
        elif kind == "e" and len(fields) == 3:
            edges.add(fields[1:])
        elif kind == "n" and len(fields) == 3:
            vertex, weight = _vertex_weight(fields[1:], vertices, lines)
            heavy[vertex] = weight
        elif kind not in ("d", "v", "x"):  # descriptions that DIMACS allows and a graph does not need
            raise lines.error(f"expected 'e VERTEX VERTEX', got {line[:60]!r}")
    if vertices < 0:
        raise lines.error("no 'p edge VERTICES EDGES' line in the file")
    graph = edges.graph(vertices)
    if expected not in (len(edges), len(graph.edges)):  # some files count an edge given both ways once
        raise lines.error(f"expected {expected} edges as in the 'p' line, got {len(edges)}")
    if heavy:
        weights = np.ones(vertices)
        weights[list(heavy)] = list(heavy.values())
        graph = Graph(vertices, graph.edges, vertex_weights=weights, labels=graph.labels)
    return graph, hints


def _header(lines: Lines) -> Iterator[str]:
    """The lines before the first edge behind the 'p' line."""
    begun = False
    while (start := lines.peek(1)) and not (begun and start[0].startswith("e ")):
        begun = begun or start[0].startswith("p")
        yield from lines.take(1)


def is_gset(start: list[str]) -> bool:
    """A first line of two numbers before lines of three columns."""
    counts = [len(line.split()) for line in start if not _is_comment(line)][:2]
    return counts == [2, 3]


def read_gset(lines: Lines) -> Graph:
    header = next(line for line in lines if not _is_comment(line))
    vertices, expected = _counts(header.split(), lines)
    edges = Edges(lines)
    edges.add_rows(3, "'VERTEX VERTEX WEIGHT'")
    if len(edges) != expected:
        raise lines.error(f"expected {expected} edges as in the first line, got {len(edges)}")
    return edges.graph(vertices)


def read_edge_list(lines: Lines) -> Graph:
    start = [line.split() for line in lines.peek(64) if not _is_comment(line)]
    width = 3 if start and len(start[0]) == 3 else 2
    edges = Edges(lines)
    edges.add_rows(width, f"{width} columns")
    if not len(edges):
        raise lines.error("no edge in the file")
    if width == 2 and _begins_with_counts(edges.pairs()):
        raise lines.error(
            "reads like 'VERTICES EDGES' and like an edge; expected '#' before the first, or the edge in another line",
            edges.numbers[0],
        )
    return edges.labelled_graph()


def _begins_with_counts(pairs: IntArray) -> bool:
    """Whether the first pair might be the numbers of vertices and edges of what follows, as many files have them."""
    (vertices, edges), others = pairs[0], pairs[1:]
    return bool(len(others) > 0 and edges == len(others) and vertices >= others.max() and others.min() >= 0)


def read_with_networkx(lines: Lines, suffix: str) -> Iterator[Graph]:
    """GraphML, GML, graph6 and sparse6 (a graph per line), Pajek."""
    import networkx as nx

    lines.count_for(MEMORY_OF_NETWORKX)
    try:
        if suffix == ".graphml":
            yield as_graph(nx.parse_graphml("\n".join(lines)))
        elif suffix == ".gml":
            yield as_graph(nx.parse_gml(list(lines)))
        elif suffix == ".net":
            yield as_graph(nx.parse_pajek(list(lines)))
        else:
            decode = nx.from_graph6_bytes if suffix == ".g6" else nx.from_sparse6_bytes
            for line in lines:
                if line.strip():
                    code = line.strip().encode("ascii")
                    lines.limits.require("vertices", _encoded_size(code), lines.path, lines.number)
                    refuse_absurd(_encoded_size(code), len(code), lines.path)
                    yield as_graph(decode(code))
    except InputError:
        raise
    except Exception as error:  # each of these parsers has its own ways to fail on a damaged file
        detail = " ".join(str(error).split())[:200]
        raise lines.error(f"not a readable {suffix} graph: {detail or type(error).__name__}") from None


def _encoded_size(code: bytes) -> int:
    """The number of vertices that a graph6 or sparse6 line announces."""
    from networkx.readwrite.graph6 import data_to_n

    for header in (b">>graph6<<", b">>sparse6<<", b":"):
        code = code.removeprefix(header)
    return int(data_to_n([byte - 63 for byte in code])[0])


def write_dimacs(graph: Graph, hints: dict[str, Any], handle: IO[str]) -> None:
    handle.write("c blogdit " + " ".join(f"{key}={value}" for key, value in hints.items()) + "\n")
    handle.write(f"p edge {graph.vertices} {len(graph.edges)}\n")
    if graph.vertex_weights is not None:
        handle.writelines(f"n {v} {number_text(w)}\n" for v, w in enumerate(graph.vertex_weights.tolist(), 1))
    handle.writelines(f"e {u + 1} {v + 1}\n" for u, v in graph.edges.tolist())


def write_gset(graph: Graph, handle: IO[str]) -> None:
    weights = np.ones(len(graph.edges)) if graph.weights is None else graph.weights
    handle.write(f"{graph.vertices} {len(graph.edges)}\n")
    handle.writelines(
        f"{u + 1} {v + 1} {number_text(w)}\n" for (u, v), w in zip(graph.edges.tolist(), weights.tolist(), strict=True)
    )


def write_edge_list(graph: Graph, handle: IO[str]) -> None:
    """Vertices by their labels where these are whole numbers, else by index."""
    labels = graph.labels
    names = labels if labels is not None and all(isinstance(label, int) for label in labels) else range(graph.vertices)
    weights = [None] * len(graph.edges) if graph.weights is None else graph.weights.tolist()
    for (u, v), weight in zip(graph.edges.tolist(), weights, strict=True):
        handle.write(f"{names[u]} {names[v]}" + ("" if weight is None else f" {number_text(weight)}") + "\n")


def _counts(fields: list[str], lines: Lines) -> tuple[int, int]:
    if len(fields) != 2 or not all(field.isdecimal() and len(field) < 19 for field in fields):
        raise lines.error(f"expected the numbers of vertices and edges, got {' '.join(fields)[:60]!r}")
    vertices, edges = int(fields[0]), int(fields[1])
    lines.limits.require("vertices", vertices, lines.path, lines.number)
    lines.limits.require("edges", edges, lines.path, lines.number)
    return vertices, edges


def refuse_absurd(vertices: int, edges: int, path: Path) -> None:
    """A damaged header must not make a small file take gigabytes."""
    if vertices > 1_000_000 and vertices > 100 * edges:
        raise InputError(f"{vertices} vertices for {edges} edges; expected at most 100 per edge", path)


def _vertex_weight(fields: list[str], vertices: int, lines: Lines) -> tuple[int, float]:
    try:
        vertex, weight = int(fields[0]), float(fields[1])
    except ValueError:
        raise lines.error(f"expected 'n VERTEX WEIGHT', got {' '.join(fields)[:60]!r}") from None
    if not 1 <= vertex <= vertices:
        raise lines.error(f"expected a vertex in 1..{vertices}, got {vertex}")
    if not np.isfinite(weight):
        raise lines.error(f"the weight of vertex {vertex} is not a finite number")
    return vertex - 1, weight


def _is_comment(line: str) -> bool:
    text = line.lstrip()
    return not text or text[0] in COMMENT_MARKS


def number_text(weight: float) -> str:
    """Short and exact: 1, -1, 0.25."""
    return str(int(weight)) if weight.is_integer() else repr(weight)
