"""Parts of CP-SAT's protos, and how `blogdit.Problem` says literals, expressions, clauses and sums of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from blogdit.core.errors import InputError
from blogdit.core.problem import Problem

KINDS = (
    "linear", "bool_or", "bool_and", "at_most_one", "exactly_one", "bool_xor", "all_diff", "lin_max", "element",
    "table", "inverse", "int_prod", "int_div", "int_mod", "interval", "no_overlap", "automaton", "circuit", "routes",
    "cumulative", "no_overlap_2d", "reservoir", "dummy_constraint",
)  # fmt: skip
FAR = 1 << 61  # bounds beyond it are none; CP-SAT itself allows no sums of this size
MOST_VALUES = 1 << 24  # of all variables of a model: each value of a domain has a number of its own

Interval = tuple[int, int]
Literal = tuple[int, int, bool]  # variable, value, whether it must have it


class Statements:
    """Says constraints of a model in a `Problem`, whose variables have the model's numbers as values."""

    def __init__(self, problem: Problem):
        self.problem = problem
        self.conflicts: list[tuple[tuple[int, int], tuple[int, int]]] = []
        self.constants: dict[int, int] = {}

    def new(self, values: Sequence[int] = (0, 1)) -> int:
        """A variable that the model does not have."""
        return self.problem.variable(f"_{len(self.problem.labels)}", values)

    def literal(self, reference: int) -> Literal:
        """Numbers below 0 are negations: -1 of variable 0."""
        return (reference, 1, True) if reference >= 0 else (-reference - 1, 1, False)

    def literals(self, references: Iterable[int]) -> list[Literal]:
        return [self.literal(reference) for reference in references]

    def constant(self, number: int) -> int:
        """A variable with one value."""
        if number not in self.constants:
            self.constants[number] = self.problem.variable(f"_={number}", (number,))
        return self.constants[number]

    def terms(self, expression: Any, sign: int = 1) -> list[tuple[int, int]]:
        """(weight, variable) of a linear expression; its constant is the number of a variable."""
        terms = [(sign * c, i) for i, c in zip(expression.vars, expression.coeffs, strict=True)]
        terms = [(c, i) if i >= 0 else (-c, -i - 1) for c, i in terms]
        return [*terms, (sign, self.constant(expression.offset))] if expression.offset or not terms else terms

    def variable(self, expression: Any, sign: int = 1) -> int:
        """A variable that is equal to an expression: its own, if it is one."""
        terms = self.terms(expression, sign)
        if len(terms) == 1 and terms[0][0] == 1:
            return terms[0][1]
        ends = [sorted((c * min(self.problem.values[i]), c * max(self.problem.values[i]))) for c, i in terms]
        if (size := sum(high - low for low, high in ends) + 1) > MOST_VALUES:
            raise InputError(f"an expression may have {size} values; expected at most {MOST_VALUES}")
        return self.problem.total(f"_{len(self.problem.labels)}", terms)

    def expressions(self, constraint: Any) -> list[int]:
        """Of older protos the variables, of newer ones the expressions."""
        return [self.variable(one) for one in constraint.exprs] or list(getattr(constraint, "vars", ()))

    def clause(self, literals: Sequence[Literal]) -> None:
        """At least one holds."""
        if len(literals) == 2 and literals[0][0] != literals[1][0]:
            pairs = [(i, value if not holds else 1 - value) for i, value, holds in literals]
            if all(self.problem.values[i] == (0, 1) and value in (0, 1) for i, value in pairs):
                self.conflicts.append(((pairs[0][0], pairs[1][0]), (pairs[0][1], pairs[1][1])))
                return
        known = [(i, value, holds) for i, value, holds in literals if value in self.problem.places[i] or not holds]
        if any(value not in self.problem.places[i] for i, value, _ in known):
            return  # it has a literal that is always true
        if len(known) == 1 and known[0][2] and known[0][0] not in self.problem.givens:
            self.problem.givens[known[0][0]] = self.problem.places[known[0][0]][known[0][1]]
        elif known:
            self.problem.clause(known)
        else:
            self.never()

    def never(self) -> None:
        self.problem.sum([(0, 0 if self.problem.labels else self.constant(0))], 1)

    def sum(self, terms: tuple[list[Any], int], low: int | None, high: int | None, given: list[Literal]) -> None:
        """Bounds of the sum of terms and a number, where all literals hold."""
        shown, constant = terms
        if any(self._fixed(one) is False for one in given):
            return
        given = [one for one in given if self._fixed(one) is None]
        shown = [term for term in shown if len(term) == 2 or term[2] in self.problem.places[term[1]]]
        low, high = (None if bound is None else bound - constant for bound in (low, high))
        when = given[0] if given else None
        if len(given) > 1:  # a variable that is true where all of them are
            together, number = counted(given)
            every = self.problem.truth(f"_{len(self.problem.labels)}", together, len(given) - number)
            when = (every, 1, True)
        self.problem.sum(shown or [(0, self.constant(0))], low, high, when)

    def _fixed(self, literal: Literal) -> bool | None:
        """Whether a literal is always true or always false; None if neither."""
        variable, value, holds = literal
        values = self.problem.values[variable]
        return None if value in values and len(values) > 1 else (value in values) == holds

    def rows(self, variables: Sequence[int], rows: Iterable[Sequence[int]]) -> None:
        """The numbers of the variables are one of the rows; a variable that occurs twice has the same number twice."""
        kept = [place for place, i in enumerate(variables) if list(variables).index(i) == place]
        places, first = self.problem.places, [list(variables).index(i) for i in variables]
        inside = {
            tuple(row[place] for place in kept)
            for row in rows
            if all(row[at] == n and n in places[i] for at, n, i in zip(first, row, variables, strict=True))
        }
        if inside:
            self.problem.table([variables[place] for place in kept], sorted(inside))
        else:
            self.never()


