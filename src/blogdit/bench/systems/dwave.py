"""Simulated annealing and tabu search from D-Wave's samplers, on QUBOs and on the quadratic forms of MIS and MaxCut."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from blogdit.bench.systems.base import Budget, Clock, System
from blogdit.bench.systems.qubo import Qubo, qubo
from blogdit.core.instance import Instance
from blogdit.core.result import Result

SWEEPS = 1000  # of the first annealing run on a budget of time; each next one has twice as many
MOST_SWEEPS = 128  # of a run, for each variable: from there on more runs are worth as much as longer ones
LEAST_SWEEPS = 100  # shorter runs are not worth it
DEFAULT_SECONDS = 1.0  # where no budget is given
SEEDS = 2**31


class Sampler(System):
    problems = ("mis", "maxcut", "qubo")
    packages = ("dwave.samplers", "dimod")  # `warm_up` says which is missing


def samplers() -> Any:
    return importlib.import_module("dwave.samplers")


def model(form: Qubo) -> Any:
    """The form as a binary quadratic model."""
    import dimod

    couplings = (form.pairs[:, 0], form.pairs[:, 1], form.weights)
    return dimod.BinaryQuadraticModel.from_numpy_vectors(form.linear, couplings, form.constant, dimod.BINARY)


def bits_of(samples: Any, form: Qubo) -> np.ndarray:
    """The best sample as bits in the form's order."""
    best = samples.first.sample
    return np.array([best.get(i, 0) for i in range(form.size)], np.int64)


class Annealing(Sampler):
    """A run of `steps` sweeps or, on a budget of time, runs with 1000, 2000, 4000, ... sweeps, up to 128 times the
    variables; the best counts."""

    name = "annealing"
    counts = "steps"

    def solve(self, instance: Instance, budget: Budget, seed: int = 0) -> Result:
        form, clock = qubo(instance), Clock(budget.seconds)
        target, sampler = model(form), samplers().SimulatedAnnealingSampler()
        sweeps = budget.steps if budget.steps is not None else SWEEPS
        best, lowest, done = np.zeros(form.size, np.int64), np.inf, 0
        while True:
            found = sampler.sample(target, num_reads=1, num_sweeps=max(sweeps, 1), seed=(seed + done) % SEEDS)
            done += sweeps
            if len(found) and found.first.energy < lowest:
                best, lowest = bits_of(found, form), found.first.energy
            if budget.steps is not None or budget.seconds is None:
                break
            longest = max(MOST_SWEEPS * form.size, SWEEPS)
            sweeps = int(min(2 * sweeps, longest, done * clock.left / clock.spent))  # no more than there is time for
            if sweeps < LEAST_SWEEPS:
                break
        return Result(instance, form.decode(best), done, clock.spent, seed)


class Tabu(Sampler):
    """Restarted tabu search until the time is over."""

    name = "tabu"

    def solve(self, instance: Instance, budget: Budget, seed: int = 0) -> Result:
        seconds = DEFAULT_SECONDS if budget.seconds is None else budget.seconds
        form, clock = qubo(instance), Clock(seconds)
        target, sampler = model(form), samplers().TabuSampler()
        timeout = max(int(clock.left * 1000), 1)  # milliseconds
        found = sampler.sample(target, num_reads=1, timeout=timeout, seed=seed % SEEDS)
        return Result(instance, form.decode(bits_of(found, form)), 0, clock.spent, seed)


SYSTEMS = (Annealing(), Tabu())
