"""What does not change from chain to chain, as tensors: domains, constraints, objective, relations.

`Structure` is what `batch.collate` makes of instances. All its tensors lead with G groups (one group if the instances
share their structure, else one per instance). Constraint lists name variables by their number within the group.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from blogdit.core.constraints import FAR, AllDifferent, Conflict, Count, IntArray, Linear, NotEqual, Table
from blogdit.core.instance import Instance
from blogdit.method.relations import relation_list, value_features

T = TypeVar("T")
KINDS = (NotEqual, Conflict, AllDifferent, Linear, Count, Table)  # those that have a tensor form below
# A group is crowded if at least this share of all pairs of variables is related. There a GPU takes no longer for all
# pairs than for the related ones. It looks at all pairs in tiles of TILED variables.
CROWDED, TILED = 0.065, 64


@dataclass(frozen=True)
class PairTerms:
    """Pairs of variables (G, m, 2), with the values (G, m, 2) they must not (or should) take, and weights (G, m).

    Padding has weight 0. `values` is all zero where only the variables matter.
    """

    variables: Tensor
    values: Tensor
    weights: Tensor


@dataclass(frozen=True)
class ScopeTerms:
    """Scopes as lists of entries: entry e of group g is variable `variables[g, e]` of scope `owner[g, e]`.

    `data` (G, T) is a number per entry (coefficient or value; 0 in padding), `present` (G, T) marks real entries,
    `bounds` (G, S, 2) is lowest and highest allowed sum of a scope (infinite where there is none, and in padding);
    `limits` are the same as whole numbers (FAR instead of infinite), which large ones need.
    """

    variables: Tensor
    owner: Tensor
    data: Tensor
    present: Tensor
    bounds: Tensor
    limits: Tensor


@dataclass(frozen=True)
class TableTerms:
    """Allowed tuples, one row each: `variables`, `values` and `present` (G, P, arity), `owner` (G, P), real (G, S)."""

    variables: Tensor
    values: Tensor
    present: Tensor
    owner: Tensor
    real: Tensor


@dataclass(frozen=True)
class Relations:
    """Ordered pairs (source -> target) of variables that share a constraint or a term; sorted by target.

    source, target (G, E); features (G, E, F); present (G, E) is false in padding; the pairs of target i of group g are
    starts[g, i] .. starts[g, i + 1] - 1, starts (G, N + 1).
    """

    source: Tensor
    target: Tensor
    features: Tensor
    present: Tensor
    starts: Tensor


@dataclass(frozen=True)
class Structure:
    """See the module's text. Built by `build_structure`."""

    real: Tensor  # (G, N) false in padding
    domain: Tensor  # (G, N, K) values a variable may take
    positions: Tensor  # (G, N, D), D may be 0
    value_features: Tensor  # (G, N, K, relations.VALUE_FEATURES)
    relations: Relations
    crowded: Tensor  # (G,) where so many pairs are related that looking at all of them takes less time
    not_equal: PairTerms
    conflict: PairTerms
    all_different: ScopeTerms
    linear: ScopeTerms
    count: ScopeTerms
    table: TableTerms
    unary: Tensor  # (G, N, K) objective, in minimisation form
    differ: PairTerms  # likewise, earned where two values differ
    pairwise: PairTerms
    has_objective: Tensor  # (G,)
    largest_gain: Tensor  # (G,) the most that the objective changes with one variable; 1 where it never does


def pad(arrays: Sequence[npt.NDArray[Any]], length: int | None = None, fill: float = 0) -> Tensor:
    """Arrays that differ in their first dimension -> one tensor (G, length, ...)."""
    length = max((len(a) for a in arrays), default=0) if length is None else length
    out = np.full((len(arrays), length, *arrays[0].shape[1:]), fill, dtype=arrays[0].dtype)
    for row, array in zip(out, arrays, strict=True):
        row[: len(array)] = array
    return torch.from_numpy(out if out.dtype != np.float64 else out.astype(np.float32))


def _gather(instance: Instance, kind: type[T]) -> list[T]:
    return [group for group in instance.constraints if isinstance(group, kind)]


