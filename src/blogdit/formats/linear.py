"""Linear programs on integers, as files of MPS and LP have them: columns with bounds, rows and an objective.

Numbers are fractions, so that nothing is rounded: a row is multiplied by what makes its coefficients whole.
"""

from __future__ import annotations

import math
import re
from collections import deque
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from blogdit.core.constraints import Sum
from blogdit.core.domains import MOST_VALUES, named_ranges
from blogdit.core.errors import InputError
from blogdit.core.instance import Instance
from blogdit.core.objective import Objective, Sense
from blogdit.formats.text import Lines

NUMBER = re.compile(r"[+-]?(?:\d{1,40}\.?\d{0,40}|\.\d{1,40})(?:[eE][+-]?\d{1,2})?", re.ASCII)
INFINITE = re.compile(r"[+-]?inf(?:inity)?", re.IGNORECASE)
LARGEST = 1 << 53  # of what a row can add up to: sums are then exact in every part of the package

Number = Fraction | float  # a float is an infinite one


def number_of(text: str) -> Number | None:
    """A number as files have them, `inf` among them; None for any other text."""
    if INFINITE.fullmatch(text):
        return -math.inf if text[0] == "-" else math.inf
    if not NUMBER.fullmatch(text):
        return None
    number = Fraction(text)
    return math.copysign(math.inf, number) if abs(number) >= 10**20 else number  # such bounds mean none


@dataclass
class Column:
    """A variable. `line` is where it occurs first."""

    name: str
    line: int
    is_integer: bool = False
    low: Number = Fraction(0)
    high: Number = math.inf


@dataclass
class Row:
    """low <= sum of coefficient times column <= high."""

    name: str
    line: int
    low: Number = -math.inf
    high: Number = math.inf
    terms: dict[str, Fraction] = field(default_factory=dict)

    def add(self, name: str, coefficient: Fraction) -> None:
        self.terms[name] = self.terms.get(name, Fraction(0)) + coefficient


