"""Many Sudoku boards in lockstep: full grids at random, and puzzles dug out of them with one solution each.

A set of B boards is an array (cells, B) of bitmasks, bit d set while digit d + 1 is possible in the cell. Boards are
the last axis so that every operation runs over contiguous memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from blogdit.core.constraints import IntArray
from blogdit.problems.cycles import switch_rows

Masks = npt.NDArray[np.uint32]  # (cells, boards)
Flags = npt.NDArray[np.bool_]
Kind = Literal["any", "unique", "minimal"]  # any number of solutions; one; one, and more without any of the givens

LOCKSTEP = 1024  # boards worked on together: a working set that stays in a core's cache
LARGEST_GUESSED = 3  # box: guessing a grid takes 1 ms for 9x9, 15 ms for 16x16, 3 s for 25x25; mixing takes 1 to 4 ms
SWITCHES = 64  # of cycles of rows and of columns in turn, twice as many as are needed; see `_mixed_grids`
# Of one board at a time, before the exact search gives up on it; the key is the box size. More branches make harder
# puzzles: 16x16 ones with 107 givens need 135 nodes of a search tree in the median if dug with 64, and 24 with 1.
MOST_BRANCHES = {2: 64, 3: 64, 4: 64, 5: 16}
NO_LIMIT = 1 << 62  # of branches
MOST_FRUITLESS = 500  # attempts in a row at puzzles with too few givens


@dataclass(frozen=True)
class Layout:
    """Which cells form the rows, columns and boxes of a board whose boxes are box x box cells."""

    box: int
    houses: IntArray  # (3 * digits, digits): cells of each row, column, box
    houses_of: IntArray  # (cells, 3): row, column and box of each cell, as indices into `houses`

    @property
    def digits(self) -> int:
        return self.box**2

    @property
    def cells(self) -> int:
        return self.box**4

    @property
    def full(self) -> int:
        return (1 << self.digits) - 1


@cache
def layout(box: int) -> Layout:
    digits = box**2
    row, column = np.divmod(np.arange(digits**2), digits)
    house = np.stack([row, column, row // box * box + column // box], axis=1)
    houses = np.concatenate([np.argsort(house[:, kind], kind="stable").reshape(digits, digits) for kind in range(3)])
    return Layout(box, houses, house + digits * np.arange(3))


def is_single(masks: npt.NDArray[Any]) -> Flags:
    return (masks != 0) & ((masks & (masks - 1)) == 0)


def propagate(boards: Masks, rules: Layout) -> tuple[Masks, Flags]:
    """Naked and hidden singles until nothing changes. Returns the boards and which of them have no contradiction.

    A contradiction is a proof that the board has no solution; no contradiction with single candidates everywhere
    is a solution.
    """
    result = boards.copy()
    possible = np.ones(boards.shape[1], np.bool_)
    where = np.arange(boards.shape[1])  # the columns of `result` still worked on
    while len(where):
        boards, alive = _sweep(boards, rules)
        changed = alive & (boards != result[:, where]).any(axis=0)
        result[:, where] = boards
        possible[where] = alive
        where, boards = where[changed], boards[:, changed]
    return result, possible


def _sweep(boards: Masks, rules: Layout) -> tuple[Masks, Flags]:
    """One round of both rules over all boards, and which boards show no contradiction."""
    row, column, box = rules.houses_of.T
    singles = np.where(is_single(boards), boards, np.uint32(0))
    taken = np.zeros((len(rules.houses), boards.shape[1]), np.uint32)
    twice = np.zeros_like(taken)
    for cells in rules.houses.T:  # the i-th cell of every house
        digit = singles[cells]
        twice |= taken & digit
        taken |= digit
    alive = ~twice.any(axis=0)
    boards = np.where(singles != 0, boards, boards & ~(taken[row] | taken[column] | taken[box]))

    seen = np.zeros_like(taken)
    twice = np.zeros_like(taken)
    for cells in rules.houses.T:
        candidates = boards[cells]
        twice |= seen & candidates
        seen |= candidates
    alive &= (seen == rules.full).all(axis=0)  # each digit has a place in each house
    only_here = seen & ~twice
    hidden = boards & (only_here[row] | only_here[column] | only_here[box])
    boards = np.where(hidden != 0, hidden, boards)
    alive &= ((hidden & (hidden - 1)) == 0).all(axis=0)  # no cell is the only place of two digits
    return boards, alive


def may_have_solution(boards: Masks, rules: Layout, most_branches: int) -> Flags:
    """False only where it is proved that the board has no solution.

    Breadth first over branches on the cell with the fewest candidates; a board with more than `most_branches` open
    branches is given up (True).
    """
    answer = np.zeros(boards.shape[1], np.bool_)
    owner = np.arange(boards.shape[1])
    while len(owner):
        boards, possible = propagate(boards, rules)
        answer[owner[possible & is_single(boards).all(axis=0)]] = True
        open_branches = np.bincount(owner[possible], minlength=len(answer))
        answer |= open_branches > most_branches
        kept = possible & ~answer[owner]
        boards, owner = boards[:, kept], owner[kept]
        if len(owner):
            boards, owner = _branch(boards, owner)
    return answer


def _branch(boards: Masks, owner: IntArray) -> tuple[Masks, IntArray]:
    """Two boards from each: its most constrained cell takes its lowest candidate, or anything else."""
    number = np.bitwise_count(boards)
    cell = np.where(number > 1, number, 255).argmin(axis=0)
    column = np.arange(boards.shape[1])
    mask = boards[cell, column]
    lowest = mask & (~mask + np.uint32(1))
    first, rest = boards.copy(), boards.copy()
    first[cell, column], rest[cell, column] = lowest, mask & ~lowest
    return np.concatenate([first, rest], axis=1), np.concatenate([owner, owner])


def random_grids(count: int, rules: Layout, rng: np.random.Generator) -> IntArray:
    """Complete grids (count, cells) of values 0 .. digits - 1."""
    return (_guessed_grids if rules.box <= LARGEST_GUESSED else _mixed_grids)(count, rules, rng)


def _guessed_grids(count: int, rules: Layout, rng: np.random.Generator) -> IntArray:
    """Guess, propagate, start again on a contradiction."""
    boards = np.full((rules.cells, count), rules.full, np.uint32)
    unfinished = np.arange(count)
    while len(unfinished):
        current = _guess(boards[:, unfinished], rng)
        current, possible = propagate(current, rules)
        current[:, ~possible] = rules.full
        boards[:, unfinished] = current
        unfinished = unfinished[~is_single(current).all(axis=0)]
    return digit_of(boards).T


def _mixed_grids(count: int, rules: Layout, rng: np.random.Generator) -> IntArray:
    """Cycle switches within bands and stacks, from a grid that is known; then digits, bands and stacks in any order.

    Two rows of a band, or two columns of a stack, can switch a cycle as in a Latin square: cells trade digits within
    their box. Counts of cycles, of swaps of two digits and of equal rows of boxes no longer change after 32 switches
    of all bands and stacks, for boxes of 3, 4 and 5. For boxes of 3 they are then those of the uniform distribution.
    """
    box, digits = rules.box, rules.digits
    row, column = np.divmod(np.arange(rules.cells), digits)
    known = ((row * box + row // box + column) % digits).reshape(digits, digits)
    grids = np.broadcast_to(known, (count, digits, digits))
    for _ in range(SWITCHES):
        grids = switch_rows(grids, box, rng).transpose(0, 2, 1)
    names, bands, stacks = (np.argsort(rng.random((count, number)), axis=1) for number in (digits, box, box))
    grids = np.take_along_axis(names, grids.reshape(count, -1), 1).reshape(count, box, box, box, box)
    grids = np.take_along_axis(grids, bands[:, :, None, None, None], 1)
    return np.take_along_axis(grids, stacks[:, None, None, :, None], 3).reshape(count, -1)


def digit_of(masks: Masks) -> IntArray:
    """The value of cells with a single candidate."""
    return np.bitwise_count(masks - np.uint32(1)).astype(np.int64)


def _guess(boards: Masks, rng: np.random.Generator) -> Masks:
    """A random candidate for one of the most constrained open cells of each board."""
    number = np.bitwise_count(boards).astype(np.uint32)
    luck = rng.integers(0, 1 << 16, size=boards.shape, dtype=np.uint32)
    cell = np.where(number > 1, (number << 16) | luck, np.uint32(0xFFFFFFFF)).argmin(axis=0)
    column = np.arange(boards.shape[1])
    mask = boards[cell, column]
    drop = rng.integers(0, np.bitwise_count(mask))  # lowest candidates passed over: each is equally likely
    for passed in range(int(drop.max())):
        mask = np.where(drop > passed, mask & (mask - 1), mask)
    boards[cell, column] = mask & (~mask + np.uint32(1))
    return boards


def dig(grids: IntArray, targets: IntArray, rules: Layout, rng: np.random.Generator, most_branches: int) -> Flags:
    """Which cells (boards, cells) to keep as givens: each board loses random givens until `targets` are left.

    A given goes only if it is proved that its cell cannot take another value, so the puzzle keeps one solution.
    Boards that run out of cells to try stay above their target: without a limit of branches they need all givens.
    """
    values = np.left_shift(1, grids.T).astype(np.uint32)  # (cells, boards)
    order = rng.permuted(np.tile(np.arange(rules.cells), (len(grids), 1)), axis=1)
    givens = np.ones(values.shape, np.bool_)
    left = np.full(len(grids), rules.cells)
    for turn in range(rules.cells):
        active = np.flatnonzero(left > targets)
        if not len(active):
            break
        cell, column = order[active, turn], np.arange(len(active))
        boards = np.where(givens[:, active], values[:, active], np.uint32(rules.full))
        boards[cell, column] = rules.full & ~values[cell, active]
        removed = ~may_have_solution(boards, rules, most_branches)
        givens[cell[removed], active[removed]] = False
        left[active[removed]] -= 1
    return givens.T


def random_puzzles(
    fewest: IntArray, most: IntArray, box: int, kind: Kind, rng: np.random.Generator
) -> tuple[IntArray, Flags]:
    """Solutions and givens, both (boards, cells), of puzzles with `fewest` to `most` givens.

    A board that cannot be dug so far, or of which digging leaves too few givens, is replaced by another one.
    """
    rules = layout(box)
    grids = np.zeros((len(most), rules.cells), np.int64)
    givens = np.zeros((len(most), rules.cells), np.bool_)
    todo = np.arange(len(most))
    fruitless = 0
    while len(todo):
        chunk = todo[:LOCKSTEP]
        grids[chunk] = random_grids(len(chunk), rules, rng)
        if kind == "unique":
            givens[chunk] = dig(grids[chunk], most[chunk], rules, rng, MOST_BRANCHES[box])
        elif kind == "minimal":
            givens[chunk] = dig(grids[chunk], np.zeros_like(most[chunk]), rules, rng, NO_LIMIT)
        else:
            ranks = rng.permuted(np.tile(np.arange(rules.cells), (len(chunk), 1)), axis=1)
            givens[chunk] = ranks < most[chunk, None]
        left = givens[chunk].sum(axis=1)
        reached = (left >= fewest[chunk]) & (left <= most[chunk])
        todo = np.concatenate([chunk[~reached], todo[LOCKSTEP:]])
        fruitless = 0 if reached.any() else fruitless + 1
        if fruitless == MOST_FRUITLESS:
            if kind == "minimal":
                raise ValueError(f"found no minimal puzzle with {fewest[0]} to {most[0]} givens; expected other bounds")
            raise ValueError(f"found no puzzle with {most[chunk].min()} givens and one solution; ask for more givens")
    return grids, givens
