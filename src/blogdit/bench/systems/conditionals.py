"""What every value of a variable would cost, the others fixed: the exact conditionals of the energy.

`energy.move_costs` is a gradient, exact for pairs and objectives only. Here every kind of constraint is exact, and the
work is that of the variables that are asked for. Variables are named by their place 0 .. M - 1 in the batch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from blogdit.method.batch import Batch
from blogdit.method.energy import penalty_weights
from blogdit.method.structure import ScopeTerms

Add = Callable[[Tensor, Tensor], None]  # adds the costs of one kind to (R, m, K), given values (R, M)


class Entries(NamedTuple):
    """The T entries of scopes that have a member; t of them are those of members."""

    kept: Tensor  # (T,) places among the entries of all scopes
    owner: Tensor  # (T,) scope
    scopes: int
    asked: Tensor  # (t,) places of members' entries among the T
    low: Tensor  # (t, 1) bounds of the scope
    high: Tensor


class Conditionals:
    """The costs of some variables of a batch: `costs(values)` (R, m, K) for the m `members`."""

    def __init__(self, batch: Batch, members: Tensor):
        self.batch, self.members, self.device = batch, members, batch.device
        self.place = torch.full((batch.groups * batch.variables,), -1, device=batch.device)  # in the list of members
        self.place[members] = torch.arange(len(members), device=batch.device)
        self.weights = penalty_weights(batch)
        self.fixed = batch.structure.unary.reshape(-1, batch.values)[members]
        self.domain = batch.domain[members]
        s, numbers = batch.structure, torch.arange(batch.values, device=batch.device)
        sized, counted = (s.linear.data[..., None] * numbers).float(), (s.count.data[..., None] == numbers).float()
        self.kinds: list[Add] = [
            self._pairs(),
            self._scopes(s.all_different, "all_different", self._all_different),
            self._sums(s.linear, sized, "linear"),
            self._sums(s.count, counted, "count"),
            self._tables(),
        ]

    def costs(self, values: Tensor) -> Tensor:
        """(R, m, K): entry (i, k) is H with variable i at k and all else as in `values` (R, M), up to a constant for
        each i. Values outside a domain cost infinity."""
        costs = self.fixed.repeat(values.shape[0], 1, 1)
        for add in self.kinds:
            add(costs, values)
        return costs.masked_fill(~self.domain, float("inf"))

    def _weight(self, kind: str) -> Tensor:
        """(G,)"""
        weight = torch.as_tensor(self.weights[kind], dtype=torch.float32, device=self.device)
        return weight.expand(self.batch.groups)

    def _pairs(self) -> Add:
        """Directed terms: x_own = own_value costs `weight` while x_other = other_value; own_value -1: while they are
        equal."""
        s, parts = self.batch.structure, []
        for terms, kind, by_value, sign in (
            (s.not_equal, "not_equal", False, 1.0),
            (s.conflict, "conflict", True, 1.0),
            (s.differ, None, False, -1.0),  # differing earns w: being equal costs -w
            (s.pairwise, None, True, 1.0),
        ):
            amount = sign * terms.weights * (1.0 if kind is None else self._weight(kind)[:, None])
            named = terms.values if by_value else torch.full_like(terms.values, -1)
            for first, second in ((0, 1), (1, 0)):
                place = self.place[self.batch.flat(terms.variables[..., first])]
                rows = [place, named[..., first].reshape(-1), self.batch.flat(terms.variables[..., second])]
                rows += [named[..., second].reshape(-1), amount.reshape(-1)]
                kept = (place >= 0) & (rows[-1] != 0)
                parts.append([row[kept] for row in rows])
        own, own_value, other, other_value, weight = (torch.cat(rows) for rows in zip(*parts, strict=True))
        same = own_value < 0

        def add(costs: Tensor, values: Tensor) -> None:
            now = values[:, other]  # (R, T)
            cell = own * costs.shape[2] + torch.where(same, now, own_value)
            hit = torch.where(same | (now == other_value), weight, 0.0)
            costs.view(len(costs), -1).scatter_add_(1, cell, hit)

        return add

    def _scopes(self, terms: ScopeTerms, kind: str, change: Callable[[Tensor, Entries], Tensor]) -> Add:
        """`change` says what each value of a member costs (R, t, K), from the values of all entries (R, T)."""
        scopes = terms.bounds.shape[1]
        owner = (terms.owner + torch.arange(self.batch.groups, device=self.device)[:, None] * scopes).reshape(-1)
        variable, present = self.batch.flat(terms.variables), terms.present.reshape(-1)
        asked = present & (self.place[variable] >= 0)
        touched = torch.zeros(self.batch.groups * scopes, dtype=torch.bool, device=self.device)
        touched[owner[asked]] = True
        kept = (present & touched[owner]).nonzero()[:, 0]
        bounds = terms.bounds.reshape(-1, 2)[owner[asked]]
        entries = Entries(kept, owner[kept], len(touched), asked[kept].nonzero()[:, 0], bounds[:, :1], bounds[:, 1:])
        weight, own = self._weight(kind).repeat_interleave(scopes)[owner[asked], None], self.place[variable[asked]]
        variable = variable[kept]

        def add(costs: Tensor, values: Tensor) -> None:
            if len(own):
                costs.index_add_(1, own, change(values[:, variable], entries) * weight)

        return add

    def _all_different(self, now: Tensor, entries: Entries) -> Tensor:
        """With the others' counts: a value that occurs costs 1; one that must occur and does not saves 1."""
        numbers = torch.arange(self.batch.values, device=self.device)
        counts = torch.zeros(len(now), entries.scopes * len(numbers), device=self.device)
        counts.scatter_add_(1, entries.owner * len(numbers) + now, torch.ones_like(now, dtype=counts.dtype))
        others = counts.view(len(now), -1, len(numbers))[:, entries.owner[entries.asked]]  # (R, t, K)
        others = others - (now[:, entries.asked, None] == numbers).float()
        return (others > 0.5).float() - ((others < 0.5) & (numbers < entries.low)).float()

    def _sums(self, terms: ScopeTerms, amounts: Tensor, kind: str) -> Add:
        """Distance of a scope's sum from its bounds. `amounts` (G, T, K) are what a value adds to the sum."""
        amounts = amounts.reshape(-1, self.batch.values)

        def change(now: Tensor, entries: Entries) -> Tensor:
            mine = amounts[entries.kept, now]  # (R, T)
            total = torch.zeros(len(now), entries.scopes, device=self.device).index_add_(1, entries.owner, mine)
            others = total[:, entries.owner[entries.asked]] - mine[:, entries.asked]
            sums = others[..., None] + amounts[entries.kept[entries.asked]]  # (R, t, K)
            return functional.relu(sums - entries.high) + functional.relu(entries.low - sums)

        return self._scopes(terms, kind, change)

    def _tables(self) -> Add:
        """A value costs nothing where some tuple has it and fits all the other variables of the scope, else 1."""
        batch, table, device = self.batch, self.batch.structure.table, self.device
        arity, scopes = table.variables.shape[2], table.real.shape[1]
        group = torch.arange(batch.groups, device=device)[:, None, None] * scopes
        pair = (group + table.owner[..., None]) * arity + torch.arange(arity, device=device)  # (G, P, arity)
        cell = (pair * batch.values + table.values.clamp(max=batch.values - 1)).reshape(-1)  # (scope, variable, value)
        variable = torch.full((batch.groups * scopes * arity,), -1, device=device)
        present = table.present.reshape(-1)
        variable[pair.reshape(-1)[present]] = batch.flat(table.variables)[present]
        own = torch.where(variable >= 0, self.place[variable.clamp(min=0)], -1)
        weight, asked = self._weight("table").repeat_interleave(scopes * arity), (own >= 0).nonzero()[:, 0]

        def add(costs: Tensor, values: Tensor) -> None:
            if not len(asked):
                return
            rows, width = len(costs), batch.values
            now = values[:, batch.flat(table.variables)].view(rows, *table.variables.shape)  # (R, G, P, arity)
            wrong = (now != table.values) & table.present
            fits = (wrong.sum(-1, keepdim=True) == wrong.int()) & table.present & (table.values < width)
            allowed = costs.new_zeros(rows, len(variable) * width)
            allowed.index_add_(1, cell, fits.view(rows, -1).float())
            change = (allowed.view(rows, -1, width)[:, asked] < 0.5).float()
            costs.index_add_(1, own[asked], change * weight[asked, None])

        return add
