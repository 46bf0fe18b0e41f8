"""Energy terms on pairs of variables as lists and tables of whole numbers: what the searches on them look up.

Where variables have two values, the energy of x in {0, 1}^n is quadratic, so all that a search needs to know is

    drive_i = cost of x_i = 1 less cost of x_i = 0 = h_i + sum_j J_ij x_j,

and flipping x_j adds J_ij or -J_ij. `pulls` and `couplings` have J.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from blogdit.core.constraints import Conflict, FloatArray, IntArray, NotEqual
from blogdit.core.instance import Instance
from blogdit.finishers.polish import Pairs

NEVER = 1 << 30  # what a value costs that a variable cannot take
MOST = 1 << 28  # units that all terms of a variable may add up to
CLOSED = 6, 10  # of ten variables in violated pairs six: for so many moves `repair` closes a value that was left
Int32 = npt.NDArray[np.int32]


class Terms(NamedTuple):
    """Energy terms of instances, each at both of its variables, one variable after the other; (E,) int32. Weight w if
    the variable has value `own` and `other` has `theirs`; own = -1: if both have the same."""

    instance: Tensor
    variable: Tensor
    other: Tensor
    own: Tensor
    theirs: Tensor
    weight: Tensor


class Tables(NamedTuple):
    """The same by instance and variable, (B, N, D). Padding, after the first `degree` (B, N), has weight 0."""

    other: Tensor
    own: Tensor
    theirs: Tensor
    weight: Tensor
    degree: Tensor


def _ends(instance: Instance) -> IntArray:
    """The variables of all terms, each as often as it has one."""
    goal = instance.objective
    ends = [] if goal is None else [goal.differ[:, :2], goal.pairwise[:, :2]]
    ends += [group.pairs for group in instance.constraints if isinstance(group, NotEqual | Conflict)]
    return np.concatenate([pair.reshape(-1) for pair in ends])


def list_size(instance: Instance) -> int:
    """Entries of the list of terms of an instance."""
    return len(_ends(instance))


def table_size(instance: Instance, variables: int) -> int:
    """Entries of the table of an instance padded to `variables`: one variable with many terms makes it large."""
    return variables * max(int(np.bincount(_ends(instance), minlength=1).max()), 1)


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


def terms_of(pairs: Sequence[Pairs], scales: Sequence[float], device: torch.device) -> Terms:
    instance = np.repeat(np.arange(len(pairs)), [len(one.owner) for one in pairs])
    variable, other, values = (
        np.concatenate(parts) for parts in zip(*((one.owner, one.other, one.values) for one in pairs), strict=True)
    )
    weight = np.concatenate([in_units(scale, one.weights) for one, scale in zip(pairs, scales, strict=True)])
    lists = (instance, variable, other, *values.T, weight)
    return Terms(*(torch.from_numpy(part.astype(np.int32)).to(device) for part in lists))


def tables_of(terms: Terms, size: int, variables: int) -> Tables:
    """For so many instances with so many variables."""
    row = terms.instance.long() * variables + terms.variable
    degree = torch.bincount(row, minlength=size * variables)
    slot = torch.arange(len(row), device=row.device) - (degree.cumsum(0) - degree)[row]
    deepest = max(int(degree.max()), 1) if len(degree) else 1

    def table(part: Tensor) -> Tensor:
        empty = part.new_zeros(size * variables * deepest)
        return empty.index_copy(0, row * deepest + slot, part).view(size, variables, deepest)

    other, own, theirs, weight = map(table, terms[2:])
    return Tables(other, own, theirs, weight, degree.int().view(size, variables))


def costs_alone(pairs: Sequence[Pairs], scales: Sequence[float], variables: int, width: int) -> Tensor:
    """What each value costs by itself, (B, N, width). Padding stays at value 0."""
    costs = np.full((len(pairs), variables, width), NEVER, np.int32)
    costs[:, :, 0] = 0
    for place, (one, scale) in enumerate(zip(pairs, scales, strict=True)):
        size, own = one.unary.shape
        costs[place, :size] = NEVER
        costs[place, :size, :own] = in_units(scale, one.unary)
    return torch.from_numpy(costs)


def pulls(terms: Terms | Tables) -> Tensor:
    """What x_j = 1 instead of 0 adds to the drive of variable i, for all terms: "both the same" costs w more at 1 and w
    less at 0; others have a sign for each end."""
    return torch.where(terms.own < 0, 2 * terms.weight, terms.weight * (2 * terms.own - 1) * (2 * terms.theirs - 1))


class Couplings(NamedTuple):
    """The neighbours of each variable i, each once, with J: those from starts[i] to starts[i + 1]."""

    starts: npt.NDArray[np.intp]
    other: npt.NDArray[np.intp]
    pull: Int32


def couplings(terms: Terms, size: int, variables: int) -> list[Couplings]:
    """Of each of so many instances with so many variables."""
    instance, owner, other, pull = (
        t.cpu().numpy() for t in (terms.instance, terms.variable.long(), terms.other, pulls(terms))
    )
    ends = np.searchsorted(instance, np.arange(size + 1))
    found = []
    for first, last in itertools.pairwise(ends):
        keys, index = np.unique(owner[first:last] * variables + other[first:last], return_inverse=True)
        total = np.zeros(len(keys), np.int32)
        np.add.at(total, index, pull[first:last])
        starts = np.searchsorted(keys, variables * np.arange(variables + 1))
        found.append(Couplings(starts, (keys % variables).astype(np.intp), total))
    return found
