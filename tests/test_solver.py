"""The anytime loop: budgets, refilling, reheats, memory, odd instances, what it tells."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
import torch

import blogdit
from blogdit.core.constraints import NotEqual
from blogdit.core.errors import InputError
from blogdit.core.instance import Instance, Objective
from blogdit.core.result import VALID, Sampled
from blogdit.method.blocks import SELECTORS
from blogdit.problems import coloring, generate, maxcut, mis
from blogdit.solver import occupants as module
from blogdit.solver.occupants import Occupants
from blogdit.solver.options import SolveOptions
from blogdit.solver.slots import Slots
from blogdit.solver.solver import Solver
from helpers import TRIANGLE, answers, assignments, random_model, zoo

# -- budgets --------------------------------------------------------------------------------------------------------


def test_steps_are_counted_exactly():
    assert [steps for _, steps, *_ in answers(random_model(), [TRIANGLE] * 3, steps=7)] == [7, 7, 7]


def test_the_deadline_is_missed_by_one_step_at_most(clock):
    """A step takes 0.1 s."""
    ((_, result),) = clock.solver(time_limit=0.25, finish="none").results([TRIANGLE])
    assert result.steps == 3
    assert result.seconds == pytest.approx(0.3)
    assert clock.now == pytest.approx(100.3)


@pytest.mark.parametrize(("limit", "steps"), [(0, 0), (0.01, 1)])
def test_tiny_time_limits_give_a_checked_answer(clock, limit, steps):
    cut = generate("maxcut", 1, seed=0)[0]
    results = [result for _, result in clock.solver(time_limit=limit, finish="none").results([TRIANGLE, cut])]
    assert {result.instance.problem: result.steps for result in results} == {"coloring": steps, "maxcut": steps}
    assert {result.status for result in results} == {"unknown", "feasible"}


def test_on_a_cpu_the_instances_of_a_batch_share_the_clock(clock):
    """Six instances of 0.25 s have 1.5 s together, in batches of any size; none pays for another."""
    for size in (1, 2, 6):
        clock.now = 100.0
        results = clock.solver(time_limit=0.25, batch_size=size, finish="none").results([TRIANGLE] * 6)
        seconds = [result.seconds for _, result in results]
        assert seconds == pytest.approx([0.25] * 6, abs=0.1)
        assert clock.now - 100 == pytest.approx(sum(seconds)) == pytest.approx(1.5, abs=0.31)


def test_on_a_gpu_every_instance_pays_the_seconds_of_the_clock(clock):
    solver = clock.solver(time_limit=0.25, finish="none", batch_size=6)
    solver.clock.own_seconds = lambda elapsed, members: elapsed  # as on a GPU
    assert [result.seconds for _, result in solver.results([TRIANGLE] * 6)] == pytest.approx([0.3] * 6)
    assert clock.now == pytest.approx(100.3)


def test_total_time_ends_everything(clock):
    """Those in work get the best they have; those that wait are not heard of; the caller can tell."""
    solver = clock.solver(total_time=0.25, time_limit=9.0, batch_size=2, finish="none")
    found = dict(solver.results([TRIANGLE] * 100))
    assert clock.now == pytest.approx(100.3)
    assert sorted(found) == [0, 1]
    assert solver.cut_short
    assert list(clock.solver(total_time=0).results([TRIANGLE])) == []


def test_total_time_that_suffices_cuts_nothing_short():
    solver = Solver(random_model(), SolveOptions(total_time=60, steps=2))
    assert len(list(solver.results([TRIANGLE] * 3))) == 3
    assert not solver.cut_short


def test_a_target_stops():
    cut = maxcut.build((4, [[0, 1], [1, 2], [2, 3], [3, 0]]))
    ((_, reached),) = Solver(random_model(), SolveOptions(target=2, steps=500, finish="none")).results([cut])
    assert reached.objective >= 2
    assert reached.steps < 500
    ((_, missed),) = Solver(random_model(), SolveOptions(target=5, steps=50, finish="none")).results([cut])
    assert missed.steps == 50
    least = Instance([2, 2], objective=Objective("minimize", unary=[[0, 1]], unary_weights=[3.0]))
    ((_, result),) = Solver(random_model(), SolveOptions(target=0, steps=500, finish="none")).results([least])
    assert result.objective == 0
    assert result.steps < 500


def test_first_feasible_stops():
    graph = generate("maxcut", 1, seed=0)[0]
    ((_, result),) = Solver(random_model(), SolveOptions(first_feasible=True, steps=50)).results([graph])
    assert (result.steps, result.status) == (1, "feasible")


@pytest.mark.parametrize(
    ("options", "steps"),
    [
        ({"steps": 3, "time_limit": 60}, 3),
        ({"steps": 1000, "time_limit": 0.25}, 3),
        ({"steps": 1000, "time_limit": 60, "total_time": 0.25}, 3),
        ({"steps": 1000, "time_limit": 0.25, "target": 1e9}, 3),
        ({"steps": 1000, "time_limit": 0.25, "first_feasible": True, "target": 1e9}, 1),
    ],
)
def test_the_first_budget_that_is_reached_stops(clock, options, steps):
    cut = generate("maxcut", 1, seed=0)[0]
    ((_, result),) = clock.solver(**options, finish="none").results([cut])
    assert result.steps == steps


def test_answers_are_handed_over_when_the_total_time_ends_at_any_moment(clock, monkeypatch):
    """Also if the clock passes the deadline between two looks at it: while the device works, or while a caller does."""
    cuts, reached = generate("maxcut", 3, seed=0, vertices=12), Slots.reached
    for late in ("reached", "caller"):
        solver = clock.solver(total_time=0.25, finish="none")
        if late == "reached":
            whole = Slots.reached.fget
            delayed = property(lambda slots, whole=whole: (setattr(clock, "now", clock.now + 0.1), whole(slots))[1])
            monkeypatch.setattr(Slots, "reached", delayed)
        found = []
        for index, result in solver.results(cuts):
            found.append(index)
            assert result.verdict.satisfied
            clock.now += 1.0 if late == "caller" else 0.0
        assert sorted(found) == [0, 1, 2]
        assert not solver.cut_short
        monkeypatch.setattr(Slots, "reached", reached)


def test_small_weights_do_not_make_conflicts_valid():
    """What counts as valid follows the penalty, which follows the weights."""
    graph = (30, [[i, j] for i in range(30) for j in range(i)])
    results = [
        blogdit.solve(mis.build(graph, np.full(30, weight)), model="mis", device="cpu", steps=5, finish="none")[0]
        for weight in (1.0, 0.01)
    ]
    assert [result.verdict.satisfied for result in results] == [True, True]
    assert results[1].objective == pytest.approx(0.01)


# -- who is on the device -------------------------------------------------------------------------------------------


def test_the_solved_leave_at_once_and_others_take_their_places(sudoku4, puzzles):
    solver = Solver(sudoku4, SolveOptions(steps=200, batch_size=8))
    inside = []
    solver.session.on_step = lambda: inside.append({slot.index for slot in solver.occupants.slots.members})
    results = dict(solver.results(puzzles))
    assert len(results) == len(puzzles)
    assert all(len(indices) <= 8 for indices in inside)
    assert solver.steps_done == sum(result.steps for result in results.values()), "no step after the last"
    assert any(before & after and after - before for before, after in pairwise(inside)), "some stay, others come"
    first_of_last = next(step for step, indices in enumerate(inside) if len(puzzles) - 1 in indices)
    assert min(map(len, inside[:first_of_last])) > 6, "at most a quarter of the places is free while others wait"


def test_reading_ahead_is_bounded(sudoku4, puzzles):
    read, finished, most = 0, 0, 0

    def source():
        nonlocal read
        for puzzle in puzzles:
            read += 1
            yield puzzle

    for _ in Solver(sudoku4, SolveOptions(steps=4, batch_size=4)).results(source()):
        finished += 1
        most = max(most, read - finished)
    assert finished == 100
    assert most <= 5 * 4


def test_the_batch_suits_the_device_where_no_size_is_given():
    few, many = (Solver(random_model(), SolveOptions(chains=chains, steps=1)) for chains in (1, 4))
    assert few.occupants.capacity((64, 4)) == 4 * many.occupants.capacity((64, 4)) == 64
    assert few.occupants.capacity((100_000, 2)) == 1


def out_of_memory_above(monkeypatch, most: int) -> list[int]:
    """A device on which no more than `most` instances fit; returns how many every step was tried with."""
    fastest, calls = module.fastest, []

    def limited(denoiser, batch):
        denoise = fastest(denoiser, batch)

        def call(logits, block):
            calls.append(batch.size)
            if batch.size > most:
                raise torch.cuda.OutOfMemoryError("CUDA out of memory")
            return denoise(logits, block)

        return call

    monkeypatch.setattr(module, "fastest", limited)
    return calls


def test_out_of_memory_halves_the_batch(sudoku4, puzzles, monkeypatch):
    """Everybody gets the answer they would have got, and batches stay small from then on."""
    expected = answers(sudoku4, puzzles[:40], steps=60)
    calls = out_of_memory_above(monkeypatch, 9)
    assert answers(sudoku4, puzzles[:40], steps=60, batch_size=32) == expected
    assert calls[:3] == [32, 16, 8]
    assert max(calls[2:]) == 8


def test_out_of_memory_while_instances_enter(monkeypatch):
    expected = answers(random_model(), [TRIANGLE] * 6, steps=3)
    solver, tried, enter = Solver(random_model(), SolveOptions(steps=3, batch_size=4)), [], Occupants.enter

    def failing(self, members, chains=None):
        tried.append(len(members))
        if len(members) > 2:
            raise torch.cuda.OutOfMemoryError("CUDA out of memory")
        return enter(self, members, chains)

    monkeypatch.setattr(Occupants, "enter", failing)
    assert [result.steps for _, result in sorted(solver.results([TRIANGLE] * 6))] == [3] * len(expected)
    assert tried[:2] == [4, 2]


def test_an_instance_that_does_not_fit_alone_is_an_error(monkeypatch):
    solver = Solver(random_model(), SolveOptions(steps=3, batch_size=4))
    out_of_memory_above(monkeypatch, 0)
    with pytest.raises(InputError, match="one instance does not fit the device's memory"):
        list(solver.results([TRIANGLE] * 3))


# -- odd instances --------------------------------------------------------------------------------------------------

ODD = {
    "no variables": (Instance([]), "solved"),
    "no variables, objective": (Instance([], objective=Objective("maximize")), "optimal"),
    "all given": (Instance([3, 3], (NotEqual([[0, 1]]),), givens={0: 1, 1: 2}), "solved"),
    "all given, wrong": (Instance([3, 3], (NotEqual([[0, 1]]),), givens={0: 1, 1: 1}), "infeasible"),
    "one value each": (Instance([1, 1, 1]), "solved"),
    "one value each, wrong": (Instance([1, 1], (NotEqual([[0, 1]]),)), "infeasible"),
    "no constraints": (Instance([4, 2, 3]), "solved"),
    "a single vertex": (coloring.build((1, []), 3), "solved"),
    "a cut without edges": (maxcut.build((5, [])), "optimal"),
}


@pytest.mark.parametrize("block", SELECTORS)
def test_odd_instances(block):
    """Alone and all together."""
    everybody = [instance for instance, _ in ODD.values()]
    together = answers(random_model(), everybody, steps=3, block=block)
    assert [status for _, _, status, *_ in together] == [status for _, status in ODD.values()]
    assert together == answers(random_model(), everybody, steps=3, block=block, batch_size=1)


def test_all_kinds_together_on_the_device_of_this_machine():
    """What trying everything finds; on a GPU where there is one."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    everybody = zoo() + [instance for instance, _ in ODD.values()]
    found = sorted(Solver(random_model(), SolveOptions(steps=40, chains=4), device).results(everybody))
    for instance, (_, result) in zip(everybody, found, strict=True):
        checks = [check for check in map(instance.verify, assignments(instance)) if check.satisfied]
        assert (result.status in VALID) == bool(checks)
        assert checks or result.status == "infeasible"
        if checks and instance.objective is not None:
            best = max if instance.objective.sense == "maximize" else min
            assert result.objective == best(check.objective for check in checks)


