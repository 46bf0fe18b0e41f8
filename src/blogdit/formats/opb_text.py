"""Pseudo-Boolean problems: OPB files, and WBO files with soft constraints.

    * #variable= 3 #constraint= 2
    min: +2 x1 -1 x2 x3 ;
    +3 x1 +1 ~x2 >= 2 ;
    [5] +1 x1 +1 x3 = 1 ;

`~x` is 1 - x, several variables behind a coefficient are a product, and a constraint with a weight in brackets is soft.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np

from blogdit.core.constraints import Constraint, Scopes, Sum
from blogdit.core.derived import Derived
from blogdit.core.errors import InputError
from blogdit.core.instance import Instance
from blogdit.core.objective import Objective
from blogdit.formats.boolean import (
    LARGEST_TOTAL,
    Row,
    constant_terms,
    fixed_literals,
    products,
    require_bits,
    rows_of,
    soft_clauses,
    soft_rows,
)
from blogdit.formats.graph_text import refuse_absurd
from blogdit.formats.text import Lines, hinted_offset, naming

NAME = re.compile(r"[A-Za-z_][\w\[\]{}^-]*")
TOKEN = re.compile(
    rf"\s*(?:((?:min|max|soft)\s*:|>=|<=|=|;|\[\s*\d+\s*\]|[+-]?\s*\d+|~?\s*{NAME.pattern})|(\S+))", re.ASCII
)
COUNTS = re.compile(r"\*\s*#variable=\s*(\d{1,18})\s+#constraint=\s*(\d{1,18})\b")
FIRST = re.compile(rf"(min|max|soft)\s*:|\[\s*\d+\s*\]|[+-]?\s*\d+\s+~?{NAME.pattern}", re.ASCII)
RELATIONS = (">=", "<=", "=")

Product = tuple[int, tuple[int, ...]]  # coefficient, and literals that are multiplied


def looks_like_opb(start: list[str]) -> bool:
    """A header of counts, or a first line of an objective or a constraint."""
    lines = [line.strip() for line in start if line.strip()]
    first = next((line for line in lines if not line.startswith("*")), "")
    return any(map(COUNTS.match, lines)) or FIRST.match(first) is not None


def read_opb(lines: Lines, name: str) -> Instance:
    """Constraints on one variable become givens. A product in a constraint is a variable that follows from others."""
    with naming(lines.path):
        return _Reader(lines).instance(name)


class _Reader:
    """A file as it is read. Variables are numbered as they come; `instance` puts them into order."""

    def __init__(self, lines: Lines):
        self.lines = lines
        self.variables: dict[str, int] = {}
        self.counts: tuple[int, int] | None = None  # variables and constraints, as the header says
        self.goal: tuple[Any, list[Product]] | None = None
        self.rows: list[tuple[list[Product], str, int, int | None]] = []  # terms, relation, bound, weight if soft
        self.offset = 0.0
        self.limit: int | None = None  # what soft constraints must cost less than
        tokens = self._tokens()
        for token in tokens:
            self._statement(token, tokens)
        if self.counts is not None and self.counts[1] != len(self.rows):
            raise lines.error(f"expected {self.counts[1]} constraints as in the first line, got {len(self.rows)}")

    def _tokens(self) -> Iterator[str]:
        for line in self.lines:
            text = line.strip()
            if text.startswith("*"):
                if (said := COUNTS.match(text)) and self.counts is None:
                    self.counts = int(said[1]), int(said[2])
                self.offset = hinted_offset(text, self.lines) or self.offset
                continue
            for known, unknown in TOKEN.findall(text):
                if unknown:
                    raise self.lines.error(f"expected terms like '+3 x1', a relation or ';', got {unknown[:40]!r}")
                yield known.replace(" ", "")

    def _statement(self, token: str, tokens: Iterator[str]) -> None:
        if token == "soft:":
            limit = next(tokens, "")
            if limit != ";":
                if not _is_number(limit) or next(tokens, "") != ";":
                    raise self.lines.error(f"expected 'soft: NUMBER ;', got {limit[:40]!r}")
                self.limit = int(limit)
        elif token in ("min:", "max:"):
            if self.goal is not None:
                raise self.lines.error("a second objective; expected one")
            terms, end = self._terms(None, tokens)
            if end != ";":
                raise self.lines.error(f"expected ';' behind the objective, got {end!r}")
            self.goal = ("minimize" if token == "min:" else "maximize"), terms
        elif token != ";":
            weight = None
            if token.startswith("["):
                weight, token = int(token[1:-1]), next(tokens, "")
            terms, relation = self._terms(token, tokens)
            bound, end = next(tokens, ""), next(tokens, "")
            if relation not in RELATIONS or not _is_number(bound) or end != ";":
                got = " ".join((relation, bound, end)).strip() or "the end of the file"
                raise self.lines.error(f"expected '>=', '<=' or '=', a number and ';', got {got[:60]!r}")
            self.rows.append((terms, relation, int(bound), weight))

    def _terms(self, token: str | None, tokens: Iterator[str]) -> tuple[list[Product], str]:
        """The terms up to a relation or the end of a statement, and that token."""
        found: list[Product] = []
        coefficient, literals = None, list[int]()
        token = next(tokens, "") if token is None else token
        while True:
            is_name = token[:1] == "~" or NAME.match(token) is not None
            if is_name and token[-1:] != ":":
                if coefficient is None:
                    raise self.lines.error(f"expected a coefficient before {token[:40]!r}")
                literals.append(self._literal(token))
            else:
                if coefficient is not None:
                    if not literals:
                        raise self.lines.error(f"expected a variable behind {coefficient}, got {token[:40]!r}")
                    found.append((coefficient, tuple(literals)))
                if not _is_number(token):
                    return found, token
                coefficient, literals = int(token), []
            token = next(tokens, "")

    def _literal(self, token: str) -> int:
        name = token.removeprefix("~")
        number = self.variables.setdefault(name, len(self.variables)) + 1
        return -number if token[0] == "~" else number

    def instance(self, name: str) -> Instance:
        labels = self._order()
        if not labels:
            raise InputError("no variable in the file; expected terms like '+3 x1'", self.lines.path)
        made = _Maker(
            len(labels), {self.variables[label]: at for at, label in enumerate(labels) if label in self.variables}
        )
        goal, weights = None, [weight for *_, weight in self.rows if weight]
        if sum(weights) > LARGEST_TOTAL:
            raise ValueError(f"the weights add up to more than {LARGEST_TOTAL}; expected less, to be exact")
        if self.limit is not None and self.limit <= sum(weights):
            raise ValueError(
                f"soft constraints must cost less than {self.limit}; expected no limit, or one above all weights"
            )
        for terms, relation, bound, weight in self.rows:
            if weight != 0:  # one that costs nothing says nothing
                made.add(terms, relation, bound, weight)
        if self.goal is not None or weights or self.offset:
            sense, terms = self.goal or ("minimize", [])
            goal = made.objective(sense, terms, self.offset)
        names = [*labels, *(" ".join(map(_named(labels), product)) for product in made.products)]
        constraints = made.constraints()
        return Instance(
            np.full(len(names), 2, np.int64),
            constraints,
            goal,
            made.givens,
            "pseudo-boolean",
            name,
            labels=names,
            derived=[Derived(len(labels) + k, len(constraints) - 1, k) for k in range(len(made.products))],
        )

    def _order(self) -> list[str]:
        """The names of the variables: x1, x2, ... by number, any others as they come."""
        numbers = [int(name[1:]) if re.fullmatch(r"x[1-9]\d{0,17}", name) else 0 for name in self.variables]
        if self.counts is None:
            by_number = dict(zip(self.variables, numbers, strict=True))
            return sorted(self.variables, key=by_number.__getitem__) if all(numbers) else list(self.variables)
        size = self.counts[0]
        self.lines.limits.require("vertices", size, self.lines.path)
        refuse_absurd(size, len(self.rows), self.lines.path)
        if not all(numbers) and len(numbers) == size:
            return list(self.variables)
        wrong = [name for name, number in zip(self.variables, numbers, strict=True) if not 1 <= number <= size]
        if wrong:
            raise InputError(f"expected variables x1..x{size} as in the first line, got {wrong[0]!r}", self.lines.path)
        return [f"x{number}" for number in range(1, size + 1)]


class _Maker:
    """Sums from rows. `place` is where a variable, numbered as it came, stands in the instance."""

    def __init__(self, size: int, place: dict[int, int]):
        self.size, self.place = size, place
        self.products: dict[tuple[int, ...], int] = {}  # literals that are multiplied -> the literal of their product
        self.hard: list[tuple[list[tuple[int, int]], int | None, int | None]] = []
        self.soft: list[tuple[list[tuple[int, int]], int | None, int | None]] = []
        self.weights: list[int] = []
        self.givens: dict[int, int] = {}

    def add(self, terms: list[Product], relation: str, bound: int, weight: int | None) -> None:
        low, high = (None if relation == "<=" else bound), (None if relation == ">=" else bound)
        linear = [(factor, self._product(literals)) for factor, literals in terms]
        row = [(factor, literal) for factor, literal in linear if factor and literal]
        if weight is not None:
            self.soft.append((row, low, high))
            self.weights.append(weight)
            return
        if len(row) == 1:
            factor, literal = row[0]
            possible = [value for value in (0, 1) if bound_holds(factor * (value == (literal > 0)), low, high)]
            known = self.givens.get(abs(literal) - 1)
            if len(possible) == 1 and abs(literal) <= self.size and known in (None, possible[0]):
                self.givens[abs(literal) - 1] = possible[0]
                return
        self.hard.append((row, low, high))

    def _literals(self, product: tuple[int, ...]) -> tuple[int, ...]:
        """By their places, each once; none if the product is always 0."""
        signs = {self.place[abs(one) - 1] + 1: one > 0 for one in product}
        found = {(self.place[abs(one) - 1] + 1) * (1 if one > 0 else -1) for one in product}
        return tuple(sorted(found, key=abs)) if len(found) == len(signs) else ()

    def _product(self, product: tuple[int, ...]) -> int:
        """A literal that is equal to the product, 0 if that is always 0."""
        literals = self._literals(product)
        if len(literals) > 1:
            return self.products.setdefault(literals, self.size + 1 + len(self.products))
        return literals[0] if literals else 0

    def constraints(self) -> tuple[Constraint, ...]:
        groups: list[Constraint] = [_sums(self.hard)] if self.hard else []
        if self.products:
            scopes = [[abs(one) - 1 for one in literals] for literals in self.products]
            equals = [[int(one > 0) for one in literals] for literals in self.products]
            when = [(literal - 1, 1) for literal in self.products.values()]
            groups.append(Sum(scopes, None, equals, list(map(len, scopes)), None, when, exactly=True))
        return tuple(groups)

    def objective(self, sense: Any, terms: list[Product], offset: float) -> Objective:
        unary, unary_weights = constant_terms(offset)
        pairwise, pairwise_weights = list[tuple[int, int, int, int]](), list[float]()
        for factor, product in terms:
            literals = self._literals(product)
            if len(literals) == 2:
                (i, a), (j, b) = ((abs(one) - 1, int(one > 0)) for one in literals)
                pairwise.append((i, j, a, b))
                pairwise_weights.append(factor)
            elif literals:
                literal = self._product(product)
                unary.append((abs(literal) - 1, int(literal > 0)))
                unary_weights.append(factor)
        if sum(map(abs, [*unary_weights, *pairwise_weights])) > LARGEST_TOTAL:
            raise ValueError(f"the coefficients of the objective add up to more than {LARGEST_TOTAL}; expected less")
        soft = [(_sums(self.soft), self.weights)] if self.soft else []
        return Objective(sense, unary, unary_weights, pairwise=pairwise, pairwise_weights=pairwise_weights, soft=soft)


def bound_holds(total: int, low: int | None, high: int | None) -> bool:
    return (low is None or low <= total) and (high is None or total <= high)


def _sums(rows: list[tuple[list[tuple[int, int]], int | None, int | None]]) -> Sum:
    """A row without terms is one of a variable that counts 0 times."""
    filled = [terms or [(0, 1)] for terms, _, _ in rows]
    lengths = [len(terms) for terms in filled]
    flat = np.array([term for terms in filled for term in terms], np.int64).reshape(-1, 2)
    return Sum(
        Scopes(np.abs(flat[:, 1]) - 1, lengths=lengths),
        Scopes(flat[:, 0].copy(), "weights", lengths),
        Scopes((flat[:, 1] > 0).astype(np.int64), "equals", lengths),
        [low for _, low, _ in rows],
        [high for _, _, high in rows],
    )


def _is_number(token: str) -> bool:
    return token.lstrip("+-").isdecimal()


def _named(labels: list[str]) -> Any:
    return lambda literal: ("~" if literal < 0 else "") + labels[abs(literal) - 1]


def opb_lines(instance: Instance) -> list[str]:
    """The file of an instance on bits. With soft constraints it is a WBO file, and the terms of its objective are soft
    clauses; a constant of the objective goes into a comment."""
    require_bits(instance, "opb")
    named = _named(_names(instance))
    rows = [(None, Row([(1, literal)], 1, None)) for literal in fixed_literals(instance)]
    rows += [(None, row) for group in instance.constraints for some in rows_of(group, instance, "opb") for row in some]
    goal, offset, first = instance.objective, 0, list[str]()
    soft = soft_rows(instance, "opb")
    if soft:
        more, offset = soft_clauses(instance, "opb")
        soft += [(weight, Row([(1, literal) for literal in clause], 1, None)) for weight, clause in more]
        first = ["soft: ;"]
    elif goal is not None:
        terms = [
            (_whole_factor(factor), " ".join(map(named, literals))) for factor, literals in products(goal, instance)
        ]
        first = [" ".join(["min:", *(f"{factor:+d} {text}" for factor, text in terms), ";"])]
    weighted: list[tuple[int | None, Row]] = [*rows, *soft]
    body = [line for weight, row in weighted for line in _row_lines(weight, row, named)]
    counts = [f"* #variable= {instance.size} #constraint= {len(body)}"]
    return [*counts, *([f"* blogdit offset={offset}"] if offset else []), *first, *body]


def _row_lines(weight: int | None, row: Row, named: Any) -> list[str]:
    """With >= and = alone, as every solver knows them."""

    def left(sign: int) -> str:
        terms = " ".join(f"{sign * factor:+d} {named(literal)}" for factor, literal in row.terms) or f"+0 {named(1)}"
        return terms if weight is None else f"[{weight}] {terms}"

    if row.low is not None and row.low == row.high:
        return [f"{left(1)} = {row.low} ;"]
    below = [] if row.low is None else [f"{left(1)} >= {row.low} ;"]
    return below if row.high is None else [*below, f"{left(-1)} >= {-row.high} ;"]


def _whole_factor(factor: float) -> int:
    if not factor.is_integer():
        raise ValueError(f"an opb file holds whole coefficients, got {factor:g}; use .json")
    return int(factor)


def _names(instance: Instance) -> list[str]:
    """The labels, if all of them can be names in a file."""
    labels = instance.labels or ()
    fits = bool(labels) and all(isinstance(label, str) and NAME.fullmatch(label) for label in labels)
    return list(labels) if fits else [f"x{i + 1}" for i in range(instance.size)]
