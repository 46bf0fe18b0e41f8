"""One walker of `swaps` on a CPU: a set, and the weights of the pairs. `swaps_kernel` takes the same steps on a GPU."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from blogdit.core.constraints import IntArray
from blogdit.finishers.tasks import key_of
from blogdit.method.noise import mix, wrap

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
        self.best, self.taken, self.last, self.is_full = self.members[: self.count].copy(), 0, -1, False

    def take(self, steps: int) -> None:
        for _ in range(steps):
            if self.is_full:
                return
            self.taken += 1
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
            self.last, self.is_full = -1, last < 0
            return False
        load = (int(key[coming]) + HALF) >> BITS
        key[coming] = OUT + load * ONE - self.taken
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
        key[leaving] = load * ONE + self.taken
        key -= self.weights[leaving]
        inside = members[: self.count]
        torn = inside[key[inside] > TORN]
        if not len(torn):
            self._keep()
        elif self.taken % HEAVIER_EVERY == 0:
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

    def done(self) -> bool:
        return self.is_full

    def answers(self) -> list[IntArray]:
        values = np.zeros(len(self.key), np.int64)
        values[self.best] = 1
        return [values]
