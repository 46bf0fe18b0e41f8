"""What a network is told about an instance."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from blogdit.core.constraints import AllDifferent, Conflict, Count, Linear, NotEqual
from blogdit.core.instance import Instance, Objective
from blogdit.method.relations import LARGEST_CLIQUE, relation_list, value_features
from blogdit.problems import generate
from helpers import instances


def pairs_of(instance):
    source, target, features = relation_list(instance)
    return {(int(i), int(j)): f.tolist() for i, j, f in zip(source, target, features, strict=True)}


@settings(max_examples=60, deadline=None)
@given(instances())
def test_related_means_sharing_a_constraint_or_a_term(instance):
    """The list holds exactly the ordered pairs of different variables of a scope or a term, once, sorted by target."""
    expected = set()
    for group in instance.groups:  # soft ones, too
        for j in range(len(group)):
            scope = group.scope(j).tolist()
            expected |= {(a, b) for a in scope for b in scope if a != b}
    if (goal := instance.objective) is not None:
        for i, j in [*goal.differ.tolist(), *goal.pairwise[:, :2].tolist()]:
            expected |= {(i, j), (j, i)}
    source, target, features = relation_list(instance)
    listed = list(zip(source.tolist(), target.tolist(), strict=True))
    assert len(listed) == len(set(listed)) == len(features)
    assert set(listed) == expected
    assert (np.diff(target) >= 0).all()
    found = pairs_of(instance)
    for i, j in found:
        assert found[i, j] == pytest.approx(found[j, i], abs=1e-5), "relations and their features are symmetric"


def test_relation_features_by_hand():
    """Each kind of relation has its own feature; edge weights come scaled to mean 1 and with the sign of the sense."""
    instance = Instance(
        np.array([3, 3, 3, 3]),
        (NotEqual([[0, 1]]), Conflict([[1, 2]], (0, 0)), Count([[0, 2]], [0], [0], [1])),
        Objective("maximize", pairwise=[[2, 3, 1, 1]], pairwise_weights=[7.0]),
    )
    found = pairs_of(instance)
    assert found[0, 1] == [1, 0, 0, 0]
    assert found[1, 2] == [0, 1, 0, 0]
    assert found[2, 0] == [0, 0, 1, 0]
    assert found[3, 2] == [0, 0, 0, 1]
    cut = Objective("maximize", differ=[[0, 1], [1, 2]], differ_weights=[1.0, -3.0])
    assert pairs_of(Instance(np.array([2] * 3), (), cut))[1, 0][0] == 0.5
    assert pairs_of(Instance(np.array([2] * 3), (), cut))[2, 1][0] == -1.5
    ising = Objective("minimize", differ=[[0, 1]], differ_weights=[2.0])
    assert pairs_of(Instance(np.array([2] * 2), (), ising))[0, 1][0] == -1.0, "it wants equal values"


def test_sudoku_has_twenty_peers():
    (puzzle,) = generate("sudoku", 1, seed=0)
    assert np.bincount(relation_list(puzzle)[1]).tolist() == [20] * 81


def test_very_long_scopes_give_a_list_linear_in_their_length():
    """Beyond LARGEST_CLIQUE a variable is related to 16 on either side."""
    n = 4 * LARGEST_CLIQUE
    source, _, _ = relation_list(Instance(np.full(n, n), (AllDifferent([np.arange(n)]),)))
    assert len(source) == 32 * n


def test_values_of_sudoku_are_interchangeable_and_others_are_not():
    """Features are zero for colours and digits; costs, conflicts, counted and summed values show."""
    for problem in ("sudoku", "coloring", "maxcut"):
        assert (value_features(generate(problem, 1, seed=0)[0], 9) == 0).all()
    (graph,) = generate("mis", 1, seed=0)
    assert (value_features(graph, 2)[:, 0] == 0).all()
    assert value_features(graph, 2)[0, 1].tolist() == [-1, 1, 0, 0], "being chosen earns and conflicts"
    instance = Instance(np.array([3, 3]), (Linear([[0]], [[1]], ["<="], [1]), Count([[1]], [2], [0], [1])))
    features = value_features(instance, 4)
    assert features[0, :, 2].tolist() == [0, 0.5, 1, 1]
    assert features[1, :, 3].tolist() == [0, 0, 1, 0]
