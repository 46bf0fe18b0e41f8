"""Latin square files: the order, then a row of numbers per line, 0 for an open cell; one square after the other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import IO

import numpy as np

from blogdit.core.constraints import IntArray
from blogdit.core.instance import Instance
from blogdit.formats.text import Lines
from blogdit.problems import latin

Square = tuple[int, IntArray]  # number of the line with the order, symbols row by row; 0 is an open cell


def looks_like_latin(start: list[str]) -> bool:
    """A first line with one number, the order, before a row of so many numbers. A row of more than three columns,
    which no graph file has, may also be a mistake in such a file."""
    rows = [line.split() for line in start if not _is_blank(line)][:2]
    if len(rows) < 2 or len(rows[0]) != 1 or not _is_order(rows[0][0]) or not rows[1][0].isdecimal():
        return False
    return len(rows[1]) == int(rows[0][0]) or len(rows[1]) > 3


def read_latin(lines: Lines, stem: str) -> Iterator[Instance]:
    alone = None
    for line, symbols in list_squares(lines):
        alone = alone is None and not lines.peek(1)
        try:
            yield latin.build(symbols, stem if alone else f"{stem}:{line}")
        except ValueError as error:
            raise lines.error(str(error), line) from None


def list_squares(lines: Lines) -> Iterator[Square]:
    """Every square of a file; what follows it up to the next one is consumed."""
    while (line := _next(lines)) is not None:
        text = line.strip()
        if not _is_order(text):
            raise lines.error(f"expected the order of a Latin square, got {text[:40]!r}")
        first, order = lines.number, int(text)
        rows = [_row(lines, order, number) for number in range(1, order + 1)]
        while lines.peek(1) and _is_blank(lines.peek(1)[0]):
            next(lines)
        yield first, np.concatenate(rows)


def count_squares(lines: Lines) -> int:
    """How many squares a file holds if all is well."""
    found = 0
    while (line := _next(lines)) is not None:
        found += 1
        for _ in range(int(line) if _is_order(line.strip()) else 0):
            _next(lines)
    return found


def write_latin(instances: Iterable[Instance], handle: IO[str]) -> None:
    for instance in instances:
        order = latin.order_of(instance.size)
        symbols = np.where(instance.is_given, instance.given_values + 1, 0).reshape(order, order)
        handle.write(f"{order}\n" + "".join(" ".join(map(str, row)) + "\n" for row in symbols.tolist()))


def _row(lines: Lines, order: int, number: int) -> IntArray:
    line = _next(lines)
    if line is None:
        raise lines.error(f"expected {order} rows, the file ends after {number - 1}")
    fields = line.split()
    if len(fields) != order:
        raise lines.error(f"expected {order} numbers in row {number}, got {len(fields)}")
    for field in fields:
        if not field.isdecimal() or len(field) > len(str(order)) + 1 or int(field) > order:
            raise lines.error(f"expected numbers from 0 to {order}, got {field[:40]!r}")
    return np.array([int(field) for field in fields], np.int64)


def _next(lines: Lines) -> str | None:
    return next((line for line in lines if not _is_blank(line)), None)


def _is_order(text: str) -> bool:
    """A number without leading zeros, which a puzzle of one Sudoku row may have."""
    return text.isascii() and text.isdecimal() and text[0] != "0" and len(text) < 6


def _is_blank(line: str) -> bool:
    return not line.strip() or line.lstrip().startswith("#")
