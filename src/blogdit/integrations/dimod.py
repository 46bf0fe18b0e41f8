"""Samplers for dimod: `Sampler` (BQM: Ising and QUBO), `DQMSampler` and `CQMSampler`.

A sample set has one row for each read, with energies that dimod computes. One row is the best answer of
`blogdit.solve`. The others are where the chains of the sampler are, each improved by a local search of its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

try:
    import dimod
except ModuleNotFoundError as error:
    raise ModuleNotFoundError("no module 'dimod'; expected pip install 'blogdit[dimod]'") from error
import numpy as np
import torch

from blogdit import api
from blogdit.core.arrays import whole_number
from blogdit.core.constraints import IntArray
from blogdit.core.instance import Instance
from blogdit.core.result import Result
from blogdit.finishers.annealing import FIRST_SWEEPS, LAST_SHARE, Chains
from blogdit.finishers.base import Deadline, Task
from blogdit.finishers.descent import descend
from blogdit.finishers.landscape import landscape_of
from blogdit.finishers.tasks import clean_starts
from blogdit.integrations.dimod_models import of_bqm, of_cqm, of_dqm, require
from blogdit.network.checkpoint import Model
from blogdit.network.runtime import resolve_device, runs_kernels
from blogdit.solver.options import SolveKeywords

__all__ = ["CQMSampler", "DQMSampler", "Sampler"]

DEFAULT_SECONDS = 1.0  # of a call, where no budget is given
SWEEPS = 1000  # of annealing for each read: as many as dwave's annealing makes

Improve = Callable[[Instance, IntArray, int, Deadline], IntArray]  # instance, states, reads, deadline -> (reads, n)


class _Reads:
    """What the samplers share: a model and a device, and many reads of one instance."""

    def __init__(self, model: str | Model | None = None, device: str = "auto"):
        """`model` is a bundled model, a file, or what `blogdit.load` gave."""
        self.model, self.device = model, device

    @property
    def parameters(self) -> dict[str, Any]:
        """The keywords of a call; dimod lists with each the properties that it depends on."""
        unlike = ("chains", "batch_size", "total_time")  # `num_reads` are the chains, and there is one instance
        return {"num_reads": []} | {key: [] for key in SolveKeywords.__annotations__ if key not in unlike}

    @property
    def properties(self) -> dict[str, Any]:
        return {"model": self.model, "device": self.device}

    def _sample(
        self, instance: Instance, num_reads: int, options: dict[str, Any], improve: Improve
    ) -> tuple[IntArray, dict[str, Any]]:
        """Values (num_reads, n), the best first, and what is known of the best."""
        num_reads = whole_number(num_reads, "num_reads", 1)
        limit = options.get("time_limit")
        if limit is None and options.get("steps") is None:
            limit = DEFAULT_SECONDS
        share = 1.0 if num_reads == 1 or limit is None else 0.5  # of the time, for the best answer
        deadline = Deadline(np.inf if limit is None else limit)
        chosen = {**options, "time_limit": None if limit is None else share * limit}
        best, states = self._solve(instance, {**chosen, "chains": num_reads if num_reads > 1 else None})
        reads = best.values[None]
        if num_reads > 1:
            starts = clean_starts(Task(instance, states))
            reads = np.concatenate([reads, improve(instance, starts, num_reads - 1, deadline)])
        facts = ("status", "found_by", "proved_by", "steps", "seconds", "seed", "model")
        return reads, {fact: getattr(best, fact) for fact in facts}

    def _solve(self, instance: Instance, options: dict[str, Any]) -> tuple[Result, IntArray]:
        """The best answer, and where the chains were at last."""
        states = np.zeros((0, instance.size), np.int64)

        def look(best: Callable[[], Result], chains: Callable[[], IntArray]) -> None:
            nonlocal states
            states = chains()

        result = api.follow(instance, look, self.model, self.device, **options)
        return result, states

    def _annealed(
        self, instance: Instance, states: IntArray, reads: int, deadline: Deadline, seed: int, sweeps: int
    ) -> IntArray:
        """A round of annealing of each state; reads beyond the states begin at random."""
        device = resolve_device(self.device)
        place = device if runs_kernels(device) else torch.device("cpu")
        chains = Chains([landscape_of(instance)], [states], reads, place, seed)
        if chains.free.any():
            if not deadline.unlimited:  # a short round tells how many sweeps there is time for
                began = time.monotonic()
                chains.take_round(FIRST_SWEEPS, deadline)
                rate = FIRST_SWEEPS / max(time.monotonic() - began, 1e-6)
                sweeps = min(sweeps, int(LAST_SHARE * rate * deadline.left))
            if sweeps:
                chains.take_round(sweeps, deadline)
        return chains.states[:, 0].long().cpu().numpy()

    @staticmethod
    def _descended(instance: Instance, states: IntArray, reads: int, deadline: Deadline, seed: int) -> IntArray:
        """A local optimum near each state; reads beyond the states begin at random."""
        rng = np.random.default_rng(seed)
        random = rng.integers(0, instance.domain_sizes, size=(max(reads - len(states), 0), instance.size))
        starts = [*states[:reads], *random]
        return np.array(
            [descend(instance, start, deadline.share(1 / (reads - done))) for done, start in enumerate(starts)],
            np.int64,
        )


class Sampler(_Reads, dimod.core.sampler.Sampler):
    """For binary quadratic models.

    `sample(bqm, num_reads=10, time_limit=2.0, seed=1)`: other keywords are those of `blogdit.solve`, and `num_sweeps`.
    """

    @property
    def parameters(self) -> dict[str, Any]:
        return {**super().parameters, "num_sweeps": []}

    def sample(self, bqm: Any, num_reads: int = 1, num_sweeps: int = SWEEPS, **options: Any) -> Any:
        """One row is the best answer that is found. Each other read is a chain of the sampler, with `num_sweeps` sweeps
        of annealing behind it, or as many as there is time for. A time limit is for the best answer or, with more
        reads, half for it and half for the others."""
        require(bqm, dimod.BinaryQuadraticModel)
        options, seed = self.remove_unknown_kwargs(**options), options.get("seed") or 0
        sweeps = whole_number(num_sweeps, "num_sweeps", 0)
        if not bqm.num_variables:
            return dimod.SampleSet.from_samples([], bqm.vartype, energy=[])
        reads, info = self._sample(of_bqm(bqm), num_reads, options, partial(self._annealed, seed=seed, sweeps=sweeps))
        bits = reads[:, :-1].astype(np.int8)  # without the reference
        samples = 2 * bits - 1 if bqm.vartype is dimod.SPIN else bits
        return dimod.SampleSet.from_samples_bqm((samples, list(bqm.variables)), bqm, info=info)


class DQMSampler(_Reads):
    """For discrete quadratic models: `sample_dqm(dqm, num_reads=10, time_limit=2.0)`."""

    def sample_dqm(self, dqm: Any, num_reads: int = 1, **options: Any) -> Any:
        """As `Sampler.sample`, with descent in the place of annealing."""
        require(dqm, dimod.DiscreteQuadraticModel)
        if not dqm.num_variables():
            return dimod.SampleSet.from_samples([], "INTEGER", energy=[])
        seed = options.get("seed") or 0
        reads, info = self._sample(of_dqm(dqm), num_reads, options, partial(self._descended, seed=seed))
        energies = dqm.energies((reads, list(dqm.variables)))
        return dimod.SampleSet.from_samples((reads, list(dqm.variables)), "INTEGER", energies, info=info)


class CQMSampler(_Reads):
    """For constrained quadratic models: `sample_cqm(cqm, time_limit=2.0)`."""

    def sample_cqm(self, cqm: Any, num_reads: int = 1, **options: Any) -> Any:
        """One row is the best answer that is found. The others are states of the sampler as they are: `is_feasible`
        says which of them keep all constraints."""
        require(cqm, dimod.ConstrainedQuadraticModel)
        if not cqm.num_variables():
            return dimod.SampleSet.from_samples_cqm([], cqm)
        instance, own = of_cqm(cqm), cqm.num_variables()
        reads, info = self._sample(instance, num_reads, options, lambda instance, states, n, _: states[:n])
        numbers = np.array([instance.domains.numbers(read)[:own] for read in reads])
        return dimod.SampleSet.from_samples_cqm((numbers, list(cqm.variables)), cqm, info=info)
