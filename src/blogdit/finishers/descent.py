"""Greedy descent with exchanges, for objectives on pairs (MaxCut, independent set, ...).

One variable changes at a time, the one that gains most. Of very many variables, those that share no term change at
once. In a local optimum, exchanges follow: one variable changes at next to no cost, its surroundings answer, and all of
it is taken back unless the energy has fallen (in an independent set: one vertex out, two in).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from blogdit.core.constraints import IntArray
from blogdit.core.instance import Instance
from blogdit.finishers.base import Deadline, Finish, Task
from blogdit.finishers.pairs import Pairs, pairs_only
from blogdit.finishers.tasks import answer, clean_starts, in_turn

ROUNDING = 1e-9  # of energy: a gain below this is a rounding error
MANY = 10_000  # variables: one move then takes 0.1 ms, a descent by single moves seconds
SURE_ROUNDS = 12  # of moves at once, taken even if the time is over: most of the gain comes from the first few


class Descent:
    """Descent from every start; the best end is the answer."""

    name = "descent"

    def __init__(self, device: torch.device | str = "cpu", threads: int | None = None):
        """It runs on one core, whatever the device."""

    def supports(self, instance: Instance) -> bool:
        return supports_descent(instance)

    def finish(self, tasks: Sequence[Task], deadline: Deadline, seed: int) -> list[Finish]:
        finishes = []
        for task, end in in_turn(tasks, deadline):
            found = []
            for start in clean_starts(task):
                if end.passed():
                    break
                found.append(descend(task.instance, start, end))
            finishes.append(answer(task, found))
        return finishes


def supports_descent(instance: Instance) -> bool:
    """Whether there is an objective and every constraint is on two variables."""
    return instance.objective is not None and pairs_only(instance)


def descend(instance: Instance, values: IntArray, deadline: Deadline, exchanges: bool = True) -> IntArray:
    """A local optimum reached from `values`, if there is time for it. No change of one variable lowers its energy and,
    with `exchanges`, no exchange does."""
    pairs = Pairs(instance)
    state = State(pairs, values)
    if instance.size > MANY:
        state.descend_at_once(deadline)
    state.descend(deadline)
    found = exchanges
    while found:
        found = False
        for variable, value in state.cheap_changes(pairs.slack).tolist():
            if deadline.passed():
                return state.x
            rise = state.costs[variable, value] - state.costs[variable, state.x[variable]]
            if state.x[variable] != value and rise <= pairs.slack and state.exchange(variable, value):
                state.descend(deadline)
                found = True
    return state.x


class State:
    """An assignment, and for each variable: the costs of its values, the best value, and what that would gain.

    Of equal gains, the variable goes first whose neighbours have fewest gains to lose (`harm` counts them).
    """

    def __init__(self, pairs: Pairs, values: IntArray):
        self.pairs, self.x = pairs, np.array(values, np.int64)
        # Harm only decides between equals: all of it together is less than any gain that is not rounding.
        self.per_harm = 1e-6 * pairs.most / max(int(np.diff(pairs.starts).max(initial=0)), 1)
        self.look()

    def look(self) -> None:
        """Work out everything from the assignment."""
        self.costs = self.pairs.costs(self.x)
        everyone = np.arange(len(self.x))
        self.best = self.costs.argmin(1)
        self.gain = self.costs[everyone, self.x] - self.costs[everyone, self.best]
        gaining = self.gain[self.pairs.other] > ROUNDING
        self.harm = np.bincount(self.pairs.owner, gaining, len(self.x))

    def urgency(self) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        """Who goes first, (n,)."""
        return self.gain - self.per_harm * self.harm

    def move(self, variable: int, value: int) -> IntArray:
        """Change one variable; returns its neighbours and itself."""
        old, self.x[variable] = int(self.x[variable]), value
        touched = np.append(self.pairs.update_costs(self.costs, variable, old, value), variable)
        costs = self.costs[touched]
        self.best[touched] = costs.argmin(1)
        before, after = self.gain[touched], costs[np.arange(len(touched)), self.x[touched]] - costs.min(1)
        self._change_harm(touched[(after > ROUNDING) & (before <= ROUNDING)], 1)
        self._change_harm(touched[(after <= ROUNDING) & (before > ROUNDING)], -1)
        self.gain[touched] = after
        return touched

    def _change_harm(self, variables: IntArray, by: int) -> None:
        """Tell the neighbours of variables that now have a gain, or no longer have one."""
        starts, other = self.pairs.starts, self.pairs.other
        near = [other[starts[i] : starts[i + 1]] for i in np.unique(variables)]
        if near:
            np.add.at(self.harm, np.concatenate(near), by)

    def descend(self, deadline: Deadline) -> None:
        """Take the best move of all, until none gains or the time is over."""
        while len(self.x) and self.gain[variable := int(self.urgency().argmax())] > ROUNDING:
            self.move(variable, int(self.best[variable]))
            if deadline.passed():
                return

    def descend_at_once(self, deadline: Deadline, rounds: int = SURE_ROUNDS) -> None:
        """Rounds of moves until none gains or, after so many rounds, until the time is over. Whoever goes before all of
        its neighbours moves; no two of them share a term."""
        while (gaining := self.gain > ROUNDING).any() and (rounds > 0 or not deadline.passed()):
            rank = np.empty(len(self.x), np.int64)
            rank[np.argsort(self.urgency(), kind="stable")] = np.arange(len(self.x))
            highest = np.full(len(self.x), -1)  # rank of the gaining neighbours
            np.maximum.at(highest, self.pairs.owner, np.where(gaining, rank, -1)[self.pairs.other])
            moving = gaining & (rank > highest)
            self.x[moving] = self.best[moving]
            self.look()
            rounds -= 1

    def exchange(self, variable: int, value: int) -> bool:
        """Change one variable and let its surroundings answer. Taken back, and False, unless the energy falls."""
        undo = [(variable, int(self.x[variable]))]
        change = self.costs[variable, value] - self.costs[variable, self.x[variable]]
        around = self.move(variable, value)
        while change > -ROUNDING:
            around = around[around != variable]
            follower = int(around[self.gain[around].argmax()]) if len(around) else variable
            if follower == variable or self.gain[follower] <= ROUNDING:
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
