"""Variables that all differ."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from blogdit.core.arrays import IntArray, check_range
from blogdit.core.constraints.base import Constraint, Scopes
from blogdit.core.domains import MOST_VALUES, Domains


class AllDifferent(Constraint):
    """The variables of each scope take pairwise different values; with `offsets` the sums x_i + offset_i differ.

    `offsets` has a whole number for each variable of each scope: the queens of a board have two such groups, one for
    each direction of its diagonals. Values are compared by what they mean.
    Violation: how many variables would have to change, sum over values of max(0, occurrences - 1).
    """

    kind = "all_different"
    per_entry = ("offsets",)

    def __init__(self, scopes: npt.ArrayLike | Sequence[Sequence[int]], offsets: Sequence[Sequence[int]] | None = None):
        self.scopes = Scopes(scopes)
        self.scopes.require_distinct("scopes")
        self.offsets = None if offsets is None else self.scopes.entries(offsets, "offsets")
        if self.offsets is not None:
            check_range(self.offsets, -MOST_VALUES, MOST_VALUES + 1, "offsets")

    def __len__(self) -> int:
        return len(self.scopes)

    def scope(self, index: int) -> IntArray:
        return self.scopes[index]

    @property
    def members(self) -> Scopes:
        return self.scopes

    def validate(self, domains: Domains) -> None:
        check_range(self.scopes.variables, 0, len(domains), "all_different scopes")
        if self.offsets is not None:
            domains.require_numbers(self.scopes.variables, "all_different with offsets")

    def violations(self, values: IntArray, numbers: IntArray | None = None) -> IntArray:
        taken = (values if numbers is None else numbers)[self.scopes.variables]
        taken = taken if self.offsets is None else taken + self.offsets
        low, high = (int(taken.min()), int(taken.max())) if len(taken) else (0, 0)
        if high - low > MOST_VALUES:  # names are far beyond numbers
            every, taken = np.unique(taken, return_inverse=True)
            low, high = 0, len(every) - 1
        span = high - low + 1
        keys = np.sort(self.scopes.owner * span + (taken - low))
        repeated = keys[1:][keys[1:] == keys[:-1]] // span
        return np.bincount(repeated, minlength=len(self)).astype(np.int64)
