"""The constraints of a batch as a graph of literals and factors, for networks that see every constraint.

A literal is a value of a variable, (i, k). A factor is a rule over literals (`rules.py`). A network passes messages
from literals to factors and back, so its work is linear in the number of memberships and no parameter depends on sizes.

Literals that a given rules out are left out: the values of given variables, and those that a rule "at most one" or a
constraint on two variables forbids beside a given. Rules that hold whatever the open variables do are left out, too.
Each instance has its own literals and factors, padded to the most in the batch.

Sums are brought into one form. Of the values that a variable may still take, the one that adds least adds nothing; the
bounds move accordingly. Then amounts are divided by the largest of the sum.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from blogdit.method.neighbours import Pairs, coupled, excluding
from blogdit.method.rules import AT_MOST_ONE, SUM, Rules, build_rules, merged
from blogdit.method.structure import Structure
from blogdit.method.terms import map_tensors

FACTOR_FEATURES, LITERAL_FEATURES = 9, 5
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
    # Amounts of `factors` and of `members`; (B, 0, 0) where all are 1.
    factor_amounts: Tensor
    member_amounts: Tensor
    share: Tensor  # (B, C) 1 / the most that the amounts of a sum can add up to; else 1 / the number of literals
    bounds: Tensor  # (B, C, 2) least and greatest sum of amounts; infinite where there is none
    features: Tensor  # (B, C, FACTOR_FEATURES) what else there is to know of a factor
    about: Tensor  # (B, L, LITERAL_FEATURES) what a literal costs by itself, and how many neighbours it has
    # Neighbours of a literal, L in padding: those that it excludes, and those that it is coupled with.
    excluded: Tensor  # (B, L, D)
    coupled: Tensor  # (B, L, D')
    coupling: Tensor  # (B, L, D') what the two cost together, as a share of the most that any two do


def build_literals(structure: Structure, is_given: Tensor, given_values: Tensor) -> Literals:
    """The literals of instances with the givens (B, N), which share their structure or have one each."""
    shared = len(structure.domain) == 1
    told = _Told.of(_groups(structure, slice(1)))
    together, parts = max(1, WORK // told.entries), []
    for start in range(0, len(is_given), together):
        here = slice(start, start + together)
        if not shared:
            told = _Told.of(_groups(structure, here))
        parts.append(_open(told, is_given[here], given_values[here]))
    return _joined(parts)


def _groups(structure: Structure, some: slice) -> Structure:
    return map_tensors(structure, lambda tensor: tensor[some])


@dataclass(frozen=True)
class _Told:
    """What a structure says, with no thought of givens."""

    rules: Rules
    excluded: Pairs
    coupled: Pairs
    domain: Tensor  # (G, N, K) values that real variables may take
    costs: Tensor  # (G, N, K) of values by themselves
    largest_gain: Tensor  # (G,) the most that a variable changes the objective by
    is_derived: Tensor  # (G, N)

    @classmethod
    def of(cls, structure: Structure) -> _Told:
        return cls(
            build_rules(structure), excluding(structure), coupled(structure),
            structure.domain & structure.real[..., None], structure.unary, structure.largest_gain.float(),
            structure.derived.is_derived,
        )  # fmt: skip

    @property
    def entries(self) -> int:
        """Numbers that an instance takes while its literals are built, in each of some tensors."""
        return self.rules.factor.shape[1] + 2 * (self.excluded.weights.shape[1] + self.coupled.weights.shape[1]) + 1


def _open(told: _Told, is_given: Tensor, given_values: Tensor) -> Literals:
    """What the givens (B, N) leave of it."""
    size, rules, domain = is_given.shape[0], told.rules, told.domain
    values, factors = domain.shape[2], rules.kind.shape[1]
    factor, place = rules.factor.expand(size, -1), rules.place.expand(size, -1)
    kind, must_hold = rules.kind.expand(size, -1), rules.weight == 0
    chosen = torch.arange(values, device=domain.device) == given_values[..., None]
    settled = (is_given[..., None] & chosen & domain).flatten(1)  # (B, N * K) literals that givens make true
    possible = (domain & ~is_given[..., None]).flatten(1)
    # A factor of which one literal at most is true, and has one already, rules out all the others.
    excludes = (rules.kind <= AT_MOST_ONE) & must_hold
    served = (_total(settled.gather(1, place) & rules.present, factor, factors) > 0) & excludes
    ruled_out = _total(served.gather(1, factor) & rules.present, place, possible.shape[1]) > 0
    possible &= ~ruled_out
    end, other, weight = told.excluded.both_ways(size)
    possible &= ~(_total(settled.gather(1, end) & (weight != 0), other, possible.shape[1]) > 0)

    open_, true = possible.gather(1, place), settled.gather(1, place)
    kept = open_ & rules.present
    amount, share, bounds, idle = _amounts(rules, factor, open_, true, values)
    kept &= amount != 0
    sizes = _total(kept, factor, factors)
    if not rules.plain:  # of what may be violated, some literals may be true already
        taken = _total(true & rules.present, factor, factors) * ((rules.kind <= AT_MOST_ONE) & ~must_hold)
        bounds = bounds - taken[..., None]
    may_stay = (rules.kind == AT_MOST_ONE) & (bounds[..., 1] >= 1)  # one literal alone may always be true
    useful = sizes >= torch.where(may_stay, 2, 1)
    void = _total(~open_ & ~true & rules.present & rules.needed, factor, factors) > 0
    useful &= ~(idle | void)
    kept &= useful.gather(1, factor)
    literal, number = possible.long().cumsum(1) - 1, useful.long().cumsum(1) - 1
    literals, count = _up(possible.sum(1)), _up(useful.sum(1))
    owner, member = number.gather(1, factor), literal.gather(1, place)
    by_place = place.argsort(dim=1, stable=True)
    of_literal, in_factor, still, of_place = (part.gather(1, by_place) for part in (member, owner, kept, amount))
    everywhere = torch.arange(possible.shape[1], device=place.device).expand(size, -1)
    real = torch.arange(literals, device=place.device) < possible.sum(1, keepdim=True)
    share = torch.where(kind == SUM, share, 1 / sizes.clamp(min=1))
    features = _features(kind, bounds, share, sizes, rules.weight.expand(size, -1) / told.largest_gain[:, None])

    def of_factors(amounts: Tensor) -> Tensor:
        """(B, F, ...) of all factors -> (B, C, ...) of the useful ones."""
        return _filled(number, amounts, useful, count)

    excludes, _ = _neighbours(told.excluded, possible, literal, literals)
    couples, coupling = _neighbours(told.coupled, possible, literal, literals)
    about = _filled(literal, _about(told, settled, possible, values), possible, literals)
    degrees = torch.stack([(lists < literals).sum(-1).float().log1p() / 4 for lists in (excludes, couples)], -1)
    strongest = coupling.abs().amax((1, 2), keepdim=True) if coupling.numel() else coupling.new_ones(1, 1, 1)
    no_amounts = amount.new_zeros(size, 0, 0)
    return Literals(
        place=_filled(literal, everywhere.int(), possible, literals),
        real=real,
        factors=_lists(of_literal, in_factor.int(), still, literals, count),
        members=_lists(owner, member.int(), kept, count, literals),
        kind=of_factors(kind.int()),
        factor_amounts=no_amounts if rules.plain else _lists(of_literal, of_place, still, literals, 0),
        member_amounts=no_amounts if rules.plain else _lists(owner, amount, kept, count, 0),
        share=of_factors(share),
        bounds=of_factors(bounds),
        features=of_factors(features),
        about=torch.cat([about, degrees], -1),
        excluded=excludes,
        coupled=couples,
        coupling=coupling / strongest.clamp(min=1e-12),
    )


def _amounts(
    rules: Rules, factor: Tensor, open_: Tensor, true: Tensor, values: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Amounts (B, E) of open entries, of sums in the form that the module's text describes; for each factor 1 / the
    most that its amounts add up to, bounds (B, F, 2), and whether they are met whatever the open literals are."""
    size, (factors, first) = len(factor), (rules.kind.shape[1], rules.sums)
    amount, bounds = rules.amount.expand(size, -1), rules.bounds.expand(size, -1, -1)
    ones = torch.ones(size, factors, device=factor.device)
    if first == rules.factor.shape[1]:
        return amount.float(), ones, bounds.float(), torch.zeros_like(ones, dtype=torch.bool)
    rows = (amount[:, first:] * rules.present[:, first:]).view(size, -1, values)
    still, fixed = (part[:, first:].view(rows.shape) for part in (open_, true))
    owner = factor[:, first:].view(rows.shape)[..., 0]  # (B, T)
    least = torch.where(still, rows, torch.inf).amin(-1)
    least = torch.where(least.isinf(), 0.0, least)
    constant = least + (rows * fixed).sum(-1)
    rows = (rows - least[..., None]) * still
    totals = torch.zeros(size, factors, 2, dtype=rows.dtype, device=factor.device)
    totals.scatter_add_(1, owner[..., None].expand(-1, -1, 2), torch.stack([constant, rows.amax(-1)], -1))
    moved, most = totals.unbind(-1)
    largest = torch.zeros_like(moved).scatter_reduce_(1, owner, rows.amax(-1), "amax")
    largest = torch.where(largest > 0, largest, 1.0)
    is_sum = rules.kind == SUM
    low, high = (bounds - moved[..., None]).unbind(-1)
    idle = is_sum & (low <= 0) & (high >= most)
    amount = torch.cat([amount[:, :first], (rows / largest.gather(1, owner)[..., None]).flatten(1)], 1)
    bounds = torch.where(is_sum[..., None], torch.stack([low, high], -1) / largest[..., None], bounds)
    return amount.float(), (largest / most.clamp(min=1e-12)).float(), bounds.float(), idle


