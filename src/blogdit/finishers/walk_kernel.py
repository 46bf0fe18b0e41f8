"""Many moves of `walk.Walk` in one launch: a program stays with its row, whose state it finds in the first-level cache.

Every number is that of `Walk.move` or, if it `repairs`, of `repair.Repair`: then variables of violated pairs move, and
values are closed instead of variables. Programs share nothing, threads of a program wait for each other twice a move:
before they change what all have read, and before they read what others have changed.
"""

from __future__ import annotations

import triton
import triton.language as tl

from blogdit.finishers import terms
from blogdit.finishers.rows import Rows
from blogdit.network.kernels.streams import mix

CELLS = 2048  # (variable, value) pairs that a program looks at in one go
NEIGHBOURS = 64
WARPS = 8
NEVER: tl.constexpr = tl.constexpr(terms.NEVER)
CLOSED: tl.constexpr = tl.constexpr(terms.CLOSED[0])
OF: tl.constexpr = tl.constexpr(terms.CLOSED[1])


@triton.jit
def order_of(cell, key):
    """Of cells (variable * width + value) whose scores are equal, 16 bits."""
    return (((cell.to(tl.uint32) * 0x5BD1E995) ^ key) * 0x7FEB352D >> 16).to(tl.int32)


@triton.jit
def _best_cell(
    costs_ptr, x_ptr, rest_ptr, variables, taken, below, key, nudge,
    width: tl.constexpr, values: tl.constexpr, tile: tl.constexpr, repairs: tl.constexpr,
):  # fmt: skip
    """The lowest score in the upper half of 64 bits, its cell (variable * width + value) in the lower half; and if it
    repairs, how many variables are in violated pairs."""
    k = tl.arange(0, values)[None, :]
    lowest = tl.full((tile, values), 0x7FFFFFFFFFFFFFFF, tl.int64)
    violated = tl.full((tile,), 0, tl.int32)
    for first in range(0, variables, tile):
        i = first + tl.arange(0, tile)
        cell, there = i[:, None] * width + k, (i < variables)[:, None] & (k < width)
        x = tl.load(x_ptr + i, mask=i < variables, other=0)[:, None]
        if repairs:
            rest = tl.load(rest_ptr + cell, mask=there, other=0)
        else:
            rest = tl.load(rest_ptr + i, mask=i < variables, other=0)[:, None]
        costs = tl.load(costs_ptr + cell, mask=there, other=0)
        own = tl.sum(tl.where(k == x, costs, 0), 1)
        change = costs - own[:, None]
        free = there & (k != x) & ((rest <= taken) | (change < below))
        if repairs:
            free = free & (own > 0)[:, None]
            violated += (own > 0).to(tl.int32)
        score = tl.where(free, change + ((order_of(cell, key) * nudge) >> 16), NEVER)
        lowest = tl.minimum(lowest, (score.to(tl.int64) << 32) | cell)
    return tl.min(lowest), tl.sum(violated)


@triton.jit
def _update_costs(
    costs_ptr, other_ptr, own_ptr, theirs_ptr, weight_ptr, degree, old, new,
    width: tl.constexpr, neighbours: tl.constexpr,
):  # fmt: skip
    """Of the neighbours of a variable that went from `old` to `new`. One may be in the list more than once."""
    for first in range(0, degree, neighbours):
        d = first + tl.arange(0, neighbours)
        here = d < degree
        other = tl.load(other_ptr + d, mask=here, other=0) * width
        own = tl.load(own_ptr + d, mask=here, other=0)
        theirs = tl.load(theirs_ptr + d, mask=here, other=0)
        weight = tl.load(weight_ptr + d, mask=here, other=0)
        same = own < 0
        before, after = other + tl.where(same, old, theirs), other + tl.where(same, new, theirs)
        tl.atomic_add(costs_ptr + before, -weight, mask=here & (same | (own == old)), sem="relaxed")
        tl.atomic_add(costs_ptr + after, weight, mask=here & (same | (own == new)), sem="relaxed")


