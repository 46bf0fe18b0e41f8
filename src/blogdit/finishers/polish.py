"""Descent to a local optimum for problems made of pairs (MaxCut, independent set, ...): one variable at a time; where
there are very many, first all at once that share no term.

On the energy with penalties above every gain, a move never breaks a constraint to earn more: conflicts go first, then
what fits is added.
"""

from __future__ import annotations

import math
import time

import numpy as np
import numpy.typing as npt

from blogdit.core.constraints import Conflict, FloatArray, IntArray, NotEqual
from blogdit.core.instance import Instance, Objective

NOTHING = 1e-9  # a gain that is a rounding error
LARGE = 10_000  # variables: of more, many move at a time
FEW_ROUNDS = 12


def pairs_only(instance: Instance) -> bool:
    """True if every constraint is on two variables."""
    return all(isinstance(group, NotEqual | Conflict) for group in instance.constraints)


def can_polish(instance: Instance) -> bool:
    """True if the instance has an objective and every constraint is on two variables."""
    return instance.objective is not None and pairs_only(instance)


class Pairs:
    """Energy terms on pairs, listed by variable: those of i are rows starts[i]:starts[i + 1]."""

    def __init__(self, instance: Instance):
        objective = instance.objective or Objective("minimize")
        sign = 1.0 if objective.sense == "minimize" else -1.0
        gains = np.zeros(instance.size)  # the most a variable can earn or lose through the objective
        np.add.at(gains, objective.unary[:, 0], np.abs(objective.unary_weights))
        for column in (0, 1):
            np.add.at(gains, objective.differ[:, column], np.abs(objective.differ_weights))
            np.add.at(gains, objective.pairwise[:, column], np.abs(objective.pairwise_weights))
        self.most = float(gains.max(initial=0.0)) or 1.0
        # Where constraints are all that is on pairs: what nine of ten variables earn at most.
        earning, alone = gains[gains > 0], not len(objective.differ) and not len(objective.pairwise)
        constrained = alone and len(earning) and any(map(len, instance.constraints))
        self.usual = float(np.quantile(earning, 0.9)) if constrained else None
        penalty = (1 + 1 / 64) * self.most  # sums of it have no rounding errors
        self.slack = self.most / 60  # what it costs to break one constraint for the largest gain, and a little more
        # (i, j, a, b, weight): costs weight where x_i = a and x_j = b; a = -1: where x_i = x_j
        rows: list[tuple[IntArray, IntArray, FloatArray]] = []

        def add(pairs: IntArray, values: IntArray | None, weights: FloatArray) -> None:
            either = np.full_like(pairs, -1) if values is None else values
            rows.append((pairs, either, weights))
            rows.append((pairs[:, ::-1], either[:, ::-1], weights))

        add(objective.differ, None, -sign * objective.differ_weights)  # differing earns w: being equal costs -w
        add(objective.pairwise[:, :2], objective.pairwise[:, 2:], sign * objective.pairwise_weights)
        for group in instance.constraints:
            if isinstance(group, NotEqual):
                add(group.pairs, None, np.full(len(group), penalty))
            elif isinstance(group, Conflict):
                add(group.pairs, group.values, np.full(len(group), penalty))
        ends = np.concatenate([pairs for pairs, _, _ in rows])
        order = np.argsort(ends[:, 0], kind="stable")
        self.other = ends[order, 1]
        self.values = np.concatenate([values for _, values, _ in rows])[order]
        self.weights = np.concatenate([weights for _, _, weights in rows])[order]
        self.starts = np.searchsorted(ends[order, 0], np.arange(instance.size + 1))
        self.owner = ends[order, 0]
        self.unary = np.zeros((instance.size, int(instance.domain_sizes.max(initial=1))))
        np.add.at(self.unary, (objective.unary[:, 0], objective.unary[:, 1]), sign * objective.unary_weights)
        self.unary[np.arange(self.unary.shape[1]) >= instance.domain_sizes[:, None]] = np.inf
        self.unary[instance.is_given] = np.inf
        self.unary[instance.is_given, instance.given_values[instance.is_given]] = 0.0

    def _add_costs(self, costs: FloatArray, rows: slice | npt.NDArray[np.int64], neighbour: IntArray) -> None:
        """Add to costs[i, k] what the terms `rows` charge for x_i = k if the other variables are `neighbour`."""
        own, values, weights = self.owner[rows], self.values[rows], self.weights[rows]
        same = values[:, 0] < 0
        np.add.at(costs, (own[same], neighbour[same]), weights[same])
        hit = ~same & (values[:, 1] == neighbour)
        np.add.at(costs, (own[hit], values[hit, 0]), weights[hit])

    def costs(self, x: IntArray) -> FloatArray:
        """(n, K): the energy of every variable at every value, the others fixed."""
        costs = self.unary.copy()
        self._add_costs(costs, slice(None), x[self.other])
        return costs

    def moved(self, costs: FloatArray, x: IntArray, variable: int, old: int) -> IntArray:
        """Bring `costs` up to date after x[variable] changed from `old`; returns the neighbours."""
        rows = np.arange(self.starts[variable], self.starts[variable + 1])
        neighbours, values, weights = self.other[rows], self.values[rows], self.weights[rows]
        same = values[:, 0] < 0
        for value, sign in ((old, -1.0), (int(x[variable]), 1.0)):
            np.add.at(costs, (neighbours[same], value), sign * weights[same])
            hit = ~same & (values[:, 0] == value)
            np.add.at(costs, (neighbours[hit], values[hit, 1]), sign * weights[hit])
        return neighbours


