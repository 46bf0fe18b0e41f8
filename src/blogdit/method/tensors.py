"""Constraints become tensors: groups of an instance in, `Terms` out."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from blogdit.core.constraints import (
    FAR,
    AllDifferent,
    Conflict,
    Constraint,
    Count,
    FloatArray,
    Function,
    IntArray,
    Linear,
    NotEqual,
    Sum,
    Table,
)
from blogdit.core.derived import sources
from blogdit.core.domains import Domains
from blogdit.core.instance import Instance
from blogdit.method.in_pairs import Weighted, in_pairs
from blogdit.method.terms import (
    ALWAYS,
    Definitions,
    DerivedTerms,
    DifferentTerms,
    Entries,
    FunctionTerms,
    Members,
    PairTerms,
    SumTerms,
    TableTerms,
    Terms,
)

KINDS = (NotEqual, Conflict, AllDifferent, Linear, Count, Sum, Function, Table)  # those that have a tensor form below


def pad(arrays: Sequence[npt.NDArray[Any]], length: int | None = None, kind: type | None = None) -> Tensor:
    """Arrays that differ in their first dimension -> one tensor (G, length, ...), 0 in padding. Real numbers become
    float32; `kind` asks for another type."""
    length = max((len(a) for a in arrays), default=0) if length is None else length
    wanted = np.dtype(np.float32 if arrays[0].dtype == np.float64 else arrays[0].dtype) if kind is None else kind
    out = np.zeros((len(arrays), length, *arrays[0].shape[1:]), wanted)  # pages that nobody writes to take no time
    for row, array in zip(out, arrays, strict=True):
        row[: len(array)] = array
    return torch.from_numpy(out)


def build_terms(domains: Sequence[Domains], groups: Sequence[Sequence[Weighted]], width: int) -> Terms:
    """Of some groups of each instance, with values padded to `width`. A TypeError for a constraint kind without a
    tensor form, whose energy would be 0 whatever is violated."""
    for group in (group for some in groups for group, _ in some):
        if type(group) not in KINDS:
            kind = f"{type(group).__name__} (kind {group.kind!r})"
            raise TypeError(f"constraint {kind} has no tensor form; expected one in blogdit/method/tensors.py")

    return Terms(**{kind.kind: _of_kind(kind, domains, groups, width) for kind in KINDS})


def _of_kind(
    kind: type[Constraint], domains: Sequence[Domains], groups: Sequence[Sequence[Weighted]], width: int
) -> Any:
    own = [[(group, weights) for group, weights in some if type(group) is kind and len(group)] for some in groups]
    return _build(kind, domains, own, width) if any(own) else _absent(kind, len(groups), width)


@lru_cache(256)
def _absent(kind: type[Constraint], groups: int, width: int) -> Any:
    """The tensors of a kind that nobody has. Most instances have few kinds."""
    return _build(kind, [Domains([])] * groups, [[]] * groups, width)


def _build(
    kind: type[Constraint], domains: Sequence[Domains], groups: Sequence[Sequence[Weighted]], width: int
) -> PairTerms | DifferentTerms | SumTerms | FunctionTerms | TableTerms:
    if kind in (NotEqual, Conflict):
        return pair_terms([[(g.pairs, getattr(g, "values", None), weights) for g, weights in some] for some in groups])
    if kind is AllDifferent:
        return _different(domains, groups, width)
    return (_functions if kind is Function else _tables if kind is Table else _sums)(groups)


PairRows = tuple[IntArray, IntArray | None, npt.NDArray[np.float64]]


def pair_terms(per_instance: Sequence[Sequence[PairRows]]) -> PairTerms:
    pairs = [_joined([p for p, _, _ in rows], 2) for rows in per_instance]
    weights = [_joined([w for _, _, w in rows], kind=np.float64) for rows in per_instance]
    if all(values is None for rows in per_instance for _, values, _ in rows):
        variables = pad(pairs, kind=np.int32)
        return PairTerms(variables, torch.from_numpy(np.zeros(variables.shape, np.int32)), pad(weights))
    values = [_joined([np.zeros_like(p) if v is None else v for p, v, _ in rows], 2) for rows in per_instance]
    return PairTerms(pad(pairs, kind=np.int32), pad(values, kind=np.int32), pad(weights))


def _joined(parts: Sequence[npt.NDArray[Any]], *tail: int, kind: type = np.int64) -> npt.NDArray[Any]:
    """Arrays (m, *tail) one after the other; there may be none."""
    if len(parts) == 1:
        return parts[0]
    return np.concatenate([np.zeros((0, *tail), kind), *parts])


def _numbered(some: Sequence[Weighted]) -> tuple[list[tuple[Any, int]], FloatArray]:
    """Each group with the number of its first constraint, and the weights of all constraints."""
    firsts = np.cumsum([0, *(len(group) for group, _ in some)]).tolist()
    weights = _joined([weights for _, weights in some], kind=np.float64)
    return [(group, first) for (group, _), first in zip(some, firsts, strict=False)], weights


def _members(per_instance: Sequence[Sequence[Weighted]]) -> Members:
    variables, owners = [], []
    for some in per_instance:
        lists = [(group.members, first) for group, first in _numbered(some)[0]]
        variables.append(_joined([scopes.variables for scopes, _ in lists]))
        owners.append(_joined([scopes.owner + first for scopes, first in lists]))
    return Members(pad(variables), pad(owners), _present(variables))


def _present(rows: Sequence[npt.NDArray[Any]]) -> Tensor:
    return pad([np.ones(len(row), np.bool_) for row in rows])


def _different(domains: Sequence[Domains], per_instance: Sequence[Sequence[Weighted]], width: int) -> DifferentTerms:
    lengths, required, weights = [0], [], []
    places: list[list[tuple[int, IntArray]]] = []  # of scopes that need slots: first entry, slots (length, K)
    for sizes, some in zip(domains, per_instance, strict=True):
        numbered, weight = _numbered(some)
        weights.append(weight)
        needed, own, entries = _joined([_required(group, sizes) for group, _ in numbered]), [], 0
        for group, first in numbered:
            for index in _shifted(group, sizes):
                start = int(group.scopes.offsets[index])
                slots, number = _slots(group, index, sizes, width)
                needed[first + index] = number if number == len(slots) else 0
                own.append((entries + start, slots))
            entries += len(group.scopes.variables)
        lengths.append(entries)
        required.append(needed)
        places.append(own)
    slots = np.zeros((len(domains), 0, width), np.int64)
    if any(places):
        slots = np.tile(np.arange(width), (len(domains), max(lengths), 1))
        for row, own in zip(slots, places, strict=True):
            for start, of_scope in own:
                row[start : start + len(of_scope)] = of_scope
    span = max(width, int(slots.max(initial=0)) + 1)
    return DifferentTerms(_members(per_instance), torch.from_numpy(slots), pad(required), pad(weights), span)


def _required(group: AllDifferent, domains: Domains) -> IntArray:
    """How many values must all occur: those of a scope that is as long as the domains of its variables."""
    lengths = group.scopes.lengths
    fits = group.scopes.total((domains.sizes[group.scopes.variables] == lengths[group.scopes.owner]).astype(np.int64))
    return np.where(fits == lengths, lengths, 0)


def _shifted(group: AllDifferent, domains: Domains) -> list[int]:
    """The scopes in which equal values do not mean the same."""
    if group.offsets is not None:
        return list(range(len(group)))
    return [index for index in range(len(group)) if not domains.aligned(group.scope(index))]


def _slots(group: AllDifferent, index: int, domains: Domains, width: int) -> tuple[IntArray, int]:
    """A number for everything that the variables of a scope can mean, (length, K), and how many there are."""
    scope, entries = group.scope(index), group.scopes.entries_of(index)
    offsets = np.zeros(len(scope), np.int64) if group.offsets is None else group.offsets[entries]
    means = [domains.of(int(variable)) + offset for variable, offset in zip(scope, offsets, strict=True)]
    every, ranks = np.unique(np.concatenate(means), return_inverse=True)
    slots = np.zeros((len(scope), width), np.int64)
    slots[np.arange(width) < domains.sizes[scope][:, None]] = ranks
    return slots, len(every)


def _sums(per_instance: Sequence[Sequence[Weighted]]) -> SumTerms:
    kept: list[tuple[IntArray, ...]] = []  # variables, owner, equals, weights of all entries
    limits, whens, exactly, weights = [], [], [], []
    for some in per_instance:
        numbered, weight = _numbered(some)
        variables = _joined([group.scopes.variables for group, _ in numbered])
        owner = _joined([group.scopes.owner + first for group, first in numbered])
        amounts = (_joined([group.equals for group, _ in numbered]), _joined([group.weights for group, _ in numbered]))
        kept.append((variables, owner, *amounts))
        limits.append(_joined([group.limits for group, _ in numbered], 2))
        always = [np.tile([0, 0, ALWAYS], (len(group), 1)) for group, _ in numbered]
        whens.append(_joined([a if g.when is None else g.when for (g, _), a in zip(numbered, always, strict=True)], 3))
        exactly.append(_joined([np.full(len(group), group.exactly) for group, _ in numbered], kind=np.bool_))
        weights.append(weight)
    sums = max(map(len, limits))
    padding = [np.tile(np.array([-FAR, FAR]), (sums - len(limit), 1)) for limit in limits]
    limits = [np.concatenate(parts) for parts in zip(limits, padding, strict=True)]
    bounds = [np.where(abs(limit) < FAR, limit, np.copysign(np.inf, limit)) for limit in limits]
    if all((when[:, 2] == ALWAYS).all() for when in whens):
        whens = [when[:0] for when in whens]
    return SumTerms(
        numbers=_entries(kept, literals=False),
        literals=_entries(kept, literals=True),
        bounds=pad(bounds),
        limits=pad(limits),
        when=pad(whens),
        exactly=pad(exactly),
        weights=pad(weights),
        members=_members(per_instance),
    )


def _entries(kept: Sequence[tuple[IntArray, ...]], literals: bool) -> Entries:
    columns: list[list[IntArray]] = [[], [], [], []]
    for variables, owner, equals, amounts in kept:
        chosen = (equals >= 0) == literals
        for column, array in zip(columns, (variables, owner, np.maximum(equals, 0), amounts), strict=True):
            column.append(array[chosen])
    return Entries(*(pad(column) for column in columns))


def _functions(per_instance: Sequence[Sequence[Weighted]]) -> FunctionTerms:
    rows: dict[str, list[npt.NDArray[Any]]] = {name: [] for name in ("results", "signs", "index", "element", "weights")}
    entries: dict[str, list[IntArray]] = {name: [] for name in ("variables", "owner", "places")}
    for some in per_instance:
        numbered, weight = _numbered(some)
        groups = [group for group, _ in numbered]
        rows["results"].append(_joined([group.results for group in groups]))
        rows["signs"].append(_joined([np.full(len(group), -1 if group.which == "min" else 1) for group in groups]))
        rows["index"].append(_joined([group.scopes.variables[group.scopes.offsets[:-1]] for group in groups]))
        is_element = [np.full(len(group), group.which == "element") for group in groups]
        rows["element"].append(_joined(is_element, kind=np.bool_))
        rows["weights"].append(weight)
        chosen = [~group.is_index for group in groups]
        owner = _joined([group.scopes.owner + first for group, first in numbered])
        places = [
            np.arange(len(g.scopes.owner)) - g.scopes.offsets[g.scopes.owner] - (g.which == "element") for g in groups
        ]
        kept = _joined(chosen, kind=np.bool_)
        variables = _joined([group.scopes.variables for group in groups])
        for name, array in (("variables", variables), ("owner", owner), ("places", _joined(places))):
            entries[name].append(array[kept])
    results, signs, index, element, weights = (pad(column) for column in rows.values())
    inside = Members(pad(entries["variables"]), pad(entries["owner"]), _present(entries["variables"]))
    return FunctionTerms(
        results, signs, index, element, inside, pad(entries["places"]), weights, _members(per_instance)
    )


def _tables(per_instance: Sequence[Sequence[Weighted]]) -> TableTerms:
    arity = max((table.scopes.shape[1] for some in per_instance for table, _ in some), default=0)
    columns: list[list[npt.NDArray[Any]]] = [[], [], [], []]
    weights = []
    for some in per_instance:
        numbered, weight = _numbered(some)
        parts: list[list[npt.NDArray[Any]]] = [[], [], [], []]
        for t, first in numbered:
            rows, width = len(t) * len(t.tuples), t.scopes.shape[1]
            margin = ((0, 0), (0, arity - width))
            parts[0].append(np.pad(np.repeat(t.scopes, len(t.tuples), axis=0), margin))
            parts[1].append(np.pad(np.tile(t.tuples, (len(t), 1)), margin))
            parts[2].append(np.pad(np.ones((rows, width), np.bool_), margin))
            parts[3].append(first + np.repeat(np.arange(len(t)), len(t.tuples)))
        for column, part, tail, kind in zip(columns, parts, (1, 1, 1, 0), (int, int, bool, int), strict=True):
            column.append(_joined(part, *[arity] * tail, kind=kind))
        weights.append(weight)
    variables, values, present, owner = (pad(column) for column in columns)
    return TableTerms(variables, values, present, owner, pad(weights), _members(per_instance))


def normal_form(instance: Instance) -> list[Weighted]:
    """The constraints that must hold. Those that define a variable stay as they are."""
    weighted = [(group, np.ones(len(group))) for group in instance.constraints]
    return in_pairs(weighted, instance.domains, {number for _, number, _ in instance.derived})


def build_derived(members: Sequence[Instance], count: int) -> DerivedTerms:
    """Of instances padded to `count` variables."""
    return _derived(members, count) if any(one.derived for one in members) else _nothing_derived(len(members), count)


@lru_cache(16)
def _nothing_derived(groups: int, count: int) -> DerivedTerms:
    return _derived([Instance(np.zeros(0, np.int64))] * groups, count)


def _derived(members: Sequence[Instance], count: int) -> DerivedTerms:
    names = [name for name in DerivedTerms.__dataclass_fields__ if name not in ("is_derived", "sources", "depth")]
    rows: dict[str, list[list[tuple[int, int, int]]]] = {name: [[] for _ in members] for name in names}
    masks, pairs, depth = [], [], 0
    for place, one in enumerate(members):
        depths, groups = np.zeros(one.size, np.int64), [group for group, _ in normal_form(one)]
        for variable, number, row in one.derived:
            group = groups[number]
            first = sum(len(other) for other in groups[:number] if type(other) is type(group))
            coefficient, name = 1, group.kind
            if isinstance(group, Sum) and group.when is not None:
                name = "truth"
            elif isinstance(group, Sum):
                entries = group.scopes.entries_of(row)
                coefficient = int(group.weights[entries][group.scopes[row] == variable][0])
            rows[name][place].append((variable, first + row, coefficient))
            inputs = group.inputs(row, variable, one.domains)
            depths[variable] = 1 + depths[inputs].max(initial=0)
        masks.append(depths > 0)
        depth = max(depth, int(depths.max(initial=0)))
        pairs.append(sources(one.derived, one.constraints, one.domains)[0])
    definitions = {name: [np.array(own, np.int64).reshape(-1, 3) for own in of] for name, of in rows.items()}
    return DerivedTerms(
        **{
            name: Definitions(*(pad([own[:, column] for own in of]) for column in range(3)))
            for name, of in definitions.items()
        },
        is_derived=pad(masks, count),
        sources=Members(pad([pair[:, 1] for pair in pairs]), pad([pair[:, 0] for pair in pairs]), _present(pairs)),
        depth=depth,
    )
