"""Many moves of `tabu_chain.Chain` in one launch. A program stays with its chain, whose state is in the cache.

Programs share nothing. The threads of a program wait for each other twice a move: before they change what all have
read, and before they read what others have changed.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
import triton
import triton.language as tl

from blogdit.core.constraints import IntArray
from blogdit.finishers import tabu_chain
from blogdit.finishers.pairs import Pairs
from blogdit.finishers.tabu_chain import chain_key
from blogdit.network.kernels.streams import mix

CELLS = 2048  # (variable, value) pairs that a program looks at in one go: 8 for each of its threads
NEIGHBOURS = 64  # that a program updates in one go
WARPS = 8  # 256 threads for each chain
FORBIDDEN: tl.constexpr = tl.constexpr(tabu_chain.FORBIDDEN)
TIE_BITS: tl.constexpr = tl.constexpr(tabu_chain.TIE_BITS)
CLOSED: tl.constexpr = tl.constexpr(tabu_chain.CLOSED[0])
OF: tl.constexpr = tl.constexpr(tabu_chain.CLOSED[1])
JITTER: tl.constexpr = tl.constexpr(tabu_chain.JITTER)


@triton.jit
def _best_cell(
    costs_ptr, x_ptr, open_ptr, variables, taken, below, key,
    width: tl.constexpr, values: tl.constexpr, tile: tl.constexpr,
):  # fmt: skip
    """The lowest score in the upper half of 64 bits, its cell (variable * width + value) in the lower half. Then, how
    many variables are in violated pairs."""
    k = tl.arange(0, values)[None, :]
    lowest = tl.full((tile, values), 0x7FFFFFFFFFFFFFFF, tl.int64)
    involved = tl.full((tile,), 0, tl.int32)
    for first in range(0, variables, tile):
        i = first + tl.arange(0, tile)
        cell, there = i[:, None] * width + k, (i < variables)[:, None] & (k < width)
        x = tl.load(x_ptr + i, mask=i < variables, other=0)[:, None]
        open_from = tl.load(open_ptr + cell, mask=there, other=0)
        costs = tl.load(costs_ptr + cell, mask=there, other=0)
        own = tl.sum(tl.where(k == x, costs, 0), 1)
        change = costs - own[:, None]
        free = there & (k != x) & (own > 0)[:, None] & ((open_from <= taken) | (change < below))
        involved += (own > 0).to(tl.int32)
        order = i[:, None].to(tl.uint32) * 0x5BD1E995 + k.to(tl.uint32) * 0x27D4EB2F
        tie = ((order ^ key) * 0x7FEB352D >> (32 - TIE_BITS)).to(tl.int32)
        score = tl.where(free, (change << TIE_BITS) + tie, FORBIDDEN << TIE_BITS)
        lowest = tl.minimum(lowest, (score.to(tl.int64) << 32) | cell)
    return tl.min(lowest), tl.sum(involved)


@triton.jit
def _update_costs(
    costs_ptr, other_ptr, own_ptr, theirs_ptr, degree, old, new, width: tl.constexpr, neighbours: tl.constexpr
):
    """Of the neighbours of a variable that went from `old` to `new`. One may be in the list more than once."""
    for first in range(0, degree, neighbours):
        d = first + tl.arange(0, neighbours)
        here = d < degree
        other = tl.load(other_ptr + d, mask=here, other=0) * width
        own = tl.load(own_ptr + d, mask=here, other=0)
        theirs = tl.load(theirs_ptr + d, mask=here, other=0)
        same = own < 0
        before, after = other + tl.where(same, old, theirs), other + tl.where(same, new, theirs)
        tl.atomic_add(costs_ptr + before, -1, mask=here & (same | (own == old)), sem="relaxed")
        tl.atomic_add(costs_ptr + after, 1, mask=here & (same | (own == new)), sem="relaxed")


# No versions of their own for sizes of 1 and multiples of 16.
@triton.jit(do_not_specialize=["taken", "moves", "variables"])
def _tabu_kernel(
    other_ptr, own_ptr, theirs_ptr, starts_ptr, instance_ptr,
    x_ptr, open_ptr, costs_ptr, best_x_ptr, violated_ptr, best_ptr, best_at_ptr, key_ptr,
    taken, moves, variables,
    width: tl.constexpr, values: tl.constexpr, tile: tl.constexpr, neighbours: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    first = tl.load(instance_ptr + row).to(tl.int64) * variables
    x_ptr, best_x_ptr = x_ptr + row * variables, best_x_ptr + row * variables
    costs_ptr, open_ptr = costs_ptr + row * variables * width, open_ptr + row * variables * width
    violated, best, best_at = tl.load(violated_ptr + row), tl.load(best_ptr + row), tl.load(best_at_ptr + row)
    salt = tl.load(key_ptr + row).to(tl.uint32, bitcast=True)
    last = taken + moves
    going = (taken < last) & (best > 0)
    while going:
        taken += 1
        key = mix(taken.to(tl.uint32) * 0x9E3779B1 + salt)
        pick, involved = _best_cell(
            costs_ptr, x_ptr, open_ptr, variables, taken, best - violated, key, width, values, tile
        )
        cell = (pick & 0xFFFFFFFF).to(tl.int32)
        if (pick >> 32) < (FORBIDDEN << (TIE_BITS - 1)):
            variable, new = cell // width, cell % width
            old = tl.load(x_ptr + variable)
            violated += tl.load(costs_ptr + cell) - tl.load(costs_ptr + variable * width + old)
            tl.debug_barrier()
            tl.store(x_ptr + variable, new)
            jitter = ((key >> 16) % JITTER).to(tl.int32)
            tl.store(open_ptr + variable * width + old, taken + 1 + CLOSED * involved // OF + jitter)
            at = tl.load(starts_ptr + first + variable)
            degree = tl.load(starts_ptr + first + variable + 1) - at
            _update_costs(costs_ptr, other_ptr + at, own_ptr + at, theirs_ptr + at, degree, old, new, width, neighbours)
            tl.debug_barrier()
            if violated < best:
                best, best_at = violated, taken
                for start in range(0, variables, tile):
                    i = start + tl.arange(0, tile)
                    tl.store(best_x_ptr + i, tl.load(x_ptr + i, mask=i < variables), mask=i < variables)
        going = (taken < last) & (best > 0)
    tl.store(violated_ptr + row, violated)
    tl.store(best_ptr + row, best)
    tl.store(best_at_ptr + row, best_at)


class KernelChains:
    """Chains of several instances, one row each. Instances are padded to the largest; the lists of their pairs stand
    one behind the other."""

    def __init__(self, pairs: Sequence[Pairs], starts: Sequence[IntArray], key: int, device: torch.device):
        """A chain for each of the starts (chains, n) of each instance."""
        self.sizes, self.taken = [len(one.unary) for one in pairs], 0
        self.variables, self.width = (max(one.unary.shape[axis] for one in pairs) for axis in (0, 1))
        numbers = np.array([number for some in starts for number in range(len(some))], np.int64)  # of chains, by row
        self.instance = np.repeat(np.arange(len(pairs)), [len(some) for some in starts])
        x = np.zeros((len(numbers), self.variables), np.int32)
        for place, some in enumerate(starts):
            x[self.instance == place, : some.shape[1]] = some
        owner = np.concatenate([place * self.variables + one.owner for place, one in enumerate(pairs)])
        ends = np.searchsorted(owner, np.arange(len(pairs) * self.variables + 1))
        lists = map(np.concatenate, zip(*((one.other, *one.values.T) for one in pairs), strict=True))
        keys = [chain_key(number, key) for number in numbers.tolist()]
        arrays = (x, keys, self.instance, *lists, ends)
        self.x, self.key, self.instances, *self.lists = (
            torch.from_numpy(np.asarray(array, np.int32)).to(device) for array in arrays
        )
        self.costs = self._costs(pairs, torch.from_numpy(owner).to(device), torch.from_numpy(numbers).to(device))
        own = self.costs.gather(2, self.x[..., None].long())[..., 0]
        self.violated = own.sum(1, dtype=torch.int32) // 2  # a pair is counted at both ends
        self.open_from, self.best_at = torch.zeros_like(self.costs), torch.zeros_like(self.violated)
        self.best_x, self.best = self.x.clone(), self.violated.clone()

    def _costs(self, pairs: Sequence[Pairs], owner: torch.Tensor, numbers: torch.Tensor) -> torch.Tensor:
        """What each value of each variable violates in each row, (rows, N, K). All instances at a time, one chain of
        each: instances that have no such chain are left alone."""
        alone = np.full((len(pairs), self.variables, self.width), tabu_chain.FORBIDDEN, np.int32)
        alone[:, :, 0] = 0  # where padding stays
        for place, one in enumerate(pairs):
            size, width = one.unary.shape
            alone[place, :size, 0], alone[place, :size, :width] = tabu_chain.FORBIDDEN, one.unary
        base, (other, mine, theirs, _) = torch.from_numpy(alone).to(owner.device), self.lists
        costs, first = base[self.instances.long()], owner // self.variables * self.variables
        for number in numbers.unique():
            rows = (numbers == number).nonzero()[:, 0]
            x = self.x.new_zeros(len(pairs), self.variables)
            x[self.instances[rows].long()] = self.x[rows]
            there = x.flatten()[first + other]
            hit = ((mine < 0) | (theirs == there)).int()
            cells = owner * self.width + torch.where(mine < 0, there, mine)
            found = base.flatten().scatter_add(0, cells, hit).view_as(base)
            costs[rows] = found[self.instances[rows].long()]
        return costs

    def take(self, steps: int) -> None:
        values = triton.next_power_of_2(self.width)
        tile = min(triton.next_power_of_2(self.variables), max(1, CELLS // values))
        _tabu_kernel[(len(self.x),)](
            *self.lists, self.instances,
            self.x, self.open_from, self.costs, self.best_x, self.violated, self.best, self.best_at, self.key,
            self.taken, steps, self.variables,
            width=self.width, values=values, tile=tile, neighbours=NEIGHBOURS, num_warps=WARPS,
        )  # fmt: skip
        self.taken += steps

    def _winners(self) -> npt.NDArray[np.intp]:
        """The best row of each instance; of equals the one that was there first, so that it does not matter how long
        others went on."""
        order = np.lexsort((self.best_at.cpu().numpy(), self.best.cpu().numpy(), self.instance))
        winners: npt.NDArray[np.intp] = order[np.searchsorted(self.instance[order], np.arange(len(self.sizes)))]
        return winners

    def done(self) -> bool:
        """Whether every instance has a chain in which nothing was violated."""
        return not self.best.cpu().numpy()[self._winners()].any()

    def answers(self) -> list[IntArray]:
        rows = self.best_x.cpu().numpy()[self._winners()].astype(np.int64)
        return [row[:size] for row, size in zip(rows, self.sizes, strict=True)]
