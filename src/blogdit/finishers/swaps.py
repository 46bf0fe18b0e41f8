"""The search after the last step for independent sets: no two variables of a pair at 1, and as many at 1 as possible.

Walkers (`swap_walker`, on a GPU `swap_kernel`) begin with the sets that the chains have found, or with nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from blogdit.core.constraints import Conflict
from blogdit.core.instance import Instance
from blogdit.finishers.swap_walker import Bools, Graph, Walker, begin
from blogdit.finishers.walk import SIDE_BY_SIDE
from blogdit.network.runtime import runs_kernels

if TYPE_CHECKING:
    from blogdit.finishers.swap_kernel import KernelWalkers

MOST_VARIABLES = 4096  # a walker has a weight for every two of them
MOST_WEIGHTS = {"cpu": 1 << 25, "cuda": 1 << 30}  # of all walkers that are on the device at a time
WALKERS = {"cpu": 1, "cuda": 8}  # of an instance; one long walk finds more than several short ones
FEW_STARTS = 4  # that a CPU looks at: the good ones come last
STEPS = {"cpu": 16, "cuda": 512}  # for each variable, unless they may take all the time
MOST_STEPS = (1 << 31) - (1 << 13)  # keys have 31 bits for them
GLANCE, LAUNCH = 256, 1 << 23  # steps of all walkers between looks at the clock; with the kernel, times variables
COUNTED = 16  # steps of each between looks, where steps are counted: what is seen must not depend on who else walks

Stop = Callable[[], bool]


def can_swap(instance: Instance) -> bool:
    """True for independent sets without weights, some variables of which may be given as 0."""
    goal = instance.objective
    if goal is None or instance.size > MOST_VARIABLES or len(goal.differ) or len(goal.pairwise):
        return False
    if (instance.domain_sizes > 2).any() or (instance.given_values[instance.is_given] != 0).any():
        return False
    if not all(isinstance(group, Conflict) and (group.values == 1).all() for group in instance.constraints):
        return False
    worth = np.zeros((2, instance.size))
    inside = goal.unary[:, 1] < 2
    np.add.at(worth, (goal.unary[inside, 1], goal.unary[inside, 0]), goal.unary_weights[inside])
    gain = (worth[1] - worth[0])[_may_enter(instance)] * (1 if goal.sense == "maximize" else -1)
    return bool(len(gain) and gain[0] > 0 and (gain == gain[0]).all())


def kind_of(device: torch.device) -> str:
    """Where the steps are taken: without kernels on the host, whatever the device."""
    return "cuda" if runs_kernels(device) else "cpu"


def walkers(starts: int, variables: int, kind: str) -> int:
    """Of each instance: on a GPU one for each start, if there is room, on a CPU for the best."""
    room = max(MOST_WEIGHTS[kind] // variables**2, 1)
    return min(max(WALKERS[kind], starts), room) if kind == "cuda" else WALKERS[kind]


def together(starts: int, variables: int, kind: str) -> int:
    """How many instances there is room for at a time."""
    return max(MOST_WEIGHTS[kind] // (walkers(starts, variables, kind) * variables**2), 1)


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


def _starts(graph: Graph, given: Bools, chains: int) -> Bools:
    """The largest sets in the states (C, N) of an instance first, then empty ones; (chains, n)."""
    sets = [without_conflicts(graph.near, state[: graph.size] & graph.may_enter) for state in given]
    order = sorted(range(len(sets)), key=lambda chain: -sets[chain].sum())[:chains]
    empty = [np.zeros(graph.size, np.bool_)] * (chains - len(order))
    return np.array([sets[chain] for chain in order] + empty).reshape(chains, graph.size)


class Swaps:
    """Walkers on instances, from starts (C, B, N); where there are more of them, others begin with nothing. They take a
    number of steps or, with `all_the_time`, as many as there is time for."""

    def __init__(self, instances: Sequence[Instance], values: Tensor, all_the_time: bool = False):
        _, size, self.variables = values.shape
        self.device = values.device
        kind = kind_of(self.device)
        given = (values if kind == "cuda" else values[-FEW_STARTS:]).cpu().numpy() == 1
        variables = max(self.variables, 1)
        chains = walkers(len(values), variables, kind)
        if all_the_time and kind == "cuda":  # few instances do not fill a GPU
            chains = max(chains, min(SIDE_BY_SIDE, MOST_WEIGHTS[kind] // variables**2) // size)
        self.graphs = [graph_of(one) for one in instances]
        starts = [_starts(graph, given[:, place], chains) for place, graph in enumerate(self.graphs)]
        self.steps = MOST_STEPS if all_the_time else min(STEPS[kind] * self.variables, MOST_STEPS)
        self.walkers: Walkers | KernelWalkers
        if kind == "cuda":
            from blogdit.finishers.swap_kernel import KernelWalkers

            self.walkers = KernelWalkers(self.graphs, starts, self.variables, self.device)
            waves = -(-size * chains // SIDE_BY_SIDE)
            self.stretch = max(LAUNCH // max(self.variables, 1024) // waves, 1)
        else:
            self.walkers = Walkers(self.graphs, starts, self.variables)
            self.stretch = max(GLANCE // (size * chains), 1) if all_the_time else COUNTED

    def run(self, deadline: float, may_end: Stop) -> None:
        """All steps, unless the time is over."""
        taken = 0
        while taken < self.steps and not self.walkers.done():
            if self.device.type == "cuda":
                torch.cuda.synchronize()  # the clock is that of steps that are done
            if time.monotonic() > deadline or may_end():
                return
            some = min(self.stretch, self.steps - taken)
            self.walkers.take(some)
            taken += some

    def lowest(self) -> Tensor:
        """The largest set of each instance, (B, N)."""
        return self.walkers.best().to(self.device)


class Walkers:
    """All of them, on a CPU; `starts` are their sets, for each graph (C, n)."""

    def __init__(self, graphs: Sequence[Graph], starts: Sequence[Bools], variables: int):
        self.variables = variables
        self.of = [
            [Walker(graph, chosen, begin(graph.size, number)) for number, chosen in enumerate(sets)]
            for graph, sets in zip(graphs, starts, strict=True)
        ]

    def take(self, steps: int) -> None:
        for walkers in self.of:
            for walker in walkers:
                walker.take(steps)

    def done(self) -> bool:
        return all(any(walker.done for walker in walkers) for walkers in self.of)

    def best(self) -> Tensor:
        found = torch.zeros(len(self.of), self.variables, dtype=torch.long)
        for values, walkers in zip(found, self.of, strict=True):
            best = max(walkers, key=lambda walker: len(walker.best)).best_set()
            values[: len(best)] = torch.from_numpy(best)
        return found
