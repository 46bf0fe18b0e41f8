"""What a network is told about an instance: which variables are related, and which values have a meaning."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from blogdit.core.arrays import distinct
from blogdit.core.constraints import (
    AllDifferent,
    Conflict,
    Constraint,
    Function,
    IntArray,
    NotEqual,
    Scopes,
    Sum,
    Table,
)
from blogdit.core.instance import Instance

# Of a related pair: wants different values (strength; negative: equal), excludes value pairs, shares a linear, count
# or table constraint, earns a pairwise objective term.
RELATION_FEATURES = 4
# Of a value of a variable: its cost in the objective, whether a conflict forbids pairs with it, its size where a
# linear constraint adds values up, whether a count constraint counts it.
VALUE_FEATURES = 4

LARGEST_CLIQUE = 256  # longer scopes relate each variable to its 16 successors only, which keeps the list linear


def _cliques(scopes: Scopes) -> IntArray:
    """All ordered pairs of different variables within a scope, (E, 2)."""
    parts = [np.zeros((0, 2), np.int64)]
    for length in distinct(scopes.lengths):
        chosen = np.flatnonzero(scopes.lengths == length)
        members = scopes.variables[scopes.offsets[chosen][:, None] + np.arange(length)]  # (s, length)
        if length <= LARGEST_CLIQUE:
            first, second = np.nonzero(~np.eye(length, dtype=np.bool_))
        else:
            near = np.arange(1, 17)
            start = np.repeat(np.arange(length), len(near))
            end = (start + np.tile(near, length)) % length
            first, second = np.concatenate([start, end]), np.concatenate([end, start])
        parts.append(np.stack([members[:, first], members[:, second]], -1).reshape(-1, 2))
    return np.concatenate(parts)


_pairs_of_groups: WeakKeyDictionary[Constraint, int] = WeakKeyDictionary()  # instances share groups, as Sudokus do


def count_pairs(instance: Instance) -> int:
    """About how many pairs of variables are related: what the time of a step grows with."""
    goal = instance.objective
    count = 0 if goal is None else len(goal.differ) + len(goal.pairwise)
    for group in instance.groups:
        if group not in _pairs_of_groups:
            _pairs_of_groups[group] = _pairs_of(group)
        count += _pairs_of_groups[group]
    return count


def _pairs_of(group: Constraint) -> int:
    if isinstance(group, NotEqual | Conflict):
        return len(group)
    lengths = group.members.lengths
    return int(np.where(lengths <= LARGEST_CLIQUE, lengths * (lengths - 1) // 2, 16 * lengths).sum())


# Ordered pairs, their feature, and its strength. Pairs that come one way stand for both.
Part = tuple[IntArray, bool, int, npt.NDArray[np.float64] | float]


def relation_list(instance: Instance) -> tuple[IntArray, IntArray, npt.NDArray[np.float32]]:
    """Source, target and features of every ordered related pair, sorted by target, each pair once."""
    keys, columns = related_keys(instance)
    features = np.zeros((len(keys), RELATION_FEATURES), np.float32)
    for feature, strength in columns:
        features[:, feature] = strength
    target, source = np.divmod(keys, max(instance.size, 1))
    return source.astype(np.int64), target.astype(np.int64), features


def related_keys(instance: Instance) -> tuple[npt.NDArray[Any], list[tuple[int, npt.NDArray[np.float32] | float]]]:
    """target * n + source of every ordered related pair, ascending, each once; and each feature that pairs have, with
    a strength for each pair or one for all."""
    parts = [part for part in _parts(instance) if len(part[0])]
    # Small keys are sorted in a fraction of the time.
    n = instance.size
    kind: Any = np.int32 if n * n <= np.iinfo(np.int32).max else np.int64
    keys = [_keys(pairs.astype(kind), kind(n), one_way) for pairs, one_way, _, _ in parts]
    if not keys:
        return np.zeros(0, np.int64), []
    every = np.sort(np.concatenate(keys) if len(keys) > 1 else keys[0])
    is_first = every[1:] != every[:-1]
    if not is_first.all():
        every = every[np.concatenate([[True], is_first])]
    found: dict[int, npt.NDArray[np.float32] | float] = {}
    for key, (_, one_way, feature, weight) in zip(keys, parts, strict=True):
        if isinstance(weight, float) and len(parts) == 1:
            found[feature] = weight
            continue
        column = found.setdefault(feature, np.zeros(len(every), np.float32))
        assert isinstance(column, np.ndarray)
        if isinstance(weight, float):
            column[np.searchsorted(every, key)] = weight
        elif len(parts) == 1 and len(every) == len(key) and (weight == weight[0]).all():
            column[:] = weight[0]
        else:
            column += np.bincount(np.searchsorted(every, key), np.tile(weight, 1 + one_way), len(every))
    return every, list(found.items())


def _keys(pairs: npt.NDArray[Any], n: Any, one_way: bool) -> npt.NDArray[Any]:
    first, second = pairs[:, 0], pairs[:, 1]
    return np.concatenate([second * n + first, first * n + second]) if one_way else second * n + first


def _parts(instance: Instance) -> Iterator[Part]:
    for group in instance.groups:
        if isinstance(group, NotEqual | Conflict):
            yield group.pairs, True, int(isinstance(group, Conflict)), 1.0
        else:
            yield _cliques(group.members), False, 0 if wants_different_values(group, instance) else 2, 1.0
    if (objective := instance.objective) is not None:
        sign = 1.0 if objective.sense == "maximize" else -1.0
        if len(objective.differ):
            scale = np.abs(objective.differ_weights).mean() or 1.0
            yield objective.differ, True, 0, sign * objective.differ_weights / scale
        yield objective.pairwise[:, :2], True, 3, 1.0


def wants_different_values(group: Constraint, instance: Instance) -> bool:
    """Whether it forbids the same value, and nothing else: all different, and equal values mean the same."""
    if not isinstance(group, AllDifferent) or group.offsets is not None:
        return False
    return instance.values is None or all(instance.domains.aligned(group.scope(index)) for index in range(len(group)))


def value_features(instance: Instance, width: int) -> npt.NDArray[np.float32]:
    """(n, width, VALUE_FEATURES). All zero where values are interchangeable."""
    out = np.zeros((instance.size, width, VALUE_FEATURES), np.float32)
    if (objective := instance.objective) is not None:
        terms, weights = objective.by_value(instance.domains)
        scale = np.abs(weights).mean() if len(terms) else 0.0
        shares = (objective.sign * weights / (scale or 1.0)).astype(np.float32)
        cells = np.bincount(terms[:, 0] * width + terms[:, 1], shares, instance.size * width)
        out[..., 0] = cells.reshape(out.shape[:2])
    for group in instance.groups:
        if isinstance(group, Conflict):
            out[group.pairs, group.values, 1] = 1.0
        elif isinstance(group, Sum):
            is_number = group.equals < 0
            out[group.scopes.variables[~is_number], group.equals[~is_number], 3] = 1.0
            _add_sizes(out, group.scopes.variables[is_number], instance)
        elif isinstance(group, Function):
            _add_sizes(out, np.concatenate([group.scopes.variables[~group.is_index], group.results]), instance)
        elif isinstance(group, Table):
            _add_sizes(out, group.scopes.reshape(-1), instance)
    return out


def _add_sizes(out: npt.NDArray[np.float32], variables: IntArray, instance: Instance) -> None:
    """Values that mean numbers: from 0 for the smallest number of the instance to 1 for its largest."""
    domains, width = instance.domains, out.shape[1]
    if instance.values is None:
        most = int(domains.greatest.max(initial=1))
        out[variables, :, 2] = np.minimum(np.arange(width), most) / max(most, 1)
        return
    variables = np.unique(variables[domains.are_numbers[variables]])
    least = int(domains.least[domains.are_numbers].min(initial=0))
    most = int(domains.greatest[domains.are_numbers].max(initial=1))
    for variable in variables.tolist():
        numbers = domains.of(variable)
        out[variable, : len(numbers), 2] = (numbers - least) / max(most - least, 1)
