"""Reverse steps of a crew, and what is remembered of them: all on the device, without a look by the host.

On a GPU a step is some hundred short kernels, and launching them costs more than running them. So a `Stepper` takes
the first step of a crew launch by launch, records the second, and replays it from then on (a CUDA graph).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from blogdit.method.blocks import decode
from blogdit.method.chain import ChainConfig, Denoise, sample
from blogdit.method.energy import discrete_energy, penalty_scale
from blogdit.network.kernels.recording import record
from blogdit.solver.options import SolveOptions
from blogdit.solver.slots import TOLERANCE, Crew


class Stepped(NamedTuple):
    """What one step did, for traces."""

    rate: Tensor  # (chains, B, 1)
    block: Tensor  # (R, M)
    values: Tensor  # (R, M)
    energy: Tensor  # (chains, B)
    better: Tensor  # (B,) there is a new best answer


def take_step(
    crew: Crew, denoise: Denoise, chain: ChainConfig, options: SolveOptions, spent: Tensor | None = None
) -> Stepped:
    """One reverse step of every chain. Blocks shrink with the share of the budget, of which `spent` (B,) is that of
    the time; without it, with the steps since a chain's last reheat."""
    batch = crew.batch
    if spent is None:
        progress = crew.since_reheat / max(options.cycle - 1, 1)
    else:
        if options.steps:
            spent = torch.maximum(spent, crew.steps / max(options.steps - 1, 1))
        progress = spent.expand(batch.chains, -1)
    rate = chain.schedule.rate(progress[..., None])
    step = next(sample(denoise, batch, crew.logits, [rate], chain, crew.selector, crew.noise))
    crew.logits = step.logits
    values = decode(crew.logits, batch)
    total, cost = (amount.view(batch.chains, -1) for amount in discrete_energy(values, batch))
    crew.steps = crew.steps + ~crew.reached
    better = keep_best(crew, values, total, cost)
    count_steps(crew, total, options.cycle, reheats=spent is None)
    return Stepped(rate, step.block, values, total, better)


def keep_best(crew: Crew, values: Tensor, total: Tensor, cost: Tensor) -> Tensor:
    """Remember what is better than before, where the goal is not yet reached; returns for which instances, (B,)."""
    batch, open_ = crew.batch, ~crew.reached
    values = batch.per_instance(values)  # (chains, B, N)
    everyone = torch.arange(batch.size, device=values.device)
    lowest, chain = total.min(0)
    better = (lowest < crew.best_energy - TOLERANCE) & open_
    crew.best_energy = torch.where(better, lowest, crew.best_energy)
    crew.best_values = torch.where(better[:, None], values[chain, everyone], crew.best_values)
    if not batch.optimisation:
        return better
    valid = total - cost < 0.5 * penalty_scale(batch)  # a violated constraint costs at least the whole of it
    lowest, chain = torch.where(valid, cost, math.inf).min(0)
    better_valid = (lowest < crew.best_objective - TOLERANCE) & open_
    crew.best_objective = torch.where(better_valid, lowest, crew.best_objective)
    crew.best_valid = torch.where(better_valid[:, None], values[chain, everyone], crew.best_valid)
    return better | better_valid


def count_steps(crew: Crew, total: Tensor, cycle: int, reheats: bool = True) -> None:
    """Steps since the last gain; a chain without one for long enough begins its block schedule again."""
    gained = total < crew.chain_best - TOLERANCE
    crew.chain_best = torch.minimum(crew.chain_best, total)
    crew.since_gain = torch.where(gained, 0, crew.since_gain + 1)
    crew.since_reheat = crew.since_reheat + 1
    if not reheats:
        return
    stuck = (crew.since_reheat >= cycle) & (crew.since_gain >= cycle // 2)
    crew.since_reheat = torch.where(stuck, 0, crew.since_reheat)
    crew.since_gain = torch.where(stuck, 0, crew.since_gain)
    crew.chain_best = torch.where(stuck, total, crew.chain_best)


# Looks at every step on the device. A GPU may record and replay it, so it keeps what it finds in the same tensors.
Watch = Callable[[Crew, Stepped], None]


class Stepper:
    """Takes the steps of one crew, as long as nobody joins or leaves."""

    def __init__(
        self,
        crew: Crew,
        denoise: Denoise,
        chain: ChainConfig,
        options: SolveOptions,
        follows_budget: bool,
        records: bool,
        watch: Watch | None = None,
    ):
        self.crew, self.denoise, self.chain, self.options, self.watch = crew, denoise, chain, options, watch
        device = crew.batch.device
        self.spent = torch.zeros(crew.batch.size, device=device) if follows_budget else None
        self.records = records and device.type == "cuda"
        self.graph: torch.cuda.CUDAGraph | None = None
        self.taken = 0

    @torch.no_grad()
    def advance(self, steps: int, spent: Sequence[float] | None = None) -> None:
        """`spent` is the share of the time of each instance, where blocks follow the budget."""
        if self.spent is not None:
            self.spent.copy_(torch.tensor(spent))
        for _ in range(steps):
            if self.graph is None and self.records and self.taken:
                self._record()
            if self.graph is None:
                self.once()
            else:
                self.graph.replay()
            self.taken += 1

    @torch.no_grad()
    def once(self, spent: Sequence[float] | None = None) -> Stepped:
        """A single step, launch by launch, and what it did."""
        if self.spent is not None and spent is not None:
            self.spent.copy_(torch.tensor(spent))
        return self._step()

    def _step(self) -> Stepped:
        stepped = take_step(self.crew, self.denoise, self.chain, self.options, self.spent)
        if self.watch is not None:
            self.watch(self.crew, stepped)
        return stepped

    def _record(self) -> None:
        """Record a step that reads the crew's tensors and writes its results back into them."""
        crew, before = self.crew, self.crew.state()

        def work() -> None:
            self._step()
            for old, new in zip(before, crew.state(), strict=True):
                old.copy_(new)

        try:
            self.graph = record(work, "steps")
        finally:
            crew.set_state(before)
        self.records = self.graph is not None
