"""The tree search after the last step: against enumeration, and as the solver uses it."""

from __future__ import annotations

import time

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from blogdit.completion import TreeSearch, can_complete, complete
from blogdit.constraints import AllDifferent, Count, Linear, NotEqual
from blogdit.csp import Instance, Objective
from blogdit.problems import coloring, generate, maxcut
from blogdit.solver import Solver
from blogdit.solving import SolveOptions
from helpers import KINDS, assignments, instances, random_model

# Twice a sum of twelve is never 13; that needs trying, as bounds alone allow it.
IMPOSSIBLE = Instance(
    np.full(12, 2), (Linear([range(12)], [[2] * 12], ["="], [13]), Count([range(12)], [1], [0], [12]))
)


def no_proposals(instance):
    return np.zeros((1, instance.size), np.int64)


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
@settings(max_examples=40, deadline=None)
def test_it_finds_an_answer_where_there_is_one(kind, data):
    instance = data.draw(instances(kinds=(kind, "all_different"), objective=False))
    there = any(instance.verify(values).satisfied for values in assignments(instance))
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
        assert search.dead_ends == 0


def test_most_votes_are_tried_first():
    instance = Instance(np.array([4, 4]), (AllDifferent([[0, 1]]),))
    assert TreeSearch(instance, np.array([[2, 3], [1, 3], [1, 0]])).run() == [1, 3]


def test_it_gives_up_after_dead_ends_and_when_it_is_told_to():
    search = TreeSearch(IMPOSSIBLE, no_proposals(IMPOSSIBLE))
    assert search.run(20) is None
    assert search.dead_ends == 20
    search = TreeSearch(IMPOSSIBLE, no_proposals(IMPOSSIBLE))
    assert search.run(stopped=lambda: search.nodes >= 64) is None
    assert search.nodes == 64


def test_it_proves_that_there_is_no_answer():
    search = TreeSearch(IMPOSSIBLE, no_proposals(IMPOSSIBLE))
    assert search.run() is None


def test_beginning_again_keeps_what_is_known_and_ends():
    """A square of order 20 with many holes takes more dead ends than the first stretch has."""
    rng, n = np.random.default_rng(4), 20
    square = (rng.permutation(n)[:, None] + rng.permutation(n)) % n
    holes = rng.random(n * n) < 0.42
    lines = np.arange(n * n).reshape(n, n)
    instance = Instance(
        np.full(n * n, n),
        (AllDifferent(np.concatenate([lines, lines.T])),),
        givens={i: int(square.flat[i]) for i in range(n * n) if not holes[i]},
    )
    found = TreeSearch(instance, rng.integers(0, n, (1, n * n))).run(20_000)
    assert found is not None
    assert instance.verify(found).satisfied


def test_whom_it_can_take():
    assert can_complete(next(iter(generate("sudoku", 1))))
    assert not can_complete(coloring.build((3, [[0, 1]]), 2)), "pairs are repaired"
    assert not can_complete(maxcut.build((2, [[0, 1]])))
    goal = Objective("maximize", unary=[[0, 1]], unary_weights=[1.0])
    assert not can_complete(Instance(np.array([2, 2]), (AllDifferent([[0, 1]]),), goal))
    assert not can_complete(Instance(np.full(3000, 50), (AllDifferent([range(50)]),))), "too large for Python"


def test_an_answer_does_not_depend_on_company():
    many = list(generate("sudoku", 3, seed=5))
    starts = torch.randint(0, 9, (2, 3, 81), generator=torch.Generator().manual_seed(0))
    together = complete(many, starts)
    for place, one in enumerate(many):
        assert one.verify(together[place].numpy()).satisfied
        assert complete([one], starts[:, place : place + 1])[0].tolist() == together[place].tolist()


def test_out_of_time_the_first_state_stays():
    one = next(iter(generate("sudoku", 1)))
    starts = torch.zeros(1, 1, 81, dtype=torch.long)
    assert complete([one], starts, deadline=time.monotonic() - 1).equal(starts[0])
    assert complete([one], starts, stopped=lambda: True).equal(starts[0])


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
