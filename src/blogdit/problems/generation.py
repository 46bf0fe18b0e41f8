"""Many generated instances, made by several processes. What is made depends on the seed alone, not on who makes it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from blogdit.core.instance import Instance
from blogdit.core.processes import Processes
from blogdit.problems import family

CHUNK = 256  # instances from one random stream
WORTH = 5.0  # seconds of work left for which processes are started
Tell = Callable[[str], None]


@dataclass(frozen=True)
class Order:
    """A chunk of instances of a family."""

    problem: str
    count: int
    seed: tuple[int, ...]
    settings: Mapping[str, Any]

    def make(self) -> list[Instance]:
        return family(self.problem).make(self.count, np.random.default_rng(self.seed), **self.settings)


def cores() -> int:
    """CPU cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def make_many(
    problem: str,
    count: int,
    seed: Sequence[int],
    settings: Mapping[str, Any],
    processes: int | None = None,
    tell: Tell = lambda line: None,
) -> list[Instance]:
    """`count` instances; by `processes` (as many as there are cores), once it turns out to take long, of which `tell`
    gets a line."""
    starts = range(0, count, CHUNK)
    jobs = [
        Order(problem, min(CHUNK, count - start), (*seed, number), dict(settings))
        for number, start in enumerate(starts)
    ]
    began = time.monotonic()
    chunks: list[list[Instance]] = []
    while len(chunks) < len(jobs):
        chunks.append(jobs[len(chunks)].make())
        left = jobs[len(chunks) :]
        expected = (time.monotonic() - began) / len(chunks) * len(left)
        workers = min(processes or cores(), len(left))
        if len(chunks) == 1 and expected > WORTH:
            tell(f"making {count:,} instances of {problem}, about {expected / workers:.0f} s")
        if workers > 1 and expected > WORTH:
            chunks += _in_processes(left, workers)
    return _sharing(chunks)


def _in_processes(jobs: Sequence[Order], workers: int) -> list[list[Instance]]:
    """Each process takes every n-th job."""
    shares = [jobs[first::workers] for first in range(workers)]
    with ThreadPoolExecutor(workers) as pool, Processes() as processes:  # who is stopped does not wait for them
        parts = list(pool.map(lambda share: processes.call(_make, share), shares))
    return [parts[number % workers][number // workers] for number in range(len(jobs))]


def _make(jobs: Sequence[Order]) -> list[list[Instance]]:
    return [job.make() for job in jobs]


def _alike(one: Any, other: Any) -> bool:
    """Equal content, arrays and objects included."""
    if isinstance(one, np.ndarray):
        return isinstance(other, np.ndarray) and np.array_equal(one, other)
    if isinstance(one, tuple):
        return isinstance(other, tuple) and len(one) == len(other) and all(map(_alike, one, other))
    if hasattr(one, "__dict__"):
        return type(one) is type(other) and _alike(tuple(vars(one).items()), tuple(vars(other).items()))
    return bool(one == other)


def _structure(instance: Instance) -> dict[str, Any]:
    """All but the givens."""
    return {name: getattr(instance, name) for name in ("domain_sizes", "constraints", "objective", "positions")}


def _sharing(chunks: Sequence[Sequence[Instance]]) -> list[Instance]:
    """All instances; where those of a chunk differ in their givens alone, and so do the chunks, they hold the very same
    structure again, which several processes cannot."""
    everyone: list[Instance] = []
    known: Instance | None = None
    for chunk in chunks:
        first = chunk[0]
        if known is None:
            known = first
        elif first.constraints and _alike(tuple(_structure(first).values()), tuple(_structure(known).values())):
            groups = [*map(id, first.constraints)]
            same = [[*map(id, one.constraints)] == groups for one in chunk]
            shared = _structure(known)
            chunk = [replace(one, **shared) if alike else one for one, alike in zip(chunk, same, strict=True)]
        everyone += chunk
    return everyone
