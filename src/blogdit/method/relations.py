"""What a network is told about an instance: which variables are related, and which values have a meaning."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from blogdit.core.constraints import AllDifferent, Conflict, Count, IntArray, Linear, NotEqual, Scopes, Table
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
    for length in np.unique(scopes.lengths):
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


def count_pairs(instance: Instance) -> int:
    """About how many pairs of variables are related: what the time of a step grows with."""
    goal, count = instance.objective, 0
    for group in instance.constraints:
        if isinstance(group, NotEqual | Conflict):
            count += len(group)
        elif isinstance(group, AllDifferent | Linear | Count | Table):
            lengths = group.scopes.lengths if isinstance(group.scopes, Scopes) else Scopes(group.scopes).lengths
            count += int(np.where(lengths <= LARGEST_CLIQUE, lengths * (lengths - 1) // 2, 16 * lengths).sum())
    return count + (0 if goal is None else len(goal.differ) + len(goal.pairwise))


def _both_ways(pairs: IntArray) -> IntArray:
    return np.concatenate([pairs, pairs[:, ::-1]])


def _distinct(keys: IntArray) -> IntArray:
    """np.unique, which takes several times as long."""
    keys = np.sort(keys)
    return keys[np.concatenate([[True], keys[1:] != keys[:-1]])] if len(keys) else keys


def relation_list(instance: Instance) -> tuple[IntArray, IntArray, npt.NDArray[np.float32]]:
    """Source, target and features of every ordered related pair, sorted by target, each pair once."""
    parts: list[tuple[IntArray, int, npt.NDArray[np.float64] | float]] = []
    for group in instance.constraints:
        if isinstance(group, AllDifferent):
            parts.append((_cliques(group.scopes), 0, 1.0))
        elif isinstance(group, NotEqual):
            parts.append((_both_ways(group.pairs), 0, 1.0))
        elif isinstance(group, Conflict):
            parts.append((_both_ways(group.pairs), 1, 1.0))
        elif isinstance(group, Linear | Count):
            parts.append((_cliques(group.scopes), 2, 1.0))
        elif isinstance(group, Table):
            parts.append((_cliques(Scopes(group.scopes)), 2, 1.0))
    if (objective := instance.objective) is not None:
        sign = 1.0 if objective.sense == "maximize" else -1.0
        if len(objective.differ):
            scale = np.abs(objective.differ_weights).mean() or 1.0
            parts.append((_both_ways(objective.differ), 0, np.tile(sign * objective.differ_weights / scale, 2)))
        parts.append((_both_ways(objective.pairwise[:, :2]), 3, 1.0))
    n = instance.size
    keys = [pairs[:, 1] * n + pairs[:, 0] for pairs, _, _ in parts]
    every = _distinct(np.concatenate(keys)) if keys else np.zeros(0, np.int64)
    features = np.zeros((len(every), RELATION_FEATURES), np.float32)
    for key, (_, feature, weight) in zip(keys, parts, strict=True):
        at = np.searchsorted(every, key)
        if isinstance(weight, float):
            features[at, feature] = weight
        else:
            np.add.at(features[:, feature], at, weight)
    return every % n if n else every, every // n if n else every, features


def value_features(instance: Instance, width: int) -> npt.NDArray[np.float32]:
    """(n, width, VALUE_FEATURES). All zero where values are interchangeable."""
    out = np.zeros((instance.size, width, VALUE_FEATURES), np.float32)
    if instance.objective is not None and len(instance.objective.unary):
        objective = instance.objective
        sign = 1.0 if objective.sense == "minimize" else -1.0
        scale = np.abs(objective.unary_weights).mean() or 1.0
        at = (objective.unary[:, 0], objective.unary[:, 1], np.zeros(len(objective.unary), np.int64))
        np.add.at(out, at, (sign * objective.unary_weights / scale).astype(np.float32))
    top = max(int(instance.domain_sizes.max(initial=1)) - 1, 1)
    size = np.minimum(np.arange(width), top) / top
    for group in instance.constraints:
        if isinstance(group, Conflict):
            out[group.pairs, group.values, 1] = 1.0
        elif isinstance(group, Linear):
            out[group.scopes.variables, :, 2] = size
        elif isinstance(group, Count):
            out[group.scopes.variables, group.values[group.scopes.owner], 3] = 1.0
        elif isinstance(group, Table):
            out[group.scopes.reshape(-1), :, 2] = size
    return out
