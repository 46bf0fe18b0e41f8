"""The solver for CPMpy. Importing this module registers it: `model.solve(solver="blogdit", time_limit=10)`.

`"blogdit:NAME"` names a bundled model, `"blogdit:PATH"` one from a file or from the folder of a training run. Without a
name it is the model of the family that the problem belongs to (a Sudoku, a colouring, an independent set), else that
for colourings.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

try:
    import cpmpy  # noqa: F401
except ModuleNotFoundError as error:
    raise ModuleNotFoundError("no module 'cpmpy'; expected pip install 'blogdit[cpmpy]'") from error
import numpy as np
from cpmpy.exceptions import NotSupportedError
from cpmpy.expressions.core import Expression
from cpmpy.expressions.globalconstraints import AllDifferent
from cpmpy.expressions.globalfunctions import FloatSum
from cpmpy.solvers.solver_interface import ExitStatus, SolverInterface, SolverStatus
from cpmpy.solvers.utils import SolverLookup
from cpmpy.transformations.comparison import only_numexpr_equality
from cpmpy.transformations.flatten_model import flatten_constraint, flatten_objective
from cpmpy.transformations.get_variables import get_variables
from cpmpy.transformations.linearize import (
    decompose_linear,
    decompose_linear_objective,
    linearize_constraint,
    only_positive_bv,
    only_positive_bv_wsum_const,
)
from cpmpy.transformations.negation import push_down_negation, push_down_negation_objective
from cpmpy.transformations.normalize import toplevel_list
from cpmpy.transformations.reification import only_bv_reifies, only_implies, reify_rewrite
from cpmpy.transformations.safening import no_partial_functions, safen_objective

import blogdit
from blogdit import api
from blogdit.core.constraints import IntArray
from blogdit.core.errors import InputError
from blogdit.core.instance import Instance
from blogdit.core.result import Result
from blogdit.finishers.base import Deadline
from blogdit.integrations.cpmpy_instance import Built, recognised
from blogdit.integrations.cpmpy_posting import FUNCTIONS, GLOBALS, Poster, one_sided, require_few_values, statement

NAME = "blogdit"
HINT_SHARE, MOST_HINT_SECONDS = 0.1, 1.0  # of the time, for a first answer that agrees with a hint
DECIDED = ("solved", "optimal", "infeasible")
EXIT = {
    "solved": ExitStatus.FEASIBLE,
    "feasible": ExitStatus.FEASIBLE,
    "optimal": ExitStatus.OPTIMAL,
    "infeasible": ExitStatus.UNSATISFIABLE,
    "unknown": ExitStatus.UNKNOWN,
}


class CPM_blogdit(SolverInterface):  # type: ignore[misc]
    """CPMpy's interface. Constraints are translated when they are added, the instance is built when it is solved."""

    supported_global_constraints = GLOBALS | FUNCTIONS
    supported_reified_global_constraints: frozenset[str] = frozenset()

    @staticmethod
    def supported() -> bool:
        return True

    @classmethod
    def version(cls) -> str:
        return blogdit.__version__

    @staticmethod
    def solvernames(installed: bool = True) -> list[str]:
        """The bundled models."""
        return list(api.bundled_models())

    @classmethod
    def solverversion(cls, subsolver: str) -> str | None:
        return cls.version() if subsolver in api.bundled_models() else None

    def __init__(self, cpm_model: Any = None, subsolver: str | None = None):
        self.model = None if subsolver is None else _model_path(subsolver)
        self.poster = Poster()
        self.objective_: Any = None
        self.hint: dict[str, int] = {}
        self.result: Result | None = None  # of the last call, for those who want to know more than CPMpy asks
        super().__init__(name=NAME, cpm_model=cpm_model)

    @property
    def native_model(self) -> Instance:
        """The instance as it is now, with the numbers of the model as values; one of a family has that family's."""
        return self._build(named=True).instance

    # -- constraints and objective ---------------------------------------------------------------------------------

    def transform(self, cpm_expr: Any) -> list[Expression]:
        """Constraints that `statement` knows: flat ones as they are, where they can be said, else linear ones."""
        # Offsets are said as they are: to be flat, each would need a variable of its own.
        given = [one_sided(one) for one in toplevel_list(cpm_expr)]
        shifted = [one for one in given if isinstance(one, AllDifferent) and statement(one) is not None]
        rest = [one for one in given if not any(one is other for other in shifted)]
        said, left = _parted(self._flat(rest, GLOBALS | FUNCTIONS))
        said += shifted
        if left:
            require_few_values(left)
            more, left = _parted(self._flat(left, GLOBALS))
            said += more
        more, left = _parted(only_implies(left, csemap=self._csemap))
        linear = linearize_constraint(left, supported=frozenset({"sum", "wsum"}), csemap=self._csemap)
        return said + more + list(only_positive_bv(linear, csemap=self._csemap))

    def _flat(self, constraints: list[Expression], supported: frozenset[str]) -> list[Expression]:
        cse, linear = self._csemap, frozenset({"sum", "wsum", "sub"})
        constraints = push_down_negation(no_partial_functions(constraints))
        constraints = decompose_linear(constraints, supported=supported, supported_reified=frozenset(), csemap=cse)
        constraints = reify_rewrite(flatten_constraint(constraints, csemap=cse), supported=linear, csemap=cse)
        constraints = only_numexpr_equality(constraints, supported=linear | {"count"}, csemap=cse)
        return list(only_bv_reifies(constraints, csemap=cse))

    def add(self, cpm_expr: Any) -> CPM_blogdit:
        get_variables(cpm_expr, collect=self.user_vars)
        for constraint in self.transform(cpm_expr):
            self.poster.post(constraint)
        return self

    __add__ = add

    def objective(self, expr: Any, minimize: bool = True) -> None:
        self.objective_ = expr
        if isinstance(expr, FloatSum):
            weights, variables, constant = expr.components()
            terms = list(zip(np.ravel(weights).tolist(), np.ravel(variables).tolist(), strict=True))
            self.user_vars.update(variable for _, variable in terms)
        else:
            get_variables(expr, collect=self.user_vars)
            goal, safe = safen_objective(expr)
            goal = push_down_negation_objective(goal)
            goal, made = decompose_linear_objective(
                goal, supported=GLOBALS | FUNCTIONS, supported_reified=frozenset(), csemap=self._csemap
            )
            goal, flat = flatten_objective(goal, csemap=self._csemap)
            self.add(safe + made + flat)
            goal, constant = only_positive_bv_wsum_const(goal)
            terms = _weighted(goal)
        rows = [(float(weight), self.poster.variable(variable)) for weight, variable in terms]
        self.poster.builder.optimise("minimize" if minimize else "maximize", rows, float(constant))

    def has_objective(self) -> bool:
        return self.objective_ is not None

    def solver_var(self, cpm_var: Any) -> int:
        return self.poster.positive(cpm_var)

    def solution_hint(self, cpm_vars: Any, vals: Any) -> None:
        """An answer to begin with: the first thing that is tried is to complete it."""
        variables, values = np.ravel(np.array(cpm_vars, dtype=object)), np.ravel(vals)
        if len(variables) != len(values):
            raise ValueError(f"a hint has a value for each variable, got {len(values)} for {len(variables)}")
        try:
            self.hint = {variable.name: int(value) for variable, value in zip(variables, values, strict=True)}
        except (TypeError, ValueError):
            raise ValueError(f"a hint has whole numbers, got {list(values)}") from None

    # -- solving ---------------------------------------------------------------------------------------------------

    def solve(self, time_limit: float | None = None, display: Any = None, **options: Any) -> bool:
        """Keywords are those of `blogdit.solve`. Without a budget it goes on until it is solved or CP-SAT has a proof,
        as other solvers of CPMpy do. `display` is called for every better answer."""
        if time_limit is not None and time_limit <= 0:
            raise ValueError(f"time_limit must be positive, got {time_limit}")
        began = time.monotonic()
        built = self._build()
        settings = {"model": self.model, **options}
        self.result = result = self._search(built, settings, time_limit, display)
        self.cpm_status = SolverStatus(self.name)
        self.cpm_status.solve_time = time.monotonic() - began
        self.cpm_status.exitstatus = EXIT[result.status]
        found = bool(self._solve_return(self.cpm_status))
        self._assign(built.numbers(result.values) if found else None)
        self.objective_value_ = None
        if found and self.objective_ is not None:
            value = self.objective_.value()
            self.objective_value_ = int(value) if float(value).is_integer() else None
        return found

    def _search(self, built: Built, settings: dict[str, Any], time_limit: float | None, display: Any) -> Result:
        """One call of `blogdit.solve`. Without a budget there are more of them: the first takes a second at most, each
        of the others four times as long. If answers are shown, one call is for the first."""
        deadline = Deadline(math.inf if time_limit is None else time_limit)
        endless = time_limit is None and settings.get("steps") is None
        best = self._hinted(built, settings, time_limit, display)
        shows_first, turn = display is not None and best is None, 0
        while best is None or best.status not in DECIDED:
            first = shows_first and turn == 0
            limit = 4.0**turn if endless else None if deadline.unlimited else deadline.left
            best = self._improved(best, built, {**settings, "time_limit": limit, "first_feasible": first}, display)
            turn += 1
            if deadline.passed() or not (endless or first):
                break
        return best

    def _improved(self, known: Result | None, built: Built, settings: dict[str, Any], display: Any) -> Result:
        """The answer of a call, or the one that was known before if that is better."""
        best = known

        def take(result: Result) -> None:
            nonlocal best
            if _is_better(result, best):
                best = result
                self._show(result, built, display)

        def look(found: Callable[[], Result], chains: Callable[[], IntArray]) -> None:
            if display is not None:
                take(found())

        last = api.follow(built.instance, look, start=None if known is None else known.values, **settings)
        take(last)
        return last if best is None or not _is_better(best, last) else best

    def _hinted(self, built: Built, settings: dict[str, Any], time_limit: float | None, display: Any) -> Result | None:
        """An answer that agrees with the hint, if there is one and it is soon found."""
        instance = built.instance
        known = {self.poster.index[name]: value for name, value in self.hint.items() if name in self.poster.index}
        places = {int(built.place[i]): int(value - built.base[i]) for i, value in known.items()}
        if not places or any(not 0 <= value < instance.domain_sizes[place] for place, value in places.items()):
            return None
        seconds = MOST_HINT_SECONDS if time_limit is None else min(HINT_SHARE * time_limit, MOST_HINT_SECONDS)
        completed = replace(instance, givens={**places, **instance.givens})
        (result,) = api.solve(completed, **{**settings, "time_limit": seconds, "first_feasible": True})
        if not result.verdict.satisfied:
            return None
        found = Result(instance, result.values, found_by="hint")
        self._show(found, built, display)
        return found

    def _show(self, result: Result, built: Built, display: Any) -> None:
        if display is not None and result.verdict.satisfied:
            self._assign(built.numbers(result.values))
            self.print_display(display)

    def _assign(self, numbers: IntArray | None) -> None:
        """Give the user's variables their values, or none."""
        for variable in self.user_vars:
            if numbers is None:
                variable.clear()
            else:
                number = int(numbers[self.poster.index[variable.name]])
                variable._value = bool(number) if variable.is_bool() else number

    def _build(self, named: bool = False) -> Built:
        """Solved are values that count from 0, as families have them and as many values need it."""
        for variable in self.user_vars:
            self.poster.variable(variable)
        names = [variable.name for variable in self.user_vars]
        try:
            built = self.poster.builder.build(names)
            family = recognised(built.instance)
            if named and family is built.instance:
                return self.poster.builder.build(names, named)
        except (ValueError, OverflowError) as error:
            raise NotSupportedError(f"blogdit: {error}") from None
        return replace(built, instance=family)


