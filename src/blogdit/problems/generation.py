"""Many generated instances, made by several processes. What is made depends on the seed alone, not on who makes it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from blogdit.core.digest import structure_digest
from blogdit.core.instance import Instance
from blogdit.core.processes import Processes
from blogdit.problems import family
from blogdit.problems.own import own_family

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
    source: str | None = None  # of a family that another process does not know

    def make(self) -> list[Instance]:
        chosen = family(self.problem) if self.source is None else own_family(self.source, self.problem)
        return chosen.make(self.count, np.random.default_rng(self.seed), **self.settings)


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
        Order(problem, min(CHUNK, count - start), (*seed, number), dict(settings), family(problem).source)
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


def _parts(instance: Instance) -> tuple[int, ...]:
    """Which objects an instance is made of, but for its givens."""
    return (*map(id, (instance.domain_sizes, instance.objective, instance.positions, *instance.constraints)),)


def _sharing(chunks: Sequence[Sequence[Instance]]) -> list[Instance]:
    """All instances; those that differ in their givens alone hold the very same structure again, which objects that
    come from several processes cannot."""
    everyone: list[Instance] = []
    known: dict[bytes, Instance] = {}  # the first of each structure
    for chunk in chunks:
        firsts: dict[tuple[int, ...], Instance] = {}  # by the objects of this chunk, so that one look at each suffices
        for one in chunk:
            if (parts := _parts(one)) not in firsts:
                firsts[parts] = known.setdefault(structure_digest(one, one.positions), one)
            first = firsts[parts]
            if _parts(first) != parts:
                same = ("domain_sizes", "constraints", "objective", "positions")
                one = replace(one, **{name: getattr(first, name) for name in same})
            everyone.append(one)
    return everyone
