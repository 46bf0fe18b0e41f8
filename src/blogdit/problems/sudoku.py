"""Sudoku: fill a grid so that no row, column or box holds a digit twice. Boxes of any size: 4x4, 9x9, 16x16, ...

Value v stands for digit v + 1. In text, digits beyond 9 are letters: A is 10, B is 11, and so on.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Literal

import numpy as np

from blogdit.core.arrays import whole_number, whole_range
from blogdit.core.constraints import IntArray
from blogdit.core.instance import Instance
from blogdit.problems.base import Family
from blogdit.problems.grids import Board, first_beyond, make_board, make_by_size, render_cells, symbols_of
from blogdit.problems.sudoku_boards import Kind, layout, random_puzzles

SYMBOLS = "123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
BLANKS = ".0"
# With fewer givens almost no puzzle has one solution, or none that the digging can prove; the key is the box size.
FEWEST_GIVENS = {2: 4, 3: 22, 4: 100, 5: 280}
USUAL_GIVENS = {2: (5, 8), 3: (31, 42), 4: (102, 160), 5: (300, 360)}  # from, to
LARGEST_MINIMAL = 3  # box: for larger ones nothing here can show in time that a given is needed
_DIGIT = {symbol: digit for digit, symbol in enumerate(SYMBOLS, 1)}
_DIGIT |= {symbol.lower(): digit for symbol, digit in _DIGIT.items()} | dict.fromkeys(BLANKS, 0)


@cache
def board(box: int) -> Board:
    """What all puzzles of one box size share, as the same objects."""
    rules = layout(box)
    return make_board("sudoku", rules.digits, rules.houses)


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
    digits = parse(puzzle) if isinstance(puzzle, str) else symbols_of(puzzle, "puzzle", "Sudoku")
    box = box_size(len(digits))
    at = first_beyond(digits, box**2)
    if at is not None:
        found = f"{digits[at]}" + (f" ({SYMBOLS[digits[at] - 1]})" if 9 < digits[at] <= len(SYMBOLS) else "")
        raise ValueError(
            f"digits of a {box**2}x{box**2} Sudoku go up to {box**2}, got {found} in {board(box).names[at]}"
        )
    return board(box).fill(digits, name)


def recognise(instance: Instance) -> Instance:
    """The same puzzle with the objects that all puzzles of its size share, or a ValueError if it is not one."""
    return board(box_size(instance.size)).recognise(instance, "its rows, columns and boxes")


def generate(
    count: int,
    rng: np.random.Generator,
    box: Any = 3,
    min_givens: float | Literal["auto"] = "auto",
    max_givens: float | Literal["auto"] = "auto",
    unique: bool = True,
    minimal: bool = False,
) -> list[Instance]:
    """Puzzles with uniformly many givens from min_givens to max_givens and, if `unique`, exactly one solution.

    `box` is from 2 to 5, or a range like 2-5 for puzzles of several sizes. A number of givens below 1 is a share of
    the cells; `auto` suits the box size. A `minimal` puzzle needs each of its givens to have one solution: it has as
    many as it needs, of which min_givens and max_givens only choose.
    """
    low, high = whole_range(box, "box", 2, max(USUAL_GIVENS))
    if minimal and (high > LARGEST_MINIMAL or not unique):
        wanted = "unique=false" if not unique else f"a box of {high}; boxes go up to {LARGEST_MINIMAL}"
        raise ValueError(f"minimal puzzles cannot be made with {wanted}")
    kind: Kind = "minimal" if minimal else "unique" if unique else "any"
    boxes = rng.integers(low, high + 1, size=count) if high > low else np.full(count, low)
    ranges = {side: _givens(side, min_givens, max_givens, unique, minimal) for side in range(low, high + 1)}

    def make(side: int, some: int) -> IntArray:
        fewest, most = (np.full(some, number) for number in ranges[side])
        if not minimal:
            fewest = most = rng.integers(fewest, most + 1)
        solutions, is_given = random_puzzles(fewest, most, side, kind, rng)
        return np.where(is_given, solutions + 1, 0)

    return [build(puzzle, name=f"sudoku-{i}") for i, puzzle in enumerate(make_by_size(boxes, make))]


def _givens(box: int, low: Any, high: Any, unique: bool, minimal: bool) -> tuple[int, int]:
    """From how many to how many givens, for one box size."""
    usual = (0, box**4) if minimal else USUAL_GIVENS[box]
    fewest = FEWEST_GIVENS[box] if unique and not minimal else 0
    first = _number_of_givens(low, usual[0], f"min_givens of a {box**2}x{box**2} puzzle", fewest, box)
    return first, _number_of_givens(high, usual[1], "max_givens", first, box)


def _number_of_givens(value: Any, usual: int, name: str, low: int, box: int) -> int:
    """`value` as a number of cells, which it may be a share of."""
    if isinstance(value, float) and 0 < value < 1:
        value = round(value * box**4)
    return whole_number(usual if value == "auto" else value, name, low, box**4)


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
    short = digits <= len(SYMBOLS)
    rows = render_cells(instance, values, lambda value: SYMBOLS[value] if short else str(value + 1), ansi, changed)
    width = 1 if short else len(str(digits))
    rule = "+".join(["-" * (box * (width + 1) + 1)] * box)
    lines = []
    for number, row in enumerate(rows):
        parts = [" ".join(row[start : start + box]) for start in range(0, digits, box)]
        lines += [f"+{rule}+"] if number % box == 0 else []
        lines.append("| " + " | ".join(parts) + " |")
    return "\n".join([*lines, f"+{rule}+"])


def preset(settings: Mapping[str, Any]) -> dict[str, Any]:
    """4x4 boards train on a CPU in minutes; larger ones want a GPU. A puzzle has one solution, so an own answer is the
    answer, and may count for nearly all."""
    chains = {"unroll": 1, "tau_start": 0.02, "learning_rate": 1e-3}
    teacher = {"own_answers": 0.95, "relaxed": 0.05}
    if settings["box"] == 2:
        small = {"dim": 32, "layers": 2, "loops": 2, "batch_size": 64, "horizon": 8, "pool": 4096}
        givens = {"min_givens": 4, "max_givens": 6}
        return {"values": "literals", **chains, **teacher, **small, **givens, "validate_every": 250}
    large = {"dim": 64, "layers": 4, "loops": 6, "horizon": 32, "rho_min": 0.7, "validation_steps": 50}
    rounds = {"teacher_start": 0.08, "teacher_every": 0.06}
    nine = {"min_givens": 23, "max_givens": 36, "pool": 16_384} if settings["box"] == 3 else {}
    return {"values": "literals", **chains, **teacher, **large, **rounds, **nine}


FAMILY = Family(
    name="sudoku",
    summary="fill a grid so that no row, column or box holds a digit twice",
    build=build,
    generate=generate,
    render=render,
    preset=preset,
    recognise=recognise,
    marks=True,
    first_symbol=1,
)
