"""Constraint propagation: what values are left to each variable, as bit masks, narrowed until no constraint objects.

Every constraint kind has a rule here. A rule that narrows a domain wakes the rules of that variable; a trail remembers
what was narrowed, so that a search can take it back.
"""

from __future__ import annotations

import math
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import lru_cache
from typing import Any, Protocol

from blogdit.core.constraints import AllDifferent, Conflict, Constraint, Count, Linear, NotEqual, Table
from blogdit.core.instance import Instance


class Rule(Protocol):
    """What one constraint, or all pairs of one variable, allow. `cost` is about what it takes to ask it."""

    cost: int

    def narrow(self, state: Propagation) -> bool:
        """Remove values that cannot be; False if nothing is left to some variable."""
        ...

    def within(self, block: Sequence[int], domains: Sequence[int]) -> Rule:
        """The same for the variables of a block alone, where all others have a single value, and had been asked."""
        ...


class Propagation:
    """The domains of an instance. `blame` counts, for each variable, the contradictions that its rules have found."""

    def __init__(self, instance: Instance, spend: Callable[[int], None] = lambda cost: None):
        """`spend` is told the cost of every rule that is asked; it may raise, to end what then is of no more use."""
        given, sizes = instance.is_given.tolist(), instance.domain_sizes.tolist()
        values, self.spend = instance.given_values.tolist(), spend
        self.domains = [bit(v) if fixed else (1 << k) - 1 for fixed, v, k in zip(given, values, sizes, strict=True)]
        self.trail: list[tuple[int, int]] = []  # (variable, its domain before)
        self.blame, self.failed = [0] * len(sizes), -1
        self.rules: list[tuple[Rule, Sequence[int]]] = []  # with their variables
        self.watching: defaultdict[int, list[int]] = defaultdict(list)  # rules to ask when a domain has changed,
        self.when_fixed: defaultdict[int, list[int]] = defaultdict(list)  # or only when a single value is left
        self._waiting: deque[int] = deque()
        self._waits: list[bool] = []
        neighbours: dict[int, Neighbours] = {}
        for group in instance.constraints:
            if isinstance(group, NotEqual | Conflict):
                _add_pairs(group, neighbours)
            else:
                for index in range(len(group)):
                    scope = group.scope(index).tolist()
                    self.add(RULES[type(group)](group, index, scope), scope)
        for variable, rule in neighbours.items():
            self._add(rule, [variable], self.when_fixed)

    def add(self, rule: Rule, scope: Sequence[int]) -> int:
        """One more rule, to be asked whenever one of its variables has changed; returns its number."""
        self._add(rule, scope, self.watching)
        return len(self.rules) - 1

    def _add(self, rule: Rule, scope: Sequence[int], watched: dict[int, list[int]]) -> None:
        for variable in scope:
            watched[variable].append(len(self.rules))
        self._waiting.append(len(self.rules))
        self._waits.append(True)
        self.rules.append((rule, scope))

    def within(self, block: Collection[int]) -> Propagation:
        """The same domains, but only variables of a block change; all others have a single value."""
        part = Propagation.__new__(Propagation)
        part.domains, part.blame, part.spend = self.domains, self.blame, self.spend
        part.trail, part.failed, part.rules = [], -1, []
        part.watching, part.when_fixed = defaultdict(list), defaultdict(list)
        part._waiting, part._waits = deque(), []
        for kind, watched in ((self.watching, part.watching), (self.when_fixed, part.when_fixed)):
            for number in sorted({number for variable in block for number in kind[variable]}):
                rule, scope = self.rules[number]
                inside = [variable for variable in scope if variable in block]
                part._add(rule.within(inside, self.domains), inside, watched)
        return part

    def is_bound(self, variable: int) -> bool:
        """Whether some constraint holds a variable."""
        return bool(self.watching[variable] or self.when_fixed[variable])

    def keep(self, variable: int, mask: int) -> bool:
        """Leave a variable only what is in the mask; False if that is nothing."""
        old = self.domains[variable]
        new = old & mask
        if new == old:
            return True
        self.trail.append((variable, old))
        self.domains[variable] = new
        self.wake(self.watching[variable])
        if new & (new - 1) == 0:
            self.wake(self.when_fixed[variable])
        return new != 0

    def wake(self, rules: Iterable[int]) -> None:
        """These rules are to be asked."""
        for rule in rules:
            if not self._waits[rule]:
                self._waits[rule] = True
                self._waiting.append(rule)

    def settle(self) -> bool:
        """Ask all rules that wait, until none does; False at a contradiction."""
        while self._waiting:
            number = self._waiting.popleft()
            self._waits[number] = False
            rule, scope = self.rules[number]
            self.spend(rule.cost)
            if not rule.narrow(self):
                self.failed = number
                for variable in scope:
                    self.blame[variable] += 1
                while self._waiting:
                    self._waits[self._waiting.popleft()] = False
                return False
        return True

    def drop_failed(self) -> None:
        """Do without the rule that found the last contradiction."""
        self.rules[self.failed] = (Anything(), ())

    def take_back(self, length: int) -> None:
        """Undo everything after the first `length` entries of the trail."""
        while len(self.trail) > length:
            variable, domain = self.trail.pop()
            self.domains[variable] = domain