def _features(kind: Tensor, bounds: Tensor, share: Tensor, sizes: Tensor, weight: Tensor) -> Tensor:
    """What is to know of a factor beside its kind: bounds as a share of the most, and as numbers; its size; its
    weight, as a share of what a variable can change."""
    low, high = bounds.unbind(-1)
    has_low, has_high = low.isfinite(), high.isfinite()
    low, high = torch.where(has_low, low, 0.0), torch.where(has_high, high, 0.0)
    return torch.stack(
        [
            has_low.float(),
            has_high.float(),
            (low * share).clamp(-2, 2),
            (high * share).clamp(-2, 2),
            low.clamp(min=0).log1p(),
            high.clamp(min=0).log1p(),
            sizes.float().log1p() / 4,
            (weight > 0).float(),
            weight.clamp(max=2),
        ],
        -1,
    )


def _neighbours(pairs: Pairs, possible: Tensor, literal: Tensor, literals: int) -> tuple[Tensor, Tensor]:
    """Open neighbours of open literals, (B, L, most), and the weights of the pairs."""
    size = len(possible)
    end, other, weight = pairs.both_ways(size)
    kept = possible.gather(1, end) & possible.gather(1, other) & (weight != 0)
    if not kept.any():
        return literal.new_zeros(size, literals, 0).int(), weight.new_zeros(size, literals, 0)
    weight, kept = merged(end * possible.shape[1] + other, weight, kept)
    order = end.argsort(dim=1, stable=True)
    end, other, weight, kept = (part.gather(1, order) for part in (end, other, weight, kept))
    owner = literal.gather(1, end)
    lists = _lists(owner, literal.gather(1, other).int(), kept, literals, literals)
    return lists, _lists(owner, weight, kept, literals, 0)


