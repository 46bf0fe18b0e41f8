"""Greedy descent with exchanges, for objectives on pairs (MaxCut, independent set, ...).

In a round, every variable that gains more than all of its neighbours takes its best value; no two of them share a term.
In a local optimum exchanges follow: one variable changes at next to no cost, its surroundings answer, and all of it is
taken back unless the energy has fallen (in an independent set: one vertex out, two in).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from blogdit.core.constraints import IntArray
from blogdit.core.instance import Instance
from blogdit.finishers.base import Deadline, Task
from blogdit.finishers.pairs import Pairs, pairs_only
from blogdit.finishers.tasks import LocalSearch, OutOfTime, best_of, clean_starts

ROUNDING = 1e-9  # of energy: a gain below this is a rounding error


class Descent(LocalSearch):
    """Descent from every start; the best end is the answer."""

    name = "descent"

    def supports(self, instance: Instance) -> bool:
        return supports_descent(instance)

    def search(self, tasks: Sequence[Task], deadline: Deadline, seed: int) -> list[IntArray]:
        (task,) = tasks
        return [best_of(task.instance, (descend(task.instance, start, deadline) for start in clean_starts(task)))]


def supports_descent(instance: Instance) -> bool:
    """Whether there is an objective and every constraint is on two variables."""
    return instance.objective is not None and pairs_only(instance)


def descend(instance: Instance, values: IntArray, deadline: Deadline) -> IntArray:
    """A local optimum reached from `values`, if there is time for it: no change of one variable and no exchange lowers
    its energy."""
    try:
        pairs = Pairs(instance, deadline.passed)
    except OutOfTime:
        return values
    state, found = State(pairs, values), True
    while found and not deadline.passed():
        state.descend(deadline)
        found = False
        for variable, value in state.cheap_changes(pairs.slack).tolist():
            if deadline.passed():
                break
            rise = state.costs[variable, value] - state.costs[variable, state.x[variable]]
            if state.x[variable] != value and rise <= pairs.slack:
                found |= state.exchange(variable, value)
    return state.x


class State:
    """An assignment, and for each variable: the costs of its values, the best value, and what that would gain."""

    def __init__(self, pairs: Pairs, values: IntArray):
        self.pairs, self.x = pairs, np.array(values, np.int64)
        self.look()

    def look(self) -> None:
        """Work out everything from the assignment."""
        self.costs = self.pairs.costs(self.x)
        everyone = np.arange(len(self.x))
        self.best = self.costs.argmin(1)
        self.gain = self.costs[everyone, self.x] - self.costs[everyone, self.best]

    def move(self, variable: int, value: int) -> IntArray:
        """Change one variable; returns its neighbours and itself."""
        old, self.x[variable] = int(self.x[variable]), value
        touched = np.append(self.pairs.update_costs(self.costs, variable, old, value), variable)
        costs = self.costs[touched]
        self.best[touched] = costs.argmin(1)
        self.gain[touched] = costs[np.arange(len(touched)), self.x[touched]] - costs.min(1)
        return touched

    def descend(self, deadline: Deadline) -> None:
        """Rounds of moves, until none gains or the time is over. Of equal gains the later variable goes first."""
        while (gaining := self.gain > ROUNDING).any():
            rank = np.empty(len(self.x), np.int64)
            rank[np.argsort(self.gain, kind="stable")] = np.arange(len(self.x))
            highest = np.full(len(self.x), -1)  # rank of the gaining neighbours
            np.maximum.at(highest, self.pairs.owner, np.where(gaining, rank, -1)[self.pairs.other])
            moving = gaining & (rank > highest)
            self.x[moving] = self.best[moving]
            self.look()
            if deadline.passed():
                return

    def exchange(self, variable: int, value: int) -> bool:
        """Change one variable and let its surroundings answer. Taken back, and False, unless the energy falls."""
        undo = [(variable, int(self.x[variable]))]
        change = self.costs[variable, value] - self.costs[variable, self.x[variable]]
        around = self.move(variable, value)
        while len(around := around[around != variable]):
            follower = int(around[self.gain[around].argmax()])
            if self.gain[follower] <= ROUNDING:
                break
            undo.append((follower, int(self.x[follower])))
            change -= self.gain[follower]
            around = np.append(around, self.move(follower, int(self.best[follower])))
        if change < -ROUNDING:
            return True
        for moved, before in reversed(undo):
            self.move(moved, before)
        return False

    def cheap_changes(self, slack: float) -> IntArray:
        """(m, 2): variables, and values to which they could change for at most `slack`."""
        everyone = np.arange(len(self.x))
        near = self.costs <= self.costs[everyone, self.x][:, None] + slack
        near[everyone, self.x] = False
        return np.argwhere(near)