@lru_cache(1024)
def bit(value: int) -> int:
    """The mask of a value; one object for many, as masks of large values are large."""
    return 1 << value


class Anything:
    """No rule."""

    cost = 1

    def narrow(self, state: Propagation) -> bool:
        return True

    def within(self, block: Sequence[int], domains: Sequence[int]) -> Rule:
        return self


class Neighbours:
    """All pairs of one variable: once it has its value, what its neighbours may not have."""

    def __init__(self, variable: int):
        self.variable, self.different, self.cost = variable, list[int](), 1
        self.conflicts: dict[int, list[tuple[int, int]]] = {}  # own value, as a mask -> (neighbour, its value)

    def others(self) -> list[int]:
        return self.different + [other for pairs in self.conflicts.values() for other, _ in pairs]

    def narrow(self, state: Propagation) -> bool:
        own = state.domains[self.variable]
        if own & (own - 1):
            return True
        return all(state.keep(other, ~own) for other in self.different) and all(
            state.keep(other, ~mask) for other, mask in self.conflicts.get(own, ())
        )

    def within(self, block: Sequence[int], domains: Sequence[int]) -> Rule:
        return self  # others that have their value keep it: this one was asked not to take it


class Different:
    """Fixed values are taken. Fewer values than variables are too few; as many, and each must find its place."""

    def __init__(self, scope: Sequence[int]):
        self.scope, self.cost = scope, 2 * len(scope)

    def narrow(self, state: Propagation) -> bool:
        domains, taken = state.domains, 0
        for variable in self.scope:
            mask = domains[variable]
            if mask & (mask - 1) == 0:
                if taken & mask:
                    return False
                taken |= mask
        once = twice = 0
        for variable in self.scope:
            mask = domains[variable]
            if mask & taken and mask & (mask - 1):
                if not state.keep(variable, ~taken):
                    return False
                mask = domains[variable]
            twice |= once & mask
            once |= mask
        left = once.bit_count() - len(self.scope)
        if left:
            return left > 0
        single = once & ~twice  # values with one place
        return all(
            _one_at_most(domains[variable] & single) and state.keep(variable, domains[variable] & single)
            for variable in self.scope
            if domains[variable] & single
        )

    def within(self, block: Sequence[int], domains: Sequence[int]) -> Rule:
        return Different(block)


class Sum:
    """low <= sum of coefficient * x <= high, by the least and the most that the others can add."""

    def __init__(self, scope: Sequence[int], coefficients: Sequence[int], low: int | None, high: int | None):
        self.terms, self.low, self.high = list(zip(scope, coefficients, strict=True)), low, high
        self.cost = 4 * len(scope)

    def narrow(self, state: Propagation) -> bool:
        domains = state.domains
        ranges = [_range(domains[variable], c) for variable, c in self.terms]
        least, most = sum(low for low, _ in ranges), sum(high for _, high in ranges)
        if (self.high is not None and least > self.high) or (self.low is not None and most < self.low):
            return False
        room = min(
            math.inf if self.high is None else self.high - least, math.inf if self.low is None else most - self.low
        )
        for (variable, c), (low, high) in zip(self.terms, ranges, strict=True):
            if high - low <= room:  # whatever it adds, the others can make up for it
                continue
            for limit, sign, own in ((self.high, 1, low - least), (self.low, -1, most - high)):
                if limit is None:
                    continue
                allowed = _at_most(sign * limit + own, sign * c, domains[variable].bit_length())
                if not state.keep(variable, allowed):
                    return False
        return True

    def within(self, block: Sequence[int], domains: Sequence[int]) -> Rule:
        inside = set(block)
        fixed = sum(_range(domains[variable], c)[0] for variable, c in self.terms if variable not in inside)
        low, high = (None if limit is None else limit - fixed for limit in (self.low, self.high))
        scope, coefficients = zip(*(term for term in self.terms if term[0] in inside), strict=True)
        return Sum(scope, coefficients, low, high)


