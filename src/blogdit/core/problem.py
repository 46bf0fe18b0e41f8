"""Write a problem down variable by variable, with the names that you use; `instance()` is what solvers take.

A variable is a number from `variable`. A literal is (variable, value), or (variable, value, False) for "is not". A term
of a sum is (weight, variable), which counts the number of the variable, or (weight, variable, value), which counts 1
where it has the value. Values are named as `variable` was told. Whatever takes a `weight` becomes soft with it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from blogdit.core.constraints import AllDifferent, Constraint, Function, NotEqual, Sum, Table
from blogdit.core.constraints.sums import NUMBER
from blogdit.core.instance import Instance
from blogdit.core.objective import Objective, Sense

Literal = tuple[Any, ...]
Term = tuple[Any, ...]
Place = tuple[int, int]  # of a constraint: the number of its group, and its own in the group
# Rows that one group is built from, column by column; and their weights, if they are soft
Rows = tuple[Callable[..., Constraint], list[tuple[Any, ...]], list[Any]]


class Problem:
    """Variables, constraints and an objective that grow call by call."""

    def __init__(self, problem: str = "csp", name: str = ""):
        self.problem, self.name = problem, name
        self.labels: list[Any] = []
        self.values: list[tuple[Any, ...]] = []
        self.places: list[dict[Any, int]] = []  # of each variable: value -> its place in the list of values
        self.givens: dict[int, int] = {}
        self.derived: list[tuple[int, int, int]] = []
        self.must_hold: dict[Any, Rows] = {}
        self.soft: dict[Any, Rows] = {}
        self.sense: Sense = "minimize"
        self.goal: list[Term] | None = None

    def variable(self, label: Any, values: Sequence[Any] = (0, 1), given: Any = None) -> int:
        """A new variable, with whole numbers or names as values. A label of two parts, (row, column), makes a table."""
        self.labels.append(label)
        self.values.append(tuple(values))
        self.places.append({value: place for place, value in enumerate(self.values[-1])})
        if given is not None:
            self.givens[len(self.labels) - 1] = self._place(len(self.labels) - 1, given)
        return len(self.labels) - 1

    # -- constraints -----------------------------------------------------------------------------------------------

    def add(self, group: Constraint, weight: Any = None) -> None:
        """Any group of constraints, as `Instance` takes them: values by their places."""
        self._groups(weight)[object()] = (lambda: group, [], [weight])

    def different(
        self, variables: Sequence[int], offsets: Sequence[int] | None = None, weight: float | None = None
    ) -> None:
        """All values differ; with offsets, x_i + offset_i do."""
        if offsets is not None:
            self._put((AllDifferent, "offsets"), AllDifferent, (list(variables), list(offsets)), weight)
        elif len(variables) == 2 and self.values[variables[0]] == self.values[variables[1]]:
            self._put(NotEqual, lambda *ends: NotEqual(list(zip(*ends, strict=True))), tuple(variables), weight)
        else:
            self._put(AllDifferent, AllDifferent, (list(variables),), weight)

    def clause(self, literals: Sequence[Literal], weight: float | None = None) -> None:
        """At least one of the literals holds."""
        signed = [(1 if holds else -1, variable, value) for variable, value, holds in map(_whole, literals)]
        self.sum(signed, low=1 - sum(sign < 0 for sign, _, _ in signed), weight=weight)

    def sum(
        self,
        terms: Sequence[Term],
        low: int | None = None,
        high: int | None = None,
        when: Literal | None = None,
        exactly: bool = False,
        weight: float | None = None,
    ) -> Place:
        """low <= sum <= high, if the literal `when` holds; with `exactly`, and only if it holds."""
        equals = [self._place(i, value[0]) if value else NUMBER for _, i, *value in terms]
        row: list[Any] = [[term[1] for term in terms], [term[0] for term in terms], equals, low, high]
        if when is not None:
            variable, value, holds = _whole(when)
            row.append((variable, self._place(variable, value), int(holds)))

        def build(scopes: Any, weights: Any, equals: Any, low: Any, high: Any, when: Any = None) -> Sum:
            return Sum(scopes, weights, equals, low, high, when, exactly)

        return self._put((Sum, when is None, exactly), build, tuple(row), weight)

    def table(self, variables: Sequence[int], rows: Sequence[Sequence[Any]], weight: float | None = None) -> Place:
        """The values, in order, are one of the rows."""
        tuples = tuple(tuple(self._place(i, value) for i, value in zip(variables, row, strict=True)) for row in rows)
        return self._put((Table, tuples), lambda scopes: Table(scopes, tuples), (list(variables),), weight)

    # -- variables that follow from others -------------------------------------------------------------------------

    def total(self, label: Any, terms: Sequence[Term], values: Sequence[int] | None = None) -> int:
        """A variable that is the sum; `values` are those that it may take, all between its ends if none are named."""
        spans = [[weight * n for n in ((0, 1) if rest else self.values[i])] for weight, i, *rest in terms]
        every = range(sum(map(min, spans)), sum(map(max, spans)) + 1) if values is None else values
        result = self.variable(label, every)
        return self._derive(result, self.sum([*terms, (-1, result)], 0, 0))

    def truth(self, label: Any, terms: Sequence[Term], low: int | None = None, high: int | None = None) -> int:
        """A variable that is 1 where low <= sum <= high, and 0 elsewhere."""
        result = self.variable(label)
        return self._derive(result, self.sum(terms, low, high, (result, 1), exactly=True))

    def minimum(self, label: Any, variables: Sequence[int]) -> int:
        return self._function("min", label, [*variables])

    def maximum(self, label: Any, variables: Sequence[int]) -> int:
        return self._function("max", label, [*variables])

    def element(self, label: Any, index: int, choices: Sequence[int], numbers: bool = False) -> int:
        """The one of the choices, variables or `numbers`, that has the place which the value of `index` has."""
        if not numbers:
            return self._function("element", label, [index, *choices])
        result = self.variable(label, sorted(set(choices)))
        return self._derive(result, self.table((index, result), list(zip(self.values[index], choices, strict=True))))

    # -- objective -------------------------------------------------------------------------------------------------

    def minimize(self, terms: Sequence[Term]) -> None:
        self.sense, self.goal = "minimize", list(terms)

    def maximize(self, terms: Sequence[Term]) -> None:
        self.sense, self.goal = "maximize", list(terms)

    def instance(self) -> Instance:
        """What has been written down so far."""
        soft = [
            (build(*zip(*rows, strict=True)), weights if rows else weights[0])
            for build, rows, weights in self.soft.values()
        ]
        goal = None
        if self.goal is not None or soft:
            unary = [(weight, i, self._place(i, value[0])) for weight, i, *value in self.goal or () if value]
            linear = [(weight, i) for weight, i, *value in self.goal or () if not value]
            goal = Objective(
                self.sense,
                unary=[term[1:] for term in unary],
                unary_weights=[term[0] for term in unary],
                linear=[i for _, i in linear],
                linear_weights=[weight for weight, _ in linear],
                soft=soft,
            )
        return Instance(
            np.array([len(row) for row in self.values], np.int64),
            tuple(build(*zip(*rows, strict=True)) for build, rows, _ in self.must_hold.values()),
            goal,
            self.givens,
            self.problem,
            self.name,
            labels=self.labels,
            values=self.values,
            derived=self.derived,  # type: ignore[arg-type]
        )

    # -- rows ------------------------------------------------------------------------------------------------------

    def _place(self, variable: int, value: Any) -> int:
        if value not in self.places[variable]:
            known = ", ".join(map(repr, self.values[variable][:12]))
            raise ValueError(f"{self.labels[variable]!r} has no value {value!r}; expected one of {known}")
        return self.places[variable][value]

    def _groups(self, weight: Any) -> dict[Any, Rows]:
        return self.must_hold if weight is None else self.soft

    def _put(self, key: Any, build: Callable[..., Constraint], row: tuple[Any, ...], weight: Any) -> Place:
        """Add a row to the group of its key; returns the number of the group, and that of the row in it."""
        groups = self._groups(weight)
        _, rows, weights = groups.setdefault(key, (build, [], []))
        rows.append(row)
        weights.append(weight)
        return list(groups).index(key), len(rows) - 1

    def _function(self, which: str, label: Any, scope: list[int]) -> int:
        among = scope[1:] if which == "element" else scope
        result = self.variable(label, sorted(set().union(*(self.values[i] for i in among))))

        def build(results: Any, scopes: Any) -> Function:
            return Function(which, results, scopes)

        return self._derive(result, self._put((Function, which), build, (result, scope), None))

    def _derive(self, variable: int, at: Place) -> int:
        self.derived.append((variable, *at))
        return variable


def _whole(literal: Literal) -> tuple[int, Any, bool]:
    variable, value, *holds = literal
    return variable, value, not holds or bool(holds[0])
