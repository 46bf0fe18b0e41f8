"""A tree search for problems made of pairs (colouring, ...): a valid state, or the knowledge that there is none.

As in DSATUR the next variable is the one with fewest values left, of equals the one in most constraints, and of values
that nobody has yet, which are all alike, only one is tried. A set of variables is a whole number, with a bit for each:
then a step in the tree takes a few operations for each value, however many variables there are.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from blogdit.core.constraints import Conflict, IntArray, NotEqual
from blogdit.core.instance import Instance
from blogdit.finishers.polish import pairs_only

MOST_VARIABLES, MOST_VALUES, MOST_CONFLICTS = 1 << 11, 1 << 8, 1 << 14
MOST_CHOICES = 1 << 16  # of a variable and a value
LOOK = 1 << 12  # steps, times values, between two looks at the clock: hundredths of a second at most

BoolArray = npt.NDArray[np.bool_]
# What taking a value means to others: (a value, the variables that may not take it any more).
Effects = list[tuple[int, int]]


def can_backtrack(instance: Instance) -> bool:
    """True if there is no objective, constraints are on two variables, and it is small enough for Python."""
    values = int(instance.domain_sizes.max(initial=1))
    conflicts = sum(len(group) for group in instance.constraints if isinstance(group, Conflict))
    small = instance.size <= MOST_VARIABLES and values <= MOST_VALUES and conflicts <= MOST_CONFLICTS
    small &= instance.size * values <= MOST_CHOICES
    return instance.objective is None and pairs_only(instance) and small


class Node(NamedTuple):
    """What is known at a node of the tree."""

    closed: list[int]  # of each value, who may not take it
    lost: list[int]  # who may not take at least 0, 1, ... K values
    open: int  # who has no value yet
    used: int  # the values that somebody has, as bits


class Choice(NamedTuple):
    """A variable that takes one value after the other."""

    variable: int  # its bit
    number: int  # of values
    left: list[int]  # those that it has not taken yet
    node: Node  # without it


class Backtracking:
    """Of one instance. `run` may be called again, and goes on; `exhausted` is True once all was tried in vain."""

    def __init__(self, instance: Instance):
        self.instance, self.width = instance, int(instance.domain_sizes.max(initial=1))
        self.exhausted, self.steps, self.seconds = False, 0, 0.0
        allowed = np.arange(self.width) < instance.domain_sizes[:, None]  # (n, K)
        allowed &= ~instance.is_given[:, None] | (np.arange(self.width) == instance.given_values[:, None])
        differ = _differ(instance)
        conflicts = [group for group in instance.constraints if isinstance(group, Conflict) and len(group)]
        free = [] if conflicts else _free(differ, allowed.sum(1))
        # Bits: variables in most constraints first, so that the lowest bit of a set is the one to take.
        degree = differ.sum(1) + sum(np.bincount(group.pairs.ravel(), minlength=instance.size) for group in conflicts)
        inside = np.setdiff1d(np.arange(instance.size), free)
        self.order = inside[np.argsort(-degree[inside], kind="stable")]
        self.last = [(v, np.flatnonzero(differ[v]), np.flatnonzero(allowed[v])) for v in reversed(free)]
        self.effects = self._effects(_masks(differ[np.ix_(self.order, self.order)]), conflicts)
        refused = ~allowed[self.order]
        closed = _masks(refused.T)
        lost = _masks(refused.sum(1) >= np.arange(self.width + 1)[:, None])
        self.node = Node(closed, lost, (1 << len(self.order)) - 1, 0)
        # Values that the same variables may take are alike until somebody has one: lower ones come first.
        self.before, alike = [0] * self.width, dict[int, int]()
        for value, mask in enumerate(() if conflicts else closed):
            self.before[value] = alike.get(mask, 0)
            alike[mask] = self.before[value] | 1 << value
        self.path: list[Choice] = []
        self.taken: list[int] = []  # the values of its variables

    def _effects(self, neighbours: list[int], conflicts: list[Conflict]) -> list[list[Effects]]:
        """Of each variable and value."""
        found = [[{value: mask} for value in range(self.width)] for mask in neighbours]
        place = {int(variable): number for number, variable in enumerate(self.order)}
        for group in conflicts:
            for pair, values in zip(group.pairs.tolist(), group.values.tolist(), strict=True):
                for (one, other), (own, theirs) in ((pair, values), (pair[::-1], values[::-1])):
                    effects = found[place[one]][own]
                    effects[theirs] = effects.get(theirs, 0) | 1 << place[other]
        return [[list(effects.items()) for effects in of_values] for of_values in found]

    def run(self, most: int, stopped: Callable[[], bool] = lambda: False) -> IntArray | None:
        """A valid state; None if there is none, after so many more steps, or when stopped."""
        path, taken, before, width, node = self.path, self.taken, self.before, self.width, self.node
        until, look, began = self.steps + most, max(LOOK // width, 1), time.monotonic()
        while node.open and not self.exhausted:
            if self.steps >= until or (self.steps % look == 0 and stopped()):
                break
            self.steps += 1
            closed, lost, open_, used = node
            if not lost[width] & open_:  # otherwise somebody has no value left
                number = width - 1
                while not (tightest := lost[number] & open_):
                    number -= 1
                variable = tightest & -tightest
                left = [v for v in range(width - 1, -1, -1) if not (closed[v] & variable or before[v] & ~used)]
                path.append(Choice(variable, len(left), left, node))
                taken.append(-1)
            while path and not path[-1].left:
                path.pop()
                taken.pop()
            if not path:
                self.exhausted = True
                break
            taken[-1] = path[-1].left.pop()
            node = self._take(path[-1].node, path[-1].variable, taken[-1])
        self.node = node
        self.seconds += time.monotonic() - began
        return None if node.open else self._answer()

    def _take(self, node: Node, variable: int, value: int) -> Node:
        """The node after a variable has taken a value."""
        closed, lost, open_ = node.closed[:], node.lost[:], node.open ^ variable
        for other, concerned in self.effects[variable.bit_length() - 1][value]:
            if newly := concerned & open_ & ~closed[other]:
                closed[other] |= newly
                for number in range(self.width, 0, -1):
                    lost[number] |= lost[number - 1] & newly
        return Node(closed, lost, open_, node.used | 1 << value)

    def seconds_left(self) -> float:
        """To search the rest of the tree, if what is behind is a fair part of it."""
        share = max(self.searched(), sys.float_info.min)
        return self.seconds * (1 - share) / share

    def searched(self) -> float:
        """How much of the tree is behind it, 0 to 1, as if all branches of a node were equally large."""
        share, branch = 0.0, 1.0
        for choice in self.path:
            branch /= choice.number
            share += branch * (choice.number - len(choice.left) - 1)
        return share

    def _answer(self) -> IntArray:
        values = np.full(self.instance.size, -1)
        for choice, value in zip(self.path, self.taken, strict=True):
            values[self.order[choice.variable.bit_length() - 1]] = value
        for free, neighbours, allowed in self.last:  # of the neighbours, too few have a value by now to close them all
            values[free] = np.setdiff1d(allowed, values[neighbours])[0]
        return values


def _differ(instance: Instance) -> BoolArray:
    """(n, n): which variables must differ."""
    matrix = np.zeros((instance.size, instance.size), bool)
    for group in instance.constraints:
        if isinstance(group, NotEqual):
            matrix[group.pairs[:, 0], group.pairs[:, 1]] = matrix[group.pairs[:, 1], group.pairs[:, 0]] = True
    return matrix


def _free(differ: BoolArray, values: IntArray) -> list[int]:
    """Variables with more values than neighbours, not counting those before them: they can wait till the end."""
    degree, found, there = differ.sum(1), list[int](), np.ones(len(differ), bool)
    while len(leaving := np.flatnonzero(there & (degree < values))):
        found += leaving.tolist()
        there[leaving] = False
        degree = degree - differ[:, leaving].sum(1)
    return found


def _masks(rows: BoolArray) -> list[int]:
    """Each row as a whole number, whose lowest bit is the first entry."""
    return [int.from_bytes(row.tobytes(), "little") for row in np.packbits(rows, axis=1, bitorder="little")]
