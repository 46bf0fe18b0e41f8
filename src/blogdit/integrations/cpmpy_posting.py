"""Which flat constraints of CPMpy an instance can say, and how.

`statement` is the table of what can be said. To let in a new kind of constraint, add its case there and in
`Poster.post`; if it stands for a global constraint or function of CPMpy, add that name to GLOBALS or FUNCTIONS, so that
CPMpy does not decompose it. What has no statement is decomposed and made linear by CPMpy.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
from cpmpy.exceptions import IncompleteFunctionError, NotSupportedError
from cpmpy.expressions.core import BoolVal, Comparison, Expression, Operator
from cpmpy.expressions.globalconstraints import DirectConstraint
from cpmpy.expressions.utils import is_any_list, is_num
from cpmpy.expressions.variables import NegBoolView, _NumVarImpl
from cpmpy.transformations.get_variables import get_variables

from blogdit.integrations.cpmpy_instance import Builder

GLOBALS = frozenset({"alldifferent", "table"})  # constraints that are said as they are
# Functions: a count of a value is a kind of its own. The others are tables where their arguments have few values.
FUNCTIONS = frozenset({"count", "mul", "div", "mod", "pow", "abs", "min", "max", "element"})
LINEAR = ("sum", "wsum", "sub", "-")
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


class Sum(NamedTuple):
    """sum of coefficient * variable + constant, of variables that are not negated."""

    terms: list[tuple[int, Any]]
    constant: int


def statement(constraint: Any) -> Statement | None:
    """How an instance says a flat constraint, or None if it cannot."""
    if isinstance(constraint, bool | np.bool_ | BoolVal):
        return Statement("always" if bool(constraint) else "never")
    if isinstance(constraint, _NumVarImpl) or (isinstance(constraint, Operator) and constraint.name in ("and", "or")):
        return _clause(constraint)
    if isinstance(constraint, Comparison):
        found = _comparison(constraint)
        if found is not None:
            return found
    if constraint.name == "alldifferent" and _flat(constraint.args):
        return Statement("all_different", list(constraint.args))
    if constraint.name == "table" and _flat(constraint.args[0]):
        rows = np.array(constraint.args[1], np.int64).reshape(-1, len(constraint.args[0]))
        return Statement("table", list(constraint.args[0]), (lambda: rows,))
    return None if isinstance(constraint, DirectConstraint) else _enumeration(constraint)


def _clause(constraint: Any) -> Statement | None:
    """A literal, or several of which one (or each) must be true."""
    literals = [constraint] if isinstance(constraint, _NumVarImpl) else list(constraint.args)
    total = _sum_of(Operator("sum", literals)) if _flat(literals) else None
    if total is None:
        return None
    least = len(literals) if constraint.name == "and" else 1
    return Statement("linear", total.terms, (">=", least - total.constant))


def _flat(variables: Sequence[Any]) -> bool:
    return all(is_num(one) or isinstance(one, _NumVarImpl) for one in variables)


def _sum_of(expression: Any) -> Sum | None:
    """A linear expression over variables, or None if it is not one."""
    if is_num(expression):
        return Sum([], int(expression))
    if isinstance(expression, NegBoolView):
        return Sum([(-1, expression._bv)], 1)
    if isinstance(expression, _NumVarImpl):
        return Sum([(1, expression)], 0)
    if getattr(expression, "name", "") == "mul" and is_num(expression.args[0]):
        expression = Operator("wsum", [[expression.args[0]], [expression.args[1]]])
    if not isinstance(expression, Operator) or expression.name not in LINEAR:
        return None
    weights, parts = expression.args if expression.name == "wsum" else ([1] * len(expression.args), expression.args)
    if expression.name in ("sub", "-"):
        weights = [1, -1] if expression.name == "sub" else [-1]
    terms: list[tuple[int, Any]] = []
    constant = 0
    for weight, part in zip(weights, parts, strict=True):
        inner = _sum_of(part)
        if inner is None or int(weight) != weight:
            return None
        terms += [(int(weight) * coefficient, variable) for coefficient, variable in inner.terms]
        constant += int(weight) * inner.constant
    return Sum(terms, constant)


def one_sided(expression: Any) -> Any:
    """With all variables of a linear comparison on its left, also within logic. CPMpy would make a variable of a sum on
    the right, with as many values as the sum has."""
    if isinstance(expression, Comparison) and not _flat(expression.args[1:]):
        sides = _left_and_bound(expression)
        if sides is not None and sides[0]:
            weights, variables = ([term[part] for term in sides[0]] for part in (0, 1))
            return Comparison(expression.name, Operator("wsum", [weights, variables]), sides[1])
    if isinstance(expression, Operator | Comparison) and expression.is_bool() and not isinstance(expression, BoolVal):
        parts = [one_sided(part) for part in expression.args]
        return type(expression)(expression.name, *((parts,) if isinstance(expression, Operator) else parts))
    return expression


def _left_and_bound(constraint: Comparison) -> tuple[list[tuple[int, Any]], int] | None:
    """The terms of a linear comparison, and the number that they are compared with."""
    left, right = (_sum_of(side) for side in constraint.args)
    if left is None or right is None:
        return None
    terms = [*left.terms, *((-coefficient, variable) for coefficient, variable in right.terms)]
    return terms, right.constant - left.constant


def _comparison(constraint: Comparison) -> Statement | None:
    left = constraint.args[0]
    if getattr(left, "name", "") == "count" and not isinstance(left, _NumVarImpl):
        return _count(constraint)
    if (sides := _left_and_bound(constraint)) is None:
        return None
    terms, bound = sides
    if constraint.name == "!=":
        return _unequal(terms, bound)
    relation, change = {"<=": ("<=", 0), "<": ("<=", -1), ">=": (">=", 0), ">": (">=", 1), "==": ("=", 0)}[
        constraint.name
    ]
    return Statement("linear", terms, (relation, bound + change))


def _unequal(terms: list[tuple[int, Any]], bound: int) -> Statement | None:
    """x != y, or x != number."""
    factors = [coefficient for coefficient, _ in terms]
    if len(terms) == 1 and factors[0]:
        number, rest = divmod(bound, factors[0])
        return Statement("not_equal", [terms[0][1], number]) if not rest else Statement("always")
    if len(terms) == 2 and bound == 0 and sorted(factors) == [-1, 1]:
        return Statement("not_equal", [variable for _, variable in terms])
    return None


def _count(constraint: Comparison) -> Statement | None:
    """How often a number occurs, compared with a number."""
    (members, number), right = constraint.args[0].args, constraint.args[1]
    names = [one.name for one in members if isinstance(one, _NumVarImpl)]
    once = len(set(names)) == len(names) and not any(isinstance(one, NegBoolView) for one in members)
    if not once or not _flat(members) or not is_num(number) or not is_num(right) or constraint.name == "!=":
        return None
    right, most = int(right), len(members)
    least = {"==": right, ">=": right, ">": right + 1}.get(constraint.name, 0)
    most = {"==": right, "<=": right, "<": right - 1}.get(constraint.name, most)
    return Statement("count", list(members), (int(number), least, most))


# -- tables: constraints on few values, whatever they say --------------------------------------------------------------


def _enumeration(constraint: Any) -> Statement | None:
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


class Poster:
    """Puts statements into a builder, and knows which of its variables is which of CPMpy's."""

    def __init__(self) -> None:
        self.builder, self.index = Builder(), dict[str, int]()

    def variable(self, variable: Any) -> int:
        """The index of a variable, or of one that is a number."""
        if is_num(variable):
            name, low, high = f"={int(variable)}", int(variable), int(variable)
        else:
            name, low, high = variable.name, int(variable.lb), int(variable.ub)
        if name not in self.index:
            self.index[name] = self.builder.new(low, high, "" if is_num(variable) else name)
        return self.index[name]

    def positive(self, variable: Any) -> int:
        """The index of a variable that may be the negation of another: that of a variable that is equal to it."""
        if not isinstance(variable, NegBoolView):
            return self.variable(variable)
        name = f"~{variable._bv.name}"
        if name not in self.index:
            self.index[name] = self.builder.new(0, 1)
            self.builder.add_linear([(1, self.index[name]), (1, self.variable(variable._bv))], "=", 1)
        return self.index[name]

    def post(self, constraint: Expression) -> None:
        found = statement(constraint)
        if found is None:
            raise NotSupportedError(f"blogdit cannot say {constraint}; expected linear constraints or few values")
        kind, variables, rest = found
        if kind == "never":
            self.builder.impossible = True
        elif kind == "linear":
            self.builder.add_linear([(coefficient, self.variable(v)) for coefficient, v in variables], *rest)
        elif kind in ("not_equal", "all_different"):
            members = tuple(self.positive(variable) for variable in variables)
            if len(set(members)) < len(members):
                self.builder.impossible = True
            elif len(members) == 2:
                self.builder.not_equal.append((members[0], members[1]))
            elif len(members) > 2:
                self.builder.all_different.append(members)
        elif kind == "count":
            self._post_count(variables, *rest)
        elif kind == "table":
            self._post_table(variables, rest[0]())

    def _post_count(self, variables: Sequence[Any], number: int, least: int, most: int) -> None:
        """Of the variables that can have the number; those that are numbers themselves are known."""
        known = sum(is_num(variable) and int(variable) == number for variable in variables)
        able = [v for v in variables if not is_num(v) and v.lb <= number <= v.ub]
        least, most = max(least - known, 0), most - known
        if most < least or least > len(able):
            self.builder.impossible = True
        elif able:
            self.builder.counts.append((tuple(self.variable(v) for v in able), number, least, most))

    def _post_table(self, variables: Sequence[Any], rows: np.ndarray) -> None:
        """A variable that occurs twice has the same value at both places."""
        members = [self.positive(variable) for variable in variables]
        for place, member in enumerate(members):
            rows = rows[rows[:, place] == rows[:, members.index(member)]]
        kept = [place for place, member in enumerate(members) if members.index(member) == place]
        self.builder.tables.append((tuple(members[place] for place in kept), np.unique(rows[:, kept], axis=0)))
