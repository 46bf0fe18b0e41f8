"""Tabu search of many chains at the same time, for problems made of pairs (MaxCut, independent set, ...).

Every chain changes one variable per move: the one that lowers its energy most or, in a local optimum, raises it least.
A variable that was changed rests for some moves, so that the walk does not fall back, unless that leads below all that
the chain has seen. All tensors stay on the device of the start.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from blogdit.constraints import Conflict, FloatArray, NotEqual
from blogdit.csp import Instance
from blogdit.flips import NEVER, Couplings, Flips, couplings
from blogdit.noise import mix, wrap
from blogdit.polish import Pairs, can_polish
from blogdit.runtime import runs_kernels

if TYPE_CHECKING:
    from blogdit.flip_kernel import RegisterFlips

LARGEST = 1 << 24  # entries of the table of neighbours of an instance that walks
AT_ONCE = {"cpu": 1 << 18, "cuda": 1 << 24}  # entries of it that are looked up for several chains
MOST = 1 << 28  # units that all terms of a variable may add up to
# Between looks at the clock: moves, or with the kernel (variable, value) pairs looked at, hundredths of a second.
GLANCE, LAUNCH = 64, 1 << 25
FEWEST_CELLS, SIDE_BY_SIDE = 2048, 396  # a move takes as long as with so many pairs; rows that an H200 runs at once


class Terms(NamedTuple):
    """Energy terms by instance and variable, (B, N, D) int32: weight w if the variable has value `own` and `other` has
    `theirs`; own = -1: if both have the same. Padding, after the first `degree` (B, N), has weight 0."""

    other: Tensor
    own: Tensor
    theirs: Tensor
    weight: Tensor
    degree: Tensor


def table_size(instance: Instance, variables: int) -> int:
    """Entries of the table of neighbours of an instance padded to `variables`."""
    goal = instance.objective
    ends = [] if goal is None else [goal.differ[:, :2], goal.pairwise[:, :2]]
    ends += [group.pairs for group in instance.constraints if isinstance(group, NotEqual | Conflict)]
    degree = np.bincount(np.concatenate([pair.reshape(-1) for pair in ends]), minlength=1).max()
    return variables * max(int(degree), 1)


def can_walk(instance: Instance, variables: int) -> bool:
    """Not where a few variables with very many neighbours make the table large."""
    return can_polish(instance) and table_size(instance, variables) <= LARGEST


def _sizes(pairs: Pairs) -> FloatArray:
    """Of all terms that cost or earn something."""
    sizes = np.abs(np.concatenate([pairs.weights, pairs.unary[np.isfinite(pairs.unary)]]))
    return sizes[sizes > 0]


def _scale(pairs: Pairs) -> float:
    """Units of energy. Energies are whole numbers of them, so that sums are exact in any order; no weight is rounded if
    all are multiples of the smallest and there is room."""
    sizes = _sizes(pairs)
    if not len(sizes):
        return 1.0
    reach = np.bincount(pairs.owner, np.abs(pairs.weights), len(pairs.unary)).astype(np.float64)
    reach += np.abs(np.where(np.isfinite(pairs.unary), pairs.unary, 0.0)).max(1)
    most = max(reach.max(), 1e-280)
    smallest, largest = max(sizes.min() / most, 1e-280), sizes.max() / most  # shares of what a variable can have
    multiples = 64 * (sizes / most) / smallest  # a penalty is 65/64 of a gain
    exact = min(MOST * smallest, 1 << 16) // 64 * 64
    if exact and np.all(np.abs(multiples - np.rint(multiples)) <= 1e-9 * multiples):
        return float(exact / smallest / most)
    # Few bits are faster on a GPU, but the smallest weight should not be lost.
    return float(min(MOST, max((1 << 14) / largest, (1 << 10) / smallest)) / most)


def _units(scale: float, amounts: FloatArray) -> npt.NDArray[np.int32]:
    """Energies in units, at most NEVER."""
    return np.rint(np.minimum(amounts * scale, NEVER)).astype(np.int32)


def _nudge(pairs: Pairs, scale: float) -> int:
    """Less than the smallest weight, and less than what a penalty is above a gain."""
    least = min(_sizes(pairs).min(initial=math.inf), pairs.most / 64) * scale
    return int(np.clip(least / 2, 1, (1 << 15) - 1))


def _tables(pairs: Sequence[Pairs], scales: Sequence[float], variables: int, device: torch.device) -> Terms:
    deepest = max(int(np.diff(one.starts).max(initial=0)) for one in pairs)
    other, own, theirs, weight = np.zeros((4, len(pairs), variables, max(deepest, 1)), np.int32)
    count = np.zeros((len(pairs), variables), np.int32)
    for place, (one, scale) in enumerate(zip(pairs, scales, strict=True)):
        slot = np.arange(len(one.owner)) - one.starts[one.owner]
        other[place, one.owner, slot], weight[place, one.owner, slot] = one.other, _units(scale, one.weights)
        own[place, one.owner, slot], theirs[place, one.owner, slot] = one.values.T
        count[place, : len(one.starts) - 1] = np.diff(one.starts)
    return Terms(*(torch.from_numpy(table).to(device) for table in (other, own, theirs, weight, count)))


def _alone(pairs: Sequence[Pairs], scales: Sequence[float], variables: int, width: int) -> Tensor:
    """What each value costs by itself, (B, N, width). Padding stays at value 0."""
    costs = np.full((len(pairs), variables, width), NEVER, np.int32)
    costs[:, :, 0] = 0
    for place, (one, scale) in enumerate(zip(pairs, scales, strict=True)):
        size, own = one.unary.shape
        costs[place, :size] = NEVER
        costs[place, :size, :own] = _units(scale, one.unary)
    return torch.from_numpy(costs)


class Walk:
    """Chains (C, B, N) on instances of one shape, flattened to rows (C * B, N)."""

    def __init__(self, instances: Sequence[Instance], values: Tensor, width: int):
        self.chains, self.size, self.variables = values.shape
        self.width, device = width, values.device
        pairs = [Pairs(instance) for instance in instances]
        scales = [_scale(one) for one in pairs]
        self.terms = _tables(pairs, scales, self.variables, device)
        self.alone = _alone(pairs, scales, self.variables, width).to(device)
        sizes = torch.tensor([instance.size for instance in instances], device=device)
        self.real = torch.arange(self.variables, device=device) < sizes[:, None]
        self.instance = torch.arange(self.size, device=device).repeat(self.chains)  # of each row
        self.chain = torch.arange(self.chains, dtype=torch.int32, device=device).repeat_interleave(self.size)
        self.cells = torch.arange(self.variables, device=device) * width
        self.pause = (sizes // 4).clamp(max=20).int()[self.instance]
        # Equals are taken in an order that differs from chain to chain and from move to move.
        nudges = [_nudge(one, scale) for one, scale in zip(pairs, scales, strict=True)]
        nudge = torch.tensor(nudges, dtype=torch.int32, device=device)
        self.nudge = nudge[self.instance]
        self.order = torch.arange(self.variables * width, dtype=torch.int32, device=device) * 0x5BD1E995
        self.round = 0
        self.flips: Flips | RegisterFlips | None = None  # takes the moves of variables with two values
        self.drive: Tensor | None = None  # while it does: the cost of 1 less that of 0, instead of `costs`
        self.start(values)

    @cached_property
    def links(self) -> list[Couplings]:
        """Of each instance, for variables with two values."""
        return couplings(self)

    def start(self, values: Tensor) -> None:
        """Begin at `values` (C, B, N), with nothing seen."""
        values = torch.where(self.real, values, 0).long()
        costs = self._costs(values)  # (C, B, N, width)
        own, own_alone = (t.gather(-1, values[..., None])[..., 0] for t in (costs, self.alone.expand_as(costs)))
        # A term on a pair is in the costs of both of its variables.
        self.energy = (own.long() + own_alone).sum(-1).view(-1) // 2
        self.known_costs: Tensor | None = costs.view(len(self.instance), -1)
        self.x = values.int().view(-1, self.variables)
        self.best, self.best_x = self.energy.clone(), self.x.clone()
        self.rest = torch.zeros_like(self.x)  # the move at which a variable may change again
        self.when = torch.zeros_like(self.pause)  # kept by `repair`: the move that led to the best state
        self.taken = 0
        self.round += 1
        self.salt = self.chain * 0x3C6EF372 + wrap(self.round * 0x27D4EB2F)

    @property
    def costs(self) -> Tensor:
        """The energy of every variable at every value, the others where they are, (rows, N * width)."""
        if self.known_costs is None:
            self.known_costs = self._costs(self.x.view(self.chains, self.size, -1).long()).view(len(self.x), -1)
        return self.known_costs

    def _costs(self, x: Tensor) -> Tensor:
        """The energy of every variable at every value, the others at x (C, B, N)."""
        some = max(AT_ONCE[x.device.type] // max(self.terms.other.numel(), 1), 1)  # chains
        return torch.cat([self._costs_of(x[first : first + some]) for first in range(0, len(x), some)])

    def _costs_of(self, x: Tensor) -> Tensor:
        other, own, theirs, weight, _ = (table.expand(len(x), *table.shape) for table in self.terms)
        there = x[:, :, None].expand(-1, -1, self.variables, -1).gather(3, other.long())  # (C, B, N, D)
        same = own < 0
        amount = weight * (same | (theirs == there))
        return self.alone.expand(len(x), -1, -1, -1).scatter_add(3, torch.where(same, there, own.long()), amount)

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
            from blogdit.walk_kernel import take_moves

            return partial(take_moves, self)
        return None

    def _flips(self, on_gpu: bool) -> Flips | RegisterFlips | None:
        """For variables with two values, unless they are too many for the registers of a GPU."""
        if self.width != 2:
            return None
        if on_gpu:
            from blogdit import flip_kernel

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
        other, own, theirs, weight = (table[self.instance, variable] for table in self.terms[:4])
        same = own < 0
        before = other * self.width + torch.where(same, old, theirs)
        after = other * self.width + torch.where(same, new, theirs)
        self.costs.scatter_add_(1, before.long(), -weight * (same | (own == old)))
        self.costs.scatter_add_(1, after.long(), weight * (same | (own == new)))
