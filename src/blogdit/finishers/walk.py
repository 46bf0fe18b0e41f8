"""Tabu search of many chains at the same time, for problems made of pairs (MaxCut, independent set, ...).

Every chain changes one variable per move: the one that lowers its energy most or, in a local optimum, raises it least.
A variable that was changed rests for some moves, so that the walk does not fall back, unless that leads below all that
the chain has seen.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from blogdit.core.instance import Instance
from blogdit.finishers.flips import Flips
from blogdit.finishers.polish import can_polish
from blogdit.finishers.rows import Rows
from blogdit.finishers.terms import NEVER, list_size, table_size
from blogdit.method.noise import mix, wrap
from blogdit.network.runtime import runs_kernels

if TYPE_CHECKING:
    from blogdit.finishers.flip_kernel import RegisterFlips

LARGEST = 1 << 24  # entries of the list of terms of an instance that walks, and of the table, if it needs one
TOGETHER = 1 << 25  # such entries of all instances on the device
# Between looks at the clock: moves, or with the kernel (variable, value) pairs looked at, hundredths of a second.
GLANCE, LAUNCH = 64, 1 << 25
FEWEST_CELLS, SIDE_BY_SIDE = 2048, 396  # a move takes as long as with so many pairs; rows that an H200 runs at once


def can_walk(instance: Instance, variables: int) -> bool:
    """Not where a few variables with very many neighbours make the table large; two values do not need it, on a CPU."""
    if not can_polish(instance) or list_size(instance) > LARGEST:
        return False
    return instance.domain_sizes.max(initial=1) == 2 or fits_tables(instance, variables)


def fits_tables(instance: Instance, variables: int) -> bool:
    return table_size(instance, variables) <= LARGEST


def room(instances: Sequence[Instance], variables: int, kernels: bool) -> int:
    """How many such instances may be on a device at a time: kernels look their terms up in tables."""
    terms = [table_size(one, variables) if kernels else list_size(one) for one in instances]
    return max(TOGETHER // max([1, *terms]), 1)


class Walk(Rows):
    """Rows that move."""

    def __init__(self, instances: Sequence[Instance], values: Tensor, width: int):
        super().__init__(instances, values, width)
        self.flips: Flips | RegisterFlips | None = None  # takes the moves of variables with two values

    def run(self, moves: int, deadline: float = math.inf, stopped: Callable[[], bool] = lambda: False) -> bool:
        """So many moves, or as many as there is time for: then False."""
        if time.monotonic() > deadline:
            return False
        kernel, some, ended = self._kernel(), self._stretch(), False
        for first in range(0, moves, some):
            if self.x.is_cuda:
                torch.cuda.synchronize()  # the clock is that of moves that are done
            ended = stopped() or time.monotonic() > deadline
            if ended:
                break
            self._take(min(some, moves - first), kernel)
        if self.drive is not None:
            self.known_costs = self.drive = None
        return not ended

    def _stretch(self) -> int:
        """Moves between looks at the clock."""
        if not runs_kernels(self.x.device):
            return GLANCE
        waves = -(-len(self.x) // SIDE_BY_SIDE)
        return max(LAUNCH // max(self.variables * self.width, FEWEST_CELLS) // max(waves, 1), 1)

    def _take(self, moves: int, kernel: Callable[[int], None] | None) -> None:
        if kernel is not None:
            kernel(moves)
            return
        for _ in range(moves):
            self.move()

    def _kernel(self) -> Callable[[int], None] | None:
        """What takes many moves at once, if there is something."""
        on_gpu = runs_kernels(self.x.device)
        if self.flips is None:
            self.flips = self._flips(on_gpu)
        if self.flips is not None:
            zero, one = self.costs.view(*self.x.shape, 2).unbind(2)
            self.drive = one - zero
            return partial(self.flips.take_moves, self)
        if on_gpu:
            from blogdit.finishers.walk_kernel import take_moves

            return partial(take_moves, self)
        return None

    def _flips(self, on_gpu: bool) -> Flips | RegisterFlips | None:
        """For variables with two values, unless they are too many for the registers of a GPU."""
        if self.width != 2:
            return None
        if on_gpu:
            from blogdit.finishers import flip_kernel

            return flip_kernel.RegisterFlips(self) if self.variables <= flip_kernel.MOST_VARIABLES else None
        return None if self.x.is_cuda else Flips(self)

    def move(self) -> None:
        """One change in every chain that has one."""
        self.taken += 1
        here = (self.cells + self.x).long()
        change = (self.costs.view(*self.x.shape, -1) - self.costs.gather(1, here)[..., None]).view(len(self.x), -1)
        key = mix(self.salt + wrap(self.taken * 0x9E3779B1))  # int32, the kernel's 32 bits
        order = (self.order ^ key[:, None]).mul_(0x7FEB352D).bitwise_right_shift_(16).bitwise_and_(0xFFFF)
        score = order.mul_(self.nudge[:, None]).bitwise_right_shift_(16).add_(change)
        resting = (self.rest > self.taken).repeat_interleave(self.width, 1)
        below = change < (self.best - self.energy)[:, None]
        score.masked_fill_(resting & ~below, NEVER).scatter_(1, here, NEVER)
        lowest, pick = score.min(1, keepdim=True)
        moves = lowest < NEVER // 2
        variable = pick // self.width
        old = self.x.gather(1, variable)
        new = torch.where(moves, (pick % self.width).int(), old)
        self.x.scatter_(1, variable, new)
        rest = self.taken + 1 + self.pause + ((key >> 16) & 0xFFFF) % 10
        self.rest.scatter_(1, variable, torch.where(moves, rest[:, None], self.rest.gather(1, variable)))
        self._update_costs(variable[:, 0], old, new)
        self.energy += torch.where(moves, change.gather(1, pick), 0)[:, 0]
        better = self.energy < self.best
        self.best = torch.where(better, self.energy, self.best)
        self.best_x[better] = self.x[better]

    def _update_costs(self, variable: Tensor, old: Tensor, new: Tensor) -> None:
        """The neighbours of a variable that went from `old` to `new` (rows, 1)."""
        other, own, theirs, weight = (table[self.instance, variable] for table in self.tables[:4])
        same = own < 0
        before = other * self.width + torch.where(same, old, theirs)
        after = other * self.width + torch.where(same, new, theirs)
        self.costs.scatter_add_(1, before.long(), -weight * (same | (own == old)))
        self.costs.scatter_add_(1, after.long(), weight * (same | (own == new)))
