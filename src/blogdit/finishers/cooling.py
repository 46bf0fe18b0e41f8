"""Simulated annealing of the rows of a walk, for variables with two values.

A sweep visits every variable. Flipping x_i costs drive_i (see `terms`) or -drive_i, and is done if that is at most T e,
with e from the exponential distribution (Metropolis' rule); T falls linearly, and is 0 in the end. Variables of one
colour, no two of which share a term, do not see each other and are visited at the same time. Costs are whole numbers:
`cooling_kernel` does the same on a GPU, and comes to the same states.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn.functional import embedding_bag

from blogdit.core.instance import Instance
from blogdit.finishers.landscape import FINE, LEVELS, Int64, Landscape, landscapes, levels
from blogdit.finishers.polish import pairs_only
from blogdit.finishers.rows import Rows
from blogdit.finishers.terms import Int32
from blogdit.method.noise import wrap
from blogdit.network.runtime import runs_kernels

if TYPE_CHECKING:
    from blogdit.finishers.cooling_kernel import Plan

HOT, WARM, COLD = 0.35, 0.2, 0.044  # temperatures, in units of the landscape's field
EVERY, HOTTER = 4, 2.0  # one chain in so many begins at twice HOT: variables with many neighbours freeze early
TEMPERATURES = 256  # at most so many different ones
LAST = 4  # sweeps with T = 0
FEWEST_VARIABLES = 256
SPARSE, SPARSE_CONSTRAINTS = 16, 40  # pairs of variables for each term, without and with constraints
EXACT = 1 << 24  # whole numbers that float32 can tell apart


def steps_of(sweeps: int) -> int:
    """Sweeps at one temperature."""
    return max(-(-sweeps // TEMPERATURES), 1)


def can_cool(instance: Instance, device: torch.device, width: int) -> bool:
    """Two values; so few terms that colours are few. On a CPU a sweep has to be worth its overhead, on a GPU there has
    to be the kernel. Where there are constraints, walks are better on few variables (FEWEST_VARIABLES), and from fewer
    terms on (SPARSE_CONSTRAINTS)."""
    goal, size = instance.objective, instance.size
    if width != 2 or goal is None or not pairs_only(instance):
        return False
    terms = len(goal.differ) + len(goal.pairwise) + sum(map(len, instance.constraints))
    if (SPARSE_CONSTRAINTS if instance.constraints else SPARSE) * terms > size**2:
        return False
    large = size >= FEWEST_VARIABLES
    return large if device.type == "cpu" else runs_kernels(device) and (large or not instance.constraints)


class Cooling:
    """Anneals the states of a walk."""

    def __init__(self, walk: Rows):
        self.walk = walk
        made = landscapes(walk)
        self.field = torch.tensor([one.field for one in made], dtype=torch.float64, device=walk.x.device)  # (B,)
        self.plan: Plan | None = None
        self.parts: list[Part] = []
        if runs_kernels(walk.x.device):
            from blogdit.finishers.cooling_kernel import Plan

            self.plan = Plan(made, walk.x.device)
        else:
            self.parts = [Part(one) for one in made]

    def run(
        self,
        values: Tensor,
        hot: Tensor,
        sweeps: int,
        deadline: float = math.inf,
        stopped: Callable[[], bool] = lambda: False,
    ) -> Tensor:
        """States (C, B, N) after so many sweeps, or as many as there is time for; from HOT, some from above it, where
        `hot` (C, B), else from WARM."""
        second = torch.arange(len(values), device=values.device) % EVERY == 1
        most = HOT * torch.where(second, HOTTER, 1.0).double()[:, None]
        begin = torch.where(hot, most * self.field, WARM * self.field).long()
        end = (COLD * self.field).long().expand_as(begin)
        walk, x = self.walk, values.to(torch.int8).contiguous()
        salt = (walk.chain * 0x3C6EF372 + wrap(walk.round * 0x2545F491)).view(begin.shape)
        for place, part in enumerate(self.parts):
            part.enter(x[:, place].numpy(), salt[:, place].numpy())
        some = 1 if self.plan is None else self.plan.launch
        steps, still = steps_of(sweeps), max(sweeps - LAST, 0)
        for first in range(0, sweeps, some):
            if x.is_cuda:
                torch.cuda.synchronize()  # the clock is that of sweeps that are done
            if stopped() or time.monotonic() > deadline:
                break
            if self.plan is not None:
                numbers = range(first, min(first + some, sweeps))
                self.plan.sweep(x, begin, end, salt, numbers, sweeps, steps, still)
            if self.parts and (first == still or (first % steps == 0 and first < still)):
                now = begin - (begin - end) * first // sweeps if first < still else torch.zeros_like(begin)
                for place, part in enumerate(self.parts):
                    part.cool(now[:, place].numpy())
            for part in self.parts:
                part.sweep(first)
        if x.is_cuda:
            torch.cuda.synchronize()  # for whoever times it
        for place, part in enumerate(self.parts):
            x[:, place] = torch.from_numpy(part.leave())
        return x.to(values.dtype)


class Part:
    """One instance on a CPU, its chains in columns (N, C) of spins s = 2 x - 1: what a variable sees of its neighbours
    is then a weighted sum of rows, which torch has as the sum over a bag of embeddings."""

    def __init__(self, land: Landscape):
        moving = np.concatenate([*land.classes, np.zeros(0, np.intp)])
        self.unit, self.order = land.unit, np.concatenate([moving, np.setdiff1d(np.arange(len(land.drive)), moving)])
        self.codes = (self.order.astype(np.uint32) * np.uint32(0x5BD1E995))[:, None]
        kind = torch.float32 if 8 * land.reach < EXACT else torch.float64  # sums of halves are exact
        self.bags, (starts, others, pulls) = [], land.links
        place, degrees, first = np.argsort(self.order), np.diff(starts), 0
        for members in land.classes:
            degree = degrees[members]
            before = np.cumsum(degree) - degree
            at = np.repeat(starts[members] - before, degree) + np.arange(degree.sum())
            # The cost of a flip is -s_i (h_i + sum_j J_ij (1 + s_j) / 2).
            half = -torch.from_numpy(pulls[at]).to(kind) / 2
            neighbours, offsets = torch.from_numpy(place[others[at]]), torch.from_numpy(before)
            ones = torch.ones(len(self.order), 1, dtype=kind)
            alone = embedding_bag(neighbours, ones, offsets, mode="sum", per_sample_weights=half).numpy()
            alone -= land.drive[members][:, None]
            self.bags.append((slice(first, first + len(members)), alone, neighbours, offsets, half))
            first += len(members)
        self.spins = torch.zeros(0, dtype=kind)

    def enter(self, x: npt.NDArray[np.int8], salt: Int32) -> None:
        self.spins = torch.from_numpy(2 * np.ascontiguousarray(x.T[self.order]) - 1).to(self.spins.dtype)
        self.salt = salt.view(np.uint32)

    def leave(self) -> npt.NDArray[np.int8]:
        x = np.empty(self.spins.shape, np.int8)
        x[self.order] = self.spins.numpy() > 0
        return x.T

    def cool(self, temperature: Int64) -> None:
        """To T of each chain."""
        warmth, which = np.unique(temperature, return_inverse=True)
        self.table = (levels() * warmth[:, None] // (FINE * self.unit)).astype(self.spins.numpy().dtype).reshape(-1)
        self.which = (which * LEVELS).astype(np.uint32)

    def sweep(self, number: int) -> None:
        key = _mixed(self.salt + np.uint32(number * 0x9E3779B1 % (1 << 32)))
        draws = _mixed(self.codes ^ key) >> np.uint32(20)
        draws += self.which
        limits, spins = self.table.take(draws), self.spins.numpy()  # T e for each variable and chain
        for members, alone, neighbours, offsets, half in self.bags:
            cost = embedding_bag(neighbours, self.spins, offsets, mode="sum", per_sample_weights=half).numpy()
            cost += alone
            cost *= spins[members]
            np.negative(spins[members], out=spins[members], where=cost <= limits[members])


def _mixed(x: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
    """As noise.mix, in numpy, which is faster on few numbers."""
    x = x ^ (x >> np.uint32(16))
    x *= np.uint32(0x7FEB352D)
    x ^= x >> np.uint32(15)
    x *= np.uint32(0x846CA68B)
    x ^= x >> np.uint32(16)
    return x
