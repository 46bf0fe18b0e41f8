"""The energy of an instance whose variables have two values, as annealing uses it.

The energy of x in {0, 1}^n is quadratic. All that a search needs to know is what x_i = 1 costs more than x_i = 0:

    drive_i = h_i + sum_j J_ij x_j

Flipping x_j adds J_ij or -J_ij to it. All numbers are whole numbers, so that sums are exact in any order.
Variables of one colour share no term: the flips of some change nothing for the others.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from blogdit.core.constraints import IntArray
from blogdit.core.instance import Instance
from blogdit.finishers.pairs import Pairs
from blogdit.finishers.tasks import give_up_if

MOST = 1 << 28  # steps that all terms of a variable may add up to: twice that, as a pull may be, fits 32 bits
SMALLEST = 1e-280  # weights below are 0: nothing overflows
LEVELS, FINE = 4096, 256  # values of an exponential variable in the table, in steps of 1 / FINE
TEMPERATURES = 256  # different ones in a round, at most: a CPU makes a table for each
STILL = 4  # sweeps with T = 0 at the end of a round
BETWEEN_LOOKS = 1 << 17  # variables and neighbours coloured between two looks at the clock, about 10 ms
AT_ONCE = 1 << 24  # entries of the temporary arrays of `energy_on`: 128 MiB

Indices = npt.NDArray[np.intp]


def steps_of(sweeps: int) -> int:
    """Sweeps at one temperature."""
    return max(-(-sweeps // TEMPERATURES), 1)


class Links(NamedTuple):
    """The neighbours of each variable i, each once, with J: those from starts[i] to starts[i + 1]."""

    starts: Indices
    other: Indices
    pull: IntArray


class Landscape(NamedTuple):
    """An instance. Costs are in units, of which all of them are multiples."""

    unit: int  # in steps of the rounded weights
    drive: IntArray  # h: the drive of each variable where all others are 0; 0 for variables that cannot change
    links: Links
    field: float  # what temperatures are counted in, in steps of the rounded weights
    reach: int  # no flip costs more than this
    colours: list[Indices]  # the variables that can change, by colour

    @property
    def size(self) -> int:
        return len(self.drive)

    def energy_on(self, device: torch.device) -> Callable[[Tensor], Tensor]:
        """A function from states (C, n) on the device to their energies (C,) in units: h x + x J x / 2."""
        owner = np.repeat(np.arange(self.size), np.diff(self.links.starts))
        once = owner < self.links.other  # each pair is listed at both ends
        arrays = (owner[once], self.links.other[once], self.links.pull[once], self.drive)
        first, second, pull, drive = (torch.from_numpy(array).to(device) for array in arrays)

        def energies(states: Tensor) -> Tensor:
            found = []
            for some in torch.split(states, max(AT_ONCE // max(len(pull), 1), 1)):
                both = some[:, first].bool() & some[:, second].bool()
                found.append((some * drive).sum(1) + (both * pull).sum(1))
            return torch.cat(found)

        return energies


def landscape_of(instance: Instance, over: Callable[[], bool] = lambda: False) -> Landscape:
    """`over` is asked now and then whether to give up; then `OutOfTime` is raised."""
    pairs = Pairs(instance, over)
    give_up_if(over)
    scale, weights, alone = _rounded(pairs)
    drive, links = _drives_and_links(pairs, weights, alone, over)
    give_up_if(over)
    free = (instance.domain_sizes == 2) & ~instance.is_given
    unit = max(int(np.gcd.reduce(np.concatenate([links.pull, drive[free]]))), 1)
    drive, links = np.where(free, drive // unit, 0), links._replace(pull=links.pull // unit)
    degrees = np.diff(links.starts)
    owner = np.repeat(np.arange(len(drive)), degrees)
    # If pairs are penalties, which no state should pay, temperatures follow what variables usually earn. Else they
    # follow the standard deviation of what neighbours at random do to the median variable. (The mean would follow a few
    # large weights, or many variables without neighbours.)
    variances = np.bincount(owner, links.pull.astype(np.float64) ** 2 / 4, len(drive))[degrees > 0]
    spread = unit * math.sqrt(np.median(variances)) if len(variances) else 0.0
    field = spread if pairs.usual is None else pairs.usual * scale
    give_up_if(over)
    reach = int((np.abs(drive) + np.bincount(owner, np.abs(links.pull), len(drive))).max(initial=0))
    return Landscape(unit, drive, links, field, reach, _colours(links, free, over))


@cache
def levels() -> IntArray:
    """Values of an exponential variable in steps of 1 / FINE, all equally likely."""
    return np.rint(-FINE * np.log((np.arange(LEVELS) + 0.5) / LEVELS)).astype(np.int64)


def _rounded(pairs: Pairs) -> tuple[float, IntArray, IntArray]:
    """Steps for a weight of 1, a power of 2, so that most weights are not rounded; the weights (E,) and the costs of
    values by themselves (n, K) in steps."""
    alone = np.where(np.isfinite(pairs.unary), pairs.unary, 0.0)
    reach = np.bincount(pairs.owner, np.abs(pairs.weights), len(alone)) + 2 * np.abs(alone).max(1)
    scale = 2.0 ** math.floor(math.log2(MOST / max(reach.max(initial=0.0), SMALLEST)))
    return scale, np.rint(pairs.weights * scale).astype(np.int64), np.rint(alone * scale).astype(np.int64)


def _drives_and_links(
    pairs: Pairs, weights: IntArray, alone: IntArray, over: Callable[[], bool]
) -> tuple[IntArray, Links]:
    """h: what x_i = 1 costs more than 0, where all others are 0. J: what x_j = 1 instead of 0 adds to that."""
    (own, theirs), size = pairs.values.T, len(alone)
    drive = alone[:, -1] - alone[:, 0]
    # "The same value" costs w at 0 and nothing at 1; other terms count where the neighbour has to be at 0.
    np.add.at(drive, pairs.owner, np.where(own < 0, -weights, np.where(theirs == 0, weights * (2 * own - 1), 0)))
    # "The same value" costs w more at 1 and w less at 0; other terms have a sign for each end.
    pull = np.where(own < 0, 2 * weights, weights * (2 * own - 1) * (2 * theirs - 1))
    give_up_if(over)
    keys = pairs.owner * size + pairs.other
    order = np.argsort(keys, kind="stable")  # quick: the pairs of a variable are together already
    give_up_if(over)
    keys = keys[order]
    first = np.flatnonzero(np.diff(keys, prepend=-1))  # of several terms on one pair
    total, keys = np.add.reduceat(pull[order], first) if len(first) else pull, keys[first]
    return drive, Links(np.searchsorted(keys, size * np.arange(size + 1)), keys % max(size, 1), total)


def _colours(links: Links, free: npt.NDArray[np.bool_], over: Callable[[], bool]) -> list[Indices]:
    """Greedily, variables with most neighbours first."""
    give_up_if(over)
    starts, others = links.starts.tolist(), links.other.tolist()
    taken = [0] * len(free)  # colours of the neighbours of a variable, as bits
    classes: list[list[int]] = []
    ordered = np.argsort(-np.diff(links.starts), kind="stable")
    seen = BETWEEN_LOOKS
    for v in ordered[free[ordered]].tolist():
        seen += 1 + starts[v + 1] - starts[v]
        if seen > BETWEEN_LOOKS:
            give_up_if(over)
            seen = 0
        colour = (~taken[v] & (taken[v] + 1)).bit_length() - 1
        if colour == len(classes):
            classes.append([])
        classes[colour].append(v)
        for other in others[starts[v] : starts[v + 1]]:
            taken[other] |= 1 << colour
    return [np.array(members) for members in classes]
