"""The energy of problems made of pairs: what each value of a variable costs, given its neighbours.

The objective is in minimisation form. A violated constraint costs a little more than any variable can gain through the
objective, so no single change breaks a constraint to gain something.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from blogdit.core.constraints import Conflict, FloatArray, IntArray, NotEqual
from blogdit.core.instance import Instance, Objective
from blogdit.finishers.tasks import give_up_if

MOST_CELLS = 1 << 26  # (variable, value) pairs of an instance: the table of their costs then takes 512 MiB
EXTRA_PENALTY = 1 / 64  # of the largest gain, by which a penalty is above it; a power of 2, so sums are not rounded
USUAL_SHARE = 0.9  # of the variables with a gain have at most `Pairs.usual`: a few large weights do not count


def pairs_only(instance: Instance) -> bool:
    """Whether every constraint, soft ones too, is on two variables, and a table of all values has room in memory."""
    cells = instance.size * int(instance.domain_sizes.max(initial=1))
    return cells <= MOST_CELLS and all(isinstance(group, NotEqual | Conflict) for group in instance.groups)


def terms_on_pairs(instance: Instance) -> int:
    """How many constraints and terms of the objective are on two variables, if `pairs_only`."""
    goal = instance.objective
    return sum(map(len, instance.groups)) + (0 if goal is None else len(goal.differ) + len(goal.pairwise))


class Pairs:
    """Energy terms on pairs, each listed at both variables. Those of variable i are rows starts[i]:starts[i + 1]:

    - `owner`, `other`: the variable i and its neighbour j;
    - `values`: (a, b), the term costs something where x_i = a and x_j = b; (-1, -1): where x_i = x_j;
    - `weights`: what it costs there.

    `unary` (n, K) is what each value costs by itself; inf if the variable cannot take it.
    """

    def __init__(self, instance: Instance, over: Callable[[], bool] = lambda: False):
        """`over` is asked between the parts of the work whether to give up; then `OutOfTime` is raised."""
        goal = instance.objective or Objective("minimize")
        sign = 1.0 if goal.sense == "minimize" else -1.0
        gains = _largest_gains(instance, goal)
        self.most = float(gains.max(initial=0.0)) or 1.0  # that one variable can gain
        self.usual = _usual_gain(instance, goal, gains)
        self.slack = (
            self.most / 60
        )  # a little above most * EXTRA_PENALTY, the cost of breaking one constraint for `most`
        penalty = (1 + EXTRA_PENALTY) * self.most
        ends: list[IntArray] = []
        values: list[IntArray] = []
        weights: list[FloatArray] = []

        def add(pairs: IntArray, at: IntArray | None, costs: FloatArray) -> None:
            either = np.full_like(pairs, -1) if at is None else at
            ends.extend([pairs, pairs[:, ::-1]])
            values.extend([either, either[:, ::-1]])
            weights.extend([costs, costs])

        add(goal.differ, None, -sign * goal.differ_weights)  # to earn w for differing is to pay -w for being equal
        add(goal.pairwise[:, :2], goal.pairwise[:, 2:], sign * goal.pairwise_weights)
        for group, costs in (*((one, np.full(len(one), penalty)) for one in instance.constraints), *goal.soft):
            if isinstance(group, NotEqual):
                add(group.pairs, None, costs)
            elif isinstance(group, Conflict):
                add(group.pairs, group.values, costs)
        give_up_if(over)
        joined = np.concatenate(ends)
        give_up_if(over)
        order = np.argsort(np.ascontiguousarray(joined[:, 0]), kind="stable")
        give_up_if(over)
        self.owner, self.other = joined[order].T
        give_up_if(over)
        self.values = np.concatenate(values)[order]
        give_up_if(over)
        self.weights: npt.NDArray[Any] = np.concatenate(weights)[order]
        self.starts = np.searchsorted(self.owner, np.arange(instance.size + 1))
        self.unary: npt.NDArray[Any] = _unary_costs(instance, goal, sign)

    def costs(self, x: IntArray) -> npt.NDArray[Any]:
        """(n, K): the energy of every variable at every value, the others as they are in x."""
        costs, neighbour, (own, theirs) = self.unary.copy(), x[self.other], self.values.T
        hit = (own < 0) | (theirs == neighbour)
        np.add.at(costs, (self.owner[hit], np.where(own < 0, neighbour, own)[hit]), self.weights[hit])
        return costs

    def update_costs(self, costs: Any, variable: int, old: int, new: int) -> IntArray:
        """Bring `costs` up to date after a variable changed; returns its neighbours."""
        rows = slice(self.starts[variable], self.starts[variable + 1])
        neighbours, (own, theirs), weights = self.other[rows], self.values[rows].T, self.weights[rows]
        for value, change in ((old, np.subtract), (new, np.add)):
            hit = (own < 0) | (own == value)
            change.at(costs, (neighbours[hit], np.where(own < 0, value, theirs)[hit]), weights[hit])
        return neighbours


def _largest_gains(instance: Instance, goal: Objective) -> FloatArray:
    """The most that a change of each variable can gain through the objective, (n,)."""
    gains, domains = np.zeros(instance.size), instance.domains
    spans = (domains.greatest - domains.least)[goal.linear]
    np.add.at(gains, goal.linear, np.abs(goal.linear_weights) * spans)
    for group, costs in goal.soft:
        np.add.at(gains, group.members.variables, costs[group.members.owner])
    np.add.at(gains, goal.unary[:, 0], np.abs(goal.unary_weights))
    for end in (0, 1):
        np.add.at(gains, goal.differ[:, end], np.abs(goal.differ_weights))
        np.add.at(gains, goal.pairwise[:, end], np.abs(goal.pairwise_weights))
    return gains


def _usual_gain(instance: Instance, goal: Objective, gains: npt.NDArray[np.float64]) -> float | None:
    """What most variables can gain at most, if all terms on pairs are constraints; else None."""
    earning = gains[gains > 0]
    on_pairs = len(goal.differ) or len(goal.pairwise) or len(goal.soft)
    if on_pairs or not len(earning) or not any(map(len, instance.constraints)):
        return None
    return float(np.quantile(earning, USUAL_SHARE))


def _unary_costs(instance: Instance, goal: Objective, sign: float) -> FloatArray:
    """(n, K)"""
    unary = np.zeros((instance.size, int(instance.domain_sizes.max(initial=1))))
    terms, weights = goal.by_value(instance.domains)
    np.add.at(unary, (terms[:, 0], terms[:, 1]), sign * weights)
    unary[np.arange(unary.shape[1]) >= instance.domain_sizes[:, None]] = np.inf
    given = instance.is_given
    unary[given] = np.inf
    unary[given, instance.given_values[given]] = 0.0
    return unary
