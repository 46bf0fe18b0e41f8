"""How many values each variable has, and what its values mean.

Inside the package the values of a variable are 0 .. size - 1. A user may call them something else: numbers with an
offset or with gaps (8, 12, 16), or names ("early", "late"). Constraints that add, compare or order values work with
these numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from blogdit.core.arrays import IntArray, WriteOnce, integers

MOST_VALUES = 1 << 31  # of one variable, and the largest number of a value: sums then seldom leave 64 bits
FIRST_NAME = 1 << 40  # the code of a name is beyond all numbers
MOST_NAMED = 1 << 22  # values of all variables together, where they are named: a name takes memory


class Domains(WriteOnce):
    """`sizes` (n,): values of each variable. `values`: what they are called, one tuple for each variable, or None."""

    def __init__(self, sizes: npt.ArrayLike, values: Sequence[Any] | None = None):
        self.sizes = integers(sizes, "domain_sizes", 1)
        wrong = (self.sizes < 1) | (self.sizes > MOST_VALUES)
        if wrong.any():
            at = int(np.argmax(wrong))
            raise ValueError(f"domain_sizes must lie in 1..{MOST_VALUES}, got {self.sizes[at]} for variable {at}")
        self.values = None if values is None else _rows(values, self.sizes)
        if self.values is None:
            self.least, self.greatest = np.zeros_like(self.sizes), self.sizes - 1
            self.are_numbers: npt.NDArray[np.bool_] = np.ones(len(self.sizes), np.bool_)
            return
        vocabulary: dict[Any, int] = {}
        kinds = {row: _codes(row, vocabulary) for row in dict.fromkeys(self.values)}
        ends = {row: (int(codes.min()), int(codes.max())) for row, codes in kinds.items()}
        self.codes = integers(
            np.concatenate([*(kinds[row] for row in self.values), np.zeros(0, np.int64)]), "values", 1
        )
        self.starts = integers(np.concatenate([[0], np.cumsum(self.sizes)])[:-1], "starts", 1)
        self.least = integers([ends[row][0] for row in self.values], "values", 1)
        self.greatest = integers([ends[row][1] for row in self.values], "values", 1)
        self.are_numbers = self.greatest < FIRST_NAME

    def __len__(self) -> int:
        return len(self.sizes)

    def of(self, variable: int) -> IntArray:
        """The numbers that the values of a variable mean. A name has a number of its own, beyond all numbers."""
        if self.values is None:
            return np.arange(self.sizes[variable])
        return self.codes[self.starts[variable] : self.starts[variable] + self.sizes[variable]]

    def numbers(self, assignment: IntArray) -> IntArray:
        """What the values (n,) of an assignment mean. A value outside its domain means the nearest inside."""
        if self.values is None:
            return assignment
        return self.codes[self.starts + np.clip(assignment, 0, self.sizes - 1)]

    def call(self, variable: int, value: int) -> Any:
        """What a user calls a value."""
        inside = self.values is not None and 0 <= value < self.sizes[variable]
        return self.values[variable][value] if self.values is not None and inside else int(value)

    def require_numbers(self, variables: IntArray, what: str) -> None:
        """A ValueError if values of these variables are names, which cannot be added or ordered."""
        names = variables[~self.are_numbers[variables]]
        if len(names) and self.values is not None:
            row = self.values[names[0]]
            name = next(value for value in row if not isinstance(value, int))
            raise ValueError(f"{what} needs whole numbers, got {name!r} among the values of variable {names[0]}")

    def aligned(self, variables: IntArray) -> bool:
        """Whether these variables, taken by two, mean the same with the same value and with no other."""
        if self.values is None:
            return True
        rows = list({self.values[variable]: int(variable) for variable in variables}.values())
        longest = max((self.of(variable) for variable in rows), key=len, default=np.zeros(0, np.int64))
        return all(np.array_equal(self.of(variable), longest[: self.sizes[variable]]) for variable in rows)

    def require_aligned(self, pairs: IntArray, what: str) -> None:
        """A ValueError if the two variables of a row (i, j) mean different things with the same value."""
        if self.values is None or not len(pairs):
            return
        kinds = {row: number for number, row in enumerate(dict.fromkeys(self.values))}
        of = np.array([kinds[row] for row in self.values])
        _, at = np.unique(of[pairs] @ [len(kinds), 1], return_index=True)
        for i, j in pairs[at].tolist():
            if not self.aligned(np.array([i, j])):
                raise ValueError(f"{what} needs variables with the same values, got {i} and {j}; AllDifferent does not")


def named_ranges(domains: Sequence[range]) -> list[range] | None:
    """The `values` of variables with these numbers: None if all count from 0, since then they need no names."""
    kinds = set(domains)
    if all(domain == range(len(domain)) for domain in kinds):
        return None
    if (total := sum(map(len, domains))) > MOST_NAMED:
        raise ValueError(f"the variables have {total} values, and not all count from 0; expected at most {MOST_NAMED}")
    shared = {domain: domain for domain in kinds}  # rows that are one object are looked at once
    return [shared[domain] for domain in domains]


def _rows(values: Sequence[Any], sizes: IntArray) -> tuple[tuple[Any, ...], ...]:
    """One tuple for each variable; a list of names alone is for all of them."""
    given = values.tolist() if isinstance(values, np.ndarray) else list(values)
    if given and all(isinstance(one, str | int | float | np.generic) for one in given):
        rows = [_row(given, "values")] * len(sizes)
    else:
        known: dict[int, tuple[Any, ...]] = {}  # rows that are one object are looked at once
        rows = [
            known.setdefault(id(row), known.get(id(row)) or _row(row, f"values[{i}]")) for i, row in enumerate(given)
        ]
    if len(rows) != len(sizes):
        raise ValueError(f"values must have one list for each variable: {len(rows)} for {len(sizes)}")
    for i, (row, size) in enumerate(zip(rows, sizes.tolist(), strict=True)):
        if len(row) != size:
            raise ValueError(f"values must name each value: {len(row)} names for the {size} values of variable {i}")
    return tuple(rows)


def _row(row: Any, what: str) -> tuple[Any, ...]:
    if isinstance(row, str) or not isinstance(row, Sequence | np.ndarray):
        raise ValueError(f"{what} must be a list of numbers or names, got {row!r}")
    plain = tuple(one.item() if isinstance(one, np.generic) else one for one in row)
    for one in plain:
        if not isinstance(one, str | int | float) or one in (float("inf"), float("-inf")) or one != one:
            raise ValueError(f"{what} must hold numbers and names, got {one!r}")
        if isinstance(one, int) and abs(one) > MOST_VALUES:
            raise ValueError(f"{what} must lie in {-MOST_VALUES}..{MOST_VALUES}, got {one}")
    if len(set(plain)) < len(plain):
        raise ValueError(f"{what} must differ, got {next(one for one in plain if plain.count(one) > 1)!r} twice")
    return tuple(int(one) if isinstance(one, float) and one.is_integer() else one for one in plain)


def _codes(row: tuple[Any, ...], vocabulary: dict[Any, int]) -> IntArray:
    """A whole number stands for itself, anything else for its place in the vocabulary of the instance."""
    return np.array(
        [one if isinstance(one, int) else FIRST_NAME + vocabulary.setdefault(one, len(vocabulary)) for one in row],
        np.int64,
    )
