"""Moves of `walk.Walk` on a CPU for variables with two values, in numpy.

The energy of x in {0, 1}^n is quadratic, so all that a walk needs to know of its neighbours is

    drive_i = cost of x_i = 1 less cost of x_i = 0 = h_i + sum_j J_ij x_j,

and flipping x_j adds J_ij or -J_ij. `pulls` has J; `flip_kernel` does the same on a GPU. Every number is that of
`Walk.move`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from blogdit.noise import mix, wrap

if TYPE_CHECKING:
    from blogdit.walk import Terms, Walk

NEVER = 1 << 30  # what a value costs that a variable cannot take
CLOSED = 6, 10  # of ten variables in violated pairs six: for so many moves `repair` closes a value that was left
Int32 = npt.NDArray[np.int32]


def pulls(terms: Terms) -> Tensor:
    """What x_j = 1 instead of 0 adds to the drive of variable i, for all of its neighbours (B, N, D): "both the same"
    costs w more at 1 and w less at 0; other terms have a sign for each end."""
    return torch.where(terms.own < 0, 2 * terms.weight, terms.weight * (2 * terms.own - 1) * (2 * terms.theirs - 1))


class Couplings(NamedTuple):
    """The neighbours of each variable i, each once, with J: those from starts[i] to starts[i + 1]."""

    starts: npt.NDArray[np.intp]
    other: npt.NDArray[np.intp]
    pull: Int32


def couplings(walk: Walk) -> list[Couplings]:
    """Of each instance of a walk."""
    pull, other, degree = (t.cpu().numpy() for t in (pulls(walk.terms), walk.terms.other, walk.terms.degree))
    found = []
    for place in range(walk.size):
        listed = np.arange(other.shape[2]) < degree[place][:, None]
        owner = np.repeat(np.arange(walk.variables), degree[place])
        keys, index = np.unique(owner * walk.variables + other[place][listed], return_inverse=True)
        total = np.zeros(len(keys), np.int32)
        np.add.at(total, index, pull[place][listed])
        starts = np.searchsorted(keys, walk.variables * np.arange(walk.variables + 1))
        found.append(Couplings(starts, (keys % walk.variables).astype(np.intp), total))
    return found


class Flips:
    """Takes the moves of a walk."""

    def __init__(self, walk: Walk):
        self.lists = [
            list(zip(np.split(one.other, one.starts[1:-1]), np.split(one.pull, one.starts[1:-1]), strict=True))
            for one in walk.links
        ]

    def take_moves(self, walk: Walk, moves: int) -> None:
        """As `moves` calls of walk.move(), but for walk.costs: those are left as they are, walk.drive is not."""
        assert walk.drive is not None
        x, rest, best_x, energy, best = (t.numpy() for t in (walk.x, walk.rest, walk.best_x, walk.energy, walk.best))
        nudge, pause = walk.nudge.numpy()[:, None], walk.pause.tolist()
        numbers = torch.arange(walk.taken + 1, walk.taken + moves + 1).mul_(wrap(0x9E3779B1)).int()
        keys = mix(numbers[:, None] + walk.salt).numpy()[..., None]  # (moves, rows, 1)
        jitter = ((keys[..., 0] >> 16 & 0xFFFF) % 10).tolist()
        codes = walk.order.numpy().reshape(-1, 2)  # of cells (variable, value)
        code = codes[np.arange(walk.variables), 1 - x]
        side = 1 - 2 * x
        change = walk.drive.numpy() * side  # the energy after flipping a variable, less that before it
        gap = np.maximum(best - energy, -NEVER).astype(np.int32)[:, None]
        score, resting, kept = np.empty_like(change), np.empty(x.shape, np.bool_), np.empty(x.shape, np.bool_)
        for number in range(moves):
            walk.taken += 1
            np.bitwise_xor(code, keys[number], out=score)
            np.multiply(score, 0x7FEB352D, out=score)
            np.right_shift(score, 16, out=score)
            np.bitwise_and(score, 0xFFFF, out=score)
            np.multiply(score, nudge, out=score)
            np.right_shift(score, 16, out=score)
            np.add(score, change, out=score)
            np.greater(rest, walk.taken, out=resting)
            np.greater_equal(change, gap, out=kept)
            np.logical_and(resting, kept, out=resting)
            np.copyto(score, NEVER, where=resting)
            for row, v in enumerate(score.argmin(1).tolist()):
                if score[row, v] >= NEVER // 2:
                    continue
                own, sides, change_of = int(side[row, v]), side[row], change[row]
                energy[row] += change_of[v]
                names, amounts = self.lists[row % walk.size][v]
                change_of[names] += amounts * sides[names] * own  # from 0, which has side 1, to 1, or back
                change_of[v] = -change_of[v]
                sides[v] = -own
                x[row, v] = new = (1 + own) // 2
                code[row, v] = codes[v, 1 - new]
                rest[row, v] = walk.taken + 1 + pause[row] + jitter[number][row]
                if energy[row] < best[row]:
                    best[row] = energy[row]
                    best_x[row] = x[row]
                gap[row] = max(best[row] - energy[row], -NEVER)
        walk.drive = torch.from_numpy(change * side)
