"""What a training run consists of between updates: its budget, its progress, its chains and what is under way."""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Budget:
    """How long to train: a number of updates, or minutes summed over all resumed stretches."""

    updates: int | None = None
    minutes: float | None = None

    def __post_init__(self) -> None:
        if (self.updates is None) == (self.minutes is None):
            raise ValueError("give either updates or minutes")
        amount = self.updates if self.minutes is None else self.minutes
        if amount is None or not 0 < amount < math.inf:  # nor a number at all
            raise ValueError(f"the training budget must be a positive number, got {amount}")

    def spent(self, updates: int, seconds: float) -> float:
        """The share of the budget that is used up."""
        return updates / self.updates if self.updates else seconds / (60 * (self.minutes or 1))


@dataclass
class Chains:
    """Chains that training continues from update to update: which instance each works on, how far it is, where."""

    index: Tensor  # (B,) places in the pool
    age: Tensor  # (B,) reverse steps done
    logits: Tensor  # (R, M, K)


@dataclass
class Orders:
    """What the host tells an update; on the device."""

    index: Tensor  # (B,) the next instance of each chain, should it begin again
    numbers: Tensor  # learning rate, tau, how much of the average stays


@dataclass
class Enqueued:
    """An update that the device may still be working on."""

    update: int
    names: tuple[str, ...]
    numbers: Tensor
    known: dict[str, float]  # what the host knows of it
    chain_steps: int  # reverse steps of all chains of one process


@dataclass
class Progress:
    """What a run has done so far; JSON in the state file."""

    updates: int = 0
    seconds: float = 0.0
    bad_steps: int = 0
    rounds: int = 0  # of the teacher
    round_end: float | None = None  # share of the budget that was spent when the last one ended
    best_score: float = -math.inf
    best_update: int = 0
