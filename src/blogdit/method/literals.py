"""The constraints of a batch as a graph of literals and factors, for networks that see every constraint.

A literal is a value of a variable, (i, k). A factor is a rule over literals: "variable i takes one of its values", "at
most one variable of this row takes the value k". A network passes messages from literals to factors and back, so its
work is linear in the number of literals and no parameter depends on sizes.

Literals that a given rules out are left out: the values of given variables, and those that share a rule "at most one"
with a given. Each instance has its own literals and factors, padded to the most in the batch.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from blogdit.core.constraints import AllDifferent, NotEqual
from blogdit.method.structure import Structure

SEEN = (AllDifferent, NotEqual)  # constraints that are factors below
VARIABLE, EXACTLY_ONE, AT_MOST_ONE = range(3)
FACTOR_KINDS = 3
PADDING = 16  # numbers of literals and factors are multiples of this, so that shapes are few
WORK = 1 << 24  # memberships looked at together when literals are built: memory


@dataclass(frozen=True)
class Literals:
    """Of B instances: L literals in C factors, each factor of S literals at most, each literal in Q factors at most."""

    place: Tensor  # (B, L) variable * K + value; 0 in padding
    real: Tensor  # (B, L) false in padding
    factors: Tensor  # (B, L, Q) the factors of a literal; C in padding
    members: Tensor  # (B, C, S) the literals of a factor; L in padding
    kind: Tensor  # (B, C) VARIABLE, EXACTLY_ONE, ...


@dataclass(frozen=True)
class _Rules:
    """All memberships of a structure, with no thought of givens: entry e says that `place[e]` is in `factor[e]`."""

    factor: Tensor  # (G, E), ascending
    place: Tensor  # (G, E)
    present: Tensor  # (G, E)
    kind: Tensor  # (G, F)


def build_literals(structure: Structure, is_given: Tensor, given_values: Tensor) -> Literals:
    """The literals of instances with the givens (B, N), which share their structure or have one each."""
    rules, domain = _rules(structure), structure.domain & structure.real[..., None]
    shared = len(domain) == 1
    together = max(1, WORK // max(1, rules.factor.shape[1]))
    parts = []
    for start in range(0, len(is_given), together):
        here = slice(start, start + together)
        own = rules if shared else _Rules(*(tensor[here] for tensor in vars(rules).values()))
        parts.append(_open(own, domain if shared else domain[here], is_given[here], given_values[here]))
    return _joined(parts)


def _rules(structure: Structure) -> _Rules:
    """Every rule that is a factor. Factors are numbered kind by kind, memberships sorted by factor."""
    groups, variables, values = structure.domain.shape
    device = structure.domain.device
    value = torch.arange(values, device=device)
    every = torch.arange(variables * values, device=device).expand(groups, -1)
    factors, places = [every // values], [every]
    present, kinds = [torch.ones_like(every, dtype=torch.bool)], [every.new_full((groups, variables), VARIABLE)]
    taken = variables  # factors so far

    def add(owner: Tensor, variable: Tensor, real: Tensor, kind: Tensor, slots: Tensor, width: int) -> None:
        """A factor for each owner (G, T) and each of `width` slots, which values take; kind (G, owners, width)."""
        nonlocal taken
        factors.append((taken + owner[..., None] * width + slots).flatten(1))
        places.append((variable[..., None] * values + value).flatten(1))
        present.append(real[..., None].expand(*real.shape, values).flatten(1))
        kinds.append(kind.flatten(1))
        taken += kind.shape[1] * width

    scopes = structure.all_different
    slots = scopes.slots if scopes.slots.shape[1] else value
    needed = torch.arange(scopes.width, device=device) < scopes.required[..., None]
    kind = torch.where(needed, EXACTLY_ONE, AT_MOST_ONE)
    add(scopes.members.owner, scopes.members.variables, scopes.members.present, kind, slots, scopes.width)
    pairs = structure.not_equal
    count = pairs.weights.shape[1]
    owner = torch.arange(count, device=device).repeat_interleave(2).expand(groups, -1)
    real = (pairs.weights != 0).repeat_interleave(2, 1)
    kind = owner.new_full((groups, count, values), AT_MOST_ONE)
    add(owner, pairs.variables.flatten(1), real, kind, value, values)

    factor, order = torch.cat(factors, 1).sort(dim=1, stable=True)
    return _Rules(
        factor, torch.cat(places, 1).gather(1, order), torch.cat(present, 1).gather(1, order), torch.cat(kinds, 1)
    )


def _open(rules: _Rules, domain: Tensor, is_given: Tensor, given_values: Tensor) -> Literals:
    """What the givens (B, N) leave of the rules; domain (G, N, K)."""
    size = is_given.shape[0]
    values, factors = domain.shape[2], rules.kind.shape[1]
    factor, place = rules.factor.expand(size, -1), rules.place.expand(size, -1)
    chosen = torch.arange(values, device=domain.device) == given_values[..., None]
    settled = (is_given[..., None] & chosen & domain).flatten(1)  # (B, N * K) literals that givens make true
    possible = (domain & ~is_given[..., None]).flatten(1)
    # A factor that has a true literal already rules out all the others.
    served = _total(settled.gather(1, place) & rules.present, factor, factors) > 0
    ruled_out = _total(served.gather(1, factor) & rules.present, place, possible.shape[1]) > 0
    possible &= ~ruled_out

    kept = possible.gather(1, place) & rules.present
    sizes = _total(kept, factor, factors)
    useful = sizes >= torch.where(rules.kind == AT_MOST_ONE, 2, 1)  # one literal alone may always be true
    kept &= useful.gather(1, factor)
    literal, number = possible.long().cumsum(1) - 1, useful.long().cumsum(1) - 1
    literals, count = _up(possible.sum(1)), _up(useful.sum(1))
    owner, member = number.gather(1, factor), literal.gather(1, place)
    by_place = place.argsort(dim=1, stable=True)
    of_literal, in_factor, still = (part.gather(1, by_place) for part in (member, owner, kept))
    everywhere = torch.arange(possible.shape[1], device=place.device).expand(size, -1)
    real = torch.arange(literals, device=place.device) < possible.sum(1, keepdim=True)
    return Literals(
        place=_filled(literal, everywhere, possible, literals, 0),
        real=real,
        factors=_lists(of_literal, in_factor, still, literals, count),
        members=_lists(owner, member, kept, count, literals),
        kind=_filled(number, rules.kind.expand(size, -1), useful, count, 0),
    )


def _total(flags: Tensor, owner: Tensor, owners: int) -> Tensor:
    """How many flags (B, E) each owner has, (B, owners)."""
    return torch.zeros(len(flags), owners, dtype=torch.int32, device=flags.device).scatter_add_(1, owner, flags.int())


def _up(counts: Tensor) -> int:
    return max(1, -(-int(counts.max()) // PADDING)) * PADDING


def _filled(at: Tensor, amounts: Tensor, kept: Tensor, length: int, fill: int) -> Tensor:
    """A table (B, length) with the kept amounts (B, E) at their places."""
    table = torch.full((len(at), length + 1), fill, dtype=torch.int32, device=at.device)
    return table.scatter_(1, torch.where(kept, at, length), amounts.int())[:, :length].contiguous()


def _lists(owner: Tensor, member: Tensor, kept: Tensor, owners: int, fill: int) -> Tensor:
    """The kept members of each owner, (B, owners, most); entries (B, E) come owner by owner."""
    before = kept.long().cumsum(1) - kept.long()  # kept entries before this one
    here = torch.where(kept, owner, owners)
    counts = _total(kept, here, owners + 1).long()
    first = counts.cumsum(1) - counts  # kept entries of the owners before
    rank = before - first.gather(1, here)
    most = max(int(counts[:, :owners].max()), 1)
    at = torch.where(kept, here * most + rank, owners * most)
    return _filled(at, member, kept, owners * most, fill).view(len(owner), owners, most)


def _joined(parts: list[Literals]) -> Literals:
    """Literals of several stretches of instances, padded alike."""
    if len(parts) == 1:
        return parts[0]
    literals, factors = max(p.place.shape[1] for p in parts), max(p.kind.shape[1] for p in parts)
    degree, most = max(p.factors.shape[2] for p in parts), max(p.members.shape[2] for p in parts)

    def table(part: Tensor, shape: tuple[int, ...], old: int, fill: int) -> Tensor:
        out = torch.full((len(part), *shape), fill, dtype=part.dtype, device=part.device)
        out[(slice(None), *(slice(length) for length in part.shape[1:]))] = torch.where(part == old, fill, part)
        return out

    return Literals(
        place=torch.cat([table(p.place, (literals,), 0, 0) for p in parts]),
        real=torch.cat([torch.nn.functional.pad(p.real, (0, literals - p.real.shape[1])) for p in parts]),
        factors=torch.cat([table(p.factors, (literals, degree), p.kind.shape[1], factors) for p in parts]),
        members=torch.cat([table(p.members, (factors, most), p.place.shape[1], literals) for p in parts]),
        kind=torch.cat([table(p.kind, (factors,), 0, 0) for p in parts]),
    )
