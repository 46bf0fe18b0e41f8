"""Undirected graphs as arrays, and the random graphs that the families share."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from blogdit.core.arrays import FloatArray, IntArray, check_range, distinct, integers, reals, whole_range
from blogdit.core.instance import label_text

# Settings of `blogdit train` that suit all families of graph problems.
GRAPH_PRESET = {
    **{"relation": "neighbours", "dim": 64, "heads": 4, "head_dim": 16},
    **{"unroll": 1, "horizon": 32, "tau_start": 0.02, "learning_rate": 1e-3},
}


@dataclass(frozen=True, eq=False)
class Graph:
    """Vertices 0 .. vertices - 1 and each edge (i, j) once, i < j, in sorted order.

    `weights` belong to edges. `labels` are the names of the vertices where they came from, if those differ.
    """

    vertices: int
    edges: IntArray
    weights: FloatArray | None = None
    vertex_weights: FloatArray | None = None
    labels: Sequence[Any] | None = None


def make_graph(
    vertices: int,
    edges: npt.ArrayLike,
    weights: npt.ArrayLike | None = None,
    vertex_weights: npt.ArrayLike | None = None,
    labels: Sequence[Any] | None = None,
) -> Graph:
    """A Graph from edges in any order. A repeated edge counts once; if edges have weights, these add up."""
    pairs = integers(edges, "edges", 2, 2)
    if isinstance(vertices, bool) or not isinstance(vertices, int | np.integer) or vertices < 0:
        raise ValueError(f"vertices must be a whole number of at least 0, got {vertices!r}")
    check_range(pairs, 0, int(vertices), "edges")
    loops = pairs[:, 0] == pairs[:, 1]
    if loops.any():
        at = int(np.argmax(loops))
        raise ValueError(f"edges[{at}] is a self-loop at vertex {pairs[at, 0]}")
    amounts = None if weights is None else reals(weights, "weights", len(pairs))
    keys = pairs.min(axis=1, initial=vertices) * vertices + pairs.max(axis=1, initial=0)
    if (np.diff(keys) <= 0).any():
        if amounts is None:
            keys = distinct(keys)
        else:
            keys, owner = np.unique(keys, return_inverse=True)
            amounts = reals(np.bincount(owner, amounts, len(keys)), "weights", len(keys))
    pairs = np.stack(np.divmod(keys, max(int(vertices), 1)), axis=1)
    pairs.setflags(write=False)
    per_vertex = None if vertex_weights is None else reals(vertex_weights, "vertex weights", int(vertices))
    return Graph(int(vertices), pairs, amounts, per_vertex, labels)


def as_graph(data: Any) -> Graph:
    """A Graph from a Graph, a networkx graph, a sparse matrix of SciPy or a tuple (vertices, edges[, weights])."""
    if isinstance(data, Graph):
        return data
    if hasattr(data, "tocoo"):
        matrix = data.tocoo()
        return from_adjacency(matrix.shape, matrix.row, matrix.col, matrix.data)
    if hasattr(data, "nodes") and hasattr(data, "edges"):
        return _from_networkx(data)
    if isinstance(data, tuple) and len(data) in (2, 3):
        return make_graph(*data)
    wanted = "a networkx graph, a sparse matrix or (vertices, edges[, weights])"
    raise ValueError(f"a graph must be {wanted}, got {type(data).__name__}")


def from_adjacency(shape: Sequence[int], rows: npt.ArrayLike, columns: npt.ArrayLike, entries: npt.ArrayLike) -> Graph:
    """The graph of an adjacency matrix, symmetric or one triangle of it. Entries are weights, unless all are 1."""
    if len(shape) != 2 or shape[0] != shape[1]:
        raise ValueError(f"an adjacency matrix must be square, got shape {tuple(int(size) for size in shape)}")
    n = int(shape[0])
    ends = np.stack([integers(rows, "rows", 1), integers(columns, "columns", 1)], axis=1)
    check_range(ends, 0, n, "rows and columns")
    weights = reals(entries, "entries", len(ends))
    keys, owner = np.unique(ends[:, 0] * n + ends[:, 1], return_inverse=True)
    total = np.bincount(owner, weights, len(keys))  # entries that occur twice add up
    keys, total = keys[total != 0], total[total != 0]
    first, second = np.divmod(keys, max(n, 1))
    if (loops := first == second).any():
        raise ValueError(f"an adjacency matrix must have zeros on its diagonal, got a self-loop at {first[loops][0]}")
    upper, lower = first < second, first > second
    mirrored = dict(zip((second[lower] * n + first[lower]).tolist(), total[lower].tolist(), strict=True))
    if upper.any() and lower.any() and mirrored != dict(zip(keys[upper].tolist(), total[upper].tolist(), strict=True)):
        raise ValueError("an adjacency matrix must be symmetric, or one triangle of a symmetric one")
    kept = upper if upper.any() else lower
    plain = bool((total == 1).all())
    return make_graph(n, np.stack([first[kept], second[kept]], axis=1), None if plain else total[kept])


def _from_networkx(data: Any) -> Graph:
    """Nodes 0..n-1 keep their numbers; any other nodes are numbered in the graph's order and kept as labels."""
    nodes = list(data.nodes)
    numbered = set(nodes) == set(range(len(nodes)))
    index = {node: int(node) if numbered else i for i, node in enumerate(nodes)}
    triples = list(data.edges(data="weight"))
    edges = [(index[u], index[v]) for u, v, _ in triples]
    weighted = any(weight is not None for _, _, weight in triples)
    per_vertex = {index[node]: weight for node, weight in data.nodes(data="weight") if weight is not None}
    return make_graph(
        len(nodes),
        edges,
        [1 if weight is None else weight for _, _, weight in triples] if weighted else None,
        [per_vertex.get(i, 1) for i in range(len(nodes))] if per_vertex else None,
        None if numbered else tuple(nodes),
    )