def _about(told: _Told, settled: Tensor, possible: Tensor, values: int) -> Tensor:
    """(B, N * K, 3): what a value costs more than the cheapest of its variable, beside the most that any does and
    beside what a variable can change; whether the variable follows from others. Couplings with givens count."""
    size, (end, other, weight) = len(possible), told.coupled.both_ways(len(possible))
    cost = told.costs.flatten(1).expand(size, -1).scatter_add(1, other, weight * settled.gather(1, end))
    cost, inside = cost.view(size, -1, values), possible.view(size, -1, values)
    cheapest = torch.where(inside, cost, torch.inf).amin(-1, keepdim=True)
    cost = torch.where(inside, cost - cheapest, 0.0)
    most = cost.amax((1, 2), keepdim=True).clamp(min=1e-12)
    derived = told.is_derived[..., None].expand(cost.shape).float()
    return torch.stack([cost / most, cost / told.largest_gain[:, None, None], derived], -1).flatten(1, 2)


def _total(flags: Tensor, owner: Tensor, owners: int) -> Tensor:
    """How many flags (B, E) each owner has, (B, owners)."""
    return torch.zeros(len(flags), owners, dtype=torch.int32, device=flags.device).scatter_add_(1, owner, flags.int())


def _up(counts: Tensor) -> int:
    return max(1, -(-int(counts.max()) // PADDING)) * PADDING


def _filled(at: Tensor, amounts: Tensor, kept: Tensor, length: int, fill: int = 0) -> Tensor:
    """A table (B, length, ...) with the kept amounts (B, E, ...) at their places (B, E)."""
    tail = amounts.shape[2:]
    table = torch.full((len(at), length + 1, *tail), fill, dtype=amounts.dtype, device=at.device)
    at = torch.where(kept, at, length).view(*at.shape, *[1] * len(tail)).expand(amounts.shape)
    return table.scatter_(1, at, amounts)[:, :length].contiguous()


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
    amounts = parts[0].factor_amounts.shape[1] > 0
    neighbours, partners = max(p.excluded.shape[2] for p in parts), max(p.coupled.shape[2] for p in parts)
    # The shape that a field needs, the number that stood for padding, and the one that stands for it now.
    shapes = {
        "place": (literals,), "real": (literals,), "kind": (factors,), "share": (factors,), "bounds": (factors, 2),
        "features": (factors, FACTOR_FEATURES), "about": (literals, LITERAL_FEATURES),
        "factors": (literals, degree), "members": (factors, most),
        "factor_amounts": (literals, degree) if amounts else (0, 0),
        "member_amounts": (factors, most) if amounts else (0, 0),
        "excluded": (literals, neighbours), "coupled": (literals, partners), "coupling": (literals, partners),
    }  # fmt: skip

    def table(part: Tensor, shape: tuple[int, ...], old: int, fill: int) -> Tensor:
        out = torch.full((len(part), *shape), fill, dtype=part.dtype, device=part.device)
        inside = (slice(None), *(slice(length) for length in part.shape[1:]))
        out[inside] = part if old == fill else torch.where(part == old, fill, part)
        return out

    def padding(name: str, part: Literals) -> tuple[int, int]:
        if name == "factors":
            return part.kind.shape[1], factors
        return (part.place.shape[1], literals) if name in ("members", "excluded", "coupled") else (0, 0)

    return Literals(
        **{
            name: torch.cat([table(getattr(part, name), shape, *padding(name, part)) for part in parts])
            for name, shape in shapes.items()
        }
    )
