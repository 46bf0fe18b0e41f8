"""Constraints of CPMpy on few values as tables: all combinations that fulfil them."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
from cpmpy.exceptions import IncompleteFunctionError
from cpmpy.expressions.core import BoolVal, Comparison, Operator
from cpmpy.expressions.utils import is_any_list, is_num
from cpmpy.expressions.variables import NegBoolView, _NumVarImpl
from cpmpy.transformations.get_variables import get_variables

# Functions: a count of a value is a kind of its own. The others are tables where their arguments have few values.
FUNCTIONS = frozenset({"count", "mul", "div", "mod", "pow", "abs", "min", "max", "element"})
MOST_ROWS = 1024  # combinations of values that are tried to make a table: about a millisecond

Array = Any  # numbers, or an array of them
COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq, "!=": operator.ne, "<=": operator.le, "<": operator.lt, ">=": operator.ge, ">": operator.gt,
}  # fmt: skip


class Statement(NamedTuple):
    """What a constraint says: its kind, variables (or numbers) of CPMpy, and the rest."""

    kind: str
    variables: Sequence[Any] = ()
    rest: tuple[Any, ...] = ()


def enumeration(constraint: Any) -> Statement | None:
    """All combinations of values that fulfil a constraint, if there are few to try."""
    left = constraint.args[0] if isinstance(constraint, Comparison) and constraint.name == "==" else None
    function = getattr(left, "name", None) in FUNCTIONS and not isinstance(left, _NumVarImpl)
    result = constraint.args[1] if function else None
    tried = get_variables(left if function and isinstance(result, _NumVarImpl) else constraint)
    sizes = [variable.ub - variable.lb + 1 for variable in tried]
    if not tried or np.prod([float(size) for size in sizes]) > MOST_ROWS:
        return None
    if not function or not isinstance(result, _NumVarImpl) or isinstance(result, NegBoolView) or result in tried:
        return Statement("table", tried, (lambda: _fulfilling(constraint, tried),))
    # The result of a function is what it is, so that it need not be tried.
    return Statement("table", [*tried, result], (lambda: _graph_of(left, tried),))


def _grid(variables: Sequence[Any]) -> np.ndarray:
    """(rows, variables): all combinations of values."""
    ranges = [np.arange(variable.lb, variable.ub + 1) for variable in variables]
    return np.stack([axis.ravel() for axis in np.meshgrid(*ranges, indexing="ij")], axis=1).astype(np.int64)


def _fulfilling(constraint: Any, variables: Sequence[Any]) -> np.ndarray:
    rows = _grid(variables)
    return rows[_values(constraint, variables, rows) == 1]


def _graph_of(function: Any, variables: Sequence[Any]) -> np.ndarray:
    """Arguments and result; combinations without a result are left out."""
    rows = _grid(variables)
    results = _values(function, variables, rows)
    known = ~np.isnan(results)
    return np.concatenate([rows[known], results[known, None].astype(np.int64)], axis=1)


def _values(expression: Any, variables: Sequence[Any], rows: np.ndarray) -> np.ndarray:
    """The value of an expression for each row; nan where it has none. CPMpy evaluates what numpy does not."""
    columns = {variable.name: rows[:, place] for place, variable in enumerate(variables)}
    at_once = _evaluate(expression, columns)
    if at_once is not None:
        return np.broadcast_to(np.asarray(at_once, np.float64), len(rows))
    before = [variable._value for variable in variables]
    found = np.full(len(rows), np.nan)
    try:
        for place, row in enumerate(rows.tolist()):
            for variable, value in zip(variables, row, strict=True):
                variable._value = bool(value) if variable.is_bool() else value
            with suppress(IncompleteFunctionError):  # a division by zero has no value
                found[place] = float(expression.value())
    finally:
        for variable, value in zip(variables, before, strict=True):
            variable._value = value
    return found


def _evaluate(expression: Any, columns: dict[str, Any]) -> Array | None:
    """With numpy, or None for what it has no word for."""
    if is_num(expression):
        return int(expression)
    if isinstance(expression, BoolVal):
        return int(bool(expression))
    if isinstance(expression, NegBoolView):
        return 1 - columns[expression._bv.name]
    if isinstance(expression, _NumVarImpl):
        return columns[expression.name]
    if isinstance(expression, Operator) and expression.name == "wsum":
        weights, parts = expression.args
        values = [_evaluate(part, columns) for part in parts]
        is_known = all(value is not None for value in values)
        return sum(w * v for w, v in zip(weights, values, strict=True)) if is_known else None
    if not isinstance(expression, Operator | Comparison) or any(is_any_list(part) for part in expression.args):
        return None
    values = [_evaluate(part, columns) for part in expression.args]
    if any(value is None for value in values):
        return None
    if isinstance(expression, Comparison):
        return COMPARE[expression.name](*values) * 1
    known: dict[str, Callable[..., Any]] = {
        "sum": lambda *parts: sum(parts),
        "sub": operator.sub,
        "-": operator.neg,
        "and": lambda *parts: np.minimum.reduce(np.broadcast_arrays(*parts)),
        "or": lambda *parts: np.maximum.reduce(np.broadcast_arrays(*parts)),
        "->": lambda first, second: np.maximum(1 - first, second),
        "not": lambda one: 1 - one,
    }
    return known[expression.name](*values) if expression.name in known else None
