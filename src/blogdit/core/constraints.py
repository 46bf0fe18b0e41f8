"""The constraint kinds, each with its exact check.

Constraints come in groups: one object holds every constraint of a kind, as arrays (a graph with a million edges
is one `NotEqual` with a (1000000, 2) array). A group is validated by name when it is built and is read-only.

The checks share nothing with the relaxed energy that guides the search; they need numpy alone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from blogdit.core.arrays import FloatArray as FloatArray
from blogdit.core.arrays import IntArray as IntArray
from blogdit.core.arrays import check_range, integers

RELATIONS = ("<=", "=", ">=")
FAR = 1 << 62  # beyond every sum and count, and differences to it still fit 64 bits
LARGEST_SEED = 1 << 62  # likewise: some are added to small numbers


class WriteOnce:
    """An object whose attributes cannot be replaced once they are set."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self.__dict__:
            raise AttributeError(f"{type(self).__name__}.{name} cannot be changed; build a new one")
        super().__setattr__(name, value)


class Scopes(WriteOnce):
    """Lists of variables of different lengths: list j is `variables[offsets[j]:offsets[j + 1]]`."""

    def __init__(self, scopes: npt.ArrayLike | Sequence[Sequence[int]], name: str = "scopes"):
        if isinstance(scopes, np.ndarray) and scopes.ndim == 2:
            self.variables = integers(scopes.reshape(-1), name, 1)
            lengths = np.full(len(scopes), scopes.shape[1], np.int64)
        else:
            rows = [integers(scope, f"{name}[{j}]", 1) for j, scope in enumerate(scopes)]  # type: ignore[arg-type]
            self.variables = integers(np.concatenate(rows) if rows else [], name, 1)
            lengths = np.array([len(row) for row in rows], np.int64)
        if (lengths == 0).any():
            raise ValueError(f"{name}[{int(np.argmin(lengths))}] is empty")
        self.offsets = integers(np.concatenate([[0], np.cumsum(lengths)]), "offsets", 1)
        self.owner = integers(np.repeat(np.arange(len(lengths)), lengths), "owner", 1)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: int) -> IntArray:
        return self.variables[self.offsets[index] : self.offsets[index + 1]]

    @property
    def lengths(self) -> IntArray:
        return np.diff(self.offsets)

    def require_distinct(self, name: str) -> None:
        order = np.lexsort((self.variables, self.owner))
        owner, variables = self.owner[order], self.variables[order]
        twice = (owner[1:] == owner[:-1]) & (variables[1:] == variables[:-1])
        if twice.any():
            at = int(np.argmax(twice))
            raise ValueError(f"{name}[{owner[at]}] names variable {variables[at]} twice")

    def same_lists(self, other: Scopes) -> bool:
        """Whether both hold the same lists in the same order."""
        return np.array_equal(self.offsets, other.offsets) and np.array_equal(self.variables, other.variables)

    def total(self, amounts: npt.NDArray[Any]) -> IntArray:
        """Sum of one integer per list entry, for each list."""
        sums: IntArray = (
            np.add.reduceat(amounts, self.offsets[:-1]).astype(np.int64) if len(self) else np.zeros(0, np.int64)
        )
        return sums


class Constraint(WriteOnce, ABC):
    """A group of constraints of one kind."""

    kind: ClassVar[str]

    @abstractmethod
    def __len__(self) -> int:
        """How many constraints the group holds."""

    @abstractmethod
    def scope(self, index: int) -> IntArray:
        """The variables of constraint `index`."""

    @abstractmethod
    def violations(self, values: IntArray) -> IntArray:
        """How far each constraint is from being satisfied: 0 if and only if it holds."""

    @abstractmethod
    def validate(self, domain_sizes: IntArray) -> None:
        """Raise a ValueError if the group does not fit variables with these domains."""


