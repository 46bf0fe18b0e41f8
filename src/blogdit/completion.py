"""The search after the last step for what neither descent nor repair can take: a tree search on the chains' answers.

Without an objective and with constraints on many variables (Sudoku, sums, tables, ...) an answer that is nearly right
is often far from one that is right. So values are fixed one after the other, those first that the chains propose, and
every fixed value is propagated (`propagation.py`). At a contradiction the last one is taken back. Variables come first
that have few values left and that were often in contradictions; the search begins again from time to time, so that
this experience counts from the top.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor

from blogdit.constraints import Conflict, IntArray, NotEqual, Table
from blogdit.csp import Instance
from blogdit.polish import pairs_only
from blogdit.propagation import RULES, Propagation

DEAD_ENDS = 1_000  # before it gives up, unless it may take all the time
FIRST, GROWTH = 50, 1.5  # dead ends before it begins again, and how their number grows
LARGEST = 1 << 17  # (variable, value) pairs, and entries of constraints
LOOK = 16  # nodes between looks at the clock
SHORTEST = 0.005  # seconds: who has less for each of many instances searches on some of them


def can_complete(instance: Instance) -> bool:
    """True if there is no objective, some constraint is on more than pairs, and it is small enough for Python."""
    groups = instance.constraints
    known = all(type(group) in RULES or isinstance(group, NotEqual | Conflict) for group in groups)
    if instance.objective is not None or pairs_only(instance) or not known:
        return False
    return _entries(instance) <= LARGEST


def _entries(instance: Instance) -> int:
    entries = int(instance.domain_sizes.sum())
    for group in instance.constraints:
        if isinstance(group, NotEqual | Conflict):
            entries += len(group)
        elif isinstance(group, Table):
            entries += group.tuples.size * len(group)
        else:
            entries += len(group.scopes.variables)  # type: ignore[attr-defined]
    return entries


def complete(
    instances: Sequence[Instance],
    values: Tensor,
    deadline: float = math.inf,
    stopped: Callable[[], bool] = lambda: False,
    all_the_time: bool = False,
) -> Tensor:
    """A valid state of each instance or, where none is found, the first that was given, (B, N); `values` (chains, B, N)
    are what is tried first, most votes first. A number of dead ends or, with `all_the_time`, until the deadline."""
    states = values.cpu().numpy()
    found = states[0].copy()
    for place, instance in enumerate(instances):
        now = time.monotonic()
        if now >= deadline or stopped():
            break
        end = max(now + (deadline - now) / (len(instances) - place), now + SHORTEST)
        search = TreeSearch(instance, states[:, place, : instance.size])
        answer = search.run(None if all_the_time else DEAD_ENDS, partial(_over, end, stopped))
        if answer is not None:
            found[place, : instance.size] = answer
    return torch.from_numpy(found).to(values.device)


def _over(end: float, stopped: Callable[[], bool]) -> bool:
    return stopped() or time.monotonic() >= end


class TreeSearch:
    """Depth first, with propagation; `proposals` (chains, n) are values to try first."""

    def __init__(self, instance: Instance, proposals: IntArray):
        self.state = Propagation(instance)
        self.dead_ends, self.nodes = 0, 0
        self.order = [_by_votes(votes) for votes in proposals.T.tolist()]

    def run(self, most: int | None = None, stopped: Callable[[], bool] = lambda: False) -> list[int] | None:
        """An answer; None if there is none, after so many dead ends, or when stopped."""
        state, limit = self.state, float(FIRST)
        if not state.settle():
            return None
        top = len(state.trail)
        while True:
            until = self.dead_ends + int(limit)
            if self._descend(until if most is None else min(until, most), stopped):
                return [mask.bit_length() - 1 for mask in state.domains]
            if self.dead_ends < until or (most is not None and self.dead_ends >= most):
                return None  # nothing is left to try, or it is time
            state.take_back(top)
            limit *= GROWTH

    def _descend(self, until: int, stopped: Callable[[], bool]) -> bool:
        """Fix one variable after the other, from where the domains are; False after `until` dead ends, when everything
        was tried, or when stopped."""
        state = self.state
        taken: list[tuple[int, int, int]] = []  # trail, variable and value of each decision
        while (variable := self._choose()) is not None:
            self.nodes += 1
            if self.nodes % LOOK == 0 and stopped():
                return False
            mask = self._first(variable)
            taken.append((len(state.trail), variable, mask))
            fits = state.keep(variable, mask) and state.settle()
            while not fits:
                self.dead_ends += 1
                if not taken or self.dead_ends >= until:
                    return False
                length, variable, mask = taken.pop()
                state.take_back(length)
                fits = state.keep(variable, ~mask) and state.settle()
        return True

    def _choose(self) -> int | None:
        """The open variable with fewest values for the contradictions that its rules were in."""
        state, chosen, least = self.state, None, math.inf
        for variable, mask in enumerate(state.domains):
            if mask & (mask - 1):
                rules = state.watching[variable] + state.when_fixed[variable]
                score = mask.bit_count() / (1 + sum(state.dead_ends[rule] for rule in rules))
                if score < least:
                    chosen, least = variable, score
        return chosen

    def _first(self, variable: int) -> int:
        """Of the values left, the one with most votes, or the lowest; as a mask."""
        domain = self.state.domains[variable]
        return next((mask for mask in self.order[variable] if mask & domain), domain & -domain)


def _by_votes(votes: list[int]) -> list[int]:
    """The values that were proposed, as masks: most votes first, of equals the one that came first."""
    return [1 << value for value in sorted(dict.fromkeys(votes), key=lambda value: -votes.count(value))]
