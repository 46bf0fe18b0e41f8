"""Blocks solved anew after the last step: against enumeration, and as the solver uses them."""

from __future__ import annotations

import time

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from blogdit.core.constraints import Count, Linear, NotEqual
from blogdit.core.instance import Instance, Objective
from blogdit.finishers import improvement
from blogdit.finishers.improvement import BlockSearch, Larger, can_improve, improve
from blogdit.finishers.propagation import Propagation
from blogdit.solver.options import SolveOptions
from blogdit.solver.solver import Solver
from helpers import KINDS, assignments, instances, random_model


def solutions(instance):
    return [np.array(values) for values in assignments(instance) if instance.verify(values).satisfied]


def worth(instance, values):
    return (1.0 if instance.objective.sense == "maximize" else -1.0) * instance.objective.value(np.array(values))


def knapsack(items):
    """As much value as fits into two fifths of the weight."""
    rng = np.random.default_rng(items)
    weights, values = rng.integers(5, 40, items), rng.integers(5, 100, items).astype(float)
    rule = Linear([range(items)], [weights.tolist()], ["<="], [int(weights.sum() * 0.4)])
    goal = Objective("maximize", unary=[[item, 1] for item in range(items)], unary_weights=values)
    return Instance(np.full(items, 2), (rule,), goal)


def best_load(instance):
    """By dynamic programming."""
    (rule,) = instance.constraints
    best = np.zeros(int(rule.bounds[0]) + 1)
    for weight, value in zip(rule.coefficients.tolist(), instance.objective.unary_weights, strict=True):
        best[weight:] = np.maximum(best[weight:], best[:-weight] + value)
    return best[-1]


def nothing(instance):
    return np.zeros((1, instance.size), np.int64)


@pytest.mark.parametrize("block", [2.0, 8.0])
@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
@settings(max_examples=40, deadline=None)
def test_it_ends_at_the_optimum_and_knows_it(kind, block, data):
    """Also if it begins with blocks of two, from whatever start, valid or not; or it knows that there is nothing."""
    instance = data.draw(instances(kinds=(kind, "all_different"), objective=True))
    start = data.draw(st.sampled_from(list(assignments(instance))))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(improvement, "FIRST_BLOCK", block)
        search = BlockSearch(instance, np.array(start)[None])
        found = search.run()
    there = solutions(instance)
    assert search.exhausted
    assert instance.verify(found).satisfied == bool(there)
    assert not there or worth(instance, found) == pytest.approx(max(worth(instance, one) for one in there), abs=1e-6)


@given(instance=instances(objective=True), data=st.data())
@settings(max_examples=60, deadline=None)
def test_the_rule_loses_nothing_that_is_better(instance, data):
    """Than the bar; also in a block whose others have their values."""
    there = solutions(instance)
    if not there:
        return
    known = data.draw(st.sampled_from(there))
    block = data.draw(st.sets(st.integers(0, instance.size - 1), min_size=1))
    rule = Larger(instance, instance.objective)
    rule.bar = worth(instance, known)
    for inside in (set(range(instance.size)), block):
        better = [
            one
            for one in there
            if worth(instance, one) > rule.bar + 1e-3
            and all(one[v] == known[v] for v in set(range(instance.size)) - inside)
        ]
        state = Propagation(instance)
        state.add(rule, rule.scope)
        for variable in set(range(instance.size)) - inside:
            state.keep(variable, 1 << int(known[variable]))
        if not (state.settle() and (part := state.within(inside)).settle()):
            assert not better
            continue
        assert all(part.domains[v] >> int(value) & 1 for one in better for v, value in enumerate(one))


@pytest.mark.parametrize("items", [15, 40])
def test_loads(items):
    """Fifteen items in full; of forty it comes within a hundredth after a fixed amount of work."""
    instance = knapsack(items)
    search = BlockSearch(instance, nothing(instance))
    found = instance.verify(search.run(improvement.MOST_WORK))
    assert found.satisfied
    assert found.objective >= (1.0 if items == 15 else 0.99) * best_load(instance)
    assert search.exhausted == (items == 15)


def test_the_same_start_gives_the_same_answer():
    instance = knapsack(40)
    assert BlockSearch(instance, nothing(instance)).run(1 << 16) == BlockSearch(instance, nothing(instance)).run(
        1 << 16
    )


