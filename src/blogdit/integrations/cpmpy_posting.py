"""Which flat constraints of CPMpy an instance can say, and how.

`statement` is the table of what can be said. To let in a new kind of constraint, add its case there and in
`Poster.post`; if it stands for a global constraint or function of CPMpy, add that name to GLOBALS or FUNCTIONS, so that
CPMpy does not decompose it. What has no statement is decomposed and made linear by CPMpy.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from cpmpy.exceptions import NotSupportedError
from cpmpy.expressions.core import BoolVal, Comparison, Expression, Operator
from cpmpy.expressions.globalconstraints import DirectConstraint
from cpmpy.expressions.utils import is_num
from cpmpy.expressions.variables import NegBoolView, _NumVarImpl

from blogdit.integrations.cpmpy_instance import Builder
from blogdit.integrations.cpmpy_tables import FUNCTIONS as FUNCTIONS
from blogdit.integrations.cpmpy_tables import Statement, enumeration

GLOBALS = frozenset({"alldifferent", "table"})  # constraints that are said as they are
LINEAR = ("sum", "wsum", "sub", "-")
PRODUCTS = ("mul", "div", "mod", "pow")
MOST_FACTORS = 1 << 12  # values of the smaller factor: CPMpy makes a product linear with Booleans for each of them


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
    if constraint.name == "alldifferent":
        if _flat(constraint.args):
            return Statement("all_different", list(constraint.args))
        return _shifted(constraint.args)
    if (found := _conditional(constraint)) is not None:
        return found
    if constraint.name == "table" and _flat(constraint.args[0]):
        rows = np.array(constraint.args[1], np.int64).reshape(-1, len(constraint.args[0]))
        return Statement("table", list(constraint.args[0]), (lambda: rows,))
    if isinstance(constraint, DirectConstraint):
        return None
    return enumeration(constraint) or _function(constraint)


def require_few_values(constraints: Sequence[Any]) -> None:
    """A product that CPMpy would make linear must have a factor with few values."""
    for one in constraints:
        product: Any = one.args[0] if isinstance(one, Comparison) else one
        if product.name in PRODUCTS and not isinstance(product, _NumVarImpl):
            fewest = min(1 if is_num(part) else part.ub - part.lb + 1 for part in product.args)
            if fewest > MOST_FACTORS:
                what = f"{product.name} of variables with {fewest} values; expected at most {MOST_FACTORS}"
                raise NotSupportedError(f"blogdit cannot say {one}: {what}")


def _shifted(arguments: Sequence[Any]) -> Statement | None:
    """All of some variables with a number added to each are different: queens on diagonals."""
    sums = [_sum_of(one) for one in arguments]
    if not all(one is not None and [c for c, _ in one.terms] == [1] for one in sums):
        return None
    parts = [(one.terms[0][1], one.constant) for one in sums if one is not None]
    names = [variable.name for variable, _ in parts]
    if len(set(names)) < len(names):
        return None
    return Statement("shifted", [variable for variable, _ in parts], tuple(number for _, number in parts))


def _conditional(constraint: Any) -> Statement | None:
    """A linear comparison that must hold if a Boolean variable is true, or exactly where it is."""
    if isinstance(constraint, Operator) and constraint.name == "->":
        (condition, said), exactly = constraint.args, False
    elif isinstance(constraint, Comparison) and constraint.name == "==" and isinstance(constraint.args[0], Comparison):
        (said, condition), exactly = constraint.args, True
    else:
        return None
    if not isinstance(said, Comparison) or not isinstance(condition, _NumVarImpl) or not condition.is_bool():
        return None
    sides = _left_and_bound(said)
    if sides is None or not sides[0]:
        return None
    terms, bound = sides
    truth = 0 if isinstance(condition, NegBoolView) else 1
    if said.name == "!=":
        if not exactly:
            return None
        truth = 1 - truth  # unequal exactly where the condition holds: equal exactly where it does not
    low = {"==": bound, "!=": bound, ">=": bound, ">": bound + 1}.get(said.name)
    high = {"==": bound, "!=": bound, "<=": bound, "<": bound - 1}.get(said.name)
    variable = condition._bv if isinstance(condition, NegBoolView) else condition
    return Statement("reified", terms, (low, high, variable, truth, exactly))


def _function(constraint: Any) -> Statement | None:
    """A minimum, a maximum or an element of variables (or numbers) that is equal to one."""
    left, result = constraint.args if isinstance(constraint, Comparison) and constraint.name == "==" else (None, None)
    which = getattr(left, "name", None)
    if left is None or isinstance(left, _NumVarImpl) or which not in ("min", "max", "element") or not _flat([result]):
        return None
    if which != "element":
        return Statement("function", [*left.args], (which, result)) if _flat(left.args) else None
    choices, index = left.args
    inside = isinstance(index, _NumVarImpl) and index.lb >= 0 and index.ub < len(choices)
    return Statement("function", [index, *choices], (which, result)) if inside and _flat(choices) else None


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
        elif kind == "shifted":
            self.builder.shifted.append((tuple(self.positive(variable) for variable in variables), rest))
        elif kind == "reified":
            self._post_reified(variables, *rest)
        elif kind == "function":
            members = tuple(self.positive(variable) for variable in variables)
            self.builder.functions.append((rest[0], self.positive(rest[1]), members))
        elif kind == "count":
            self._post_count(variables, *rest)
        elif kind == "table":
            self._post_table(variables, rest[0]())

    def _post_reified(
        self, terms: Sequence[Any], low: int | None, high: int | None, condition: Any, truth: int, exactly: bool
    ) -> None:
        total: dict[int, int] = {}
        for coefficient, variable in terms:
            index = self.variable(variable)
            total[index] = total.get(index, 0) + coefficient
        row = tuple(total), tuple(total.values()), low, high, (self.variable(condition), truth), exactly
        self.builder.reified.append(row)

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
