"""What a solver hands back. A Result is made from an exact verdict and from nothing else."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from blogdit.core.constraints import IntArray
from blogdit.core.instance import Instance, Verdict

Status = Literal["solved", "feasible", "infeasible"]


@dataclass(frozen=True, eq=False)
class Result:
    """The best assignment found for an instance, checked when this object is built.

    `status` is `solved` (a problem without objective, nothing violated), `feasible` (an objective, nothing
    violated) or `infeasible` (no valid answer was found; `values` is the closest one). It never claims that an answer
    is optimal. That none exists is said by `exhausted` alone, the one thing here that is not checked again.
    """

    instance: Instance
    values: IntArray
    steps: int = 0
    seconds: float = 0.0
    seed: int = 0
    model: str | None = None
    raw_objective: float | None = None  # before any polish, if that ran
    raw_violations: int | None = None  # the same, where there is no objective
    exhausted: bool = False  # a tree search has tried everything in vain
    verdict: Verdict = field(init=False)

    def __post_init__(self) -> None:
        values: npt.NDArray[np.int64] = np.array(self.values, np.int64)
        values.setflags(write=False)
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "verdict", self.instance.verify(values))
        object.__setattr__(self, "exhausted", self.exhausted and not self.verdict.satisfied)

    @property
    def status(self) -> Status:
        if not self.verdict.satisfied:
            return "infeasible"
        return "solved" if self.instance.objective is None else "feasible"

    @property
    def objective(self) -> float | None:
        return self.verdict.objective

    def record(self) -> dict[str, Any]:
        """The JSON object that files and the command line use."""
        return {
            "instance": self.instance.name,
            "problem": self.instance.problem,
            "status": self.status,
            "objective": _plain(self.objective),
            "raw_objective": _plain(self.raw_objective),
            "violations": self.verdict.violated,
            "raw_violations": self.raw_violations,
            "values": self.values.tolist(),
            "steps": self.steps,
            "seconds": round(self.seconds, 6),
            "seed": self.seed,
            "model": self.model,
            **({"exhausted": True} if self.exhausted else {}),
        }


def _plain(number: float | None) -> float | int | None:
    """Whole numbers without a trailing .0."""
    return int(number) if number is not None and float(number).is_integer() else number
