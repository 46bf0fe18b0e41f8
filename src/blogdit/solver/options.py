"""What the solver is asked for and what it tells: options, and the events of its loop."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

from blogdit.core.arrays import whole_number
from blogdit.core.constraints import LARGEST_SEED, IntArray
from blogdit.core.instance import Instance
from blogdit.core.result import Result
from blogdit.method.blocks import SELECTORS, SelectorName


@dataclass(frozen=True)
class SolveOptions:
    """Budgets (the first that is reached ends an instance) and how to search."""

    steps: int | None = None
    time_limit: float | None = None  # seconds for one instance, from when it enters the batch
    total_time: float | None = None  # seconds for everything
    target: float | None = None  # stop at an objective this good
    first_feasible: bool = False  # stop at the first valid answer, also if there is an objective
    chains: int = 1
    block: SelectorName = "random"
    schedule: Literal["cycle", "budget"] = "cycle"  # the block's size falls over `cycle` steps, or over the budget
    cycle: int = 100  # a chain that has not improved for so many steps starts its block schedule again (reheat)
    polish: bool = True
    batch_size: int | None = None  # instances on the device at a time; None: what suits it
    seed: int = 0

    def __post_init__(self) -> None:
        if self.block not in SELECTORS:
            raise ValueError(f"block must be one of {', '.join(SELECTORS)}, got {self.block!r}")
        if self.schedule not in ("cycle", "budget"):
            raise ValueError(f"schedule must be cycle or budget, got {self.schedule!r}")
        for name, least in (("steps", 0), ("chains", 1), ("cycle", 1), ("batch_size", 1), ("seed", 0)):
            if (number := getattr(self, name)) is not None:
                most = LARGEST_SEED if name == "seed" else None
                object.__setattr__(self, name, whole_number(number, name, least, most))
        for name in ("time_limit", "total_time"):
            value = getattr(self, name)
            if value is not None and not value >= 0:
                raise ValueError(f"{name} must not be negative, got {value}")
        if self.target is not None and not math.isfinite(self.target):
            raise ValueError(f"target must be finite, got {self.target}")

    @property
    def unlimited(self) -> bool:
        return self.steps is None and self.time_limit is None and self.total_time is None


@dataclass(frozen=True)
class Step:
    """What one reverse step did to one instance's first chain; for traces and live displays."""

    index: int
    instance: Instance
    step: int
    rate: float
    block: IntArray  # variables that were resampled
    changed: IntArray  # those whose value changed
    values: IntArray
    violations: int  # constraints that are violated, by the exact check
    energy: float
    confidence: float  # mean probability of the decoded values
    result: Result | None  # a new best answer, checked, if this step (of any chain) found one

    def record(self) -> dict[str, Any]:
        """A JSON object for replay: all values after the first step, then those that changed."""
        data: dict[str, Any] = {
            "instance": self.instance.name,
            "step": self.step,
            "rate": round(self.rate, 6),
            "block": self.block.tolist(),
            "changed": self.changed.tolist(),
            "to": self.values[self.changed].tolist(),
            "violations": self.violations,
            "energy": self.energy,
            "confidence": round(self.confidence, 6),
        }
        if self.step == 1:
            data["values"] = self.values.tolist()
        if self.result is not None:
            data["best"] = {"status": self.result.status, "objective": self.result.objective}
        return data


@dataclass(frozen=True)
class Finished:
    """An instance that is done; or, if not `complete`, what it has when the solver is told to stop."""

    index: int
    result: Result
    complete: bool = True
