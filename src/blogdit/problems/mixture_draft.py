"""A random problem in the making: variables, constraints and costs that grow part by part.

A draft knows a hidden assignment that keeps all its constraints, so that an answer exists however tight they are. The
instance that is made of it does not have it: nothing is trained with it, and nothing is compared with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from blogdit.core.constraints import AllDifferent, Conflict, Constraint, Function, IntArray, NotEqual, Sum, Table
from blogdit.core.instance import Instance, Objective

HEAVIEST = (1, 3, 10, 100)  # what the largest weight of some costs may be
TERM_WIDTHS = {"unary": 2, "linear": 1, "differ": 2, "pairwise": 4}


@dataclass(frozen=True)
class Limits:
    """How large an instance may be. A literal is a value of a variable; an entry is a literal in a constraint."""

    literals: int
    variables: tuple[int, int]
    values: tuple[int, int]
    entries: int
    longest: int  # variables of a constraint


class Draft:
    """Variables by their numbers 0, 1, ...; costs are to be small, whatever the instance will call them."""

    def __init__(self, rng: np.random.Generator, limits: Limits):
        self.rng, self.limits = rng, limits
        self.sizes: IntArray = np.zeros(0, np.int64)
        self.hidden: IntArray = np.zeros(0, np.int64)
        self.meanings: IntArray = np.zeros((0, limits.values[1]), np.int64)  # the numbers of the values
        self.kinds: IntArray = np.zeros(0, np.int64)  # variables of one kind have the same values
        self.lists: list[tuple[int, ...]] = []  # of each kind
        self.is_derived: npt.NDArray[np.bool_] = np.zeros(0, np.bool_)
        self.constraints: list[Constraint] = []
        self.soft: list[tuple[Constraint, Any]] = []
        self.costs: dict[str, list[tuple[IntArray, npt.NDArray[np.float64]]]] = {name: [] for name in TERM_WIDTHS}
        self.derived: list[tuple[int, int, int]] = []
        self.entries = 0
        self.share = 1.0  # of the literals and entries that the theme at work may fill up

    # -- sizes -----------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self.sizes)

    @property
    def is_empty(self) -> bool:
        """Whether every assignment is as good as any other."""
        return not (self.constraints or self.soft or any(self.costs.values()))

    @property
    def room(self) -> int:
        """Literals that are left."""
        return max(int(self.share * self.limits.literals) - int(self.sizes.sum()), 0)

    @property
    def spare(self) -> int:
        """Variables that are left."""
        return max(min(int(self.share * self.limits.variables[1]), self.limits.variables[1]) - len(self), 0)

    def shape(self, low: int, high: int, reserve: float = 0.0) -> tuple[int, int]:
        """How many variables of how many values suit the room, with between `low` and `high` values if the limits
        allow it. `reserve` is a share of the room to leave for variables that follow from these."""
        least, most = self.limits.values
        fitting = max(self.room // max(self.limits.variables[0] - len(self), 1), least)
        low, high = (min(max(end, least), most, fitting) for end in (low, high))
        values = int(self.rng.integers(low, high + 1))
        return max(min(int((1 - reserve) * self.room) // values, self.spare), 0), values

    def affordable(self, number: float, entries: float) -> int:
        """How many constraints of so many entries each there is room for, `number` at most."""
        left = self.share * self.limits.entries - self.entries
        return max(int(min(number, left // max(entries, 1))), 0)

    # -- variables -------------------------------------------------------------------------------------------------

    def variables(self, count: int, size: int, hidden: npt.ArrayLike | None = None, numbers: Any = None) -> IntArray:
        """New variables with hidden values, random ones unless they are given; `numbers` says what the values mean."""
        drawn = self.rng.integers(0, size, size=count) if hidden is None else np.asarray(hidden, np.int64)
        named = tuple(range(size)) if numbers is None else tuple(int(number) for number in numbers)
        if named not in self.lists:
            self.lists.append(named)
        row = np.zeros(self.meanings.shape[1], np.int64)
        row[:size] = named
        first = len(self)
        self.sizes = np.concatenate([self.sizes, np.full(count, size)])
        self.hidden = np.concatenate([self.hidden, drawn])
        self.meanings = np.concatenate([self.meanings, np.tile(row, (count, 1))])
        self.kinds = np.concatenate([self.kinds, np.full(count, self.lists.index(named))])
        self.is_derived = np.concatenate([self.is_derived, np.zeros(count, np.bool_)])
        return np.arange(first, first + count)

    def follow(self, hidden: npt.ArrayLike, size: int, numbers: Any = None) -> IntArray:
        """New variables that constraints, which are to come, define."""
        made = self.variables(len(np.asarray(hidden)), size, hidden, numbers)
        self.is_derived[made] = True
        return made

    def numbers(self, assignment: IntArray) -> IntArray:
        """What the values (n,) mean."""
        return self.meanings[np.arange(len(self)), assignment]

    def anywhere(self) -> IntArray:
        """A random assignment."""
        return self.rng.integers(0, self.sizes)

    def at(self, soft: bool) -> IntArray:
        """The assignment that new constraints are made to fit: soft ones need not agree with the hidden one."""
        return self.anywhere() if soft else self.hidden

    # -- draws -----------------------------------------------------------------------------------------------------

    def chance(self, probability: float) -> bool:
        return bool(self.rng.random() < probability)

    def between(self, low: float, high: float) -> float:
        return float(self.rng.uniform(low, high))

    def whole(self, low: int, high: int) -> int:
        """Both ends may come up."""
        return int(self.rng.integers(low, max(high, low) + 1))

    def scopes(self, among: IntArray, number: int, length: int) -> IntArray:
        """(number, length): different variables in each row; no row where there are fewer variables."""
        if length > len(among):
            return np.zeros((0, length), np.int64)
        rows = among[self.rng.integers(0, len(among), size=(number, length))]
        if 4 * length > len(among):
            return self.rng.permuted(np.tile(among, (number, 1)), axis=1)[:, :length]
        while True:
            ordered = np.sort(rows, axis=1)
            again = (ordered[:, 1:] == ordered[:, :-1]).any(axis=1)
            if not again.any():
                return rows
            rows[again] = among[self.rng.integers(0, len(among), size=(int(again.sum()), length))]

    def length(self, among: IntArray, low: int, high: int) -> int:
        """Of a scope, as far as the limits and the variables allow."""
        return self.whole(min(low, len(among)), min(high, len(among), self.limits.longest))

    def alike(self, among: IntArray) -> IntArray:
        """Those of the variables that have the same values as one of them."""
        return among[self.kinds[among] == self.kinds[among[self.whole(0, len(among) - 1)]]] if len(among) else among

    def weights(self, number: int) -> npt.NDArray[np.float64]:
        """Whole weights above 0; they may all be 1."""
        heaviest = HEAVIEST[self.whole(0, len(HEAVIEST) - 1)]
        return self.rng.integers(1, heaviest + 1, size=number).astype(np.float64)

    # -- constraints and costs -------------------------------------------------------------------------------------

    def post(self, group: Constraint, soft: bool = False) -> int:
        """Add constraints; returns the number of the group among those that must hold."""
        self.entries += entries_of(group, self.sizes)
        if soft:
            self.soft.append((group, self.weights(len(group))))
        else:
            self.constraints.append(group)
        return len(self.constraints) - 1

    def define(self, variables: IntArray, group: Constraint) -> None:
        """Row j of the group says what the variable j is."""
        number = self.post(group)
        self.derived += [(variable, number, row) for row, variable in enumerate(variables.tolist())]

    def charge(self, term: str, rows: npt.ArrayLike, weights: npt.ArrayLike) -> None:
        """Add terms of an objective to be minimised."""
        self.costs[term].append((np.asarray(rows, np.int64), np.asarray(weights, np.float64)))

    def give(self, share: float) -> dict[int, int]:
        """Some variables with their hidden values, as givens."""
        free = np.flatnonzero(~self.is_derived)
        chosen = self.rng.permutation(free)[: int(share * len(free))]
        return dict(zip(chosen.tolist(), self.hidden[chosen].tolist(), strict=True))

    def instance(self, problem: str, name: str, given: float = 0.0) -> Instance:
        """The problem without its hidden assignment, but for the share `given` of it that is part of the question."""
        sign = -1.0 if self.chance(0.5) else 1.0
        goal = None
        if self.soft or any(self.costs.values()):
            terms: dict[str, Any] = {}
            for term, width in TERM_WIDTHS.items():
                empty = np.zeros(0 if width == 1 else (0, width), np.int64)
                terms[term] = np.concatenate([empty, *(rows for rows, _ in self.costs[term])])
                terms[f"{term}_weights"] = sign * np.concatenate([np.zeros(0), *(w for _, w in self.costs[term])])
            goal = Objective("minimize" if sign > 0 else "maximize", soft=self.soft, **terms)
        plain = all(row == tuple(range(len(row))) for row in self.lists)
        return Instance(
            self.sizes,
            tuple(self.constraints),
            goal,
            self.give(given),
            problem,
            name,
            values=None if plain else [self.lists[kind] for kind in self.kinds.tolist()],
            derived=self.derived,  # type: ignore[arg-type]
        )


def entries_of(group: Constraint, sizes: IntArray) -> int:
    """How many literals its constraints hold, in all: what the memory and the time of a batch grow with."""
    if isinstance(group, Conflict):
        return 2 * len(group)
    if isinstance(group, Table):
        return len(group) * group.tuples.size
    if isinstance(group, Sum):
        of_numbers = sizes[group.scopes.variables[group.equals < 0]].sum()
        return int(of_numbers + (group.equals >= 0).sum()) + (0 if group.when is None else len(group))
    assert isinstance(group, NotEqual | AllDifferent | Function)
    return int(sizes[group.members.variables].sum())
