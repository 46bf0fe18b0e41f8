"""How a suite is run, and how that may fail."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from blogdit.bench.suites import Case
from blogdit.core.errors import InputError


@dataclass(frozen=True)
class Options:
    """How to run a suite. What is None comes from the suite."""

    data: Path | None = None
    systems: tuple[str, ...] | None = None
    cases: tuple[str, ...] | None = None
    limit: int | None = None
    seconds: float | None = None
    steps: int | None = None
    device: str = "cpu"
    workers: int = 1
    jobs: int = 1  # calls at the same time, of systems that do not slow each other down
    seed: int = 0
    quick: bool = False

    def case(self, case: Case) -> Case:
        """The case with what was asked for; seconds alone turn a budget of steps into one of time."""
        if self.seconds is not None or self.steps is not None:
            case = replace(case, seconds=self.seconds or case.seconds, steps=self.steps)
        counts = [n for n in (case.count, self.limit) if n is not None]
        return replace(case, count=min(counts, default=None))


class NothingToRun(InputError):
    """A suite has none of the systems or cases that were asked for. Other suites may have them."""


class Unanswered(InputError):
    """Some calls failed. The rest of the suite was run."""
