"""What does not change from chain to chain, as tensors: domains, constraints, objective, relations.

`Structure` is what `batch.collate` makes of instances. All its tensors lead with G groups (one group if the instances
share their structure, else one per instance). Constraint lists name variables by their number within the group.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import torch
from torch import Tensor

from blogdit.core.arrays import FloatArray, IntArray
from blogdit.core.derived import sources
from blogdit.core.instance import Instance
from blogdit.method.in_pairs import Weighted, in_pairs
from blogdit.method.relations import RELATION_FEATURES, related_keys, value_features
from blogdit.method.tensors import PairRows, build_derived, build_terms, normal_form, pad, pair_terms
from blogdit.method.terms import DerivedTerms, PairTerms, Terms

# A group is crowded if at least this share of all pairs of variables is related. There a GPU takes no longer for all
# pairs than for the related ones. It looks at all pairs in tiles of TILED variables.
CROWDED, TILED = 0.065, 64


@dataclass(frozen=True)
class Relations:
    """Ordered pairs (source -> target) of variables that share a constraint or a term; sorted by target.

    source, target (G, E); features (G, E, F); present (G, E) is false in padding; the pairs of target i of group g are
    starts[g, i] .. starts[g, i + 1] - 1, starts (G, N + 1). Numbers are int32: large graphs have many pairs.
    """

    source: Tensor
    target: Tensor
    features: Tensor
    present: Tensor
    starts: Tensor
    crowded: Tensor  # (G,) where so many pairs are related that looking at all of them takes less time


@dataclass(frozen=True)
class Structure(Terms):
    """See the module's text. Built by `build_structure`. The fields of `Terms` are constraints that must hold."""

    real: Tensor  # (G, N) false in padding
    domain: Tensor  # (G, N, K) values a variable may take
    numbers: Tensor  # (G, N, K) what the values mean; (G, 0, K) where value k means k
    positions: Tensor  # (G, N, D), D may be 0
    value_features: Tensor  # (G, N, K, relations.VALUE_FEATURES)
    relations: Relations | None  # for networks over pairs; None where nobody has asked for them
    derived: DerivedTerms
    soft: Terms  # constraints that may be violated, part of the objective
    unary: Tensor  # (G, N, K) objective, in minimisation form
    differ: PairTerms  # likewise, earned where two values differ
    pairwise: PairTerms
    has_objective: Tensor  # (G,)
    largest_gain: Tensor  # (G,) the most that the objective changes with one variable; 1 where it never does


def build_structure(members: Sequence[Instance], count: int, width: int, related: bool) -> Structure:
    """Of instances padded to `count` variables and `width` values; with relations if somebody wants them."""
    domains = [one.domains for one in members]
    must_hold = build_terms(domains, [normal_form(one) for one in members], width)
    sizes = [i.domain_sizes for i in members]
    dims = max((i.positions.shape[1] for i in members if i.positions is not None), default=0)
    places = [np.zeros((i.size, 0), np.int64) if i.positions is None else i.positions for i in members]
    positions = [np.pad(place, ((0, 0), (0, dims - place.shape[1]))) for place in places]
    domain = pad([np.arange(width) < s[:, None] for s in sizes], count)
    # The softmax of padding must be defined; nobody looks at its values.
    domain |= torch.from_numpy(np.arange(count) >= np.array([len(s) for s in sizes])[:, None])[..., None]
    domain[:, :, 0] = True
    return Structure(
        real=pad([np.ones(i.size, np.bool_) for i in members], count),
        domain=domain,
        positions=pad(positions, count),
        value_features=pad([value_features(i, width) for i in members], count),
        relations=_relations(members, count) if related else None,
        numbers=_numbers(members, count, width),
        derived=build_derived(members, count),
        soft=build_terms(domains, [_soft(one) for one in members], width),
        **{field.name: getattr(must_hold, field.name) for field in fields(must_hold)},
        **_objective(members, count, width),
    )


def _soft(instance: Instance) -> list[Weighted]:
    return [] if instance.objective is None else in_pairs(instance.objective.soft, instance.domains)


