"""Descent against enumeration: it ends in a local optimum, and never breaks what holds."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blogdit.core.constraints import AllDifferent, NotEqual
from blogdit.core.instance import Instance, Objective
from blogdit.finishers.base import Deadline
from blogdit.finishers.descent import ROUNDING, State, descend, supports_descent
from blogdit.finishers.pairs import Pairs
from blogdit.problems import generate, maxcut, mis
from blogdit.problems.graphs import random_graph
from small_instances import instances

PAIRS = instances(kinds=("not_equal", "conflict"), objective=True)


def descended(instance: Instance, start: np.ndarray) -> np.ndarray:
    return descend(instance, start, Deadline())


def neighbours(instance: Instance, values: np.ndarray):
    """Every assignment that differs in one free variable."""
    for i in np.flatnonzero(~instance.is_given):
        for value in range(instance.domain_sizes[i]):
            if value != values[i]:
                other = values.copy()
                other[i] = value
                yield other


def random_start(instance: Instance, seed: int) -> np.ndarray:
    start = np.random.default_rng(seed).integers(0, instance.domain_sizes)
    return np.where(instance.is_given, instance.given_values, start)


@given(PAIRS, st.integers(0, 5))
@settings(max_examples=300, deadline=None)
def test_ends_in_a_local_optimum(instance, seed):
    """No single change of a free variable violates fewer constraints, or as many at a better objective."""
    start = random_start(instance, seed)
    values = descended(instance, start)
    before, after = instance.verify(start), instance.verify(values)
    assert after.violated <= before.violated
    if before.satisfied:
        assert not instance.objective.better(before.objective, after.objective)
    assert (values[instance.is_given] == instance.given_values[instance.is_given]).all()
    for other in neighbours(instance, values):
        verdict = instance.verify(other)
        assert verdict.violated >= after.violated
        if verdict.violated == after.violated:
            assert not instance.objective.better(verdict.objective, after.objective)


@pytest.mark.parametrize("weighted", [False, True])
def test_independent_sets_are_independent_and_maximal(weighted):
    for seed, instance in enumerate(generate("mis", 3, seed=1, weighted=weighted)):
        for start in (random_start(instance, seed), np.ones(instance.size, int), np.zeros(instance.size, int)):
            chosen = descended(instance, start) == 1
            edges = mis.graph_of(instance).edges
            assert not (chosen[edges[:, 0]] & chosen[edges[:, 1]]).any()
            blocked = np.zeros(instance.size, bool)
            for a, b in ((edges[:, 0], edges[:, 1]), (edges[:, 1], edges[:, 0])):
                blocked[a[chosen[b]]] = True
            assert (chosen | blocked).all(), "every vertex is chosen or has a chosen neighbour"


@pytest.mark.parametrize("weights", ["unit", "signs", "normal"])
def test_no_flip_improves_a_cut(weights):
    for seed, instance in enumerate(generate("maxcut", 5, seed=2, vertices=40, weights=weights)):
        values = descended(instance, random_start(instance, seed))
        cut = instance.verify(values).objective
        assert cut >= instance.verify(random_start(instance, seed)).objective
        assert all(instance.verify(other).objective <= cut + 1e-9 for other in neighbours(instance, values))


def test_one_out_two_in():
    """A path of three: no change of one vertex improves {middle}, but its two ends are better."""
    path = mis.build((3, [[0, 1], [1, 2]]))
    assert descended(path, np.array([0, 1, 0])).tolist() == [1, 0, 1]
    given = dataclasses.replace(path, givens={1: 1})
    assert descended(given, np.array([0, 1, 0])).tolist() == [0, 1, 0]


def test_an_answer_that_holds_is_only_made_better():
    heavy = mis.build((3, [[0, 1], [1, 2]]), weights=[1, 9, 1])
    assert descended(heavy, np.array([0, 0, 0])).tolist() == [0, 1, 0]


@given(st.integers(0, 200))
@settings(max_examples=60, deadline=None)
def test_no_vertex_of_an_independent_set_gives_way_to_two(seed):
    """Enumerated: for every chosen vertex, no two of the vertices that it alone keeps out fit together."""
    instance = mis.build(random_graph(25, 0.2, np.random.default_rng(seed)))
    chosen = descended(instance, random_start(instance, seed)) == 1
    near = np.zeros((instance.size, instance.size), bool)
    edges = mis.graph_of(instance).edges
    near[edges[:, 0], edges[:, 1]] = near[edges[:, 1], edges[:, 0]] = True
    kept_out_by_one = ~chosen & (near[:, chosen].sum(1) == 1)
    for vertex in np.flatnonzero(chosen):
        waiting = np.flatnonzero(kept_out_by_one & near[vertex])
        assert near[np.ix_(waiting, waiting)].sum() == len(waiting) * (len(waiting) - 1), "they form a clique"


@given(PAIRS, st.lists(st.integers(0, 99), max_size=6))
@settings(max_examples=100, deadline=None)
def test_what_is_remembered_follows_the_moves(instance, choices):
    """Costs and gains are those of a fresh start from the same values."""
    pairs = Pairs(instance)
    here = State(pairs, random_start(instance, 0))
    free = np.flatnonzero(~instance.is_given)
    for choice in choices if len(free) else []:
        variable = int(free[choice % len(free)])
        here.move(variable, choice % int(instance.domain_sizes[variable]))
    fresh = State(pairs, here.x)
    np.testing.assert_allclose(here.costs, fresh.costs, atol=1e-9)
    np.testing.assert_allclose(here.gain, fresh.gain, atol=1e-9)


def energy_of(pairs: Pairs, x: np.ndarray) -> float:
    """What `Pairs` adds up: terms of one variable, and each pair once (they are listed from both ends)."""
    unary = pairs.unary[np.arange(len(x)), x]
    return float(unary.sum() + (pairs.costs(x)[np.arange(len(x)), x] - unary).sum() / 2)


@given(PAIRS, st.integers(0, 5))
@settings(max_examples=200, deadline=None)
def test_moves_that_share_no_term_lead_down_together(instance, seed):
    """Each round is worth the sum of its gains, and at the end none is left. Without time there is one round."""
    pairs = Pairs(instance)
    here = State(pairs, random_start(instance, seed))
    while (here.gain > ROUNDING).any():
        before, x, gain = energy_of(pairs, here.x), here.x.copy(), here.gain.copy()
        here.descend(Deadline(0.0))
        assert energy_of(pairs, here.x) == pytest.approx(before - gain[here.x != x].sum())
    assert (here.x[instance.is_given] == instance.given_values[instance.is_given]).all()


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e9])
def test_the_scale_of_weights_does_not_matter(scale):
    edges = random_graph(30, 0.3, np.random.default_rng(1)).edges
    cut = maxcut.build((30, edges, [scale] * len(edges)))
    expected = descended(maxcut.build((30, edges)), np.zeros(30, int))
    assert descended(cut, np.zeros(30, int)).tolist() == expected.tolist()


def test_many_variables_are_settled_in_a_thousand_looks_at_the_clock():
    """A round moves many of them; alone they would take more than 8,000 moves."""
    rng, size, looks = np.random.default_rng(0), 20_000, itertools.count()
    ring = np.stack([np.arange(size), (np.arange(size) + 1) % size], axis=1)
    chords = rng.permutation(size)[: size - 2].reshape(-1, 2)
    graph = mis.build((size, np.concatenate([ring, chords[abs(chords[:, 0] - chords[:, 1]) > 1]])))
    found = descend(graph, np.zeros(size, int), Deadline(stopped=lambda: next(looks) == 1000))
    assert graph.verify(found).satisfied
    assert found.sum() > 0.4 * size


def test_what_it_supports():
    goal = Objective("maximize", unary=[[0, 1]], unary_weights=[1.0])
    assert supports_descent(Instance([2, 2], (NotEqual([[0, 1]]),), goal))
    assert not supports_descent(Instance([2, 2], (NotEqual([[0, 1]]),)))
    assert not supports_descent(Instance([2, 2], (AllDifferent([[0, 1]]),), goal))
    assert descended(Instance([], (), Objective("maximize")), np.zeros(0, int)).tolist() == []