def test_who_is_stopped_has_what_was_found():
    instance, best = knapsack(40), []
    stopped = BlockSearch(instance, nothing(instance), lambda: len(best) > 3, lambda values: best.append(values))
    assert np.array_equal(stopped.run(), best[-1]) or worth(instance, stopped.best) > worth(instance, best[-1])
    at_once = BlockSearch(instance, nothing(instance), lambda: True)
    assert at_once.run() == [0] * 40


def test_it_ends_where_it_is_good_enough():
    instance = knapsack(40)
    search = BlockSearch(instance, nothing(instance), enough=lambda values: worth(instance, values) >= 300)
    assert worth(instance, search.run()) >= 300
    assert not search.exhausted


def test_what_it_is_for(monkeypatch):
    goal = Objective("maximize", unary=[[0, 1]], unary_weights=[1.0])
    count = Count([[0, 1, 2]], [1], [0], [2])
    assert can_improve(Instance(np.full(3, 2), (count,), goal))
    monkeypatch.setattr(improvement, "LARGEST", 0)
    assert not can_improve(Instance(np.full(3, 2), (count,), goal))  # so many terms are too many for Python
    monkeypatch.undo()
    assert not can_improve(Instance(np.full(3, 2), (count,)))  # `completion` does
    assert not can_improve(Instance(np.full(3, 2), (NotEqual([[0, 1]]),), goal))  # `population` does


def test_several_share_the_time():
    many = [knapsack(40), knapsack(20)]
    began = time.monotonic()
    values = torch.zeros(1, 2, 64, dtype=torch.long)
    found = improve(many, values, began + 0.4, all_the_time=True)
    assert time.monotonic() - began < 5
    assert found.states.shape == values.shape[1:]
    for one, state in zip(many, found.states.numpy(), strict=True):
        assert one.verify(state[: one.size]).satisfied
        assert one.verify(state[: one.size]).objective > 0.9 * best_load(one)


def test_who_has_no_time_keeps_the_first():
    one = knapsack(20)
    values = torch.stack([torch.ones(1, 32, dtype=torch.long), torch.zeros(1, 32, dtype=torch.long)])
    for when in ({"deadline": time.monotonic() - 1}, {"stopped": lambda: True}):
        found = improve([one], values, **when)
        assert torch.equal(found.states, values[0])
        assert found.exhausted == [False]


# -- the solver ----------------------------------------------------------------------------------------------------


def solved(instance, **options):
    return dict(Solver(random_model(), SolveOptions(seed=1, **options)).results([instance]))[0]


def test_the_solver_answers_at_once_where_it_knows_that_nothing_is_better():
    instance = knapsack(15)
    result = solved(instance, chains=2, time_limit=60.0)
    assert result.objective == best_load(instance)
    assert result.seconds < 30
    assert not result.exhausted  # that is about answers that do not exist


def test_the_solver_knows_that_there_is_nothing():
    goal = Objective("maximize", unary=[[0, 1]], unary_weights=[1.0])
    instance = Instance(np.full(5, 2), (Linear([range(5)], [[1] * 5], [">="], [6]),), goal)
    result = solved(instance, chains=2, time_limit=60.0)
    assert result.exhausted
    assert result.seconds < 30


def test_a_target_or_any_answer_may_be_enough():
    instance = knapsack(60)
    for options, least in (
        ({"target": 0.9 * best_load(instance)}, 0.9 * best_load(instance)),
        ({"first_feasible": True}, 0),
    ):
        result = solved(instance, chains=2, time_limit=60.0, **options)
        assert result.objective >= least
        assert result.seconds < 30


def test_after_a_number_of_steps_the_answer_depends_on_the_seed_alone():
    instance = knapsack(30)
    first, second = (solved(instance, chains=2, steps=3) for _ in range(2))
    assert np.array_equal(first.values, second.values)
    assert first.objective > 0.95 * best_load(instance)
    assert first.raw_objective is None or first.raw_objective <= first.objective
    without = solved(instance, chains=2, steps=3, polish=False)
    assert without.objective == first.raw_objective or not without.verdict.satisfied
