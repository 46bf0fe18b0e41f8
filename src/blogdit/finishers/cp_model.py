"""An instance as a model of OR-Tools' CP-SAT. The finisher `exact` and the baseline of `bench` share it.

A variable with few values becomes one Boolean per value (a single Boolean if there are two values). On graph colouring
this is many times faster than integer variables. Variables with many values become integer variables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from blogdit.core.constraints import AllDifferent, Conflict, Constraint, Count, IntArray, Linear, NotEqual, Table
from blogdit.core.instance import Instance, Objective
from blogdit.finishers.tasks import OutOfTime

MOST_LITERALS = 64  # values; with more of them one integer variable is smaller and faster than a Boolean per value
MOST_CLIQUE_NODES = 4096  # nodes; the search for cliques needs this number squared in bytes (16 MiB)
BETWEEN_LOOKS = 512  # constraints and variables added between two looks at the clock, about 2 ms
MOST_DECIMALS = 6  # digits after the point that weights may have and still be translated without rounding
LARGEST_SUM = 2**53  # of scaled weights; float64, in which the exact check adds up weights, has all integers up to here


class Translation:
    """A CP-SAT model, and the way back from its solutions to values of the instance.

    `over` is asked now and then whether to give up; then `OutOfTime` is raised.
    `exact_objective` says whether the weights of the objective are translated without rounding.
    """

    def __init__(self, instance: Instance, over: Callable[[], bool] = lambda: False):
        from ortools.sat.python import cp_model

        self.model = cp_model.CpModel()
        self.instance, self.exact_objective = instance, True
        self.sizes: list[int] = instance.domain_sizes.tolist()
        self.over, self.added = over, 0
        self.never = self.model.new_constant(0)
        self.integers: dict[int, Any] = {}  # variable -> its integer variable, if it has one
        self.literals: dict[tuple[int, int], Any] = {}  # (variable, value) -> true where the variable has the value
        self.differ_literals: list[Any] = []  # one for each row of `objective.differ`
        self.both_literals: list[Any] = []  # one for each row of `objective.pairwise`
        for variable, size in enumerate(self.sizes):
            self._declare(variable, size, instance.givens.get(variable))
        for group in instance.constraints:
            self._add(group)
        if instance.objective is not None:
            self._optimise(instance.objective)

    def values(self, solver: Any) -> IntArray:
        """The solution that CP-SAT has found, as values of the instance."""
        found = np.zeros(len(self.sizes), np.int64)
        for variable, size in enumerate(self.sizes):
            if size > MOST_LITERALS:
                found[variable] = solver.value(self.integers[variable])
            else:
                has = (value for value in range(size) if solver.boolean_value(self.literals[variable, value]))
                found[variable] = next(has)
        return found

    def hint(self, values: IntArray) -> None:
        """Tell CP-SAT where to look first. Givens and domains must hold in `values`, constraints need not."""
        hint, goal = self.model.add_hint, self.instance.objective
        for variable, whole in self.integers.items():
            hint(whole, int(values[variable]))
        for (variable, value), literal in self.literals.items():
            size = self.sizes[variable]
            is_constant = size <= MOST_LITERALS and (size == 1 or self.instance.is_given[variable])
            if not is_constant and not (size == 2 and value == 0):  # value 0 of two is the negation of value 1
                hint(literal, bool(values[variable] == value))
        if goal is not None:
            different = values[goal.differ[:, 0]] != values[goal.differ[:, 1]]
            both = (values[goal.pairwise[:, :2]] == goal.pairwise[:, 2:]).all(axis=1)
            for literals, truth in ((self.differ_literals, different), (self.both_literals, both)):
                for literal, true in zip(literals, truth.tolist(), strict=True):
                    hint(literal, true)

    def _look(self) -> None:
        """Give up if the time is over."""
        self.added += 1
        if self.added % BETWEEN_LOOKS == 0 and self.over():
            raise OutOfTime

    def _rows(self, array: IntArray) -> Iterator[Any]:
        """Rows as lists, a few at a time: lists of all rows of a large graph would take a second to make."""
        for first in range(0, len(array), BETWEEN_LOOKS):
            for row in array[first : first + BETWEEN_LOOKS].tolist():
                self._look()
                yield row

    # Variables

    def _declare(self, variable: int, size: int, given: int | None) -> None:
        self._look()
        if size > MOST_LITERALS:
            low, high = (0, size - 1) if given is None else (given, given)
            self.integers[variable] = self.model.new_int_var(low, high, f"x{variable}")
        elif given is not None or size == 1:
            always = self.model.new_constant(1)
            for value in range(size):
                self.literals[variable, value] = always if value == (given or 0) else self.never
        elif size == 2:
            literal = self.model.new_bool_var(f"x{variable}")
            self.literals[variable, 0], self.literals[variable, 1] = ~literal, literal
        else:
            literals = [self.model.new_bool_var(f"x{variable}={value}") for value in range(size)]
            self.model.add_exactly_one(literals)
            self.literals |= {(variable, value): literal for value, literal in enumerate(literals)}

    def _literal(self, variable: int, value: int) -> Any:
        """True exactly where the variable takes the value."""
        if value >= self.sizes[variable]:
            return self.never
        if (variable, value) not in self.literals:
            literal = self.model.new_bool_var(f"x{variable}={value}")
            self.model.add(self.integers[variable] == value).only_enforce_if(literal)
            self.model.add(self.integers[variable] != value).only_enforce_if(~literal)
            self.literals[variable, value] = literal
        return self.literals[variable, value]

    def _expression(self, variable: int) -> Any:
        """The variable's value as a linear expression."""
        if variable in self.integers:
            return self.integers[variable]
        return sum(value * self.literals[variable, value] for value in range(1, self.sizes[variable]))

    def _integer(self, variable: int) -> Any:
        """The variable as an integer variable, for constraints that take nothing else."""
        if variable not in self.integers:
            whole = self.model.new_int_var(0, self.sizes[variable] - 1, f"x{variable}")
            self.model.add(whole == self._expression(variable))
            self.integers[variable] = whole
        return self.integers[variable]

    def _small(self, *variables: int) -> bool:
        """Whether all of these have a Boolean per value."""
        return all(self.sizes[variable] <= MOST_LITERALS for variable in variables)

    # Constraints

    def _add(self, group: Constraint) -> None:
        kinds: dict[type[Constraint], Callable[[Any], None]] = {
            AllDifferent: self._add_all_different,
            NotEqual: self._add_not_equal,
            Conflict: self._add_conflict,
            Linear: self._add_linear,
            Count: self._add_count,
            Table: self._add_table,
        }
        if type(group) not in kinds:
            raise TypeError(f"no translation of {group.kind} constraints to CP-SAT")
        kinds[type(group)](group)

    def _add_all_different(self, group: AllDifferent) -> None:
        for index in range(len(group)):
            self._look()
            scope = group.scope(index).tolist()
            if not self._small(*scope):
                self.model.add_all_different([self._integer(i) for i in scope])
                continue
            width = max(self.sizes[i] for i in scope)
            every_value_occurs = len(scope) == width
            for value in range(width):
                takers = [self._literal(i, value) for i in scope]
                (self.model.add_exactly_one if every_value_occurs else self.model.add_at_most_one)(takers)

    def _add_not_equal(self, group: NotEqual) -> None:
        for i, j in self._rows(group.pairs):
            self._unequal(i, j)

    def _add_conflict(self, group: Conflict) -> None:
        width = int(group.values.max(initial=0)) + 1
        codes, numbered = np.unique(group.pairs * width + group.values, return_inverse=True)
        literals, pairs = [self._literal(*divmod(code, width)) for code in self._rows(codes)], numbered.reshape(-1, 2)
        # The search for cliques would take long on large graphs.
        for clique in self._rows(pairs) if len(codes) > MOST_CLIQUE_NODES else cliques(pairs, len(codes)):
            self._look()
            self.model.add_at_most_one(literals[node] for node in clique)

    def _add_linear(self, group: Linear) -> None:
        for index, (relation, bound) in enumerate(zip(group.relations, group.bounds.tolist(), strict=True)):
            self._look()
            rows = slice(group.scopes.offsets[index], group.scopes.offsets[index + 1])
            scope = zip(group.coefficients[rows].tolist(), group.scope(index).tolist(), strict=True)
            total = sum((c * self._expression(i) for c, i in scope), self.never)
            self.model.add(
                total <= bound if relation == "<=" else total >= bound if relation == ">=" else total == bound
            )

    def _add_count(self, group: Count) -> None:
        for index, (value, low, high) in enumerate(zip(group.values, group.low, group.high, strict=True)):
            self._look()
            number = sum(self._literal(i, int(value)) for i in group.scope(index).tolist())
            self.model.add_linear_constraint(number, int(low), int(high))

    def _add_table(self, group: Table) -> None:
        tuples = group.tuples.tolist()
        for index in range(len(group)):
            self._look()
            members = [self._integer(i) for i in group.scope(index).tolist()]
            self.model.add_allowed_assignments(members, tuples)

    def _unequal(self, i: int, j: int, unless: tuple[Any, ...] = ()) -> None:
        """x_i != x_j, or one of the literals `unless`."""
        if self._small(i, j):
            for value in range(min(self.sizes[i], self.sizes[j])):
                self.model.add_bool_or(~self._literal(i, value), ~self._literal(j, value), *unless)
        else:
            different = self.model.add(self._expression(i) != self._expression(j))
            if unless:
                different.only_enforce_if(*(~literal for literal in unless))

    # Objective

    def _optimise(self, goal: Objective) -> None:
        """Each term is a literal. It may be true only where the term is earned; if the term costs something, it must be
        true there."""
        from ortools.sat.python import cp_model

        sign = 1 if goal.sense == "maximize" else -1
        unary_literals = [self._literal(i, a) for i, a in self._rows(goal.unary)]
        for (i, j), weight in zip(self._rows(goal.differ), goal.differ_weights, strict=True):
            self.differ_literals.append(self._differ(i, j, wanted=weight * sign > 0))
        for (i, j, a, b), weight in zip(self._rows(goal.pairwise), goal.pairwise_weights, strict=True):
            both = self._both(self._literal(i, a), self._literal(j, b), wanted=weight * sign > 0)
            self.both_literals.append(both)
        terms = [*unary_literals, *self.differ_literals, *self.both_literals]
        weights = [*goal.unary_weights.tolist(), *goal.differ_weights.tolist(), *goal.pairwise_weights.tolist()]
        whole = whole_weights(weights)
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


def whole_weights(weights: Sequence[float]) -> list[int] | None:
    """The weights times a power of ten that makes all of them integers, or None if no small one does."""
    given = np.array(weights, np.float64)
    for decimals in range(MOST_DECIMALS + 1):
        scale = 10.0**decimals
        whole = np.rint(given * scale)
        if np.abs(whole).sum() >= LARGEST_SUM:
            return None
        if (whole / scale == given).all():
            return [int(weight) for weight in whole]
    return None


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
