"""Constraints on two variables as pairs of values that must not come together, where these are few.

A pair costs less than any other constraint, in the energy and in a network. So a table over two variables becomes the
pairs that it does not allow, and a sum over two variables, such as a clause of two literals, the pairs that break it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import numpy as np

from blogdit.core.constraints import Conflict, Constraint, FloatArray, IntArray, Scopes, Sum, Table
from blogdit.core.domains import Domains

MOST_CELLS = 1 << 12  # pairs of values of two variables: to look at more takes longer than is won later
AT_ONCE = 1 << 22  # pairs of values of several constraints that are looked at together: memory

Weighted = tuple[Any, FloatArray]  # a group of constraints and their weights


class _Broken(NamedTuple):
    """Pairs of values that break constraints of a group, one after the other."""

    row: IntArray  # the number of the constraint
    variables: IntArray  # (p, 2)
    values: IntArray  # (p, 2)


def in_pairs(groups: Sequence[Weighted], domains: Domains, fixed: Collection[int] = ()) -> list[Weighted]:
    """The same constraints: every assignment violates as many of each weight. Groups keep their numbers, and pairs come
    last. Those with a number of `fixed` stay as they are."""
    kept, pairs = list[Weighted](), list[Weighted]()
    for number, (group, weights) in enumerate(groups):
        broken = None if number in fixed else _broken(group, domains)
        if broken is None:
            kept.append((group, weights))
            continue
        stays = np.ones(len(group), np.bool_)
        stays[broken.row] = False
        kept.append((_rows(group, stays), weights[stays]))
        pairs.append((Conflict(broken.variables, broken.values), weights[broken.row]))
    return kept + pairs


def _broken(group: Constraint, domains: Domains) -> _Broken | None:
    """Of those that have no more such pairs than literals; None if there are none."""
    if isinstance(group, Table) and group.scopes.shape[1] == 2:
        parts = _of_tables(group, domains)
    elif isinstance(group, Sum) and group.when is None:
        parts = _of_sums(group, domains)
    else:
        return None
    return _Broken(*map(np.concatenate, zip(*parts, strict=True))) if parts else None


def _of_tables(group: Table, domains: Domains) -> list[_Broken]:
    sizes, found = domains.sizes[group.scopes], list[_Broken]()
    for first, second in np.unique(sizes, axis=0).tolist():
        if first * second > MOST_CELLS:
            continue
        inside = group.tuples[(group.tuples < [first, second]).all(1)]
        forbidden = np.ones((first, second), np.bool_)
        forbidden[inside[:, 0], inside[:, 1]] = False
        values = np.argwhere(forbidden)
        if 0 < len(values) <= 2 * len(inside):
            rows = np.flatnonzero((sizes == [first, second]).all(1))
            found.append(
                _Broken(
                    np.repeat(rows, len(values)),
                    np.repeat(group.scopes[rows], len(values), axis=0),
                    np.tile(values, (len(rows), 1)),
                )
            )
    return found


def _of_sums(group: Sum, domains: Domains) -> list[_Broken]:
    """Rows with two terms, on two variables, are looked at together if their domains are of the same sizes."""
    two = np.flatnonzero(group.scopes.lengths == 2)
    entries = group.scopes.offsets[two][:, None] + [0, 1]  # (rows, 2)
    different = group.scopes.variables[entries[:, 0]] != group.scopes.variables[entries[:, 1]]
    two, entries = two[different], entries[different]
    variables, limits, found = group.scopes.variables[entries], group.limits[two], list[_Broken]()
    sizes = domains.sizes[variables]
    for first, second in np.unique(sizes, axis=0).tolist():
        if first * second > MOST_CELLS:
            continue
        alike = np.flatnonzero((sizes == [first, second]).all(1))
        for rows in np.array_split(alike, 1 + len(alike) * first * second // AT_ONCE):
            one, other = (_amounts(group, domains, entries[rows, end], size) for end, size in ((0, first), (1, second)))
            total = one[:, :, None] + other[:, None, :]  # (rows, first, second)
            low, high = limits[rows].T[..., None, None]
            breaks = (total < low) | (total > high)
            at, *values = np.nonzero(breaks & (breaks.sum((1, 2), keepdims=True) <= first + second))
            # A sum that nothing breaks becomes no pair at all, and stays.
            found.append(_Broken(two[rows[at]], variables[rows[at]], np.stack(values, 1)))
    return [part for part in found if len(part.row)]


def _amounts(group: Sum, domains: Domains, entries: IntArray, size: int) -> IntArray:
    """What each value adds, (rows, size), in the terms with these numbers."""
    value, equals = np.arange(size), group.equals[entries]
    terms = (value == equals[:, None]).astype(np.int64)
    for row in np.flatnonzero(equals < 0):
        terms[row] = domains.of(int(group.scopes.variables[entries[row]]))
    return group.weights[entries][:, None] * terms


def _rows(group: Constraint, chosen: Any) -> Constraint:
    """Some constraints of a group."""
    if isinstance(group, Table):
        return Table(group.scopes[chosen].reshape(-1, 2), group.tuples)
    assert isinstance(group, Sum)
    lengths, inside = group.scopes.lengths[chosen], chosen[group.scopes.owner]
    variables, weights, equals = (
        Scopes(array[inside], lengths=lengths) for array in (group.scopes.variables, group.weights, group.equals)
    )
    return Sum(variables, weights, equals, group.low[chosen], group.high[chosen])