class Program:
    """What a file says, part by part; `instance` is what it means."""

    def __init__(self, lines: Lines):
        self.lines = lines
        self.columns: dict[str, Column] = {}
        self.rows: list[Row] = []
        self.goal = Row("objective", 0)
        self.sense: Sense = "minimize"
        self.offset = Fraction(0)

    def column(self, name: str, line: int) -> Column:
        if name not in self.columns:
            self.lines.limits.require("vertices", len(self.columns) + 1, self.lines.path)
            self.columns[name] = Column(name, line)
        return self.columns[name]

    def instance(self, name: str) -> Instance:
        if not self.columns:
            raise InputError("no variable in the file; expected rows on integer variables", self.lines.path)
        for column in self.columns.values():
            if not column.is_integer and column.low != column.high:  # one with a single value needs no more
                raise self.lines.error(f"variable {column.name!r} is continuous; expected an integer", column.line)
        self._bound_all()
        ends = [self._ends(column) for column in self.columns.values()]
        place = {column: i for i, column in enumerate(self.columns)}
        sizes = np.array([high - low + 1 for low, high in ends], np.int64)
        scopes, weights, bounds = [], [], []
        for row in self.rows:
            members, factors, limits = self._whole(row, place, ends)
            scopes.append(members)
            weights.append(factors)
            bounds.append(limits)
        low, high = ([limits[side] for limits in bounds] for side in (0, 1))
        return Instance(
            sizes,
            (Sum(scopes, weights, None, low, high),) if scopes else (),
            self._objective(place, ends),
            {i: 0 for i, size in enumerate(sizes.tolist()) if size == 1},
            "linear",
            name,
            labels=list(self.columns),
            values=named_ranges([range(low, high + 1) for low, high in ends]),
        )

    def _bound_all(self) -> None:
        """Give bounds to variables without them where a row implies one: x <= (high - least of the rest) / a."""
        rows_of: dict[str, list[Row]] = {name: [] for name in self.columns}
        for row in self.rows:
            for name in row.terms:
                rows_of[name].append(row)
        waiting = deque(self.rows)
        while waiting:
            row = waiting.popleft()
            for sign, limit in ((1, row.high), (-1, -row.low)):  # sign * sum <= limit
                for name, bound in self._implied(row, sign, limit):
                    column = self.columns[name]
                    # Never beyond the other end: where the row cannot hold, it says so itself.
                    if sign * row.terms[name] > 0:
                        column.high = max(bound, column.low)
                    else:
                        column.low = min(bound, column.high)
                    waiting.extend(rows_of[name])

    def _implied(self, row: Row, sign: int, limit: Number) -> list[tuple[str, Fraction]]:
        """The missing bounds that sign * sum <= limit implies."""
        if isinstance(limit, float):
            return []
        least, missing = Fraction(0), list[tuple[str, Fraction, Fraction]]()
        for name, coefficient in row.terms.items():
            factor, column = sign * coefficient, self.columns[name]
            near, far = (column.low, column.high) if factor > 0 else (column.high, column.low)
            if factor:
                if isinstance(near, float):  # the sum can be as small as it likes
                    return []
                least += factor * near
                if isinstance(far, float):
                    missing.append((name, factor, near))
        # Without the column's own share, the rest is at least `least - factor * near`.
        return [(name, (limit - least) / factor + near) for name, factor, near in missing]

    def _ends(self, column: Column) -> tuple[int, int]:
        for side, end in (("lower", column.low), ("upper", column.high)):
            if isinstance(end, float):
                message = f"variable {column.name!r} has no {side} bound, and none follows; expected a bound"
                raise self.lines.error(message, column.line)
        low, high = math.ceil(column.low), math.floor(column.high)
        if low > high:
            raise self.lines.error(f"variable {column.name!r} has bounds without an integer between them", column.line)
        if max(high - low, abs(low), abs(high)) >= MOST_VALUES:
            message = f"variable {column.name!r} has {high - low + 1} values up to {high}; expected bounds closer to 0"
            raise self.lines.error(message, column.line)
        return low, high

    def _whole(
        self, row: Row, place: dict[str, int], ends: list[tuple[int, int]]
    ) -> tuple[list[int], list[int], tuple[int | None, int | None]]:
        """Scope, weights and bounds, times what makes the weights whole. Bounds are rounded to what a sum can be."""
        scale = math.lcm(*(coefficient.denominator for coefficient in row.terms.values()))
        weights = {place[name]: int(c * scale) for name, c in row.terms.items() if c} or {0: 0}
        if sum(abs(w) * max(map(abs, ends[i])) for i, w in weights.items()) >= LARGEST:
            raise self.lines.error(f"row {row.name!r} cannot be exact; expected smaller numbers", row.line)
        low = None if isinstance(row.low, float) else math.ceil(row.low * scale)
        high = None if isinstance(row.high, float) else math.floor(row.high * scale)
        if max(abs(low or 0), abs(high or 0)) >= LARGEST:
            raise self.lines.error(f"row {row.name!r} cannot be exact; expected smaller bounds", row.line)
        return list(weights), list(weights.values()), (low, high)

    def _objective(self, place: dict[str, int], ends: list[tuple[int, int]]) -> Objective | None:
        """None if nothing is to be optimal. Bits are literals, as families of graph problems have them."""
        terms = [(place[name], c) for name, c in self.goal.terms.items() if c]
        if not terms and not self.offset:
            return None
        bits = [(i, c) for i, c in terms if ends[i] == (0, 1)]
        others = [(i, c) for i, c in terms if ends[i] != (0, 1)]
        constant = [(0, value) for value in range(ends[0][1] - ends[0][0] + 1)] if self.offset else []
        return Objective(
            self.sense,
            unary=[*((i, 1) for i, _ in bits), *constant],
            unary_weights=[*(float(c) for _, c in bits), *(float(self.offset) for _ in constant)],
            linear=[i for i, _ in others],
            linear_weights=[float(c) for _, c in others],
        )
