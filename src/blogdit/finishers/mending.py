"""The search for what a tree search leaves open: values are changed one at a time, where a constraint is violated.

A constraint costs what it lacks (a sum its distance from what is allowed, in units of its mean coefficient) times a
weight. Of some violated constraint, one of the variables takes the value with which all that it is in cost least
together, even if that is more than before: then the weight of the violated one grows, so that its violation becomes too
dear in the end (breakout, Morris 1993). The value that was left is closed for a while.
"""

from __future__ import annotations

import math
import random
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

import torch
from torch import Tensor

from blogdit.core.constraints import AllDifferent, Conflict, Count, IntArray, Linear, NotEqual, Table
from blogdit.core.instance import Instance
from blogdit.finishers.completion import entries, turns
from blogdit.finishers.polish import pairs_only

MOST_ENTRIES = 1 << 19  # (variable, value) pairs and entries of constraints
MOST_MOVES = 1 << 13  # unless it may take all the time: a second or so
MOST_VARIABLES, MOST_VALUES = 12, 12  # of a constraint, and of a variable, that a move looks at
CLOSED = 10  # moves
LOOK = 16  # moves between two looks at the clock


def can_mend(instance: Instance) -> bool:
    """True if there is no objective, some constraint is on more than pairs, and Python can hold all of them."""
    return instance.objective is None and not pairs_only(instance) and entries(instance) <= MOST_ENTRIES


def mend(
    instances: Sequence[Instance],
    states: Tensor,
    deadline: float = math.inf,
    stopped: Callable[[], bool] = lambda: False,
    all_the_time: bool = False,
) -> Tensor:
    """What violates least, from states (B, N). For a fixed number of moves or, with `all_the_time`, until the
    deadline."""
    found = states.cpu().numpy().copy()
    for place, is_over in turns(len(instances), deadline, stopped):
        row = found[place, : instances[place].size]
        mending = Mending(instances[place], row, is_over)
        mending.run(None if all_the_time else MOST_MOVES)
        row[:] = mending.best
    return torch.from_numpy(found).to(states.device)


class Rule(ABC):
    """A constraint, and what it costs at the present values."""

    cost: float

    def __init__(self, scope: Sequence[int]):
        self.scope, self.weight = scope, 1.0

    @abstractmethod
    def begin(self, values: Sequence[int]) -> None: ...

    @abstractmethod
    def after(self, values: Sequence[int], variable: int, value: int) -> float:
        """What it would cost if a variable of its scope took another value."""

    def move(self, values: Sequence[int], variable: int, value: int) -> None:
        """The variable is about to take it."""
        self.cost = self.after(values, variable, value)


class Different(Rule):
    """Costs a unit for each variable whose value another one has before it."""

    def begin(self, values: Sequence[int]) -> None:
        self.taken = Counter(values[variable] for variable in self.scope)
        self.cost = float(len(self.scope) - len(self.taken))

    def after(self, values: Sequence[int], variable: int, value: int) -> float:
        return self.cost - (self.taken[values[variable]] > 1) + (self.taken[value] > 0)

    def move(self, values: Sequence[int], variable: int, value: int) -> None:
        super().move(values, variable, value)
        self.taken[values[variable]] -= 1
        self.taken[value] += 1


class Listed(Rule):
    """Costs a unit if the values are not on the list or, of one that is `forbidden`, if they are."""

    def __init__(self, scope: Sequence[int], tuples: set[tuple[int, ...]], forbidden: bool):
        super().__init__(scope)
        self.tuples, self.forbidden = tuples, forbidden

    def begin(self, values: Sequence[int]) -> None:
        self.cost = self._miss([values[variable] for variable in self.scope])

    def after(self, values: Sequence[int], variable: int, value: int) -> float:
        return self._miss([value if other == variable else values[other] for other in self.scope])

    def _miss(self, chosen: Sequence[int]) -> float:
        return float((tuple(chosen) in self.tuples) == self.forbidden)


class Sum(Rule):
    """Costs the distance of a sum from what is allowed; `parts` has what each value of a variable adds."""

    def __init__(self, parts: Mapping[int, Sequence[int]], low: float, high: float, unit: float = 1.0):
        super().__init__(list(parts))
        self.parts, self.low, self.high, self.unit = parts, low, high, unit

    def begin(self, values: Sequence[int]) -> None:
        self.total = sum(part[values[variable]] for variable, part in self.parts.items())
        self.cost = self._distance(self.total)

    def _distance(self, total: int) -> float:
        return max(self.low - total, total - self.high, 0) / self.unit

    def _sum(self, values: Sequence[int], variable: int, value: int) -> int:
        part = self.parts[variable]
        return self.total + part[value] - part[values[variable]]

    def after(self, values: Sequence[int], variable: int, value: int) -> float:
        return self._distance(self._sum(values, variable, value))

    def move(self, values: Sequence[int], variable: int, value: int) -> None:
        self.total = self._sum(values, variable, value)
        self.cost = self._distance(self.total)


