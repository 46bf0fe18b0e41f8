"""The local search after the last step: when it is done, in what time, and which of its answers is given."""

from __future__ import annotations

import time

import numpy as np
import pytest
import torch

from blogdit.core.constraints import Linear, NotEqual
from blogdit.core.instance import Instance, Objective
from blogdit.problems import generate
from blogdit.solver import ending as module
from blogdit.solver.options import Finished, SolveOptions
from blogdit.solver.slots import Job
from blogdit.solver.solver import Solver
from helpers import TRIANGLE, random_model


@pytest.fixture
def model():
    return random_model()


def test_a_valid_answer_is_preferred_to_a_better_one_that_is_not(model, monkeypatch):
    """Three variables that must differ: the chains know (0, 0, 0), which breaks all constraints and costs 5; the walk
    knows (0, 1, 2), which breaks none and costs 15."""
    values = np.array([0, 1, 2])
    goal = Objective("minimize", unary=[[i, int(v)] for i, v in enumerate(values)], unary_weights=[5.0, 5.0, 5.0])
    triangle = Instance([3, 3, 3], (NotEqual([[0, 1], [1, 2], [0, 2]]),), goal)
    monkeypatch.setattr(module, "search", lambda instances, starts, *others: torch.tensor(values)[None])
    monkeypatch.setattr(module, "polish", lambda instance, start, deadline, exchanges=True: start)
    solver = Solver(model, SolveOptions(steps=1))
    crew = solver._enter([Job(0, triangle)])
    crew.best_values[:], crew.best_valid[:] = 0, 0
    (found,) = solver._finish(crew, [0], done=True)
    assert found.result.verdict.satisfied
    assert found.result.objective == 15
    assert found.result.raw_objective is None


def test_the_better_of_valid_answers_is_given(model, monkeypatch):
    """Whatever a search returns, an answer is never worse than what the chains had."""
    (instance,) = generate("maxcut", 1, seed=0, vertices=8)
    monkeypatch.setattr(module, "search", lambda instances, starts, *others: torch.zeros(1, 32, dtype=torch.long))
    monkeypatch.setattr(module, "polish", lambda instance, start, deadline, exchanges=True: start)
    (result,) = (result for _, result in Solver(model, SolveOptions(steps=5)).results([instance]))
    assert result.objective == result.raw_objective > 0


def test_who_is_asked_to_stop_does_not_search(model, monkeypatch):
    """An instance whose steps are done when the signal comes: no walk, and an answer that a resumed run repeats."""
    (instance,) = generate("mis", 1, seed=0)
    monkeypatch.setattr(module, "search", lambda *arguments: pytest.fail("a walk"))
    solver = Solver(model, SolveOptions(steps=1))
    solver.on_step = lambda: setattr(solver, "stopping", True)
    (event,) = solver.events([instance])
    assert isinstance(event, Finished)
    assert not event.complete


def test_a_signal_ends_the_walk(model, monkeypatch):
    """It comes during the walk: the walk sees it, and the answer is incomplete."""
    (instance,) = generate("mis", 1, seed=0)
    solver, walk = Solver(model, SolveOptions(steps=1)), module.search

    def interrupted(instances, starts, width, deadline, stopped, all_the_time, enough):
        solver.stopping = True
        assert stopped()
        assert not all_the_time
        return walk(instances, starts, width, deadline, stopped)

    monkeypatch.setattr(module, "search", interrupted)
    (event,) = solver.events([instance])
    assert not event.complete
    assert event.result.verdict.satisfied


def test_the_search_is_within_the_time_limit(model, monkeypatch):
    """With half of the time reserved, sampling ends at the half, and the walk gets four fifths of what is left."""
    (instance,) = generate("mis", 1, seed=0)
    calls = []

    def noted(instances, starts, width, deadline, stopped, all_the_time, enough):
        assert all_the_time
        calls.append((time.monotonic(), deadline))
        return starts[0]

    monkeypatch.setattr(module, "search", noted)
    monkeypatch.setattr(module, "SEARCH_SHARE", 0.5)
    solver, began = Solver(model, SolveOptions(time_limit=2.0)), time.monotonic()
    assert list(solver.results([instance]))
    ((now, deadline),) = calls
    assert 1.0 <= now - began < 2.0
    end = now + (deadline - now) / 0.8
    assert end - began == pytest.approx(2.0, abs=0.2)


@pytest.mark.parametrize("polish", [True, False])
def test_blocks_are_smallest_when_sampling_ends(model, polish, monkeypatch):
    """The share of the budget that is spent is 1 when the search begins."""
    monkeypatch.setattr(module, "SEARCH_SHARE", 0.25)
    (instance,) = generate("mis", 1, seed=0)
    solver = Solver(model, SolveOptions(time_limit=8.0, schedule="budget", polish=polish))
    solver.crew = solver._enter([Job(0, instance, limit=8.0)])
    job = solver.crew.jobs[0]
    assert solver._spent(job, job.entered + 6.0) == pytest.approx(1.0 if polish else 0.75)
    assert solver._spent(job, job.entered + 3.0) == pytest.approx(0.5 if polish else 0.375)


def test_a_goal_that_is_reached_needs_no_search(model, monkeypatch):
    monkeypatch.setattr(module, "search", lambda *arguments: pytest.fail("a walk"))
    (instance,) = generate("maxcut", 1, seed=0, vertices=8)
    (event,) = Solver(model, SolveOptions(steps=50, first_feasible=True)).events([instance])
    assert event.complete
    assert event.result.verdict.satisfied


