"""Instances of different sizes as tensors.

A batch runs `chains` chains on each of B instances. Variables are padded to N and domains to K, and masked, so the
numbers of an instance do not depend on its neighbours. The state of all chains is one tensor (R, M, ...) of R rows
and M variables, in one of two layouts with R * M = chains * B * N:

- shared: all instances have the same structure (Sudoku). R = chains * B rows over G = 1 group of M = N variables.
- union: each instance has its own (graphs). R = chains rows over G = B groups, side by side: M = B * N variables.

Either way a (chains, B, N, ...) tensor is the same memory: `x.view(chains, B, N, ...)`. Structure tensors lead
with G; constraint lists name variables by their place within a group, and `flat` turns that into 0 .. M - 1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from blogdit.core.constraints import FAR, AllDifferent, Conflict, Count, IntArray, Linear, NotEqual, Table
from blogdit.core.instance import Instance
from blogdit.method.relations import relation_list, value_features

T = TypeVar("T")
# Where such a share of all pairs of variables is related, a GPU takes as long for lists of them as for all pairs, which
# it looks at in tiles of so many variables.
CROWDED, TILED = 0.065, 64


def _map_tensors(record: T, change: Callable[[Tensor], Tensor]) -> T:
    """The same dataclass with `change` applied to every tensor in it, at any depth."""
    changed: dict[str, Any] = {}
    for item in fields(record):  # type: ignore[arg-type]
        value = getattr(record, item.name)
        if isinstance(value, Tensor):
            changed[item.name] = change(value)
        elif value is not None and hasattr(value, "__dataclass_fields__"):
            changed[item.name] = _map_tensors(value, change)
    return replace(record, **changed)  # type: ignore[type-var]


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
    """What does not change from chain to chain: domains, constraints, objective, relations; all lead with G."""

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


@dataclass(frozen=True)
class Batch:
    """See the module's text. Built by `collate`."""

    structure: Structure
    is_given: Tensor  # (B, N)
    given_values: Tensor  # (B, N)
    shared: bool
    chains: int = 1
    optimisation: bool = False  # some instance has an objective
    full: bool = False  # every variable may take all K values

    @property
    def size(self) -> int:
        """B, the number of instances."""
        return self.is_given.shape[0]

    @property
    def groups(self) -> int:
        return 1 if self.shared else self.size

    @property
    def rows(self) -> int:
        return self.chains * self.size // self.groups

    @property
    def variables(self) -> int:
        """N, variables per instance with padding."""
        return self.is_given.shape[1]

    @property
    def values(self) -> int:
        """K, values per variable with padding."""
        return self.structure.domain.shape[2]

    @property
    def device(self) -> torch.device:
        return self.is_given.device

    def lay(self, x: Tensor) -> Tensor:
        """(chains, B, N, ...) -> (R, M, ...)."""
        return x.reshape(self.rows, self.groups * self.variables, *x.shape[3:])

    def per_instance(self, x: Tensor) -> Tensor:
        """(R, M, ...) -> (chains, B, N, ...)."""
        return x.reshape(self.chains, self.size, self.variables, *x.shape[2:])

    def flat(self, local: Tensor) -> Tensor:
        """Variables named within their group (G, ...) -> one list of places in 0 .. M - 1."""
        offsets = torch.arange(self.groups, device=local.device) * self.variables
        return (local + offsets.view(-1, *[1] * (local.dim() - 1))).reshape(-1)

    @property
    def real(self) -> Tensor:
        """(R, M): false in padding."""
        return self.structure.real.reshape(1, -1).expand(self.rows, -1)

    @property
    def domain(self) -> Tensor:
        """(M, K): values that a variable may take."""
        return self.structure.domain.reshape(-1, self.values)

    @property
    def given(self) -> Tensor:
        """(R, M): variables clamped to their given value."""
        return self.lay(self.is_given.expand(self.chains, -1, -1))

    @property
    def given_value(self) -> Tensor:
        """(R, M): the given value, 0 elsewhere."""
        return self.lay(self.given_values.expand(self.chains, -1, -1))

    @property
    def free(self) -> Tensor:
        """(R, M): variables that a block may hold."""
        return self.real & ~self.given

    def allowed(self, logits: Tensor) -> Tensor:
        """Logits (R, M, K) with minus infinity at values outside the domains."""
        return logits if self.full else logits.masked_fill(~self.domain, float("-inf"))

    def to(self, device: torch.device | str) -> Batch:
        return _map_tensors(self, lambda tensor: tensor.to(device, non_blocking=True))

    def take(self, index: Tensor) -> Batch:
        """The instances at `index`, without leaving the device."""
        structure = self.structure if self.shared else _map_tensors(self.structure, lambda t: t[index])
        return replace(self, structure=structure, is_given=self.is_given[index], given_values=self.given_values[index])

    def with_chains(self, chains: int) -> Batch:
        return replace(self, chains=chains)


