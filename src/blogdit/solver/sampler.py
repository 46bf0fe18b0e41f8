"""Reverse steps of all slots, and what is remembered of them: all on the device, without a look by the host.

On a GPU a step is some hundred short kernels, and launching them costs more than running them. So a `Sampler` takes
the first step launch by launch, records the second, and replays it from then on (a CUDA graph).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from blogdit.method.batch import Batch
from blogdit.method.blocks import Selector, decode
from blogdit.method.chain import ChainConfig, Denoise, Transition, sample
from blogdit.method.energy import discrete_energy, penalty_scale
from blogdit.network.kernels.recording import record
from blogdit.solver.options import SolveOptions
from blogdit.solver.slots import TOLERANCE, Slots


class Stepped(NamedTuple):
    """What one step did, for traces."""

    rate: Tensor  # (chains, B, 1)
    block: Tensor  # (R, M)
    values: Tensor  # (R, M)
    energy: Tensor  # (chains, B)
    better: Tensor  # (B,) there is a new best answer


# Looks at every step on the device. A GPU may record and replay it, so it keeps what it finds in the same tensors.
Watch = Callable[[Slots, Stepped], None]


class Sampler:
    """Takes the steps of slots, as long as nobody joins or leaves."""

    def __init__(
        self,
        slots: Slots,
        denoise: Denoise,
        chain: ChainConfig,
        options: SolveOptions,
        records: bool = False,
        watch: Watch | None = None,
    ):
        self.slots, self.denoise, self.chain, self.options, self.watch = slots, denoise, chain, options, watch
        device = slots.batch.device
        self.selector = Selector(options.block, slots.batch)
        follows_budget = options.schedule == "budget" and not options.unlimited
        self.progress = torch.zeros(slots.batch.size, device=device) if follows_budget else None
        self.records = records and device.type == "cuda"
        self.graph: torch.cuda.CUDAGraph | None = None
        self.taken = 0
        self.last_rate = torch.zeros(0)
        self.transitions = self._transitions()

    @torch.no_grad()
    def advance(self, steps: int) -> None:
        self._note_progress()
        for _ in range(steps):
            if self.graph is None and self.records and self.taken:
                self._record()
            if self.graph is None:
                self._step()
            else:
                self.graph.replay()
            self.taken += 1

    @torch.no_grad()
    def once(self) -> Stepped:
        """A single step, launch by launch, and what it did."""
        self._note_progress()
        return self._step()

    def _note_progress(self) -> None:
        self.slots.seen.clear()  # it will not be true any more
        if self.progress is not None:
            self.progress.copy_(torch.tensor([slot.budget.progress for slot in self.slots.members]))

    def _transitions(self) -> Iterator[Transition]:
        """The chain from where the slots are."""
        slots = self.slots
        return sample(self.denoise, slots.batch, slots.logits, self._rates(), self.chain, self.selector, slots.noise)

    def _rates(self) -> Iterator[Tensor]:
        while True:
            self.last_rate = self.rate()
            yield self.last_rate

    def rate(self) -> Tensor:
        """The share of variables in the next block, (chains, B, 1). It falls with the budget that is spent or, without
        that, with the steps since a chain's last reheat."""
        slots, options = self.slots, self.options
        if self.progress is None:
            progress = slots.since_reheat / max(options.cycle - 1, 1)
        else:
            spent = self.progress
            if options.steps:
                spent = torch.maximum(spent, slots.steps / max(options.steps - 1, 1))
            progress = spent.expand(slots.batch.chains, -1)
        return self.chain.schedule.rate(progress[..., None])

    def _step(self) -> Stepped:
        slots = self.slots
        transition = next(self.transitions)
        slots.logits = transition.logits
        values = decode(slots.logits, slots.batch)
        total, cost = (amount.view(slots.batch.chains, -1) for amount in discrete_energy(values, slots.batch))
        slots.steps = slots.steps + ~slots.reached
        better = keep_best(slots, slots.batch, values, total, cost, ~slots.reached)
        count_steps(slots, total, self.options.cycle, reheats=self.progress is None)
        stepped = Stepped(self.last_rate, transition.block, values, total, better)
        if self.watch is not None:
            self.watch(slots, stepped)
        return stepped

    def _record(self) -> None:
        """Record a step that reads the slots' tensors and writes its results back into them."""
        slots, before = self.slots, self.slots.state()

        def work() -> None:
            self._step()
            for old, new in zip(before, slots.state(), strict=True):
                old.copy_(new)

        try:
            self.graph = record(work, "steps")
        finally:
            slots.set_state(before)
            self.transitions = self._transitions()
        self.records = self.graph is not None


class Best(Protocol):
    """The best assignments of each instance: of the lowest energy, and of the lowest objective among valid ones."""

    best_energy: Tensor  # (B,)
    best_values: Tensor  # (B, N)
    best_objective: Tensor  # (B,) inf if none is valid
    best_valid: Tensor  # (B, N)


def keep_best(best: Best, batch: Batch, values: Tensor, total: Tensor, cost: Tensor, open_: Tensor) -> Tensor:
    """Remember what is better than before, of instances that are open (B,); returns for which instances, (B,)."""
    values = batch.per_instance(values)  # (chains, B, N)
    everyone = torch.arange(batch.size, device=values.device)
    lowest, chain = total.min(0)
    better = (lowest < best.best_energy - TOLERANCE) & open_
    best.best_energy = torch.where(better, lowest, best.best_energy)
    best.best_values = torch.where(better[:, None], values[chain, everyone], best.best_values)
    if not batch.optimisation:
        return better
    valid = total - cost < 0.5 * penalty_scale(batch)  # a violated constraint costs at least the whole of it
    lowest, chain = torch.where(valid, cost, math.inf).min(0)
    better_valid = (lowest < best.best_objective - TOLERANCE) & open_
    best.best_objective = torch.where(better_valid, lowest, best.best_objective)
    best.best_valid = torch.where(better_valid[:, None], values[chain, everyone], best.best_valid)
    return better | better_valid


def count_steps(slots: Slots, total: Tensor, cycle: int, reheats: bool = True) -> None:
    """Count steps since the last gain. A chain without one for long enough begins its block schedule again."""
    gained = total < slots.chain_best - TOLERANCE
    slots.chain_best = torch.minimum(slots.chain_best, total)
    slots.since_gain = torch.where(gained, 0, slots.since_gain + 1)
    slots.since_reheat = slots.since_reheat + 1
    if not reheats:
        return
    stuck = (slots.since_reheat >= cycle) & (slots.since_gain >= cycle // 2)
    slots.since_reheat = torch.where(stuck, 0, slots.since_reheat)
    slots.since_gain = torch.where(stuck, 0, slots.since_gain)
    slots.chain_best = torch.where(stuck, total, slots.chain_best)
