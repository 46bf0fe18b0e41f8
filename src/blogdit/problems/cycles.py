"""Cycle switches: a move that turns one Latin square, or one full Sudoku grid, into another.

Two rows hold the same symbols, so "below this symbol stands that symbol" is a permutation. Take one of its cycles and
swap the two rows in the columns of that cycle: both rows still hold every symbol once, and every column holds what it
held. In a Sudoku the rows must also lie in one band, so that boxes keep what they hold.

A move has the same chance as the move back. So a chain of such moves has the uniform distribution as a fixed point.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from blogdit.core.constraints import IntArray

Squares = npt.NDArray[np.intp]  # (squares, rows, columns), symbols 0 .. columns - 1


def switch_rows(squares: Squares, band: int, rng: np.random.Generator) -> Squares:
    """Pair the rows of each band of `band` rows at random; switch each cycle of each pair with probability 1/2.

    The pairs share no row, so all switches hold at the same time: about half of all cells change.
    """
    count, side, _ = squares.shape
    order = np.argsort(rng.random((count, side // band, band)), axis=2) + np.arange(0, side, band)[:, None]
    first = order[:, :, : band // 2].reshape(count, -1, 1)
    second = order[:, :, band // 2 : band // 2 * 2].reshape(count, -1, 1)
    above, below = np.take_along_axis(squares, first, 1), np.take_along_axis(squares, second, 1)
    chosen = rng.random(above.shape) < 0.5  # by the name of a cycle, which is one of its symbols
    switched = np.take_along_axis(np.take_along_axis(chosen, cycle_names(above, below), 2), above, 2)
    result = squares.copy()
    np.put_along_axis(result, first, np.where(switched, below, above), 1)
    np.put_along_axis(result, second, np.where(switched, above, below), 1)
    return result


def cycle_names(above: Squares, below: Squares) -> IntArray:
    """For each symbol the smallest symbol of its cycle, for pairs of rows (..., columns)."""
    names = np.broadcast_to(np.arange(above.shape[-1]), above.shape).copy()
    ahead = np.empty_like(above)
    np.put_along_axis(ahead, above, below, -1)  # ahead[a] = b where b stands below a
    reach = 1
    while reach < above.shape[-1]:  # after each round a name is the smallest of the next 2 * reach symbols
        names = np.minimum(names, np.take_along_axis(names, ahead, -1))
        ahead = np.take_along_axis(ahead, ahead, -1)
        reach *= 2
    return names
