"""Mending: costs against the verifier, answers against enumeration, and as the solver uses it."""

from __future__ import annotations

import itertools
import time

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import blogdit
from blogdit.core.constraints import AllDifferent, Linear, Table
from blogdit.core.instance import Instance, Objective
from blogdit.finishers.completion import TreeSearch, can_complete
from blogdit.finishers.improvement import BlockSearch
from blogdit.finishers.mending import MOST_ENTRIES, Mending, can_mend, mend, rules_of
from blogdit.problems import coloring, generate, maxcut
from helpers import KINDS, assignments, instances, solvable


def clauses(variables, per_variable, seed=0, **settings):
    """3-SAT with an answer: of each clause some literal agrees with it."""
    draws = np.random.default_rng(seed)
    answer, scopes = draws.integers(0, 2, variables), {}
    while sum(map(len, scopes.values())) < variables * per_variable:
        scope, signs = draws.choice(variables, 3, replace=False), tuple(draws.integers(0, 2, 3).tolist())
        if (answer[scope] == signs).any():
            scopes.setdefault(signs, []).append(scope.tolist())
    every = list(itertools.product((0, 1), repeat=3))
    groups = [
        Table(of, [one for one in every if any(a == b for a, b in zip(one, signs, strict=True))])
        for signs, of in scopes.items()
    ]
    return Instance(np.full(variables, 2), tuple(groups), **settings)


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
@settings(max_examples=40, deadline=None)
def test_rules_cost_what_is_violated_after_every_move(kind, data):
    """Each rule knows beforehand what a move will cost, and afterwards what begins anew would; nothing costs exactly
    where nothing is violated."""
    instance = data.draw(instances(kinds=(kind, "all_different"), objective=False))
    values = data.draw(st.sampled_from(assignments(instance).tolist()))
    rules, fresh = list(rules_of(instance)), list(rules_of(instance))
    for rule in rules:
        rule.begin(values)
    for variable, size in enumerate(instance.domain_sizes.tolist()):
        value = data.draw(st.integers(0, size - 1))
        for rule in rules:
            if variable in rule.scope and value != values[variable]:
                expected = rule.after(values, variable, value)
                rule.move(values, variable, value)
                assert rule.cost == expected
        values[variable] = value
        for rule, other in zip(rules, fresh, strict=True):
            other.begin(values)
            assert rule.cost == other.cost
        violations = [group.violations(np.array(values)) for group in instance.constraints]
        assert all(rule.cost == 0 for rule in rules) == (not np.concatenate(violations).any())


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
@settings(max_examples=40, deadline=None)
def test_it_finds_an_answer_where_there_is_one(kind, data):
    instance = data.draw(instances(kinds=(kind, "all_different"), objective=False))
    there = solvable(instance)
    mending = Mending(instance, np.zeros(instance.size, np.int64))
    assert mending.run(2000) == there
    assert instance.verify(np.array(mending.best)).satisfied == there


def test_it_solves_what_a_tree_search_leaves_open():
    instance = clauses(300, 4.1)
    assert TreeSearch(instance, np.zeros((1, 300), np.int64)).run(1 << 20) is None
    mending = Mending(instance, np.zeros(300, np.int64))
    assert mending.run(1 << 14)
    assert instance.verify(np.array(mending.best)).satisfied


def test_the_best_is_what_violates_least():
    """No sum of twos is odd: the best stays one away while the values go on changing."""
    instance = Instance(np.full(6, 3), (Linear([range(6)], [[2] * 6], ["="], [7]), AllDifferent([[0, 1, 2]])))
    mending = Mending(instance, np.zeros(6, np.int64))
    assert not mending.run(500)
    assert instance.verify(np.array(mending.best)).violated == 1


def test_it_ends_by_moves_by_the_clock_and_when_asked_to():
    instance = Instance(np.full(40, 2), (Linear([range(40)], [[2] * 40], ["="], [41]),))
    states = torch.zeros(2, 41, dtype=torch.int64)
    states[:, 40] = 7  # padding stays
    assert (mend([instance] * 2, states)[:, 40] == 7).all()
    assert torch.equal(mend([instance] * 2, states, stopped=lambda: True, all_the_time=True), states)
    assert torch.equal(mend([instance] * 2, states, deadline=time.monotonic() - 1, all_the_time=True), states)
    looks = iter([False] * 5)
    mending = Mending(instance, np.zeros(40, np.int64), lambda: next(looks, True))
    assert not mending.run()
    assert mending.moves == 5 * 16


def test_givens_are_kept():
    instance = Instance(np.full(3, 3), (AllDifferent([[0, 1, 2]]),), givens={0: 2})
    mending = Mending(instance, np.zeros(3, np.int64))
    assert mending.run(200)
    assert mending.values[0] == 2


def test_what_it_is_for():
    assert can_mend(next(iter(generate("sudoku", 1))))
    assert not can_mend(coloring.build((3, [[0, 1]]), 2)), "pairs are repaired"
    assert not can_mend(maxcut.build((2, [[0, 1]])))
    large = Instance(np.full(5000, 2), (AllDifferent([[0, 1]]), Linear([[1, 2, 3]], [[1, 1, 1]], ["="], [2])))
    assert can_mend(large)
    assert not can_complete(large)
    assert not can_mend(Instance(np.full(MOST_ENTRIES // 2, 3), (AllDifferent([range(3)]),)))


@pytest.mark.parametrize("variables", [300, 4200], ids=["after the tree", "too large for a tree"])
def test_the_solver_mends(variables):
    (result,) = blogdit.solve(clauses(variables, 3.6), model="coloring", steps=1, device="cpu")
    assert result.status == "solved"


def test_blocks_begin_at_what_is_mended():
    """With an objective, a valid state comes first."""
    goal = Objective("maximize", unary=[(0, 1)], unary_weights=[1.0])
    instance = clauses(300, 4.1, objective=goal)
    search = BlockSearch(instance, np.zeros((1, 300), np.int64), lambda: search.best is not None)
    assert instance.verify(np.array(search.run())).satisfied
