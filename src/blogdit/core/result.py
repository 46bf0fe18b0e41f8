"""What a solver hands back. A Result is made from an exact verdict and from nothing else."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from blogdit.core.constraints import IntArray
from blogdit.core.instance import Instance, Verdict

Status = Literal["solved", "optimal", "feasible", "unknown", "infeasible"]
Proof = Literal["optimal", "infeasible"]
SAMPLER = "sampler"  # who found an answer, if it was the network
VALID: tuple[Status, ...] = ("solved", "optimal", "feasible")


@dataclass(frozen=True)
class Sampled:
    """What the sampler alone had: the objective of its best valid answer, if it had one, and what it violated."""

    objective: float | None
    violations: int


@dataclass(frozen=True, eq=False)
class Result:
    """The best assignment found for an instance, checked when this object is built.

    | status | meaning |
    |---|---|
    | `solved` | no objective, nothing violated |
    | `optimal` | nothing violated, and `proved_by` has shown that nothing is better |
    | `feasible` | nothing violated; better answers may exist |
    | `unknown` | no valid answer was found; `values` is the closest one |
    | `infeasible` | no valid answer was found, and `proved_by` has shown that there is none |
    """

    instance: Instance
    values: IntArray
    steps: int = 0
    seconds: float = 0.0
    seed: int = 0
    model: str | None = None
    found_by: str | None = None  # "sampler", or the name of the finisher that found `values`
    proof: Proof | None = None  # what an exact finisher has shown
    proved_by: str | None = None  # its name
    sampler: Sampled | None = None  # None if the sampler took no step; what it found itself needs no word
    verdict: Verdict = field(init=False)
    pictures: ClassVar[Any] = None  # `problems.pictures`, which `api` puts here: it knows how families show answers

    def __post_init__(self) -> None:
        values: npt.NDArray[np.int64] = np.array(self.values, np.int64)
        values.setflags(write=False)
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "verdict", self.instance.verify(values))
        if self.sampler is None and self.found_by == SAMPLER and self.steps:
            satisfied = self.verdict.satisfied
            alone = Sampled(self.verdict.objective if satisfied else None, self.verdict.violated)
            object.__setattr__(self, "sampler", alone)
        # A claim that the exact check contradicts, or that says nothing about this answer, is dropped.
        if self.proof is not None and self.status != self.proof:
            object.__setattr__(self, "proof", None)
        if self.proof is None:
            object.__setattr__(self, "proved_by", None)

    @property
    def status(self) -> Status:
        if not self.verdict.satisfied:
            return "infeasible" if self.proof == "infeasible" else "unknown"
        if self.instance.objective is None:
            return "solved"
        return "optimal" if self.proof == "optimal" else "feasible"

    @property
    def objective(self) -> float | None:
        return self.verdict.objective

    @property
    def answer(self) -> dict[Any, Any]:
        """The value of each variable, both as the instance calls them; without names, as numbers."""
        labels = range(self.instance.size) if self.instance.labels is None else self.instance.labels
        call = self.instance.domains.call
        return {
            label: call(i, value) for i, (label, value) in enumerate(zip(labels, self.values.tolist(), strict=True))
        }

    def plot(self, axes: Any = None) -> Any:
        """Draw the answer with matplotlib: a grid, a graph, or values in a row. Returns the axes."""
        if self.pictures is None:
            raise RuntimeError("pictures need the package; expected import blogdit and its solve")
        return self.pictures.plot(self, axes)

    def _repr_html_(self) -> str | None:
        return None if self.pictures is None else self.pictures.html_of(self)

    def record(self) -> dict[str, Any]:
        """The JSON object that files and the command line use."""
        sampler = self.sampler and {"objective": _plain(self.sampler.objective), "violations": self.sampler.violations}
        return {
            "instance": self.instance.name,
            "problem": self.instance.problem,
            "status": self.status,
            "objective": _plain(self.objective),
            "violations": self.verdict.violated,
            "values": self.values.tolist(),
            "found_by": self.found_by,
            "proved_by": self.proved_by,
            "sampler": sampler,
            "steps": self.steps,
            "seconds": round(self.seconds, 6),
            "seed": self.seed,
            "model": self.model,
        }


def _plain(number: float | None) -> float | int | None:
    """Whole numbers without a trailing .0."""
    return int(number) if number is not None and float(number).is_integer() else number