def rules_of(instance: Instance) -> Iterator[Rule]:
    sizes = instance.domain_sizes.tolist()
    for group in instance.constraints:
        if isinstance(group, AllDifferent):
            yield from (Different(group.scope(number).tolist()) for number in range(len(group)))
        elif isinstance(group, NotEqual):
            yield from (Different(pair) for pair in group.pairs.tolist())
        elif isinstance(group, Conflict):
            excluded: dict[tuple[int, int], set[tuple[int, ...]]] = {}
            for (i, j), both in zip(group.pairs.tolist(), group.values.tolist(), strict=True):
                excluded.setdefault((i, j), set()).add(tuple(both))
            yield from (Listed(pair, tuples, forbidden=True) for pair, tuples in excluded.items())
        elif isinstance(group, Table):
            allowed = set(map(tuple, group.tuples.tolist()))
            yield from (Listed(scope, allowed, forbidden=False) for scope in group.scopes.tolist())
        elif isinstance(group, Linear):
            yield from _sums(group, sizes)
        elif isinstance(group, Count):
            yield from _counts(group, sizes)


def _sums(group: Linear, sizes: Sequence[int]) -> Iterator[Rule]:
    below, above = group.bounds_below.tolist(), group.bounds_above.tolist()
    ends = group.scopes.offsets.tolist()
    for number, bound in enumerate(group.bounds.tolist()):
        factors = group.coefficients[ends[number] : ends[number + 1]].tolist()
        scope = zip(group.scope(number).tolist(), factors, strict=True)
        parts = {variable: [factor * value for value in range(sizes[variable])] for variable, factor in scope}
        unit = sum(map(abs, factors)) / max(len(factors), 1) or 1.0
        yield Sum(parts, bound if below[number] else -math.inf, bound if above[number] else math.inf, unit)


def _counts(group: Count, sizes: Sequence[int]) -> Iterator[Rule]:
    bounds = zip(group.values.tolist(), group.low.tolist(), group.high.tolist(), strict=True)
    for number, (counted, low, high) in enumerate(bounds):
        parts = {v: [int(value == counted) for value in range(sizes[v])] for v in group.scope(number).tolist()}
        yield Sum(parts, low, high)


class Mending:
    """Of one instance; `best` violates fewest constraints of all that it has seen."""

    def __init__(self, instance: Instance, start: IntArray, stopped: Callable[[], bool] = lambda: False):
        self.stopped, self.random = stopped, random.Random(0)
        self.values: list[int] = [*map(int, start)]
        self.choices = [range(size) for size in instance.domain_sizes.tolist()]
        for variable in instance.is_given.nonzero()[0].tolist():
            self.values[variable] = int(instance.given_values[variable])
            self.choices[variable] = range(0)
        self.rules = list(rules_of(instance))
        self.of: list[list[Rule]] = [[] for _ in self.values]  # by variable
        self.violated: list[Rule] = []
        self.place: dict[Rule, int] = {}  # among those that are violated
        for rule in self.rules:
            rule.begin(self.values)
            self._note(rule)
            for variable in rule.scope:
                self.of[variable].append(rule)
        self.best, self.fewest = self.values.copy(), len(self.violated)
        self.moves = 0
        self.closed: dict[tuple[int, int], int] = {}  # until which move a variable must not take a value again

    def run(self, most: int | None = None) -> bool:
        """Whether nothing is violated any more; after so many moves, or when stopped, it may not be."""
        until = math.inf if most is None else self.moves + most
        while self.violated and self.moves < until and not (self.moves % LOOK == 0 and self.stopped()):
            self.moves += 1
            rule = self.random.choice(self.violated)
            variable, value, change = self._choose(rule)
            if change >= 0:
                rule.weight += 1
            if value is not None:
                self._move(variable, value)
        return not self.violated

    def _choose(self, rule: Rule) -> tuple[int, int | None, float]:
        """The best of some moves in its scope, of equals any; value None if all are closed."""
        pick: tuple[int, int | None] = (-1, None)
        least, equals = math.inf, 0
        for variable in self._some(rule.scope, MOST_VARIABLES):
            own, present = self.of[variable], self.values[variable]
            for value in self._some(self.choices[variable], MOST_VALUES):
                if value == present or self.closed.get((variable, value), 0) > self.moves:
                    continue
                change = sum(other.weight * (other.after(self.values, variable, value) - other.cost) for other in own)
                equals = 1 if change < least else equals + (change == least)
                if change < least or (change == least and self.random.random() * equals < 1):
                    pick, least = (variable, value), change
        return *pick, least

    def _some(self, items: Sequence[int], most: int) -> Sequence[int]:
        return items if len(items) <= most else self.random.sample(items, most)

    def _move(self, variable: int, value: int) -> None:
        self.closed[variable, self.values[variable]] = self.moves + CLOSED + self.random.randrange(CLOSED)
        for rule in self.of[variable]:
            rule.move(self.values, variable, value)
            self._note(rule)
        self.values[variable] = value
        if len(self.violated) < self.fewest:
            self.best, self.fewest = self.values.copy(), len(self.violated)

    def _note(self, rule: Rule) -> None:
        """Keep the list of those that are violated."""
        if rule.cost > 0:
            if rule not in self.place:
                self.place[rule] = len(self.violated)
                self.violated.append(rule)
        elif rule in self.place:
            place, last = self.place.pop(rule), self.violated.pop()
            if last is not rule:
                self.violated[place], self.place[last] = last, place