class AllDifferent(Constraint):
    """The variables of each scope take pairwise different values.

    Violation: how many variables would have to change, sum over values of max(0, occurrences - 1).
    """

    kind = "all_different"

    def __init__(self, scopes: npt.ArrayLike | Sequence[Sequence[int]]):
        self.scopes = Scopes(scopes)
        self.scopes.require_distinct("scopes")

    def __len__(self) -> int:
        return len(self.scopes)

    def scope(self, index: int) -> IntArray:
        return self.scopes[index]

    def validate(self, domain_sizes: IntArray) -> None:
        check_range(self.scopes.variables, 0, len(domain_sizes), "all_different scopes")

    def violations(self, values: IntArray) -> IntArray:
        taken = values[self.scopes.variables]
        low = int(taken.min()) if len(taken) else 0
        span = (int(taken.max()) - low if len(taken) else 0) + 1
        keys = np.sort(self.scopes.owner * span + (taken - low))
        repeated = keys[1:][keys[1:] == keys[:-1]] // span
        return np.bincount(repeated, minlength=len(self)).astype(np.int64)


class NotEqual(Constraint):
    """x_i != x_j for each row (i, j) of `pairs`."""

    kind = "not_equal"

    def __init__(self, pairs: npt.ArrayLike):
        self.pairs = integers(pairs, "pairs", 2, 2)
        require_two_variables(self.pairs)

    def __len__(self) -> int:
        return len(self.pairs)

    def scope(self, index: int) -> IntArray:
        return self.pairs[index]

    def validate(self, domain_sizes: IntArray) -> None:
        check_range(self.pairs, 0, len(domain_sizes), "not_equal pairs")

    def violations(self, values: IntArray) -> IntArray:
        return (values[self.pairs[:, 0]] == values[self.pairs[:, 1]]).astype(np.int64)


class Conflict(Constraint):
    """Not both x_i = a and x_j = b, for each row (i, j) of `pairs` and (a, b) of `values`.

    A relation between two variables with several forbidden value pairs is several rows; at most one of them
    can be violated at a time, so counting rows counts relations. One (a, b) may serve all rows.
    """

    kind = "conflict"

    def __init__(self, pairs: npt.ArrayLike, values: npt.ArrayLike):
        self.pairs = integers(pairs, "pairs", 2, 2)
        require_two_variables(self.pairs)
        given = np.asarray(values)
        if given.ndim == 1 and given.shape == (2,):
            given = np.broadcast_to(given, self.pairs.shape)
        self.values = integers(given, "values", 2, 2)
        if len(self.values) != len(self.pairs):
            raise ValueError(f"values must have one row per pair: {len(self.values)} rows for {len(self.pairs)} pairs")

    def __len__(self) -> int:
        return len(self.pairs)

    def scope(self, index: int) -> IntArray:
        return self.pairs[index]

    def validate(self, domain_sizes: IntArray) -> None:
        check_range(self.pairs, 0, len(domain_sizes), "conflict pairs")
        check_range(self.values, 0, domain_sizes[self.pairs], "conflict values")

    def violations(self, values: IntArray) -> IntArray:
        return (values[self.pairs] == self.values).all(axis=1).astype(np.int64)


