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

from blogdit.core.constraints import Conflict, IntArray
from blogdit.core.instance import Instance
from blogdit.finishers.base import Deadline, Task
from blogdit.finishers.swaps_walker import Bools, Graph, Walker, first_order
from blogdit.finishers.tasks import LocalSearch, clean_starts, programs_at_once, steps_of_launch

# Of one graph. On a CPU a step takes a time that grows with n; keys of the kernel have 12 bits for a variable.
MOST_VARIABLES = {"cpu": 4096, "cuda": 4096}
MOST_WEIGHTS = 1 << 30  # of all walkers on a GPU at a time, 2 bytes each; a walker has n * n of them
CPU_STEPS = 16  # for each variable, without a deadline: about 2 s for the largest graphs
GPU_STEPS = 1 << 17  # of every walker, without a deadline: some seconds for the largest graphs
MOST_STEPS = (1 << 31) - (1 << 13)  # keys have 31 bits for the number of a step
WALKERS = 8  # of an instance on a GPU, or more to fill it; on a CPU one long walk finds more than several short ones
CPU_STRETCH = 256  # steps between looks at the clock: a few milliseconds
LAUNCH = 1 << 23  # steps times variables of one launch: hundredths of a second on current data-centre GPUs
LEAST_LOAD = 1024  # variables: a step on a smaller graph takes a GPU as long as on one of this size


class Swaps(LocalSearch):
    """Walkers that begin with the sets of the chains, or with nothing."""

    name = "swaps"

    def supports(self, instance: Instance) -> bool:
        """Independent sets without weights, some variables of which may be given as 0."""
        return instance.size <= MOST_VARIABLES["cuda" if self.kernels else "cpu"] and is_independent_set(instance)

    def share(self, instance: Instance) -> float:
        return WALKERS * instance.size**2 / MOST_WEIGHTS

    def search(self, tasks: Sequence[Task], deadline: Deadline, seed: int) -> list[IntArray]:
        graphs = [graph_of(task.instance) for task in tasks]
        variables, number = max(graph.size for graph in graphs), WALKERS if self.kernels else 1
        if self.kernels and not deadline.unlimited:  # few instances do not fill a GPU
            room = min(programs_at_once(self.device), MOST_WEIGHTS // variables**2)
            number = max(number, room // len(tasks))
        sets = [starting_sets(graph, clean_starts(task), number) for graph, task in zip(graphs, tasks, strict=True)]
        if not self.kernels:
            walker = Walker(graphs[0], sets[0][0], first_order(variables, 0, seed))
            limit = CPU_STEPS * variables if deadline.unlimited else MOST_STEPS
            return self.walk(walker, tasks, deadline, limit, CPU_STRETCH)
        from blogdit.finishers.swaps_kernel import KernelWalkers

        walkers = KernelWalkers(graphs, sets, variables, self.device, seed)
        stretch = steps_of_launch(LAUNCH, max(variables, LEAST_LOAD), len(walkers.x), self.device)
        return self.walk(walkers, tasks, deadline, GPU_STEPS if deadline.unlimited else MOST_STEPS, stretch)


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
