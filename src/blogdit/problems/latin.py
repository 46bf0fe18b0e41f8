"""Latin squares: complete a square so that no row and no column holds a symbol twice.

Value v stands for symbol v + 1. A square with holes has a solution by construction: it is a full one with cells opened.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from blogdit.core.arrays import share_range, whole_range
from blogdit.core.constraints import IntArray
from blogdit.core.instance import Instance
from blogdit.problems.base import Family
from blogdit.problems.grids import Board, first_beyond, make_board, make_by_size, render_cells, symbols_of
from blogdit.problems.latin_squares import balanced_holes, random_holes, random_squares


@cache
def board(order: int) -> Board:
    """What all squares of one order share, as the same objects."""
    cells = np.arange(order**2).reshape(order, order)
    return make_board("latin", order, np.concatenate([cells, cells.T]))


def order_of(cells: int) -> int:
    """The order of a square with this many cells."""
    order = math.isqrt(cells)
    if order < 1 or order**2 != cells:
        raise ValueError(f"a Latin square has 1, 4, 9, ... cells, got {cells}")
    return order


def build(square: Any, name: str = "") -> Instance:
    """`square` has symbols 1 .. order, 0 for an open cell: rows, or one flat list."""
    symbols = symbols_of(square, "square", "Latin square")
    order = order_of(len(symbols))
    at = first_beyond(symbols, order)
    if at is not None:
        cell = board(order).names[at]
        raise ValueError(f"symbols of a Latin square of order {order} go up to {order}, got {symbols[at]} in {cell}")
    return board(order).fill(symbols, name)


def recognise(instance: Instance) -> Instance:
    """The same square with the objects that all squares of its order share, or a ValueError if it is not one."""
    return board(order_of(instance.size)).recognise(instance, "its rows and columns")


def generate(
    count: int, rng: np.random.Generator, order: Any = 30, holes: Any = 0.42, balanced: bool = True
) -> list[Instance]:
    """Full random squares with a share `holes` of their cells opened; `balanced`: as many in each row and column (or
    one more or less). `order` may be a range like 10-30, and `holes` one like 0.3-0.42.

    Around 0.42 squares of order 30 are hardest to complete, and balanced ones are harder than others.
    """
    low, high = whole_range(order, "order", 2)
    fewest, most = share_range(holes, "holes")
    orders = rng.integers(low, high + 1, size=count)

    def punched(side: int, some: int) -> IntArray:
        """Squares of one order; those with as many holes are made together."""
        numbers = rng.integers(round(fewest * side**2), round(most * side**2) + 1, size=some)
        return np.stack(make_by_size(numbers, lambda number, few: _punched(few, side, number, balanced, rng)))

    puzzles = make_by_size(orders, punched)
    return [build(puzzle, name=f"latin-{i}") for i, puzzle in enumerate(puzzles)]


def _punched(count: int, order: int, holes: int, balanced: bool, rng: np.random.Generator) -> IntArray:
    """Random squares (count, order, order) of symbols, with 0 in the holes."""
    if balanced:
        is_open = balanced_holes(random_squares(count, order, rng), holes, rng)
    else:
        is_open = random_holes(count, order, holes, rng)
    return np.where(is_open, 0, random_squares(count, order, rng) + 1)


def render(
    instance: Instance, values: IntArray | None = None, ansi: bool = False, changed: Sequence[int] | IntArray = ()
) -> str:
    """The rows, numbers apart; `ansi` prints givens in bold, what clashes in red, and underlines what has `changed`."""
    cells = render_cells(instance, values, lambda value: str(value + 1), ansi, changed)
    return "\n".join(" ".join(row) for row in cells)


def preset(settings: Mapping[str, Any]) -> dict[str, Any]:
    """For a GPU. Squares with few holes are easy, and what is learnt on them helps with the others."""
    chains = {"unroll": 1, "tau_start": 0.02, "learning_rate": 1e-3, "horizon": 32, "batch_size": 256}
    network = {"values": "literals", "dim": 64, "layers": 4, "loops": 6}
    teacher = {"own_answers": 0.5, "relaxed": 0.5, "teacher_start": 0.12, "teacher_steps": 60, "teacher_instances": 512}
    return {**network, **chains, **teacher, "holes": "0.3-0.42", "validation_steps": 50}


FAMILY = Family(
    name="latin",
    summary="complete a square so that no row and no column holds a symbol twice",
    build=build,
    generate=generate,
    render=render,
    preset=preset,
    recognise=recognise,
    marks=True,
    first_symbol=1,
)
