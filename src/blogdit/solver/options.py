"""What the solver is asked for."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, TypedDict

from blogdit.core.arrays import whole_number
from blogdit.core.constraints import LARGEST_SEED
from blogdit.method.blocks import SELECTORS, SelectorName

MOST_COUNTED = 1 << 53  # steps, chains, instances: up to here a float holds every whole number


class SolveKeywords(TypedDict, total=False):
    """The fields of `SolveOptions` as keywords; None is the default."""

    steps: int | None
    time_limit: float | None
    total_time: float | None
    target: float | None
    first_feasible: bool | None
    chains: int | None
    block: str | None
    schedule: str | None
    cycle: int | None
    finish: str | None
    finish_share: float | None
    batch_size: int | None
    seed: int | None


@dataclass(frozen=True)
class SolveOptions:
    """Budgets (the first that is reached ends an instance), how to sample, and what follows."""

    steps: int | None = None  # of the sampler, for one instance
    time_limit: float | None = None  # seconds for one instance
    total_time: float | None = None  # seconds for everything
    target: float | None = None  # stop at an objective this good
    first_feasible: bool = False  # stop at the first valid answer, also if there is an objective
    chains: int = 1
    block: SelectorName = "random"
    schedule: Literal["cycle", "budget"] = "cycle"  # the block's size falls over `cycle` steps, or over the budget
    cycle: int = 100  # steps of a block schedule; a chain that is past them and stuck starts it again (reheat)
    finish: str = "auto"  # which finisher follows the sampler: auto, none, or a name
    finish_share: float = 0.5  # of a time limit, for the finisher (measured: docs/results.md); 1: the sampler has none
    batch_size: int | None = None  # instances on the device at a time; None: what suits it
    seed: int = 0

    def __post_init__(self) -> None:
        if self.block not in SELECTORS:
            raise ValueError(f"block must be one of {', '.join(SELECTORS)}, got {self.block!r}")
        if self.schedule not in ("cycle", "budget"):
            raise ValueError(f"schedule must be cycle or budget, got {self.schedule!r}")
        for name, least in (("steps", 0), ("chains", 1), ("cycle", 1), ("batch_size", 1), ("seed", 0)):
            if (number := getattr(self, name)) is not None:
                most = LARGEST_SEED if name == "seed" else MOST_COUNTED
                object.__setattr__(self, name, whole_number(number, name, least, most))
        for name in ("time_limit", "total_time"):
            value = getattr(self, name)
            if value is not None and not value >= 0:
                raise ValueError(f"{name} must not be negative, got {value}")
        if not 0 < self.finish_share <= 1:
            raise ValueError(f"finish_share must be above 0 and at most 1, got {self.finish_share}")
        if self.target is not None and not math.isfinite(self.target):
            raise ValueError(f"target must be finite, got {self.target}")

    @property
    def unlimited(self) -> bool:
        return self.steps is None and self.time_limit is None and self.total_time is None

    @property
    def divides_total_time(self) -> bool:
        """Whether a total time has to be divided among the instances, since nothing else ends them."""
        return self.total_time is not None and self.time_limit is None and self.steps is None
