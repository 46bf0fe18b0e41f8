"""The search after the last step for an objective beside constraints on more than two variables (sums, tables, ...).

Blocks of variables are solved anew: all others keep their values, and a tree search (`completion.py`) looks for values
of the block with which the objective is better than the best known. A block that was searched in full makes the next
one larger, one that took too long smaller (large neighbourhood search, Shaw 1998). When a block that holds everything
was searched in full, there is nothing better. Where no valid state is known, the tree search or mending looks for one.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from copy import copy
from functools import partial

import numpy as np
import torch
from torch import Tensor

from blogdit.core.constraints import IntArray
from blogdit.core.instance import Instance, Objective
from blogdit.finishers.completion import LARGEST, MOST_WORK, Completed, Interrupted, TreeSearch, small_enough, turns
from blogdit.finishers.mending import MOST_MOVES, Mending
from blogdit.finishers.polish import pairs_only
from blogdit.finishers.propagation import Neighbours, Propagation, bit

FIRST_BLOCK, SMALLEST = 8.0, 3.0  # variables of a block
SHRINKAGE, GROWTH, FAST_GROWTH = 0.93, 1.05, 1.25  # after a block that was too large, a good one and an easy one
TRIES, EASY = 50, 0.1  # contradictions in a block; their share in an easy one
PATIENCE, MORE_TRIES = 40, 1.5  # after so many blocks without a gain each may take longer
RANDOM, EQUAL = 0.3, 0.25  # shares of blocks: of any variables; where as good is good enough
AT_A_TIME = 4  # variables of a constraint that join a block
FIRST_WORK = 1 << 18  # of a tree search for a valid state: hundredths of a second, then mending has a try


def can_improve(instance: Instance) -> bool:
    """True if there is an objective, some constraint is on more than pairs, and it is small enough for Python."""
    goal = instance.objective
    if goal is None or len(goal.unary) + len(goal.differ) + len(goal.pairwise) > LARGEST:
        return False
    return not pairs_only(instance) and small_enough(instance)


def improve(
    instances: Sequence[Instance],
    values: Tensor,
    deadline: float = math.inf,
    stopped: Callable[[], bool] = lambda: False,
    all_the_time: bool = False,
    enough: Callable[[Instance, IntArray], bool] = lambda instance, values: False,
) -> Completed:
    """The best state of each instance that is found from `values` (chains, B, N), and for which of them there is no
    better one, or none at all; who has no time keeps the first. For a fixed amount of work or, with `all_the_time`,
    until the deadline, unless an answer is good `enough`."""
    states = values.cpu().numpy()
    found, exhausted = states[0].copy(), [False] * len(instances)
    for place, is_over in turns(len(instances), deadline, stopped):
        instance = instances[place]
        search = BlockSearch(instance, states[:, place, : instance.size], is_over, partial(enough, instance))
        found[place, : instance.size] = search.run(None if all_the_time else MOST_WORK)
        exhausted[place] = search.exhausted
    return Completed(torch.from_numpy(found).to(values.device), exhausted)


class Larger:
    """A rule: what is earned is above a bar, by the most that every term can still earn."""

    def __init__(self, instance: Instance, goal: Objective):
        self.whole, self.outside = self, 0.0
        sign = 1.0 if goal.sense == "maximize" else -1.0
        earned: dict[int, dict[int, float]] = {}
        for (variable, value), weight in zip(goal.unary.tolist(), goal.unary_weights.tolist(), strict=True):
            own = earned.setdefault(variable, {})
            own[value] = own.get(value, 0.0) + sign * weight
        self.alone = {
            variable: _by_worth(own, int(instance.domain_sizes[variable])) for variable, own in earned.items()
        }
        different, both = (sign * goal.differ_weights).tolist(), (sign * goal.pairwise_weights).tolist()
        self.different = [(i, j, w) for (i, j), w in zip(goal.differ.tolist(), different, strict=True)]
        self.both = [(i, j, bit(a), bit(b), w) for (i, j, a, b), w in zip(goal.pairwise.tolist(), both, strict=True)]
        pairs = [(term[0], term[1]) for term in (*self.different, *self.both)]
        self.neighbours: dict[int, list[int]] = {}
        for i, j in pairs:
            self.neighbours.setdefault(i, []).append(j)
            self.neighbours.setdefault(j, []).append(i)
        self.scope = sorted({*self.alone, *self.neighbours})
        self.cost = len(self.alone) + 2 * len(pairs) + 1
        weights = (goal.unary_weights, goal.differ_weights, goal.pairwise_weights)
        self.rounding = 1e-9 * max(sum(float(abs(w).sum()) for w in weights), 1e-300)
        self.bar = -math.inf

    def narrow(self, state: Propagation) -> bool:
        bar = self.whole.bar - self.outside
        if bar == -math.inf:
            return True
        domains, most = state.domains, []
        for variable, own in self.alone.items():
            best, mask = own[0]
            if not mask & domains[variable]:
                best = next(worth for worth, mask in own if mask & domains[variable])
            most.append(best)
        room = sum(most) + self._pairs(domains) - bar - self.rounding
        if room <= 0:
            return False
        for (variable, own), best in zip(self.alone.items(), most, strict=True):
            if best - own[-1][0] >= room:
                allowed = sum(mask for worth, mask in own if best - worth < room)  # masks of different values
                if not state.keep(variable, allowed):
                    return False
        return True

    def within(self, block: Sequence[int], domains: Sequence[int]) -> Larger:
        """What all others earn is certain."""
        inside, part = set(block), copy(self)
        part.alone = {variable: own for variable, own in self.alone.items() if variable in inside}
        part.different = [term for term in self.different if term[0] in inside or term[1] in inside]
        part.both = [term for term in self.both if term[0] in inside or term[1] in inside]
        part.cost = len(part.alone) + 2 * (len(part.different) + len(part.both)) + 1
        part.outside = self._pairs(domains) - part._pairs(domains)
        for variable, own in self.alone.items():
            if variable not in inside:
                part.outside += next(worth for worth, mask in own if mask & domains[variable])
        return part

    def _pairs(self, domains: Sequence[int]) -> float:
        """The most that terms on two variables can earn: a loss counts where it is sure."""
        most = 0.0
        for i, j, weight in self.different:
            a, b = domains[i], domains[j]
            if (a & (a - 1) or a != b) if weight > 0 else not a & b:
                most += weight
        for i, j, first, second, weight in self.both:
            a, b = domains[i], domains[j]
            if (a & first and b & second) if weight > 0 else (a == first and b == second):
                most += weight
        return most


def _by_worth(earned: dict[int, float], size: int) -> list[tuple[float, int]]:
    """What values earn, most first, with the mask of those that earn it."""
    masks: dict[float, int] = {}
    for value in range(size):
        worth = earned.get(value, 0.0)
        masks[worth] = masks.get(worth, 0) | bit(value)
    return sorted(masks.items(), reverse=True)


class BlockSearch(TreeSearch):
    """Of one instance; `exhausted` is True once there is nothing better, or nothing valid at all."""

    def __init__(
        self,
        instance: Instance,
        starts: IntArray,
        stopped: Callable[[], bool] = lambda: False,
        enough: Callable[[IntArray], bool] = lambda values: False,
    ):
        assert instance.objective is not None
        super().__init__(instance, starts, stopped)
        self.goal, self.enough, self.random = instance.objective, enough, random.Random(0)
        self.larger = Larger(instance, self.goal)
        self.start, valid = starts[0], [start for start in starts if instance.verify(start).satisfied]
        self.best = max(valid, key=self._worth).tolist() if valid else None

    def _worth(self, values: IntArray) -> float:
        return (1.0 if self.goal.sense == "maximize" else -1.0) * self.goal.value(values)

    def run(self, most: int | None = None) -> list[int]:
        """The best that is found; what comes close if nothing valid is."""
        if self.best is None:
            self.best = self._valid(most)
            if self.best is None:
                return self.closest()
        self.most, self.next_look = None if most is None else self.work + most, 0
        self.fewest_open = 0  # what is nearest to an answer is of no more interest
        with suppress(Interrupted):
            self._improve(self.best)
        return self.best

    def _valid(self, most: int | None) -> list[int] | None:
        found = super().run(FIRST_WORK if most is None else min(FIRST_WORK, most))
        if found is None and not self.exhausted:
            mending = Mending(self.instance, self.start, self.stopped)
            found = mending.values if mending.run(MOST_MOVES) else super().run(most)
        return found

    def _improve(self, best: list[int]) -> None:
        state, size = Propagation(self.instance, self._spend), FIRST_BLOCK
        highest, in_vain, open_ = -math.inf, 0, list[int]()
        self.near = self._scopes(state)
        self.number = state.add(self.larger, self.larger.scope)
        while not self.enough(values := np.array(best)):
            worth = self._worth(values)
            if worth > highest:
                highest, in_vain = worth, 0
                self.larger.bar = worth - 2 * self.larger.rounding
                state.wake([self.number])
                state.settle()  # what the best answer has is left
                state.trail.clear()
                open_ = [variable for variable, mask in enumerate(state.domains) if mask & (mask - 1)]
            tries, in_vain = TRIES * MORE_TRIES ** (in_vain // PATIENCE), in_vain + 1
            block = self._block(open_, size)
            equal = len(block) < len(open_) and self.random.random() < EQUAL
            self.larger.bar = worth - 2 * self.larger.rounding if equal else worth
            state.wake([self.number])
            before = self.contradictions
            if not self._anew(state, best, open_, block, before + int(tries)):
                size = max(size * SHRINKAGE, SMALLEST)
            elif len(block) == len(open_):
                self.exhausted = True
                return
            else:
                size *= FAST_GROWTH if self.contradictions - before < EASY * tries else GROWTH

    def _anew(
        self, state: Propagation, best: list[int], open_: Sequence[int], block: Sequence[int], until: int
    ) -> bool:
        """Give the block better values, if there are any, while all others are as they are, before there are so many
        contradictions; returns whether it was searched in full."""
        for variable in set(open_).difference(block):
            state.keep(variable, bit(best[variable]))
        if not state.settle():
            state.take_back(0)
            return True
        self.open = [v for v in block if state.domains[v] & (state.domains[v] - 1)]
        part, earns = state.within(set(self.open)), not set(self.larger.scope).isdisjoint(self.open)
        for variable in self.open:
            self.order[variable] = self._order(variable, state.domains[variable])
        while (fits := part.settle()) and self._descend(part, until):
            best[:] = [mask.bit_length() - 1 for mask in part.domains]
            self.larger.bar = self._worth(np.array(best))
            part.take_back(0)
            part.wake(range(len(part.rules)))
            if not earns:  # as good is all that it can be
                fits = False
                break
        in_full, self.exhausted = self.exhausted or not fits, False
        part.take_back(0)
        state.take_back(0)
        return in_full

    def _order(self, variable: int, domain: int) -> list[int]:
        """Values that earn more first, of equals any."""
        masks = [bit(value) for value in range(domain.bit_length()) if domain & bit(value)]
        self.random.shuffle(masks)
        own = self.larger.alone.get(variable, [])
        return sorted(masks, key=lambda mask: next((-worth for worth, group in own if group & mask), 0.0))

    def _block(self, open_: Sequence[int], size: float) -> list[int]:
        """Variables that share constraints, or any."""
        wanted = min(int(size), len(open_))
        if self.random.random() < RANDOM:
            return self.random.sample(open_, wanted)
        can, block = set(open_), [self.random.choice(open_)] if open_ else []
        inside = set(block)
        for _ in range(4 * wanted):
            scopes = self.near[self.random.choice(block)]
            if len(block) >= wanted or not scopes:
                break
            others = list(dict.fromkeys(v for v in self.random.choice(scopes) if v in can and v not in inside))
            joining = self.random.sample(others, min(len(others), AT_A_TIME, wanted - len(block)))
            block += joining
            inside.update(joining)
        rest = [variable for variable in open_ if variable not in inside]
        return block + self.random.sample(rest, wanted - len(block))

    def _scopes(self, state: Propagation) -> list[list[Sequence[int]]]:
        """The variables of every constraint and term that a variable is in."""
        near: list[list[Sequence[int]]] = [[] for _ in range(self.instance.size)]
        for rule, scope in state.rules:
            for variable in scope:
                near[variable].append(rule.others() if isinstance(rule, Neighbours) else scope)
        for variable, others in self.larger.neighbours.items():
            near[variable].append(others)
        return near
