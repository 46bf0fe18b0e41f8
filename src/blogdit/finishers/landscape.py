"""What annealing has to know of an instance whose variables have two values: costs of flips, and colours.

Variables of one colour share no term: the flips of some change nothing for the others.
"""

from __future__ import annotations

import math
from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from blogdit.finishers.rows import Rows
from blogdit.finishers.terms import NEVER, Couplings

LEVELS, FINE = 4096, 256  # values of an exponential variable, in steps of 1 / FINE

Int64 = npt.NDArray[np.int64]


@cache
def levels() -> Int64:
    """Values of an exponential variable, all equally likely."""
    return np.rint(-FINE * np.log((np.arange(LEVELS) + 0.5) / LEVELS)).astype(np.int64)


class Landscape(NamedTuple):
    """What flips cost in an instance, in units of the walk's energy of which all costs are multiples."""

    unit: int
    drive: Int64  # of each variable, where all others are 0
    links: Couplings
    field: float  # what temperatures are counted in, in the walk's energy
    reach: int  # no flip costs more than this
    classes: list[npt.NDArray[np.intp]]  # variables that may change, by colour


def landscapes(walk: Rows) -> list[Landscape]:
    still = walk._costs(walk.x.new_zeros((1, walk.size, walk.variables), dtype=torch.long))[0]
    drives = (still[..., 1].long() - still[..., 0]).cpu().numpy()
    return [_landscape(*one) for one in zip(walk.links, drives, walk.usual, strict=True)]


def _landscape(links: Couplings, drive: Int64, usual: float | None) -> Landscape:
    """If pairs are penalties, which no state should pay, temperatures follow what variables usually earn; else the
    standard deviation of what neighbours at random do to the median variable."""
    free = np.abs(drive) < NEVER // 2
    owner = np.repeat(np.arange(len(drive)), np.diff(links.starts))
    unit = max(int(np.gcd.reduce(np.concatenate([links.pull, drive[free]]))), 1)
    drive, links = np.where(free, drive // unit, 0), links._replace(pull=links.pull // unit)
    # The mean would follow a few large weights, or many variables without neighbours.
    variances = np.bincount(owner, links.pull.astype(np.float64) ** 2 / 4, len(drive))[np.diff(links.starts) > 0]
    spread = unit * math.sqrt(np.median(variances)) if len(variances) else 0.0
    field = spread if usual is None else usual
    reach = int((np.abs(drive) + np.bincount(owner, np.abs(links.pull), len(drive))).max(initial=0))
    return Landscape(unit, drive, links, field, reach, _colours(links, free))


def _colours(links: Couplings, free: npt.NDArray[np.bool_]) -> list[npt.NDArray[np.intp]]:
    """Greedily, variables with most neighbours first."""
    starts, others = links.starts.tolist(), links.other.tolist()
    taken = [0] * len(free)  # colours of the neighbours of a variable, as bits
    classes: list[list[int]] = []
    ordered = np.argsort(-np.diff(links.starts), kind="stable")
    for v in ordered[free[ordered]].tolist():
        colour = (~taken[v] & (taken[v] + 1)).bit_length() - 1
        if colour == len(classes):
            classes.append([])
        classes[colour].append(v)
        for other in others[starts[v] : starts[v + 1]]:
            taken[other] |= 1 << colour
    return [np.array(members) for members in classes]
