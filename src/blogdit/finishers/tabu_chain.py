"""One chain of tabu search on a CPU. `tabu_kernel` makes the same moves on a GPU."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from blogdit.core.constraints import IntArray
from blogdit.core.instance import Instance
from blogdit.finishers.pairs import Pairs
from blogdit.method.noise import mix, wrap

FORBIDDEN = 1 << 18  # violated pairs that a value is said to leave if the variable cannot take it
TIE_BITS = 12  # random bits below the cost of a move that order equals; FORBIDDEN with these bits still fits 31
CLOSED = 6, 10  # a value is closed for 6 moves per 10 variables in violated pairs, as in TabuCol (Galinier, Hao 1999)
JITTER = 10  # and for 0 to 9 moves more


def counted_pairs(instance: Instance, over: Callable[[], bool] = lambda: False) -> Pairs:
    """The pairs of an instance in whole numbers: a violated one costs 1."""
    pairs = Pairs(instance, over)
    pairs.weights = np.ones(len(pairs.weights), np.int32)
    pairs.unary = np.where(np.isinf(pairs.unary), FORBIDDEN, 0).astype(np.int32)
    return pairs


def chain_key(number: int, key: int) -> int:
    """The key of a chain's random numbers, from its number and the key of the search."""
    return wrap(number * 0x3C6EF372 + key)


class Chain:
    """A state of one instance, and what each change of a variable would do."""

    def __init__(self, pairs: Pairs, start: IntArray, key: int):
        self.pairs, self.key, self.taken = pairs, key, 0
        self.x = np.array(start, np.int64)
        self.costs = pairs.costs(self.x)  # (n, K): pairs that each value of each variable would violate
        self.own = self.costs[np.arange(len(self.x)), self.x]  # pairs that each variable violates, (n,)
        self.violated = int(self.own.sum()) // 2  # pairs; each is counted at both ends
        self.open_from = np.zeros_like(self.costs)  # the move from which on a variable may have a value again
        self.best, self.best_x, self.best_at = self.violated, self.x.copy(), 0
        variable, value = (torch.arange(size, dtype=torch.int32) for size in self.costs.shape)
        self.order = (variable[:, None] * 0x5BD1E995 + value * 0x27D4EB2F).numpy()  # mixed with a key: orders equals

    def take(self, moves: int) -> None:
        """So many moves, fewer if nothing is violated any more."""
        numbers = torch.arange(self.taken + 1, self.taken + moves + 1).mul_(wrap(0x9E3779B1)).int()
        for key in mix(numbers + self.key).numpy():
            self.taken += 1
            if self.violated == 0:
                continue
            self._move(key)

    def done(self) -> bool:
        return self.best == 0

    def answers(self) -> list[IntArray]:
        return [self.best_x]

    def _move(self, key: np.int32) -> None:
        involved = np.flatnonzero(self.own > 0)
        change = self.costs[involved] - self.own[involved, None]  # (involved, K)
        score = (((self.order[involved] ^ key) * np.int32(0x7FEB352D)) >> 16) & 0xFFFF
        score = (score >> (16 - TIE_BITS)) + (change << TIE_BITS)
        closed = (self.open_from[involved] > self.taken) & (change >= self.best - self.violated)
        score[closed] = FORBIDDEN << TIE_BITS
        score[np.arange(len(involved)), self.x[involved]] = FORBIDDEN << TIE_BITS
        pick = int(score.argmin())
        if score.flat[pick] >= FORBIDDEN << (TIE_BITS - 1):
            return
        variable, new = int(involved[pick // change.shape[1]]), pick % change.shape[1]
        old, self.x[variable] = int(self.x[variable]), new
        jitter = (int(key) >> 16 & 0xFFFF) % JITTER
        self.open_from[variable, old] = self.taken + 1 + CLOSED[0] * len(involved) // CLOSED[1] + jitter
        touched = np.append(self.pairs.update_costs(self.costs, variable, old, new), variable)
        self.own[touched] = self.costs[touched, self.x[touched]]
        self.violated += int(change.flat[pick])
        if self.violated < self.best:
            self.best, self.best_at = self.violated, self.taken
            self.best_x[:] = self.x
