"""Many files as one stream, and a solver for each problem in it."""

from __future__ import annotations

import pytest

from blogdit.core.errors import InputError
from blogdit.core.instance import Instance
from blogdit.method.chain import ChainConfig
from blogdit.network.checkpoint import Model
from blogdit.problems import coloring, generate, maxcut
from blogdit.solver.events import Finished
from blogdit.solver.options import SolveOptions
from blogdit.solver.solver import Solver
from blogdit.solver.streams import ByProblem, SolverPool
from helpers import TRIANGLE, small_denoiser

FOUR = "1..." + "." * 12


def test_queues_by_problem_are_bounded():
    """An endless run of cuts in front of the last colouring does not end up in memory."""
    cut, graph = maxcut.build((2, [[0, 1]])), coloring.build((2, [[0, 1]]), 2)
    read = 0

    def source():
        nonlocal read
        for instance in [graph, *[cut] * 100, graph]:
            read += 1
            yield instance

    queues = ByProblem(source(), limit=10)
    assert queues.first() is graph
    assert [number for number, _ in queues.of("coloring")] == [0]
    assert read == 11
    assert queues.first() is cut
    assert [number for number, _ in queues.of("maxcut")] == list(range(1, 101))
    assert [number for number, _ in queues.of("coloring")] == [101]
    assert queues.first() is None


@pytest.fixture
def pool():
    model = Model("any", small_denoiser(), ChainConfig(), "random weights")

    def make(instance, session):
        if instance.problem == "mis":
            raise InputError("no model for mis")
        return Solver(model, SolveOptions(steps=3, total_time=60), session=session)

    return SolverPool(make)


def test_each_problem_has_its_solver(pool):
    mixed = generate("coloring", 3, seed=0) + generate("maxcut", 3, seed=0) + generate("coloring", 3, seed=1)
    events = {event.index: event.result.instance for event in pool.run(mixed) if isinstance(event, Finished)}
    assert events == dict(enumerate(mixed))
    assert sorted(pool.solvers) == ["coloring", "maxcut"]
    assert not pool.cut_short
    assert pool.steps_done == 9 * 3


def test_what_cannot_be_solved_is_reported_once(pool):
    mixed = generate("mis", 2, seed=0) + generate("maxcut", 2, seed=0) + generate("mis", 2, seed=1)
    errors = []
    pool.on_error = errors.append
    assert sorted(event.index for event in pool.run(mixed)) == [2, 3]
    assert [str(error) for error in errors] == ["no model for mis"]
    pool.on_error, pool.solvers = None, {}
    with pytest.raises(InputError, match="no model for mis"):
        list(pool.run(mixed))


def test_an_instance_that_does_not_fit_the_model_leaves_the_others_alone(pool):
    """Also if it is the first of its problem; a reason is told once."""
    errors = []
    pool.on_error = errors.append
    huge = Instance([2, 1 << 30], problem="maxcut", name="huge")
    cuts = [huge, *generate("maxcut", 2, seed=0), huge]
    assert sorted(event.index for event in pool.run(cuts)) == [1, 2]
    assert [str(error).partition(":")[0] for error in errors] == ["model 'random weights' does not fit huge"]


def test_the_total_time_is_that_of_all_problems_together(pool, monkeypatch):
    """A clock that jumps at every look at it: the second problem is not reached."""
    now = iter(range(0, 10_000, 8))
    monkeypatch.setattr("time.monotonic", lambda: next(now))
    mixed = generate("coloring", 1, seed=0) + generate("maxcut", 1, seed=0)
    assert [event.index for event in pool.run(mixed)] == [0]
    assert pool.cut_short


def test_a_total_time_alone_is_divided_among_problems(clock):
    """Three cuts and a colouring have a quarter each: on a CPU the cuts, which share a batch, too."""
    pool = SolverPool(lambda instance, session: clock.solver(session, total_time=8.0, finish="none"))
    found = {event.index: event.result for event in pool.run([*generate("maxcut", 3, seed=0, vertices=12), TRIANGLE])}
    assert [found[place].seconds for place in range(3)] == [pytest.approx(2.0, abs=0.2)] * 3
    assert found[3].seconds == pytest.approx(2.0, abs=0.2)


def test_stopping_ends_the_stream(pool):
    read = []

    def source():
        for instance in generate("coloring", 50, seed=0, vertices=8):
            read.append(instance)
            if len(read) == 20:
                pool.stop()
            yield instance

    model = Model("any", small_denoiser(), ChainConfig())
    pool.make = lambda instance, session: Solver(model, SolveOptions(steps=3, batch_size=2), session=session)
    events = list(pool.run(source()))
    assert len(read) < 25
    assert len(events) < 20
    assert all(event.complete or event.result.steps < 3 for event in events)
    assert list(pool.run(source())) == []
