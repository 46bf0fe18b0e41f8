"""A trained chain samples close to the Boltzmann distribution; `benchmarks/boltzmann.py` at a size for every day."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import torch

SCRIPT = Path(__file__).parent.parent / "benchmarks" / "boltzmann.py"


def test_training_brings_samples_close_to_the_boltzmann_distribution():
    """Total variation to exp(-H / tau) / Z on 81 states: the trained chain less than half of the untrained one's, and
    the exact draws, which measure the sampling error, below both."""
    spec = importlib.util.spec_from_file_location("boltzmann", SCRIPT)
    boltzmann = importlib.util.module_from_spec(spec)
    sys.modules["boltzmann"] = boltzmann
    spec.loader.exec_module(boltzmann)
    torch.set_num_threads(1)
    instance, tau = boltzmann.coloring_path(), 0.1
    exact = torch.softmax(-boltzmann.every_energy(instance) / tau, 0)
    draws = torch.multinomial(exact, 2000, replacement=True, generator=torch.Generator().manual_seed(1))
    error = boltzmann.distance(torch.bincount(draws, minlength=81).double() / 2000, exact)
    gaps = {}
    for updates in (1, 150):  # after one update the weights are all but untrained
        model = boltzmann.trained(instance, tau, dit=False, updates=updates)
        found = boltzmann.sampled(model, instance, tau, dit=False, chains=2000, steps=20, seed=2)
        gaps[updates] = boltzmann.distance(found, exact)
    assert error < gaps[150] < 0.5 * gaps[1], (error, gaps)
