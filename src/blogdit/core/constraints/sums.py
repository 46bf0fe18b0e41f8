"""Sums within bounds: of numbers, of weights that values earn, and of both."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from blogdit.core.arrays import IntArray, check_range, integers
from blogdit.core.constraints.base import FAR, Constraint, Rows, Scopes, distinct_of
from blogdit.core.domains import Domains

RELATIONS = ("<=", "=", ">=")
NUMBER = -1  # in `equals`: the term is the variable's number, not a literal
LARGEST_SUM = 0.99 * FAR  # sums are estimated in float64, which may be a little off


class Sum(Constraint):
    """low <= sum of weight * term <= high, for each scope. A term is a literal or a number:

    - `equals` a value a >= 0: the literal [x_i = a], 1 where x_i has the value and 0 elsewhere;
    - `equals` -1: the number that the value of x_i means.

    Without `equals` all terms are numbers, without `weights` all weights are 1. A bound of None is no bound.
    A clause is a sum of literals with low = 1. The opposite of a literal, [x_i != a], is 1 - [x_i = a].

    `when` has a literal for each scope: (i, a) is x_i = a, and (i, a, 0) is x_i != a. The bounds then count only where
    the literal holds; with `exactly` the literal must also be false where the sum is outside its bounds.
    Violation: the distance of the sum from the bounds; with `exactly`, where the literal is false, from being outside.
    """

    kind = "sum"
    per_entry: ClassVar[tuple[str, ...]] = ("weights", "equals")

    def __init__(
        self,
        scopes: Rows,
        weights: Rows | None = None,
        equals: Rows | None = None,
        low: Sequence[int | None] | npt.ArrayLike | None = None,
        high: Sequence[int | None] | npt.ArrayLike | None = None,
        when: npt.ArrayLike | None = None,
        exactly: bool = False,
    ):
        self.scopes = Scopes(scopes)
        ones = np.ones(len(self.scopes.variables), np.int64)
        self.weights = integers(ones, "weights", 1) if weights is None else self.scopes.entries(weights, "weights")
        self.equals = integers(NUMBER * ones, "e", 1) if equals is None else self.scopes.entries(equals, "equals")
        self._set_bounds(_bounds(low, len(self), -FAR, "low"), _bounds(high, len(self), FAR, "high"))
        self.when = None if when is None else self._literals(when)
        if not isinstance(exactly, bool):
            raise ValueError(f"exactly must be true or false, got {exactly!r}")
        self.exactly = exactly
        if exactly and (self.when is None or ((self.low <= -FAR) & (self.high >= FAR)).any()):
            raise ValueError("exactly needs `when` and at least one bound for each scope")

    def _set_bounds(self, low: npt.ArrayLike, high: npt.ArrayLike) -> None:
        self.low, self.high = integers(low, "low", 1), integers(high, "high", 1)
        for name, given in (("low", self.low), ("high", self.high)):
            _require_each(given, len(self), name)
        if (self.low > self.high).any():
            at = int(np.argmax(self.low > self.high))
            raise ValueError(f"low must not exceed high, got {self.low[at]} > {self.high[at]} in scope {at}")

    def _literals(self, given: npt.ArrayLike) -> IntArray:
        """(m, 3): variable, value, 1 for = and 0 for !=."""
        listed = given.tolist() if isinstance(given, np.ndarray) else list(given)  # type: ignore[arg-type]
        pairs = [isinstance(row, Sequence) and len(row) == 2 for row in listed]
        rows = integers([[*row, 1] if two else row for row, two in zip(listed, pairs, strict=True)], "when", 2, 3)
        _require_each(rows, len(self), "when")
        check_range(rows[:, 2], 0, 2, "the truth of `when`")
        return rows

    def __len__(self) -> int:
        return len(self.scopes)

    def scope(self, index: int) -> IntArray:
        condition = [] if self.when is None else [int(self.when[index, 0])]
        return distinct_of([*self.scopes[index].tolist(), *condition])

    @property
    def members(self) -> Scopes:
        conditions = np.zeros(0, np.int64) if self.when is None else self.when[:, 0]
        variables = np.concatenate([self.scopes.variables, conditions])
        return Scopes.distinct(variables, np.concatenate([self.scopes.owner, np.arange(len(conditions))]), len(self))

    @property
    def limits(self) -> IntArray:
        """(m, 2): lowest and highest allowed sum; -FAR and FAR where there is no bound."""
        return np.clip(np.stack([self.low, self.high], 1), -FAR, FAR)

    def validate(self, domains: Domains) -> None:
        variables, is_number = self.scopes.variables, self.equals < 0
        check_range(variables, 0, len(domains), f"{self.kind} scopes")
        domains.require_numbers(variables[is_number], self.kind)
        self._validate_literals(domains)
        largest = np.maximum(np.abs(domains.least), np.abs(domains.greatest)).astype(np.float64)
        amounts = np.abs(self.weights.astype(np.float64)) * np.where(is_number, largest[variables], 1.0)
        sums = np.bincount(self.scopes.owner, amounts, len(self))
        if sums.max(initial=0) > LARGEST_SUM:
            raise ValueError(f"{self.kind} {self.per_entry[0]} are too large: a sum would not fit 64 bits")
        if self.low.max(initial=0) > LARGEST_SUM or self.high.min(initial=0) < -LARGEST_SUM:
            raise ValueError(f"{self.kind} has a bound that no sum of 64 bits can reach")

    def _validate_literals(self, domains: Domains) -> None:
        is_literal = self.equals >= 0
        check_range(self.equals, NUMBER, 1 << 62, f"{self.kind} equals")
        sizes = domains.sizes[self.scopes.variables[is_literal]]
        check_range(self.equals[is_literal], 0, sizes, f"{self.kind} equals")
        if self.when is not None:
            check_range(self.when[:, 0], 0, len(domains), f"{self.kind} when")
            check_range(self.when[:, 1], 0, domains.sizes[self.when[:, 0]], f"{self.kind} when")

    def violations(self, values: IntArray, numbers: IntArray | None = None) -> IntArray:
        variables, (low, high) = self.scopes.variables, self.limits.T
        terms = np.where(self.equals < 0, (values if numbers is None else numbers)[variables], 0)
        terms = np.where(self.equals < 0, terms, values[variables] == self.equals)
        total = self.scopes.total(self.weights * terms)
        outside = np.maximum(total - high, 0) + np.maximum(low - total, 0)
        if self.when is None:
            return outside
        holds = (values[self.when[:, 0]] == self.when[:, 1]) == (self.when[:, 2] == 1)
        inside = np.maximum(np.minimum(total - low, high - total) + 1, 0)
        return np.where(holds, outside, inside if self.exactly else 0)

    def inputs(self, index: int, variable: int, domains: Domains) -> IntArray | None:
        entries = self.scopes.entries_of(index)
        own = self.scopes[index] == variable
        others = distinct_of(self.scopes[index][~own].tolist())
        if self.when is not None:
            switches = self.exactly and self.when[index, 0] == variable and domains.sizes[variable] == 2
            return others if switches and not own.any() else None
        one_term = own.sum() == 1 and self.equals[entries][own] < 0 and abs(self.weights[entries][own]) == 1
        return others if one_term and self.low[index] == self.high[index] else None


class Linear(Sum):
    """sum_i coefficient_i * x_i  <=, = or >=  bound, with integer coefficients, for each scope.

    Violation: the distance of the sum from the nearest allowed number.
    """

    kind = "linear"
    per_entry = ("coefficients",)

    def __init__(
        self,
        scopes: Rows,
        coefficients: Sequence[Sequence[int]],
        relations: Sequence[str],
        bounds: npt.ArrayLike,
    ):
        self.scopes = Scopes(scopes)
        self.scopes.require_distinct("scopes")
        self.coefficients = self.weights = self.scopes.entries(coefficients, "coefficients")
        self.equals = integers(np.full(len(self.weights), NUMBER), "equals", 1)
        self.bounds, self.relations = integers(bounds, "bounds", 1), tuple(relations)
        _require_each(self.bounds, len(self), "bounds")
        _require_each(self.relations, len(self), "relations")
        for relation in self.relations:
            if relation not in RELATIONS:
                raise ValueError(f"relations must be one of {', '.join(RELATIONS)}, got {relation!r}")
        signs = np.array([RELATIONS.index(r) for r in self.relations], np.int64)  # 0: <=, 1: =, 2: >=
        self._set_bounds(np.where(signs >= 1, self.bounds, -FAR), np.where(signs <= 1, self.bounds, FAR))
        self.when, self.exactly = None, False


class Count(Sum):
    """low <= (number of variables of the scope that take `value`) <= high, for each scope."""

    kind = "count"
    per_entry = ()

    def __init__(self, scopes: Rows, values: npt.ArrayLike, low: npt.ArrayLike, high: npt.ArrayLike):
        self.scopes = Scopes(scopes)
        self.scopes.require_distinct("scopes")
        self.values = integers(values, "values", 1)
        _require_each(self.values, len(self), "values")
        self.equals = integers(self.values[self.scopes.owner], "values", 1)
        self.weights = integers(np.ones(len(self.equals), np.int64), "weights", 1)
        self._set_bounds(low, high)
        self.when, self.exactly = None, False

    def _validate_literals(self, domains: Domains) -> None:
        """One value is counted in variables with different domains: those that do not have it never take it."""
        check_range(self.values, 0, int(domains.sizes.max(initial=0)), "count values")


def _bounds(given: Any, number: int, missing: int, name: str) -> IntArray:
    """One for each scope; `missing` where None says that there is no bound."""
    rows = np.full(number, None) if given is None else np.asarray(given, object)
    if rows.ndim != 1:
        raise ValueError(f"{name} must be a list of whole numbers, got {given!r}")
    return integers([missing if one is None else one for one in rows.tolist()], name, 1)


def _require_each(given: Sequence[Any] | IntArray, number: int, name: str) -> None:
    if len(given) != number:
        raise ValueError(f"{name} must have one entry per scope: {len(given)} for {number} scopes")
