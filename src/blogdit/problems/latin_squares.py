"""Many random Latin squares in lockstep, and which of their cells to open."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from blogdit.core.constraints import IntArray
from blogdit.problems.cycles import Squares, switch_rows

Flags = npt.NDArray[np.bool_]

NEXT, LAST = [1, 2, 0], [2, 0, 1]
LOCKSTEP = 1 << 18  # cells worked on together: many enough for speed, few enough for memory
VISITS = 8  # of proper squares, by the moves of Jacobson and Matthews
# Of cycle switches: rows, columns and symbols four times each. At orders 11 and 31 the mean numbers of cycles, also of
# those of two symbols, are then those after 360 and 1,000 visits. No more cells than by chance are as in the beginning.
ROUNDS = 12


def random_squares(count: int, order: int, rng: np.random.Generator) -> Squares:
    """Well mixed Latin squares (count, order, order).

    Two kinds of moves work together, and both have the uniform distribution as a fixed point. The moves of Jacobson
    and Matthews lead from any square to any other, but each changes only a few cells: alone they need about order^3
    moves. Cycle switches of all rows at once change half of all cells, but alone they cannot leave some squares: in
    the cyclic square of a prime order every pair of rows, columns or symbols has a single cycle.
    """
    cyclic = np.add.outer(np.arange(order), np.arange(order)) % order
    result = np.empty((count, order, order), np.intp)
    together = max(1, LOCKSTEP // order**2)
    for start in range(0, count, together):
        some = result[start : start + together]
        squares = jacobson_matthews(np.broadcast_to(cyclic, some.shape), VISITS, rng)
        for _ in range(ROUNDS):
            squares = turn(switch_rows(squares, order, rng))
        some[:] = squares
    return result


def turn(squares: Squares) -> Squares:
    """The square with other roles: columns become rows, symbols become columns, rows become symbols."""
    count, order, _ = squares.shape
    turned = np.empty_like(squares)
    rows = np.broadcast_to(np.arange(order), (count, order, order))
    np.put_along_axis(turned, squares.transpose(0, 2, 1), rows, 2)
    return turned


def jacobson_matthews(squares: Squares, visits: int, rng: np.random.Generator) -> Squares:
    """Moves of each square through the space of proper and improper squares, until it has come to a proper one
    `visits` times.

    A square is a cube of numbers x[row, column, symbol] whose lines all sum to 1. It is proper if all numbers are 0
    or 1, and improper if a single one is -1. A move adds 1 and -1 in turn to the eight corners of a small cube. Its
    first corner is a 0 of a proper square, or the -1 of an improper one; the sides lead to a 1 in each of the three
    lines through that corner. The last corner becomes -1 if it was 0.

    For each line we keep only the sum of the places of its ones (minus the place of its -1): this is the place of
    the 1 in most lines. A line through a -1 has two ones. One of them is known from the move before, so the sum
    tells the other.
    """
    count, order, _ = squares.shape
    if order == 1:
        return squares.copy()
    # In part k, line (x_k, x_k+1) holds the place x_k+2; x is (row, column, symbol), counted round.
    sums = np.stack([squares, turn(squares), turn(turn(squares))], axis=1).reshape(-1)
    parts = np.arange(3)[:, None] * order**2 + np.arange(count) * 3 * order**2  # (3, squares): where they begin
    corner, known = np.zeros((2, 3, count), np.intp)  # the -1 of an improper square, and what is known of its ones
    proper = np.ones(count, np.bool_)
    left = np.full(count, visits)
    while len(moving := np.flatnonzero(left)):
        state = corner[:, moving], known[:, moving], proper[moving]
        corner[:, moving], known[:, moving], proper[moving] = _move(sums, parts[:, moving], order, *state, rng)
        left[moving] -= proper[moving]
    return sums.reshape(count, 3, order, order)[:, 0].copy()


def _move(
    sums: IntArray,
    parts: IntArray,
    order: int,
    corner: IntArray,
    known: IntArray,
    proper: Flags,
    rng: np.random.Generator,
) -> tuple[IntArray, IntArray, Flags]:
    """One move of each square, on `sums` in place. Returns the next corners, what is known, and who is proper."""
    row, column = rng.integers(0, order, size=(2, len(proper)))
    other_symbol = (sums[parts[0] + row * order + column] + rng.integers(1, order, size=len(proper))) % order
    corner = np.where(proper, np.stack([row, column, other_symbol]), corner)
    lines = parts + corner * order + corner[NEXT]
    ones = sums[lines][NEXT]  # of part k + 1: the place x_k
    second = rng.random(corner.shape) < 0.5
    opposite = np.where(proper, ones, np.where(second, ones + corner - known, known))
    ends = np.stack([corner, opposite])  # (2, 3, squares)
    lines = (parts + ends * order)[:, None] + ends[None][:, :, NEXT]  # (2, 2, 3, squares)
    was_one = sums[lines[1, 1, 0]] == opposite[2]
    change = (corner - opposite)[LAST]
    sums[lines] += np.stack([change, -change, -change, change]).reshape(lines.shape)
    return opposite, corner, was_one


def balanced_holes(squares: Squares, holes: int, rng: np.random.Generator) -> Flags:
    """Which cells to open, `holes` in each square, of which rows and columns have equal numbers or differ by one.

    `squares` are random Latin squares. The cells of one symbol are one in each row and column, so whole symbols are
    opened, and of one more symbol as many cells as are still missing.
    """
    count, order, _ = squares.shape
    whole, rest = divmod(holes, order)
    some_rows = rng.permuted(np.tile(np.arange(order) < rest, (count, 1)), axis=1)
    return (squares < whole) | ((squares == whole) & some_rows[:, :, None])


def random_holes(count: int, order: int, holes: int, rng: np.random.Generator) -> Flags:
    """Which cells to open, `holes` anywhere in each square."""
    cells = np.tile(np.arange(order**2) < holes, (count, 1))
    return rng.permuted(cells, axis=1).reshape(count, order, order)
