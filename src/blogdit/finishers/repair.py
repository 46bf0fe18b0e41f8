"""The search after the last step where there is nothing to optimise: tabu search on violated pairs (colouring, ...).

A move gives a variable of a violated pair the value that leaves fewest violated, and the value that it had is closed to
it for a while: the longer, the more variables are in violated pairs. Chains move on their own until the time is over or
nothing is violated.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from blogdit.core.instance import Instance
from blogdit.finishers.polish import pairs_only
from blogdit.finishers.terms import CLOSED, NEVER, list_size
from blogdit.finishers.walk import GLANCE, LARGEST, Walk, fits_tables, room
from blogdit.method.noise import mix, wrap
from blogdit.network.runtime import runs_kernels

ROUND = {"cpu": 64, "cuda": 1024}  # moves for each variable, unless they may take all the time; but at most
MOST_MOVES = {"cpu": 20_000, "cuda": 1 << 30}  # so many, and
MOST_WORK = {"cpu": 1 << 28, "cuda": 1 << 31}  # so many times (variable, value) pairs: seconds
# Of a CPU, between looks at the clock: some hundredths of a second, if a move takes as long as with so many pairs more.
STRETCH, OVERHEAD = 5_000_000, 5_000

Ints = npt.NDArray[np.intp]
Int32 = npt.NDArray[np.int32]


class Links(NamedTuple):
    """The neighbours of a variable, and what it charges them. A cell is variable * width + value."""

    everyone: Ints
    first: Ints  # their first cells
    alike: Ints  # terms "both have the same value": first cells of the neighbours, each once,
    weights: Int32
    own: Ints  # terms on values: the variable's own, the neighbour's cell
    cell: Ints
    amounts: Int32


def can_repair(instance: Instance) -> bool:
    """True if there is no objective, and constraints on two variables are all there is."""
    if instance.objective is not None or not instance.constraints or not pairs_only(instance):
        return False
    return list_size(instance) <= LARGEST


def repair(
    instances: Sequence[Instance],
    values: Tensor,
    width: int,
    deadline: float = math.inf,
    stopped: Callable[[], bool] = lambda: False,
    all_the_time: bool = False,
) -> Tensor:
    """The state of each instance with fewest violated pairs that one of its chains comes across, (B, N); `values`
    (chains, B, N) are the starts. A number of moves or, with `all_the_time`, until the deadline."""
    began, variables, done = time.monotonic(), max(values.shape[2], 1), 0
    found = torch.empty_like(values[0])
    for where, places in _parts(instances, values):
        kind = where.type
        moves = min(ROUND[kind] * variables, MOST_MOVES[kind], MOST_WORK[kind] // (variables * width))
        starts = values[:, places] if where == values.device else values[:1, places].to(where)  # the best comes first
        walks = Repair([instances[place] for place in places], starts, width)
        done += len(places)
        end = began + (deadline - began) * done / len(instances)
        walks.run(1 << 30 if all_the_time else moves, end, partial(_may_end, walks, stopped))
        found[places] = walks.lowest().to(found)
    return found


def _parts(instances: Sequence[Instance], values: Tensor) -> Iterator[tuple[torch.device, list[int]]]:
    """Where instances are repaired, and their places, as many as there is room for: on a GPU, unless its table is too
    large."""
    variables, kernels = max(values.shape[2], 1), runs_kernels(values.device)
    by_kernel = [kernels and fits_tables(one, variables) for one in instances]
    for here in dict.fromkeys(by_kernel):
        alike = [place for place, same in enumerate(by_kernel) if same == here]
        some = room([instances[place] for place in alike], variables, here)
        for at in range(0, len(alike), some):
            yield values.device if here else torch.device("cpu"), alike[at : at + some]


def _may_end(walks: Repair, stopped: Callable[[], bool]) -> bool:
    return stopped() or walks.solved()


class Repair(Walk):
    """Chains that move variables of violated pairs only."""

    def start(self, values: Tensor) -> None:
        super().start(values)
        self.rest = torch.zeros_like(self.costs)  # the move at which a variable may have a value again
        self.links_of: dict[tuple[int, int], Links] = {}

    @cached_property
    def first(self) -> list[int]:
        """Where the terms of each variable begin, of one instance after the other, and where the last ones end."""
        rows = self.terms.instance.long() * self.variables + self.terms.variable
        return torch.searchsorted(rows, torch.arange(self.size * self.variables + 1)).tolist()

    def solved(self) -> bool:
        """Whether every instance has a chain that has been where nothing is violated."""
        return not self.best.view(self.chains, self.size).amin(0).any()

    def lowest(self) -> Tensor:
        """(B, N); of equals the state that was found first, so that it does not matter how long others went on."""
        best, when = (t.view(self.chains, self.size) for t in (self.best, self.when))
        winner = torch.where(best == best.amin(0), when, torch.iinfo(when.dtype).max).argmin(0)
        states = self.best_x.view(self.chains, self.size, self.variables)
        return states[winner, torch.arange(self.size, device=winner.device)].long()

    def _stretch(self) -> int:
        if runs_kernels(self.x.device):
            return super()._stretch()
        work = len(self.x) * (self.variables * self.width + OVERHEAD)
        return int(np.clip(STRETCH // max(work, 1), 1, GLANCE))

    def _kernel(self) -> Callable[[int], None]:
        if runs_kernels(self.x.device):
            from blogdit.finishers.walk_kernel import take_moves

            return partial(take_moves, self, repairs=True)
        return self._take_moves

    def _take_moves(self, moves: int) -> None:
        """On a CPU: of one row after the other, in numpy."""
        numbers = torch.arange(self.taken + 1, self.taken + moves + 1).mul_(wrap(0x9E3779B1)).int()
        keys = mix(numbers[:, None] + self.salt).numpy()  # (moves, rows)
        for row in range(len(self.x)):
            self._move_row(row, keys[:, row])
        self.taken += moves

    def _move_row(self, row: int, keys: Int32) -> None:
        place, width, nudge = row % self.size, self.width, int(self.nudge[row])
        x, best_x = self.x[row].numpy(), self.best_x[row].numpy()
        costs = self.costs[row].view(-1, width).numpy()
        rest, order = self.rest[row].view(-1, width).numpy(), self.order.view(-1, width).numpy()
        flat, energy, best = costs.reshape(-1), int(self.energy[row]), int(self.best[row])
        when = int(self.when[row])
        everyone = np.arange(len(x))
        own = costs[everyone, x]
        jitter = ((keys >> 16 & 0xFFFF) % 10).tolist()
        for number, key in enumerate(keys):
            taken = self.taken + 1 + number
            violated = np.flatnonzero(own > 0)
            if not len(violated):
                break
            change = costs[violated] - own[violated, None]  # (variables in violated pairs, width)
            score = order[violated] ^ key
            score *= 0x7FEB352D
            score >>= 16
            score &= 0xFFFF
            score *= nudge
            score >>= 16
            score += change
            score[(rest[violated] > taken) & (change >= best - energy)] = NEVER
            score[everyone[: len(violated)], x[violated]] = NEVER
            pick = int(score.argmin())
            if score.flat[pick] >= NEVER // 2:
                continue
            variable, new = int(violated[pick // width]), pick % width
            old = int(x[variable])
            energy += int(change.flat[pick])
            x[variable] = new
            rest[variable, old] = taken + 1 + CLOSED[0] * len(violated) // CLOSED[1] + jitter[number]
            links = self._links(place, variable)
            self._charge(flat, links, old, new)
            own[links.everyone] = flat[links.first + x[links.everyone]]
            own[variable] = costs[variable, new]
            if energy < best:
                best, when = energy, taken
                best_x[:] = x
        self.energy[row], self.best[row], self.when[row] = energy, best, when

    def _links(self, place: int, variable: int) -> Links:
        """Of a variable of an instance."""
        if (place, variable) not in self.links_of:
            row = place * self.variables + variable
            mine = slice(*self.first[row : row + 2])
            other, own, theirs, weight = (part[mine].numpy() for part in self.terms[2:])
            same = own < 0
            alike, index = np.unique(other[same].astype(np.intp), return_inverse=True)
            weights = np.zeros(len(alike), np.int32)
            np.add.at(weights, index, weight[same])
            everyone = np.unique(other).astype(np.intp)
            self.links_of[place, variable] = Links(
                everyone=everyone,
                first=everyone * self.width,
                alike=alike * self.width,
                weights=weights,
                own=own[~same].astype(np.intp),
                cell=(other * self.width + theirs)[~same].astype(np.intp),
                amounts=weight[~same],
            )
        return self.links_of[place, variable]

    def _charge(self, costs: Int32, links: Links, old: int, new: int) -> None:
        """Bring the costs of neighbours up to date."""
        costs[links.alike + old] -= links.weights
        costs[links.alike + new] += links.weights
        if len(links.own):
            for value, sign in ((old, -1), (new, 1)):
                hit = links.own == value
                np.add.at(costs, links.cell[hit], sign * links.amounts[hit])
