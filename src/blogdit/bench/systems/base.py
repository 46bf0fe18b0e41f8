"""The one call shape of every system that is compared."""

from __future__ import annotations

import importlib
import importlib.util
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeVar

from blogdit.core.errors import InputError
from blogdit.core.instance import Instance
from blogdit.core.result import Result

T = TypeVar("T")
Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Budget:
    """What one call may spend, and on what. Without seconds and steps a system takes its published settings."""

    seconds: float | None = None  # for the call, however many instances it gets
    steps: int | None = None  # for each instance
    device: str = "cpu"
    workers: int = 1  # CPU threads of solvers that can use several
    chains: int | None = None  # of samplers that run several at a time; None: what suits them


class System:
    """Something that solves instances. Answers are Results, which are checked exactly when they are built.

    A file of `blogdit.bench.systems` lists its systems in `SYSTEMS`; they are found by themselves.
    """

    name: str
    problems: tuple[str, ...] = ()  # names of the families it can solve; none: every instance
    # What limits it where a protocol counts steps: these, its own published number of steps, or seconds all the same.
    counts: Literal["steps", "own steps", "seconds"] = "seconds"
    batched: bool = False  # `solve_many` works on all instances at the same time
    threaded: bool = False  # `solve` uses as many threads as the budget has workers
    searches: bool = False  # a finisher follows it: its results say what the sampler alone had
    packages: tuple[str, ...] = ()  # that it imports besides the core dependencies

    def supports(self, instance: Instance) -> bool:
        return not self.problems or instance.problem in self.problems

    def missing(self) -> str | None:
        """Why the system cannot run here, or None if it can."""
        for package in self.packages:
            if not _is_there(package):
                return f"{self.name} needs {package}; expected pip install 'blogdit[bench]'"
        return None

    def provenance(self, instance: Instance) -> str | None:
        """What it has learnt from, if anything: the weights that it uses for such an instance."""
        return None

    def warm_up(self, instances: Sequence[Instance], budget: Budget) -> None:
        """What is done once for all instances of this kind, and not timed."""
        if (reason := self.missing()) is not None:
            raise InputError(reason)
        for package in self.packages:
            importlib.import_module(package)

    # A system has `solve`, or `solve_many` if it is batched; each is made from the other here.

    def solve(self, instance: Instance, budget: Budget, seed: int = 0) -> Result:
        return self.solve_many([instance], budget, seed)[0]

    def solve_many(self, instances: Sequence[Instance], budget: Budget, seed: int = 0) -> list[Result]:
        """A Result for each instance, in order."""
        share = budget if budget.seconds is None else replace(budget, seconds=budget.seconds / max(len(instances), 1))
        return [self.solve(instance, share, seed) for instance in instances]

    def solve_runs(
        self, instances: Sequence[Instance], budget: Budget, seed: int = 0, runs: int = 1
    ) -> list[list[Result]]:
        """Several independent runs on each instance, which share the budget of the call."""
        share = budget if budget.seconds is None else replace(budget, seconds=budget.seconds / runs)
        return [
            list(results)
            for results in zip(*(self.solve_many(instances, share, seed + run) for run in range(runs)), strict=True)
        ]


def in_parts(
    questions: Sequence[T],
    budget: Budget,
    most: Callable[[Sequence[T]], int],
    work: Callable[[Sequence[T], Budget], Sequence[Answer]],
) -> list[Answer]:
    """`work` on the first of the questions that are left, as many as `most` says, until there are none. A part has its
    share of the seconds that are left."""
    clock, found = Clock(budget.seconds), list[Answer]()
    while len(found) < len(questions):
        left = questions[len(found) :]
        part = left[: max(most(left), 1)]
        share = None if budget.seconds is None else max(clock.left, 0.0) * len(part) / len(left)
        found += work(part, replace(budget, seconds=share))
    return found


def _is_there(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is not None
    except ModuleNotFoundError:  # from looking for a module of a package that is not there
        return False


class Clock:
    """Monotonic time since a call began, and what is left of its seconds."""

    def __init__(self, seconds: float | None):
        self.began, self.seconds = time.monotonic(), seconds

    @property
    def spent(self) -> float:
        return time.monotonic() - self.began

    @property
    def left(self) -> float:
        return float("inf") if self.seconds is None else self.seconds - self.spent

    def share(self) -> float:
        """How much of the seconds is used up, 0 .. 1; 0 without a limit."""
        if self.seconds is None:
            return 0.0
        return min(self.spent / self.seconds, 1.0) if self.seconds > 0 else 1.0
