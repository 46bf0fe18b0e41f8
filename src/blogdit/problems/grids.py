"""What puzzles on a square grid share: cells with givens, houses (rows, columns, boxes) that hold no symbol twice.

Value v stands for symbol v + 1; among symbols, 0 is an open cell.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from blogdit.core.arrays import integers
from blogdit.core.constraints import AllDifferent, IntArray
from blogdit.core.instance import Instance


@dataclass(frozen=True, eq=False)
class Board:
    """What all puzzles of one kind and size share, as the same objects: that lets a batch hold their structure once."""

    problem: str
    sizes: IntArray
    houses: AllDifferent
    positions: IntArray
    names: tuple[str, ...]

    def fill(self, symbols: IntArray, name: str = "") -> Instance:
        """The puzzle with these symbols (0: open), row by row; a ValueError if a house holds one twice."""
        self._refuse_conflict(symbols)
        given = np.flatnonzero(symbols)
        return Instance(
            domain_sizes=self.sizes,
            constraints=(self.houses,),
            givens=dict(zip(given.tolist(), (symbols[given] - 1).tolist(), strict=True)),
            problem=self.problem,
            name=name,
            positions=self.positions,
            labels=self.names,
        )

    def _refuse_conflict(self, symbols: IntArray) -> None:
        # Open cells get numbers of their own, so that only givens can be equal.
        distinct = np.where(symbols > 0, symbols, -1 - np.arange(len(symbols)))
        broken = np.flatnonzero(self.houses.violations(distinct))
        if len(broken):
            cells = self.houses.scope(int(broken[0]))
            taken = distinct[cells].tolist()
            twice = next(symbol for symbol in taken if taken.count(symbol) > 1)
            first, second = (self.names[cell] for cell in cells[distinct[cells] == twice][:2])
            raise ValueError(f"the givens conflict: {twice} in both {first} and {second}")

    def recognise(self, instance: Instance, houses_in_words: str) -> Instance:
        """The same puzzle with the objects of this board, or a ValueError if it is not one."""
        group = instance.constraints[0] if len(instance.constraints) == 1 else None
        plain = isinstance(group, AllDifferent) and group.offsets is None
        same = plain and cast(AllDifferent, group).scopes.same_lists(self.houses.scopes)
        if not same or instance.objective is not None or (instance.domain_sizes != self.sizes).any():
            raise ValueError(f"{self.problem} has one all_different group, {houses_in_words}, and no objective")
        return self.fill(np.where(instance.is_given, instance.given_values + 1, 0), instance.name)


def make_board(problem: str, side: int, houses: IntArray) -> Board:
    """A board of side x side cells; `houses` (houses, side) names the cells of each."""
    sizes = integers(np.full(side**2, side), "domain_sizes", 1)
    positions = integers(np.argwhere(np.ones((side, side))), "positions", 2, 2)
    names = tuple(f"r{row + 1}c{column + 1}" for row, column in positions)
    return Board(problem, sizes, AllDifferent(houses), positions, names)


def symbols_of(data: Any, name: str, called: str) -> IntArray:
    """Rows or one flat list of whole numbers as a flat array, or a ValueError; `called` is a word for the puzzle."""
    try:
        array = np.asarray(data)
    except ValueError:
        raise ValueError(f"the rows of a {called} must have equal lengths") from None
    if array.ndim == 2 and array.shape[0] != array.shape[1]:
        raise ValueError(f"a {called} has as many rows as columns, got {array.shape[0]} x {array.shape[1]}")
    return integers(array.reshape(-1), name, 1)


def make_by_size(sizes: IntArray, make: Callable[[int, int], IntArray]) -> list[IntArray]:
    """One puzzle of each size, in this order; `make(size, count)` makes all puzzles of one size together."""
    puzzles: dict[int, IntArray] = {}
    for size in np.unique(sizes).tolist():
        places = np.flatnonzero(sizes == size).tolist()
        puzzles |= zip(places, make(size, len(places)), strict=True)
    return [puzzles[place] for place in range(len(sizes))]


def first_beyond(symbols: IntArray, most: int) -> int | None:
    """The first cell whose symbol is not in 0 .. most."""
    wrong = (symbols < 0) | (symbols > most)
    return int(np.argmax(wrong)) if wrong.any() else None


def render_cells(
    instance: Instance,
    values: IntArray | None,
    symbol: Callable[[int], str],
    ansi: bool = False,
    changed: Sequence[int] | IntArray = (),
) -> list[list[str]]:
    """The rows of the grid as texts of equal widths, '.' for an open cell; `ansi` prints givens in bold, what clashes
    in red, and underlines what has `changed`."""
    side = math.isqrt(instance.size)
    known = instance.given_values if values is None else np.asarray(values)
    shown = np.ones(instance.size, np.bool_) if values is not None else instance.is_given
    width = len(symbol(side - 1))
    texts = [symbol(int(value)) if visible else "." for value, visible in zip(known, shown, strict=True)]
    cells = [text.rjust(width) for text in texts]
    if ansi:
        clashes = set() if values is None else clashing(instance, known)
        marks = {"1": {*np.flatnonzero(instance.is_given)}, "31": clashes, "4": {*changed}}
        for place, text in enumerate(cells):
            if codes := [code for code, places in marks.items() if place in places]:
                cells[place] = f"\x1b[{';'.join(codes)}m{text}\x1b[0m"
    return [cells[start : start + side] for start in range(0, instance.size, side)]


def clashing(instance: Instance, values: IntArray) -> set[int]:
    """The cells that have their symbol in common with another one of a house."""
    found = set()
    for violation in instance.verify(values).violations():
        symbols = [int(values[cell]) for cell in violation.variables]
        if violation.kind == "all_different":
            found |= {
                cell for cell, symbol in zip(violation.variables, symbols, strict=True) if symbols.count(symbol) > 1
            }
    return found
