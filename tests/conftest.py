"""Fixtures that several files of tests use."""

from __future__ import annotations

import itertools
import os
import time
from pathlib import Path

import pytest

# Tests run side by side, and some fork: a forked child of a process whose OpenMP threads have run hangs.
os.environ.setdefault("OMP_NUM_THREADS", "1")
import hypothesis
import torch
from hypothesis import HealthCheck, settings

# A loaded machine is no reason to fail.
hypothesis.settings.register_profile("blogdit", deadline=None)
hypothesis.settings.load_profile("blogdit")

if not torch.cuda.is_available():  # without a GPU, its kernels run in Triton's interpreter
    os.environ.setdefault("TRITON_INTERPRET", "1")

# An example may take as long as it does, and so may drawing it: the machine may be busy.
settings.register_profile("busy machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy machine")


@pytest.fixture(scope="session")
def sudoku4_path(tmp_path_factory) -> Path:
    """A small model that solves 4x4 puzzles with 10 to 12 givens; trained once, also if tests run side by side."""
    import blogdit

    torch.set_num_threads(1)
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent
    folder = shared / "sudoku4"
    model = folder / "last.safetensors"
    try:
        folder.mkdir()
    except FileExistsError:
        for _ in range(3000):  # ten minutes, as long as a busy machine may need
            if (folder / "ready").exists():
                return model
            time.sleep(0.2)
        raise
    chosen = {
        "values": "axis", "own_answers": 0.0,
        "box": 2, "min_givens": 10, "max_givens": 12, "pool": 256, "validation": 4, "validation_steps": 5,
        "validate_every": 10_000, "dim": 32, "heads": 2, "head_dim": 16, "layers": 1, "position_dims": 2,
        "relation": "neighbours", "unroll": 1, "horizon": 8, "batch_size": 32, "tau_start": 0.02, "warmup": 10,
        "learning_rate": 0.005, "ema": 0.8,
    }  # fmt: skip
    blogdit.train("sudoku", out=folder, updates=50, settings=chosen, device="cpu")
    (folder / "ready").touch()
    return model


@pytest.fixture(scope="session")
def sudoku4(sudoku4_path):
    from blogdit.network.checkpoint import load_model

    return load_model(sudoku4_path)


@pytest.fixture(scope="session")
def puzzles():
    """100 puzzles that `sudoku4` solves, some at once and some after many steps."""
    from blogdit.problems import generate

    return generate("sudoku", 100, seed=5, box=2, min_givens=6, max_givens=9)


@pytest.fixture
def counting(monkeypatch):
    """A system of `bench` that counts its calls."""
    from bench_cases import Counting
    from blogdit.bench.systems import systems

    one = Counting()
    monkeypatch.setitem(systems(), "counting", one)
    return one


class Recorder:
    """A finisher that finds nothing, takes all of its time and remembers what it was asked."""

    name = "recorder"

    def __init__(self, clock=None, seconds=None, answer=None, loads=False):
        self.clock, self.seconds, self.answer, self.calls, self.prepared = clock, seconds, answer, [], False
        self.is_prepared = not loads

    def supports(self, instance):
        return True

    def prepare(self):
        self.prepared = self.is_prepared = True

    def finish(self, tasks, deadline, seed):
        from blogdit.finishers.base import Finish

        assert self.prepared
        self.calls.append((tasks, deadline, deadline.left if not deadline.unlimited else None))
        if self.clock is not None:
            self.clock.now += self.seconds or (0.0 if deadline.unlimited else deadline.left)
        return [self.answer(task) if self.answer else Finish(None) for task in tasks]


@pytest.fixture
def recorder():
    """Makes finishers, and gives them to a solver: `recorder(solver, seconds=..., answer=...)`."""

    def attach(solver, clock=None, **facts):
        one = Recorder(clock, **facts)
        solver.finishing.finishers = {one.name: one}
        solver.finishing.of = lambda instance: (one,)
        return one

    return attach


@pytest.fixture
def clock(monkeypatch):
    """Time that passes only while a network works: `tick` seconds a step."""
    from blogdit.network.inference import fastest
    from blogdit.solver import occupants as module
    from blogdit.solver.options import SolveOptions
    from blogdit.solver.solver import Solver
    from helpers import random_model

    class Clock:
        now, tick = 100.0, 0.1

        def solver(self, session=None, **options):
            return Solver(random_model(), SolveOptions(**options), session=session)

        def slow(self, denoiser, batch):
            denoise = fastest(denoiser, batch)

            def call(*arguments):
                self.now += self.tick
                return denoise(*arguments)

            return call

    clock = Clock()
    monkeypatch.setattr(module, "fastest", clock.slow)
    monkeypatch.setattr(time, "monotonic", lambda: clock.now)
    return clock


@pytest.fixture
def little_work(monkeypatch):
    """Without a deadline finishers do a small part of their work, for tests that do not ask what all of it finds."""
    from blogdit.finishers import annealing, exact, swaps, tabu

    monkeypatch.setattr(annealing, "SWEEPS", {"cpu": 40, "cuda": 40})
    monkeypatch.setattr(annealing, "ROUNDS", {"cpu": 2, "cuda": 2})
    monkeypatch.setattr(exact, "WORK", 0.01)
    monkeypatch.setattr(swaps, "CPU_STEPS", 2)
    monkeypatch.setattr(tabu, "CPU_MOVES", 10)


@pytest.fixture
def ticking(monkeypatch):
    """A clock that goes on by 0.01 s whenever somebody looks at it, however fast the machine is."""
    looks = itertools.count()
    monkeypatch.setattr(time, "monotonic", lambda: 100.0 + next(looks) / 100)


@pytest.fixture(scope="session")
def lines() -> list[str]:
    """Easy 4x4 puzzles as text."""
    from blogdit.problems import generate, sudoku

    easy = generate("sudoku", 1500, seed=11, box=2, min_givens=12, max_givens=12)
    return [sudoku.text(puzzle) for puzzle in easy]


@pytest.fixture
def solve(sudoku4_path, capsys):
    """Run the command with the small model; returns exit code, records on stdout, lines on stderr."""
    from blogdit.cli.app import run

    def call(*arguments, model=sudoku4_path):
        code = run(["solve", *map(str, arguments), "--model", str(model), "--threads", "1"])
        out, err = capsys.readouterr()
        return code, out, err

    return call


@pytest.fixture
def any_model(tmp_path):
    """Random weights that run on every graph."""
    from blogdit.method.chain import ChainConfig
    from blogdit.network.checkpoint import Model, save_model
    from helpers import small_denoiser

    path = tmp_path / "any.safetensors"
    save_model(path, Model("any", small_denoiser(), ChainConfig()))
    return path