class Linear(Constraint):
    """sum_i coefficient_i * x_i  <=, = or >=  bound, with integer coefficients, for each scope.

    Violation: the distance of the sum from the nearest allowed number.
    """

    kind = "linear"

    def __init__(
        self,
        scopes: npt.ArrayLike | Sequence[Sequence[int]],
        coefficients: Sequence[Sequence[int]],
        relations: Sequence[str],
        bounds: npt.ArrayLike,
    ):
        self.scopes = Scopes(scopes)
        self.scopes.require_distinct("scopes")
        weights = Scopes(coefficients, "coefficients")
        if not np.array_equal(weights.offsets, self.scopes.offsets):
            raise ValueError("coefficients must have one number for each variable of each scope")
        self.coefficients = weights.variables
        self.bounds = integers(bounds, "bounds", 1)
        self.relations = tuple(relations)
        for name, given in (("bounds", self.bounds), ("relations", self.relations)):
            if len(given) != len(self.scopes):
                raise ValueError(f"{name} must have one entry per scope: {len(given)} for {len(self.scopes)} scopes")
        for relation in self.relations:
            if relation not in RELATIONS:
                raise ValueError(f"relations must be one of {', '.join(RELATIONS)}, got {relation!r}")
        # A side that is not asked for can never be missed: low <= sum <= high with an infinite bound.
        signs = np.array([RELATIONS.index(r) for r in self.relations], np.int64)  # 0: <=, 1: =, 2: >=
        self.bounds_below, self.bounds_above = signs >= 1, signs <= 1

    def __len__(self) -> int:
        return len(self.scopes)

    def scope(self, index: int) -> IntArray:
        return self.scopes[index]

    def validate(self, domain_sizes: IntArray) -> None:
        check_range(self.scopes.variables, 0, len(domain_sizes), "linear scopes")
        largest = np.abs(self.coefficients.astype(np.float64)) * domain_sizes[self.scopes.variables]
        sums = np.bincount(self.scopes.owner, largest, len(self)) + np.abs(self.bounds.astype(np.float64))
        if sums.max(initial=0) > 0.99 * FAR:  # float64 may be a little off
            raise ValueError("linear coefficients are too large: a sum would not fit 64 bits")

    def violations(self, values: IntArray) -> IntArray:
        excess = self.scopes.total(self.coefficients * values[self.scopes.variables]) - self.bounds
        above = np.where(self.bounds_above, np.maximum(excess, 0), 0)
        below = np.where(self.bounds_below, np.maximum(-excess, 0), 0)
        return above + below


class Count(Constraint):
    """low <= (number of variables of the scope that take `value`) <= high, for each scope."""

    kind = "count"

    def __init__(
        self,
        scopes: npt.ArrayLike | Sequence[Sequence[int]],
        values: npt.ArrayLike,
        low: npt.ArrayLike,
        high: npt.ArrayLike,
    ):
        self.scopes = Scopes(scopes)
        self.scopes.require_distinct("scopes")
        self.values = integers(values, "values", 1)
        self.low = integers(low, "low", 1)
        self.high = integers(high, "high", 1)
        for name, given in (("values", self.values), ("low", self.low), ("high", self.high)):
            if len(given) != len(self.scopes):
                raise ValueError(f"{name} must have one entry per scope: {len(given)} for {len(self.scopes)} scopes")
        if (self.low > self.high).any():
            at = int(np.argmax(self.low > self.high))
            raise ValueError(f"low must not exceed high, got {self.low[at]} > {self.high[at]} in scope {at}")

    def __len__(self) -> int:
        return len(self.scopes)

    def scope(self, index: int) -> IntArray:
        return self.scopes[index]

    def validate(self, domain_sizes: IntArray) -> None:
        check_range(self.scopes.variables, 0, len(domain_sizes), "count scopes")
        check_range(self.values, 0, int(domain_sizes.max(initial=0)), "count values")

    def violations(self, values: IntArray) -> IntArray:
        number = self.scopes.total(values[self.scopes.variables] == self.values[self.scopes.owner])
        low, high = (np.clip(bounds, -FAR, FAR) for bounds in (self.low, self.high))
        return np.maximum(number - high, 0) + np.maximum(low - number, 0)


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

    def validate(self, domain_sizes: IntArray) -> None:
        check_range(self.scopes, 0, len(domain_sizes), "table scopes")
        check_range(self.tuples, 0, int(domain_sizes.max(initial=0)), "table tuples")

    def violations(self, values: IntArray) -> IntArray:
        allowed = {row.tobytes() for row in self.tuples}
        taken = np.ascontiguousarray(values[self.scopes])
        return np.array([row.tobytes() not in allowed for row in taken], np.int64)


def require_two_variables(pairs: IntArray) -> None:
    same = pairs[:, 0] == pairs[:, 1]
    if same.any():
        at = int(np.argmax(same))
        raise ValueError(f"pairs[{at}] joins variable {pairs[at, 0]} with itself")
