"""That it learns: small versions of benchmarks/boltzmann.py and benchmarks/sudoku4.py."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest
import torch

import blogdit
from blogdit.training.data import generated_data
from blogdit.training.recipe import recipe
from blogdit.training.state import Budget
from blogdit.training.trainer import Trainer
from helpers import generator


def benchmark(name):
    path = Path(__file__).parent.parent / "benchmarks" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"benchmark_{name}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_training_brings_samples_close_to_the_boltzmann_distribution():
    """Colourings of a path at a fixed temperature: total variation 0.7 untrained, a third of that when trained."""
    boltzmann = benchmark("boltzmann")
    instance, tau, chains = boltzmann.coloring_path(), 0.1, 2000
    exact = torch.softmax(-boltzmann.every_energy(instance) / tau, 0)
    draws = torch.multinomial(exact, chains, replacement=True, generator=generator(1))
    sampling_error = boltzmann.distance(torch.bincount(draws, minlength=81) / chains, exact)
    sampler = boltzmann.TRAINED[-1]
    before = boltzmann.sampled(boltzmann.untrained(), instance, tau, sampler, chains, steps=15)
    model = boltzmann.trained(instance, tau, sampler, updates=200)
    after = boltzmann.sampled(model, instance, tau, sampler, chains, steps=15)
    untrained, trained = boltzmann.distance(before, exact), boltzmann.distance(after, exact)
    assert sampling_error < 0.06
    assert untrained > 0.6
    assert trained < 0.4 * untrained


def test_the_benchmark_of_the_boltzmann_distribution_measures_it():
    """Energies are those of all assignments in order; the nearest temperature of an exact distribution is its own."""
    boltzmann = benchmark("boltzmann")
    instance = boltzmann.weighted_set()
    energies = boltzmann.every_energy(instance)
    values = np.array(np.unravel_index(np.arange(32), instance.domain_sizes)).T
    for h, x in zip(energies.tolist(), values, strict=True):
        verdict = instance.verify(x)
        if verdict.satisfied:
            assert h == pytest.approx(-verdict.objective, abs=1e-5)
        else:
            assert h > -verdict.objective + 0.5
    p = torch.softmax(-energies / 0.3, 0)
    near, rest = boltzmann.nearest(torch.softmax(-energies / 0.6, 0), energies, 0.3)
    assert abs(near - 0.6) < 0.03
    assert rest < 0.02 < boltzmann.distance(p, torch.softmax(-energies / 0.6, 0))


def test_4x4_sudoku_is_learnt_within_seconds(tmp_path):
    """`blogdit train sudoku --set box=2` cut to 150 updates: nearly all fresh puzzles within 100 steps, no polish."""
    chosen = recipe("sudoku", {"box": 2, "batch_size": 32, "warmup": 30, "learning_rate": 3e-3, "ema": 0.98,
                               "pool": 1024, "validation": 32, "validation_steps": 25})  # fmt: skip
    run = Trainer(chosen, generated_data(chosen, 0), Budget(updates=150), 0)
    records = list(run.run(tmp_path))
    assert records[-1]["energy"] < 0.4 * records[0]["energy"]
    known = {tuple(sorted(p.givens.items())) for p in [*run.data.training, *run.data.validation]}
    fresh = blogdit.generate("sudoku", 150, seed=77, box=2, min_givens=4, max_givens=6)
    fresh = [p for p in fresh if tuple(sorted(p.givens.items())) not in known][:100]
    results = blogdit.solve(fresh, model=tmp_path / "last.safetensors", device="cpu", steps=100, finish="none")
    assert len(fresh) == 100
    assert sum(result.status == "solved" for result in results) >= 97
