"""What every finisher does with its tasks: clean the starts, compare answers, share the time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import torch

from blogdit.core.constraints import IntArray
from blogdit.core.instance import Instance
from blogdit.finishers.base import Deadline, Finish, Task

PROGRAMS = 3  # of 8 warps with the registers that ours need, on one multiprocessor (H200: 3, measured)
TOLERANCE = 1e-6  # of the objective: sums of real weights depend on the order of addition


class OutOfTime(Exception):
    """The deadline passed while something was being built. Finishers catch it."""


def clean_starts(task: Task) -> IntArray:
    """The starts (chains, n) within domains and with all givens; at least one, if need be all zeros."""
    instance = task.instance
    starts = np.asarray(task.starts, np.int64).reshape(-1, instance.size) if instance.size else task.starts
    if len(starts) == 0 or instance.size == 0:
        starts = np.zeros((1, instance.size), np.int64)
    starts = np.clip(starts, 0, instance.domain_sizes - 1)
    return np.where(instance.is_given, instance.given_values, starts)


def nothing_to_decide(instance: Instance) -> bool:
    """Whether no variable has a choice."""
    return bool((instance.is_given | (instance.domain_sizes == 1)).all())


def cost(instance: Instance, values: IntArray) -> tuple[int, float]:
    """What to compare answers by, smaller is better: constraints violated first, then the objective."""
    verdict = instance.verify(values)
    if instance.objective is None or verdict.objective is None:
        return verdict.violated, 0.0
    return verdict.violated, verdict.objective * (1.0 if instance.objective.sense == "minimize" else -1.0)


def best_of(instance: Instance, candidates: Iterable[IntArray]) -> IntArray:
    """The best by the exact check; of equals the first."""
    return min(candidates, key=lambda values: cost(instance, values))


def is_enough(task: Task, values: IntArray) -> bool:
    """Whether an answer is as good as the task asks for. Without an objective any valid one is."""
    violated, objective = cost(task.instance, values)
    if violated or task.instance.objective is None:
        return not violated
    if task.target is None:
        return False
    sign = 1.0 if task.instance.objective.sense == "minimize" else -1.0
    return objective <= sign * task.target + TOLERANCE


def in_turn(tasks: Sequence[Task], deadline: Deadline) -> Iterator[tuple[Task, Deadline]]:
    """The tasks one after the other, each with an even part of the time that is left."""
    for number, task in enumerate(tasks):
        yield task, deadline.share(1 / (len(tasks) - number))


def answer(task: Task, found: Iterable[IntArray]) -> Finish:
    """The best of what was found and of the starts."""
    return Finish(best_of(task.instance, [*found, *clean_starts(task)]))


def programs_at_once(device: torch.device) -> int:
    """How many programs of our kernels a GPU runs side by side."""
    return PROGRAMS * torch.cuda.get_device_properties(device).multi_processor_count
