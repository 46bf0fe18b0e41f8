"""The seam between the sampler and what may follow it.

A finisher gets the states of the chains and a deadline, and hands back an answer that it may be able to prove. It knows
nothing of batches, slots or networks. The solver knows nothing of trees, tabu lists or temperatures.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from blogdit.core.clock import working_time
from blogdit.core.constraints import IntArray
from blogdit.core.instance import Instance
from blogdit.core.result import Proof


class Deadline:
    """When to stop: after some seconds, or as soon as `stopped` says so (Ctrl-C, for example)."""

    def __init__(self, seconds: float = math.inf, stopped: Callable[[], bool] = lambda: False):
        self.end, self.stopped = working_time() + seconds, stopped

    @property
    def unlimited(self) -> bool:
        return math.isinf(self.end)

    @property
    def left(self) -> float:
        """Seconds until the end, 0 if it is over."""
        return max(self.end - working_time(), 0.0)

    def passed(self) -> bool:
        return self.stopped() or working_time() >= self.end

    def share(self, part: float) -> Deadline:
        """A deadline after a part of the time that is left."""
        return Deadline(self.left * part if not self.unlimited else math.inf, self.stopped)


@dataclass(frozen=True)
class Task:
    """An instance to finish."""

    instance: Instance
    starts: IntArray  # (chains, n) states of the sampler; the first is the best by the exact check
    target: float | None = None  # an objective that is good enough to stop at


class Finish(NamedTuple):
    """What a finisher found: the best values it has, None if it has nothing, and what it can show about them."""

    values: IntArray | None
    proof: Proof | None = None


class Finisher(Protocol):
    """Runs after the sampler. With an unlimited deadline it does a fixed amount of work, and then its answer depends on
    the task and the seed alone: not on the clock, and not on the other tasks."""

    name: str

    def supports(self, instance: Instance) -> bool:
        """Whether it can work on such an instance at all."""
        ...

    @property
    def is_prepared(self) -> bool:
        """Whether all is loaded that it needs."""
        ...

    def prepare(self) -> None:
        """Load what it needs. Called before the first `finish`; no instance pays for it."""
        ...

    def finish(self, tasks: Sequence[Task], deadline: Deadline, seed: int) -> list[Finish]:
        """An outcome for each task, in order. Returns soon after the deadline has passed."""
        ...
