"""Steps of slots: block schedules, reheats, and nothing that depends on when the host looks."""

from __future__ import annotations

import pytest
import torch

from blogdit.bench.variants import LowestStates
from blogdit.method.blocks import Schedule
from blogdit.problems import generate
from blogdit.solver.events import Step
from blogdit.solver.options import SolveOptions
from blogdit.solver.sampler import count_steps
from blogdit.solver.slots import Slot
from blogdit.solver.solver import Solver
from helpers import TRIANGLE, answers, random_model

# -- schedule and reheats -------------------------------------------------------------------------------------------


def rates(solver, instance) -> list[float]:
    solver.session.trace = True
    return [event.rate for event in solver.events([instance]) if isinstance(event, Step)]


def test_a_stuck_chain_starts_again_from_a_larger_block(clock):
    """An instance without a solution: after the first gains, the block falls from 0.9 to 0.3 once per cycle."""
    found = rates(clock.solver(steps=40, cycle=10), TRIANGLE)
    expected = [0.3 * 3 ** (1 - k / 9) for k in range(10)]
    assert found[:10] == pytest.approx(expected, rel=1e-5)
    starts = [k for k, rate in enumerate(found) if rate == pytest.approx(0.9)]
    assert starts == [0, 10, 20, 30]


def test_a_chain_that_improves_is_left_in_peace():
    """As long as the last gain is within half a cycle, the block stays small."""
    solver = Solver(random_model(), SolveOptions(cycle=6))
    slots = solver.occupants.enter([Slot(0, TRIANGLE)])
    for step in range(30):
        count_steps(slots, torch.full((1, 1), 100.0 - step, dtype=torch.float64), cycle=6)
    assert slots.since_reheat.item() == 30
    for _ in range(3):
        count_steps(slots, torch.full((1, 1), 80.0, dtype=torch.float64), cycle=6)
    assert slots.since_reheat.item() == 0


def test_blocks_shrink_over_a_budget_of_steps(clock):
    found = rates(clock.solver(steps=21, schedule="budget", cycle=5), TRIANGLE)
    assert found == pytest.approx([0.3 * 3 ** (1 - k / 20) for k in range(21)], rel=1e-5)


@pytest.mark.parametrize("options", [{"time_limit": 1.95}, {"total_time": 1.95}, {"time_limit": 1.95, "steps": 999}])
def test_blocks_shrink_over_a_budget_of_time(clock, options):
    found = rates(clock.solver(schedule="budget", cycle=5, finish="none", **options), TRIANGLE)
    assert found == pytest.approx([0.3 * 3 ** (1 - 0.1 * k / 1.95) for k in range(20)], rel=1e-4)


def test_the_larger_share_of_two_budgets_counts(clock):
    found = rates(clock.solver(schedule="budget", steps=4, time_limit=1e6), TRIANGLE)
    assert found[-1] == pytest.approx(Schedule().rho_min)


# -- steps without a look -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("every", [3, 16])
def test_answers_do_not_depend_on_when_the_host_looks(sudoku4, puzzles, every):
    """Values and steps of puzzles that come and go, and of cuts that stop at a target."""
    cuts = generate("maxcut", 4, seed=5, vertices=20)
    for model, instances, options in (
        (sudoku4, puzzles[:30], {"steps": 50, "batch_size": 8}),
        (random_model(), cuts, {"steps": 40, "chains": 2, "target": 25.0, "finish": "none"}),
        (random_model(), cuts, {"steps": 20, "first_feasible": True, "schedule": "budget"}),
    ):
        expected = answers(model, instances, **options)
        solver = Solver(model, SolveOptions(**options))
        solver.look_every = every
        found = sorted(solver.results(instances))
        if options.get("schedule") != "budget":  # blocks follow the budget as of the last look
            assert [(r.values.tolist(), r.steps) for _, r in found] == [row[:2] for row in expected]
        assert [r.status for _, r in found] == [row[2] for row in expected]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("block", ["random", "margin", "critical", "related", "all"])
def test_replayed_steps_equal_launched_ones(sudoku4, puzzles, block):
    """The state of slots after a recorded step and after the same step launched kernel by kernel, bit for bit; and
    what somebody who watches every step has seen."""
    for model, instances in ((sudoku4, puzzles[:7]), (random_model(), generate("maxcut", 3, seed=5, vertices=20))):
        states = []
        for records in (True, False):
            solver = Solver(model, SolveOptions(steps=20, chains=2, block=block), "cuda")
            solver.session.watch = lowest = LowestStates()
            slots = solver.occupants.enter([Slot(place, one) for place, one in enumerate(instances)])
            sampler = solver.occupants.sampler_of(slots)
            sampler.records = records
            sampler.advance(9)
            assert (sampler.graph is not None) == records
            states.append([tensor.cpu() for tensor in (*slots.state(), *lowest.batches[0][1:])])
        assert all(torch.equal(one, other) for one, other in zip(*states, strict=True))


def test_blocks_that_follow_steps_do_not_depend_on_looks():
    cuts = generate("maxcut", 3, seed=5, vertices=20)
    options = {"steps": 20, "schedule": "budget", "finish": "none"}
    solver = Solver(random_model(), SolveOptions(**options))
    solver.look_every = 7
    found = [(r.values.tolist(), r.steps) for _, r in sorted(solver.results(cuts))]
    assert found == [row[:2] for row in answers(random_model(), cuts, **options)]


def test_places_that_are_kept_change_nothing(sudoku4, puzzles):
    """As on a GPU: who is done keeps a place until half of the batch is; results, steps and budgets are the same."""
    options = {"steps": 50, "batch_size": 8}
    expected = answers(sudoku4, puzzles[:40], **options)
    solver, most = Solver(sudoku4, SolveOptions(**options)), 0

    def keep_places() -> None:
        nonlocal most
        most = max(most, sum(slot.answered for slot in solver.occupants.slots.members))
        solver.occupants.records = True

    solver.look_every, solver.session.on_step = 4, keep_places
    found = sorted(solver.results(puzzles[:40]))
    assert [(r.values.tolist(), r.steps) for _, r in found] == [row[:2] for row in expected]
    assert [index for index, _ in found] == list(range(40))
    assert most > 0
    assert solver.steps_done == sum(r.steps for _, r in found)