# No versions of their own for sizes of 1 and multiples of 16.
@triton.jit(do_not_specialize=["taken", "moves", "variables", "instances", "depth"])
def _walk_kernel(
    other_ptr, own_ptr, theirs_ptr, weight_ptr, count_ptr,
    x_ptr, rest_ptr, costs_ptr, best_x_ptr, energy_ptr, best_ptr, when_ptr, salt_ptr, nudge_ptr, pause_ptr,
    taken, moves, variables, instances, depth,
    width: tl.constexpr, values: tl.constexpr, tile: tl.constexpr, neighbours: tl.constexpr, repairs: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    first = (row % instances) * variables
    x_ptr, best_x_ptr = x_ptr + row * variables, best_x_ptr + row * variables
    costs_ptr, rest_ptr = costs_ptr + row * variables * width, rest_ptr + row * variables * (width if repairs else 1)
    energy, best, when = tl.load(energy_ptr + row), tl.load(best_ptr + row), tl.load(when_ptr + row)
    salt = tl.load(salt_ptr + row).to(tl.uint32, bitcast=True)
    nudge, pause = tl.load(nudge_ptr + row), tl.load(pause_ptr + row)
    last = taken + moves
    going = taken < last
    while going:
        taken += 1
        key = mix(taken.to(tl.uint32) * 0x9E3779B1 + salt)
        below = tl.maximum(best - energy, -NEVER).to(tl.int32)
        pick, violated = _best_cell(
            costs_ptr, x_ptr, rest_ptr, variables, taken, below, key, nudge, width, values, tile, repairs
        )
        cell = (pick & 0xFFFFFFFF).to(tl.int32)
        if (pick >> 32) < NEVER // 2:
            variable, new = cell // width, cell % width
            old = tl.load(x_ptr + variable)
            energy += tl.load(costs_ptr + cell) - tl.load(costs_ptr + variable * width + old)
            tl.debug_barrier()
            tl.store(x_ptr + variable, new)
            jitter = ((key >> 16) % 10).to(tl.int32)
            if repairs:
                tl.store(rest_ptr + variable * width + old, taken + 1 + CLOSED * violated // OF + jitter)
            else:
                tl.store(rest_ptr + variable, taken + 1 + pause + jitter)
            at = (first + variable) * depth
            degree = tl.load(count_ptr + first + variable)
            _update_costs(
                costs_ptr, other_ptr + at, own_ptr + at, theirs_ptr + at, weight_ptr + at, degree, old, new,
                width, neighbours,
            )  # fmt: skip
            tl.debug_barrier()
            if energy < best:
                best, when = energy, taken
                for start in range(0, variables, tile):
                    i = start + tl.arange(0, tile)
                    tl.store(best_x_ptr + i, tl.load(x_ptr + i, mask=i < variables), mask=i < variables)
        going = taken < last
        if repairs:
            going = going & (best > 0)  # where nothing is violated nothing moves
    tl.store(energy_ptr + row, energy)
    tl.store(best_ptr + row, best)
    tl.store(when_ptr + row, when)


def take_moves(rows: Rows, moves: int, repairs: bool = False) -> None:
    """As `moves` calls of walk.move(), or moves of a Repair."""
    values = triton.next_power_of_2(rows.width)
    tile = min(triton.next_power_of_2(rows.variables), max(1, CELLS // values))
    _walk_kernel[(len(rows.x),)](
        *rows.tables,
        rows.x, rows.rest, rows.costs, rows.best_x, rows.energy, rows.best, rows.when,
        rows.salt, rows.nudge, rows.pause,
        rows.taken, moves, rows.variables, rows.size, rows.tables.other.shape[2],
        width=rows.width, values=values, tile=tile, neighbours=NEIGHBOURS, repairs=repairs, num_warps=WARPS,
    )  # fmt: skip
    rows.taken += moves
