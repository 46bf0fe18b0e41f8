"""Energy terms on pairs of variables as tables of whole numbers: what the searches on them look up.

Where variables have two values, the energy of x in {0, 1}^n is quadratic, so all that a search needs to know is

    drive_i = cost of x_i = 1 less cost of x_i = 0 = h_i + sum_j J_ij x_j,

and flipping x_j adds J_ij or -J_ij. `pulls` and `couplings` have J.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from blogdit.constraints import Conflict, FloatArray, NotEqual
from blogdit.csp import Instance
from blogdit.search.polish import Pairs

NEVER = 1 << 30  # what a value costs that a variable cannot take
MOST = 1 << 28  # units that all terms of a variable may add up to
CLOSED = 6, 10  # of ten variables in violated pairs six: for so many moves `repair` closes a value that was left
Int32 = npt.NDArray[np.int32]


class Terms(NamedTuple):
    """Energy terms by instance and variable, (B, N, D) int32: weight w if the variable has value `own` and `other` has
    `theirs`; own = -1: if both have the same. Padding, after the first `degree` (B, N), has weight 0."""

    other: Tensor
    own: Tensor
    theirs: Tensor
    weight: Tensor
    degree: Tensor


def table_size(instance: Instance, variables: int) -> int:
    """Entries of the table of neighbours of an instance padded to `variables`."""
    goal = instance.objective
    ends = [] if goal is None else [goal.differ[:, :2], goal.pairwise[:, :2]]
    ends += [group.pairs for group in instance.constraints if isinstance(group, NotEqual | Conflict)]
    degree = np.bincount(np.concatenate([pair.reshape(-1) for pair in ends]), minlength=1).max()
    return variables * max(int(degree), 1)


def _sizes(pairs: Pairs) -> FloatArray:
    """Of all terms that cost or earn something."""
    sizes = np.abs(np.concatenate([pairs.weights, pairs.unary[np.isfinite(pairs.unary)]]))
    return sizes[sizes > 0]


def scale_of(pairs: Pairs) -> float:
    """Units of energy. Energies are whole numbers of them, so that sums are exact in any order; no weight is rounded if
    all are multiples of the smallest and there is room."""
    sizes = _sizes(pairs)
    if not len(sizes):
        return 1.0
    reach = np.bincount(pairs.owner, np.abs(pairs.weights), len(pairs.unary)).astype(np.float64)
    reach += np.abs(np.where(np.isfinite(pairs.unary), pairs.unary, 0.0)).max(1)
    most = max(reach.max(), 1e-280)
    smallest, largest = max(sizes.min() / most, 1e-280), sizes.max() / most  # shares of what a variable can have
    multiples = 64 * (sizes / most) / smallest  # a penalty is 65/64 of a gain
    exact = min(MOST * smallest, 1 << 16) // 64 * 64
    if exact and np.all(np.abs(multiples - np.rint(multiples)) <= 1e-9 * multiples):
        return float(exact / smallest / most)
    # Few bits are faster on a GPU, but the smallest weight should not be lost.
    return float(min(MOST, max((1 << 14) / largest, (1 << 10) / smallest)) / most)


def in_units(scale: float, amounts: FloatArray) -> npt.NDArray[np.int32]:
    """Energies in units, at most NEVER."""
    return np.rint(np.minimum(amounts * scale, NEVER)).astype(np.int32)


def nudge_of(pairs: Pairs, scale: float) -> int:
    """Less than the smallest weight, and less than what a penalty is above a gain."""
    least = min(_sizes(pairs).min(initial=math.inf), pairs.most / 64) * scale
    return int(np.clip(least / 2, 1, (1 << 15) - 1))


def terms_of(pairs: Sequence[Pairs], scales: Sequence[float], variables: int, device: torch.device) -> Terms:
    deepest = max(int(np.diff(one.starts).max(initial=0)) for one in pairs)
    other, own, theirs, weight = np.zeros((4, len(pairs), variables, max(deepest, 1)), np.int32)
    count = np.zeros((len(pairs), variables), np.int32)
    for place, (one, scale) in enumerate(zip(pairs, scales, strict=True)):
        slot = np.arange(len(one.owner)) - one.starts[one.owner]
        other[place, one.owner, slot], weight[place, one.owner, slot] = one.other, in_units(scale, one.weights)
        own[place, one.owner, slot], theirs[place, one.owner, slot] = one.values.T
        count[place, : len(one.starts) - 1] = np.diff(one.starts)
    return Terms(*(torch.from_numpy(table).to(device) for table in (other, own, theirs, weight, count)))


def costs_alone(pairs: Sequence[Pairs], scales: Sequence[float], variables: int, width: int) -> Tensor:
    """What each value costs by itself, (B, N, width). Padding stays at value 0."""
    costs = np.full((len(pairs), variables, width), NEVER, np.int32)
    costs[:, :, 0] = 0
    for place, (one, scale) in enumerate(zip(pairs, scales, strict=True)):
        size, own = one.unary.shape
        costs[place, :size] = NEVER
        costs[place, :size, :own] = in_units(scale, one.unary)
    return torch.from_numpy(costs)


def pulls(terms: Terms) -> Tensor:
    """What x_j = 1 instead of 0 adds to the drive of variable i, for all of its neighbours (B, N, D): "both the same"
    costs w more at 1 and w less at 0; other terms have a sign for each end."""
    return torch.where(terms.own < 0, 2 * terms.weight, terms.weight * (2 * terms.own - 1) * (2 * terms.theirs - 1))


class Couplings(NamedTuple):
    """The neighbours of each variable i, each once, with J: those from starts[i] to starts[i + 1]."""

    starts: npt.NDArray[np.intp]
    other: npt.NDArray[np.intp]
    pull: Int32


def couplings(terms: Terms) -> list[Couplings]:
    """Of each instance."""
    pull, others, degrees = (t.cpu().numpy() for t in (pulls(terms), terms.other, terms.degree))
    size, variables, deepest = others.shape
    found = []
    for place in range(size):
        listed = np.arange(deepest) < degrees[place][:, None]
        owner = np.repeat(np.arange(variables), degrees[place])
        keys, index = np.unique(owner * variables + others[place][listed], return_inverse=True)
        total = np.zeros(len(keys), np.int32)
        np.add.at(total, index, pull[place][listed])
        starts = np.searchsorted(keys, variables * np.arange(variables + 1))
        found.append(Couplings(starts, (keys % variables).astype(np.intp), total))
    return found