def same_structure(instances: Sequence[Instance]) -> bool:
    """True if the instances differ in their givens alone (they hold the very same objects)."""
    first = instances[0]
    return all(
        other.domain_sizes is first.domain_sizes
        and other.objective is first.objective
        and other.positions is first.positions
        and len(other.constraints) == len(first.constraints)
        and all(a is b for a, b in zip(other.constraints, first.constraints, strict=True))
        for other in instances
    )


def padded_size(instance: Instance) -> int:
    """Variables that an instance has in a batch: a multiple of 32 makes shapes few; where positions count, its own."""
    return instance.size if instance.positions is not None else -(-instance.size // 32) * 32


def collate(
    instances: Sequence[Instance], chains: int = 1, variables: int | None = None, values: int | None = None
) -> Batch:
    """Pad instances into one batch on the CPU; `variables` and `values` ask for more padding than they need."""
    if not instances:
        raise ValueError("a batch needs at least one instance")
    count = max(max(i.size for i in instances), variables or 0)
    width = max(max(int(i.domain_sizes.max(initial=1)) for i in instances), values or 0)
    shared = same_structure(instances)
    members = instances[:1] if shared else instances
    return Batch(
        structure=_structure(members, count, width),
        is_given=_pad([i.is_given for i in instances], count),
        given_values=_pad([i.given_values for i in instances], count),
        shared=shared,
        chains=chains,
        optimisation=any(i.objective is not None for i in instances),
        full=all(bool((i.domain_sizes == width).all()) for i in members),
    )


def _pad(arrays: Sequence[npt.NDArray[Any]], length: int | None = None, fill: float = 0) -> Tensor:
    """Arrays that differ in their first dimension -> one tensor (G, length, ...)."""
    length = max((len(a) for a in arrays), default=0) if length is None else length
    out = np.full((len(arrays), length, *arrays[0].shape[1:]), fill, dtype=arrays[0].dtype)
    for row, array in zip(out, arrays, strict=True):
        row[: len(array)] = array
    return torch.from_numpy(out if out.dtype != np.float64 else out.astype(np.float32))


def _gather(instance: Instance, kind: type[T]) -> list[T]:
    return [group for group in instance.constraints if isinstance(group, kind)]


def _structure(members: Sequence[Instance], count: int, width: int) -> Structure:
    sizes = [i.domain_sizes for i in members]
    dims = max((i.positions.shape[1] for i in members if i.positions is not None), default=0)
    places = [np.zeros((i.size, 0), np.int64) if i.positions is None else i.positions for i in members]
    positions = [np.pad(place, ((0, 0), (0, dims - place.shape[1]))) for place in places]
    relations = [relation_list(i) for i in members]
    tiled = [-(-i.size // TILED) * TILED for i in members]
    domain = _pad([np.arange(width) < s[:, None] for s in sizes], count)
    # The softmax of padding must be defined; nobody looks at its values.
    domain |= torch.from_numpy(np.arange(count) >= np.array([len(s) for s in sizes])[:, None])[..., None]
    domain[:, :, 0] = True
    return Structure(
        real=_pad([np.ones(i.size, np.bool_) for i in members], count),
        domain=domain,
        positions=_pad(positions, count),
        value_features=_pad([value_features(i, width) for i in members], count),
        relations=Relations(
            source=_pad([source for source, _, _ in relations]),
            target=_pad([target for _, target, _ in relations]),
            features=_pad([features for _, _, features in relations]),
            present=_pad([np.ones(len(source), np.bool_) for source, _, _ in relations]),
            starts=_pad([np.searchsorted(target, np.arange(count + 1)) for _, target, _ in relations]),
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
    return PairTerms(_pad(pairs), _pad(values), _pad(weights))


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
    present = _pad([np.ones(len(v), np.bool_) for v in variables])
    return ScopeTerms(_pad(variables), _pad(owner), _pad(data), present, _pad(bounds), _pad(limits))


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
    return TableTerms(_pad(variables), _pad(values), _pad(present), _pad(owner), _pad(real))


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
        "unary": _pad(unary),
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