# -- what it tells --------------------------------------------------------------------------------------------------


def test_a_valid_answer_is_kept_also_when_a_lower_energy_is_not_valid():
    """Heavy vertices: breaking the constraint pays in energy, but only the valid answer counts."""
    pair = Instance(
        [2, 2], (NotEqual([[0, 1]]),), Objective("maximize", unary=[[0, 1], [1, 1]], unary_weights=[9.0, 9.0])
    )
    ((_, result),) = Solver(random_model(), SolveOptions(steps=60, finish="none")).results([pair])
    assert (result.status, result.objective) == ("feasible", 9.0)


def test_what_the_sampler_had_is_shown_apart():
    cut = generate("maxcut", 1, seed=3, vertices=60)[0]
    alone, finished = (
        next(Solver(random_model(), SolveOptions(steps=2, finish=finish)).results([cut]))[1]
        for finish in ("none", "annealing")
    )
    assert (alone.found_by, finished.found_by) == ("sampler", "annealing")
    assert alone.sampler == finished.sampler == Sampled(alone.objective, 0)
    assert finished.objective > alone.objective


def test_stopping_hands_over_what_there_is():
    solver, seen = Solver(random_model(), SolveOptions(time_limit=60, finish="none")), []

    def on_step():
        seen.append(len(solver.occupants.slots.members))
        solver.session.stopping = len(seen) == 3

    solver.session.on_step = on_step
    events = list(solver.events([TRIANGLE, TRIANGLE]))
    assert [(event.complete, event.result.steps) for event in events] == [(False, 3), (False, 3)]
    assert seen == [2, 2, 2]