def random_graph(vertices: int, p: float, rng: np.random.Generator, colors: IntArray | None = None) -> Graph:
    """G(n, p): each pair is an edge with probability p, except (if given) between vertices of one colour."""
    possible = vertices * (vertices - 1) // 2
    if possible <= 1 << 22:
        first, second = np.triu_indices(vertices, 1)
        chosen = rng.random(possible) < p
        edges = np.stack([first[chosen], second[chosen]], axis=1)
    else:
        edges = _distinct_pairs(vertices, int(rng.binomial(possible, p)), rng)
    if colors is not None:
        edges = edges[colors[edges[:, 0]] != colors[edges[:, 1]]]
    return make_graph(vertices, edges)


def _distinct_pairs(vertices: int, count: int, rng: np.random.Generator) -> IntArray:
    """`count` different pairs i < j, each set of pairs equally likely: no array of all pairs is built."""
    keys = np.zeros(0, np.int64)
    while len(keys) < count:
        ends = np.sort(rng.integers(0, vertices, size=(count - len(keys) + 16, 2)), axis=1)
        ends = ends[ends[:, 0] != ends[:, 1]]
        fresh = np.setdiff1d(ends[:, 0] * vertices + ends[:, 1], keys)
        # A surplus is dropped at random: dropping the largest would favour low vertices.
        keys = np.concatenate([keys, rng.permutation(fresh)[: count - len(keys)]])
    return np.stack(np.divmod(np.sort(keys), vertices), axis=1)


def rb_graph(n: int, k: int, p: float, rng: np.random.Generator) -> Graph:
    """The RB model: n disjoint k-cliques (variables and their values) and random edges between pairs of cliques.

    Its largest independent set has at most n vertices, one per clique. As in the instances that the literature uses,
    a round adds edges that are new among those of the same ordered pair of cliques: edges that the pair got the other
    way round may repeat.
    """
    alpha = math.log(k) / math.log(n)
    rounds = int(-alpha / math.log(1 - p) * n * math.log(n) - 1)
    edges_per_round = int(p * n ** (2 * alpha))
    clique = np.arange(n * k) // k
    adjacent = clique[:, None] == clique[None, :]
    np.fill_diagonal(adjacent, False)
    for _ in range(rounds):
        a, b = rng.choice(n, size=2, replace=False)
        low, high = a * k, b * k
        free = np.flatnonzero(~adjacent[low : low + k, high : high + k])
        added = rng.choice(free, size=min(edges_per_round, len(free)), replace=False)
        adjacent[low + added // k, high + added % k] = True
    adjacent |= adjacent.T
    kept = np.flatnonzero(adjacent.any(axis=1))
    edges = np.argwhere(np.triu(adjacent[np.ix_(kept, kept)]))
    return make_graph(len(kept), edges)


def probability_range(p_min: Any, p_max: Any) -> tuple[float, float]:
    for name, p in (("p_min", p_min), ("p_max", p_max)):
        if isinstance(p, bool) or not isinstance(p, int | float) or not 0 <= p <= 1:
            raise ValueError(f"{name} must be a number from 0 to 1, got {p!r}")
    if p_min > p_max:
        raise ValueError(f"p_min must not exceed p_max, got {p_min} > {p_max}")
    return float(p_min), float(p_max)


def sizes_and_densities(
    count: int, vertices: Any, p_min: Any, p_max: Any, rng: np.random.Generator
) -> Iterator[tuple[int, float]]:
    """(number of vertices, edge probability) of each graph to generate, uniform in their ranges."""
    low, high = whole_range(vertices, "vertices", 1)
    p_low, p_high = probability_range(p_min, p_max)
    for _ in range(count):
        yield int(rng.integers(low, high + 1)), float(p_low + (p_high - p_low) * rng.random())


def show_vertices(chosen: npt.ArrayLike, labels: Sequence[Any] | None, most: int = 20) -> str:
    """The vertices by name, shortened if there are many."""
    indices = [int(i) for i in np.asarray(chosen)]
    names = [label_text(i if labels is None else labels[i]) for i in indices[:most]]
    return " ".join(names) + (f" ... ({len(indices)} in all)" if len(indices) > most else "")
