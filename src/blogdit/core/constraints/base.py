"""What all constraint kinds share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from blogdit.core.arrays import IntArray, WriteOnce, distinct, integers
from blogdit.core.domains import Domains

FAR = 1 << 62  # beyond every sum and count, and differences to it still fit 64 bits
LARGEST_SEED = 1 << 62  # likewise: some are added to small numbers

Rows = Any  # lists of whole numbers: a two-dimensional array, a sequence of sequences, or Scopes


class Scopes(WriteOnce):
    """Lists of variables of different lengths: list j is `variables[offsets[j]:offsets[j + 1]]`.

    With `lengths`, `scopes` is one array with all lists, one behind the other: a million of them take no time.
    """

    def __init__(self, scopes: Rows, name: str = "scopes", lengths: npt.ArrayLike | None = None):
        self.variables: IntArray
        if isinstance(scopes, Scopes):
            self.variables, lengths = scopes.variables, scopes.lengths
        elif lengths is not None:
            self.variables, lengths = integers(scopes, name, 1), integers(lengths, f"lengths of {name}", 1)
            if lengths.sum() != len(self.variables):
                raise ValueError(f"lengths of {name} must add up to {len(self.variables)}, got {lengths.sum()}")
        elif isinstance(scopes, np.ndarray) and scopes.ndim == 2:
            self.variables = integers(scopes.reshape(-1), name, 1)
            lengths = np.full(len(scopes), scopes.shape[1], np.int64)
        else:
            rows = [integers(scope, f"{name}[{j}]", 1) for j, scope in enumerate(scopes)]
            self.variables = integers(np.concatenate(rows) if rows else [], name, 1)
            lengths = np.array([len(row) for row in rows], np.int64)
        if (lengths == 0).any():
            raise ValueError(f"{name}[{int(np.argmin(lengths))}] is empty")
        self.offsets = integers(np.concatenate([[0], np.cumsum(lengths)]), "offsets", 1)
        self.owner = integers(np.repeat(np.arange(len(lengths)), lengths), "owner", 1)

    @classmethod
    def distinct(cls, variables: IntArray, owner: IntArray, number: int) -> Scopes:
        """Variables of lists 0 .. number - 1, in which each counts once."""
        span = int(variables.max(initial=0)) + 1
        keys = distinct(owner * span + variables)
        return cls(keys % span, lengths=np.bincount(keys // span, minlength=number))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: int) -> IntArray:
        return self.variables[self.entries_of(index)]

    def entries_of(self, index: int) -> slice:
        """Where the entries of a list are."""
        return slice(int(self.offsets[index]), int(self.offsets[index + 1]))

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

    def entries(self, rows: Rows, name: str) -> IntArray:
        """A whole number for each entry of each list, as one array."""
        given = Scopes(rows, name)
        if not np.array_equal(given.offsets, self.offsets):
            raise ValueError(f"{name} must have one number for each variable of each scope")
        return given.variables

    def total(self, amounts: npt.NDArray[Any]) -> IntArray:
        """Sum of one integer per list entry, for each list."""
        sums: IntArray = (
            np.add.reduceat(amounts, self.offsets[:-1]).astype(np.int64) if len(self) else np.zeros(0, np.int64)
        )
        return sums


class Constraint(WriteOnce, ABC):
    """A group of constraints of one kind."""

    kind: ClassVar[str]
    per_entry: ClassVar[tuple[str, ...]] = ()  # arguments with a row for each scope, kept as one array

    @abstractmethod
    def __len__(self) -> int:
        """How many constraints the group holds."""

    @abstractmethod
    def scope(self, index: int) -> IntArray:
        """The variables of constraint `index`, each once."""

    @property
    @abstractmethod
    def members(self) -> Scopes:
        """The variables of all constraints, each once in a constraint."""

    @abstractmethod
    def violations(self, values: IntArray, numbers: IntArray | None = None) -> IntArray:
        """How far each constraint is from being satisfied: 0 if and only if it holds.

        `numbers` is what the values mean (`Domains.numbers`). Without them each value means its own number.
        """

    @abstractmethod
    def validate(self, domains: Domains) -> None:
        """Raise a ValueError if the group does not fit variables with these domains."""

    def inputs(self, index: int, variable: int, domains: Domains) -> IntArray | None:
        """The variables whose values leave only one for `variable` in constraint `index`, or None."""
        return None


def distinct_of(variables: Sequence[int]) -> IntArray:
    """Each once, in the order of their first places."""
    return np.array(list(dict.fromkeys(variables)), np.int64)
