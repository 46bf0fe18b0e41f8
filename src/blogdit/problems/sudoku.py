"""Sudoku: fill a grid so that no row, column or box holds a digit twice. Boxes of any size: 4x4, 9x9, 16x16, ...

Value v stands for digit v + 1. In text, digits beyond 9 are letters: A is 10, B is 11, and so on.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Literal

import numpy as np

from blogdit.core.arrays import integers, whole_number
from blogdit.core.constraints import AllDifferent, IntArray
from blogdit.core.instance import Instance
from blogdit.problems.base import Family
from blogdit.problems.sudoku_boards import layout, random_puzzles

SYMBOLS = "123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
BLANKS = ".0"
# Fewer givens than this leave almost no puzzle with one solution (or none); the key is the box size.
FEWEST_GIVENS = {2: 4, 3: 22, 4: 100}
USUAL_GIVENS = {2: (5, 8), 3: (31, 42), 4: (120, 160)}  # from, to
_DIGIT = {symbol: digit for digit, symbol in enumerate(SYMBOLS, 1)}
_DIGIT |= {symbol.lower(): digit for symbol, digit in _DIGIT.items()} | dict.fromkeys(BLANKS, 0)


@cache
def board(box: int) -> tuple[IntArray, AllDifferent, IntArray, tuple[str, ...]]:
    """What all puzzles of one box size share, as the same objects: domains, constraints, positions, cell names."""
    rules = layout(box)
    sizes = integers(np.full(rules.cells, rules.digits), "domain_sizes", 1)
    positions = integers(np.argwhere(np.ones((rules.digits, rules.digits))), "positions", 2, 2)
    names = tuple(f"r{row + 1}c{column + 1}" for row, column in positions)
    return sizes, AllDifferent(rules.houses), positions, names


def parse(text: str) -> IntArray:
    """Digits (0: blank) of a puzzle written as one character per cell, row by row."""
    try:
        return np.array([_DIGIT[symbol] for symbol in text], np.int64)
    except KeyError as error:
        raise ValueError(f"{error.args[0]!r} is not a digit, '.' or '0'") from None


def box_size(cells: int) -> int:
    """The box size of a board with this many cells."""
    box = round(cells**0.25)
    if box < 2 or box**4 != cells:
        raise ValueError(f"a Sudoku has 16, 81, 256, ... cells, got {cells}")
    return box


def build(puzzle: Any, name: str = "") -> Instance:
    """`puzzle` is a string with one character per cell, or digits (rows, or one flat list) with 0 for a blank."""
    if isinstance(puzzle, str):
        digits = parse(puzzle)
    else:
        try:
            array = np.asarray(puzzle)
        except ValueError:
            raise ValueError("the rows of a Sudoku must have equal lengths") from None
        if array.ndim == 2 and array.shape[0] != array.shape[1]:
            raise ValueError(f"a Sudoku has as many rows as columns, got {array.shape[0]} x {array.shape[1]}")
        digits = integers(array.reshape(-1), "puzzle", 1)
    box = box_size(len(digits))
    wrong = (digits < 0) | (digits > box**2)
    if wrong.any():
        at = int(np.argmax(wrong))
        found = f"{digits[at]}" + (f" ({SYMBOLS[digits[at] - 1]})" if 9 < digits[at] <= len(SYMBOLS) else "")
        raise ValueError(f"digits of a {box**2}x{box**2} Sudoku go up to {box**2}, got {found} in {board(box)[3][at]}")
    sizes, houses, positions, names = board(box)
    _refuse_conflict(digits, houses, names)
    given = np.flatnonzero(digits)
    return Instance(
        domain_sizes=sizes,
        constraints=(houses,),
        givens=dict(zip(given.tolist(), (digits[given] - 1).tolist(), strict=True)),
        problem="sudoku",
        name=name,
        positions=positions,
        labels=names,
    )


def _refuse_conflict(digits: IntArray, houses: AllDifferent, names: tuple[str, ...]) -> None:
    # Blanks get numbers of their own, so that only givens can be equal.
    distinct = np.where(digits > 0, digits, -1 - np.arange(len(digits)))
    broken = np.flatnonzero(houses.violations(distinct))
    if len(broken):
        cells = houses.scope(int(broken[0]))
        taken = distinct[cells].tolist()
        twice = next(digit for digit in taken if taken.count(digit) > 1)
        first, second = (names[cell] for cell in cells[distinct[cells] == twice][:2])
        raise ValueError(f"the givens conflict: {twice} in both {first} and {second}")


def recognise(instance: Instance) -> Instance:
    """The same puzzle with the objects that all puzzles of its size share, or a ValueError if it is not one."""
    sizes, houses, _, _ = board(box_size(instance.size))
    group = instance.constraints[0] if len(instance.constraints) == 1 else None
    same = isinstance(group, AllDifferent) and group.offsets is None and group.scopes.same_lists(houses.scopes)
    if not same or instance.objective is not None or (instance.domain_sizes != sizes).any():
        raise ValueError("sudoku has one all_different group, its rows, columns and boxes, and no objective")
    return build(np.where(instance.is_given, instance.given_values + 1, 0), instance.name)


def generate(
    count: int,
    rng: np.random.Generator,
    box: int = 3,
    min_givens: int | Literal["auto"] = "auto",
    max_givens: int | Literal["auto"] = "auto",
    unique: bool = True,
) -> list[Instance]:
    """Puzzles with uniformly many givens from min_givens to max_givens (`auto`: as suits the box size) and, if
    `unique`, exactly one solution."""
    box = whole_number(box, "box", 2, 4)
    fewest, (low, high) = FEWEST_GIVENS[box] if unique else 0, USUAL_GIVENS[box]
    if min_givens != "auto":
        low = whole_number(min_givens, f"min_givens of a {box**2}x{box**2} puzzle", fewest, box**4)
    high = whole_number(high if max_givens == "auto" else max_givens, "max_givens", low, box**4)
    targets = rng.integers(low, high + 1, size=count)
    solutions, is_given = random_puzzles(targets, box, unique, rng)
    puzzles = np.where(is_given, solutions + 1, 0)
    return [build(puzzle, name=f"sudoku-{i}") for i, puzzle in enumerate(puzzles)]


def text(instance: Instance, values: IntArray | None = None) -> str:
    """One character per cell, row by row; without values the puzzle itself, with '.' for a blank."""
    if instance.domain_sizes[0] > len(SYMBOLS):
        raise ValueError(f"a Sudoku with more than {len(SYMBOLS)} digits has no text form of one character per cell")
    if values is not None:
        return "".join([SYMBOLS[value] for value in values])
    return "".join(
        [SYMBOLS[v] if given else "." for v, given in zip(instance.given_values, instance.is_given, strict=True)]
    )


def render(
    instance: Instance, values: IntArray | None = None, ansi: bool = False, changed: Sequence[int] | IntArray = ()
) -> str:
    """The grid with lines between boxes; `ansi` prints givens in bold, what clashes in red, and underlines what has
    `changed`."""
    digits = math.isqrt(instance.size)
    box = math.isqrt(digits)
    known = instance.given_values if values is None else np.asarray(values)
    shown = np.ones(instance.size, np.bool_) if values is not None else instance.is_given
    width = 1 if digits <= len(SYMBOLS) else len(str(digits))
    cells = []
    for value, visible in zip(known, shown, strict=True):
        symbol = "." if not visible else SYMBOLS[value] if digits <= len(SYMBOLS) else str(value + 1)
        cells.append(symbol.rjust(width))
    if ansi:
        clashes = set() if values is None else clashing(instance, known)
        marks = {"1": {*np.flatnonzero(instance.is_given)}, "31": clashes, "4": {*changed}}
        for place, symbol in enumerate(cells):
            if codes := [code for code, places in marks.items() if place in places]:
                cells[place] = f"\x1b[{';'.join(codes)}m{symbol}\x1b[0m"
    rule = "+".join(["-" * (box * (width + 1) + 1)] * box)
    lines = []
    for row in range(digits):
        parts = [" ".join(cells[start : start + box]) for start in range(row * digits, (row + 1) * digits, box)]
        lines += [f"+{rule}+"] if row % box == 0 else []
        lines.append("| " + " | ".join(parts) + " |")
    return "\n".join([*lines, f"+{rule}+"])


def clashing(instance: Instance, values: IntArray) -> set[int]:
    """The cells that have their digit in common with another one of their row, column or box."""
    found = set()
    for violation in instance.verify(values).violations():
        digits = [int(values[cell]) for cell in violation.variables]
        if violation.kind == "all_different":
            found |= {cell for cell, digit in zip(violation.variables, digits, strict=True) if digits.count(digit) > 1}
    return found


def preset(settings: Mapping[str, Any]) -> dict[str, Any]:
    """4x4 boards train on a CPU in minutes; larger ones want a GPU."""
    chains = {"unroll": 1, "tau_start": 0.02, "learning_rate": 1e-3}
    network = {"position_dims": 2, "relation": "neighbours", "head_dim": 16}
    if settings["box"] == 2:
        small = {"dim": 32, "heads": 2, "layers": 2, "batch_size": 64, "horizon": 8, "pool": 4096}
        return {**network, **chains, **small, "min_givens": 4, "max_givens": 6, "validate_every": 250}
    large = {"dim": 64, "heads": 4, "layers": 8, "horizon": 32, "rho_min": 0.7, "pool": 30_000, "validation_steps": 200}
    givens = {"min_givens": 24, "max_givens": 36} if settings["box"] == 3 else {}
    return {**network, **chains, **large, **givens}


FAMILY = Family(
    name="sudoku",
    summary="fill a grid so that no row, column or box holds a digit twice",
    build=build,
    generate=generate,
    render=render,
    preset=preset,
    recognise=recognise,
)
