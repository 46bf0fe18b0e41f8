"""Variables whose value follows from others: tables of allowed values, minimum, maximum, element."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from blogdit.core.arrays import IntArray, check_range, integers
from blogdit.core.constraints.base import Constraint, Scopes, distinct_of
from blogdit.core.domains import Domains

FUNCTIONS = ("min", "max", "element")


class Table(Constraint):
    """The values of each scope, in order, form one of the allowed `tuples`. Violation: 1 if they do not."""

    kind = "table"

    def __init__(self, scopes: npt.ArrayLike, tuples: npt.ArrayLike):
        self.scopes = integers(scopes, "scopes", 2)
        Scopes(self.scopes).require_distinct("scopes")
        self.tuples = integers(tuples, "tuples", 2, self.scopes.shape[1] if len(self.scopes) else None)
        if len(self.tuples) == 0 and len(self.scopes):
            raise ValueError("tuples must name at least one allowed tuple")

    def __len__(self) -> int:
        return len(self.scopes)

    def scope(self, index: int) -> IntArray:
        return self.scopes[index]

    @property
    def members(self) -> Scopes:
        return Scopes(self.scopes)

    def validate(self, domains: Domains) -> None:
        check_range(self.scopes, 0, len(domains), "table scopes")
        check_range(self.tuples, 0, int(domains.sizes.max(initial=0)), "table tuples")

    def violations(self, values: IntArray, numbers: IntArray | None = None) -> IntArray:
        allowed = {row.tobytes() for row in self.tuples}
        taken = np.ascontiguousarray(values[self.scopes])
        return np.array([row.tobytes() not in allowed for row in taken], np.int64)

    def inputs(self, index: int, variable: int, domains: Domains) -> IntArray | None:
        others = self.scopes[index] != variable
        distinct = np.unique(self.tuples, axis=0)
        if others.all() or len(np.unique(distinct[:, others], axis=0)) < len(distinct):
            return None
        return self.scopes[index][others]


class Function(Constraint):
    """result = min(scope), result = max(scope), or result = xs[i] for a scope (i, *xs), with a result for each scope.

    Results and scopes are compared as numbers, except the index i of `element`: its first value chooses the first x.
    Violation: the distance of the result from what it should be.
    """

    kind = "function"

    def __init__(self, which: str, results: npt.ArrayLike, scopes: npt.ArrayLike | Sequence[Sequence[int]]):
        if which not in FUNCTIONS:
            raise ValueError(f"which must be one of {', '.join(FUNCTIONS)}, got {which!r}")
        self.which = which
        self.results = integers(results, "results", 1)
        self.scopes = Scopes(scopes)
        if len(self.results) != len(self.scopes):
            raise ValueError(
                f"results must have one entry per scope: {len(self.results)} for {len(self.scopes)} scopes"
            )
        if which == "element" and (self.scopes.lengths < 2).any():
            raise ValueError(f"scopes[{int(self.scopes.lengths.argmin())}] needs an index and something to choose from")

    def __len__(self) -> int:
        return len(self.scopes)

    def scope(self, index: int) -> IntArray:
        return distinct_of([*self.scopes[index].tolist(), int(self.results[index])])

    @property
    def members(self) -> Scopes:
        variables = np.concatenate([self.scopes.variables, self.results])
        return Scopes.distinct(variables, np.concatenate([self.scopes.owner, np.arange(len(self))]), len(self))

    def validate(self, domains: Domains) -> None:
        for variables in (self.scopes.variables, self.results):
            check_range(variables, 0, len(domains), "function variables")
        is_index = self.is_index
        domains.require_numbers(self.scopes.variables[~is_index], "function")
        domains.require_numbers(self.results, "function")
        sizes = domains.sizes[self.scopes.variables[is_index]]
        if self.which == "element" and (sizes >= self.scopes.lengths).any():
            at = int(np.argmax(sizes >= self.scopes.lengths))
            number = self.scopes.lengths[at] - 1
            raise ValueError(f"function element has an index of {sizes[at]} values for {number} to choose from")

    @property
    def is_index(self) -> npt.NDArray[np.bool_]:
        """Which entries of the scopes choose among the others."""
        chosen = np.zeros(len(self.scopes.variables), np.bool_)
        if self.which == "element":
            chosen[self.scopes.offsets[:-1]] = True
        return chosen

    def violations(self, values: IntArray, numbers: IntArray | None = None) -> IntArray:
        numbers = values if numbers is None else numbers
        entries, starts = numbers[self.scopes.variables], self.scopes.offsets[:-1]
        if not len(self):
            return np.zeros(0, np.int64)
        if self.which == "element":
            chosen = np.clip(values[self.scopes.variables[starts]], 0, self.scopes.lengths - 2)
            wanted = entries[starts + 1 + chosen]
        else:
            wanted = (np.minimum if self.which == "min" else np.maximum).reduceat(entries, starts)
        return np.abs(numbers[self.results] - wanted)

    def inputs(self, index: int, variable: int, domains: Domains) -> IntArray | None:
        scope = self.scopes[index]
        return None if self.results[index] != variable or variable in scope else distinct_of(scope.tolist())