def build_structure(members: Sequence[Instance], count: int, width: int) -> Structure:
    """Of instances padded to `count` variables and `width` values; a TypeError for a constraint kind without a tensor
    form, whose energy would be 0 whatever is violated."""
    for group in (group for instance in members for group in instance.constraints):
        if not isinstance(group, KINDS):
            kind = f"{type(group).__name__} (kind {group.kind!r})"
            raise TypeError(f"constraint {kind} has no tensor form; expected one in blogdit/method/structure.py")
    sizes = [i.domain_sizes for i in members]
    dims = max((i.positions.shape[1] for i in members if i.positions is not None), default=0)
    places = [np.zeros((i.size, 0), np.int64) if i.positions is None else i.positions for i in members]
    positions = [np.pad(place, ((0, 0), (0, dims - place.shape[1]))) for place in places]
    relations = [relation_list(i) for i in members]
    tiled = [-(-i.size // TILED) * TILED for i in members]
    domain = pad([np.arange(width) < s[:, None] for s in sizes], count)
    # The softmax of padding must be defined; nobody looks at its values.
    domain |= torch.from_numpy(np.arange(count) >= np.array([len(s) for s in sizes])[:, None])[..., None]
    domain[:, :, 0] = True
    return Structure(
        real=pad([np.ones(i.size, np.bool_) for i in members], count),
        domain=domain,
        positions=pad(positions, count),
        value_features=pad([value_features(i, width) for i in members], count),
        relations=Relations(
            source=pad([source for source, _, _ in relations]),
            target=pad([target for _, target, _ in relations]),
            features=pad([features for _, _, features in relations]),
            present=pad([np.ones(len(source), np.bool_) for source, _, _ in relations]),
            starts=pad([np.searchsorted(target, np.arange(count + 1)) for _, target, _ in relations]),
        ),
        crowded=torch.tensor([len(r[0]) >= CROWDED * n**2 for r, n in zip(relations, tiled, strict=True)]),
        not_equal=_pairs([[(g.pairs, None, np.ones(len(g))) for g in _gather(i, NotEqual)] for i in members]),
        conflict=_pairs([[(g.pairs, g.values, np.ones(len(g))) for g in _gather(i, Conflict)] for i in members]),
        all_different=_all_different(members, width),
        linear=_scopes([[_linear_rows(g) for g in _gather(i, Linear)] for i in members]),
        count=_scopes([[_count_rows(g) for g in _gather(i, Count)] for i in members]),
        table=_tables([_gather(i, Table) for i in members]),
        **_objective(members, count, width),
    )


PairRows = tuple[IntArray, IntArray | None, npt.NDArray[np.float64]]


def _pairs(per_instance: Sequence[Sequence[PairRows]]) -> PairTerms:
    none, no_weight = np.zeros((0, 2), np.int64), np.zeros(0)
    pairs = [np.concatenate([none, *(p for p, _, _ in rows)]) for rows in per_instance]
    values = [np.concatenate([none, *(np.zeros_like(p) if v is None else v for p, v, _ in r)]) for r in per_instance]
    weights = [np.concatenate([no_weight, *(w for _, _, w in rows)]) for rows in per_instance]
    return PairTerms(pad(pairs), pad(values), pad(weights))


# variables, owner, data, limits (S, 2) of one group of scope constraints
ScopeRows = tuple[IntArray, IntArray, npt.NDArray[Any], IntArray]


def _linear_rows(g: Linear) -> ScopeRows:
    low = np.where(g.bounds_below, g.bounds, -FAR)
    high = np.where(g.bounds_above, g.bounds, FAR)
    return g.scopes.variables, g.scopes.owner, g.coefficients, np.stack([low, high], 1)


def _count_rows(g: Count) -> ScopeRows:
    limits = np.clip(np.stack([g.low, g.high], 1), -FAR, FAR)
    return g.scopes.variables, g.scopes.owner, g.values[g.scopes.owner], limits


def _all_different(members: Sequence[Instance], width: int) -> ScopeTerms:
    """`data` is unused; `bounds[..., 0]` is how many values the scope must use up: K if it is as long as its domain,
    so that each value has to occur, else 0."""
    per_instance = []
    for instance in members:
        rows: list[ScopeRows] = []
        for g in _gather(instance, AllDifferent):
            lengths = g.scopes.lengths
            sizes = instance.domain_sizes[g.scopes.variables]
            fits = g.scopes.total(sizes == lengths[g.scopes.owner]) == lengths
            limits = np.stack([np.where(fits, lengths, 0), np.ones(len(g), np.int64)], 1)
            rows.append((g.scopes.variables, g.scopes.owner, np.zeros(len(sizes), np.int64), limits))
        per_instance.append(rows)
    return _scopes(per_instance)


def _scopes(per_instance: Sequence[Sequence[ScopeRows]]) -> ScopeTerms:
    variables, owner, data, limits = [], [], [], []
    none, unlimited = np.zeros(0, np.int64), np.zeros((0, 2), np.int64)
    for rows in per_instance:
        starts = np.cumsum([0, *(len(limit) for _, _, _, limit in rows)])
        variables.append(np.concatenate([none, *(v for v, _, _, _ in rows)]))
        owner.append(np.concatenate([none, *(o + s for (_, o, _, _), s in zip(rows, starts, strict=False))]))
        data.append(np.concatenate([none, *(d for _, _, d, _ in rows)]))
        limits.append(np.concatenate([unlimited, *(limit for _, _, _, limit in rows)]))
    scopes = max(map(len, limits))
    padding = [np.tile(np.array([-FAR, FAR]), (scopes - len(limit), 1)) for limit in limits]
    limits = [np.concatenate(parts) for parts in zip(limits, padding, strict=True)]
    bounds = [np.where(abs(limit) < FAR, limit, np.copysign(np.inf, limit)) for limit in limits]
    present = pad([np.ones(len(v), np.bool_) for v in variables])
    return ScopeTerms(pad(variables), pad(owner), pad(data), present, pad(bounds), pad(limits))


def _tables(per_instance: Sequence[Sequence[Table]]) -> TableTerms:
    arity = max((t.scopes.shape[1] for tables in per_instance for t in tables), default=0)
    variables, values, present, owner, real = [], [], [], [], []
    for tables in per_instance:
        parts: list[list[npt.NDArray[Any]]] = [[], [], [], []]
        scopes = 0
        for t in tables:
            rows, width = len(t) * len(t.tuples), t.scopes.shape[1]
            columns = ((0, 0), (0, arity - width))
            parts[0].append(np.pad(np.repeat(t.scopes, len(t.tuples), axis=0), columns))
            parts[1].append(np.pad(np.tile(t.tuples, (len(t), 1)), columns))
            parts[2].append(np.pad(np.ones((rows, width), np.bool_), columns))
            parts[3].append(scopes + np.repeat(np.arange(len(t)), len(t.tuples)))
            scopes += len(t)
        variables.append(np.concatenate([np.zeros((0, arity), np.int64), *parts[0]]))
        values.append(np.concatenate([np.zeros((0, arity), np.int64), *parts[1]]))
        present.append(np.concatenate([np.zeros((0, arity), np.bool_), *parts[2]]))
        owner.append(np.concatenate([np.zeros(0, np.int64), *parts[3]]))
        real.append(np.ones(scopes, np.bool_))
    return TableTerms(pad(variables), pad(values), pad(present), pad(owner), pad(real))


def _objective(members: Sequence[Instance], count: int, width: int) -> dict[str, Any]:
    """Objective terms with the sign turned so that smaller is better."""
    unary, differ, pairwise = [], [], []
    for instance in members:
        costs = np.zeros((count, width))
        rows: tuple[list[PairRows], list[PairRows]] = ([], [])
        if (objective := instance.objective) is not None:
            sign = 1.0 if objective.sense == "minimize" else -1.0
            np.add.at(costs, (objective.unary[:, 0], objective.unary[:, 1]), sign * objective.unary_weights)
            rows[0].append((objective.differ, None, sign * objective.differ_weights))
            pairs, values = objective.pairwise[:, :2], objective.pairwise[:, 2:]
            rows[1].append((pairs, values, sign * objective.pairwise_weights))
        unary.append(costs)
        differ.append(rows[0])
        pairwise.append(rows[1])
    return {
        "unary": pad(unary),
        "differ": _pairs(differ),
        "pairwise": _pairs(pairwise),
        "largest_gain": torch.tensor([_largest_gain(instance) for instance in members]),
        "has_objective": torch.tensor([instance.objective is not None for instance in members]),
    }


def _largest_gain(instance: Instance) -> float:
    if (goal := instance.objective) is None:
        return 1.0
    own = np.zeros((instance.size, int(instance.domain_sizes.max(initial=1))))
    np.add.at(own, (goal.unary[:, 0], goal.unary[:, 1]), goal.unary_weights)
    gains = own.max(1, initial=0.0) - own.min(1, initial=0.0)
    for pairs, weights in ((goal.differ, goal.differ_weights), (goal.pairwise, goal.pairwise_weights)):
        for end in (0, 1):
            np.add.at(gains, pairs[:, end], np.abs(weights))
    return float(gains.max(initial=0.0)) or 1.0
