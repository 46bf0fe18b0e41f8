"""What the solver tells while it works."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from blogdit.core.constraints import FloatArray, IntArray
from blogdit.core.instance import Instance, Verdict
from blogdit.core.result import Result
from blogdit.formats.json_text import to_json


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
    violated: IntArray  # as `violated_numbers` has them
    energy: float
    sure: FloatArray  # probability of each decoded value
    chains: tuple[Verdict, ...]  # the exact check of every chain; the first is the one that is shown
    seconds: float  # that the instance has taken so far
    result: Result | None  # a new best answer, checked, if this step (of any chain) found one

    @property
    def violations(self) -> int:
        """Constraints that are violated, by the exact check."""
        return self.chains[0].violated

    @property
    def confidence(self) -> float:
        """Mean probability of the decoded values."""
        return float(self.sure.mean()) if len(self.sure) else 1.0

    def record(self) -> dict[str, Any]:
        """A JSON object for replay. The first step has all values and how sure each is; later ones have the values that
        changed, and how sure those of the block are: no other logit changes."""
        sure = (100 * (self.sure if self.step == 1 else self.sure[self.block])).astype(int)
        data: dict[str, Any] = {
            "instance": self.instance.name,
            "step": self.step,
            "rate": round(self.rate, 6),
            "block": self.block.tolist(),
            "changed": self.changed.tolist(),
            "to": self.values[self.changed].tolist(),
            "sure": sure.tolist(),
            "violations": self.violations,
            "violated": self.violated.tolist(),
            "energy": self.energy,
            "confidence": round(self.confidence, 6),
            "chain_violations": [verdict.violated for verdict in self.chains],
            "seconds": round(self.seconds, 3),
        }
        if self.instance.objective is not None:
            data["chain_objectives"] = [verdict.objective for verdict in self.chains]
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


class Teller:
    """The lines of a trace. Each instance has a first line with its question (and `settings`, what it is solved with),
    one for each step, and a last one with its result."""

    def __init__(self, settings: Mapping[str, Any] | None = None) -> None:
        self.settings = {} if settings is None else {"settings": dict(settings)}
        self.begun: set[int] = set()

    def lines(self, event: Step | Finished) -> Iterator[dict[str, Any]]:
        instance = event.instance if isinstance(event, Step) else event.result.instance
        if event.index not in self.begun:
            self.begun.add(event.index)
            yield {"instance": instance.name, "question": to_json(instance), **self.settings}
        if isinstance(event, Step):
            yield event.record()
        else:
            self.begun.discard(event.index)
            yield {
                "instance": instance.name,
                "result": event.result.record(),
                "violated": violated_numbers(instance, event.result.values).tolist(),
                "complete": event.complete,
            }


def violated_numbers(instance: Instance, values: IntArray) -> IntArray:
    """Which constraints are violated. They are numbered through, group after group; soft ones come last."""
    numbers = instance.domains.numbers(values)
    amounts = [group.violations(values, numbers) for group in instance.groups]
    return np.flatnonzero(np.concatenate(amounts)) if amounts else np.zeros(0, np.int64)