class Number:
    """low <= how many variables have a value <= high."""

    def __init__(self, scope: Sequence[int], value: int, low: int, high: int):
        self.scope, self.mask, self.low, self.high, self.cost = scope, bit(value), low, high, len(scope)

    def narrow(self, state: Propagation) -> bool:
        possible = [variable for variable in self.scope if state.domains[variable] & self.mask]
        open_ = [variable for variable in possible if state.domains[variable] != self.mask]
        sure = len(possible) - len(open_)
        if sure > self.high or len(possible) < self.low:
            return False
        if sure == self.high:
            return all(state.keep(variable, ~self.mask) for variable in open_)
        if len(possible) == self.low:
            return all(state.keep(variable, self.mask) for variable in open_)
        return True

    def within(self, block: Sequence[int], domains: Sequence[int]) -> Rule:
        inside = set(block)
        fixed = sum(domains[variable] == self.mask for variable in self.scope if variable not in inside)
        return Number(block, self.mask.bit_length() - 1, self.low - fixed, self.high - fixed)


class Rows:
    """The values form one of the rows: each variable keeps what some possible row gives it."""

    def __init__(self, scope: Sequence[int], rows: Sequence[Sequence[int]]):
        self.scope, self.rows = scope, [[bit(value) for value in row] for row in rows]
        self.cost = len(scope) * len(rows)

    def within(self, block: Sequence[int], domains: Sequence[int]) -> Rule:
        inside, part = set(block), Rows(block, ())
        possible = [row for row in self.rows if all(m & domains[v] for v, m in zip(self.scope, row, strict=True))]
        part.rows = [[m for v, m in zip(self.scope, row, strict=True) if v in inside] for row in possible]
        part.cost = len(block) * len(part.rows)
        return part

    def narrow(self, state: Propagation) -> bool:
        domains, left = [state.domains[variable] for variable in self.scope], [0] * len(self.scope)
        for row in self.rows:
            if all(mask & domain for mask, domain in zip(row, domains, strict=True)):
                left = [mask | more for mask, more in zip(left, row, strict=True)]
        return all(state.keep(variable, mask) for variable, mask in zip(self.scope, left, strict=True))


def _one_at_most(mask: int) -> bool:
    return mask & (mask - 1) == 0


@lru_cache(1 << 16)
def _range(domain: int, coefficient: int) -> tuple[int, int]:
    """The least and the most of coefficient * x."""
    ends = coefficient * ((domain & -domain).bit_length() - 1), coefficient * (domain.bit_length() - 1)
    return min(ends), max(ends)


def _at_most(bound: int, coefficient: int, size: int) -> int:
    """The values x < size with coefficient * x <= bound, as a mask."""
    if coefficient > 0:
        return (1 << min(max(bound // coefficient + 1, 0), size)) - 1
    if coefficient < 0:
        return -1 << min(max(-(bound // -coefficient), 0), size)
    return -1 if bound >= 0 else 0


def _add_pairs(group: NotEqual | Conflict, neighbours: dict[int, Neighbours]) -> None:
    for index, (i, j) in enumerate(group.pairs.tolist()):
        first, second = (neighbours.setdefault(variable, Neighbours(variable)) for variable in (i, j))
        first.cost += 1
        second.cost += 1
        if isinstance(group, NotEqual):
            first.different.append(j)
            second.different.append(i)
        else:
            a, b = (bit(value) for value in group.values[index].tolist())
            first.conflicts.setdefault(a, []).append((j, b))
            second.conflicts.setdefault(b, []).append((i, a))


def _sum(group: Linear, index: int, scope: list[int]) -> Sum:
    rows, bound = slice(*group.scopes.offsets[index : index + 2]), int(group.bounds[index])
    low = bound if group.bounds_below[index] else None
    high = bound if group.bounds_above[index] else None
    return Sum(scope, group.coefficients[rows].tolist(), low, high)


def _number(group: Count, index: int, scope: list[int]) -> Number:
    return Number(scope, int(group.values[index]), int(group.low[index]), int(group.high[index]))


# Constraints on pairs have no rule each, but one for all pairs of a variable.
RULES: dict[type[Constraint], Callable[[Any, int, list[int]], Rule]] = {
    AllDifferent: lambda _group, _index, scope: Different(scope),
    Linear: _sum,
    Count: _number,
    Table: lambda group, _index, scope: Rows(scope, group.tuples.tolist()),
}
