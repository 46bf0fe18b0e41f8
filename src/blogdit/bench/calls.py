"""Calls to a system: which instances share one, what it may take, and several of them at the same time."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field, replace

from blogdit.bench.options import NothingToRun, Options
from blogdit.bench.suites import Case, Entrant, Suite
from blogdit.bench.systems import Budget, System
from blogdit.bench.variants import Models
from blogdit.core.errors import InputError
from blogdit.core.instance import Instance
from blogdit.core.processes import Processes
from blogdit.core.result import Result

TOGETHER = {"cpu": 16, "cuda": 4096}  # instances of one call to a system that solves them at the same time
LARGE = 500  # variables: of such instances a GPU gets 128 a call, so that an interrupted run loses minutes at most
LONGEST = 600.0  # seconds of a call whose instances share their time, for the same reason


@dataclass
class Cell:
    """One entrant on one case: what is left to do."""

    case: Case
    entrant: Entrant
    system: System
    waiting: list[Instance]
    jobs: int = 1  # calls at the same time
    allowed: float = 0.0  # seconds, by the budgets of all calls
    seconds: float = 0.0  # of all calls so far
    done: int = 0

    @property
    def counts_seconds(self) -> bool:
        return self.case.steps is None or self.system.counts == "seconds"

    @property
    def takes_many(self) -> bool:
        """Whether a call has several instances."""
        return self.system.batched or self.case.device == "cuda"

    @property
    def pace(self) -> float | None:
        """Seconds of an instance so far."""
        return self.seconds / self.done if self.done else None

    def expected(self, pace: float | None) -> float:
        """Seconds for what is left: as measured, or else by the pace of others, or else at most what is allowed."""
        pace = self.pace if self.done else pace
        left = self.allowed if pace is None else pace * (len(self.waiting) - self.done)
        return left / self.jobs


@dataclass
class Work:
    """All cells of a suite; numbers of instances."""

    cells: list[Cell]
    total: int
    done: int = 0
    failed: list[str] = field(default_factory=list)  # names of entrants, one for each instance

    def time_left(self) -> float:
        """A system that counts steps is expected to take as long as those before it on the same case."""
        paces = {cell.case.name: cell.pace for cell in self.cells if cell.done and not cell.counts_seconds}
        return sum(cell.expected(None if cell.counts_seconds else paces.get(cell.case.name)) for cell in self.cells)


Tell = Callable[[str, Work | None], None]  # a message, and how far the suite is


@dataclass(frozen=True)
class Run:
    """The columns and rows of a suite that were asked for, and how to fill them."""

    suite: Suite
    cases: Sequence[Case]
    entrants: Sequence[Entrant]
    options: Options
    models: Models
    tell: Tell

    def leave_out(self, reasons: Mapping[str, list[str]], everything: bool) -> None:
        """Say which rows cannot run, by reason; if that is `everything`, there is nothing to run."""
        for reason, rows in reasons.items():
            self.tell(f"{self.suite.name}: {reason}; left out: {', '.join(rows)}", None)
        if everything:
            raise NothingToRun(f"none of these systems can run on {self.suite.name} here; nothing was done")


@dataclass(frozen=True)
class Call:
    """Instances that a system shall solve together, and what became of them."""

    system: System
    together: list[Instance]
    budget: Budget
    seed: int
    runs: int
    results: Sequence[list[Result]] = ()  # of each instance its runs
    seconds: float = 0.0
    error: str | None = None  # why there are no results


def carry_out(cell: Cell, run: Run, processes: Processes) -> Iterator[Call]:
    """One call after the other, or several at a time, as they end. Stopped while it waits, it still yields those that
    have begun."""
    options = run.options
    calls = [
        Call(cell.system, together, budget(cell, together, options), options.seed, run.suite.runs)
        for together in batches(cell, options)
    ]
    if cell.jobs == 1:
        yield from map(attempt, calls)
        return
    pool = ThreadPoolExecutor(cell.jobs)  # a thread waits for a process: calls must not share Python's lock
    open_calls = [pool.submit(_elsewhere, processes, call) for call in calls]
    try:
        for ended in as_completed(tuple(open_calls)):
            open_calls.remove(ended)
            yield ended.result()
    except KeyboardInterrupt:
        begun = [one for one in open_calls if not one.cancel()]
        run.tell(f"{cell.entrant.label}: waiting for calls that have begun", None)
        yield from (one.result() for one in as_completed(begun))
        raise
    finally:
        if not all(one.done() for one in open_calls):  # nobody waits for them any more
            processes.close()
        pool.shutdown(cancel_futures=True)


def batches(cell: Cell, options: Options) -> list[list[Instance]]:
    """Which instances share a call: as many as may; in a stretch, those of one size."""
    waiting, on_cpu = cell.waiting, options.device == "cpu"
    stretch = cell.case.stretch and cell.case.steps is None
    if not cell.takes_many or (stretch and on_cpu):
        return _parts(waiting, 1)
    if stretch:
        sizes = dict.fromkeys(instance.size for instance in waiting)
        return [[one for one in waiting if one.size == size] for size in sizes]
    ordered = sorted(waiting, key=lambda instance: instance.size)  # those of one shape make a batch
    most = TOGETHER["cpu" if on_cpu else "cuda"]
    if cell.counts_seconds:
        most = min(most, max(int(LONGEST / cell.case.seconds), 1))
    if on_cpu:
        return _parts(ordered, most)
    small, large = ([one for one in ordered if (one.size > LARGE) == is_large] for is_large in (False, True))
    return _parts(small, most) + _parts(large, min(most, TOGETHER["cuda"] // 32))


def _parts(instances: Sequence[Instance], size: int) -> list[list[Instance]]:
    return [list(instances[start : start + size]) for start in range(0, len(instances), size)]


def budget(cell: Cell, together: Sequence[Instance], options: Options) -> Budget:
    case, system = cell.case, cell.system
    shared = Budget(device=options.device, workers=options.workers, chains=case.chains)
    if not cell.counts_seconds:
        own = system.counts == "own steps" and options.steps is None and not options.quick
        return replace(shared, steps=None if own else case.steps)
    return replace(shared, seconds=case.seconds * (len(together) if cell.takes_many and not case.stretch else 1))


def allowance(cell: Cell, options: Options) -> float:
    """Seconds that all calls of a cell may take. A call that counts steps counts with the seconds of the case."""
    times = [(len(together), budget(cell, together, options).seconds) for together in batches(cell, options)]
    return sum(count * cell.case.seconds if seconds is None else seconds for count, seconds in times)


def attempt(call: Call) -> Call:
    """With what a system returns, or how it failed: that stops nobody else."""
    began = time.monotonic()
    try:
        call.system.warm_up(call.together, call.budget)
        began = time.monotonic()
        return replace(call, results=_solve(call), seconds=time.monotonic() - began)
    except Exception as error:
        reason = str(error) if isinstance(error, InputError) else traceback.format_exc().rstrip()
        return replace(call, seconds=time.monotonic() - began, error=reason)


def _elsewhere(processes: Processes, call: Call) -> Call:
    began = time.monotonic()
    try:
        return processes.call(attempt, call)
    except Exception as error:  # a system that pickle cannot send, or a process that was killed for its memory
        return replace(call, seconds=time.monotonic() - began, error=f"{type(error).__name__}: {error}")


def _solve(call: Call) -> list[list[Result]]:
    asked = (call.together, call.budget, call.seed)
    if call.runs > 1:
        found = call.system.solve_runs(*asked, call.runs)
    else:
        found = [[result] for result in call.system.solve_many(*asked)]
    if [len(results) for results in found] != [call.runs] * len(call.together):
        number = call.runs * len(call.together)
        raise ValueError(f"{call.system.name} has {sum(map(len, found))} answers, not {number}")
    return found
