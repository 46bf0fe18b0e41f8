"""Moves of `walk.Walk` on a CPU for variables with two values, in numpy: a flip adds its pulls to the drives of its
neighbours (see `terms`). Every number is that of `Walk.move`; `flip_kernel` does the same on a GPU.
"""

from __future__ import annotations

import numpy as np
import torch

from blogdit.finishers.rows import Rows
from blogdit.finishers.terms import NEVER
from blogdit.method.noise import mix, wrap


class Flips:
    """Takes the moves of a walk."""

    def __init__(self, rows: Rows):
        self.lists = [
            list(zip(np.split(one.other, one.starts[1:-1]), np.split(one.pull, one.starts[1:-1]), strict=True))
            for one in rows.links
        ]

    def take_moves(self, rows: Rows, moves: int) -> None:
        """As `moves` calls of walk.move(), but for rows.costs: those are left as they are, rows.drive is not."""
        assert rows.drive is not None
        x, rest, best_x, energy, best = (t.numpy() for t in (rows.x, rows.rest, rows.best_x, rows.energy, rows.best))
        nudge, pause = rows.nudge.numpy()[:, None], rows.pause.tolist()
        numbers = torch.arange(rows.taken + 1, rows.taken + moves + 1).mul_(wrap(0x9E3779B1)).int()
        keys = mix(numbers[:, None] + rows.salt).numpy()[..., None]  # (moves, rows, 1)
        jitter = ((keys[..., 0] >> 16 & 0xFFFF) % 10).tolist()
        codes = rows.order.numpy().reshape(-1, 2)  # of cells (variable, value)
        code = codes[np.arange(rows.variables), 1 - x]
        side = 1 - 2 * x
        change = rows.drive.numpy() * side  # the energy after flipping a variable, less that before it
        gap = np.maximum(best - energy, -NEVER).astype(np.int32)[:, None]
        score, resting, kept = np.empty_like(change), np.empty(x.shape, np.bool_), np.empty(x.shape, np.bool_)
        for number in range(moves):
            rows.taken += 1
            np.bitwise_xor(code, keys[number], out=score)
            np.multiply(score, 0x7FEB352D, out=score)
            np.right_shift(score, 16, out=score)
            np.bitwise_and(score, 0xFFFF, out=score)
            np.multiply(score, nudge, out=score)
            np.right_shift(score, 16, out=score)
            np.add(score, change, out=score)
            np.greater(rest, rows.taken, out=resting)
            np.greater_equal(change, gap, out=kept)
            np.logical_and(resting, kept, out=resting)
            np.copyto(score, NEVER, where=resting)
            for row, v in enumerate(score.argmin(1).tolist()):
                if score[row, v] >= NEVER // 2:
                    continue
                own, sides, change_of = int(side[row, v]), side[row], change[row]
                energy[row] += change_of[v]
                names, amounts = self.lists[row % rows.size][v]
                change_of[names] += amounts * sides[names] * own  # from 0, which has side 1, to 1, or back
                change_of[v] = -change_of[v]
                sides[v] = -own
                x[row, v] = new = (1 + own) // 2
                code[row, v] = codes[v, 1 - new]
                rest[row, v] = rows.taken + 1 + pause[row] + jitter[number][row]
                if energy[row] < best[row]:
                    best[row] = energy[row]
                    best_x[row] = x[row]
                gap[row] = max(best[row] - energy[row], -NEVER)
        rows.drive = torch.from_numpy(change * side)