def _relations(members: Sequence[Instance], count: int) -> Relations:
    lists = [related_keys(one) for one in members]
    lengths = np.array([len(keys) for keys, _ in lists])
    shape = (len(members), int(lengths.max()))
    source, target = np.zeros(shape, np.int32), np.zeros(shape, np.int32)
    features, starts = np.zeros((*shape, RELATION_FEATURES), np.float32), np.zeros((len(members), count + 1), np.int32)
    for row, (one, (keys, columns)) in enumerate(zip(members, lists, strict=True)):
        target[row, : len(keys)], source[row, : len(keys)] = np.divmod(keys, max(one.size, 1))
        starts[row, 1:] = np.cumsum(np.bincount(target[row, : len(keys)], minlength=count))
        for feature, strength in columns:
            features[row, : len(keys), feature] = strength
    tiled = np.array([-(-one.size // TILED) * TILED for one in members])
    return Relations(
        source=torch.from_numpy(source),
        target=torch.from_numpy(target),
        features=torch.from_numpy(features),
        present=torch.from_numpy(np.arange(shape[1]) < lengths[:, None]),
        starts=torch.from_numpy(starts),
        crowded=torch.from_numpy(lengths >= CROWDED * tiled**2),
    )


def _objective(members: Sequence[Instance], count: int, width: int) -> dict[str, Any]:
    """Objective terms with the sign turned so that smaller is better."""
    unary, differ, pairwise = [], [], []
    for instance in members:
        costs = np.zeros((count, width))
        rows: tuple[list[PairRows], list[PairRows]] = ([], [])
        if (objective := instance.objective) is not None:
            sign, (terms, weights) = objective.sign, objective.by_value(instance.domains)
            costs += _by_cell(terms, sign * weights, costs.shape)
            rows[0].append((objective.differ, None, sign * objective.differ_weights))
            pairs, values = objective.pairwise[:, :2], objective.pairwise[:, 2:]
            rows[1].append((pairs, values, sign * objective.pairwise_weights))
        unary.append(costs)
        differ.append(rows[0])
        pairwise.append(rows[1])
    return {
        "unary": pad(unary),
        "differ": pair_terms(differ),
        "pairwise": pair_terms(pairwise),
        "largest_gain": torch.tensor([_largest_gain(instance) for instance in members]),
        "has_objective": torch.tensor([instance.objective is not None for instance in members]),
    }


def _by_cell(terms: IntArray, weights: FloatArray, shape: tuple[int, int]) -> FloatArray:
    """The weights of terms (variable, value), added up in a table."""
    found = np.bincount(terms[:, 0] * shape[1] + terms[:, 1], weights, shape[0] * shape[1])
    return found.astype(np.float64, copy=False).reshape(shape)


def _numbers(members: Sequence[Instance], count: int, width: int) -> Tensor:
    """(G, count, width), or (G, 0, width) if every value means itself."""
    if all(one.values is None for one in members):
        return torch.zeros(len(members), 0, width, dtype=torch.int64)
    numbers = np.zeros((len(members), count, width), np.int64)
    for table, one in zip(numbers, members, strict=True):
        for variable, size in enumerate(one.domain_sizes.tolist()):
            table[variable, :size] = one.domains.of(variable)
    return torch.from_numpy(numbers)


def _largest_gain(instance: Instance) -> float:
    """The most that one variable can change the objective: by itself, and through those that follow from it."""
    if (goal := instance.objective) is None:
        return 1.0
    own = np.zeros((instance.size, int(instance.domain_sizes.max(initial=1))))
    terms, weights = goal.by_value(instance.domains)
    own += _by_cell(terms, weights, own.shape)
    own = np.where(np.arange(own.shape[1]) < instance.domain_sizes[:, None], own, own[:, :1])
    gains = own.max(1) - own.min(1)
    for pairs, weights in ((goal.differ, goal.differ_weights), (goal.pairwise, goal.pairwise_weights)):
        for end in (0, 1):
            gains += np.bincount(pairs[:, end], np.abs(weights), instance.size)
    for group, weights in goal.soft:
        members = group.members
        gains += np.bincount(members.variables, weights[members.owner], instance.size)
    pairs, most = sources(instance.derived, instance.constraints, instance.domains)
    derived, source = pairs.T
    slopes = np.zeros(instance.size)  # of variables that the objective knows by their numbers alone
    np.add.at(slopes, goal.linear, goal.linear_weights)
    slopes[goal.unary[:, 0]] = 0.0
    beyond = (instance.domains.greatest - instance.domains.least)[derived] - most  # what the source cannot do
    np.add.at(gains, source, gains[derived] - np.abs(slopes[derived]) * beyond)
    gains[derived] = 0.0  # they do not change alone
    return float(gains.max(initial=0.0)) or 1.0
