"""Independent sets without weights: no two variables of a pair at 1, and as many variables at 1 as possible.

A walker has a set of variables; at every step one comes in and one leaves. A set that is larger than the best one has
conflicts. A step brings in the variable whose conflicts with the set weigh least. It takes out the member whose
conflicts weigh most. Every few steps one is added to the weight of every pair that is still in conflict. So a pair that
is hard to satisfy counts more and more, and the search does not come back to it. When no conflict is left, the set is
the best, and the next one has to be larger. Of equals, the variable that changed longest ago goes first.

Weights of pairs are those of NuMVC (Cai, Su, Luo and Sattar 2013). On a GPU `swaps_kernel` takes the same steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from blogdit.core.constraints import Conflict, IntArray
from blogdit.core.instance import Instance
from blogdit.finishers.base import Deadline, Task
from blogdit.finishers.tasks import LocalSearch, all_enough, clean_starts, is_enough, key_of, programs_at_once
from blogdit.method.noise import mix, wrap

MOST_VARIABLES = {
    "cpu": 2048,
    "cuda": 4096,
}  # a step on a CPU takes as long as n; keys of the kernel have 12 bits for i
MOST_WEIGHTS = 1 << 30  # of all walkers on a GPU at a time, 2 bytes each; a walker has n * n of them
CPU_STEPS = 16  # for each variable, without a deadline: about 2 s for the largest graphs
GPU_STEPS = 1 << 17  # of every walker, without a deadline: some seconds for the largest graphs
MOST_STEPS = (1 << 31) - (1 << 13)  # keys have 31 bits for the number of a step
WALKERS = 8  # of an instance on a GPU, or more to fill it; on a CPU one long walk finds more than several short ones
CPU_STRETCH = 64  # steps between looks at the clock: about 1 ms
LAUNCH = 1 << 23  # steps times variables of one launch: hundredths of a second on current data-centre GPUs
LEAST_LOAD = 1024  # variables: a step on a smaller graph takes a GPU as long as on one of this size
HEAVIER_EVERY = 16  # steps that conflicts stay before they weigh more; at every step it is no better, and dearer
HEAVIEST = (1 << 15) - 1  # weight: the kernel stores 16 bits
# A key of 64 bits orders variables: the weight of their conflicts first, then the step at which they last changed; of
# members less that step, so that the greatest key is the one to leave.
BITS, ONE, HALF = 32, 1 << 32, 1 << 31
OUT = 1 << 61  # added to the key of members, and of variables that may never come in
TORN = OUT + HALF  # keys of members with conflicts are above

Bools = npt.NDArray[np.bool_]
Indices = npt.NDArray[np.intp]


class Graph(NamedTuple):
    """Which variables may not both be in a set, (n, n), and which may be in one at all, (n,)."""

    near: Bools
    may_enter: Bools

    @property
    def size(self) -> int:
        return len(self.may_enter)


class Swaps(LocalSearch):
    """Walkers that begin with the sets of the chains, or with nothing."""

    name = "swaps"

    def supports(self, instance: Instance) -> bool:
        """Independent sets without weights, some variables of which may be given as 0."""
        return instance.size <= MOST_VARIABLES["cuda" if self.kernels else "cpu"] and is_independent_set(instance)

    def fits(self, instances: Sequence[Instance]) -> bool:
        return len(instances) * WALKERS * max(one.size for one in instances) ** 2 <= MOST_WEIGHTS

    def search(self, tasks: Sequence[Task], deadline: Deadline, seed: int) -> list[IntArray]:
        return self._on_gpu(tasks, deadline, seed) if self.kernels else [_on_cpu(tasks[0], deadline, seed)]

    def _on_gpu(self, tasks: Sequence[Task], deadline: Deadline, seed: int) -> list[IntArray]:
        from blogdit.finishers.swaps_kernel import KernelWalkers

        graphs, at_once = [graph_of(task.instance) for task in tasks], programs_at_once(self.device)
        variables, chains = max(graph.size for graph in graphs), WALKERS
        if not deadline.unlimited:  # few instances do not fill a GPU
            chains = max(chains, min(at_once, MOST_WEIGHTS // variables**2) // len(tasks))
        sets = [starting_sets(graph, clean_starts(task), chains) for graph, task in zip(graphs, tasks, strict=True)]
        walkers = KernelWalkers(graphs, sets, variables, self.device, seed)
        rounds = -(-len(tasks) * chains // at_once)
        stretch = max(LAUNCH // max(variables, LEAST_LOAD) // rounds, 1)
        left = GPU_STEPS if deadline.unlimited else MOST_STEPS
        while left > 0 and not walkers.done() and not deadline.passed():
            walkers.take(min(stretch, left))
            left -= stretch
            torch.cuda.synchronize()  # the clock is that of steps that are done
            # Without a deadline all steps are taken: an answer must not depend on the tasks beside it.
            if not deadline.unlimited and all_enough(tasks, walkers.best()):
                break
        return walkers.best()


def _on_cpu(task: Task, deadline: Deadline, seed: int) -> IntArray:
    graph = graph_of(task.instance)
    (chosen,) = starting_sets(graph, clean_starts(task), 1)
    walker = Walker(graph, chosen, first_order(graph.size, 0, seed))
    left, seen = CPU_STEPS * graph.size if deadline.unlimited else MOST_STEPS, -1
    while left > 0 and not walker.done and not deadline.passed():
        if len(walker.best) > seen and is_enough(task, walker.best_set()):
            break
        seen = len(walker.best)
        walker.take(min(CPU_STRETCH, left))
        left -= CPU_STRETCH
    return walker.best_set()


def is_independent_set(instance: Instance) -> bool:
    """Whether all is about how many variables are at 1, and a pair may not have both of them there."""
    goal = instance.objective
    if goal is None or len(goal.differ) or len(goal.pairwise) or (instance.domain_sizes > 2).any():
        return False
    if (instance.given_values[instance.is_given] != 0).any():
        return False
    if not all(isinstance(group, Conflict) and (group.values == 1).all() for group in instance.constraints):
        return False
    worth = np.zeros((2, instance.size))
    np.add.at(worth, (goal.unary[:, 1], goal.unary[:, 0]), goal.unary_weights)
    gain = (worth[1] - worth[0])[_may_enter(instance)] * (1 if goal.sense == "maximize" else -1)
    return bool(len(gain) and gain[0] > 0 and (gain == gain[0]).all())


def _may_enter(instance: Instance) -> Bools:
    return (instance.domain_sizes == 2) & ~instance.is_given


def graph_of(instance: Instance) -> Graph:
    near = np.zeros((instance.size, instance.size), np.bool_)
    for group in instance.constraints:
        assert isinstance(group, Conflict)
        near[group.pairs[:, 0], group.pairs[:, 1]] = near[group.pairs[:, 1], group.pairs[:, 0]] = True
    return Graph(near, _may_enter(instance))


def without_conflicts(near: Bools, chosen: Bools) -> Bools:
    """A set (n,) less the members with most conflicts, until there are none."""
    chosen = chosen.copy()
    conflicts = near[chosen].sum(0) * chosen
    while conflicts.any():
        worst = int(conflicts.argmax())
        chosen[worst] = False
        conflicts = (conflicts - near[worst]) * chosen
    return chosen


def starting_sets(graph: Graph, states: IntArray, walkers: int) -> Bools:
    """The largest sets in the states (chains, n) first, then empty ones; (walkers, n)."""
    sets = [without_conflicts(graph.near, (state == 1) & graph.may_enter) for state in states]
    sets = sorted(sets, key=lambda chosen: -int(chosen.sum()))[:walkers]
    sets += [np.zeros(graph.size, np.bool_)] * (walkers - len(sets))
    return np.array(sets).reshape(walkers, graph.size)


def first_order(size: int, walker: int, seed: int) -> IntArray:
    """When each variable last changed, for a walker that has taken no step: below 0, all different, at random."""
    names = torch.arange(size, dtype=torch.int32) * 0x5BD1E995 + wrap(walker * 0x3C6EF372 + key_of(seed))
    ranks: IntArray = mix(names).argsort(stable=True).argsort().numpy() - size
    return ranks


class Walker:
    """A set of one graph and the weights of its pairs."""

    def __init__(self, graph: Graph, chosen: Bools, since: IntArray):
        """`since` says when each variable last changed."""
        self.weights = graph.near * np.int64(ONE)
        self.members = np.zeros(len(chosen), np.intp)
        self.count = int(chosen.sum())
        self.members[: self.count] = np.flatnonzero(chosen)
        self.key = np.where(chosen, -since, since) + self.weights[chosen].sum(0)
        self.key[chosen | ~graph.may_enter] += OUT
        self.best, self.now, self.last, self.done = self.members[: self.count].copy(), 0, -1, False

    def take(self, steps: int) -> None:
        for _ in range(steps):
            if self.done:
                return
            self.now += 1
            if not self._enter():
                continue
            keys = self.key[self.members[: self.count - 1]]  # who has just come stays
            worst = int(keys.argmax()) if len(keys) else -1
            if worst < 0 or keys[worst] <= TORN:
                self.last = -1
                self._keep()
            elif self.count > len(self.best) + 1:
                self._leave(worst, (int(keys[worst]) - OUT + HALF) >> BITS)

    def _enter(self) -> bool:
        """Bring in the variable whose conflicts weigh least, but not the one that has just left."""
        key, last = self.key, self.last
        if last >= 0:
            key[last] += OUT
        coming = int(key.argmin())
        if last >= 0:
            key[last] -= OUT
        if coming == last or key[coming] >= OUT - HALF:  # there is no other
            self.last, self.done = -1, last < 0
            return False
        load = (int(key[coming]) + HALF) >> BITS
        key[coming] = OUT + load * ONE - self.now
        key += self.weights[coming]
        self.members[self.count] = coming
        self.count += 1
        return True

    def _leave(self, place: int, load: int) -> None:
        """Take out the member at `place` of the list."""
        key, members = self.key, self.members
        self.last = leaving = int(members[place])
        self.count -= 1
        members[place] = members[self.count]
        key[leaving] = load * ONE + self.now
        key -= self.weights[leaving]
        inside = members[: self.count]
        torn = inside[key[inside] > TORN]
        if not len(torn):
            self._keep()
        elif self.now % HEAVIER_EVERY == 0:
            self._make_heavier(torn)

    def _make_heavier(self, torn: Indices) -> None:
        """The conflicts among these members."""
        among = torn[:, None], torn
        weights = self.weights[among]
        more = ((weights > 0) & (weights < HEAVIEST * ONE)) * ONE
        self.weights[among] = weights + more
        self.key[torn] += more.sum(0)

    def _keep(self) -> None:
        """The set has no conflicts: remember it if it is the largest."""
        if self.count > len(self.best):
            self.best = self.members[: self.count].copy()

    def best_set(self) -> IntArray:
        values = np.zeros(len(self.key), np.int64)
        values[self.best] = 1
        return values
