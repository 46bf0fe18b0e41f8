r"""LP files as CPLEX, Gurobi, HiGHS and SCIP have them: integer programs, row by row.

\ a comment
Maximize
 profit: 3 x + 2 y
Subject To
 space: x + y <= 10
 -2 <= x - y <= 4
Bounds
 x <= 6
General
 x y
End
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from fractions import Fraction
from typing import NamedTuple

from blogdit.core.errors import InputError
from blogdit.core.instance import Instance
from blogdit.formats.linear import Column, Number, Program, Row, number_of
from blogdit.formats.text import Lines, naming

GOAL = re.compile(r"\s*(max|min)(?:imi[sz]e|imum)?\b(?!\s*:)(.*)", re.IGNORECASE)
ROWS = re.compile(r"\s*(?:subject\s+to|such\s+that|s\.t\.|st\.?)(?=\s|$):?(.*)", re.IGNORECASE)
HEADS = {
    **dict.fromkeys(("bounds", "bound"), "bounds"),
    **dict.fromkeys(("general", "generals", "gen", "integer", "integers", "int"), "general"),
    **dict.fromkeys(("binary", "binaries", "bin"), "binary"),
    "end": "end",
}
NOT_READ = ("semi", "semis", "semi-continuous", "sos", "sos1", "sos2", "pwlobj", "lazy constraints", "user cuts")
TOKEN = re.compile(
    r"\s*(?:(<=|=<|>=|=>|<|>|=|:|\+|->|-|\*)"
    r"|((?:\d{1,40}\.?\d{0,40}|\.\d{1,40})(?:[eE][+-]?\d{1,2})?)"
    r"|([A-Za-z_!\"#$%&(),;?@`'{}~][\w!\"#$%&(),.;?@`'{}~|\[\]/]*)|(\S+))",
    re.ASCII,
)
RELATIONS = {"<": "<=", "=<": "<=", "<=": "<=", ">": ">=", "=>": ">=", ">=": ">=", "=": "="}


class Token(NamedTuple):
    text: str
    is_name: bool
    line: int


END = Token("", False, 0)


def looks_like_lp(start: list[str]) -> bool:
    first = next((line for line in start if line.strip() and not line.lstrip().startswith("\\")), "")
    return GOAL.fullmatch(first) is not None


def read_lp(lines: Lines, name: str) -> Instance:
    with naming(lines.path):
        return _Reader(lines).program.instance(name)


class _Reader:
    """A file as it is read: its tokens in sections, each section then as a whole."""

    def __init__(self, lines: Lines):
        self.lines, self.program = lines, Program(lines)
        self.tokens: list[Token] = []
        self.at = 0
        for section, tokens in self._sections():
            self.tokens, self.at = tokens, 0
            parse = {
                "goal": self._goal,
                "rows": self._row,
                "bounds": self._bound,
                "general": self._integer,
                "binary": self._binary,
            }[section]
            while self.at < len(self.tokens):
                parse()

    def _sections(self) -> Iterator[tuple[str, list[Token]]]:
        section, found = "", list[Token]()
        for line in self.lines:
            text = line.partition("\\")[0].strip()
            word = " ".join(text.lower().split())
            if (goal := GOAL.fullmatch(text)) and not section:
                section, text = "goal", goal[2]
                self.program.sense = "maximize" if goal[1].lower() == "max" else "minimize"
            elif section == "goal" and (rows := ROWS.fullmatch(text)):
                yield section, found
                section, found, text = "rows", [], rows[1]
            elif word in HEADS:
                yield section or "goal", found
                section, found, text = HEADS[word], [], ""
                if section == "end":
                    return
            elif word in NOT_READ:
                raise self.lines.error(f"section {word!r}; expected rows, bounds, general and binary")
            for token in self._of_line(text):
                if not section:
                    raise self.lines.error(f"expected 'Maximize' or 'Minimize' first, got {text[:60]!r}")
                found.append(token)
        raise self.lines.error("no 'End'; expected it at the end of the file")

    def _of_line(self, text: str) -> Iterator[Token]:
        for symbol, number, name, unknown in TOKEN.findall(text):
            if unknown:
                raise self.lines.error(f"expected terms like '3 x', a relation or a number, got {unknown[:40]!r}")
            yield Token(symbol or number or name, bool(name), self.lines.number)

    # -- tokens ----------------------------------------------------------------------------------------------------

    def _peek(self, ahead: int = 0) -> Token:
        return self.tokens[self.at + ahead] if self.at + ahead < len(self.tokens) else END

    def _take(self) -> Token:
        token = self._peek()
        self.at += 1
        return token

    def _error(self, expected: str) -> InputError:
        token = self._peek()
        line = token.line or (self.tokens[-1].line if self.tokens else None)
        return self.lines.error(f"expected {expected}, got {token.text[:40] or 'the end of the section'!r}", line)

    def _label(self) -> str:
        if self._peek().is_name and self._peek(1).text == ":":
            name = self._take().text
            self._take()
            return name
        return ""

    def _column(self) -> Column:
        token = self._take()
        return self.program.column(token.text, token.line)

    def _sign(self) -> int:
        sign = 1
        while self._peek().text in ("+", "-"):
            sign *= -1 if self._take().text == "-" else 1
        return sign

    def _number(self) -> Number:
        """With its signs; infinity is a name."""
        sign, token = self._sign(), self._peek()
        number = number_of(token.text) if token.text else None
        if number is None:
            raise self._error("a number")
        self.at += 1
        return sign * number

    def _sum(self) -> tuple[dict[str, Fraction], Fraction]:
        """Terms up to a relation, a label or the end, and the constant among them."""
        terms, constant = Row("", 0), Fraction(0)
        while self._peek() != END and self._peek().text not in RELATIONS and self._peek(1).text != ":":
            factor, has_number = Fraction(self._sign()), not self._peek().is_name
            if has_number:
                number = self._number()
                if isinstance(number, float):
                    raise self._error("no infinite number before this")
                factor *= number
                if self._peek().text == "*":
                    self.at += 1
            if self._peek().is_name and self._peek(1).text != ":":
                terms.add(self._column().name, factor)
            elif not has_number:
                raise self._error("a term like '3 x'")
            else:
                constant += factor
        return terms.terms, constant

    # -- sections --------------------------------------------------------------------------------------------------

    def _goal(self) -> None:
        self._label()
        self.program.goal.terms, self.program.offset = self._sum()
        if self._peek() != END:
            raise self._error("terms of the objective")

    def _row(self) -> None:
        """sum relation number, number relation sum, or number relation sum relation number."""
        line = self._peek().line
        name = self._label() or f"{len(self.program.rows) + 1}"
        row = Row(name, line)
        before = self._bound_before()
        row.terms, constant = self._sum()
        if before is not None:
            self._limit(row, before[1], before[0])
        if self._peek().text in RELATIONS:
            relation = RELATIONS[self._take().text]
            self._limit(row, relation, self._number())
            token = self._peek()
            is_term = token.is_name and token.line == self._peek(-1).line and self._peek(1).text != ":"
            if token.text in RELATIONS or token.text == "->" or is_term:
                raise self._error("a row to end behind the number on its right")
        elif before is None:
            raise self._error("'<=', '>=' or '=' and a number")
        row.low, row.high = row.low - constant, row.high - constant
        self.program.rows.append(row)

    def _bound_before(self) -> tuple[Number, str] | None:
        """A number before a relation, and the relation as seen from the other side; None if there is none."""
        start = self.at
        self._sign()
        token, relation = self._peek(), self._peek(1).text
        self.at = start
        if relation not in RELATIONS or number_of(token.text) is None:
            return None
        number = self._number()
        return number, {"<=": ">=", ">=": "<=", "=": "="}[RELATIONS[self._take().text]]

    @staticmethod
    def _limit(row: Row, relation: str, number: Number) -> None:
        if relation in (">=", "="):
            row.low = max(row.low, number)
        if relation in ("<=", "="):
            row.high = min(row.high, number)

    def _bound(self) -> None:
        before = self._bound_before()
        if not self._peek().is_name:
            raise self._error("a bound such as '0 <= x <= 6'")
        column = self._column()
        bounds = [] if before is None else [(before[1], before[0])]
        if self._peek().text in RELATIONS:
            relation = RELATIONS[self._take().text]
            bounds.append((relation, self._number()))
        elif not bounds:
            if self._peek().text.lower() != "free":
                raise self._error("'<=', '>=', '=' or 'free' behind a variable")
            self.at += 1
            bounds = [(">=", -math.inf), ("<=", math.inf)]
        for relation, number in bounds:
            if relation in (">=", "="):
                column.low = number
            if relation in ("<=", "="):
                column.high = number

    def _integer(self) -> None:
        if not self._peek().is_name:
            raise self._error("names of variables")
        self._column().is_integer = True

    def _binary(self) -> None:
        name = self._peek().text
        self._integer()
        column = self.program.columns[name]
        column.low, column.high = max(column.low, Fraction(0)), min(column.high, Fraction(1))
