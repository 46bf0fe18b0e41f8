"""OR-Tools' CP-SAT: the whole solver, and its violation local search ("Feasibility Jump") alone.

No hints are given to it. It runs with `Budget.workers` threads and its own parameters otherwise; the time to build
the model counts. What it claims about the answer (OPTIMAL, INFEASIBLE, ...) is kept in `Result.model`; INFEASIBLE also
makes it `exhausted`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from typing import Any

import numpy as np
import numpy.typing as npt

from blogdit.bench.systems.base import Budget, Clock, System
from blogdit.core.constraints import AllDifferent, Conflict, Constraint, Count, IntArray, Linear, NotEqual, Table
from blogdit.core.instance import Instance, Objective
from blogdit.core.result import Result

LEAST_SECONDS = 1e-3
MOST_LITERALS = 64  # values of a variable that is made of Booleans
MOST_BITS = 4096  # nodes of a graph of conflicts whose cliques are looked for


class CpSat(System):
    packages = ("ortools", "ortools.sat.python.cp_model")
    threaded = True

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
        status = _interruptible(solver, translation.model)
        values: npt.ArrayLike = instance.given_values
        if status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            values = np.array(translation.values(solver), np.int64)
        claim = f"ortools {version('ortools')}: {solver.status_name(status)}"
        exhausted = status == cp_model.INFEASIBLE
        return Result(instance, np.asarray(values), 0, clock.spent, seed, claim, exhausted=exhausted)


def _interruptible(solver: Any, model: Any) -> Any:
    """Solve in a thread: Ctrl-C then reaches Python at once, and ends the search instead of cutting it short unseen."""
    solver.parameters.catch_sigint_signal = False
    with ThreadPoolExecutor(1) as pool:
        status = pool.submit(solver.solve, model)
        try:
            return status.result()
        except KeyboardInterrupt:
            solver.stop_search()
            raise


class Translation:
    """An instance as a CP-SAT model.

    A variable with few values is a Boolean for each of them (one, if there are two): on colouring this is many times
    faster than integer variables that differ, for the local search above all. Others are integer variables.
    """

    def __init__(self, instance: Instance):
        from ortools.sat.python import cp_model

        self.model = cp_model.CpModel()
        self.sizes = instance.domain_sizes.tolist()
        self.never = self.model.new_constant(0)
        self.integers: dict[int, Any] = {}  # variables that exist as integers
        self.literals: dict[tuple[int, int], Any] = {}
        for variable, size in enumerate(self.sizes):
            self._declare(variable, size, instance.givens.get(variable))
        for group in instance.constraints:
            self._add(group)
        if instance.objective is not None:
            self._optimise(instance.objective)

    def values(self, solver: Any) -> list[int]:
        return [
            solver.value(self.integers[i])
            if self._is_integer(i)
            else next(k for k in range(size) if solver.boolean_value(self.literals[i, k]))
            for i, size in enumerate(self.sizes)
        ]

    def _is_integer(self, variable: int) -> bool:
        return bool(self.sizes[variable] > MOST_LITERALS)

    def _declare(self, variable: int, size: int, given: int | None) -> None:
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

    def _sum(self, variable: int) -> Any:
        """The variable's value as a linear expression."""
        if variable in self.integers:
            return self.integers[variable]
        return sum(value * self.literals[variable, value] for value in range(1, self.sizes[variable]))

    def _integer(self, variable: int) -> Any:
        """The variable as an integer variable, for constraints that take nothing else."""
        if variable not in self.integers:
            whole = self.model.new_int_var(0, self.sizes[variable] - 1, f"x{variable}")
            self.model.add(whole == self._sum(variable))
            self.integers[variable] = whole
        return self.integers[variable]

    def _small(self, *variables: int) -> bool:
        return all(self.sizes[variable] <= MOST_LITERALS for variable in variables)

    def _add(self, group: Constraint) -> None:
        model = self.model
        if isinstance(group, AllDifferent):
            for index in range(len(group)):
                self._all_different(group.scope(index).tolist())
        elif isinstance(group, NotEqual):
            for i, j in group.pairs.tolist():
                self._unequal(i, j)
        elif isinstance(group, Conflict):
            width = int(group.values.max(initial=0)) + 1
            codes, numbered = np.unique(group.pairs * width + group.values, return_inverse=True)
            literals = [self._literal(*divmod(code, width)) for code in codes.tolist()]
            for clique in cliques(numbered.reshape(-1, 2), len(codes)):
                model.add_at_most_one(literals[node] for node in clique)
        elif isinstance(group, Linear):
            for index, (relation, bound) in enumerate(zip(group.relations, group.bounds.tolist(), strict=True)):
                rows = slice(group.scopes.offsets[index], group.scopes.offsets[index + 1])
                scope = zip(group.coefficients[rows].tolist(), group.scope(index).tolist(), strict=True)
                total = sum((c * self._sum(i) for c, i in scope), self.never)
                model.add(
                    total <= bound if relation == "<=" else total >= bound if relation == ">=" else total == bound
                )
        elif isinstance(group, Count):
            for index, (value, low, high) in enumerate(zip(group.values, group.low, group.high, strict=True)):
                number = sum(self._literal(i, int(value)) for i in group.scope(index).tolist())
                model.add_linear_constraint(number, int(low), int(high))
        elif isinstance(group, Table):
            for index in range(len(group)):
                members = [self._integer(i) for i in group.scope(index).tolist()]
                model.add_allowed_assignments(members, group.tuples.tolist())
        else:
            raise TypeError(f"no translation of {group.kind} constraints to CP-SAT")

    def _all_different(self, scope: list[int]) -> None:
        if not self._small(*scope):
            self.model.add_all_different([self._integer(i) for i in scope])
            return
        width = max(self.sizes[i] for i in scope)
        full = len(scope) == width  # each value must occur
        for value in range(width):
            takers = [self._literal(i, value) for i in scope]
            if full:
                self.model.add_exactly_one(takers)
            else:
                self.model.add_at_most_one(takers)

    def _unequal(self, i: int, j: int, unless: tuple[Any, ...] = ()) -> None:
        """x_i != x_j, or one of the literals `unless`."""
        if self._small(i, j):
            for value in range(min(self.sizes[i], self.sizes[j])):
                self.model.add_bool_or(~self._literal(i, value), ~self._literal(j, value), *unless)
        else:
            different = self.model.add(self._sum(i) != self._sum(j))
            if unless:
                different.only_enforce_if(*(~literal for literal in unless))

    def _optimise(self, goal: Objective) -> None:
        """Each term is a literal that may be true only where it is earned or, if it costs, must be true there."""
        from ortools.sat.python import cp_model

        sign = 1 if goal.sense == "maximize" else -1
        terms, weights = [], []
        for (i, a), w in zip(goal.unary.tolist(), goal.unary_weights, strict=True):
            terms.append(self._literal(i, a))
            weights.append(w)
        for (i, j), w in zip(goal.differ.tolist(), goal.differ_weights, strict=True):
            terms.append(self._differ(i, j, wanted=w * sign > 0))
            weights.append(w)
        for (i, j, a, b), w in zip(goal.pairwise.tolist(), goal.pairwise_weights, strict=True):
            terms.append(self._both(self._literal(i, a), self._literal(j, b), wanted=w * sign > 0))
            weights.append(w)
        if not terms:
            return
        whole = all(float(w).is_integer() for w in weights)
        total = cp_model.LinearExpr.weighted_sum(terms, [int(w) if whole else float(w) for w in weights])
        if goal.sense == "maximize":
            self.model.maximize(total)
        else:
            self.model.minimize(total)

    def _differ(self, i: int, j: int, wanted: bool) -> Any:
        literal = self.model.new_bool_var("differ")
        if self.sizes[i] == self.sizes[j] == 2:  # this form is the best one for the local search
            self.model.add_bool_xor(self._literal(i, 1), self._literal(j, 1), ~literal)
        elif wanted:
            self._unequal(i, j, unless=(~literal,))
        elif self._small(i, j):
            for value in range(max(self.sizes[i], self.sizes[j])):
                self.model.add_bool_or(~self._literal(i, value), self._literal(j, value), literal)
        else:
            self.model.add(self._sum(i) == self._sum(j)).only_enforce_if(~literal)
        return literal

    def _both(self, first: Any, second: Any, wanted: bool) -> Any:
        literal = self.model.new_bool_var("both")
        if wanted:
            self.model.add_implication(literal, first)
            self.model.add_implication(literal, second)
        else:
            self.model.add_bool_or(~first, ~second, literal)
        return literal


def cliques(pairs: IntArray, nodes: int) -> Iterator[Sequence[int]]:
    """Sets of nodes all of which are joined, such that each pair is in one of them: CP-SAT is told at once what it
    would find out pair by pair. Sets of nodes are bits of integers here, so large graphs stay as they are."""
    if nodes > MOST_BITS:
        yield from pairs.tolist()
        return
    joined = np.zeros((nodes, nodes), np.bool_)
    joined[pairs[:, 0], pairs[:, 1]] = joined[pairs[:, 1], pairs[:, 0]] = True
    near = [int.from_bytes(row.tobytes(), "little") for row in np.packbits(joined, axis=1, bitorder="little")]
    left = near.copy()  # what is in no clique yet
    for node in range(nodes):
        while left[node]:
            clique, may_join = [node], left[node]
            while may_join:
                clique.append((may_join & -may_join).bit_length() - 1)
                may_join &= near[clique[-1]]
            covered = ~sum(1 << member for member in clique)
            for member in clique:
                left[member] &= covered
            yield clique


SYSTEMS = (
    CpSat("cp-sat", "OR-Tools CP-SAT, no hints"),
    CpSat("feasibility-jump", "CP-SAT's violation local search alone", use_ls_only=True),
)
