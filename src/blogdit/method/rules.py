"""What a network is told about constraints and objectives: rules over literals, kind by kind.

A literal is a value of a variable, (i, k). Each rule, or factor, has literals with an amount: "variable i takes one of
its values", "at most one variable of this row takes the value k", "the amounts of true literals add up to 3 at least".

- A sum is a rule over the amount that each value of each of its variables adds. A condition on a sum becomes literals
  with an amount that satisfies it alone: b -> (s >= low) is s + (low - least) [not b] >= low.
- A tuple of a table is a rule of its own, over the literals that make it up.
- The largest, the smallest and a chosen one of some variables: literals have the number that they mean.
- Soft constraints are rules with a weight.

Constraints and terms on two variables are pairs of literals (`in_pairs.py`, `neighbours.py`).

"b exactly where the sum is between two bounds" is told in one direction. The energy knows the other.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from blogdit.method.structure import Structure
from blogdit.method.terms import ALWAYS, DifferentTerms, Entries, FunctionTerms, SumTerms, TableTerms

VARIABLE, EXACTLY_ONE, AT_MOST_ONE, TUPLE, LARGEST, SMALLEST, CHOSEN, SUM = range(8)
FACTOR_KINDS = 8
DIFFERENT_KINDS = 3  # the first ones, all that all-different constraints need
NO_BOUNDS = (-torch.inf, torch.inf)
LIGHTEST = 1e-30  # what a violation costs, at least: a weight of 0 means that a rule must hold
BOUNDS = {VARIABLE: (1.0, 1.0), EXACTLY_ONE: (1.0, 1.0), AT_MOST_ONE: (-torch.inf, 1.0)}


@dataclass(frozen=True)
class Rules:
    """All memberships of G structures, with no thought of givens: entry e says that `place[e]` is in `factor[e]`.

    There is no padding. Factors and entries of a group follow those of the group before.
    """

    factor: Tensor  # (E,) ascending
    place: Tensor  # (E,) (group * N + variable) * K + value, within the domain of the variable or `needed`
    amount: Tensor  # (E,) float64: sums may be large
    needed: Tensor  # (E,) the factor is void if this literal is false
    number: Tensor  # (E,) in a largest or smallest one what the literal means, in a smallest one its opposite; else nan
    term: Tensor  # (E,) numbers the terms of sums: the values of one variable in one sum are one term; -1 elsewhere
    kind: Tensor  # (F,)
    bounds: Tensor  # (F, 2) float64, least and greatest amount of the true literals, infinite where there is none
    weight: Tensor  # (F,) what a violation of a soft constraint costs; 0 where it must hold
    group: Tensor  # (F,)
    terms: int  # terms of sums, in all
    plain: bool  # every amount is 1, and every rule must hold


def build_rules(structure: Structure) -> Rules:
    """Every rule of a structure. The factors of a group are numbered kind by kind."""
    draft = _Draft(structure)
    draft.add_variables()
    for terms, soft in ((structure, False), (structure.soft, True)):
        draft.add_different(terms.all_different, soft)
        draft.add_tables(terms.table, soft)
        draft.add_functions(terms.function, soft)
    for terms, soft in ((structure, False), (structure.soft, True)):
        for sums in (terms.linear, terms.count, terms.sum):
            if sums.weights.shape[1]:
                draft.add_sums(sums, soft)
    return draft.rules()


def most_entries(structure: Structure) -> int:
    """At least as many as the entries of any group."""
    values, entries = structure.domain.shape[2], structure.domain[0].numel()
    for terms in (structure, structure.soft):
        wide = [terms.all_different.members.owner, *(sums.members.owner for sums in (terms.linear, terms.count))]
        entries += values * sum(owner.shape[1] for owner in wide) + terms.table.variables[0].numel()
        entries += (2 * values + 1) * terms.function.places.shape[1]
        passes = 4 if terms.sum.when.shape[1] else 1
        entries += passes * values * (terms.sum.members.owner.shape[1] + terms.sum.when.shape[1])
    return entries


@dataclass
class _Draft:
    """Rules as they are collected, kind by kind."""

    structure: Structure
    # Group, factor within the group, place, amount, needed, number, term.
    entries: list[tuple[Tensor, ...]] = field(default_factory=list)
    factors: list[tuple[Tensor, ...]] = field(default_factory=list)  # (G, F) each: kind, bounds, weight
    taken: int = 0  # factors of a group so far
    terms: int = 0
    plain: bool = True

    def __post_init__(self) -> None:
        self.groups, self.variables, self.values = self.structure.domain.shape
        self.value = torch.arange(self.values, device=self.structure.domain.device)
        self.domain = self.structure.domain & self.structure.real[..., None]

    def add(
        self, group: Tensor, factor: Tensor, place: Tensor, kind: Tensor, amount: Tensor | None = None,
        bounds: Tensor | None = None, weight: Tensor | None = None, needed: Tensor | None = None,
        number: Tensor | None = None, term: Tensor | None = None,
    ) -> None:  # fmt: skip
        """Factors of the kinds (G, F), numbered from 0 here, with entries (n,). A weight is that of soft ones."""
        self.plain &= amount is None and weight is None
        if amount is None:
            amount = torch.ones_like(place, dtype=torch.float64)
        if bounds is None:
            known = [BOUNDS.get(number, NO_BOUNDS) for number in range(FACTOR_KINDS)]
            bounds = torch.tensor(known, dtype=torch.float64, device=kind.device)[kind]
        weight = torch.zeros_like(kind, dtype=torch.float32) if weight is None else weight.clamp(min=LIGHTEST)
        needed = torch.zeros_like(place, dtype=torch.bool) if needed is None else needed
        term = torch.full_like(place, -1) if term is None else self.terms + term
        number = torch.full_like(amount, torch.nan, dtype=torch.float64) if number is None else number
        self.entries.append((group, self.taken + factor, place, amount.double(), needed, number, term))
        self.factors.append((kind, bounds, weight))
        self.taken += kind.shape[1]

    def rules(self) -> Rules:
        group, factor, *columns = (torch.cat(parts) for parts in zip(*self.entries, strict=True))
        kind, bounds, weight = (torch.cat(parts, 1).flatten(0, 1) for parts in zip(*self.factors, strict=True))
        factor = group * self.taken + factor
        used = torch.zeros_like(kind, dtype=torch.bool)
        used[factor] = True  # the others are padding, or rules over nothing
        factor, order = (used.cumsum(0) - 1)[factor].sort(stable=True)
        place, amount, needed, number, term = (column[order] for column in columns)
        numbers = used.nonzero()[:, 0]
        return Rules(
            factor, place, amount, needed, number, term, kind[numbers], bounds[numbers], weight[numbers],
            numbers // max(self.taken, 1), self.terms, self.plain,
        )  # fmt: skip

    def _place(self, group: Tensor, variables: Tensor) -> Tensor:
        """The first literals of variables."""
        return (group * self.variables + variables) * self.values

    def _wide(self, group: Tensor, variables: Tensor) -> tuple[Tensor, Tensor]:
        """The literals of variables (n,): which of the variables, and which value."""
        rows, values = self.domain[group, variables].nonzero().unbind(1)
        return rows, values

    def add_variables(self) -> None:
        """Each variable takes one of its values."""
        group, variable, value = self.domain.nonzero().unbind(1)
        kind = self.value.new_full((self.groups, self.variables), VARIABLE)
        self.add(group, variable, self._place(group, variable) + value, kind)

    def add_different(self, scopes: DifferentTerms, soft: bool) -> None:
        """At most one variable of a scope takes a slot."""
        if not scopes.weights.shape[1]:
            return
        members, width = scopes.members, scopes.width
        group, entry = members.present.nonzero().unbind(1)
        owner, variables = members.owner[group, entry], members.variables[group, entry]
        rows, values = self._wide(group, variables)
        slots = scopes.slots[group[rows], entry[rows], values] if scopes.slots.shape[1] else values
        must_occur = torch.arange(width, device=self.value.device) < scopes.required[..., None]
        kind = torch.where(must_occur, EXACTLY_ONE, AT_MOST_ONE)
        self.add(
            group[rows],
            owner[rows] * width + slots,
            self._place(group, variables)[rows] + values,
            kind.flatten(1),
            weight=scopes.weights[..., None].expand(kind.shape).flatten(1) if soft else None,
        )

    def add_tables(self, tables: TableTerms, soft: bool) -> None:
        """Each tuple is a rule. The more of them a table has, the less each says to a literal."""
        if not tables.weights.shape[1]:
            return
        present = tables.present
        counts = torch.zeros_like(tables.weights).scatter_add_(1, tables.owner, present.any(-1).float())
        sizes = self.structure.domain.sum(-1).gather(1, tables.variables.flatten(1)).view(present.shape)
        widest = torch.where(present, sizes, 1).amax(-1)  # values of a variable of the table
        amount = (widest / counts.gather(1, tables.owner).clamp(min=1)).clamp(max=1)
        group, number, column = present.nonzero().unbind(1)
        place = self._place(group, tables.variables[group, number, column]) + tables.values[group, number, column]
        self.add(
            group,
            number,
            place,
            torch.full_like(tables.owner, TUPLE),
            amount=amount[group, number],
            needed=torch.ones_like(place, dtype=torch.bool),
            weight=tables.weights.gather(1, tables.owner) if soft else None,
        )

    def add_functions(self, terms: FunctionTerms, soft: bool) -> None:
        """The result and what it comes from. Where an index chooses, each choice is a rule of its own."""
        scopes = terms.weights.shape[1]
        if not scopes:
            return
        is_element = terms.is_element.gather(1, terms.entries.owner)
        # An index has no value for what lies beyond its last one.
        inside = terms.entries.present & ~(is_element & (terms.places >= self.values))
        group, entry = inside.nonzero().unbind(1)
        owner, place = terms.entries.owner[group, entry], terms.places[group, entry]
        chosen, variables, results = is_element[group, entry], terms.entries.variables[group, entry], terms.results
        results, index = results[group, owner], terms.index[group, owner]
        factor = torch.where(chosen, scopes + entry, owner)
        tell = chosen | (place == 0)  # the result of a largest one is told once
        of_entries, of_results = self._heights(group, variables), self._heights(group, results)
        amount = torch.cat([of_entries, -of_results, torch.ones_like(of_results[:, :1])], 1)
        signs = torch.where(chosen, torch.nan, terms.signs[group, owner].double())[:, None]
        meant = signs * torch.cat([self._numbers(group, variables), self._numbers(group, results), signs], 1)
        literals = [
            self._place(group, variables)[:, None] + self.value,
            self._place(group, results)[:, None] + self.value,
            (self._place(group, index) + place.clamp(max=self.values - 1))[:, None],
        ]
        flags = [self.domain[group, variables], self.domain[group, results] & tell[:, None], chosen[:, None]]
        rows, columns = torch.cat(flags, 1).nonzero().unbind(1)
        needed = columns == 2 * self.values  # an index that cannot choose it
        first, amount = merged(
            factor[rows] + group[rows] * (scopes + inside.shape[1]), torch.cat(literals, 1)[rows, columns],
            amount[rows, columns],
        )  # fmt: skip
        rows, columns, needed = rows[first], columns[first], needed[first]
        whole = torch.where(terms.signs > 0, LARGEST, SMALLEST)
        self.add(
            group[rows],
            factor[rows],
            torch.cat(literals, 1)[rows, columns],
            torch.cat([whole, torch.full_like(terms.places, CHOSEN)], 1),
            amount,
            weight=torch.cat([terms.weights, terms.weights.gather(1, terms.entries.owner)], 1) if soft else None,
            needed=needed,
            number=meant[rows, columns],
        )

    def _heights(self, group: Tensor, variables: Tensor) -> Tensor:
        """What the values of variables (n,) mean, from near 0 to 1, (n, K)."""
        numbers, domain = self._numbers(group, variables), self.structure.domain[group, variables]
        least = torch.where(domain, numbers, torch.inf).amin(-1, keepdim=True)
        greatest = torch.where(domain, numbers, -torch.inf).amax(-1, keepdim=True)
        return ((numbers - least + 1) / (greatest - least + 1)).clamp(0, 1)

    def _numbers(self, group: Tensor, variables: Tensor) -> Tensor:
        numbers = self.structure.numbers
        if not numbers.shape[1]:
            return self.value.double().expand(len(variables), -1)
        return numbers[group, variables].double()

    def add_sums(self, sums: SumTerms, soft: bool) -> None:
        """Each sum; of those with a condition, each bound on its own."""
        group, entry = sums.members.present.nonzero().unbind(1)
        owner, variables = sums.members.owner[group, entry], sums.members.variables[group, entry]
        amount, weight = self._sum_amounts(sums, group, owner, variables), sums.weights if soft else None
        low, high = (
            torch.where(bound.isinf(), bound.double(), limit.double())
            for bound, limit in zip(sums.bounds.unbind(-1), sums.limits.unbind(-1), strict=True)
        )
        if not sums.when.shape[1]:
            self._add_sums(group, owner, variables, amount, low, high, weight)
            return
        domain = self.structure.domain[group, variables]
        cells = group * low.shape[1] + owner
        least, most = (
            torch.zeros_like(low).flatten().index_add_(0, cells, part).view_as(low)
            for part in (
                torch.where(domain, amount, torch.inf).amin(-1),
                torch.where(domain, amount, -torch.inf).amax(-1),
            )
        )
        condition, value, truth = sums.when.unbind(-1)
        always = truth == ALWAYS
        nothing = torch.full_like(low, torch.inf)
        # Where it counts: bounds, who has them, and the truth of the literal that lifts them.
        passes = [
            (low, torch.where(always, high, nothing), torch.ones_like(always), truth != 1),
            (-nothing, high, ~always, truth != 1),
        ]
        if sums.exactly.any():  # and where it does not
            one_sided = sums.exactly & (low.isinf() | high.isinf()) & ~always
            passes += [(-nothing, low - 1, one_sided, truth == 1), (high + 1, nothing, one_sided, truth == 1)]
        for lowest, highest, used, lifting in passes:
            used = used & (lowest.isfinite() | highest.isfinite())
            gap = torch.where(lowest.isfinite(), lowest - least, highest - most)  # what lifts it, of either sign
            counts = used[group, owner].nonzero()[:, 0]
            of, number = (used & ~always).nonzero().unbind(1)
            lifts = (self.value == value[of, number][:, None]) == lifting[of, number][:, None]
            self._add_sums(
                torch.cat([group[counts], of]),
                torch.cat([owner[counts], number]),
                torch.cat([variables[counts], condition[of, number]]),
                torch.cat([amount[counts], gap[of, number][:, None] * lifts]),
                torch.where(used, lowest, -torch.inf),
                torch.where(used, highest, torch.inf),
                weight,
            )

    def _add_sums(
        self, group: Tensor, owner: Tensor, variables: Tensor, amount: Tensor,
        low: Tensor, high: Tensor, weight: Tensor | None,
    ) -> None:  # fmt: skip
        """Terms (n,) with an amount for each value, (n, K)."""
        rows, values = self._wide(group, variables)
        place = self._place(group, variables)[rows] + values
        first, amounts = merged((group * low.shape[1] + owner)[rows], place, amount[rows, values])
        rows, place = rows[first], place[first]
        kind, bounds = torch.full_like(low, SUM, dtype=torch.int64), torch.stack([low, high], -1)
        self.add(group[rows], owner[rows], place, kind, amounts, bounds, weight, term=rows)
        self.terms += len(group)

    def _sum_amounts(self, sums: SumTerms, group: Tensor, owner: Tensor, variables: Tensor) -> Tensor:
        """What each value of each member (n,) adds to its sum, (n, K)."""
        scopes = sums.weights.shape[1]
        found = torch.zeros(len(group), self.values, dtype=torch.float64, device=self.value.device)
        keys, order = ((group * scopes + owner) * self.variables + variables).sort()

        def real(entries: Entries) -> tuple[Tensor, Tensor, Tensor]:
            """Of those that add something: group, entry, and the member that they belong to."""
            of, entry = entries.amounts.nonzero().unbind(1)
            own = (of * scopes + entries.owner[of, entry]) * self.variables + entries.variables[of, entry]
            return of, entry, order[torch.searchsorted(keys, own)]

        if sums.numbers.owner.shape[1]:
            of, entry, row = real(sums.numbers)
            numbers = self._numbers(of, sums.numbers.variables[of, entry])
            found.index_add_(0, row, numbers * sums.numbers.amounts[of, entry][:, None])
        if sums.literals.owner.shape[1]:
            of, entry, row = real(sums.literals)
            cells = row * self.values + sums.literals.values[of, entry]
            found.flatten().index_add_(0, cells, sums.literals.amounts[of, entry].double())
        return found


def merged(owner: Tensor, place: Tensor, amounts: Tensor) -> tuple[Tensor, Tensor]:
    """Entries (n,) with the same owner and place become the first of them, with the sum of their amounts: which ones
    are the first, in their order, and the amounts of these."""
    places = int(place.max()) + 1 if len(place) else 1
    ordered, order = (owner * places + place).sort(stable=True)
    starts = torch.ones_like(ordered, dtype=torch.bool)
    starts[1:] = ordered[1:] != ordered[:-1]
    if bool(starts.all()):
        return torch.arange(len(order), device=order.device), amounts
    totals = amounts.new_zeros(len(order)).index_add_(0, starts.cumsum(0) - 1, amounts[order])
    first, back = order[starts].sort()
    return first, totals[: len(first)][back]
