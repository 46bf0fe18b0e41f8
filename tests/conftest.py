"""Fixtures that several files of tests use."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

# Tests run side by side, and some fork: a forked child of a process whose OpenMP threads have run hangs.
os.environ.setdefault("OMP_NUM_THREADS", "1")
import torch

if not torch.cuda.is_available():  # without a GPU, its kernels run in Triton's interpreter
    os.environ.setdefault("TRITON_INTERPRET", "1")


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
        for _ in range(600):
            if (folder / "ready").exists():
                return model
            time.sleep(0.2)
        raise
    settings = {
        "box": 2, "min_givens": 10, "max_givens": 12, "pool": 256, "validation": 4, "validation_steps": 5,
        "validate_every": 10_000, "dim": 32, "heads": 2, "head_dim": 16, "layers": 1, "position_dims": 2,
        "relation": "neighbours", "unroll": 1, "horizon": 8, "batch_size": 32, "tau_start": 0.02, "warmup": 10,
        "learning_rate": 0.005, "ema": 0.8,
    }  # fmt: skip
    blogdit.train("sudoku", out=folder, updates=50, settings=settings, device="cpu")
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


@pytest.fixture
def no_tree(monkeypatch):
    """Problems of pairs have the repair alone: small ones would be decided before it."""
    from blogdit.solver import slots as crew

    monkeypatch.setattr(crew, "can_backtrack", lambda instance: False)


@pytest.fixture
def clock(monkeypatch, no_tree):
    """Time that passes only while a network works or a walk moves: `tick` seconds a step."""
    from blogdit.finishers.walk import Walk
    from blogdit.solver.options import SolveOptions
    from blogdit.solver.solver import Solver
    from helpers import random_model

    class Clock:
        now, tick = 100.0, 0.1

        def solver(self, **options):
            solver = Solver(random_model(), SolveOptions(**options))

            def slow(denoiser, batch):
                denoise = denoiser.on(batch)

                def call(logits, block):
                    self.now += self.tick
                    return denoise(logits, block)

                return call

            solver.bind = slow
            return solver

    clock, moves = Clock(), Walk._take

    def slow_moves(*arguments):
        clock.now += clock.tick
        moves(*arguments)

    monkeypatch.setattr(Walk, "_take", slow_moves)
    monkeypatch.setattr(time, "monotonic", lambda: clock.now)
    return clock


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
