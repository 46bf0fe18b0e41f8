"""How the seconds of an instance are divided into turns of the sampler and a finisher."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blogdit.solver.budget import Budget


def test_turns_grow_and_end_with_the_limit():
    assert [Budget(2.1, 0.5, turn=turn).turn_end for turn in range(4)] == pytest.approx([0.1, 0.5, 2.1, 2.1])
    ends = [Budget(60.0, 0.5, turn=turn).turn_end for turn in range(6)]
    assert ends == pytest.approx([0.5, 2.5, 10.5, 42.5, 60.0, 60.0])


def test_without_a_limit_turns_go_on_for_ever():
    assert [Budget(finish_share=0.5, turn=turn).turn_end for turn in range(3)] == [0.5, 2.5, 10.5]
    assert not Budget(sampled=1e9).over


def test_the_sampler_comes_first_in_every_turn():
    budget = Budget(21.0, 0.5)
    assert not budget.is_due()
    budget.sampled = 0.25
    assert budget.is_due()
    assert budget.finishing_left == pytest.approx(0.25)
    budget.finished = 0.25
    budget.next_turn()
    assert not budget.is_due()
    assert budget.sampling_left == pytest.approx(1.0)


def test_a_turn_that_one_slow_step_has_used_up_is_skipped():
    budget = Budget(21.0, 0.5, sampled=0.6)  # the first turn is over after 0.5 s, the second after 2.5 s
    assert not budget.is_due()
    assert budget.turn == 1
    assert budget.sampling_left == pytest.approx(0.65)
    budget = Budget(21.0, 0.5, sampled=30.0)
    assert budget.is_due()
    assert budget.over


def test_what_a_finisher_does_not_use_is_left_for_the_next_one():
    budget = Budget(21.0, 0.5, sampled=0.25)
    budget.next_turn()
    budget.sampled = 1.25
    assert budget.is_due()
    assert budget.finishing_left == pytest.approx(1.25)


def test_without_a_finisher_the_sampler_has_it_all():
    budget = Budget(10.0, 0.0, turn=5)
    assert budget.sampling_left == 10.0
    assert not Budget(10.0, 0.5, too_large=True).samples
    assert Budget(10.0, 1.0).is_due(), "a sampler without seconds does not keep the finisher waiting"


@given(st.floats(0.01, 1e4), st.floats(0.05, 0.95), st.floats(0.001, 0.3))
def test_every_second_is_spent_once(limit, share, step):
    """With steps of any length, and a finisher that uses all of its time, both get about their share of the limit."""
    budget, steps = Budget(limit, share), 0
    while not budget.over and steps < 10_000:
        if budget.is_due():
            budget.finished += max(budget.finishing_left, 0.0)
            budget.next_turn()
        else:
            budget.sampled += step * limit
            steps += 1
    assert limit <= budget.spent * (1 + 1e-9)
    assert budget.spent <= limit * (1 + step) + 1e-9, "late by one step at most"
    assert budget.sampled >= (1 - share) * limit * (1 - 1e-9) - 12 * step * limit


@given(st.floats(0.1, 100), st.floats(0, 0.9))
def test_progress_is_the_share_of_the_samplers_seconds(limit, share):
    assert Budget(limit, share).progress == 0
    assert Budget(limit, share, sampled=(1 - share) * limit / 2).progress == pytest.approx(0.5)
    assert Budget(limit, share, sampled=2 * limit).progress == 1
    assert Budget(math.inf, share, sampled=limit).progress == 0


def test_a_slow_step_does_not_take_the_finishers_share():
    """On a busy machine one step may take longer than the whole limit. The finisher has its share all the same."""
    budget = Budget(1.0, 0.5, sampled=1.5)
    assert budget.over
    assert budget.is_due()
    assert budget.is_last_turn
    assert budget.finishing_left == 0.5
    budget.finished = 0.4
    assert abs(budget.finishing_left - 0.1) < 1e-9


def test_what_is_too_large_goes_to_its_finisher_at_once():
    budget = Budget(10.0, 0.5, too_large=True)
    assert not budget.samples
    assert budget.is_due()
    assert budget.finishing_left == budget.turn_end
