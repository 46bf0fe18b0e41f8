"""The search after the last step for independent sets: no two variables of a pair at 1, and as many at 1 as possible.

A set that is larger than the best one has conflicts. A step brings in the variable whose conflicts with the set weigh
least and takes out the member whose conflicts weigh most; every few steps one is added to the weight of every pair that
is still in conflict: what is hard to satisfy counts more and more, and the search does not come back to it. When no
conflict is left, the set is the best, and the next one has to be larger. Of equals, who has changed longest ago goes
first.

Weights of pairs are those of NuMVC (Cai, Su, Luo and Sattar 2013). On a GPU `swap_kernel` takes the same steps.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from blogdit.constraints import Conflict
from blogdit.csp import Instance
from blogdit.noise import mix, wrap
from blogdit.runtime import runs_kernels
from blogdit.walk import SIDE_BY_SIDE

if TYPE_CHECKING:
    from blogdit.swap_kernel import KernelWalkers

MOST_VARIABLES = {"cpu": 2048, "cuda": 4096}  # a walker has a weight for every two of them
MOST_WEIGHTS = {"cpu": 1 << 25, "cuda": 1 << 30}  # of all walkers that are on the device at a time
WALKERS = {"cpu": 1, "cuda": 8}  # of an instance; one long walk finds more than several short ones
FEW_STARTS = 4  # that a CPU looks at: the good ones come last
EVERY = 16  # steps that conflicts stay before they weigh more; each step is no better and dearer
HEAVIEST = (1 << 15) - 1  # weight
STEPS = {"cpu": 16, "cuda": 512}  # for each variable, unless they may take all the time
MOST_STEPS = (1 << 31) - (1 << 13)  # keys have 31 bits for them
GLANCE, LAUNCH = 256, 1 << 23  # steps of all walkers between looks at the clock; with the kernel, times variables
# A key of 64 bits orders variables: the weight of their conflicts first, then the step at which they last changed; of
# members less that step, so that the greatest key is the one to leave.
BITS, ONE, HALF = 32, 1 << 32, 1 << 31
OUT = 1 << 61  # added to the key of members, and of those who may never come in
TORN = OUT + HALF  # keys of members with conflicts are above

Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]
Indices = npt.NDArray[np.intp]
Stop = Callable[[], bool]


def can_swap(instance: Instance, kind: str) -> bool:
    """True for independent sets without weights, some variables of which may be given as 0."""
    goal = instance.objective
    if goal is None or instance.size > MOST_VARIABLES[kind] or len(goal.differ) or len(goal.pairwise):
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


def neighbours(instance: Instance) -> Bools:
    """Which variables may not both be 1, (n, n)."""
    near = np.zeros((instance.size, instance.size), np.bool_)
    for group in instance.constraints:
        assert isinstance(group, Conflict)
        near[group.pairs[:, 0], group.pairs[:, 1]] = near[group.pairs[:, 1], group.pairs[:, 0]] = True
    return near


def without_conflicts(near: Bools, chosen: Bools) -> Bools:
    """A set (n,) less the members with most conflicts, until there are none."""
    chosen = chosen.copy()
    conflicts = near[chosen].sum(0) * chosen
    while conflicts.any():
        worst = int(conflicts.argmax())
        chosen[worst] = False
        conflicts = (conflicts - near[worst]) * chosen
    return chosen


class Walker:
    """A set of one instance and the weights of its pairs."""

    def __init__(self, near: Bools, may_enter: Bools, chosen: Bools, since: Ints):
        """`since`, below 0 and all different, says in which order variables begin."""
        self.weights = near * np.int64(ONE)
        self.members = np.zeros(len(near), np.intp)
        self.count = int(chosen.sum())
        self.members[: self.count] = np.flatnonzero(chosen)
        self.key = np.where(chosen, -since, since) + self.weights[chosen].sum(0)
        self.key[chosen | ~may_enter] += OUT
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
        """Bring in whose conflicts weigh least, but not who has just left."""
        key, last = self.key, self.last
        if last >= 0:
            key[last] += OUT
        coming = int(key.argmin())
        if last >= 0:
            key[last] -= OUT
        if coming == last or key[coming] >= OUT - HALF:  # there is nobody else
            self.last, self.done = -1, last < 0
            return False
        load = (int(key[coming]) + HALF) >> BITS
        key[coming] = OUT + load * ONE - self.now
        key += self.weights[coming]
        self.members[self.count] = coming
        self.count += 1
        return True

    def _leave(self, place: int, load: int) -> None:
        """Take out a member."""
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
        elif self.now % EVERY == 0:
            self._make_heavier(torn)

    def _make_heavier(self, torn: Indices) -> None:
        """The conflicts among these members."""
        among = torn[:, None], torn
        weights = self.weights[among]
        more = ((weights > 0) & (weights < HEAVIEST * ONE)) * ONE
        self.weights[among] = weights + more
        self.key[torn] += more.sum(0)

    def _keep(self) -> None:
        """There are no conflicts."""
        if self.count > len(self.best):
            self.best = self.members[: self.count].copy()

    def best_set(self) -> Ints:
        values = np.zeros(len(self.key), np.int64)
        values[self.best] = 1
        return values


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
        self.near = [neighbours(one) for one in instances]
        self.may_enter = [_may_enter(one) for one in instances]
        chosen = [self._starts(place, given[:, place], chains) for place in range(size)]
        self.steps = MOST_STEPS if all_the_time else min(STEPS[kind] * self.variables, MOST_STEPS)
        self.walkers: Walkers | KernelWalkers
        if kind == "cuda":
            from blogdit.swap_kernel import KernelWalkers

            self.walkers = KernelWalkers(self, chosen)
            waves = -(-size * chains // SIDE_BY_SIDE)
            self.stretch = max(LAUNCH // max(self.variables, 1024) // waves, 1)
        else:
            self.walkers = Walkers(self, chosen)
            self.stretch = max(GLANCE // (size * chains), 1)

    def _starts(self, place: int, given: Bools, chains: int) -> Bools:
        """The largest sets in the states (C, N) of an instance first, then empty ones; (chains, n)."""
        near, may_enter = self.near[place], self.may_enter[place]
        sets = [without_conflicts(near, state[: len(near)] & may_enter) for state in given]
        order = sorted(range(len(sets)), key=lambda chain: -sets[chain].sum())[:chains]
        empty = [np.zeros(len(near), np.bool_)] * (chains - len(order))
        return np.array([sets[chain] for chain in order] + empty).reshape(chains, len(near))

    def since(self, place: int, chain: int) -> Ints:
        """An order of the variables of an instance, another one for each of its walkers."""
        size = len(self.near[place])
        number = torch.arange(size, dtype=torch.int32) * 0x5BD1E995 + wrap(chain * 0x3C6EF372)
        ranks: Ints = mix(number).argsort(stable=True).argsort().numpy() - size
        return ranks

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
    """All of them, on a CPU; `chosen` has their starts, for each instance (C, n)."""

    def __init__(self, swaps: Swaps, chosen: Sequence[Bools]):
        self.variables = swaps.variables
        self.of = [
            [
                Walker(swaps.near[place], swaps.may_enter[place], start, swaps.since(place, chain))
                for chain, start in enumerate(starts)
            ]
            for place, starts in enumerate(chosen)
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
