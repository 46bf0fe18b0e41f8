"""The tree search for pairs finds a valid state exactly where enumeration does."""

from __future__ import annotations

import itertools
import time

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import blogdit
from blogdit.core.constraints import AllDifferent, Conflict, NotEqual
from blogdit.core.instance import Instance, Objective
from blogdit.finishers import backtracking
from blogdit.finishers.backtracking import Backtracking, can_backtrack
from blogdit.problems import coloring, generate
from helpers import solvable

ALL = 1 << 40


@st.composite
def pair_problems(draw) -> Instance:
    """Up to six variables with domains of their own, givens, pairs that differ and pairs of values that conflict."""
    size = draw(st.integers(1, 6))
    domains = draw(st.lists(st.integers(1, 4), min_size=size, max_size=size))
    pairs = list(itertools.combinations(range(size), 2))
    different = draw(st.lists(st.sampled_from(pairs), max_size=12)) if pairs else []
    constraints = [NotEqual(different)] if different else []
    if pairs and draw(st.booleans()):
        chosen = draw(st.lists(st.sampled_from(pairs), min_size=1, max_size=12))
        values = [[draw(st.integers(0, domains[a] - 1)), draw(st.integers(0, domains[b] - 1))] for a, b in chosen]
        constraints.append(Conflict(chosen, values))
    givens = {v: draw(st.integers(0, domains[v] - 1)) for v in draw(st.sets(st.integers(0, size - 1), max_size=2))}
    return Instance(domains, tuple(constraints), givens=givens)


@given(pair_problems())
def test_it_decides_as_enumeration_does(instance):
    search = Backtracking(instance)
    values = search.run(ALL)
    assert (values is not None) == solvable(instance)
    assert search.exhausted == (values is None)
    if values is not None:
        assert instance.verify(values).satisfied


@given(pair_problems(), st.lists(st.integers(0, 3), max_size=30))
def test_who_is_interrupted_goes_on(instance, portions):
    whole, parts = Backtracking(instance), Backtracking(instance)
    expected = whole.run(ALL)
    found = None
    for most in [*portions, ALL]:
        found = parts.run(most)
        if found is not None or parts.exhausted:
            break
    assert np.array_equal(found, expected) if expected is not None else found is None
    assert (parts.exhausted, parts.steps) == (whole.exhausted, whole.steps)
    assert parts.run(ALL) is None if parts.exhausted else np.array_equal(parts.run(ALL), expected)


@pytest.mark.parametrize(("colors", "answer"), [(3, False), (4, True)])
def test_graphs_without_triangles_may_need_many_colours(colors, answer):
    """Mycielski's graph of the pentagon."""
    search = Backtracking(coloring.build(nx.mycielski_graph(4), colors))
    assert (search.run(ALL) is not None) == answer


def test_colours_that_nobody_has_are_alike():
    """A complete graph with a colour too few: without it, all 9! ways to begin would be tried."""
    search = Backtracking(coloring.build(nx.complete_graph(10), 9))
    assert search.run(ALL) is None
    assert search.exhausted
    assert search.steps == 10


def test_values_that_not_everybody_may_take_are_not_alike():
    """Only the last variable has the value 2, so it must have it."""
    instance = Instance([2, 2, 3], (NotEqual([[0, 1], [1, 2], [0, 2]]),))
    assert Backtracking(instance).run(ALL)[2] == 2


def test_who_has_more_values_than_neighbours_waits_till_the_end():
    """A long path takes no step at all."""
    instance = coloring.build(nx.path_graph(500), 3)
    search = Backtracking(instance)
    assert instance.verify(search.run(ALL)).satisfied
    assert search.steps == 0


def test_the_whole_tree_is_foreseen(monkeypatch):
    """Roughly, where there is no answer."""
    graphs = generate("coloring", 10, seed=3, vertices=90, colors=5, relative=False, p_min=0.15, p_max=0.15)
    factors = []
    for instance in graphs:
        search = Backtracking(instance)
        monkeypatch.setattr(time, "monotonic", lambda search=search: float(search.steps))  # a second for each step
        if search.run(50) is None and search.run(50) is None and not search.exhausted:
            left = search.seconds_left()
            if search.run(ALL) is None:
                factors.append(left / (search.steps - 100))
                assert search.seconds == search.steps
    assert len(factors) > 5
    assert 0.2 < np.exp(np.mean(np.log(factors))) < 5


def test_it_stops_when_it_is_told_to():
    (instance,) = generate("coloring", 1, seed=0, vertices=150, colors=5, relative=False, p_min=0.1, p_max=0.1)
    search, looks = Backtracking(instance), iter([False, False, True])
    assert search.run(ALL, lambda: next(looks)) is None
    assert search.steps == 2 * (backtracking.LOOK // 5)
    assert not search.exhausted


def test_what_it_takes():
    square = nx.cycle_graph(4)
    assert can_backtrack(coloring.build(square, 2))
    assert not can_backtrack(Instance([2, 2], (), Objective("maximize", unary=[[0, 1]], unary_weights=[1.0])))
    assert not can_backtrack(Instance([3] * 3, (AllDifferent([[0, 1, 2]]),)))
    assert not can_backtrack(coloring.build(nx.empty_graph(backtracking.MOST_VARIABLES + 1), 2))
    assert not can_backtrack(coloring.build(square, backtracking.MOST_VALUES + 1))
    assert not can_backtrack(coloring.build(nx.empty_graph(backtracking.MOST_CHOICES // 256 + 1), 256))
    many = Conflict([[0, 1]] * (backtracking.MOST_CONFLICTS + 1), (1, 1))
    assert not can_backtrack(Instance([2, 2], (many,)))


@pytest.mark.parametrize("budget", [{"steps": 3}, {"time_limit": 20.0}])
def test_that_a_graph_cannot_be_coloured_is_said_at_once(budget):
    (result,) = blogdit.solve(coloring.build(nx.mycielski_graph(5), 4), device="cpu", **budget)
    assert result.exhausted
    assert result.status == "infeasible"
    assert result.seconds < 10
