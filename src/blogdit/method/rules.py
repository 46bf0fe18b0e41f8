"""What a network is told about constraints and objectives: rules over literals, one row of tensors for each kind.

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
from blogdit.method.terms import ALWAYS, DifferentTerms, FunctionTerms, SumTerms, TableTerms

VARIABLE, EXACTLY_ONE, AT_MOST_ONE, TUPLE, LARGEST, SMALLEST, CHOSEN, SUM = range(8)
FACTOR_KINDS = 8
DIFFERENT_KINDS = 3  # the first ones, all that all-different constraints need
NO_BOUNDS = (-torch.inf, torch.inf)
LIGHTEST = 1e-30  # what a violation costs, at least: a weight of 0 means that a rule must hold
BOUNDS = {VARIABLE: (1.0, 1.0), EXACTLY_ONE: (1.0, 1.0), AT_MOST_ONE: (-torch.inf, 1.0)}


@dataclass(frozen=True)
class Rules:
    """All memberships of a structure, with no thought of givens: entry e says that `place[e]` is in `factor[e]`.

    Entries from `sums` on belong to sums. There each variable has K entries side by side, one for each value.
    """

    factor: Tensor  # (G, E), ascending
    place: Tensor  # (G, E) variable * K + value
    present: Tensor  # (G, E) false in padding
    amount: Tensor  # (G, E) float64: sums may be large
    needed: Tensor  # (G, E) the factor is void if this literal is false
    kind: Tensor  # (G, F)
    bounds: Tensor  # (G, F, 2) float64, least and greatest amount of the true literals, infinite where there is none
    weight: Tensor  # (G, F) what a violation of a soft constraint costs; 0 where it must hold
    sums: int
    plain: bool  # every amount is 1, and every rule must hold


def build_rules(structure: Structure) -> Rules:
    """Every rule of a structure. Factors are numbered kind by kind."""
    draft = _Draft(structure)
    draft.add_variables()
    for terms, soft in ((structure, False), (structure.soft, True)):
        draft.add_different(terms.all_different, soft)
        draft.add_tables(terms.table, soft)
        draft.add_functions(terms.function, soft)
    draft.begin_sums()
    for terms, soft in ((structure, False), (structure.soft, True)):
        for sums in (terms.linear, terms.count, terms.sum):
            if sums.weights.shape[1]:
                draft.add_sums(sums, soft)
    return draft.rules()


@dataclass
class _Draft:
    """Rules as they are collected, kind by kind."""

    structure: Structure
    entries: list[tuple[Tensor, ...]] = field(default_factory=list)  # factor, place, present, amount, needed
    factors: list[tuple[Tensor, ...]] = field(default_factory=list)  # kind, bounds, weight
    taken: int = 0  # factors so far
    plain: bool = True
    first_sum: int = 0  # entry

    def __post_init__(self) -> None:
        self.groups, self.variables, self.values = self.structure.domain.shape
        self.value = torch.arange(self.values, device=self.structure.domain.device)

    def add(
        self, factor: Tensor, place: Tensor, present: Tensor, kind: Tensor,
        amount: Tensor | None = None, bounds: Tensor | None = None, weight: Tensor | None = None,
        needed: Tensor | None = None,
    ) -> None:  # fmt: skip
        """Factors of the kinds (G, F), numbered from 0 here, with entries (G, ...). A weight is that of soft ones."""
        self.plain &= amount is None and weight is None
        if amount is None:
            amount = torch.ones_like(place, dtype=torch.float64)
        if needed is None:
            needed = torch.zeros_like(present)
        if bounds is None:
            known = [BOUNDS.get(number, NO_BOUNDS) for number in range(FACTOR_KINDS)]
            bounds = torch.tensor(known, dtype=torch.float64, device=kind.device)[kind]
        weight = torch.zeros_like(kind, dtype=torch.float32) if weight is None else weight.clamp(min=LIGHTEST)
        parts = (self.taken + factor, place, present, amount.double(), needed)
        self.entries.append(tuple(part.flatten(1) for part in parts))
        self.factors.append((kind, bounds, weight))
        self.taken += kind.shape[1]

    def rules(self) -> Rules:
        factor, place, present, amount, needed = (torch.cat(parts, 1) for parts in zip(*self.entries, strict=True))
        kind, bounds, weight = (torch.cat(parts, 1) for parts in zip(*self.factors, strict=True))
        factor, order = factor.sort(dim=1, stable=True)
        place, present, amount, needed = (part.gather(1, order) for part in (place, present, amount, needed))
        amount, present = merged(factor * (self.variables * self.values) + place, amount, present)
        return Rules(factor, place, present, amount, needed, kind, bounds, weight, self.first_sum, self.plain)

    def begin_sums(self) -> None:
        self.first_sum = sum(entries[0].shape[1] for entries in self.entries)

    def add_variables(self) -> None:
        """Each variable takes one of its values."""
        every = torch.arange(self.variables * self.values, device=self.value.device).expand(self.groups, -1)
        kind = every.new_full((self.groups, self.variables), VARIABLE)
        self.add(every // self.values, every, torch.ones_like(every, dtype=torch.bool), kind)

    def add_different(self, scopes: DifferentTerms, soft: bool) -> None:
        """At most one variable of a scope takes a slot."""
        if not scopes.weights.shape[1]:
            return
        members, width = scopes.members, scopes.width
        slots = scopes.slots if scopes.slots.shape[1] else self.value
        needed = torch.arange(width, device=self.value.device) < scopes.required[..., None]
        kind = torch.where(needed, EXACTLY_ONE, AT_MOST_ONE)
        self.add(
            members.owner[..., None] * width + slots,
            members.variables[..., None] * self.values + self.value,
            members.present[..., None].expand(*members.present.shape, self.values),
            kind.flatten(1),
            weight=scopes.weights[..., None].expand(kind.shape).flatten(1) if soft else None,
        )

    def add_tables(self, tables: TableTerms, soft: bool) -> None:
        """Each tuple is a rule. The more of them a table has, the less each says to a literal."""
        if not tables.weights.shape[1]:
            return
        present = tables.present
        real = present.any(-1)
        number = torch.arange(real.shape[1], device=real.device).expand(real.shape)
        counts = torch.zeros_like(tables.weights).scatter_add_(1, tables.owner, real.float())
        sizes = self.structure.domain.sum(-1).gather(1, tables.variables.flatten(1)).view(present.shape)
        widest = torch.where(present, sizes, 1).amax(-1)  # values of a variable of the table
        amount = (widest / counts.gather(1, tables.owner).clamp(min=1)).clamp(max=1)
        self.add(
            number[..., None].expand(present.shape),
            tables.variables * self.values + tables.values,
            present,
            torch.full_like(number, TUPLE),
            amount=amount[..., None].expand(present.shape),
            needed=present,
            weight=tables.weights.gather(1, tables.owner) if soft else None,
        )

    def add_functions(self, terms: FunctionTerms, soft: bool) -> None:
        """The result and what it comes from. Where an index chooses, each choice is a rule of its own."""
        scopes = terms.weights.shape[1]
        if not scopes:
            return
        owner = terms.entries.owner
        is_element = terms.is_element.gather(1, owner)
        own = scopes + torch.arange(owner.shape[1], device=owner.device)
        factor = torch.where(is_element, own, owner)
        results = terms.results.gather(1, owner)
        index = terms.index.gather(1, owner)
        last = self.values - 1
        inside = terms.entries.present & ~(is_element & (terms.places > last))
        chosen = index * self.values + terms.places.clamp(max=last)
        whole = torch.where(terms.signs > 0, LARGEST, SMALLEST)
        kind = torch.cat([whole, torch.full_like(owner, CHOSEN)], 1)

        def literals(variables: Tensor) -> Tensor:
            return variables[..., None] * self.values + self.value

        first = terms.places == 0  # the result of a largest one is told once
        tell = inside & (is_element | first)
        place = torch.cat([literals(terms.entries.variables), literals(results), chosen[..., None]], 2)
        wide = (-1, -1, self.values)
        flags = inside[..., None].expand(wide), tell[..., None].expand(wide), (inside & is_element)[..., None]
        present = torch.cat(flags, 2)
        needed = torch.zeros_like(present)
        needed[..., -1] = True  # an index that cannot choose it
        of_entries, of_results = self._heights(terms.entries.variables), self._heights(results)
        amount = torch.cat([of_entries, -of_results, torch.ones_like(of_results[..., :1])], 2)
        weight = torch.cat([terms.weights, terms.weights.gather(1, owner)], 1) if soft else None
        self.add(factor[..., None].expand(place.shape), place, present, kind, amount, weight=weight, needed=needed)

    def _heights(self, variables: Tensor) -> Tensor:
        """What the values of variables (G, T) mean, from near 0 to 1, (G, T, K)."""
        numbers = self._numbers(variables)
        domain = self._rows(self.structure.domain, variables)
        least = torch.where(domain, numbers, torch.inf).amin(-1, keepdim=True)
        greatest = torch.where(domain, numbers, -torch.inf).amax(-1, keepdim=True)
        return ((numbers - least + 1) / (greatest - least + 1)).clamp(0, 1)

    def _numbers(self, variables: Tensor) -> Tensor:
        numbers = self.structure.numbers
        if not numbers.shape[1]:
            return self.value.double().expand(*variables.shape, -1)
        return self._rows(numbers, variables).double()

    def _rows(self, table: Tensor, variables: Tensor) -> Tensor:
        """Rows of a table (G, N, K) at variables (G, T)."""
        return table.gather(1, variables[..., None].expand(-1, -1, self.values))

    def add_sums(self, sums: SumTerms, soft: bool) -> None:
        """Each sum; of those with a condition, each bound on its own."""
        variables, owner, present = sums.members.variables, sums.members.owner, sums.members.present
        amount, weight = self._sum_amounts(sums), sums.weights if soft else None
        low, high = (
            torch.where(bound.isinf(), bound.double(), limit.double())
            for bound, limit in zip(sums.bounds.unbind(-1), sums.limits.unbind(-1), strict=True)
        )
        if not sums.when.shape[1]:
            self._add_sums(variables, owner, present, amount, low, high, weight)
            return
        domain = self._rows(self.structure.domain, variables)
        least, most = (
            torch.zeros_like(low).scatter_add_(1, owner, torch.where(present, part, 0.0))
            for part in (
                torch.where(domain, amount, torch.inf).amin(-1),
                torch.where(domain, amount, -torch.inf).amax(-1),
            )
        )
        condition, value, truth = sums.when.unbind(-1)
        always = truth == ALWAYS
        is_value = self.value == value[..., None]  # (G, S, K)
        active = torch.where((truth == 1)[..., None], is_value, ~is_value)
        nothing = torch.full_like(low, torch.inf)
        # Where it counts: bounds, who has them, and the literals that lift them.
        passes = [
            (low, torch.where(always, high, nothing), torch.ones_like(always), ~active),
            (-nothing, high, ~always, ~active),
        ]
        if sums.exactly.any():  # and where it does not
            one_sided = sums.exactly & (low.isinf() | high.isinf()) & ~always
            passes += [(-nothing, low - 1, one_sided, active), (high + 1, nothing, one_sided, active)]
        number = torch.arange(low.shape[1], device=low.device).expand(low.shape)
        for lowest, highest, used, lifts in passes:
            used = used & (lowest.isfinite() | highest.isfinite())
            gap = torch.where(lowest.isfinite(), lowest - least, highest - most)  # what lifts it, of either sign
            gap = torch.where(always | ~used, 0.0, gap)
            self._add_sums(
                torch.cat([variables, condition], 1),
                torch.cat([owner, number], 1),
                torch.cat([present & used.gather(1, owner), used & ~always], 1),
                torch.cat([amount, gap[..., None] * lifts], 1),
                torch.where(used, lowest, -torch.inf),
                torch.where(used, highest, torch.inf),
                weight,
            )

    def _add_sums(
        self, variables: Tensor, owner: Tensor, present: Tensor, amount: Tensor,
        low: Tensor, high: Tensor, weight: Tensor | None,
    ) -> None:  # fmt: skip
        self.add(
            owner[..., None].expand(amount.shape),
            variables[..., None] * self.values + self.value,
            present[..., None].expand(amount.shape),
            torch.full_like(low, SUM, dtype=torch.int64),
            amount=amount,
            bounds=torch.stack([low, high], -1),
            weight=weight,
        )

    def _sum_amounts(self, sums: SumTerms) -> Tensor:
        """What each value of each member adds to its sum, (G, T, K)."""
        members, scopes = sums.members, sums.weights.shape[1]
        unused = scopes * self.variables  # the key of padding
        keys = torch.where(members.present, members.owner * self.variables + members.variables, unused)
        keys, order = keys.sort(dim=1)
        found = torch.zeros(*members.variables.shape, self.values, dtype=torch.float64, device=self.value.device)

        def at(owner: Tensor, variables: Tensor) -> Tensor:
            place = torch.searchsorted(keys, owner * self.variables + variables).clamp(max=keys.shape[1] - 1)
            return order.gather(1, place)

        if sums.numbers.owner.shape[1]:
            entries = sums.numbers
            added = self._numbers(entries.variables).double() * entries.amounts[..., None]
            rows = at(entries.owner, entries.variables)[..., None].expand(added.shape)
            found.scatter_add_(1, rows, added)
        if sums.literals.owner.shape[1]:
            entries = sums.literals
            cells = at(entries.owner, entries.variables) * self.values + entries.values
            found.flatten(1).scatter_add_(1, cells, entries.amounts.double())
        return found


def merged(keys: Tensor, amounts: Tensor, present: Tensor) -> tuple[Tensor, Tensor]:
    """Entries (B, E) that are present and have one key become the first of them, with the sum of their amounts."""
    none = keys.new_tensor(torch.iinfo(keys.dtype).max)
    ordered, order = torch.where(present, keys, none).sort(dim=1, stable=True)
    starts = torch.ones_like(present)
    starts[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    if bool((starts | (ordered == none)).all()):
        return amounts, present
    group = starts.long().cumsum(1) - 1
    held = torch.where(present, amounts, 0.0).gather(1, order)
    totals = torch.zeros_like(held).scatter_add_(1, group, held)
    first = starts & (ordered != none)
    amounts = torch.zeros_like(amounts).scatter_(1, order, torch.where(first, totals.gather(1, group), 0.0))
    return amounts, torch.zeros_like(present).scatter_(1, order, first)
