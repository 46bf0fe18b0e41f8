"""An instance as a model of OR-Tools' CP-SAT. The finisher `exact` and the baseline of `bench` share it.

A soft constraint has a literal that says whether it is met. The constraint counts where the literal is true, and the
objective pays the weight where it is false. So an optimal solution has it true wherever the constraint holds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import combinations, product
from typing import Any

import numpy as np
import numpy.typing as npt

from blogdit.core.constraints import (
    FAR,
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
from blogdit.core.instance import Instance, Objective
from blogdit.finishers.cp_variables import Variables

MOST_CLIQUE_NODES = 4096  # nodes; the search for cliques needs this number squared in bytes (16 MiB)
MOST_DECIMALS = 6  # digits after the point that weights may have and still be translated without rounding
LARGEST_SUM = 2**53  # of scaled weights; float64, in which the exact check adds up weights, has all integers up to here

Met = Sequence[Any] | None  # a literal for each constraint of a group, which counts only where it is true


class Translation(Variables):
    """A CP-SAT model, and the way back from its solutions to values of the instance.

    `exact_objective` says whether the weights of the objective are translated without rounding.
    """

    def __init__(self, instance: Instance, over: Callable[[], bool] = lambda: False):
        super().__init__(instance, over)
        self.exact_objective = True
        self.differ_literals: list[Any] = []  # one for each row of `objective.differ`
        self.both_literals: list[Any] = []  # one for each row of `objective.pairwise`
        self.met_literals: list[list[Any]] = []  # one for each constraint of each group of `objective.soft`
        for group in instance.constraints:
            self._add(group)
        if instance.objective is not None:
            for group, _ in instance.objective.soft:
                self.met_literals.append([self.model.new_bool_var("met") for _ in range(len(group))])
                self._add(group, self.met_literals[-1])
            self._optimise(instance.objective)

    def hint(self, values: IntArray) -> None:
        """Tell CP-SAT where to look first. Givens and domains must hold in `values`, constraints need not."""
        self._hint_variables(values)
        if (goal := self.instance.objective) is None:
            return
        different = values[goal.differ[:, 0]] != values[goal.differ[:, 1]]
        both = (values[goal.pairwise[:, :2]] == goal.pairwise[:, 2:]).all(axis=1)
        numbers = self.domains.numbers(values)
        met = [group.violations(values, numbers) == 0 for group, _ in goal.soft]
        literals = [self.differ_literals, self.both_literals, *self.met_literals]
        for some, truth in zip(literals, (different, both, *met), strict=True):
            for literal, true in zip(some, truth.tolist(), strict=True):
                self.model.add_hint(literal, true)

    # Constraints

    def _add(self, group: Constraint, met: Met = None) -> None:
        kinds: dict[type[Constraint], Callable[[Any, Met], None]] = {
            AllDifferent: self._add_all_different,
            NotEqual: self._add_not_equal,
            Conflict: self._add_conflict,
            Linear: self._add_sum,
            Count: self._add_sum,
            Sum: self._add_sum,
            Function: self._add_function,
            Table: self._add_table,
        }
        if type(group) not in kinds:
            raise TypeError(f"no translation of {group.kind} constraints to CP-SAT")
        kinds[type(group)](group, met)

    def _bounded(self, total: Any, intervals: Sequence[tuple[int, int]], conditions: Sequence[Any]) -> None:
        """The sum lies in one of the intervals, where all conditions hold."""
        from ortools.sat.python import cp_model

        domain = cp_model.Domain.from_intervals([list(one) for one in intervals])
        self.model.add_linear_expression_in_domain(total, domain).only_enforce_if(*conditions)

    def _add_all_different(self, group: AllDifferent, met: Met) -> None:
        for index in range(len(group)):
            self._look()
            scope, entries = group.scope(index).tolist(), group.scopes.entries_of(index)
            offsets = [0] * len(scope) if group.offsets is None else group.offsets[entries].tolist()
            condition = [] if met is None else [met[index]]
            if not self._small(*scope):
                terms = [self._number(i) + offset for i, offset in zip(scope, offsets, strict=True)]
                if met is None:
                    self.model.add_all_different(terms)
                for one, other in () if met is None else combinations(terms, 2):
                    self.model.add(one != other).only_enforce_if(*condition)
                continue
            takers: dict[int, list[Any]] = {}  # what a value means -> who takes it where
            for i, offset in zip(scope, offsets, strict=True):
                for value, means in enumerate((self.domains.of(i) + offset).tolist()):
                    takers.setdefault(means, []).append(self._literal(i, value))
            for some in takers.values():
                if met is not None:
                    self._bounded(sum(some, self.never), [(0, 1)], condition)
                elif len(scope) == len(takers):  # every value occurs
                    self.model.add_exactly_one(some)
                else:
                    self.model.add_at_most_one(some)

    def _add_not_equal(self, group: NotEqual, met: Met) -> None:
        for index, (i, j) in enumerate(self._rows(group.pairs)):
            self._unequal(i, j, unless=() if met is None else (~met[index],))

    def _add_conflict(self, group: Conflict, met: Met) -> None:
        width = int(group.values.max(initial=0)) + 1
        codes, numbered = np.unique(group.pairs * width + group.values, return_inverse=True)
        literals, pairs = [self._literal(*divmod(code, width)) for code in self._rows(codes)], numbered.reshape(-1, 2)
        if met is not None:
            for (first, second), literal in zip(self._rows(pairs), met, strict=True):
                self.model.add_bool_or(~literals[first], ~literals[second], ~literal)
            return
        # The search for cliques would take long on large graphs.
        for clique in self._rows(pairs) if len(codes) > MOST_CLIQUE_NODES else cliques(pairs, len(codes)):
            self._look()
            self.model.add_at_most_one(literals[node] for node in clique)

    def _add_sum(self, group: Sum, met: Met) -> None:
        for index, (low, high) in enumerate(self._rows(group.limits)):
            entries = group.scopes.entries_of(index)
            rows = (group.scopes.variables[entries], group.equals[entries], group.weights[entries])
            terms = zip(*(row.tolist() for row in rows), strict=True)
            total = sum((w * (self._number(i) if a < 0 else self._literal(i, a)) for i, a, w in terms), self.never)
            conditions = [] if met is None else [met[index]]
            if group.when is None:
                self._bounded(total, [(low, high)], conditions)
                continue
            variable, value, truth = group.when[index].tolist()
            counts = self._literal(variable, value) if truth else ~self._literal(variable, value)
            self._bounded(total, [(low, high)], [*conditions, counts])
            if group.exactly:
                outside = [one for one in ((-FAR, low - 1), (high + 1, FAR)) if one[0] <= one[1]]
                self._bounded(total, outside, [*conditions, ~counts])

    def _add_function(self, group: Function, met: Met) -> None:
        for index, variable in enumerate(self._rows(group.results)):
            conditions = [] if met is None else [met[index]]
            scope, result = group.scopes[index].tolist(), self._number(variable)
            if group.which == "element":
                for value in range(self.sizes[scope[0]]):
                    chosen = [*conditions, self._literal(scope[0], value)]
                    self.model.add(result == self._number(scope[1 + value])).only_enforce_if(*chosen)
                continue
            sign = -1 if group.which == "min" else 1
            reached = [self.model.new_bool_var("reached") for _ in scope]
            for i, literal in zip(scope, reached, strict=True):
                is_reached = partial(_is_at_most, which=sign, variable=variable, other=i)
                self.auxiliary.append((literal, is_reached))
                above = sign * result - sign * self._number(i)
                self.model.add(above >= 0).only_enforce_if(*conditions)
                self.model.add(above <= 0).only_enforce_if(literal)
            self.model.add_bool_or(*reached, *(~literal for literal in conditions))

    def _add_table(self, group: Table, met: Met) -> None:
        tuples = group.tuples.tolist()
        for index in range(len(group)):
            self._look()
            scope = group.scope(index).tolist()
            if met is None:
                self.model.add_allowed_assignments([self._integer(i) for i in scope], tuples)
                continue
            sizes = [self.sizes[i] for i in scope]
            if math.prod(sizes) <= 2 * len(tuples):  # what is not allowed is less to say
                for values in sorted(set(product(*map(range, sizes))) - set(map(tuple, tuples))):
                    denied = [~self._literal(i, value) for i, value in zip(scope, values, strict=True)]
                    self.model.add_bool_or(*denied, ~met[index])
                continue
            chosen = [self.model.new_bool_var("tuple") for _ in tuples]
            for literal, values in zip(chosen, tuples, strict=True):
                self.auxiliary.append((literal, partial(_has_tuple, scope=scope, tuple_=values)))
                for i, value in zip(scope, values, strict=True):
                    self.model.add_implication(literal, self._literal(i, value))
            self.model.add_bool_or(*chosen, ~met[index])

    # Objective

    def _optimise(self, goal: Objective) -> None:
        """Each term is a literal. It may be true only where the term is earned; if the term costs something, it must be
        true there."""
        from ortools.sat.python import cp_model

        sign = 1 if goal.sense == "maximize" else -1
        unary_literals = [self._literal(i, a) for i, a in self._rows(goal.unary)]
        numbers = [self._number(i) for i in self._rows(goal.linear)]
        for (i, j), weight in zip(self._rows(goal.differ), goal.differ_weights, strict=True):
            self.differ_literals.append(self._differ(i, j, wanted=weight * sign > 0))
        for (i, j, a, b), weight in zip(self._rows(goal.pairwise), goal.pairwise_weights, strict=True):
            both = self._both(self._literal(i, a), self._literal(j, b), wanted=weight * sign > 0)
            self.both_literals.append(both)
        terms = [*unary_literals, *numbers, *self.differ_literals, *self.both_literals]
        parts = [goal.unary_weights, goal.linear_weights, goal.differ_weights, goal.pairwise_weights]
        for (_, costs), met in zip(goal.soft, self.met_literals, strict=True):
            terms += [~literal for literal in met]
            parts.append(goal.sign * costs)
        largest = np.maximum(np.abs(self.domains.least), np.abs(self.domains.greatest))[goal.linear]
        scales = [np.ones(len(part)) if part is not goal.linear_weights else largest for part in parts]
        weights = np.concatenate(parts).tolist()
        whole = whole_weights(weights, np.concatenate(scales))
        self.exact_objective = whole is not None
        if terms:
            total = cp_model.LinearExpr.weighted_sum(terms, weights if whole is None else whole)
            (self.model.maximize if goal.sense == "maximize" else self.model.minimize)(total)

    def _differ(self, i: int, j: int, wanted: bool) -> Any:
        literal = self.model.new_bool_var("differ")
        if self.sizes[i] == self.sizes[j] == 2:  # the form in which CP-SAT's local search is fastest
            self.model.add_bool_xor(self._literal(i, 1), self._literal(j, 1), ~literal)
        elif wanted:
            self._unequal(i, j, unless=(~literal,))
        elif self._small(i, j):
            for value in range(max(self.sizes[i], self.sizes[j])):
                self.model.add_bool_or(~self._literal(i, value), self._literal(j, value), literal)
        else:
            self.model.add(self._expression(i) == self._expression(j)).only_enforce_if(~literal)
        return literal

    def _both(self, first: Any, second: Any, wanted: bool) -> Any:
        literal = self.model.new_bool_var("both")
        if wanted:
            self.model.add_implication(literal, first)
            self.model.add_implication(literal, second)
        else:
            self.model.add_bool_or(~first, ~second, literal)
        return literal


def whole_weights(weights: Sequence[float], largest: npt.ArrayLike = 1) -> list[int] | None:
    """The weights times a power of ten that makes all of them integers, or None if no small one does. `largest` is what
    each weight may be multiplied by."""
    given = np.array(weights, np.float64)
    for decimals in range(MOST_DECIMALS + 1):
        scale = 10.0**decimals
        whole = np.rint(given * scale)
        if (np.abs(whole) * largest).sum() >= LARGEST_SUM:
            return None
        if (whole / scale == given).all():
            return [int(weight) for weight in whole]
    return None


def _is_at_most(_: IntArray, numbers: IntArray, which: int, variable: int, other: int) -> bool:
    """Whether one variable is at most another (which = 1), or at least (which = -1)."""
    return bool(which * (numbers[variable] - numbers[other]) <= 0)


def _has_tuple(values: IntArray, _: IntArray, scope: Sequence[int], tuple_: Sequence[int]) -> bool:
    return values[scope].tolist() == tuple_


def cliques(pairs: IntArray, nodes: int) -> Iterator[Sequence[int]]:
    """Sets of nodes, all joined to each other, that together cover every pair. CP-SAT then need not find them pair by
    pair. A set of nodes is an integer here, one bit per node."""
    joined = np.zeros((nodes, nodes), np.bool_)
    joined[pairs[:, 0], pairs[:, 1]] = joined[pairs[:, 1], pairs[:, 0]] = True
    near = [int.from_bytes(row.tobytes(), "little") for row in np.packbits(joined, axis=1, bitorder="little")]
    uncovered = near.copy()
    for node in range(nodes):
        while uncovered[node]:
            clique, may_join = [node], uncovered[node]
            while may_join:
                clique.append((may_join & -may_join).bit_length() - 1)
                may_join &= near[clique[-1]]
            others = ~sum(1 << member for member in clique)
            for member in clique:
                uncovered[member] &= others
            yield clique
