"""One run: what its caller wants to hear, and how long it may take."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from blogdit.solver.options import SolveOptions

if TYPE_CHECKING:
    from blogdit.solver.sampler import Watch


@dataclass
class Session:
    """What a caller may set at any time. The solvers of a pool share one."""

    trace: bool = False  # look at every step, and tell
    on_step: Callable[[], None] | None = None  # called at every look at the device
    on_note: Callable[[str], None] = warnings.warn  # what a user should know
    watch: Watch | None = None  # sees every step, on the device
    stopping: bool = False  # ends the run after the current step; may be set from a signal handler
    elsewhere: Callable[[], int] = lambda: 0  # how many instances wait for a solver of another problem


class Clock:
    """When a run ends, and what its instances pay for the time."""

    def __init__(self, options: SolveOptions, device: torch.device, session: Session):
        self.total = math.inf if options.total_time is None else options.total_time
        self.session, self.shares_the_core = session, device.type == "cpu"
        self.started = time.monotonic()

    @property
    def end(self) -> float:
        """When the total time is over."""
        return self.started + self.total

    def is_over(self) -> bool:
        return time.monotonic() >= self.end

    def ends(self) -> bool:
        return self.session.stopping or self.is_over()

    def own_seconds(self, elapsed: float, members: int) -> float:
        """What an instance pays for time in which a batch of so many was worked on. On a CPU they share the core, so
        each pays its part. A GPU works on all of them at the same time, so each pays in full."""
        return elapsed / members if self.shares_the_core else elapsed

    def all_seconds(self, each: list[float]) -> float:
        """How long instances that have so many seconds each may be worked on together."""
        return sum(each) if self.shares_the_core else min(each)
