"""Tabu search on violated pairs, for problems without an objective (graph colouring, ...).

A move gives a variable of a violated pair the value that leaves fewest pairs violated. The value that it had is closed
to it for a while: the longer, the more variables are in violated pairs. A closed value is allowed if it leads below all
that the chain has seen. Chains move on their own until nothing is violated or the time is over.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from blogdit.core.constraints import IntArray
from blogdit.core.instance import Instance
from blogdit.finishers.base import Deadline, Finish, Task
from blogdit.finishers.pairs import Pairs, pairs_only, terms_on_pairs
from blogdit.finishers.tasks import answer, clean_starts, in_turn, is_enough, programs_at_once
from blogdit.method.noise import mix, wrap
from blogdit.network.runtime import runs_kernels

FORBIDDEN = 1 << 18  # violated pairs that a value is said to leave if the variable cannot take it
MOST_DEGREE = (1 << 17) - 1  # pairs of one variable: no allowed change costs half of FORBIDDEN
TIE_BITS = 12  # random bits below the cost of a move that order equals; FORBIDDEN with these bits still fits 31
CLOSED = 6, 10  # a value is closed for 6 moves per 10 variables in violated pairs, as in TabuCol (Galinier, Hao 1999)
JITTER = 10  # and for 0 to 9 moves more
MOST_TERMS = 1 << 24  # constraints of an instance: the lists of its pairs then take about 1 GiB
MOST_TABLE = 1 << 25  # entries of the tables of all instances on a GPU: 512 MiB
CPU_MOVES, MOST_CPU_MOVES = 64, 20_000  # for each variable, and at most, without a deadline: up to some seconds
GPU_MOVES = 1 << 18  # of every chain, without a deadline: a few seconds
LAST_MOVE = 1 << 30  # with a deadline: their numbers have 31 bits
CPU_STRETCH = 64  # moves between looks at the clock: some milliseconds
LAUNCH = 1 << 25  # (variable, value) pairs looked at in one launch: hundredths of a second on data-centre GPUs
LEAST_CELLS = 2048  # (variable, value) pairs: a move on a smaller instance takes a GPU as long as on one of this size

Int32 = npt.NDArray[np.int32]
Ints = npt.NDArray[np.intp]


class Tabu:
    """On a CPU one chain from the best start, on a GPU one from every start."""

    name = "tabu"

    def __init__(self, device: torch.device | str = "cpu", threads: int | None = None):
        """Without a GPU it runs on one core."""
        self.device = torch.device(device)
        self.kernels = runs_kernels(self.device)

    def supports(self, instance: Instance) -> bool:
        """No objective, and constraints on two variables are all there is."""
        if instance.objective is not None or not instance.constraints or not pairs_only(instance):
            return False
        return terms_on_pairs(instance) <= MOST_TERMS and largest_degree(instance) <= MOST_DEGREE

    def finish(self, tasks: Sequence[Task], deadline: Deadline, seed: int) -> list[Finish]:
        fits = [self.kernels and table_size(task.instance) <= MOST_TABLE for task in tasks]
        on_gpu = [number for number, fit in enumerate(fits) if fit]
        on_cpu = [number for number, fit in enumerate(fits) if not fit]
        finishes: dict[int, Finish] = {}
        for batch in _batches(tasks, on_gpu):
            part = deadline.share(len(batch) / (len(tasks) - len(finishes)))
            found = self._on_gpu([tasks[number] for number in batch], part, seed)
            finishes |= dict(zip(batch, found, strict=True))
        alone = [tasks[number] for number in on_cpu]
        found = [_on_cpu(task, part, seed) for task, part in in_turn(alone, deadline)]
        finishes |= dict(zip(on_cpu, found, strict=True))
        return [finishes[number] for number in range(len(tasks))]

    def _on_gpu(self, tasks: Sequence[Task], deadline: Deadline, seed: int) -> list[Finish]:
        from blogdit.finishers.tabu_kernel import KernelChains

        if deadline.passed():
            return [answer(task, []) for task in tasks]
        problems = [Problem(task.instance) for task in tasks]
        chains = KernelChains(problems, [clean_starts(task) for task in tasks], self.device, seed)
        limit = GPU_MOVES if deadline.unlimited else LAST_MOVE
        rounds = -(-chains.rows // programs_at_once(self.device))
        stretch = max(LAUNCH // max(chains.variables * chains.width, LEAST_CELLS) // rounds, 1)
        while chains.taken < limit and not chains.solved() and not deadline.passed():
            chains.take(min(stretch, limit - chains.taken))
            torch.cuda.synchronize()  # the clock is that of moves that are done
        found = chains.best()
        return [answer(task, [values]) for task, values in zip(tasks, found, strict=True)]


def _on_cpu(task: Task, deadline: Deadline, seed: int) -> Finish:
    start = clean_starts(task)[0]
    if deadline.passed() or is_enough(task, start):
        return answer(task, [])
    chain = Chain(Problem(task.instance), start, chain_key(0, seed))
    limit = min(CPU_MOVES * task.instance.size, MOST_CPU_MOVES) if deadline.unlimited else LAST_MOVE
    while chain.taken < limit and chain.best > 0 and not deadline.passed():
        chain.take(min(CPU_STRETCH, limit - chain.taken))
    return answer(task, [chain.best_x])


def _batches(tasks: Sequence[Task], numbers: Sequence[int]) -> Iterator[list[int]]:
    """Numbers of tasks, as many at a time as there is room for their tables."""
    batch, size, degree = list[int](), 1, 1
    for number in numbers:
        instance = tasks[number].instance
        size, degree = max(size, instance.size), max(degree, largest_degree(instance))
        if batch and (len(batch) + 1) * size * degree > MOST_TABLE:
            yield batch
            batch, size, degree = [], max(instance.size, 1), max(largest_degree(instance), 1)
        batch.append(number)
    if batch:
        yield batch


def largest_degree(instance: Instance) -> int:
    """The most constraints that one variable has, if all are on pairs."""
    ends = [group.pairs.reshape(-1) for group in instance.constraints]  # type: ignore[attr-defined]
    return int(np.bincount(np.concatenate(ends), minlength=1).max()) if ends else 0


def table_size(instance: Instance) -> int:
    """Entries of the table that the kernel uses: one variable with many pairs makes it large."""
    return instance.size * max(largest_degree(instance), 1)


def chain_key(chain: int, seed: int) -> int:
    """Where the random numbers of a chain begin, 32 bits."""
    seeds = mix(torch.tensor([wrap(seed), wrap(seed >> 32)], dtype=torch.int32)).sum().item()
    return wrap(chain * 0x3C6EF372 + int(seeds))


class Links(NamedTuple):
    """The neighbours of a variable, and the pairs with them. A cell is variable * width + value."""

    neighbours: Ints  # each once
    first_cells: Ints  # of the neighbours
    same_cells: Ints  # first cells of neighbours that must not have the same value, each once,
    same_counts: Int32  # and how many constraints say so
    own_values: Ints  # constraints on values: the variable's own value
    other_cells: Ints  # and the neighbour's cell


class Problem:
    """The pairs of an instance. A violated pair costs 1."""

    def __init__(self, instance: Instance):
        pairs = Pairs(instance)
        self.size, self.width = pairs.unary.shape
        self.starts, self.other, self.values = pairs.starts, pairs.other, pairs.values
        self.owner = pairs.owner
        self.alone = np.where(np.isinf(pairs.unary), FORBIDDEN, 0).astype(np.int32)  # (n, K)
        self._links: dict[int, Links] = {}

    def costs(self, x: IntArray) -> Int32:
        """(n, K): how many pairs each value of each variable would violate, the others as they are in x."""
        costs, neighbour = self.alone.copy(), x[self.other]
        same = self.values[:, 0] < 0
        hit = same | (self.values[:, 1] == neighbour)
        np.add.at(costs, (self.owner[hit], np.where(same, neighbour, self.values[:, 0])[hit]), 1)
        return costs

    def links(self, variable: int) -> Links:
        if variable not in self._links:
            rows = slice(self.starts[variable], self.starts[variable + 1])
            other, (own, theirs) = self.other[rows], self.values[rows].T
            same = own < 0
            alike, counts = np.unique(other[same], return_counts=True)
            everyone = np.unique(other)
            self._links[variable] = Links(
                neighbours=everyone,
                first_cells=everyone * self.width,
                same_cells=alike * self.width,
                same_counts=counts.astype(np.int32),
                own_values=own[~same],
                other_cells=(other * self.width + theirs)[~same],
            )
        return self._links[variable]


class Chain:
    """One chain of one instance on a CPU. `tabu_kernel` makes the same moves on a GPU."""

    def __init__(self, problem: Problem, start: IntArray, key: int):
        self.problem, self.key, self.taken = problem, key, 0
        self.x = np.array(start, np.int64)
        self.costs = problem.costs(self.x)
        everyone = np.arange(len(self.x))
        self.own = self.costs[everyone, self.x]  # pairs that each variable violates, (n,)
        self.violated = int(self.own.sum()) // 2  # pairs; each is counted at both ends
        self.open_from = np.zeros_like(self.costs)  # the move from which on a variable may have a value again
        self.best, self.best_x, self.best_at = self.violated, self.x.copy(), 0
        variable, value = (torch.arange(size, dtype=torch.int32) for size in self.costs.shape)
        self.order = (variable[:, None] * 0x5BD1E995 + value * 0x27D4EB2F).numpy()  # mixed with a key: orders equals

    def take(self, moves: int) -> None:
        """So many moves, fewer if nothing is violated any more."""
        numbers = torch.arange(self.taken + 1, self.taken + moves + 1).mul_(wrap(0x9E3779B1)).int()
        for key in mix(numbers + self.key).numpy():
            self.taken += 1
            if self.violated == 0:
                continue
            self._move(key)

    def _move(self, key: np.int32) -> None:
        involved = np.flatnonzero(self.own > 0)
        change = self.costs[involved] - self.own[involved, None]  # (involved, K)
        score = (((self.order[involved] ^ key) * np.int32(0x7FEB352D)) >> 16) & 0xFFFF
        score = (score >> (16 - TIE_BITS)) + (change << TIE_BITS)
        closed = (self.open_from[involved] > self.taken) & (change >= self.best - self.violated)
        score[closed] = FORBIDDEN << TIE_BITS
        score[np.arange(len(involved)), self.x[involved]] = FORBIDDEN << TIE_BITS
        pick = int(score.argmin())
        if score.flat[pick] >= FORBIDDEN << (TIE_BITS - 1):
            return
        variable, new = int(involved[pick // self.problem.width]), pick % self.problem.width
        old = int(self.x[variable])
        jitter = (int(key) >> 16 & 0xFFFF) % JITTER
        self.open_from[variable, old] = self.taken + 1 + CLOSED[0] * len(involved) // CLOSED[1] + jitter
        self.violated += int(change.flat[pick])
        self._change(variable, old, new)
        if self.violated < self.best:
            self.best, self.best_at = self.violated, self.taken
            self.best_x[:] = self.x

    def _change(self, variable: int, old: int, new: int) -> None:
        """Give a variable another value, and tell its neighbours."""
        links, costs = self.problem.links(variable), self.costs.reshape(-1)
        self.x[variable] = new
        costs[links.same_cells + old] -= links.same_counts
        costs[links.same_cells + new] += links.same_counts
        np.subtract.at(costs, links.other_cells[links.own_values == old], 1)
        np.add.at(costs, links.other_cells[links.own_values == new], 1)
        self.own[links.neighbours] = costs[links.first_cells + self.x[links.neighbours]]
        self.own[variable] = self.costs[variable, new]
