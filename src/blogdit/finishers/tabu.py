"""Tabu search on violated pairs, for problems without an objective (graph colouring, ...).

A move gives a variable of a violated pair the value that leaves fewest pairs violated. The value that it had is closed
to it for a while: the longer, the more variables are in violated pairs. A closed value is allowed if it leads below all
that the chain has seen. Chains move on their own until nothing is violated or the time is over.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from blogdit.core.constraints import IntArray
from blogdit.core.instance import Instance
from blogdit.finishers.base import Deadline, Task
from blogdit.finishers.pairs import pairs_only, terms_on_pairs
from blogdit.finishers.tabu_chain import Chain, chain_key, counted_pairs
from blogdit.finishers.tasks import LocalSearch, clean_starts, key_of, steps_of_launch

MOST_DEGREE = (1 << 17) - 1  # pairs of one variable: no allowed change costs half of FORBIDDEN
MOST_TERMS = 1 << 24  # constraints of an instance: the lists of its pairs then take about 1 GiB
MOST_ENTRIES = 1 << 25  # of the lists of all instances on a GPU, each pair at both ends: 384 MiB
CPU_MOVES, MOST_CPU_MOVES = 64, 20_000  # for each variable, and at most, without a deadline: up to some seconds
GPU_MOVES = 1 << 18  # of every chain, without a deadline: a few seconds
LAST_MOVE = 1 << 30  # with a deadline: their numbers have 31 bits
CPU_STRETCH = 64  # moves between looks at the clock, at most: some milliseconds
CPU_CELLS = 1 << 21  # changes that are compared between looks at the clock: some tens of milliseconds
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

    def share(self, instance: Instance) -> float:
        return 2 * terms_on_pairs(instance) / MOST_ENTRIES

    def search(self, tasks: Sequence[Task], deadline: Deadline, seed: int) -> list[IntArray]:
        pairs = [counted_pairs(task.instance, deadline.passed) for task in tasks]
        starts = [clean_starts(task) for task in tasks]
        key = key_of(seed)
        if not self.kernels:
            chain = Chain(pairs[0], starts[0][0], chain_key(0, key))
            limit = min(CPU_MOVES * len(chain.x), MOST_CPU_MOVES) if deadline.unlimited else LAST_MOVE
            stretch = max(min(CPU_CELLS // chain.costs.size, CPU_STRETCH), 1)
            return self.walk(chain, tasks, deadline, limit, stretch)
        from blogdit.finishers.tabu_kernel import KernelChains

        chains = KernelChains(pairs, starts, key, self.device)
        cells = max(chains.variables * chains.width, LEAST_CELLS)
        stretch = steps_of_launch(LAUNCH, cells, len(chains.x), self.device)
        return self.walk(chains, tasks, deadline, GPU_MOVES if deadline.unlimited else LAST_MOVE, stretch)


def largest_degree(instance: Instance) -> int:
    """The most constraints that one variable has, if all are on pairs."""
    ends = [group.pairs.reshape(-1) for group in instance.constraints]  # type: ignore[attr-defined]
    return int(np.bincount(np.concatenate(ends), minlength=1).max()) if ends else 0