def kind_of(constraint: Any) -> str:
    """The name of what a constraint says."""
    return next((kind for kind in KINDS if has(constraint, kind)), "empty")


def has(proto: Any, field: str) -> bool:
    """Whether a proto has a field, in older and newer versions of OR-Tools."""
    newer = getattr(proto, f"has_{field}", None)
    return bool(proto.HasField(field) if newer is None else newer())


def size_of(domain: Sequence[int]) -> int:
    return sum(high - low + 1 for low, high in intervals_of(domain))


def intervals_of(domain: Sequence[int]) -> list[Interval]:
    ends = list(domain)
    return list(zip(ends[::2], ends[1::2], strict=True))


def numbers_of(domain: Sequence[int]) -> tuple[int, ...]:
    return tuple(number for low, high in intervals_of(domain) for number in range(low, high + 1))


def bounds(interval: Interval) -> tuple[int | None, int | None]:
    low, high = interval
    return (None if low <= -FAR else low), (None if high >= FAR else high)


def opposite(literals: Iterable[Literal]) -> list[Literal]:
    return [(i, value, not holds) for i, value, holds in literals]


def counted(literals: Iterable[Literal]) -> tuple[list[Any], int]:
    """How many literals are true, as terms and a constant: the opposite of one is 1 less it."""
    every = list(literals)
    return [(1 if holds else -1, i, value) for i, value, holds in every], sum(not holds for _, _, holds in every)


def product(row: Sequence[int]) -> int:
    result = 1
    for number in row:
        result *= number
    return result


def quotient(row: Sequence[int]) -> int | None:
    """Towards zero; None for a division by zero."""
    first, second = row
    return None if second == 0 else abs(first) // abs(second) * (1 if (first < 0) == (second < 0) else -1)


def remainder(row: Sequence[int]) -> int | None:
    """With the sign of the first."""
    first, second = row
    return None if second == 0 else abs(first) % abs(second) * (-1 if first < 0 else 1)