def _parted(constraints: list[Expression]) -> tuple[list[Expression], list[Expression]]:
    """Those that an instance can say, and the others."""
    said = [one for one in constraints if statement(one) is not None]
    return said, [one for one in constraints if statement(one) is None]


def _weighted(goal: Any) -> list[tuple[float, Any]]:
    """The weights and variables of a flat objective."""
    if not isinstance(goal, Expression):
        return []  # a constant
    if goal.name == "wsum":
        return list(zip(*goal.args, strict=True))
    return [(1, part) for part in (goal.args if goal.name == "sum" else [goal])]


def _is_better(one: Result, other: Result | None) -> bool:
    if other is None or not other.verdict.satisfied:
        return one.verdict.satisfied
    goal = one.instance.objective
    if goal is None or not one.verdict.satisfied or one.objective is None or other.objective is None:
        return False
    return goal.better(one.objective, other.objective)


def instance_of(model: Any, name: str = "") -> Instance:
    """The instance of a model; what cannot be said is an InputError here, where CPMpy is not asked."""
    try:
        return replace(CPM_blogdit(model).native_model, name=name)
    except NotSupportedError as error:
        raise InputError(str(error)) from None


def _model_path(name: str) -> str | Path:
    """The folder of a training run stands for its best model."""
    folder = Path(name)
    return folder / "best.safetensors" if folder.is_dir() and name not in api.bundled_models() else name


def register() -> None:
    """Let CPMpy know the solver; its own list of solvers is fixed in code."""
    listed = SolverLookup.base_solvers
    if NAME not in dict(listed()):
        SolverLookup.base_solvers = classmethod(lambda cls: [*listed(), (NAME, CPM_blogdit)])


register()
