"""A model of OR-Tools' CP-SAT as an instance.

Variable i of the model is variable i of the instance, with the numbers of its domain as values; variables that only the
instance has come behind. What an instance cannot say raises an InputError that names the constraint.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from blogdit.core.constraints import Conflict, Function, NotEqual
from blogdit.core.errors import InputError
from blogdit.core.instance import Instance
from blogdit.core.problem import Problem
from blogdit.integrations.cpmpy_instance import recognised
from blogdit.integrations.ortools_proto import (
    FAR,
    MOST_VALUES,
    Literal,
    Statements,
    bounds,
    counted,
    has,
    intervals_of,
    kind_of,
    numbers_of,
    opposite,
    product,
    quotient,
    remainder,
    size_of,
)

MOST_ROWS = 4096  # combinations of values that are tried to say a product, a quotient or a remainder as a table


def from_cp_model(model: Any, name: str = "") -> Instance:
    """The instance that a `CpModel`, or its proto, describes."""
    proto = getattr(model, "proto", model)
    if not hasattr(proto, "variables") or not hasattr(proto, "constraints"):
        raise InputError(f"expected a CpModel of OR-Tools, got {type(model).__name__}")
    try:
        return _Reader(proto, name).instance()
    except InputError:
        raise
    except (ValueError, OverflowError) as error:
        raise InputError(str(error)) from None


class _Reader:
    """A model as it is read, constraint by constraint."""

    def __init__(self, proto: Any, name: str):
        self.proto, self.problem = proto, Problem("cp-sat", name)
        self.not_equal: list[tuple[int, int]] = []
        self.functions: dict[str, list[tuple[int, list[int]]]] = {}
        self.say = Statements(self.problem)
        self.where = ""  # what is read now, for errors
        # Constraints that may count only where literals hold, and the others.
        self.conditional: dict[str, Callable[[Any, list[Literal]], None]] = {
            "linear": self._linear,
            "bool_or": self._any_true,
            "bool_and": self._all_true,
            "at_most_one": lambda one, given: self.say.sum(counted(self.say.literals(one.literals)), None, 1, given),
            "exactly_one": lambda one, given: self.say.sum(counted(self.say.literals(one.literals)), 1, 1, given),
            "bool_xor": self._odd,
            "interval": self._interval,
        }
        self.always: dict[str, Callable[[Any], None]] = {
            "all_diff": self._different,
            "lin_max": self._maximum,
            "element": self._element,
            "table": self._table,
            "inverse": self._inverse,
            "int_prod": lambda one: self._enumerated(one, product),
            "int_div": lambda one: self._enumerated(one, quotient),
            "int_mod": lambda one: self._enumerated(one, remainder),
            "no_overlap": self._no_overlap,
            "automaton": self._automaton,
        }
        total = sum(size_of(variable.domain) for variable in proto.variables)
        if total > MOST_VALUES:
            widest = max(proto.variables, key=lambda variable: size_of(variable.domain))
            many = f"variable {widest.name!r} has {size_of(widest.domain)} values"
            raise InputError(f"{many}, all variables {total}; expected at most {MOST_VALUES}")
        rows: dict[tuple[int, ...], range | tuple[int, ...]] = {}
        names: set[Any] = set()
        for index, variable in enumerate(proto.variables):
            domain = tuple(variable.domain)
            label = variable.name if variable.name and variable.name not in names else f"_{index}"
            names.add(label)
            self.problem.variable(label, rows.setdefault(domain, numbers_of(domain)))
        for index, constraint in enumerate(proto.constraints):
            self._add(index, constraint)
        for literal in proto.assumptions:
            self.say.clause([self.say.literal(literal)])

    def instance(self) -> Instance:
        self._objective()
        problem = self.problem
        if self.say.conflicts:
            problem.add(Conflict(*(list(column) for column in zip(*self.say.conflicts, strict=True))))
        if self.not_equal:
            problem.add(NotEqual(self.not_equal))
        for which, rows in self.functions.items():
            problem.add(Function(which, *(list(column) for column in zip(*rows, strict=True))))
        found = problem.instance()
        if all(row == tuple(range(len(row))) for row in set(problem.values)):
            found = recognised(replace(found, values=None))
        return found

    # -- constraints -----------------------------------------------------------------------------------------------

    def _add(self, index: int, constraint: Any) -> None:
        kind, given = kind_of(constraint), self.say.literals(constraint.enforcement_literal)
        self.where = f"constraint {index} {f'({constraint.name}) ' * bool(constraint.name)}is {kind}"
        if kind in self.conditional:
            self.conditional[kind](getattr(constraint, kind), given)
        elif kind not in self.always:
            known = ", ".join([*self.conditional, *self.always])
            raise InputError(f"{self.where}, which an instance cannot say; expected one of {known}")
        elif given:
            raise InputError(f"{self.where} with a condition, which an instance cannot say; expected none")
        else:
            self.always[kind](getattr(constraint, kind))

    def _any_true(self, constraint: Any, given: list[Literal]) -> None:
        self.say.clause([*self.say.literals(constraint.literals), *opposite(given)])

    def _all_true(self, constraint: Any, given: list[Literal]) -> None:
        for literal in self.say.literals(constraint.literals):
            self.say.clause([literal, *opposite(given)])

    def _odd(self, constraint: Any, given: list[Literal]) -> None:
        """An odd number of literals is true: their sum is 1 more than twice another variable."""
        literals = self.say.literals(constraint.literals)
        terms, constant = counted(literals)
        half = self.say.new(range(len(literals) // 2 + 1))
        self.say.sum(([*terms, (-2, half)], constant), 1, 1, given)

    def _linear(self, constraint: Any, given: list[Literal]) -> None:
        total: dict[int, int] = {}
        for i, c in zip(constraint.vars, constraint.coeffs, strict=True):
            place, sign = (i, 1) if i >= 0 else (-i - 1, -1)
            total[place] = total.get(place, 0) + sign * c
        terms = [(c, i) for i, c in total.items() if c]
        intervals = intervals_of(constraint.domain)
        if len(terms) == 1:
            ((factor, variable),) = terms
            numbers = self.problem.values[variable]
            allowed = [n for n in numbers if any(a <= factor * n <= b for a, b in intervals)]
            if len(numbers) - len(allowed) == 1:
                (other,) = set(numbers) - set(allowed)
                self.say.clause([(variable, other, False), *opposite(given)])
            elif len(intervals) != 1 or len(allowed) < 2:
                self.say.clause([*((variable, n, True) for n in allowed), *opposite(given)])
            elif len(allowed) < len(numbers):
                self.say.sum((terms, 0), *bounds(intervals[0]), given)
            return
        gaps = [(a[1] + 1, b[0] - 1) for a, b in itertools.pairwise(intervals)]
        if not given and len(terms) == 2 and len(gaps) == 1 and gaps[0][0] == gaps[0][1] and len(intervals) == 2:
            outer = intervals[0][0] <= -FAR and intervals[1][1] >= FAR
            if outer and sorted(c for c, _ in terms) == [-1, 1]:  # x - y != number
                (_, x), (_, y) = sorted(terms, reverse=True)
                self._unequal(x, y, gaps[0][0])
                return
        self.say.sum((terms, 0), *bounds((intervals[0][0], intervals[-1][1])), given)
        for low, high in gaps:  # below the gap or above it
            below = self.say.new()
            self.say.sum((terms, 0), None, low - 1, [*given, (below, 1, True)])
            self.say.sum((terms, 0), high + 1, None, [*given, (below, 1, False)])

    def _unequal(self, x: int, y: int, number: int) -> None:
        """x - y is not the number."""
        if number == 0 and self.problem.values[x] == self.problem.values[y]:
            self.not_equal.append((x, y))
        else:
            self.problem.different([x, y], [0, number])

    def _different(self, constraint: Any) -> None:
        parts = [self._offset(one) for one in constraint.exprs] or [(i, 0) for i in getattr(constraint, "vars", ())]
        variables, offsets = [i for i, _ in parts], [offset for _, offset in parts]
        if len(set(variables)) < len(variables):  # the same variable with other numbers
            variables = [self.say.variable(one) for one in constraint.exprs]
            offsets = [0] * len(variables)
            if len(set(variables)) < len(variables):
                self.say.never()
                return
        if len(variables) > 1:
            self.problem.different(variables, offsets if any(offsets) else None)

    def _offset(self, expression: Any) -> tuple[int, int]:
        """A variable and a number whose sum is the expression."""
        if list(expression.coeffs) == [1] and expression.vars[0] >= 0:
            return expression.vars[0], expression.offset
        return self.say.variable(expression), 0

    def _maximum(self, constraint: Any) -> None:
        """The minimum comes as the negative of the maximum of negatives."""
        every = [constraint.target, *constraint.exprs]
        is_minimum = all(c < 0 for one in every for c in one.coeffs) and any(one.coeffs for one in every)
        target, *scope = (self.say.variable(one, -1 if is_minimum else 1) for one in every)
        self.functions.setdefault("min" if is_minimum else "max", []).append((target, scope))

    def _element(self, constraint: Any) -> None:
        if constraint.exprs:
            index, target = self.say.variable(constraint.linear_index), self.say.variable(constraint.linear_target)
        else:
            index, target = constraint.index, constraint.target
        numbers, size = self.problem.values[index], len(constraint.exprs) or len(constraint.vars)
        for number in numbers:
            if not 0 <= number < size:
                self.say.clause([(index, number, False)])
        if constraint.exprs and not any(one.vars for one in constraint.exprs):
            self.say.rows([index, target], [(n, constraint.exprs[n].offset) for n in numbers if 0 <= n < size])
            return
        choices = self.say.expressions(constraint)
        scope = [choices[min(max(number, 0), size - 1)] for number in numbers]
        self.functions.setdefault("element", []).append((target, [index, *scope]))

    def _table(self, constraint: Any) -> None:
        variables = self.say.expressions(constraint)
        flat, width = list(constraint.values), len(variables)
        rows = [tuple(flat[start : start + width]) for start in range(0, len(flat), width or 1)]
        if constraint.negated:
            for row in rows:
                self.say.clause([(i, number, False) for i, number in zip(variables, row, strict=True)])
        else:
            self.say.rows(variables, rows)

    def _inverse(self, constraint: Any) -> None:
        """f(i) = j exactly where g(j) = i."""
        forth, back = list(constraint.f_direct), list(constraint.f_inverse)
        for variable in (*forth, *back):
            for number in self.problem.values[variable]:
                if not 0 <= number < len(forth):
                    self.say.clause([(variable, number, False)])
        for (i, f), (j, g) in itertools.product(enumerate(forth), enumerate(back)):
            self.say.sum(([(1, f, j), (-1, g, i)], 0), 0, 0, [])

    def _enumerated(self, constraint: Any, function: Callable[[Sequence[int]], int | None]) -> None:
        """A table of all combinations of values, and of what the function makes of them."""
        variables = [self.say.variable(one) for one in constraint.exprs]
        domains = [self.problem.values[i] for i in variables]
        tried = 1
        for domain in domains:
            tried *= len(domain)
        if tried > MOST_ROWS:
            raise InputError(f"{self.where} of {tried} combinations of values; expected at most {MOST_ROWS}")
        rows = [(*row, result) for row in itertools.product(*domains) if (result := function(row)) is not None]
        self.say.rows([*variables, self.say.variable(constraint.target)], rows)

    def _interval(self, constraint: Any, given: list[Literal]) -> None:
        """start + size = end, and no negative size."""
        size = self.say.terms(constraint.size)
        self.say.sum(([*self.say.terms(constraint.start), *size, *self.say.terms(constraint.end, -1)], 0), 0, 0, given)
        self.say.sum((size, 0), 0, None, given)

    def _no_overlap(self, constraint: Any) -> None:
        """Of two intervals that are there, one ends before the other begins."""
        for pair in itertools.combinations([self.proto.constraints[i] for i in constraint.intervals], 2):
            absent = [one for task in pair for one in opposite(self.say.literals(task.enforcement_literal))]
            either: list[Literal] = []
            for first, second in (pair, pair[::-1]):
                before = self.say.new()
                apart = [*self.say.terms(second.interval.start), *self.say.terms(first.interval.end, -1)]
                self.say.sum((apart, 0), 0, None, [(before, 1, True)])
                either.append((before, 1, True))
            self.say.clause([*either, *absent])

    def _automaton(self, constraint: Any) -> None:
        """A variable for the state behind each step, and a table of the steps that there are."""
        parts = (constraint.transition_tail, constraint.transition_label, constraint.transition_head)
        steps = list(zip(*parts, strict=True))
        states = sorted({state for tail, _, head in steps for state in (tail, head)} | {constraint.starting_state})
        before = self.say.constant(constraint.starting_state)
        for variable in self.say.expressions(constraint):
            after = self.say.new(states)
            self.say.rows([before, variable, after], steps)
            before = after
        self.say.clause([(before, state, True) for state in constraint.final_states])

    def _objective(self) -> None:
        proto = self.proto
        if has(proto, "floating_point_objective"):
            goal = proto.floating_point_objective
            scale, maximize = 1.0, goal.maximize
        elif has(proto, "objective"):
            goal = proto.objective
            scale = goal.scaling_factor or 1.0
            maximize = scale < 0
        else:
            return
        signed = [
            (scale * c, i) if i >= 0 else (-scale * c, -i - 1) for c, i in zip(goal.coeffs, goal.vars, strict=True)
        ]
        # A bit is a literal: families of graph problems have their objectives in this form.
        terms: list[Any] = [(c, i, 1) if self.problem.values[i] == (0, 1) else (c, i) for c, i in signed]
        if goal.offset:
            terms.append((scale * goal.offset, self.say.constant(0), 0))
        (self.problem.maximize if maximize else self.problem.minimize)(terms)
