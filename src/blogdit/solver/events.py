"""What the solver tells while it works."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from blogdit.core.constraints import IntArray
from blogdit.core.instance import Instance
from blogdit.core.result import Result


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
