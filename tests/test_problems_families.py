"""What holds for every family, and what each of the graph families is."""

from __future__ import annotations

import itertools

import networkx as nx
import numpy as np
import pytest

from blogdit.core.instance import Instance
from blogdit.formats import to_json
from blogdit.problems import coloring, families, generate, maxcut, mis

SMALL = {
    "coloring": {"vertices": 12},
    "general": {"literals": "60-100"},
    "latin": {"order": 6},
    "maxcut": {"vertices": 12},
    "mis": {},
    "sudoku": {"box": 2, "min_givens": 5, "max_givens": 9},
}
SQUARE = (4, [[0, 1], [1, 2], [2, 3], [3, 0]])


@pytest.mark.parametrize("problem", sorted(families()))
def test_contract_of_every_family(problem):
    """Instances carry the family's name, differ from each other, repeat with the seed, and can be shown."""
    family = families()[problem]
    first, again = (generate(problem, 3, seed=4, **SMALL.get(problem, {})) for _ in range(2))
    other = generate(problem, 1, seed=5, **SMALL.get(problem, {}))
    assert [to_json(i) for i in first] == [to_json(i) for i in again]
    assert len({str(to_json(i) | {"name": ""}) for i in [*first, *other]}) == 4
    for instance in first:
        assert instance.problem == problem
        assert instance.name.startswith(problem)
        assert family.adopt(instance).size == instance.size
        values = np.where(instance.is_given, instance.given_values, 0)
        assert family.render(instance, None)
        assert family.render(instance, values)
        if family.marks:
            assert "\x1b[" in family.render(instance, values, ansi=True, changed=[0])
    assert generate(problem, 0) == []
    with pytest.raises(ValueError, match=f"{problem} has no setting 'foo'"):
        generate(problem, 1, foo=1)
    with pytest.raises(ValueError, match="count must be"):
        generate(problem, -1)


def test_unknown_problem():
    with pytest.raises(ValueError, match="unknown problem 'tsp'; known: coloring, "):
        generate("tsp")


def test_coloring_counts_monochromatic_edges():
    instance = coloring.build(SQUARE, 2)
    for x in itertools.product(range(2), repeat=4):
        assert instance.verify(x).violated == sum(x[i] == x[j] for i, j in SQUARE[1])


@pytest.mark.parametrize("colors", [0, -1, 2.5, "3", None])
def test_coloring_needs_a_colour(colors):
    with pytest.raises(ValueError, match="colors must be a whole number of at least 1"):
        coloring.build(SQUARE, colors)


def test_planted_colorings_exist():
    """A generated planted graph has a proper colouring; the same density without planting is far beyond 3 colours."""
    for instance in generate("coloring", 5, seed=0, vertices=14, colors=3, p_min=0.9, p_max=0.9, planted=True):
        graph = nx.Graph(coloring.graph_of(instance).edges.tolist())
        assert _colorable(graph, 3)
    for instance in generate("coloring", 5, seed=0, vertices=14, colors=3, p_min=0.9, p_max=0.9):
        assert not _colorable(nx.Graph(coloring.graph_of(instance).edges.tolist()), 3)


def _colorable(graph: nx.Graph, colors: int, fixed: tuple[int, ...] = ()) -> bool:
    nodes = sorted(graph)
    if len(fixed) == len(nodes):
        return True
    taken = {c for node, c in zip(nodes, fixed, strict=False) if graph.has_edge(node, nodes[len(fixed)])}
    return any(_colorable(graph, colors, (*fixed, c)) for c in range(colors) if c not in taken)


def test_maxcut_objective_is_the_cut():
    weights = [1.5, -1, 2, 0.25]
    instance = maxcut.build((*SQUARE, weights))
    for x in itertools.product(range(2), repeat=4):
        verdict = instance.verify(x)
        cut = sum(w for (i, j), w in zip(SQUARE[1], weights, strict=True) if x[i] != x[j])
        assert (verdict.satisfied, verdict.objective) == (True, cut)
    assert maxcut.build(SQUARE).verify([0, 1, 0, 1]).objective == 4


