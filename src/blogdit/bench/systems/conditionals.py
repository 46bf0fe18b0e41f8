"""What every value of a variable would cost, the others fixed: the exact conditionals of the energy.

`energy.move_costs` is a gradient, exact for pairs and objectives only. Here every kind of constraint is exact, and the
work is that of the variables that are asked for. Variables are named by their place 0 .. M - 1 in the batch.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from blogdit.method.batch import Batch
from blogdit.method.energy import penalty_weights
from blogdit.method.structure import ScopeTerms


@dataclass(frozen=True)
class _Pairs:
    """Directed terms: x_own = own_value costs `weight` while x_other = other_value; own_value -1: while they are
    equal. `own` is a place in the list of variables that are asked for."""

    own: Tensor  # (T,)
    own_value: Tensor
    other: Tensor
    other_value: Tensor
    weight: Tensor


@dataclass(frozen=True)
class _Scopes:
    """All T entries of scopes with a variable that is asked for, and which t of them are of such variables. `add` is
    what a value adds to its scope's sum; for all_different it is unused."""

    count: int  # S, of all scopes
    owner: Tensor  # (T,) scope
    variable: Tensor  # (T,) place in 0 .. M - 1
    add: Tensor  # (T, K)
    asked: Tensor  # (t,) places in the entries above
    own: Tensor  # (t,) place in the list of variables that are asked for
    low: Tensor  # (t, 1) bounds of the scope
    high: Tensor
    weight: Tensor  # (t, 1)


@dataclass(frozen=True)
class _Tables:
    """Where an allowed tuple says yes to a value: `cell` (G * P * arity,) of all (scope, variable, value) triples; and
    which (scope, variable) pairs are of variables that are asked for."""

    cell: Tensor
    pairs: int  # (scope, variable)
    asked: Tensor  # (t,) of these
    own: Tensor  # (t,)
    weight: Tensor  # (t, 1)


