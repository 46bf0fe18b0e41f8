"""What finishers do with their tasks: clean the starts, compare answers, share the time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Protocol
from weakref import WeakKeyDictionary

import numpy as np
import torch

from blogdit.core.constraints import Conflict, IntArray
from blogdit.core.instance import Instance
from blogdit.finishers.base import Deadline, Finish, Task
from blogdit.method.noise import mix, wrap
from blogdit.network.runtime import runs_kernels

PROGRAMS = 3  # of 8 warps with the registers that ours need, on one multiprocessor (H200: 3, measured)
TOLERANCE = 1e-6  # of the objective: sums of real weights depend on the order of addition


REMEMBERED = 4  # answers of an instance
_COSTS: WeakKeyDictionary[Instance, dict[bytes, tuple[int, float]]] = WeakKeyDictionary()


class OutOfTime(Exception):
    """The deadline passed while something was being built. `finish` catches it."""


def give_up_if(over: Callable[[], bool]) -> None:
    """Between two parts of something that is being built."""
    if over():
        raise OutOfTime


def clean_starts(task: Task) -> IntArray:
    """The starts (chains, n) within domains and with all givens; at least one, if need be all zeros."""
    instance = task.instance
    starts = np.asarray(task.starts, np.int64).reshape(-1, instance.size) if instance.size else task.starts
    if len(starts) == 0 or instance.size == 0:
        starts = np.zeros((1, instance.size), np.int64)
    starts = np.clip(starts, 0, instance.domain_sizes - 1)
    return np.where(instance.is_given, instance.given_values, starts)


def cost(instance: Instance, values: IntArray) -> tuple[int, float]:
    """What to compare answers by, smaller is better: constraints violated first, then the objective. The last costs of
    an instance are remembered: the same few answers are compared again and again, and a large one takes its time."""
    known, key = _COSTS.setdefault(instance, {}), np.asarray(values, np.int64).tobytes()
    if key not in known:
        known[key] = _cost(instance, values)
        if len(known) > REMEMBERED:
            del known[next(iter(known))]
    return known[key]


def _cost(instance: Instance, values: IntArray) -> tuple[int, float]:
    verdict = instance.verify(values)
    if instance.objective is None or verdict.objective is None:
        return verdict.violated, 0.0
    return verdict.violated, verdict.objective * (1.0 if instance.objective.sense == "minimize" else -1.0)


def without_losers(instance: Instance, values: IntArray) -> IntArray:
    """Values of which one pass over the conflicts leaves none violated, if 0 is in no conflict: of each pair that is at
    odds the later variable goes to 0, unless it is given. What a search has that had no time to search."""
    values = values.copy()
    for group in instance.constraints:
        if isinstance(group, Conflict) and (group.values != 0).all():
            at_odds = group.pairs[group.violations(values) > 0]
            given = instance.is_given[at_odds]
            values[np.where(given[:, 1], at_odds[:, 0], at_odds[:, 1])] = 0
    return np.where(instance.is_given, instance.given_values, values)


def best_of(instance: Instance, candidates: Iterable[IntArray]) -> IntArray:
    """The best by the exact check; of equals the first."""
    return min(candidates, key=lambda values: cost(instance, values))


def is_enough(instance: Instance, values: IntArray, target: float | None) -> bool:
    """Whether an answer is valid and reaches the target. Without an objective any valid one is enough."""
    violated, objective = cost(instance, values)
    if violated or instance.objective is None or target is None:
        return not violated and instance.objective is None
    return objective <= (target if instance.objective.sense == "minimize" else -target) + TOLERANCE


class Steps(Protocol):
    """A local search on its way, on a core or on a GPU."""

    taken: int  # steps so far

    def take(self, steps: int) -> None: ...

    def done(self) -> bool:
        """Whether no step can make an answer better."""
        ...

    def answers(self) -> list[IntArray]:
        """The best values so far for each task."""
        ...


class LocalSearch:
    """What the local searches share: they work on batches, which share the time evenly, and keep the best start."""

    name: str
    is_prepared = True

    def __init__(self, device: torch.device | str = "cpu", threads: int | None = None):
        """Without a GPU a search runs on one core, whatever `threads` says."""
        self.device = torch.device(device)
        self.kernels = runs_kernels(self.device)

    def prepare(self) -> None:
        """Nothing to load."""

    def share(self, instance: Instance) -> float:
        """The part of a GPU's room that an instance takes. Elsewhere batches are of one."""
        return 1.0

    def search(self, tasks: Sequence[Task], deadline: Deadline, seed: int) -> list[IntArray]:
        """The best values found for each task; may raise `OutOfTime`."""
        raise NotImplementedError

    def finish(self, tasks: Sequence[Task], deadline: Deadline, seed: int) -> list[Finish]:
        finishes: list[Finish] = []
        for batch in self._batches(tasks):
            part = deadline.share(len(batch) / (len(tasks) - len(finishes)))
            found: list[IntArray] | None = None
            with suppress(OutOfTime):
                found = None if part.passed() else self.search(batch, part, seed)
            for number, task in enumerate(batch):
                first = clean_starts(task)[0]
                other = without_losers(task.instance, first) if found is None else found[number]
                finishes.append(Finish(best_of(task.instance, [other, first])))
        return finishes

    def _batches(self, tasks: Sequence[Task]) -> Iterator[list[Task]]:
        """Tasks in order, as many at a time as there is room for; each takes the room of the largest."""
        batch: list[Task] = []
        largest = 0.0
        for task in tasks:
            own = self.share(task.instance) if self.kernels else 1.0
            if batch and (len(batch) + 1) * max(largest, own) > 1:
                yield batch
                batch, largest = [], 0.0
            batch.append(task)
            largest = max(largest, own)
        if batch:
            yield batch

    def may_stop(self, deadline: Deadline) -> bool:
        """Whether a batch may end when all its answers are good enough. Without a deadline it may not: an answer must
        not depend on the tasks beside it."""
        return not deadline.unlimited or not self.kernels

    def walk(
        self, search: Steps, tasks: Sequence[Task], deadline: Deadline, limit: int, stretch: int
    ) -> list[IntArray]:
        """Take steps up to a limit, with a look at the clock after every stretch."""
        may_stop = self.may_stop(deadline)
        while search.taken < limit and not search.done() and not deadline.passed():
            if may_stop and all_enough(tasks, search.answers):
                break
            search.take(min(stretch, limit - search.taken))
            if self.device.type == "cuda":
                torch.cuda.synchronize()  # the clock is that of steps that are done
        return search.answers()


def all_enough(tasks: Sequence[Task], answers: Callable[[], list[IntArray]]) -> bool:
    """Whether every task has a target, and its answer reaches it."""
    if any(task.target is None for task in tasks):
        return False
    pairs = zip(tasks, answers(), strict=True)
    return all(is_enough(task.instance, values, task.target) for task, values in pairs)


def key_of(seed: int) -> int:
    """32 random bits of a seed of up to 64, for the kernels' random numbers."""
    return int(mix(torch.tensor([wrap(seed), wrap(seed >> 32)], dtype=torch.int32)).sum())


def programs_at_once(device: torch.device) -> int:
    """How many programs of our kernels a GPU runs side by side."""
    return PROGRAMS * torch.cuda.get_device_properties(device).multi_processor_count


def steps_of_launch(looks: int, looks_of_step: int, programs: int, device: torch.device) -> int:
    """How many steps programs take in a launch of so many looks. Those that do not fit the GPU at once wait."""
    rounds = -(-programs // programs_at_once(device))
    return max(looks // looks_of_step // rounds, 1)
