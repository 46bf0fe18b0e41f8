"""Constraints on two variables."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from blogdit.core.arrays import IntArray, check_range, integers
from blogdit.core.constraints.base import Constraint, Scopes
from blogdit.core.domains import Domains


class OnPairs(Constraint):
    """Constraints on the two variables of each row (i, j) of `pairs`."""

    pairs: IntArray

    def __len__(self) -> int:
        return len(self.pairs)

    def scope(self, index: int) -> IntArray:
        return self.pairs[index]

    @property
    def members(self) -> Scopes:
        return Scopes(self.pairs)


class NotEqual(OnPairs):
    """x_i != x_j for each row (i, j) of `pairs`, two variables with the same values."""

    kind = "not_equal"

    def __init__(self, pairs: npt.ArrayLike):
        self.pairs = integers(pairs, "pairs", 2, 2)
        require_two_variables(self.pairs)

    def validate(self, domains: Domains) -> None:
        check_range(self.pairs, 0, len(domains), "not_equal pairs")
        domains.require_aligned(self.pairs, "not_equal")

    def violations(self, values: IntArray, numbers: IntArray | None = None) -> IntArray:
        return (values[self.pairs[:, 0]] == values[self.pairs[:, 1]]).astype(np.int64)


class Conflict(OnPairs):
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

    def validate(self, domains: Domains) -> None:
        check_range(self.pairs, 0, len(domains), "conflict pairs")
        check_range(self.values, 0, domains.sizes[self.pairs], "conflict values")

    def violations(self, values: IntArray, numbers: IntArray | None = None) -> IntArray:
        first, second = (values[self.pairs[:, end]] == self.values[:, end] for end in (0, 1))
        return (first & second).astype(np.int64)


def require_two_variables(pairs: IntArray) -> None:
    same = pairs[:, 0] == pairs[:, 1]
    if same.any():
        at = int(np.argmax(same))
        raise ValueError(f"pairs[{at}] joins variable {pairs[at, 0]} with itself")
