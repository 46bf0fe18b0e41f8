"""Instances, objectives and verdicts."""

from __future__ import annotations

import copy
import dataclasses
import itertools
import pickle
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blogdit.core.constraints import AllDifferent, NotEqual
from blogdit.core.instance import Instance, Objective
from blogdit.formats import to_json


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_objective_agrees_with_enumeration(data):
    """The value is the sum of the earned terms, for all assignments."""
    domains = data.draw(st.lists(st.integers(1, 3), min_size=2, max_size=4))
    n = len(domains)
    variable, weight = st.integers(0, n - 1), st.integers(-8, 8).map(lambda w: w / 4)
    unary = [(i, data.draw(st.integers(0, domains[i] - 1))) for i in data.draw(st.lists(variable, max_size=4))]
    pairs = [data.draw(st.permutations(range(n)))[:2] for _ in range(data.draw(st.integers(0, 4)))]
    pairwise = [(i, j, data.draw(st.integers(0, domains[i] - 1)), domains[j] - 1) for i, j in pairs]
    w_unary, w_differ, w_pairwise = ([data.draw(weight) for _ in rows] for rows in (unary, pairs, pairwise))
    objective = Objective("maximize", unary, w_unary, pairs, w_differ, pairwise, w_pairwise)
    instance = Instance(np.array(domains), objective=objective)
    for x in itertools.product(*map(range, domains)):
        expected = sum(w for (i, a), w in zip(unary, w_unary, strict=True) if x[i] == a)
        expected += sum(w for (i, j), w in zip(pairs, w_differ, strict=True) if x[i] != x[j])
        expected += sum(w for (i, j, a, b), w in zip(pairwise, w_pairwise, strict=True) if x[i] == a and x[j] == b)
        assert instance.verify(np.array(x)).objective == expected


def test_verdict_reports_domains_givens_and_constraints():
    instance = Instance(np.array([2, 2, 3]), (NotEqual([[0, 1], [1, 2]]),), givens={0: 1}, labels=("a", "b", "c"))
    verdict = instance.verify([0, 0, 7])
    assert not verdict.satisfied
    assert [violation.describe(instance.labels) for violation in verdict.violations()] == [
        "domain(c) violated by 1",
        "given(a) violated by 1",
        "not_equal(a, b) violated by 1",
    ]
    assert verdict.violated == 3
    assert instance.verify([1, 0, 2]).satisfied


def test_values_far_outside_the_domain_are_only_a_violation():
    instance = Instance(np.array([3, 3]), (AllDifferent([[0, 1]]),))
    verdict = instance.verify([2**62, -(2**62)])
    assert [violation.kind for violation in verdict.violations()] == ["domain", "domain"]


@pytest.mark.parametrize("values", [[0], [0, 1, 0], [[0, 1]], [0.0, 1.0], ["a", "b"], [None, 1]])
def test_ill_formed_assignments_are_errors(values):
    with pytest.raises(ValueError, match="values"):
        Instance(np.array([2, 2])).verify(values)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"domain_sizes": [2, 0]}, "domain_sizes must lie in 1..*got 0 for variable 1"),
        ({"domain_sizes": [2, 2**40]}, "domain_sizes must lie in 1.."),
        ({"domain_sizes": [2.5]}, "domain_sizes must hold integers"),
        ({"domain_sizes": [2], "givens": {1: 0}}, "givens variables must lie in 0..0, got 1"),
        ({"domain_sizes": [2], "givens": {0: 2}}, "givens values must lie in 0..1, got 2"),
        ({"domain_sizes": [2], "labels": ("a", "b")}, "labels must name each variable"),
        ({"domain_sizes": [2, 2, 2], "labels": ("a", "b", "a")}, "labels must differ, got 'a' twice"),
        ({"domain_sizes": [2], "positions": [[0, 0], [0, 1]]}, "positions must have one row per variable"),
        ({"domain_sizes": [2], "objective": Objective("minimize", [[0, 2]], [1])}, "objective unary values"),
    ],
)
def test_bad_instances_are_refused_by_name(arguments, message):
    with pytest.raises(ValueError, match=message.replace("..*", r"\.\..*")):
        Instance(**arguments)


