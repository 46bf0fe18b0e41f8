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

import numpy as np
import torch

from blogdit.core.constraints import Conflict, IntArray
from blogdit.core.instance import Instance
from blogdit.finishers.base import Deadline, Task
from blogdit.finishers.swaps_walker import Bools, Graph, Walker, first_order
from blogdit.finishers.tasks import LocalSearch, all_enough, clean_starts, is_enough, programs_at_once

# Of one graph. On a CPU a step takes a time that grows with n; keys of the kernel have 12 bits for a variable.
MOST_VARIABLES = {"cpu": 2048, "cuda": 4096}
MOST_WEIGHTS = 1 << 30  # of all walkers on a GPU at a time, 2 bytes each; a walker has n * n of them
CPU_STEPS = 16  # for each variable, without a deadline: about 2 s for the largest graphs
GPU_STEPS = 1 << 17  # of every walker, without a deadline: some seconds for the largest graphs
MOST_STEPS = (1 << 31) - (1 << 13)  # keys have 31 bits for the number of a step
WALKERS = 8  # of an instance on a GPU, or more to fill it; on a CPU one long walk finds more than several short ones
CPU_STRETCH = 64  # steps between looks at the clock: about 1 ms
LAUNCH = 1 << 23  # steps times variables of one launch: hundredths of a second on current data-centre GPUs
LEAST_LOAD = 1024  # variables: a step on a smaller graph takes a GPU as long as on one of this size


class Swaps(LocalSearch):
    """Walkers that begin with the sets of the chains, or with nothing."""

    name = "swaps"

    def supports(self, instance: Instance) -> bool:
        """Independent sets without weights, some variables of which may be given as 0."""
        return instance.size <= MOST_VARIABLES["cuda" if self.kernels else "cpu"] and is_independent_set(instance)

    def fits(self, number: int, size: int, other: int) -> bool:
        return number * WALKERS * size**2 <= MOST_WEIGHTS

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
    if goal is None or not goal.has_only("unary") or (instance.domain_sizes > 2).any():
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
    """Sets in the first states (chains, n), the largest first, then empty ones; (walkers, n)."""
    sets = [without_conflicts(graph.near, (state == 1) & graph.may_enter) for state in states[:walkers]]
    sets = sorted(sets, key=lambda chosen: -int(chosen.sum()))
    sets += [np.zeros(graph.size, np.bool_)] * (walkers - len(sets))
    return np.array(sets).reshape(walkers, graph.size)
