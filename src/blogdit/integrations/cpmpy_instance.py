"""An instance from constraints on integers that need not count from 0.

`Builder` collects them. It knows nothing of CPMpy's expressions: `cpmpy_posting` translates those. Here a variable goes
from `low` to `high`, in an instance from 0. Variables that are compared with each other, or counted together, share the
number that 0 stands for, their base. An instance either names its values, and constraints are on these numbers, or it
does not, and constraints are moved by the bases.

A new kind of constraint needs a list here, its group in `_groups`, and a case in `cpmpy_posting`.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

import numpy as np

from blogdit.core.constraints import (
    AllDifferent,
    Conflict,
    Constraint,
    Count,
    Function,
    IntArray,
    Linear,
    NotEqual,
    Sum,
    Table,
)
from blogdit.core.domains import named_ranges
from blogdit.core.instance import Instance, Objective
from blogdit.core.objective import Sense
from blogdit.problems import families

Scope = tuple[int, ...]
NEVER = Linear([[0]], [[0]], [">="], [1])  # which nothing fulfils


@dataclass
class Built:
    """An instance, and the way from its values to numbers of the builder's variables."""

    instance: Instance
    place: IntArray  # of each variable in the instance
    base: IntArray

    def numbers(self, values: IntArray) -> IntArray:
        return values[self.place] + self.base


