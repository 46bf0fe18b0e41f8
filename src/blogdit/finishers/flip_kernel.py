"""Moves of `walk.Walk` for variables with two values and up to MOST_VARIABLES of them: a chain lives in registers.

As in `flips`, but a program keeps drive, x, rest and the best x of one row in registers and reads one row of J for each
move; programs share nothing. Every number is that of `Walk.move`.
"""

from __future__ import annotations

import numpy as np
import torch
import triton
import triton.language as tl

from blogdit.finishers.rows import Rows
from blogdit.finishers.terms import pulls
from blogdit.finishers.walk_kernel import NEVER, order_of
from blogdit.network.kernels.streams import mix

MOST_VARIABLES = 4096


# No versions of their own for sizes of 1 and multiples of 16.
@triton.jit(do_not_specialize=["taken", "moves", "variables", "instances"])
def _flip_kernel(
    table_ptr, unit_ptr, drive_ptr, x_ptr, rest_ptr, best_x_ptr, energy_ptr, best_ptr, salt_ptr, nudge_ptr, pause_ptr,
    taken, moves, variables, instances, stride, block: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    i = tl.arange(0, block)
    here, at = i < variables, row * variables + i
    table_ptr += (row % instances) * variables * stride
    unit = tl.load(unit_ptr + row % instances)
    drive = tl.load(drive_ptr + at, mask=here, other=0)
    x, rest = tl.load(x_ptr + at, mask=here, other=0), tl.load(rest_ptr + at, mask=here, other=0)
    best_x = tl.load(best_x_ptr + at, mask=here, other=0)
    energy, best = tl.load(energy_ptr + row), tl.load(best_ptr + row)
    salt = tl.load(salt_ptr + row).to(tl.uint32, bitcast=True)
    nudge, pause = tl.load(nudge_ptr + row), tl.load(pause_ptr + row)
    for _ in range(moves):
        taken += 1
        key = mix(taken.to(tl.uint32) * 0x9E3779B1 + salt)
        below = tl.maximum(best - energy, -NEVER).to(tl.int32)
        change, cell = tl.where(x == 0, drive, -drive), i * 2 + 1 - x
        free = here & ((rest <= taken) | (change < below))
        score = tl.where(free, change + ((order_of(cell, key) * nudge) >> 16), NEVER)
        pick = tl.min((score.to(tl.int64) << 32) | cell, 0)  # the lowest score, and of equals the lowest cell
        lowest, chosen = (pick >> 32).to(tl.int32), (pick & 0xFFFFFFFF).to(tl.int32)
        if lowest < NEVER // 2:
            variable, new = chosen >> 1, chosen & 1
            energy += lowest - ((order_of(chosen, key) * nudge) >> 16)
            pull = tl.load(table_ptr + variable.to(tl.int64) * stride + i, mask=here, other=0).to(tl.int32) * unit
            drive += pull * (2 * new - 1)
            x = tl.where(i == variable, new, x)
            rest = tl.where(i == variable, taken + 1 + pause + ((key >> 16) % 10).to(tl.int32), rest)
            if energy < best:
                best = energy
                best_x = x
    tl.store(drive_ptr + at, drive, mask=here)
    tl.store(x_ptr + at, x, mask=here)
    tl.store(rest_ptr + at, rest, mask=here)
    tl.store(best_x_ptr + at, best_x, mask=here)
    tl.store(energy_ptr + row, energy)
    tl.store(best_ptr + row, best)


class RegisterFlips:
    """J of each instance of a walk, (B, N, stride), as multiples of a unit, in as few bits as they need."""

    def __init__(self, rows: Rows):
        other = rows.tables.other
        stride = -(-rows.variables // 16) * 16
        table = torch.zeros(*other.shape[:2], stride, dtype=torch.int32, device=other.device)
        table.scatter_add_(2, other.long(), pulls(rows.tables))
        units = [max(int(np.gcd.reduce(one.unique().cpu().numpy())), 1) for one in table]
        self.unit = torch.tensor(units, dtype=torch.int32, device=other.device)
        table //= self.unit[:, None, None]
        largest = int(table.abs().max()) if table.numel() else 0
        kind = torch.int8 if largest < 1 << 7 else torch.int16 if largest < 1 << 15 else torch.int32
        self.table = table.to(kind)

    def take_moves(self, rows: Rows, moves: int) -> None:
        """As `moves` calls of walk.move(), but for rows.costs: those are left as they are, rows.drive is not."""
        block = max(triton.next_power_of_2(rows.variables), 32)
        _flip_kernel[(len(rows.x),)](
            self.table, self.unit, rows.drive, rows.x, rows.rest, rows.best_x, rows.energy, rows.best,
            rows.salt, rows.nudge, rows.pause, rows.taken, moves, rows.variables, rows.size, self.table.shape[2],
            block=block, num_warps=min(max(block // 256, 1), 16),
        )  # fmt: skip
        rows.taken += moves
