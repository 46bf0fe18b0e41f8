"""Many sweeps of annealing in one launch. A program stays with its chain, whose x is in the first-level cache.

Programs share nothing. A program takes the variables of one colour in tiles. Its threads wait for each other after each
tile, before they read what others have changed.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
import triton
import triton.language as tl
from torch import Tensor

from blogdit.finishers import landscape
from blogdit.finishers.base import Deadline
from blogdit.finishers.landscape import STILL, Landscape, levels, steps_of
from blogdit.network.kernels.streams import mix

WIDEST = 512  # variables of a tile: one for each thread of 16 warps
SLOTS = 32  # neighbours of each variable that are looked at in one go
NARROW_CELLS = 1024  # variables times neighbours in one go, if a tile has fewer than 32 variables (dense graphs)
LAUNCH = 1 << 25  # neighbours that each program looks at in a launch: hundredths of a second
FINE: tl.constexpr = tl.constexpr(landscape.FINE)


# No versions of their own for sizes of 1 and multiples of 16.
@triton.jit(do_not_specialize=["sweep", "count", "sweeps", "steps", "still", "variables", "tiles", "instances"])
def _anneal_kernel(
    table_ptr, start_ptr, depth_ptr, member_ptr, drive_ptr, unit_ptr, level_ptr, x_ptr, begin_ptr, end_ptr, salt_ptr,
    sweep, count, sweeps, steps, still, variables, tiles, instances,
    shift: tl.constexpr, width: tl.constexpr, slots: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    x_ptr += row * variables
    tile_of = (row % instances) * tiles
    unit = tl.load(unit_ptr + row % instances)  # int64
    begin, end = tl.load(begin_ptr + row), tl.load(end_ptr + row)
    salt = tl.load(salt_ptr + row).to(tl.uint32, bitcast=True)
    i, d = tl.arange(0, width), tl.arange(0, slots)
    for _ in range(count):
        temperature = begin - (begin - end) * (sweep // steps * steps) // sweeps
        temperature = tl.where(sweep < still, temperature, 0)
        key = mix(sweep.to(tl.uint32) * 0x9E3779B1 + salt)
        sweep += 1
        for number in range(tiles):
            tile = tile_of + number
            start, depth = tl.load(start_ptr + tile), tl.load(depth_ptr + tile)
            member = tl.load(member_ptr + tile * width + i)
            drive = tl.load(drive_ptr + tile * width + i)
            for slot in range(0, depth, slots):
                at = start + (slot + d[:, None]) * width + i[None, :]
                entry = tl.load(table_ptr + at, mask=slot + d[:, None] < depth, other=0)
                near = tl.load(x_ptr + (entry & ((1 << shift) - 1)))
                drive += tl.sum(tl.where(near == 1, entry >> shift, 0).to(tl.int32), 0)
            here = member >= 0
            own = tl.load(x_ptr + member, mask=here, other=0)
            draw = mix((member.to(tl.uint32) * 0x5BD1E995) ^ key) >> 20
            level = tl.load(level_ptr + draw.to(tl.int32))
            cost = tl.where(own == 0, drive, -drive).to(tl.int64)
            tl.store(x_ptr + member, 1 - own, mask=here & (cost * (FINE * unit) <= level * temperature))
            tl.debug_barrier()


class KernelSweeps:
    """The variables of instances in tiles of one colour. Each tile has a table (depth, width) of neighbours: J in the
    upper bits of an entry, the variable in the lower ones."""

    def __init__(self, lands: Sequence[Landscape], device: torch.device):
        sizes = [len(members) for land in lands for members in land.colours] or [1]
        self.width = min(triton.next_power_of_2(int(np.mean(sizes))), WIDEST)
        cut = [
            [colour[at : at + self.width] for colour in land.colours for at in range(0, len(colour), self.width)]
            for land in lands
        ]
        self.tiles = max(1, *(len(groups) for groups in cut))
        deepest = max(int(np.diff(land.links.starts).max(initial=1)) for land in lands)
        self.slots = min(triton.next_power_of_2(max(deepest, 1)), max(SLOTS, NARROW_CELLS // self.width))
        self.warps = self.width // 32 or min(max(self.width * self.slots // 256, 1), 4)
        largest = max(int(np.abs(one.links.pull).max(initial=0)) for one in lands)
        variables = max(one.size for one in lands)
        self.shift = 16 if variables <= 1 << 16 and largest < 1 << 15 else 32
        shape = (len(lands), self.tiles)
        start, depth = np.zeros(shape, np.int64), np.zeros(shape, np.int32)
        member, drive = np.full((*shape, self.width), -1, np.int32), np.zeros((*shape, self.width), np.int32)
        tables, filled = [np.zeros(self.width, np.int64)], self.width
        for place, (one, groups) in enumerate(zip(lands, cut, strict=True)):
            for number, members in enumerate(groups):
                at = place, number
                table = self._table(one, members)
                start[at], depth[at] = filled, len(table)
                member[at][: len(members)], drive[at][: len(members)] = members, one.drive[members]
                tables.append(table.reshape(-1))
                filled += table.size
        packed = np.concatenate(tables).astype(np.int32 if self.shift == 16 else np.int64)
        units = np.array([one.unit for one in lands], np.int64)
        arrays = (packed, start, depth, member, drive, units, levels())
        self.arrays = [torch.from_numpy(array).to(device) for array in arrays]
        looks = ((depth + 1) * self.width).sum(1).max()
        self.launch = max(LAUNCH // int(looks), 1)  # sweeps

    def _table(self, land: Landscape, members: npt.NDArray[np.intp]) -> npt.NDArray[np.int64]:
        """(depth, width)"""
        starts, others, pulls = land.links
        degree = np.diff(starts)[members]
        slot = np.arange(degree.max(initial=0))[:, None]
        there = slot < degree
        at = (starts[members] + slot)[there]
        table = np.zeros((len(slot), self.width), np.int64)
        table[:, : len(members)][there] = (pulls[at].astype(np.int64) << self.shift) | others[at]
        return table

    def anneal(self, x: Tensor, begin: Tensor, end: Tensor, salt: Tensor, sweeps: int, deadline: Deadline) -> Tensor:
        x, begin, end, salt = x.clone(), begin.contiguous(), end.contiguous(), salt.contiguous()
        chains, size, variables = x.shape
        steps, still = steps_of(sweeps), max(sweeps - STILL, 0)
        for first in range(0, sweeps, self.launch):
            if deadline.passed():
                break
            _anneal_kernel[(chains * size,)](
                *self.arrays, x, begin, end, salt,
                first, min(self.launch, sweeps - first), sweeps, steps, still, variables, self.tiles, size,
                shift=self.shift, width=self.width, slots=self.slots, num_warps=self.warps,
            )  # fmt: skip
            if x.is_cuda:
                torch.cuda.synchronize()  # the clock is that of sweeps that are done
        return x
