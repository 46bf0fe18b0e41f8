"""The seam as the loop uses it: when a finisher is called, with what, in what time, and whose answer is given."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from blogdit.core.constraints import NotEqual
from blogdit.core.instance import Instance, Objective
from blogdit.finishers.base import Finish
from blogdit.problems import generate
from blogdit.solver.answers import is_better
from blogdit.solver.options import SolveOptions
from blogdit.solver.queueing import Queue
from blogdit.solver.slots import Slots
from blogdit.solver.solver import Solver
from helpers import TRIANGLE, random_model


@pytest.fixture
def model():
    return random_model()


def solved_by(solver, instance):
    ((_, result),) = solver.results([instance])
    return result


# -- when, and in what time ------------------------------------------------------------------------------------------


def test_sampler_and_finisher_take_turns(clock, recorder):
    """A limit of 10.5 s has turns that end after 0.5, 2.5 and 10.5 s; the finisher gets the second half of each."""
    clock.tick = 0.05
    solver = clock.solver(time_limit=10.5)
    one = recorder(solver, clock)
    result = solved_by(solver, TRIANGLE)
    assert [left for _, _, left in one.calls] == pytest.approx([0.25, 1.0, 4.0], abs=0.06)
    assert result.steps == pytest.approx(105, abs=4)
    assert result.seconds == pytest.approx(10.5, abs=0.06)
    assert result.status == "unknown"


def test_the_sampler_has_the_whole_first_turn_if_the_finisher_must_be_loaded(clock, recorder):
    """An easy instance does not wait for a library. The finisher gets its share none the less."""
    clock.tick = 0.05
    solver = clock.solver(time_limit=10.5)
    one = recorder(solver, clock, loads=True, answer=lambda task: seen.append(clock.now) or Finish(None))
    seen, began = [], clock.now
    solved_by(solver, TRIANGLE)
    assert seen[0] - began == pytest.approx(0.5 + 0.25, abs=0.11), "the recorder takes its time first"
    assert [left for _, _, left in one.calls] == pytest.approx([0.25, 1.0, 4.0], abs=0.06)


def test_a_finisher_that_must_be_loaded_does_not_wait_for_a_sampler_that_takes_no_step(clock, recorder):
    solver = clock.solver(time_limit=10.5, finish_share=1.0)
    one = recorder(solver, clock, loads=True)
    assert solved_by(solver, TRIANGLE).steps == 0
    assert [left for _, _, left in one.calls] == pytest.approx([0.5, 2.0, 8.0])


def test_a_finisher_that_is_done_at_once_is_asked_once_in_every_turn(clock, recorder):
    solver = clock.solver(time_limit=10.5)
    one = recorder(solver, clock, seconds=1e-6)
    result = solved_by(solver, TRIANGLE)
    assert len(one.calls) == 3
    assert result.seconds == pytest.approx(5.25, abs=0.11), "nothing is left to do in the rest of the time"


def test_the_share_of_the_finisher_is_an_option(clock, recorder):
    solver = clock.solver(time_limit=15.0, finish_share=0.2)
    one = recorder(solver, clock)
    solved_by(solver, TRIANGLE)
    assert sum(left for _, _, left in one.calls) == pytest.approx(3.0, abs=0.11)


def test_with_the_whole_share_the_finisher_has_every_turn_to_itself(clock, recorder):
    """The turns of the limit are the same; no step of the network comes before them."""
    solver = clock.solver(time_limit=10.5, finish_share=1.0)
    one = recorder(solver, clock)
    result = solved_by(solver, TRIANGLE)
    assert [left for _, _, left in one.calls] == pytest.approx([0.5, 2.0, 8.0])
    assert result.steps == 0


def test_where_steps_are_counted_the_finisher_comes_once_with_a_fixed_amount_of_work(clock, recorder):
    solver = clock.solver(steps=7, time_limit=60.0)
    one = recorder(solver, clock, seconds=1.0)
    result = solved_by(solver, TRIANGLE)
    ((_, deadline, _),) = one.calls
    assert deadline.unlimited
    assert result.steps == 7
    assert result.seconds == pytest.approx(1.7)
    clock.now += 60
    assert deadline.passed(), "but no longer than the time limit"


def test_without_a_finisher_the_sampler_has_all_the_time(clock):
    assert solved_by(clock.solver(time_limit=2.0, finish="none"), TRIANGLE).steps == pytest.approx(20, abs=1)


def test_auto_is_a_local_search_the_exact_finisher_and_the_local_search_again(model):
    solver = Solver(model, SolveOptions())
    graph, cut, graph_set = (generate(name, 1, seed=0)[0] for name in ("coloring", "maxcut", "mis"))
    puzzle = generate("sudoku", 1, seed=0)[0]
    names = [[one.name for one in solver.finishing.of(each)] for each in (graph, cut, graph_set, puzzle)]
    assert names == [[local, "exact", local] for local in ("tabu", "annealing", "swaps")] + [["exact"]]


def test_a_solved_instance_does_not_wait_for_a_finisher(clock, recorder):
    """Two graphs in one batch: one is coloured by any assignment, the other is with its finisher for seconds."""
    free = generate("coloring", 1, seed=1, vertices=3, colors=2, p_min=0.0, p_max=0.0)[0]
    solver = clock.solver(time_limit=8.0, batch_size=2)
    recorder(solver, clock, seconds=5.0)
    index, result = next(solver.results([TRIANGLE, free]))
    assert (index, result.status, result.found_by) == (1, "solved", "sampler")
    assert result.seconds == pytest.approx(0.05)


def test_a_total_time_alone_is_divided(clock, recorder):
    """Sizes that share no batch have equal parts of it. What one does not need is for those that follow."""
    cuts = [generate("maxcut", 1, seed=0, vertices=n)[0] for n in (10, 40, 70, 100, 130)]
    solver = clock.solver(total_time=10.0)
    recorder(solver, clock)
    found = dict(solver.results(cuts))
    assert [found[place].seconds for place in range(5)] == [pytest.approx(2.0, abs=0.3)] * 5
    assert clock.now == pytest.approx(110.0, abs=0.3)
    free = generate("coloring", 1, seed=1, vertices=40, colors=3, p_min=0.0, p_max=0.0)
    solver = clock.solver(total_time=10.0)
    recorder(solver, clock)
    found = dict(solver.results([*free, TRIANGLE, *free]))
    assert found[1].seconds == pytest.approx(10.0, abs=0.4)
    assert all(found[place].status == "solved" for place in (0, 2))


def test_a_total_time_for_one_batch_is_divided_on_a_cpu(clock, recorder):
    solver = clock.solver(total_time=6.0)
    recorder(solver, clock)
    found = dict(solver.results(generate("maxcut", 3, seed=0, vertices=12)))
    assert [found[place].seconds for place in range(3)] == [pytest.approx(2.0, abs=0.2)] * 3
    assert clock.now == pytest.approx(106.0, abs=0.3)


def test_reading_takes_little_of_a_total_time(clock, recorder):
    """A source that needs half a second for each is not read to its end before the first step."""

    def slow():
        for cut in generate("maxcut", 100, seed=0, vertices=12):
            clock.now += 0.5
            yield cut

    solver = clock.solver(total_time=10.0, batch_size=1)
    recorder(solver, clock)
    found = dict(solver.results(slow()))
    assert clock.now < 112
    assert len(found) > 2
    assert solver.cut_short


# -- what a CPU does with a slow step --------------------------------------------------------------------------------


def test_fewer_chains_where_a_step_of_all_does_not_fit(clock):
    solver = clock.solver(time_limit=21.0, chains=8, finish="none")
    solver.pace.seconds_per_work = None
    solver.pace.expected = lambda *facts: 0.15  # for one chain; the first turn has 0.5 s
    assert solver.occupants.refill(Queue([(0, TRIANGLE)])).batch.chains == 3
    solver = clock.solver(steps=5, chains=8)
    slots = solver.occupants.refill(Queue([(0, TRIANGLE)]))
    assert slots.batch.chains == 8, "steps that are counted are all taken"


def test_a_step_that_does_not_fit_is_not_begun_and_said_so(clock, recorder):
    solver, notes = clock.solver(time_limit=2.0), []
    one = recorder(solver, clock)
    solver.session.on_note, solver.pace.expected = notes.append, lambda *facts: 1.5
    result = solved_by(solver, TRIANGLE)
    assert (result.steps, result.sampler) == (0, None)
    assert sum(left for _, _, left in one.calls) == pytest.approx(2.0)
    assert len(notes) == 1
    assert "one step takes too long" in notes[0]


# -- what it is given, and whose answer counts -----------------------------------------------------------------------


def test_starts_are_the_sampler_s_best_first(model, recorder):
    cut = generate("maxcut", 1, seed=0, vertices=20)[0]
    solver = Solver(model, SolveOptions(steps=5, chains=3, seed=2))
    one = recorder(solver)
    result = solved_by(solver, cut)
    (((task,), _, _),) = one.calls
    assert task.instance is cut
    assert task.starts.shape == (5, 20)
    assert task.starts[0].tolist() == result.values.tolist()


def test_the_better_answer_is_given_whoever_found_it(model, recorder):
    cut = generate("maxcut", 1, seed=0, vertices=8)[0]
    solver = Solver(model, SolveOptions(steps=5))
    recorder(solver, answer=lambda task: Finish(np.zeros(8, np.int64)))
    result = solved_by(solver, cut)
    assert result.found_by == "sampler"
    assert result.objective == result.sampler.objective > 0


def test_a_valid_answer_is_preferred_to_a_cheaper_one_that_is_not():
    goal = Objective("minimize", unary=[[0, 0], [1, 1], [2, 2]], unary_weights=[5.0, 5.0, 5.0])
    triangle = Instance([3, 3, 3], (NotEqual([[0, 1], [1, 2], [0, 2]]),), goal)
    valid, cheap, dearer = np.array([0, 1, 2]), np.array([1, 1, 1]), np.array([1, 0, 2])
    assert is_better(triangle, valid, cheap)
    assert not is_better(triangle, cheap, valid)
    assert is_better(triangle, dearer, valid), "5 instead of 15"
    assert not is_better(triangle, valid, valid)


@pytest.mark.parametrize(("proof", "status"), [("infeasible", "infeasible"), (None, "unknown")])
def test_only_a_proof_says_that_there_is_no_answer(clock, recorder, proof, status):
    solver = clock.solver(time_limit=3.0)
    one = recorder(solver, clock, answer=lambda task: Finish(None, proof))
    result = solved_by(solver, TRIANGLE)
    assert (result.status, result.proved_by) == (status, proof and "recorder")
    assert (len(one.calls) == 1) == (proof is not None), "a proof ends the instance"


def test_a_proof_of_the_best_answer(model, recorder):
    pair = Instance([2], objective=Objective("maximize", unary=[[0, 1]], unary_weights=[1.0]))
    solver = Solver(model, SolveOptions(steps=1))
    recorder(solver, answer=lambda task: Finish(np.array([1]), "optimal"))
    assert solved_by(solver, pair).status == "optimal"


def test_a_target_is_passed_on_and_ends_an_instance(clock, recorder, monkeypatch):
    cut = generate("maxcut", 1, seed=0, vertices=20)[0]
    best = np.arange(20) % 2
    reached = cut.verify(best).objective
    solver = clock.solver(time_limit=100.0, target=reached)
    clock.tick = 3.5
    one = recorder(solver, answer=lambda task: Finish(best))
    monkeypatch.setattr(Slots, "best", lambda slots, place: (np.zeros(20, np.int64), np.zeros(20, np.int64)))
    result = solved_by(solver, cut)
    (((task,), _, _),) = one.calls
    assert task.target == pytest.approx(reached)
    assert result.objective == reached


def test_a_finisher_without_memory_leaves_the_sampler_s_answer(model, recorder):
    def full(task):
        raise torch.cuda.OutOfMemoryError("CUDA out of memory")

    solver = Solver(model, SolveOptions(steps=2))
    recorder(solver, answer=full)
    assert solved_by(solver, generate("mis", 1, seed=0)[0]).found_by == "sampler"


def test_a_solver_that_is_stopped_calls_no_finisher(model, recorder):
    """The answer is incomplete, so that a resumed run takes it up again."""
    solver = Solver(model, SolveOptions(steps=1))
    one = recorder(solver)
    solver.session.on_step = lambda: setattr(solver.session, "stopping", True)
    (event,) = solver.events(generate("mis", 1, seed=0))
    assert not event.complete
    assert not one.calls


def test_a_signal_reaches_the_finisher(model, recorder):
    solver = Solver(model, SolveOptions(steps=1))
    seen = []

    def interrupted(task):
        solver.session.stopping = True
        seen.append(one.calls[-1][1].passed())
        return Finish(None)

    one = recorder(solver, answer=interrupted)
    (event,) = solver.events(generate("mis", 1, seed=0))
    assert seen == [True]
    assert not event.complete


def test_who_has_no_step_to_take_is_not_told_how_long_one_takes(model, recwarn):
    (graph,) = generate("maxcut", 1, seed=0, vertices=300)
    solver = Solver(model, SolveOptions(time_limit=0.2, finish_share=1.0))
    ((_, result),) = solver.results([graph])
    assert (result.steps, solver.pace.seconds_per_work) == (0, None)
    assert not recwarn.list