def test_the_caller_keeps_its_grad_mode(sudoku4, puzzles):
    for _ in Solver(sudoku4, SolveOptions(steps=5)).results(puzzles[:5]):
        assert torch.is_grad_enabled()
        assert not torch.is_inference_mode_enabled()


def test_the_incumbent_is_in_the_sense_of_the_problem():
    cut = generate("maxcut", 1, seed=3, vertices=30)[0]
    solver, seen = Solver(random_model(), SolveOptions(steps=5, finish="none")), []
    solver.session.on_step = lambda: seen.append(solver.incumbent())
    ((_, result),) = solver.results([cut])
    assert seen == sorted(seen)
    assert seen[-1] == result.objective > 0
    assert solver.incumbent() is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"steps": -1}, "steps must be a whole number from 0 to .*, got -1"),
        ({"time_limit": -0.1}, "time_limit must not be negative"),
        ({"total_time": math.nan}, "total_time must not be negative, got nan"),
        ({"chains": 0}, "chains must be a whole number from 1 to .*, got 0"),
        ({"batch_size": 0}, "batch_size must be a whole number from 1"),
        ({"cycle": 0}, "cycle must be a whole number from 1"),
        ({"block": "best"}, "block must be one of all, random, margin, critical, related, got 'best'"),
        ({"schedule": "x"}, "schedule must be cycle or budget, got 'x'"),
        ({"target": math.inf}, "target must be finite"),
        ({"finish_share": 0.0}, "finish_share must be above 0 and at most 1, got 0.0"),
    ],
)
def test_options_are_checked(options, message):
    with pytest.raises(ValueError, match=message):
        SolveOptions(**options)