def test_maxcut_of_a_networkx_graph_agrees_with_networkx():
    graph = nx.gnp_random_graph(20, 0.3, seed=1)
    rng = np.random.default_rng(0)
    for _, _, data in graph.edges(data=True):
        data["weight"] = float(rng.normal())
    x = rng.integers(0, 2, 20)
    expected = nx.cut_size(graph, set(np.flatnonzero(x).tolist()), weight="weight")
    assert maxcut.build(graph).verify(x).objective == pytest.approx(expected)


def test_maxcut_weights():
    weights = {
        kind: generate("maxcut", 1, seed=0, weights=kind)[0].objective.differ_weights
        for kind in ("unit", "signs", "normal")
    }
    assert set(weights["unit"]) == {1}
    assert set(weights["signs"]) == {-1, 1}
    assert len(set(weights["normal"])) == len(weights["normal"])
    assert abs(weights["normal"].mean()) < 0.5
    with pytest.raises(ValueError, match="weights must be one of unit, signs, normal"):
        generate("maxcut", 1, weights="heavy")


@pytest.mark.parametrize("weights", [None, [1, 5, 2, 1]])
def test_mis_agrees_with_enumeration(weights):
    instance = mis.build(SQUARE, weights)
    for x in itertools.product(range(2), repeat=4):
        verdict = instance.verify(x)
        assert verdict.violated == sum(x[i] and x[j] for i, j in SQUARE[1])
        assert verdict.objective == sum(w * chosen for w, chosen in zip(weights or [1] * 4, x, strict=True))


@pytest.mark.parametrize(("size", "low", "high"), [("small", 200, 300), ("large", 800, 1200)])
def test_mis_sizes(size, low, high):
    for instance in generate("mis", 5, seed=0, size=size):
        assert low <= instance.size <= high
    weighted = generate("mis", 1, seed=0, weighted=True)[0].objective.unary_weights
    assert set(weighted.tolist()) == set(range(1, 11))
    with pytest.raises(ValueError, match="size must be one of small, large"):
        generate("mis", 1, size="huge")


@pytest.mark.parametrize("problem", ["coloring", "maxcut"])
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"p_min": -0.1}, "p_min must be a number from 0 to 1"),
        ({"p_max": float("nan")}, "p_max must be a number from 0 to 1"),
        ({"p_min": 0.5, "p_max": 0.1}, "p_min must not exceed p_max"),
        ({"vertices": 0}, "vertices must be"),
    ],
)
def test_bad_graph_settings(problem, settings, message):
    with pytest.raises(ValueError, match=message):
        generate(problem, 1, **settings)


def test_density_and_sizes_follow_the_settings():
    instances = generate("coloring", 200, seed=0, vertices="20-30", p_min=0.2, p_max=0.4)
    assert {instance.size for instance in instances} == set(range(20, 31))
    density = [len(coloring.graph_of(i).edges) / (i.size * (i.size - 1) / 2) for i in instances]
    assert abs(np.mean(density) - 0.3) < 0.02
    assert np.std(density) > 0.05, "p varies over its range"


def test_labels_appear_in_what_is_shown():
    graph = nx.Graph([("ann", "bob"), ("bob", "cyd")])
    assert "ann cyd" in coloring.render(coloring.build(graph, 2), np.array([0, 1, 0]))
    assert "cut 2" in maxcut.render(maxcut.build(graph), np.array([0, 1, 0]))
    assert "chosen: bob" in mis.render(mis.build(graph), np.array([0, 1, 0]))
    large = coloring.build((5000, [[0, 1]]), 2)
    assert len(coloring.render(large, np.zeros(5000, int))) < 300


@pytest.mark.parametrize("problem", sorted(families()))
def test_adopt_refuses_instances_of_another_kind(problem):
    with pytest.raises(ValueError, match=f"(?i){problem}"):
        families()[problem].adopt(Instance(np.array([2, 3]), problem=problem))
