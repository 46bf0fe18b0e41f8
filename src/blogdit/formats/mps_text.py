"""MPS files: integer programs, column by column. Fields are apart by spaces, as in every free MPS file.

    NAME example
    ROWS
     N cost
     L limit
    COLUMNS
     M1 'MARKER' 'INTORG'
     x cost 1 limit 2
     M2 'MARKER' 'INTEND'
    RHS
     rhs limit 7
    BOUNDS
     UP bnd x 4
    ENDATA

An integer column without bounds is 0 or 1, as CPLEX, SCIP and OR-Tools read it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction

from blogdit.core.instance import Instance
from blogdit.formats.linear import Number, Program, Row, number_of
from blogdit.formats.text import Lines, naming

SECTIONS = ("NAME", "OBJSENSE", "ROWS", "COLUMNS", "RHS", "RANGES", "BOUNDS", "ENDATA")
WITHOUT_NUMBER = ("FR", "MI", "PL", "BV")
BOUNDS = ("UP", "LO", "FX", "UI", "LI", *WITHOUT_NUMBER)
INFINITE = math.inf


def looks_like_mps(start: list[str]) -> bool:
    first = next((line.split() for line in start if line.strip() and line[0] != "*"), [])
    return bool(first) and first[0] in ("NAME", "ROWS", "OBJSENSE") and ":" not in "".join(first[:2])


def read_mps(lines: Lines, name: str) -> Instance:
    with naming(lines.path):
        return _Reader(lines).program.instance(name)


class _Reader:
    """A file as it is read, section by section."""

    def __init__(self, lines: Lines):
        self.lines, self.program = lines, Program(lines)
        self.kinds: dict[str, str] = {}  # of rows: N, L, G or E
        self.rows: dict[str, Row] = {}
        self.is_integer = False
        self.bounded: set[str] = set()
        section = ""
        for fields, is_head in self._lines():
            if is_head:
                section = self._head(fields)
                if section == "ENDATA":
                    break
            elif section in ("", "NAME"):
                raise lines.error(f"expected a section such as ROWS, got {' '.join(fields)[:60]!r}")
            else:
                {
                    "OBJSENSE": self._sense,
                    "ROWS": self._row,
                    "COLUMNS": self._column,
                    "RHS": self._right,
                    "RANGES": self._range,
                    "BOUNDS": self._bound,
                }[section](fields)
        else:
            raise lines.error("no ENDATA; expected it at the end of the file")
        for column in self.program.columns.values():
            if column.is_integer and column.name not in self.bounded:
                column.high = Fraction(1)

    def _lines(self) -> Iterator[tuple[list[str], bool]]:
        for line in self.lines:
            fields = line.split()
            if fields and line[0] != "*":
                yield fields, not line[0].isspace()

    def _head(self, fields: list[str]) -> str:
        section = fields[0].upper()
        if section not in SECTIONS:
            raise self.lines.error(f"section {fields[0][:40]!r}; expected one of {', '.join(SECTIONS)}")
        if section == "OBJSENSE" and len(fields) > 1:
            self._sense(fields[1:])
        return section

    def _sense(self, fields: list[str]) -> None:
        if fields[0].upper() not in ("MAX", "MAXIMIZE", "MIN", "MINIMIZE"):
            raise self.lines.error(f"expected MAX or MIN, got {fields[0][:40]!r}")
        self.program.sense = "maximize" if fields[0].upper().startswith("MAX") else "minimize"

    def _row(self, fields: list[str]) -> None:
        if len(fields) != 2 or fields[0] not in ("N", "L", "G", "E"):
            raise self.lines.error(f"expected N, L, G or E and the name of a row, got {' '.join(fields)[:60]!r}")
        kind, name = fields
        if name in self.kinds:
            raise self.lines.error(f"a second row {name!r}; expected one")
        first_goal = kind == "N" and "N" not in self.kinds.values()
        self.kinds[name] = kind
        if kind != "N":
            zero = Fraction(0)
            self.rows[name] = Row(
                name, self.lines.number, -INFINITE if kind == "L" else zero, INFINITE if kind == "G" else zero
            )
            self.program.rows.append(self.rows[name])
        elif first_goal:
            self.rows[name] = self.program.goal

    def _column(self, fields: list[str]) -> None:
        if len(fields) == 3 and fields[1].strip("'") == "MARKER":
            marker = fields[2].strip("'")
            if marker not in ("INTORG", "INTEND"):
                raise self.lines.error(f"marker {marker[:40]!r}; expected INTORG or INTEND")
            self.is_integer = marker == "INTORG"
            return
        column = self.program.column(fields[0], self.lines.number)
        column.is_integer = self.is_integer
        for name, number in self._pairs(fields[1:]):
            if name in self.rows:
                self.rows[name].add(column.name, self._finite(number))

    def _right(self, fields: list[str]) -> None:
        for name, number in self._pairs(fields[len(fields) % 2 :]):
            kind = self.kinds[name]
            if kind == "N":
                if self.rows.get(name) is self.program.goal:
                    self.program.offset = -self._finite(number)
                continue
            row = self.rows[name]
            row.low, row.high = (-INFINITE if kind == "L" else number), (INFINITE if kind == "G" else number)

    def _range(self, fields: list[str]) -> None:
        """The other end: of L below, of G above, of E on the side of the sign."""
        for name, number in self._pairs(fields[len(fields) % 2 :]):
            kind, width = self.kinds[name], self._finite(number)
            if kind == "N":
                continue
            row = self.rows[name]
            if kind == "L" or (kind == "E" and width < 0):
                row.low = row.high - abs(width)
            else:
                row.high = row.low + abs(width)

    def _bound(self, fields: list[str]) -> None:
        kind = fields[0]
        if kind not in BOUNDS:
            raise self.lines.error(f"bound {kind[:40]!r}; expected one of {', '.join(BOUNDS)}")
        rest = fields[1:]
        needs = 1 if kind in WITHOUT_NUMBER else 2
        if kind in WITHOUT_NUMBER and len(rest) > 1 and rest[-1] not in self.program.columns:
            rest = rest[:-1]  # a number that means nothing
        if len(rest) not in (needs, needs + 1):
            raise self.lines.error(f"expected a bound such as 'UP bnd x 4', got {' '.join(fields)[:60]!r}")
        name = rest[-needs]
        if name not in self.program.columns:
            raise self.lines.error(f"a bound of {name[:40]!r}; expected a column of the file")
        self._set_bound(kind, name, None if kind in WITHOUT_NUMBER else self._number(rest[-1]))

    def _set_bound(self, kind: str, name: str, number: Number | None) -> None:
        column = self.program.columns[name]
        column.is_integer = column.is_integer or kind in ("BV", "UI", "LI")
        if kind in ("FR", "MI"):
            column.low = -INFINITE
        if kind in ("FR", "PL"):
            column.high = INFINITE
        if kind == "BV":
            column.low, column.high = Fraction(0), Fraction(1)
        if kind in ("LO", "LI", "FX") and number is not None:
            column.low = number
        if kind in ("UP", "UI", "FX") and number is not None:
            column.high = number
            if number < 0 and column.low == 0 and name not in self.bounded:
                column.low = -INFINITE  # so other readers understand it
        self.bounded.add(name)

    def _pairs(self, fields: list[str]) -> Iterator[tuple[str, Number]]:
        if not fields or len(fields) % 2:
            raise self.lines.error(f"expected names of rows, each with a number, got {' '.join(fields)[:60]!r}")
        for name, text in zip(fields[::2], fields[1::2], strict=True):
            if name not in self.kinds:
                raise self.lines.error(f"no row {name[:40]!r}; expected one of section ROWS")
            yield name, self._number(text)

    def _number(self, text: str) -> Number:
        number = number_of(text)
        if number is None:
            raise self.lines.error(f"expected a number, got {text[:40]!r}")
        return number

    def _finite(self, number: Number) -> Fraction:
        if isinstance(number, float):
            raise self.lines.error("an infinite coefficient; expected a number")
        return number
