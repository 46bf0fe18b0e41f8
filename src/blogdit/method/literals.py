"""The constraints of a batch as a graph of literals and factors, for networks that see every constraint.

A literal is a value of a variable, (i, k). A factor is a rule over literals (`rules.py`). A network passes messages
from literals to factors and back, so its work is linear in the number of memberships and no parameter depends on sizes.

Literals that a given rules out are left out: the values of given variables, and those that a rule "at most one" or a
constraint on two variables forbids beside a given; what the largest or smallest of some variables cannot be beside one
(`extremes.py`). Rules that hold whatever the open variables do are left out, too.
Each instance has its own literals and factors, padded to the most in the batch.

Sums are brought into one form. Of the values that a variable may still take, the one that adds least adds nothing; the
bounds move accordingly. Then amounts are divided by the largest of the sum.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from blogdit.method.extremes import Extremes
from blogdit.method.lists import PADDING, Lists, make_lists, round_up, stacked
from blogdit.method.neighbours import Pairs, coupled, excluding, most_pairs
from blogdit.method.rules import AT_MOST_ONE, SUM, Rules, build_rules, most_entries
from blogdit.method.structure import Structure
from blogdit.method.terms import map_tensors

FACTOR_FEATURES, LITERAL_FEATURES = 9, 5
WORK = 1 << 24  # memberships looked at together when literals are built: memory


@dataclass(frozen=True)
class Literals:
    """Of B instances: L literals in C factors."""

    place: Tensor  # (B, L) variable * K + value; 0 in padding
    real: Tensor  # (B, L) false in padding
    factors: Lists  # the factors of a literal
    members: Lists  # the literals of a factor
    kind: Tensor  # (B, C) VARIABLE, EXACTLY_ONE, ...
    share: Tensor  # (B, C) 1 / the most that the amounts of a sum can add up to; else 1 / the number of literals
    bounds: Tensor  # (B, C, 2) least and greatest sum of amounts; infinite where there is none
    features: Tensor  # (B, C, FACTOR_FEATURES) what else there is to know of a factor
    about: Tensor  # (B, L, LITERAL_FEATURES) what a literal costs by itself, and how many neighbours it has
    excluded: Lists  # literals that a literal excludes
    coupled: Lists  # those that it is coupled with: what the two cost together, as a share of the most that any two do
    excluded_share: Tensor  # (B, L) 1 / how many it excludes
    coupled_share: Tensor  # (B, L) 1 / all that its couplings add up to


def build_literals(structure: Structure, is_given: Tensor, given_values: Tensor) -> Literals:
    """The literals of instances with the givens (B, N), which share their structure or have one each."""
    told = _Told.of(structure) if len(structure.domain) == 1 else None
    together = max(1, WORK // (most_entries(structure) + most_pairs(structure)))
    parts = []
    for start in range(0, len(is_given), together):
        here = slice(start, start + together)
        own = told or _Told.of(_groups(structure, here))
        parts.append(_Opening(own, is_given[here], given_values[here]).literals())
    return parts[0] if len(parts) == 1 else stacked(parts)


def _groups(structure: Structure, some: slice) -> Structure:
    return map_tensors(structure, lambda tensor: tensor[some])


@dataclass(frozen=True)
class _Told:
    """What structures say, with no thought of givens."""

    rules: Rules
    by_place: Tensor  # (E,) the entries of the rules, literal by literal
    excluded: Pairs
    coupled: Pairs
    domain: Tensor  # (G, N, K) values that real variables may take
    costs: Tensor  # (G, N, K) of values by themselves
    largest_gain: Tensor  # (G,) the most that a variable changes the objective by
    is_derived: Tensor  # (G, N)

    @classmethod
    def of(cls, structure: Structure) -> _Told:
        rules = build_rules(structure)
        return cls(
            rules, rules.place.argsort(stable=True), excluding(structure), coupled(structure),
            structure.domain & structure.real[..., None], structure.unary, structure.largest_gain.float(),
            structure.derived.is_derived,
        )  # fmt: skip


class _Opening:
    """What givens (B, N) leave of it.

    Here a tensor has a row for each literal, factor or entry of the G structures, and a column for each instance of a
    structure: (..., B) where all share one, and (..., 1) where each has its own. Either way, what is in order column by
    column is in order instance by instance.
    """

    def __init__(self, told: _Told, is_given: Tensor, given_values: Tensor):
        self.told, self.rules, self.size = told, told.rules, len(is_given)
        groups, self.variables, self.values = told.domain.shape
        self.groups, self.columns, self.choices = groups, self.size // groups, self.variables * self.values
        chosen = torch.arange(self.values, device=is_given.device) == given_values[..., None]
        self.settled = self._lay(is_given[..., None] & chosen & told.domain)  # literals that givens make true
        self.possible = self._lay(told.domain & ~is_given[..., None])
        self._rule_out()

    def _lay(self, x: Tensor) -> Tensor:
        """(B, N, K) -> (G * N * K, columns)."""
        return x.reshape(self.columns, -1).T.contiguous()

    def _rule_out(self) -> None:
        """What is not possible beside a given."""
        rules, excluded = self.rules, self.told.excluded
        # A factor of which one literal at most is true, and has one already, rules out all the others.
        excludes = (rules.kind <= AT_MOST_ONE) & (rules.weight == 0)
        served = (_total(self.settled[rules.place], rules.factor, len(rules.kind)) > 0) & excludes[:, None]
        self.possible &= _total(served[rules.factor], rules.place, len(self.possible)) == 0
        self.possible &= _total(self.settled[excluded.end], excluded.other, len(self.possible)) == 0
        self.extremes = Extremes.of(rules, self.settled)
        if self.extremes is not None:
            places = rules.place[self.extremes.entry]
            self.possible &= _total(self.extremes.impossible(), places, len(self.possible)) == 0

    def _found(self, kept: Tensor, group: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Where kept (rows, columns) is true, instance by instance: the row, the column and the instance, (n,) each.
        `group` is that of the rows."""
        column, row = kept.T.nonzero().unbind(1)
        return row, column, column * self.groups + group[row]

    def literals(self) -> Literals:
        rules, size, factors = self.rules, self.size, len(self.rules.kind)
        open_, true = self.possible[rules.place], self.settled[rules.place]
        amount, share, bounds, idle = self._amounts(open_, true)
        kind = rules.kind[:, None].expand(-1, self.columns)
        if self.extremes is not None:
            amount = amount.expand(open_.shape)
            kind, amount, bounds, idle = self.extremes.tell(kind, amount, bounds, idle)
        kept = open_ & (amount != 0)
        sizes = _total(kept, rules.factor, factors)
        if not rules.plain:  # of what may be violated, some literals may be true already
            may_break = (rules.kind <= AT_MOST_ONE) & (rules.weight > 0)
            bounds = bounds - (_total(true, rules.factor, factors) * may_break[:, None])[..., None]
        may_stay = (rules.kind == AT_MOST_ONE)[:, None] & (bounds[..., 1] >= 1)  # one literal alone may always be true
        useful = (sizes >= torch.where(may_stay, 2, 1)) & ~idle
        if not rules.plain:
            useful &= _total(~open_ & ~true & rules.needed[:, None], rules.factor, factors) == 0
        kept &= useful[rules.factor]

        factor, column, instance = self._found(useful, rules.group)
        counts = torch.bincount(instance, minlength=size)
        first = (counts.cumsum(0) - counts)[instance]
        order = torch.arange(len(instance), device=instance.device) - first
        count = max(round_up(counts), PADDING)
        number = factor.new_zeros(useful.shape)
        number[factor, column] = order
        share = torch.where(rules.kind[:, None] == SUM, share, 1 / sizes.clamp(min=1))
        weight = rules.weight / self.told.largest_gain[rules.group]
        bounds, share, sizes = (part[factor, column] for part in (bounds, share, sizes))

        def of_factors(found: Tensor) -> Tensor:
            """(n, ...) of the useful factors -> (B, C, ...)."""
            return found.new_zeros(size, count, *found.shape[1:]).index_put_((instance, order), found)

        is_open = self.possible.T.reshape(size, -1)
        literal = is_open.cumsum(1) - 1
        counts = is_open.sum(1)
        literals = max(round_up(counts), PADDING)
        named = _Named(number, literal.flatten(), count, literals)
        excludes = self._neighbours(self.told.excluded, named, weighted=False)
        couples = self._neighbours(self.told.coupled, named, weighted=True)
        whose, place = is_open.nonzero().unbind(1)

        def of_literals(found: Tensor) -> Tensor:
            """(n, ...) of the open literals -> (B, L, ...)."""
            table = found.new_zeros(size, literals, *found.shape[1:])
            return table.index_put_((whose, literal[whose, place]), found)

        real = torch.arange(literals, device=place.device) < counts[:, None]
        degrees = torch.stack([lists.lengths.float().log1p() / 4 for lists in (excludes, couples)], -1)
        return Literals(
            place=of_literals(place.int()),
            real=real,
            factors=self._lists(kept, amount, named, by_factor=False),
            members=self._lists(kept, amount, named, by_factor=True),
            kind=of_factors(kind[factor, column].int()),
            share=of_factors(share),
            bounds=of_factors(bounds),
            features=of_factors(_features(bounds, share, sizes, weight[factor])),
            about=torch.cat([of_literals(self._about(whose, place)), degrees], -1),
            excluded=excludes,
            coupled=couples,
            excluded_share=real / excludes.lengths.clamp(min=1).float(),
            coupled_share=real / _strengths(couples),
        )

    def _lists(self, kept: Tensor, amount: Tensor, named: _Named, by_factor: bool) -> Lists:
        """Of the kept entries (E, columns): the literals of each factor, or the factors of each literal."""
        factor, place = self.rules.factor, self.rules.place
        if by_factor:
            entry, column, instance = self._found(kept, self.rules.group[factor])
        else:
            order = self.told.by_place
            entry, column, instance = self._found(kept[order], self.rules.group[factor[order]])
            entry = order[entry]
        numbers = named.factor[factor[entry], column]
        literals = named.literal[column * len(self.possible) + place[entry]]
        amounts = amount.expand(kept.shape)[entry, column] if not self.rules.plain else amount.new_zeros(0)
        if by_factor:
            return make_lists(instance, numbers, literals, amounts, self.size, named.factors)
        return make_lists(instance, literals, numbers, amounts, self.size, named.literals)

    def _neighbours(self, pairs: Pairs, named: _Named, weighted: bool) -> Lists:
        """Open neighbours of open literals. What two cost together is a share of the most that any two do."""
        kept = self.possible[pairs.end] & self.possible[pairs.other]
        entry, column, instance = self._found(kept, pairs.end // max(self.choices, 1))
        end, other = (named.literal[column * len(self.possible) + one[entry]] for one in (pairs.end, pairs.other))
        weight = pairs.weight[entry] if weighted else pairs.weight[:0]
        lists = make_lists(instance, end, other, weight, self.size, named.literals)
        if not lists.amounts.numel():
            return lists
        strongest = lists.amounts.abs().amax(1, keepdim=True).clamp(min=1e-12)
        return Lists(lists.members, lists.starts, lists.amounts / strongest)

    def _amounts(self, open_: Tensor, true: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Amounts (E, columns or 1) of open entries, of sums in the form that the module's text describes; for each
        factor 1 / the most that its amounts add up to, bounds (F, columns, 2), and whether they are met whatever the
        open literals are."""
        rules, shape = self.rules, (len(self.rules.kind), self.columns)
        ones = torch.ones(shape, device=open_.device)
        if not rules.terms:
            bounds = rules.bounds[:, None].expand(-1, self.columns, -1).float()
            return rules.amount[:, None].float(), ones, bounds, torch.zeros_like(ones, dtype=torch.bool)
        entry = (rules.term >= 0).nonzero()[:, 0]
        term, rows = rules.term[entry], rules.amount[entry][:, None]
        owner = term.new_zeros(rules.terms).index_put_((term,), rules.factor[entry])
        still, fixed = open_[entry], true[entry]
        least = _extreme(torch.where(still, rows, torch.inf), term, rules.terms, "amin", torch.inf)
        least = torch.where(least.isinf(), 0.0, least)
        moved = _sums(least, owner, shape[0]) + _sums(rows * fixed, rules.factor[entry], shape[0])
        rows = (rows - least[term]) * still
        highest = _extreme(rows, term, rules.terms, "amax", 0.0)
        most, largest = _sums(highest, owner, shape[0]), _extreme(highest, owner, shape[0], "amax", 0.0)
        largest = torch.where(largest > 0, largest, 1.0)
        is_sum = (rules.kind == SUM)[:, None]
        low, high = (bound[:, None] - moved for bound in rules.bounds.unbind(-1))
        idle = is_sum & (low <= 0) & (high >= most)
        amount = rules.amount[:, None].repeat(1, self.columns)
        amount[entry] = rows / largest[rules.factor[entry]]
        bounds = torch.where(
            is_sum[..., None], torch.stack([low, high], -1) / largest[..., None], rules.bounds[:, None]
        )
        return amount.float(), (largest / most.clamp(min=1e-12)).float(), bounds.float(), idle

    def _about(self, whose: Tensor, place: Tensor) -> Tensor:
        """Of open literals (n,), by instance and place: what the value costs more than the cheapest of its variable,
        beside the most that any does and beside what a variable can change; whether the variable follows from others.
        Couplings with givens count."""
        told, pairs, shape = self.told, self.told.coupled, (self.size, self.variables, self.values)
        cost = told.costs.reshape(-1, 1).double().repeat(1, self.columns)
        cost += _sums(pairs.weight.double()[:, None] * self.settled[pairs.end], pairs.other, len(cost))
        cost, inside = (part.T.reshape(shape) for part in (cost.float(), self.possible))
        cheapest = torch.where(inside, cost, torch.inf).amin(-1, keepdim=True)
        cost = torch.where(inside, cost - cheapest, 0.0)
        most = cost.amax((1, 2)).clamp(min=1e-12)
        own = cost.flatten(1)[whose, place]
        gain, derived = (part.expand(self.size, *part.shape[1:]) for part in (told.largest_gain, told.is_derived))
        return torch.stack([own / most[whose], own / gain[whose], derived[whose, place // self.values].float()], -1)


@dataclass(frozen=True)
class _Named:
    """The numbers of useful factors (F, columns) and of open literals (G * N * K * columns), each within its instance,
    and how many there are with padding."""

    factor: Tensor
    literal: Tensor
    factors: int
    literals: int


def _features(bounds: Tensor, share: Tensor, sizes: Tensor, weight: Tensor) -> Tensor:
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


def _strengths(couples: Lists) -> Tensor:
    """All that the couplings of a literal add up to, (B, L); 1 where it has none."""
    lengths, size = couples.lengths, len(couples.starts)
    if not couples.amounts.shape[1]:
        return torch.ones(lengths.shape, device=lengths.device)
    # A list for the padding at the end; each list is added up in its order, which an atomic sum on a GPU would not do.
    lengths = torch.cat([lengths, couples.amounts.shape[1] - couples.starts[:, -1:]], 1).long()
    totals = torch.segment_reduce(couples.amounts.abs().flatten(), "sum", lengths=lengths.flatten(), initial=0)
    totals = totals.view(size, -1)[:, :-1]
    return torch.where(totals > 0, totals, 1.0)


def _total(flags: Tensor, owner: Tensor, owners: int) -> Tensor:
    """How many flags (E, columns) each owner has, (owners, columns)."""
    return _sums(flags.int(), owner, owners)


def _sums(amounts: Tensor, owner: Tensor, owners: int) -> Tensor:
    """Amounts (E, columns) added up by owner, (owners, columns)."""
    totals = amounts.new_zeros(owners, amounts.shape[1])
    if amounts.shape[1] == 1:  # adding numbers takes less time than adding rows of one number
        totals.view(-1).index_add_(0, owner, amounts[:, 0])
        return totals
    return totals.index_add_(0, owner, amounts)


def _extreme(amounts: Tensor, owner: Tensor, owners: int, which: str, start: float) -> Tensor:
    """The least or the greatest of the amounts (E, columns) of each owner, (owners, columns)."""
    found = amounts.new_full((owners, amounts.shape[1]), start)
    return found.scatter_reduce_(0, owner[:, None].expand(amounts.shape), amounts, which)
