"""The tree search after the last step: against enumeration, and as the solver uses it."""

from __future__ import annotations

import time

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from blogdit.core.constraints import AllDifferent, Linear, NotEqual
from blogdit.core.instance import Instance, Objective
from blogdit.finishers.completion import FIRST, TreeSearch, can_complete, complete
from blogdit.problems import coloring, generate, maxcut
from blogdit.solver.options import SolveOptions
from blogdit.solver.solver import Solver
from helpers import KINDS, assignments, instances, random_model, solvable


def odd(variables):
    """Twice a sum is never odd; that needs trying, as bounds alone allow it."""
    everyone = range(variables)
    return Instance(np.full(variables, 2), (Linear([everyone], [[2] * variables], ["="], [variables // 2 * 2 + 1]),))


IMPOSSIBLE, WITHOUT = odd(12), odd(40)


def no_proposals(instance):
    return np.zeros((1, instance.size), np.int64)


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
@settings(max_examples=40, deadline=None)
def test_it_finds_an_answer_where_there_is_one(kind, data):
    instance = data.draw(instances(kinds=(kind, "all_different"), objective=False))
    there = solvable(instance)
    found = TreeSearch(instance, no_proposals(instance)).run()
    assert (found is not None) == there
    assert found is None or instance.verify(found).satisfied


@given(instance=instances(objective=False), data=st.data())
@settings(max_examples=40, deadline=None)
def test_a_right_proposal_is_the_answer(instance, data):
    right = [values for values in assignments(instance) if instance.verify(values).satisfied]
    if right:
        proposal = data.draw(st.sampled_from(right))
        search = TreeSearch(instance, proposal[None])
        assert search.run() == proposal.tolist()
        assert search.contradictions == 0


def test_most_votes_are_tried_first():
    instance = Instance(np.array([4, 4]), (AllDifferent([[0, 1]]),))
    assert TreeSearch(instance, np.array([[2, 3], [1, 3], [1, 0]])).run() == [1, 3]


def test_it_gives_up_after_its_work_and_when_it_is_told_to():
    search = TreeSearch(WITHOUT, no_proposals(WITHOUT))
    assert search.run(1 << 15) is None
    assert 1 << 15 <= search.work < 1 << 16
    assert not search.exhausted
    search = TreeSearch(WITHOUT, no_proposals(WITHOUT), stopped=lambda: True)
    assert search.run() is None
    assert search.work < 1 << 14


def test_it_knows_when_there_is_no_answer():
    """With twelve variables all is tried soon, with forty it is not."""
    search = TreeSearch(IMPOSSIBLE, no_proposals(IMPOSSIBLE))
    assert search.run() is None
    assert search.exhausted
    states = torch.zeros(1, 2, 40, dtype=torch.long)
    assert complete([IMPOSSIBLE, WITHOUT], states).exhausted == [True, False]


def test_beginning_again_keeps_what_is_known_and_ends():
    """A magic square of order 5 takes more contradictions than the first stretch has."""
    n = 5
    board = np.arange(n * n).reshape(n, n)
    lines = [*board.tolist(), *board.T.tolist(), board.diagonal().tolist(), board[:, ::-1].diagonal().tolist()]
    number = len(lines)
    sums = Linear(lines, [[1] * n] * number, ["="] * number, [n * (n * n - 1) // 2] * number)
    instance = Instance(np.full(n * n, n * n), (AllDifferent([range(n * n)]), sums))
    search = TreeSearch(instance, no_proposals(instance))
    found = search.run()
    assert search.contradictions > FIRST
    assert found is not None
    assert instance.verify(found).satisfied


def test_in_vain_it_comes_close():
    """Ten variables differ, five by five, and twice the sum of three of them is to be 3: all but that can be."""
    halves = [list(range(5)), list(range(5, 10))]
    instance = Instance(np.full(10, 6), (AllDifferent(halves), Linear([[0, 5, 6]], [[2, 2, 2]], ["="], [3])))
    search = TreeSearch(instance, no_proposals(instance))
    assert search.run() is None
    assert search.exhausted
    assert instance.verify(no_proposals(instance)[0]).violated == 3
    assert instance.verify(search.closest()).violated < 3


def test_whom_it_can_take():
    assert can_complete(next(iter(generate("sudoku", 1))))
    assert not can_complete(coloring.build((3, [[0, 1]]), 2)), "pairs are repaired"
    assert not can_complete(maxcut.build((2, [[0, 1]])))
    goal = Objective("maximize", unary=[[0, 1]], unary_weights=[1.0])
    assert not can_complete(Instance(np.array([2, 2]), (AllDifferent([[0, 1]]),), goal))
    assert not can_complete(Instance(np.full(3000, 50), (AllDifferent([range(50)]),))), "too many values for Python"
    assert not can_complete(Instance(np.full(5000, 2), (AllDifferent([[0, 1]]),))), "too many variables"


def test_an_answer_does_not_depend_on_company():
    many = list(generate("sudoku", 3, seed=5))
    starts = torch.randint(0, 9, (2, 3, 81), generator=torch.Generator().manual_seed(0))
    together = complete(many, starts).states
    for place, one in enumerate(many):
        assert one.verify(together[place].numpy()).satisfied
        assert complete([one], starts[:, place : place + 1]).states[0].tolist() == together[place].tolist()


def test_out_of_time_the_first_state_stays():
    one = next(iter(generate("sudoku", 1)))
    starts = torch.zeros(1, 1, 81, dtype=torch.long)
    assert complete([one], starts, deadline=time.monotonic() - 1).states.equal(starts[0])
    assert complete([one], starts, stopped=lambda: True).states.equal(starts[0])


def test_the_solver_ends_with_it():
    """An untrained model solves nothing; the search does, and the result says what was there before."""
    puzzles = list(generate("sudoku", 3, seed=2))
    model = random_model()
    found = dict(Solver(model, SolveOptions(steps=2)).results(puzzles))
    assert all(result.status == "solved" for result in found.values())
    assert all(result.raw_violations for result in found.values())
    without = dict(Solver(model, SolveOptions(steps=2, polish=False)).results(puzzles))
    assert all(result.status == "infeasible" for result in without.values())
    assert [found[i].raw_violations for i in range(3)] == [without[i].verdict.violated for i in range(3)]


def test_with_a_time_limit_it_is_tried_early():
    puzzle = next(iter(generate("sudoku", 1, seed=3)))
    (_, result), *_ = Solver(random_model(), SolveOptions(time_limit=60.0)).results([puzzle])
    assert result.status == "solved"
    assert result.seconds < 30


def test_in_too_little_time_for_a_step_it_has_all_of_it():
    puzzle = next(iter(generate("sudoku", 1, seed=3)))
    (_, result), *_ = Solver(random_model(), SolveOptions(time_limit=0.5)).results([puzzle])
    assert (result.status, result.steps) == ("solved", 0)


def test_who_is_proved_impossible_leaves_at_once():
    """It keeps its place no longer than the proof takes, and others get theirs."""
    good = Instance(np.full(3, 3), (AllDifferent([[0, 1, 2]]),))
    many = [IMPOSSIBLE, good, IMPOSSIBLE, good, good]
    solver = Solver(random_model(), SolveOptions(total_time=20.0, batch_size=1))
    began = time.monotonic()
    found = dict(solver.results(many))
    assert [found[i].status for i in range(5)] == ["infeasible", "solved", "infeasible", "solved", "solved"]
    assert [found[i].exhausted for i in range(5)] == [True, False, True, False, False]
    assert time.monotonic() - began < 15


def test_propagation_does_not_outlast_its_time():
    """x < y < z < x on long domains narrows by one value at a time."""
    n, k = 3, 20_000
    ring = Linear([[i, (i + 1) % n] for i in range(n)], [[1, -1]] * n, ["<="] * n, [-1] * n)
    slack = Linear([range(n)] * 50, [[1] * n] * 50, ["<="] * 50, [n * k] * 50)
    instance = Instance(np.full(n, k), (ring, slack))
    began = time.monotonic()
    complete([instance], torch.zeros(1, 1, n, dtype=torch.long), deadline=began + 0.5, all_the_time=True)
    assert time.monotonic() - began < 1.5


def test_kinds_may_be_mixed():
    """SEND + MORE = MONEY, whose letters differ and whose leading ones are not 0."""
    letters = "SENDMORY"
    weights = dict.fromkeys(letters, 0)
    for word, sign in (("SEND", 1), ("MORE", 1), ("MONEY", -1)):
        for power, letter in enumerate(reversed(word)):
            weights[letter] += sign * 10**power
    everyone = list(range(8))
    sums = Linear([everyone, [0], [4]], [list(weights.values()), [1], [1]], ["=", ">=", ">="], [0, 1, 1])
    instance = Instance(np.full(8, 10), (AllDifferent([everyone]), sums, NotEqual([[0, 4]])))
    assert TreeSearch(instance, no_proposals(instance)).run() == [9, 5, 6, 7, 1, 0, 8, 2]