class _Descent:
    """An assignment, the costs of its variables, and the moves that lead downhill from it."""

    def __init__(self, pairs: Pairs, values: IntArray):
        self.pairs, self.x = pairs, np.array(values, np.int64)
        self.least = 1e-6 * pairs.most / max(int(np.diff(pairs.starts).max(initial=0)), 1)
        self.look()

    def look(self) -> None:
        """What every variable costs here, and what it could gain."""
        self.costs = self.pairs.costs(self.x)
        everyone = np.arange(len(self.x))
        self.best = self.costs.argmin(1)
        self.gain = self.costs[everyone, self.x] - self.costs[everyone, self.best]
        # Of equal gains, the one goes first whose neighbours have fewest gains to lose.
        gaining = self.gain[self.pairs.other] > NOTHING
        self.harm = np.bincount(self.pairs.owner, gaining, len(self.x))

    def move(self, variable: int, value: int) -> IntArray:
        """Set one variable; returns it and its neighbours."""
        old, self.x[variable] = int(self.x[variable]), value
        touched = np.append(self.pairs.moved(self.costs, self.x, variable, old), variable)
        costs = self.costs[touched]
        self.best[touched] = costs.argmin(1)
        gain = costs[np.arange(len(touched)), self.x[touched]] - costs.min(1)
        for way, turned in ((1, gain > self.gain[touched]), (-1, gain < self.gain[touched])):
            turned &= (gain > NOTHING) != (self.gain[touched] > NOTHING)
            near = [
                self.pairs.other[self.pairs.starts[i] : self.pairs.starts[i + 1]] for i in np.unique(touched[turned])
            ]
            if near:
                np.add.at(self.harm, np.concatenate(near), way)
        self.gain[touched] = gain
        return touched

    def rush(self, deadline: float, least: int = FEW_ROUNDS) -> None:
        """Whoever would go before all its neighbours moves at once with the others like it: they share no term. A few
        rounds are worth their time even when it is over."""
        order, rounds = np.empty(len(self.x), np.int64), 0
        while (gaining := self.gain > NOTHING).any() and (rounds < least or time.monotonic() < deadline):
            order[np.argsort(self.gain - self.least * self.harm, kind="stable")] = np.arange(len(self.x))
            first = np.full(len(self.x), -1)  # of the gaining neighbours
            np.maximum.at(first, self.pairs.owner, np.where(gaining, order, -1)[self.pairs.other])
            moving = gaining & (order > first)
            self.x[moving] = self.best[moving]
            self.look()
            rounds += 1

    def downhill(self, deadline: float) -> None:
        """The best move of all, until none gains or the time is over."""
        while len(self.x) and self.gain[variable := int((self.gain - self.least * self.harm).argmax())] > NOTHING:
            self.move(variable, int(self.best[variable]))
            if time.monotonic() > deadline:
                return

    def eject(self, variable: int, value: int) -> bool:
        """Set one variable and let its surroundings answer; taken back unless the energy falls."""
        undo = [(variable, int(self.x[variable]))]
        change = self.costs[variable, value] - self.costs[variable, self.x[variable]]
        around = self.move(variable, value)
        while change > -NOTHING:
            around = around[around != variable]
            follower = int(around[self.gain[around].argmax()]) if len(around) else variable
            if follower == variable or self.gain[follower] <= NOTHING:
                break
            undo.append((follower, int(self.x[follower])))
            change -= self.gain[follower]
            around = np.append(around, self.move(follower, int(self.best[follower])))
        if change < -NOTHING:
            return True
        for moved, before in reversed(undo):
            self.move(moved, before)
        return False

    def sideways(self, slack: float) -> IntArray:
        """(m, 2): variables and values to which they could change for at most `slack`."""
        own = self.costs[np.arange(len(self.x)), self.x]
        near = self.costs <= own[:, None] + slack
        near[np.arange(len(self.x)), self.x] = False
        return np.argwhere(near)


def polish(instance: Instance, values: IntArray, deadline: float = math.inf, exchanges: bool = True) -> IntArray:
    """A local optimum reached from `values`, if there is time: no change of one variable lowers the energy, and, with
    `exchanges`, no change that costs next to nothing does so after its surroundings have answered (in an independent
    set: one out, two in)."""
    pairs = Pairs(instance)
    here = _Descent(pairs, values)
    if instance.size > LARGE:
        here.rush(deadline)
    here.downhill(deadline)
    found = exchanges
    while found:
        found = False
        for variable, value in here.sideways(pairs.slack).tolist():
            if time.monotonic() > deadline:
                return here.x
            rise = here.costs[variable, value] - here.costs[variable, here.x[variable]]
            if here.x[variable] != value and rise <= pairs.slack and here.eject(variable, value):
                here.downhill(deadline)
                found = True
    return here.x
