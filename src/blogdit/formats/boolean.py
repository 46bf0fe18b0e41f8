"""Problems on bits as solvers for SAT, MaxSAT and pseudo-Boolean problems know them.

A literal is a whole number, as in DIMACS files: i + 1 is [x_i = 1], and -(i + 1) is [x_i = 0]. The readers make
instances of them, and the writers take instances apart into rows and clauses.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from blogdit.core.constraints import FAR, AllDifferent, Conflict, Constraint, IntArray, NotEqual, Scopes, Sum
from blogdit.core.instance import Instance
from blogdit.core.objective import Objective

LARGEST_TOTAL = 1 << 53  # of the weights of an objective: float64, in which they are added up, is exact up to here

Term = tuple[int, int]  # weight and literal
Weighted = tuple[float, list[int]]  # weight and literals


class Row(NamedTuple):
    """low <= sum of weight times literal <= high; None is no bound."""

    terms: list[Term]
    low: int | None
    high: int | None


# -- reading -----------------------------------------------------------------------------------------------------------


def clauses(literals: npt.ArrayLike, lengths: npt.ArrayLike) -> Sum:
    """Clauses of these lengths, one behind the other. One of length 0 can never hold."""
    numbers, sizes = np.asarray(literals, np.int64), np.asarray(lengths, np.int64)
    empty = np.flatnonzero(sizes == 0)
    if len(empty):  # said as "one literal is twice true"
        numbers = np.insert(numbers, np.cumsum(sizes)[empty], 1)
        sizes = np.maximum(sizes, 1)
    low = np.ones(len(sizes), np.int64)
    low[empty] = 2
    scopes = Scopes(np.abs(numbers) - 1, lengths=sizes)
    return Sum(scopes, equals=Scopes((numbers > 0).astype(np.int64), "equals", sizes), low=low)


def constant_terms(offset: float) -> tuple[list[tuple[int, int]], list[float]]:
    """`unary` rows and weights of an objective that always earn the offset: the first variable has either value."""
    return ([(0, 0), (0, 1)], [offset, offset]) if offset else ([], [])


# -- writing -----------------------------------------------------------------------------------------------------------


def require_bits(instance: Instance, form: str) -> None:
    """A ValueError if a variable has more than two values."""
    if (instance.domain_sizes > 2).any():
        at = int(np.argmax(instance.domain_sizes > 2))
        many = instance.domain_sizes[at]
        raise ValueError(f"variable {at} has {many} values; a {form} file holds variables of two. Use .json")
    if not instance.size:
        raise ValueError(f"a {form} file needs a variable; use .json")


def fixed_literals(instance: Instance) -> list[int]:
    """Of the variables that are given, or have one value only."""
    fixed = instance.is_given | (instance.domain_sizes == 1)
    return [i + 1 if instance.given_values[i] else -i - 1 for i in np.flatnonzero(fixed).tolist()]


def rows_of(group: Constraint, instance: Instance, form: str) -> Iterator[list[Row]]:
    """The rows of each constraint of a group, or a ValueError if they cannot say it."""
    for index in range(len(group)):
        if isinstance(group, Conflict):
            pair = zip(group.pairs[index].tolist(), group.values[index].tolist(), strict=True)
            yield [Row([(1, _literal(i, a)) for i, a in pair], None, 1)]
        elif isinstance(group, NotEqual):
            yield [Row([(1, i + 1) for i in group.pairs[index].tolist()], 1, 1)]
        elif isinstance(group, AllDifferent) and group.offsets is None and instance.values is None:
            scope = group.scope(index).tolist()
            yield [Row([(1, _literal(i, value)) for i in scope], None, 1) for value in (0, 1)]
        elif isinstance(group, Sum):
            yield _rows_of_sum(group, index, instance, form)
        else:
            raise ValueError(f"a {form} file cannot say {group.kind}; use .json")


def _literal(variable: int, value: int) -> int:
    return variable + 1 if value else -variable - 1


def number_terms(weight: float, variable: int, instance: Instance) -> list[tuple[float, int]]:
    """Weight times the number of a variable."""
    numbers = instance.domains.of(variable).tolist()
    return [(weight * n, _literal(variable, value)) for value, n in enumerate(numbers) if n * weight]


def _rows_of_sum(group: Sum, index: int, instance: Instance, form: str) -> list[Row]:
    entries, terms = group.scopes.entries_of(index), list[Term]()
    columns = (group.scopes[index], group.equals[entries], group.weights[entries])
    for i, value, weight in zip(*(column.tolist() for column in columns), strict=True):
        if value < 0:
            terms += [(int(w), literal) for w, literal in number_terms(weight, i, instance)]
        elif value < instance.domain_sizes[i]:  # `Count` may name a value that a variable does not have
            terms.append((weight, _literal(i, value)))
    low, high = (None if abs(bound) >= FAR else bound for bound in group.limits[index].tolist())
    if group.when is None:
        return [Row(terms, low, high)]
    variable, value, truth = group.when[index].tolist()
    condition = _literal(variable, value) * (1 if truth else -1)
    least, most = sum(min(w, 0) for w, _ in terms), sum(max(w, 0) for w, _ in terms)
    low, high = (None if low is None or low <= least else low), (None if high is None or high >= most else high)
    rows = _if_true(terms, low, high, condition, least, most)
    if group.exactly:
        if low is not None and high is not None:
            raise ValueError(f"a {form} file cannot say 'exactly' with two bounds; use .json")
        below, above = (None if low is None else low - 1), (None if high is None else high + 1)
        rows += _if_true(terms, above, below, -condition, least, most)
        if low is None and high is None:
            rows.append(Row([(1, condition)], 1, None))
    return rows


def _if_true(terms: list[Term], low: int | None, high: int | None, condition: int, least: int, most: int) -> list[Row]:
    """Bounds that count where a literal holds: where it does not, its opposite fills up what is missing."""
    rows = [] if low is None else [Row([*terms, (low - least, -condition)], low, None)]
    return rows if high is None else [*rows, Row([*terms, (high - most, -condition)], None, high)]


def clauses_of(row: Row) -> list[list[int]] | None:
    """A row as clauses, or None if it takes more than literals, pairs or one clause to say it."""
    found: list[list[int]] = []
    if row.low is not None:
        some = _at_least(row.terms, row.low)
        if some is None:
            return None
        found += some
    if row.high is not None:
        some = _at_least([(-weight, literal) for weight, literal in row.terms], -row.high)
        if some is None:
            return None
        found += some
    return found


def _at_least(terms: Sequence[Term], bound: int) -> list[list[int]] | None:
    """The sum is at least the bound: with w l = w + |w| (1 - l) for w < 0, all weights are positive."""
    total: dict[int, int] = {}
    for weight, literal in terms:
        if literal < 0:  # w [x = 0] = w - w [x = 1]
            bound -= weight
        total[abs(literal)] = total.get(abs(literal), 0) + (weight if literal > 0 else -weight)
    bound -= sum(min(weight, 0) for weight in total.values())
    return _from_weights([(abs(w), v if w > 0 else -v) for v, w in total.items() if w], bound)


def _from_weights(parts: list[Term], bound: int) -> list[list[int]] | None:
    """Clauses for positive weights. A literal with the weight of the bound suffices; one with more weight than may be
    missing is needed."""
    slack = sum(weight for weight, _ in parts) - bound
    if bound <= 0 or slack < 0:
        return [] if bound <= 0 else [[]]
    enough, rest = _split(parts, bound)
    if enough:
        some = _from_weights(rest, bound)
        return None if some is None else [[*enough, *clause] for clause in some]
    needed, rest = _split(parts, slack + 1)
    if needed:
        some = _from_weights(rest, bound - sum(weight for weight, _ in parts) + sum(weight for weight, _ in rest))
        return None if some is None else [[literal] for literal in needed] + some
    two = sorted(weight for weight, _ in rest)[:2]
    if sum(two) > slack:  # at most one of them is false
        return [[one, other] for (_, one), (_, other) in combinations(rest, 2)]
    return None


def _split(parts: list[Term], least: int) -> tuple[list[int], list[Term]]:
    """The literals of at least this weight, and the other parts."""
    return [literal for weight, literal in parts if weight >= least], [part for part in parts if part[0] < least]


def soft_rows(instance: Instance, form: str) -> list[tuple[int, Row]]:
    """The soft constraints of an objective, each as one row with its weight."""
    goal, found = instance.objective, list[tuple[int, Row]]()
    for group, weights in () if goal is None else goal.soft:
        for rows, weight in zip(rows_of(group, instance, form), weights.tolist(), strict=True):
            is_one = len(rows) == 1 and (None in rows[0][1:] or rows[0].low == rows[0].high)
            if not is_one:
                raise ValueError(f"a {form} file cannot say a soft {group.kind} with two bounds; use .json")
            found.append((_whole(weight, form), rows[0]))
    return found


def soft_clauses(instance: Instance, form: str) -> tuple[list[tuple[int, list[int]]], int]:
    """The other terms of an objective as clauses, each with the weight that it costs where it is violated, and the
    constant that is missing: the objective is the constant and the costs. To maximise is to minimise the negative."""
    goal = instance.objective
    found: list[Weighted] = []
    offset = 0.0
    for weight, literals in () if goal is None else _products(goal, instance):
        if weight > 0:  # a product costs something where all of its literals hold
            found.append((weight, [-literal for literal in literals]))
            continue
        # -w a b = -w + w [not a] + w [a and not b]: one that earns something costs where it does not hold
        offset += weight
        for place, literal in enumerate(literals):
            found.append((-weight, [*(-before for before in literals[:place]), literal]))
    for weight, i, j in () if goal is None else _differ(goal):
        offset += min(weight, 0)  # -w [x != y] = -w + w [x = y]
        other = j if weight > 0 else -j
        found += [(abs(weight), [i, -other]), (abs(weight), [-i, other])]
    return [(_whole(weight, form), clause) for weight, clause in found], _whole(offset, form)


def products(goal: Objective, instance: Instance) -> list[Weighted]:
    """The terms of an objective to minimise, but for soft constraints: weights and the literals that must all hold."""
    different = [(weight, pair) for weight, i, j in _differ(goal) for pair in ([i, -j], [-i, j])]
    return _products(goal, instance) + different


def _products(goal: Objective, instance: Instance) -> list[Weighted]:
    """Without the terms `differ`."""
    sign = goal.sign
    found = [(sign * w, [_literal(i, a)]) for (i, a), w in _rows(goal.unary, goal.unary_weights)]
    for i, w in zip(goal.linear.tolist(), goal.linear_weights.tolist(), strict=True):
        found += [(weight, [literal]) for weight, literal in number_terms(sign * w, i, instance)]
    for (i, j, a, b), w in _rows(goal.pairwise, goal.pairwise_weights):
        found.append((sign * w, [_literal(i, a), _literal(j, b)]))
    return [(weight, literals) for weight, literals in found if weight]


def _differ(goal: Objective) -> list[tuple[float, int, int]]:
    return [(goal.sign * w, i + 1, j + 1) for (i, j), w in _rows(goal.differ, goal.differ_weights) if w]


def _rows(terms: IntArray, weights: npt.NDArray[np.float64]) -> Iterator[tuple[list[int], float]]:
    return zip(terms.tolist(), weights.tolist(), strict=True)


def _whole(weight: float, form: str) -> int:
    if not float(weight).is_integer():
        raise ValueError(f"a {form} file holds whole weights, got {weight:g}; use .json")
    return int(weight)
