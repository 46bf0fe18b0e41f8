"""Constraints on two variables as forbidden pairs: the same cost for every assignment."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blogdit.core.constraints import Conflict, Linear, NotEqual, Sum, Table
from blogdit.core.domains import Domains
from blogdit.core.instance import Instance
from blogdit.core.problem import Problem
from blogdit.method.in_pairs import in_pairs
from blogdit.method.tensors import normal_form
from helpers import KINDS


def cost(groups, domains, values):
    numbers = domains.numbers(values)
    return sum(float(weights @ (group.violations(values, numbers) > 0)) for group, weights in groups)


def assert_same(groups, domains):
    simple = in_pairs(groups, domains)
    for values in itertools.product(*map(range, domains.sizes)):
        assert cost(simple, domains, np.array(values)) == cost(groups, domains, np.array(values))
    return simple


@given(st.data())
@pytest.mark.parametrize("kind", KINDS)
def test_every_assignment_costs_what_it_did(kind, data):
    sizes = data.draw(st.lists(st.integers(1, 3), min_size=2, max_size=4))
    group, _ = data.draw(KINDS[kind](sizes))
    weights = np.array(data.draw(st.lists(st.integers(1, 5), min_size=len(group), max_size=len(group))), float)
    assert_same([(group, weights)], Domains(sizes))


@given(st.data())
def test_sums_over_two_variables_with_numbers_of_their_own(data):
    sizes = data.draw(st.lists(st.integers(1, 4), min_size=2, max_size=3))
    numbers = st.integers(-5, 5)
    values = [data.draw(st.lists(numbers, min_size=n, max_size=n, unique=True)) for n in sizes]
    domains = Domains(sizes, values)
    scopes = [data.draw(st.permutations(range(len(sizes))))[:2] for _ in range(3)]
    equals = [[data.draw(st.integers(-1, sizes[i] - 1)) for i in scope] for scope in scopes]
    weights = [[data.draw(st.integers(-3, 3)) for _ in scope] for scope in scopes]
    low = [data.draw(st.none() | st.integers(-6, 0)) for _ in scopes]
    high = [data.draw(st.none() | st.integers(0, 6)) for _ in scopes]
    assert_same([(Sum(scopes, weights, equals, low, high), np.array([1.0, 2.0, 3.0]))], domains)


def test_a_clause_of_two_literals_is_a_pair():
    problem = Problem()
    a, b = problem.variable("a", range(4)), problem.variable("b", range(4))
    problem.clause([(a, 1, False), (b, 2, False)])
    problem.clause([(a, 0), (b, 3, False)])
    instance = problem.instance()
    sums, pairs = assert_same([(group, np.ones(len(group))) for group in instance.constraints], instance.domains)
    assert len(sums[0]) == 0
    assert isinstance(pairs[0], Conflict)
    assert sorted(map(tuple, pairs[0].values.tolist())) == [(1, 2), (1, 3), (2, 3), (3, 3)]


def test_a_table_that_allows_much_is_what_it_forbids_and_a_narrow_one_stays():
    every = [(a, b) for a in range(5) for b in range(5)]
    wide, narrow = Table([(0, 1)], [row for row in every if row != (2, 3)]), Table([(0, 1)], [(a, a) for a in range(5)])
    domains, one = Domains([5, 5]), np.ones(1)
    assert [(group.kind, len(group)) for group, _ in in_pairs([(wide, one), (narrow, one)], domains)] == [
        ("table", 0), ("table", 1), ("conflict", 1)
    ]  # fmt: skip


def test_long_sums_and_those_with_a_condition_stay():
    long, under = Sum([(0, 1, 2)], low=[1]), Sum([(0, 1)], low=[1], when=[(2, 1)])
    same = Sum([(0, 0)], equals=[(0, 1)], low=[1])
    groups = [(group, np.ones(1)) for group in (long, under, same, NotEqual([(0, 1)]))]
    assert in_pairs(groups, Domains([2, 2, 2])) == groups


def test_large_domains_are_not_looked_at():
    groups = [(Linear([(0, 1)], [(1, -1)], ["<="], [999]), np.ones(1))]
    assert in_pairs(groups, Domains([1000, 1001])) == groups


def test_what_defines_a_variable_stays():
    problem = Problem()
    index = problem.variable("i", range(3))
    problem.clause([(index, 0, False), (problem.variable("b"), 1, False)])
    problem.element("x", index, (4, 4, 5), numbers=True)
    instance = problem.instance()
    assert [group.kind for group, _ in normal_form(instance)] == ["sum", "table", "conflict"]
    (defined,) = {number for _, number, _ in instance.derived}
    assert normal_form(instance)[defined][0] is instance.constraints[defined]
    assert isinstance(instance, Instance)
