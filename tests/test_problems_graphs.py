"""Graphs as arrays, and the random graphs."""

from __future__ import annotations

import math

import networkx as nx
import numpy as np
import pytest

from blogdit.core.arrays import whole_range
from blogdit.problems import generate
from blogdit.problems.graphs import as_graph, make_graph, random_graph, rb_graph


def test_edges_are_sorted_and_counted_once():
    graph = make_graph(4, [[2, 1], [0, 3], [1, 2]])
    assert graph.edges.tolist() == [[0, 3], [1, 2]]
    assert graph.weights is None


def test_weights_of_a_repeated_edge_add_up():
    graph = make_graph(3, [[2, 1], [0, 1], [1, 2]], [0.5, 1, 2])
    assert graph.edges.tolist() == [[0, 1], [1, 2]]
    assert graph.weights.tolist() == [1, 2.5]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((3, [[0, 3]]), "edges must lie in 0..2, got 3"),
        ((3, [[0, 1], [2, 2]]), r"edges\[1\] is a self-loop at vertex 2"),
        ((3, [[0, 1]], [float("nan")]), "weights must be finite, got nan"),
        ((3, [[0, 1]], [1, 2]), "weights must have shape"),
        ((-1, []), "vertices must be a whole number"),
        ((2.5, []), "vertices must be a whole number"),
    ],
)
def test_bad_graphs(arguments, message):
    with pytest.raises(ValueError, match=message):
        as_graph(arguments)


def test_networkx_nodes_that_are_numbers_keep_them():
    source = nx.Graph()
    source.add_edges_from([(2, 0), (1, 2)])
    graph = as_graph(source)
    assert (graph.labels, graph.edges.tolist()) == (None, [[0, 2], [1, 2]])


def test_networkx_names_weights_and_kinds():
    source = nx.Graph()
    source.add_node("lonely", weight=3)
    source.add_edge("a", "b", weight=2.5)
    source.add_edge("b", "c")
    graph = as_graph(source)
    assert graph.labels == ("lonely", "a", "b", "c")
    assert graph.edges.tolist() == [[1, 2], [2, 3]]
    assert graph.weights.tolist() == [2.5, 1]
    assert graph.vertex_weights.tolist() == [3, 1, 1, 1]
    both_ways = nx.MultiDiGraph([(0, 1), (1, 0), (0, 1)])
    assert as_graph(both_ways).edges.tolist() == [[0, 1]]
    with pytest.raises(ValueError, match="self-loop"):
        as_graph(nx.Graph([(0, 0)]))
    with pytest.raises(ValueError, match="a networkx graph, a sparse matrix or"):
        as_graph("petersen")


@pytest.mark.parametrize(("vertices", "p"), [(400, 0.1), (6000, 0.002)])
def test_random_graph_density(vertices, p):
    """The number of edges lies within 5 standard deviations, for the dense and the sparse way of drawing."""
    possible = vertices * (vertices - 1) / 2
    graph = random_graph(vertices, p, np.random.default_rng(0))
    assert abs(len(graph.edges) - p * possible) < 5 * math.sqrt(possible * p * (1 - p))
    assert (graph.edges[:, 0] < graph.edges[:, 1]).all()
    assert len(np.unique(graph.edges, axis=0)) == len(graph.edges)
    low = (graph.edges < vertices // 2).mean()
    assert abs(low - 0.5) < 0.02, "no part of the vertices is favoured"


def test_random_graph_extremes():
    rng = np.random.default_rng(0)
    assert len(random_graph(20, 0, rng).edges) == 0
    assert len(random_graph(20, 1, rng).edges) == 190
    assert len(random_graph(1, 0.5, rng).edges) == 0


@pytest.mark.parametrize(("n", "k", "p"), [(20, 10, 0.3), (22, 11, 0.7), (24, 9, 0.95), (6, 3, 0.5)])
def test_rb_model(n, k, p):
    """n disjoint k-cliques; between two cliques nothing, or at least a portion of s; no more portions than rounds.
    Portions for (a, b) and (b, a) may repeat edges, portions for the same ordered pair never do."""
    a = math.log(k) / math.log(n)
    s = int(p * n ** (2 * a))
    rounds = int(-a / math.log(1 - p) * n * math.log(n) - 1)
    graph = rb_graph(n, k, p, np.random.default_rng(5))
    assert graph.vertices == n * k
    clique = graph.edges // k
    inside = clique[:, 0] == clique[:, 1]
    assert inside.sum() == n * k * (k - 1) // 2
    joined = np.zeros((n, n), int)
    np.add.at(joined, tuple(clique[~inside].T), 1)
    assert ((joined == 0) | (joined >= min(s, k * k))).all()
    assert joined.max() <= k * k
    assert 0 < (~inside).sum() <= rounds * s


@pytest.mark.parametrize(("value", "pair"), [(50, (50, 50)), ("50-60", (50, 60)), ((5, 6), (5, 6)), ([7, 7], (7, 7))])
def test_ranges(value, pair):
    assert whole_range(value, "vertices", 1) == pair


@pytest.mark.parametrize("value", [0, "many", "5-", "9-5", (1, 2, 3), 2.5, True, None])
def test_bad_ranges(value):
    with pytest.raises(ValueError, match="vertices must be"):
        whole_range(value, "vertices", 1)


def test_relative_densities_follow_the_colourability_threshold():
    """The share of (2 k - 1) ln k * n / 2 edges that was asked for; sizes and colours within their ranges."""
    graphs = generate("coloring", 200, seed=3, vertices="60-80", colors="4-7", relative=True, p_min=0.7, p_max=0.7)
    assert {int(g.domain_sizes[0]) for g in graphs} == {4, 5, 6, 7}
    assert {g.size for g in graphs} <= set(range(60, 81))
    ratios = []
    for graph in graphs:
        k = int(graph.domain_sizes[0])
        ratios.append(len(graph.constraints[0]) / (0.7 * (2 * k - 1) * np.log(k) * graph.size / 2))
    assert abs(np.mean(ratios) - 1) < 0.02


def test_mixed_weights_draw_a_kind_for_each_graph():
    kinds = set()
    for graph in generate("maxcut", 60, seed=0, weights="mixed"):
        weights = graph.objective.differ_weights
        kinds.add("unit" if (weights == 1).all() else "signs" if (np.abs(weights) == 1).all() else "normal")
    assert kinds == {"unit", "signs", "normal"}


def test_nodes_that_equal_numbers_are_these_numbers():
    for nodes in ((0.0, 1.0), (True, False)):
        graph = as_graph(nx.Graph([nodes]))
        assert graph.vertices == 2
        assert sorted(graph.edges[0]) == [0, 1]
        assert graph.labels is None