def test_one_constraint_is_not_a_sequence():
    with pytest.raises(ValueError, match=r"constraints must be a sequence of them, got one; expected \(constraint,\)"):
        Instance([3, 3], AllDifferent([[0, 1]]))


@pytest.mark.parametrize("weight", [float("nan"), float("inf"), "heavy", None])
def test_objective_weights_must_be_finite(weight):
    with pytest.raises(ValueError, match="unary_weights"):
        Objective("maximize", unary=[[0, 1]], unary_weights=[weight])


def test_objective_weights_must_have_a_finite_sum():
    with pytest.raises(ValueError, match="the weights of an objective must have a finite sum"):
        Objective("maximize", differ=[[0, 1], [1, 2]], differ_weights=[1e308, -1e308])
    Objective("maximize", differ=[[0, 1], [1, 2]], differ_weights=[1e307, -1e307])


def test_instances_are_told_in_a_line():
    one = Instance([2, 2, 3], (NotEqual([[0, 1], [1, 2]]),), Objective("minimize"), problem="toy", name="a")
    assert repr(one) == "<Instance 'a' of toy: 3 variables, 2 constraints, minimize>"
    assert one.verify([0, 0, 1]).in_words == "1 constraint violated"
    assert one.verify([0, 1, 0]).in_words == "0 constraints violated"


def test_objective_sense():
    with pytest.raises(ValueError, match="sense must be minimize or maximize"):
        Objective("up")
    assert Objective("minimize").better(1, 2)
    assert Objective("maximize").better(2, 1)
    assert not Objective("maximize").better(1, 1)


def test_instances_do_not_change():
    sizes, givens = np.array([2, 2]), {0: 1}
    instance = Instance(sizes, givens=givens)
    sizes[0], givens[1] = 9, 0
    assert instance.domain_sizes.tolist() == [2, 2]
    assert instance.givens == {0: 1}
    with pytest.raises(dataclasses.FrozenInstanceError):
        instance.name = "other"
    with pytest.raises(TypeError):
        instance.givens[1] = 0
    group, objective = NotEqual([[0, 1]]), Objective("maximize")
    for holder, name in ((group, "pairs"), (objective, "sense"), (AllDifferent([[0, 1]]).scopes, "variables")):
        with pytest.raises(AttributeError, match="cannot be changed"):
            setattr(holder, name, None)
    for array in (instance.domain_sizes, instance.is_given, instance.given_values):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0


def test_instances_can_be_pickled_and_copied():
    instance = Instance(np.array([2, 3]), (NotEqual([[0, 1]]),), Objective("maximize", [[0, 1]], [2]), {0: 1}, "p", "n")
    for twin in (pickle.loads(pickle.dumps(instance)), copy.deepcopy(instance)):
        assert to_json(twin) == to_json(instance)
        assert twin.verify([1, 1]).violated == 1


def test_a_million_edges():
    """Build and verify below 1 GB (measured without the interpreter itself)."""
    rng = np.random.default_rng(0)
    vertices, edges = 200_000, 1_000_000
    first = rng.integers(0, vertices, edges)
    pairs = np.stack([first, (first + rng.integers(1, vertices, edges)) % vertices], axis=1)
    values = rng.integers(0, 10, vertices)
    tracemalloc.start()
    instance = Instance(np.full(vertices, 10), (NotEqual(pairs),))
    verdict = instance.verify(values)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert verdict.violated == int((values[pairs[:, 0]] == values[pairs[:, 1]]).sum())
    assert len(next(verdict.violations()).variables) == 2
    assert peak < 1e9


def test_givens_are_a_mapping_or_pairs():
    assert dict(Instance(np.array([3, 3]), givens=[(0, 1)]).givens) == {0: 1}
    with pytest.raises(ValueError, match="givens must map variables to values"):
        Instance(np.array([3, 3]), givens=[0, 1])


def test_labels_do_not_change_with_an_array():
    names = np.array([7, 8])
    instance = Instance([2, 2], labels=names)
    names[0] = 9
    assert instance.labels == (7, 8)
