"""Tabu search on violated pairs, for problems without an objective (graph colouring, ...).

A move gives a variable of a violated pair the value that leaves fewest pairs violated. The value that it had is closed
to it for a while: the longer, the more variables are in violated pairs. A closed value is allowed if it leads below all
that the chain has seen. Chains move on their own until nothing is violated or the time is over.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from blogdit.core.constraints import IntArray
from blogdit.core.instance import Instance
from blogdit.finishers.base import Deadline, Task
from blogdit.finishers.pairs import pairs_only, terms_on_pairs
from blogdit.finishers.tabu_chain import Chain, chain_key, counted_pairs
from blogdit.finishers.tasks import LocalSearch, clean_starts, key_of, programs_at_once

MOST_DEGREE = (1 << 17) - 1  # pairs of one variable: no allowed change costs half of FORBIDDEN
MOST_TERMS = 1 << 24  # constraints of an instance: the lists of its pairs then take about 1 GiB
MOST_TABLE = 1 << 25  # entries of the tables of all instances on a GPU: 512 MiB
CPU_MOVES, MOST_CPU_MOVES = 64, 20_000  # for each variable, and at most, without a deadline: up to some seconds
GPU_MOVES = 1 << 18  # of every chain, without a deadline: a few seconds
LAST_MOVE = 1 << 30  # with a deadline: their numbers have 31 bits
CPU_STRETCH = 64  # moves between looks at the clock: some milliseconds
LAUNCH = 1 << 25  # (variable, value) pairs looked at in one launch: hundredths of a second on data-centre GPUs
LEAST_CELLS = 2048  # (variable, value) pairs: a move on a smaller instance takes a GPU as long as on one of this size


class Tabu(LocalSearch):
    """On a CPU one chain from the best start, on a GPU one from every start."""

    name = "tabu"

    def supports(self, instance: Instance) -> bool:
        """No objective, and constraints on two variables are all there is."""
        if instance.objective is not None or not instance.constraints or not pairs_only(instance):
            return False
        return terms_on_pairs(instance) <= MOST_TERMS and largest_degree(instance) <= MOST_DEGREE

    def measure(self, instance: Instance) -> tuple[int, int]:
        return instance.size, largest_degree(instance)

    def fits(self, number: int, size: int, depth: int) -> bool:
        """One variable with many pairs makes the table large."""
        return number * size * depth <= MOST_TABLE

    def search(self, tasks: Sequence[Task], deadline: Deadline, seed: int) -> list[IntArray]:
        on_gpu = self.kernels and (len(tasks) > 1 or self.fits(1, *self.measure(tasks[0].instance)))
        return self._on_gpu(tasks, deadline, seed) if on_gpu else [_on_cpu(tasks[0], deadline, seed)]

    def _on_gpu(self, tasks: Sequence[Task], deadline: Deadline, seed: int) -> list[IntArray]:
        from blogdit.finishers.tabu_kernel import KernelChains

        pairs, starts = [counted_pairs(task.instance) for task in tasks], [clean_starts(task) for task in tasks]
        chains = KernelChains(pairs, starts, key_of(seed), self.device)
        limit = GPU_MOVES if deadline.unlimited else LAST_MOVE
        rounds = -(-chains.rows // programs_at_once(self.device))
        stretch = max(LAUNCH // max(chains.variables * chains.width, LEAST_CELLS) // rounds, 1)
        while chains.taken < limit and not chains.solved() and not deadline.passed():
            chains.take(min(stretch, limit - chains.taken))
            torch.cuda.synchronize()  # the clock is that of moves that are done
        return chains.best_states()


def _on_cpu(task: Task, deadline: Deadline, seed: int) -> IntArray:
    chain = chains_of(task, seed, most=1)[0]
    limit = min(CPU_MOVES * task.instance.size, MOST_CPU_MOVES) if deadline.unlimited else LAST_MOVE
    while chain.taken < limit and chain.best > 0 and not deadline.passed():
        chain.take(min(CPU_STRETCH, limit - chain.taken))
    return chain.best_x


def chains_of(task: Task, seed: int, most: int | None = None) -> list[Chain]:
    """A chain from each of the best starts."""
    pairs, key = counted_pairs(task.instance), key_of(seed)
    starts = enumerate(clean_starts(task)[:most])
    return [Chain(pairs, start, chain_key(number, key)) for number, start in starts]


def largest_degree(instance: Instance) -> int:
    """The most constraints that one variable has, if all are on pairs."""
    ends = [group.pairs.reshape(-1) for group in instance.constraints]  # type: ignore[attr-defined]
    return int(np.bincount(np.concatenate(ends), minlength=1).max()) if ends else 0
