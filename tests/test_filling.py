"""Filling: every variable gets a value that it may have, and graphs that saturation colours are coloured."""

from __future__ import annotations

import networkx
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from blogdit.core.constraints import Conflict, NotEqual
from blogdit.core.instance import Instance
from blogdit.finishers import filling
from blogdit.finishers.filling import fill
from blogdit.problems import coloring
from helpers import instances


def filled(instance: Instance) -> np.ndarray:
    values, complete = fill(instance, instance.given_values)
    assert complete
    return values


@given(instances(kinds=("not_equal", "conflict"), objective=False))
@settings(max_examples=150, deadline=None)
def test_values_are_allowed_and_givens_hold(instance):
    values = filled(instance)
    assert (values < instance.domain_sizes).all()
    assert (values >= 0).all()
    assert (values[instance.is_given] == instance.given_values[instance.is_given]).all()


@given(st.integers(1, 12), st.integers(1, 12), st.integers(0, 2**32 - 1))
@settings(max_examples=60, deadline=None)
def test_graphs_with_two_sides_need_two_colours(left, right, seed):
    """Saturation never takes a third (Brélaz 1979)."""
    graph = networkx.bipartite.random_graph(left, right, 0.4, seed=seed)
    instance = coloring.build(graph, 2)
    assert instance.verify(filled(instance)).satisfied


def test_who_has_fewest_values_left_is_next():
    """3 has two values and is first; then 0 and 1 have two left, and 0 more neighbours; then 1 has one; 2 is last."""
    pairs = NotEqual([[0, 1], [0, 2], [0, 3], [1, 3]])
    instance = Instance([3, 3, 3, 2], (pairs,))
    assert filled(instance).tolist() == [1, 2, 0, 0]


def test_conflicts_close_single_values():
    instance = Instance([2, 2, 2], (Conflict([[0, 1], [0, 2]], [[0, 0], [0, 1]]),))
    assert filled(instance).tolist() == [0, 1, 0]


def test_where_nothing_fits_least_is_violated():
    """Of a triangle in two colours one edge."""
    instance = coloring.build((3, [[0, 1], [1, 2], [0, 2]]), 2)
    assert instance.verify(filled(instance)).violated == 1


def test_it_keeps_to_the_time(monkeypatch):
    """Who is not reached keeps what it had."""
    monkeypatch.setattr(filling, "GLANCE", 1)
    instance, start = coloring.build((3, [[0, 1]]), 2), np.array([1, 1, 1])
    values, complete = fill(instance, start, deadline=0.0)
    assert (values.tolist(), complete) == ([1, 1, 1], False)
    looks = iter([False, True])
    values, complete = fill(instance, start, stopped=lambda: next(looks))
    assert (values.tolist(), complete) == ([0, 1, 1], False)
    values, complete = fill(instance, start)
    assert (values.tolist(), complete) == ([0, 1, 0], True)
    assert start.tolist() == [1, 1, 1]
    assert filled(Instance([])).tolist() == []