class Conditionals:
    """The costs of some variables of a batch: `costs(values)` (R, m, K) for the m `members`."""

    def __init__(self, batch: Batch, members: Tensor):
        self.batch, self.members = batch, members
        self.place = torch.full((batch.groups * batch.variables,), -1, device=batch.device)
        self.place[members] = torch.arange(len(members), device=batch.device)
        self.weights = penalty_weights(batch)
        self.fixed = batch.structure.unary.reshape(-1, batch.values)[members]
        self.domain = batch.domain[members]
        self.pairs = self._pairs()
        s, numbers = batch.structure, torch.arange(batch.values, device=batch.device)
        nothing = torch.zeros(*s.all_different.owner.shape, batch.values, device=batch.device)
        self.all_different = self._scopes(s.all_different, nothing, "all_different")
        self.sums = [
            self._scopes(s.linear, (s.linear.data[..., None] * numbers).float(), "linear"),
            self._scopes(s.count, (s.count.data[..., None] == numbers).float(), "count"),
        ]
        self.tables = self._tables()

    def _weight(self, kind: str) -> Tensor:
        """(G,)"""
        weight = torch.as_tensor(self.weights[kind], dtype=torch.float32, device=self.batch.device)
        return weight.expand(self.batch.groups)

    def _pairs(self) -> _Pairs:
        s, parts = self.batch.structure, []
        for terms, kind, by_value, sign in (
            (s.not_equal, "not_equal", False, 1.0),
            (s.conflict, "conflict", True, 1.0),
            (s.differ, None, False, -1.0),  # differing earns w: being equal costs -w
            (s.pairwise, None, True, 1.0),
        ):
            weight = sign * terms.weights * (1.0 if kind is None else self._weight(kind)[:, None])
            values = terms.values if by_value else torch.full_like(terms.values, -1)
            for own, other in ((0, 1), (1, 0)):
                place = self.place[self.batch.flat(terms.variables[..., own])]
                rows = [place, values[..., own].reshape(-1), self.batch.flat(terms.variables[..., other])]
                rows += [values[..., other].reshape(-1), weight.reshape(-1)]
                kept = (place >= 0) & (rows[-1] != 0)
                parts.append([row[kept] for row in rows])
        return _Pairs(*(torch.cat(rows) for rows in zip(*parts, strict=True)))

    def _scopes(self, terms: ScopeTerms, add: Tensor, kind: str) -> _Scopes:
        scopes = terms.bounds.shape[1]
        owner = (terms.owner + torch.arange(self.batch.groups, device=self.batch.device)[:, None] * scopes).reshape(-1)
        variable, present = self.batch.flat(terms.variables), terms.present.reshape(-1)
        asked = present & (self.place[variable] >= 0)
        touched = torch.zeros(self.batch.groups * scopes, dtype=torch.bool, device=self.batch.device)
        touched[owner[asked]] = True
        kept = present & touched[owner]
        bounds = terms.bounds.reshape(-1, 2)[owner[asked]]
        return _Scopes(
            len(touched),
            owner[kept],
            variable[kept],
            add.reshape(-1, self.batch.values)[kept],
            asked[kept].nonzero()[:, 0],
            self.place[variable[asked]],
            bounds[:, :1],
            bounds[:, 1:],
            self._weight(kind).repeat_interleave(scopes)[owner[asked], None],
        )

    def _tables(self) -> _Tables:
        batch, table = self.batch, self.batch.structure.table
        arity, scopes, device = table.variables.shape[2], table.real.shape[1], batch.device
        pairs = batch.groups * scopes * arity
        group = torch.arange(batch.groups, device=device)[:, None, None] * scopes
        place = (group + table.owner[..., None]) * arity + torch.arange(arity, device=device)  # (G, P, arity)
        cell = place * batch.values + table.values.clamp(max=batch.values - 1)
        variable = torch.full((pairs,), -1, device=device)
        present = table.present.reshape(-1)
        variable[place.reshape(-1)[present]] = batch.flat(table.variables)[present]
        own = torch.where(variable >= 0, self.place[variable.clamp(min=0)], -1)
        weight = self._weight("table").repeat_interleave(scopes * arity)
        asked = (own >= 0).nonzero()[:, 0]
        return _Tables(cell.reshape(-1), pairs, asked, own[asked], weight[asked, None])

    def costs(self, values: Tensor) -> Tensor:
        """(R, m, K): entry (i, k) is H with variable i at k and all else as in `values` (R, M), up to a constant for
        each i. Values outside a domain cost infinity."""
        rows, width = values.shape[0], self.batch.values
        flat = self.fixed.reshape(1, -1).repeat(rows, 1)  # (R, m * K)
        pairs, now = self.pairs, values[:, self.pairs.other]  # (R, T)
        same = pairs.own_value < 0
        cell = pairs.own * width + torch.where(same, now, pairs.own_value)
        flat.scatter_add_(1, cell, torch.where(same | (now == pairs.other_value), pairs.weight, 0.0))
        costs = flat.view(rows, -1, width)
        self._add_all_different(costs, values)
        for scopes in self.sums:
            self._add_sums(costs, scopes, values)
        self._add_tables(costs, values)
        return costs.masked_fill(~self.domain, float("inf"))

    def _add_all_different(self, costs: Tensor, values: Tensor) -> None:
        """With the others' counts: a value that occurs costs 1; one that must occur and does not saves 1."""
        scopes, width = self.all_different, self.batch.values
        if not len(scopes.asked):
            return
        now = values[:, scopes.variable]  # (R, T)
        counts = torch.zeros(values.shape[0], scopes.count * width, device=values.device)
        counts.scatter_add_(1, scopes.owner * width + now, torch.ones_like(now, dtype=counts.dtype))
        others = counts.view(len(counts), -1, width)[:, scopes.owner[scopes.asked]]  # (R, t, K)
        numbers = torch.arange(width, device=values.device)
        others = others - (now[:, scopes.asked, None] == numbers).float()
        change = (others > 0.5).float() - ((others < 0.5) & (numbers < scopes.low)).float()
        costs.index_add_(1, scopes.own, change * scopes.weight)

    def _add_sums(self, costs: Tensor, scopes: _Scopes, values: Tensor) -> None:
        """Distance of a scope's sum from its bounds."""
        if not len(scopes.asked):
            return
        now = values[:, scopes.variable]
        own = scopes.add[torch.arange(len(scopes.add), device=values.device), now]  # (R, T)
        total = torch.zeros(values.shape[0], scopes.count, device=values.device)
        total.index_add_(1, scopes.owner, own)
        others = total[:, scopes.owner[scopes.asked]] - own[:, scopes.asked]
        sums = others[..., None] + scopes.add[scopes.asked]  # (R, t, K)
        outside = functional.relu(sums - scopes.high) + functional.relu(scopes.low - sums)
        costs.index_add_(1, scopes.own, outside * scopes.weight)

    def _add_tables(self, costs: Tensor, values: Tensor) -> None:
        """A value costs nothing where some tuple has it and fits all the other variables of the scope, else 1."""
        tables, table = self.tables, self.batch.structure.table
        if not len(tables.asked):
            return
        rows, width = values.shape[0], self.batch.values
        now = values[:, self.batch.flat(table.variables)].view(rows, *table.variables.shape)  # (R, G, P, arity)
        wrong = (now != table.values) & table.present
        fits = (wrong.sum(-1, keepdim=True) == wrong.int()) & table.present & (table.values < width)
        allowed = torch.zeros(rows, tables.pairs * width, device=values.device)
        allowed.index_add_(1, tables.cell, fits.view(rows, -1).float())
        change = (allowed.view(rows, -1, width)[:, tables.asked] < 0.5).float()
        costs.index_add_(1, tables.own, change * tables.weight)
