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
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from blogdit.core.constraints import Conflict, IntArray, NotEqual, Scopes, Table
from blogdit.core.instance import Instance
from blogdit.finishers.polish import pairs_only
from blogdit.finishers.propagation import RULES, Propagation, bit

FIRST, GROWTH = 50, 1.5  # contradictions before it begins again, and how their number grows
MOST_VARIABLES, LARGEST = 1 << 12, 1 << 17  # the latter of (variable, value) pairs and entries of constraints
MOST_WORK = 1 << 22  # entries that rules look at, unless it may take all the time: a second or so
LAST_WORK = 1 << 18  # to come close after all was in vain: hundredths of a second
LOOK = 1 << 13  # entries between two looks at the clock
SHORTEST = 0.005  # seconds: who has less for each of many instances searches on some of them


def can_complete(instance: Instance) -> bool:
    """True if there is no objective, some constraint is on more than pairs, and it is small enough for Python."""
    return instance.objective is None and not pairs_only(instance) and small_enough(instance)


def small_enough(instance: Instance) -> bool:
    """True if every constraint has a rule, and Python can ask all of them."""
    known = all(type(group) in RULES or isinstance(group, NotEqual | Conflict) for group in instance.constraints)
    return known and instance.size <= MOST_VARIABLES and entries(instance) <= LARGEST


def entries(instance: Instance) -> int:
    """(Variable, value) pairs, and variables and tuples of constraints: what Python has to hold."""
    count = int(instance.domain_sizes.sum())
    for group in instance.constraints:
        if isinstance(group, Table):
            count += group.tuples.size * len(group)
        else:
            scopes = getattr(group, "scopes", None)
            count += len(scopes.variables) if isinstance(scopes, Scopes) else len(group)
    return count


class Completed(NamedTuple):
    """A valid state of each instance or, where none was found, one that comes close, (B, N); and which of them have no
    valid state at all."""

    states: Tensor
    exhausted: list[bool]


def complete(
    instances: Sequence[Instance],
    values: Tensor,
    deadline: float = math.inf,
    stopped: Callable[[], bool] = lambda: False,
    all_the_time: bool = False,
) -> Completed:
    """Search for a valid state of each instance. `values` (chains, B, N) are what is tried first, most votes first. For
    a fixed amount of work or, with `all_the_time`, until the deadline."""
    states = values.cpu().numpy()
    found, exhausted = states[0].copy(), [False] * len(instances)
    for place, is_over in turns(len(instances), deadline, stopped):
        instance = instances[place]
        search = TreeSearch(instance, states[:, place, : instance.size], is_over)
        answer = search.run(None if all_the_time else MOST_WORK)
        exhausted[place] = search.exhausted
        found[place, : instance.size] = search.closest() if answer is None else answer
    return Completed(torch.from_numpy(found).to(values.device), exhausted)


def turns(count: int, deadline: float, stopped: Callable[[], bool]) -> Iterator[tuple[int, Callable[[], bool]]]:
    """So many places, one after the other while there is time, and what tells each that its part of it is over."""
    for place in range(count):
        now = time.monotonic()
        if now >= deadline or stopped():
            return
        yield place, partial(over, max(now + (deadline - now) / (count - place), now + SHORTEST), stopped)


def over(end: float, stopped: Callable[[], bool]) -> bool:
    return stopped() or time.monotonic() >= end


class Interrupted(Exception):
    """The work or the time of a search is spent."""


class TreeSearch:
    """Depth first, with propagation; `proposals` (chains, n) are values to try first. `exhausted` is True once
    everything was tried in vain; `deepest` are the domains where fewest variables were open."""

    def __init__(self, instance: Instance, proposals: IntArray, stopped: Callable[[], bool] = lambda: False):
        self.instance, self.stopped = instance, stopped
        self.order = [[bit(value) for value, _ in Counter(votes).most_common()] for votes in proposals.T.tolist()]
        self.contradictions, self.work, self.exhausted = 0, 0, False
        self.deepest, self.fewest_open = [masks[0] for masks in self.order], instance.size + 1

    def run(self, most: int | None = None) -> list[int] | None:
        """An answer; None if there is none, after so much work, or when stopped."""
        self.most, self.next_look, limit = most, self.work + LOOK, float(FIRST)
        state = Propagation(self.instance, self._spend)
        try:
            self.exhausted = not self._prepare(state)
            while not self.exhausted:
                if self._descend(state, self.contradictions + int(limit)):
                    return [mask.bit_length() - 1 for mask in state.domains]
                state.take_back(0)
                limit *= GROWTH
        except Interrupted:
            pass
        return None

    def closest(self) -> list[int]:
        """In vain, what comes close: from the deepest domains on, without the constraints that then contradict."""
        self.stopped, self.most = (lambda: False), self.work + LAST_WORK
        state = Propagation(self.instance, self._spend)
        state.domains = list(self.deepest)
        try:
            for variable in range(self.instance.size):
                length = len(state.trail)
                while not (state.keep(variable, self._first(state, variable)) and state.settle()):
                    state.take_back(length)
                    state.drop_failed()
        except Interrupted:
            pass
        return [self._first(state, variable).bit_length() - 1 for variable in range(self.instance.size)]

    def _prepare(self, state: Propagation) -> bool:
        """Narrow the domains before any choice; who is in no constraint gets what was proposed."""
        if not state.settle():
            return False
        for variable in range(self.instance.size):
            if not state.is_bound(variable):
                state.keep(variable, self._first(state, variable))
        state.trail.clear()
        self.open = [variable for variable, mask in enumerate(state.domains) if mask & (mask - 1)]
        return True

    def _spend(self, cost: int) -> None:
        self.work += cost
        if self.work >= self.next_look:
            self.next_look = self.work + LOOK
            if self.stopped() or (self.most is not None and self.work >= self.most):
                raise Interrupted

    def _descend(self, state: Propagation, until: int) -> bool:
        """Fix one variable after the other, from the top; False after `until` contradictions, or if all was tried."""
        choices: list[tuple[int, int, int]] = []  # length of the trail, variable and value
        while (variable := self._choose(state)) is not None:
            mask = self._first(state, variable)
            choices.append((len(state.trail), variable, mask))
            fits = state.keep(variable, mask) and state.settle()
            while not fits:
                self.contradictions += 1
                if not choices:
                    self.exhausted = True
                    return False
                if self.contradictions >= until:
                    return False
                length, variable, mask = choices.pop()
                state.take_back(length)
                fits = state.keep(variable, ~mask) and state.settle()
        return True

    def _choose(self, state: Propagation) -> int | None:
        """The open variable with fewest values for the contradictions that it had a part in."""
        self._spend(len(self.open))
        chosen, least, still_open, domains, blame = None, math.inf, 0, state.domains, state.blame
        for variable in self.open:
            mask = domains[variable]
            if mask & (mask - 1):
                still_open += 1
                score = mask.bit_count() / (1 + blame[variable])
                if score < least:
                    chosen, least = variable, score
        if still_open < self.fewest_open:
            self.fewest_open = still_open
            self.deepest = list(domains)
        return chosen

    def _first(self, state: Propagation, variable: int) -> int:
        """Of the values left, the one with most votes, or the lowest; as a mask."""
        domain = state.domains[variable]
        return next((mask for mask in self.order[variable] if mask & domain), domain & -domain)
