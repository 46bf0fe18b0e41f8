"""OR-Tools' CP-SAT: the whole solver, and its violation local search ("Feasibility Jump") alone.

No hints are given to it. It runs with `Budget.workers` threads and its own parameters otherwise; the time to build
the model counts. What it claims about the answer (OPTIMAL, INFEASIBLE, ...) is kept in `Result.model`, unused.
"""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import numpy as np
import numpy.typing as npt

from blogdit.baselines.base import Budget, Clock, System
from blogdit.constraints import AllDifferent, Conflict, Constraint, Count, Linear, NotEqual, Table
from blogdit.csp import Instance, Objective
from blogdit.result import Result

LEAST_SECONDS = 1e-3


class CpSat(System):
    packages = ("ortools",)

    def __init__(self, name: str, summary: str, **parameters: Any):
        self.name, self.summary, self.parameters = name, summary, parameters

    def solve(self, instance: Instance, budget: Budget, seed: int = 0) -> Result:
        self.require()
        from ortools.sat.python import cp_model

        clock = Clock(budget.seconds)
        translation = Translation(instance)
        solver = cp_model.CpSolver()
        solver.parameters.random_seed = seed % 2**31
        solver.parameters.num_workers = budget.workers
        if budget.seconds is not None:
            solver.parameters.max_time_in_seconds = max(clock.left, LEAST_SECONDS)
        for name, value in self.parameters.items():
            setattr(solver.parameters, name, value)
        status = solver.solve(translation.model)
        values: npt.ArrayLike = instance.given_values
        if status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            values = np.array([solver.value(variable) for variable in translation.variables], np.int64)
        claim = f"ortools {version('ortools')}: {solver.status_name(status)}"
        return Result(instance, np.asarray(values), 0, clock.spent, seed, claim)


class Translation:
    """An instance as a CP-SAT model: an integer variable each, a Boolean one where the domain has two values."""

    def __init__(self, instance: Instance):
        from ortools.sat.python import cp_model

        self.model = cp_model.CpModel()
        self.variables = [
            self._variable(i, int(size), instance.givens.get(i)) for i, size in enumerate(instance.domain_sizes)
        ]
        self.sizes = instance.domain_sizes
        self._literals: dict[tuple[int, int], Any] = {}
        for group in instance.constraints:
            self._add(group)
        if instance.objective is not None:
            self._optimise(instance.objective)

    def _variable(self, index: int, size: int, given: int | None) -> Any:
        if given is not None:
            return self.model.new_int_var(given, given, f"x{index}")
        return self.model.new_bool_var(f"x{index}") if size == 2 else self.model.new_int_var(0, size - 1, f"x{index}")

    def _literal(self, variable: int, value: int) -> Any:
        """True exactly where the variable takes the value."""
        key = (variable, value)
        if key not in self._literals:
            x, literal = self.variables[variable], self.model.new_bool_var(f"x{variable}={value}")
            if value >= self.sizes[variable]:
                self.model.add(literal == 0)
            else:
                self.model.add(x == value).only_enforce_if(literal)
                self.model.add(x != value).only_enforce_if(~literal)
            self._literals[key] = literal
        return self._literals[key]

    def _is_bool(self, variable: int) -> bool:
        proto = self.variables[variable].proto.domain
        return bool(self.sizes[variable] == 2 and list(proto) == [0, 1])

    def _value_literal(self, variable: int, value: int) -> Any:
        if self._is_bool(variable) and value in (0, 1):
            return self.variables[variable] if value else ~self.variables[variable]
        return self._literal(variable, value)

    def _add(self, group: Constraint) -> None:
        model, x = self.model, self.variables
        if isinstance(group, AllDifferent):
            for index in range(len(group)):
                model.add_all_different([x[i] for i in group.scope(index)])
        elif isinstance(group, NotEqual):
            for i, j in group.pairs.tolist():
                model.add(x[i] != x[j])
        elif isinstance(group, Conflict):
            for (i, j), (a, b) in zip(group.pairs.tolist(), group.values.tolist(), strict=True):
                model.add_bool_or(~self._value_literal(i, a), ~self._value_literal(j, b))
        elif isinstance(group, Linear):
            for index, (relation, bound) in enumerate(zip(group.relations, group.bounds.tolist(), strict=True)):
                rows = slice(group.scopes.offsets[index], group.scopes.offsets[index + 1])
                total = sum(
                    c * x[i] for c, i in zip(group.coefficients[rows].tolist(), group.scope(index), strict=True)
                )
                model.add(
                    total <= bound if relation == "<=" else total >= bound if relation == ">=" else total == bound
                )
        elif isinstance(group, Count):
            for index, (value, low, high) in enumerate(zip(group.values, group.low, group.high, strict=True)):
                number = sum(self._value_literal(int(i), int(value)) for i in group.scope(index))
                model.add_linear_constraint(number, int(low), int(high))
        elif isinstance(group, Table):
            for index in range(len(group)):
                model.add_allowed_assignments([x[i] for i in group.scope(index)], group.tuples.tolist())
        else:
            raise TypeError(f"no translation of {group.kind} constraints to CP-SAT")

    def _optimise(self, goal: Objective) -> None:
        """Each term is a literal that may be true only where it is earned or, if it costs, must be true there."""
        sign = 1 if goal.sense == "maximize" else -1
        terms, weights = [], []
        for (i, a), w in zip(goal.unary.tolist(), goal.unary_weights, strict=True):
            terms.append(self._value_literal(i, a))
            weights.append(w)
        for (i, j), w in zip(goal.differ.tolist(), goal.differ_weights, strict=True):
            terms.append(self._differ(i, j, wanted=w * sign > 0))
            weights.append(w)
        for (i, j, a, b), w in zip(goal.pairwise.tolist(), goal.pairwise_weights, strict=True):
            terms.append(self._both(self._value_literal(i, a), self._value_literal(j, b), wanted=w * sign > 0))
            weights.append(w)
        if not terms:
            return
        whole = all(float(w).is_integer() for w in weights)
        total = sum((int(w) if whole else float(w)) * term for term, w in zip(terms, weights, strict=True))
        if goal.sense == "maximize":
            self.model.maximize(total)
        else:
            self.model.minimize(total)

    def _differ(self, i: int, j: int, wanted: bool) -> Any:
        model, x, y = self.model, self.variables[i], self.variables[j]
        literal = model.new_bool_var(f"differ{i},{j}")
        if self._is_bool(i) and self._is_bool(j):
            if wanted:
                model.add_bool_or(x, y, ~literal)
                model.add_bool_or(~x, ~y, ~literal)
            else:
                model.add_bool_or(~x, y, literal)
                model.add_bool_or(x, ~y, literal)
        elif wanted:
            model.add(x != y).only_enforce_if(literal)
        else:
            model.add(x == y).only_enforce_if(~literal)
        return literal

    def _both(self, first: Any, second: Any, wanted: bool) -> Any:
        literal = self.model.new_bool_var("both")
        if wanted:
            self.model.add_implication(literal, first)
            self.model.add_implication(literal, second)
        else:
            self.model.add_bool_or(~first, ~second, literal)
        return literal


SYSTEMS = (
    CpSat("cp-sat", "OR-Tools CP-SAT, no hints"),
    CpSat("feasibility-jump", "CP-SAT's violation local search alone", use_ls_only=True),
)