@dataclass
class Builder:
    """What has been posted so far, by the indices of variables."""

    low: list[int] = field(default_factory=list)
    high: list[int] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    declared: list[tuple[int, int]] = field(default_factory=list)  # bounds of the variable as it was made
    all_different: list[Scope] = field(default_factory=list)
    not_equal: list[tuple[int, int]] = field(default_factory=list)
    linear: list[tuple[Scope, Scope, str, int]] = field(default_factory=list)  # scope, coefficients, relation, bound
    counts: list[tuple[Scope, int, int, int]] = field(default_factory=list)  # scope, number, least, most
    tables: list[tuple[Scope, IntArray]] = field(default_factory=list)
    shifted: list[tuple[Scope, Scope]] = field(default_factory=list)  # variables, and what is added to each: all differ
    # scope, coefficients, low, high, and (variable, truth): the bounds hold if, or exactly where, the variable is so
    reified: list[tuple[Scope, Scope, int | None, int | None, tuple[int, int], bool]] = field(default_factory=list)
    functions: list[tuple[str, int, Scope]] = field(default_factory=list)  # "min", "max" or "element", result, scope
    sense: Sense | None = None
    weights: dict[int, float] = field(default_factory=dict)  # of the objective
    constant: float = 0.0  # of the objective
    impossible: bool = False

    def new(self, low: int, high: int, name: str = "") -> int:
        """A variable; auxiliary ones have no name."""
        self.low.append(low)
        self.high.append(high)
        self.names.append(name)
        self.declared.append((low, high))
        return len(self.low) - 1

    def narrow(self, variable: int, low: int | None = None, high: int | None = None) -> None:
        """New bounds of a variable. If they cross, the instance has no solution."""
        self.low[variable] = max(self.low[variable], self.low[variable] if low is None else low)
        self.high[variable] = min(self.high[variable], self.high[variable] if high is None else high)

    def add_linear(self, terms: Iterable[tuple[int, int]], relation: str, bound: int) -> None:
        """The sum of coefficient times variable, for rows (coefficient, variable), is <=, = or >= the bound."""
        total: dict[int, int] = {}
        for coefficient, variable in terms:
            total[variable] = total.get(variable, 0) + coefficient
        total = {variable: coefficient for variable, coefficient in total.items() if coefficient}
        if len(total) > 1:
            self.linear.append((tuple(total), tuple(total.values()), relation, bound))
        elif total:
            ((variable, factor),) = total.items()
            if factor < 0:
                factor, bound, relation = -factor, -bound, {"<=": ">=", "=": "=", ">=": "<="}[relation]
            least = None if relation == "<=" else -(-bound // factor)  # rounded up
            self.narrow(variable, least, None if relation == ">=" else bound // factor)
        elif not {"<=": bound >= 0, "=": bound == 0, ">=": bound <= 0}[relation]:
            self.impossible = True

    def optimise(self, sense: Sense, terms: Iterable[tuple[float, int]], constant: float) -> None:
        """Of rows (weight, variable)."""
        self.sense, self.weights, self.constant = sense, {}, constant
        for weight, variable in terms:
            self.weights[variable] = self.weights.get(variable, 0.0) + weight

    def build(self, first: Iterable[str], named: bool = False) -> Built:
        """The variables with the names `first` come first, in natural order, the others as they were made. `named`:
        the instance names its values, so that they are the numbers of the variables for everyone who sees them."""
        leading = set(first)
        count = len(self.low)
        order = sorted(
            range(count), key=lambda i: (0, natural(self.names[i]), i) if self.names[i] in leading else (1, [], i)
        )
        place = np.empty(count, np.int64)
        place[order] = np.arange(count)
        low, high = np.array(self.low, np.int64), np.array(self.high, np.int64)
        is_possible = not self.impossible and bool((low <= high).all())
        high = np.maximum(low, high)
        # A variable that is given keeps its values, so that a puzzle looks like one.
        is_given = low == high
        first_low, last_high = np.array(self.declared, np.int64).reshape(-1, 2).T
        least, most = np.where(is_given, first_low, low), np.where(is_given, last_high, high)
        base = self._bases(least)
        moved = np.zeros_like(base) if named else base  # what the instance's numbers lack
        groups = list(self._groups(least, most, base, moved, place)) if is_possible else [NEVER]
        sizes = (most - base + 1)[order] if count else np.ones(1, np.int64)
        ends = [(int(base[i]), int(most[i]) + 1) for i in order]
        labels = [name or f"_{i}" for i, name in ((i, self.names[i]) for i in order)]
        instance = Instance(
            sizes,
            tuple(groups),
            self._objective(sizes, base - moved, place, self.constant if named else 0.0),
            givens={int(place[i]): int(low[i] - base[i]) for i in np.flatnonzero(is_given & is_possible)},
            problem="cpmpy",
            labels=labels or None,
            values=named_ranges(list(itertools.starmap(range, ends))) if named else None,
        )
        return Built(instance, place, base)

    def _bases(self, low: IntArray) -> IntArray:
        owner = list(range(len(low)))

        def root(i: int) -> int:
            while owner[i] != i:
                owner[i] = i = owner[owner[i]]
            return i

        # Results of functions are compared with numbers of their scopes; the index of an element is not.
        compared = [(result, *(scope[1:] if which == "element" else scope)) for which, result, scope in self.functions]
        together = (self.all_different, self.not_equal, (row[0] for row in self.counts), compared)
        for scope in itertools.chain(*together):
            for other in scope[1:]:
                owner[root(other)] = root(scope[0])
        roots = np.array([root(i) for i in range(len(low))], np.int64)
        least = low.copy()
        np.minimum.at(least, roots, low)
        return least[roots]

    def _groups(
        self, low: IntArray, high: IntArray, base: IntArray, moved: IntArray, place: IntArray
    ) -> Iterator[Constraint]:
        def at(scope: Sequence[int]) -> list[int]:
            return place[list(scope)].tolist()

        if self.all_different:
            yield AllDifferent([at(scope) for scope in self.all_different])
        if self.not_equal:
            yield NotEqual(place[np.array(self.not_equal)])
        above = [((int(i),), (1,), ">=", int(low[i])) for i in np.flatnonzero((low > base) & (low < high))]
        two_valued = (high - base) == 1
        conflicts: list[tuple[list[int], tuple[int, int]]] = []
        rows: list[tuple[list[int], Scope, str, int]] = []
        for scope, coefficients, relation, bound in [*self.linear, *above]:
            if len(scope) == 2 and two_valued[list(scope)].all():
                limit = bound - _total(coefficients, base, scope)
                conflicts += [(at(scope), pair) for pair in _forbidden(coefficients, relation, limit)]
            else:
                rows.append((at(scope), coefficients, relation, bound - _total(coefficients, moved, scope)))
        if conflicts:
            yield Conflict([pair for pair, _ in conflicts], [values for _, values in conflicts])
        if rows:
            scopes, factors, relations, bounds = (list(part) for part in zip(*rows, strict=True))
            yield Linear(scopes, factors, relations, bounds)
        if self.counts:
            scopes, numbers, least, most = (list(part) for part in zip(*self.counts, strict=True))
            values = [number - int(base[scope[0]]) for number, scope in zip(numbers, scopes, strict=True)]
            yield Count([at(scope) for scope in scopes], values, least, most)
        yield from self._newer_groups(high, base, moved, at)
        shared: dict[tuple[int, bytes], tuple[list[list[int]], IntArray]] = {}
        for scope, tuples in self.tables:
            members = list(scope)
            inside = ((tuples >= low[members]) & (tuples <= high[members])).all(axis=1)
            rows_left = tuples[inside] - base[members]
            shared.setdefault((len(scope), rows_left.tobytes()), ([], rows_left))[0].append(at(scope))
        for places, allowed in shared.values():
            yield Table(np.array(places), allowed) if len(allowed) else NEVER

    def _newer_groups(
        self, high: IntArray, base: IntArray, moved: IntArray, at: Callable[[Sequence[int]], list[int]]
    ) -> Iterator[Constraint]:
        """Differences with offsets, sums under a condition, and functions."""
        if self.shifted:
            offsets = [[d + int(moved[i]) for d, i in zip(row, scope, strict=True)] for scope, row in self.shifted]
            yield AllDifferent([at(scope) for scope, _ in self.shifted], offsets)
        for exactly in (False, True):
            rows = [row for row in self.reified if row[5] is exactly]
            if rows:
                start = [_total(row[1], moved, row[0]) for row in rows]
                yield Sum(
                    [at(row[0]) for row in rows],
                    [row[1] for row in rows],
                    None,
                    [None if row[2] is None else row[2] - less for row, less in zip(rows, start, strict=True)],
                    [None if row[3] is None else row[3] - less for row, less in zip(rows, start, strict=True)],
                    [(at([row[4][0]])[0], 1 - int(base[row[4][0]]), row[4][1]) for row in rows],
                    exactly,
                )
        for which in dict.fromkeys(which for which, _, _ in self.functions):
            chosen = [(result, scope) for kind, result, scope in self.functions if kind == which]
            scopes = [_from_base(scope, base, high) if which == "element" else scope for _, scope in chosen]
            yield Function(which, at([result for result, _ in chosen]), [at(scope) for scope in scopes])

    def _objective(self, sizes: IntArray, first: IntArray, place: IntArray, constant: float) -> Objective | None:
        """Bits are literals, as families of graph problems have them, and others numbers, from `first` on."""
        if self.sense is None:
            return None
        rows = sorted((int(place[i]), weight, int(first[i])) for i, weight in self.weights.items() if weight)
        bits = [(at, weight) for at, weight, start in rows if sizes[at] == 2 and start == 0]
        others = [(at, weight) for at, weight, start in rows if sizes[at] > 2 or start != 0]
        shortest = int(sizes.argmin())  # one of its values is chosen: each earns the constant
        every = [(shortest, value) for value in range(sizes[shortest])] if constant else []
        return Objective(
            self.sense,
            unary=[*((at, 1) for at, _ in bits), *every],
            unary_weights=[*(weight for _, weight in bits), *(constant for _ in every)],
            linear=[at for at, _ in others],
            linear_weights=[weight for _, weight in others],
        )


def _total(coefficients: Scope, numbers: IntArray, scope: Scope) -> int:
    return sum(c * int(numbers[i]) for c, i in zip(coefficients, scope, strict=True))


def _from_base(scope: Scope, base: IntArray, high: IntArray) -> Scope:
    """The index of an element and what it chooses from, where its first value is not the number 0."""
    index, *choices = scope
    numbers = range(int(base[index]), int(high[index]) + 1)
    return (index, *(choices[min(max(number, 0), len(choices) - 1)] for number in numbers))


def natural(name: str) -> list[tuple[int, int, str]]:
    """A key that sorts x[2] before x[10], and x[0,1] before x[1,0]."""
    return [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in re.split(r"(\d+)", name) if part]


def _forbidden(coefficients: Scope, relation: str, bound: int) -> list[tuple[int, int]]:
    """The pairs of two bits that a linear constraint forbids."""

    def holds(total: int) -> bool:
        return {"<=": total <= bound, "=": total == bound, ">=": total >= bound}[relation]

    pairs = itertools.product((0, 1), repeat=2)
    return [(a, b) for a, b in pairs if not holds(coefficients[0] * a + coefficients[1] * b)]


def recognised(instance: Instance) -> Instance:
    """The same instance as one of a family, where it is one: it then has that family's model."""
    for name, family in families().items():
        if not family.takes_all and (family.graph_of is not None or family.recognise is not None):
            with suppress(ValueError):
                return family.adopt(replace(_in_order(instance), problem=name))
    return instance


def _in_order(instance: Instance) -> Instance:
    """On a square grid, with its rows, its columns and then its boxes in order, as families of grids have them."""
    side = math.isqrt(instance.size)
    group = instance.constraints[0] if len(instance.constraints) == 1 else None
    if not isinstance(group, AllDifferent) or side * side != instance.size or side < 2:
        return instance
    scopes = {tuple(sorted(group.scope(index).tolist())) for index in range(len(group))}

    def key(scope: Scope) -> tuple[int, Scope]:
        is_row, is_column = (len({divmod(cell, side)[part] for cell in scope}) == 1 for part in (0, 1))
        return (0 if is_row else 1 if is_column else 2), scope

    return replace(instance, constraints=(AllDifferent(sorted(scopes, key=key)),))