def test_without_memory_for_a_walk_there_is_still_an_answer(model, monkeypatch):
    def full(*arguments):
        raise torch.cuda.OutOfMemoryError("CUDA out of memory")

    for name in ("search", "repair"):
        monkeypatch.setattr(module, name, full)
    (instance,) = generate("mis", 1, seed=0)
    (event,) = Solver(model, SolveOptions(steps=2)).events([instance])
    assert event.complete
    assert event.result.verdict.satisfied
    (event,) = Solver(model, SolveOptions(steps=2)).events([TRIANGLE])
    assert event.complete
    assert event.result.verdict.violated == 1


def test_a_target_ends_the_search(model, monkeypatch):
    """The search reaches it, and does not go on until the time, nearly all of which it has, is over."""
    monkeypatch.setattr(module, "SEARCH_SHARE", 0.97)
    (instance,) = generate("mis", 1, seed=0)
    solver, began = Solver(model, SolveOptions(time_limit=60.0, target=12.0, chains=1)), time.monotonic()
    ((_, result),) = solver.results([instance])
    assert result.objective >= 12
    assert time.monotonic() - began < 50
    ending = module.Ending(solver._enter([Job(0, instance)]), solver.options, "")
    assert ending.is_enough(instance, result.values)
    assert not ending.is_enough(instance, np.zeros(instance.size, np.int64))


def test_who_has_no_search_samples_all_the_time(clock, monkeypatch):
    """As it is too large for a tree search; whoever else is in the batch."""
    monkeypatch.setattr("blogdit.finishers.completion.MOST_VARIABLES", 11)
    cut = generate("maxcut", 1, seed=0, vertices=12)[0]
    other = Instance(cut.domain_sizes, (Linear([[0, 1]], [[1, 1]], ["<="], [1]),), cut.objective, problem="maxcut")
    solver = clock.solver(time_limit=1.0)
    walker, other_job = Job(0, cut), Job(1, other)
    assert walker.walks
    assert not other_job.searches
    assert module.sampling_share(walker, solver.options) == 0.5
    assert module.sampling_share(other_job, solver.options) == 1.0


def test_the_total_time_serves_all_instances(clock):
    """Five sizes one after the other, a second each: the total is for sampling and search of all of them."""
    cuts = [generate("maxcut", 1, seed=0, vertices=n)[0] for n in (10, 40, 70, 100, 130)]
    found = list(clock.solver(time_limit=1.0, total_time=6.0).results(cuts))
    assert sorted(index for index, _ in found) == [0, 1, 2, 3, 4]
    assert all(result.steps > 0 for _, result in found)


def test_a_total_time_alone_is_divided(clock):
    """Sizes that share no batch have equal parts of it; what one does not need is for those that follow."""
    cuts = [generate("maxcut", 1, seed=0, vertices=n)[0] for n in (10, 40, 70, 100, 130)]
    found = dict(clock.solver(total_time=10.0).results(cuts))
    assert [found[place].seconds for place in range(5)] == [pytest.approx(2.0, abs=0.3)] * 5
    assert clock.now == pytest.approx(110.0, abs=0.3)
    free = generate("coloring", 1, seed=1, vertices=40, colors=3, p_min=0.0, p_max=0.0)  # solved at once
    found = dict(clock.solver(total_time=10.0).results([*free, TRIANGLE, *free]))
    assert found[1].seconds == pytest.approx(10.0, abs=0.4)
    assert all(found[place].status == "solved" for place in (0, 2))


def test_the_last_part_of_a_total_time_is_like_the_others(clock):
    """Sampling and search have their shares of it: not of the whole total, of which little is left."""
    cuts = [generate("maxcut", 1, seed=0, vertices=n)[0] for n in (10, 40, 70)]
    found = dict(clock.solver(total_time=12.0, schedule="budget").results(cuts))
    assert [found[place].steps for place in range(3)] == [pytest.approx(20, abs=2)] * 3


def test_reading_takes_little_of_a_total_time(clock):
    """A source that needs half a second for each: it is not read to its end before the first step."""

    def slow():
        for cut in generate("maxcut", 100, seed=0, vertices=12):
            clock.now += 0.5
            yield cut

    solver = clock.solver(total_time=10.0, batch_size=1)
    found = dict(solver.results(slow()))
    assert clock.now < 112
    assert len(found) > 2
    assert solver.cut_short


def test_who_starts_again_without_memory_has_a_part_of_what_is_left(clock, monkeypatch):
    """Three seconds into a total of twelve; two of four had a batch, and have to do with one place then."""
    cuts = generate("maxcut", 4, seed=0, vertices=12)
    solver, steps = clock.solver(total_time=12.0, batch_size=2, polish=False), Solver._take_steps

    def full(self, crew):
        if clock.now > 103 and self._most == 2:
            raise torch.cuda.OutOfMemoryError("CUDA out of memory")
        return steps(self, crew)

    monkeypatch.setattr(Solver, "_take_steps", full)
    found = dict(solver.results(cuts))
    assert sorted(found) == [0, 1, 2, 3]
    assert all(result.steps > 10 for result in found.values())


def test_a_total_time_for_one_batch_is_for_all_of_it(clock):
    cuts = generate("maxcut", 3, seed=0, vertices=12)
    found = dict(clock.solver(total_time=4.0).results(cuts))
    assert [found[place].seconds for place in range(3)] == [pytest.approx(4.0, abs=0.3)] * 3
