"""What every value of a variable would cost, the others fixed: the exact conditionals of the energy.

`energy.move_costs` is a gradient, exact for pairs and objectives only. Here every kind of constraint is exact, and the
work is that of the variables that are asked for. Variables are named by their place 0 .. M - 1 in the batch.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from blogdit.batch import Batch, ScopeTerms
from blogdit.energy import penalty_weights


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
    """Entries of scopes. `add` (T, K) is what a value adds to its scope's sum; for all_different it is unused."""

    owner: Tensor  # (T,) scope
    variable: Tensor  # (T,) place in 0 .. M - 1
    add: Tensor
    own: Tensor  # (T,) place in the list of variables that are asked for, -1 if it is not in it
    bounds: Tensor  # (S, 2)
    weight: Tensor  # (S,)


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
        return _Scopes(
            owner[present],
            variable[present],
            add.reshape(-1, self.batch.values)[present],
            self.place[variable[present]],
            terms.bounds.reshape(-1, 2),
            self._weight(kind).repeat_interleave(scopes),
        )

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
        asked = scopes.own >= 0
        if not asked.any():
            return
        now = values[:, scopes.variable]  # (R, T)
        counts = torch.zeros(values.shape[0], len(scopes.bounds) * width, device=values.device)
        counts.scatter_add_(1, scopes.owner * width + now, torch.ones_like(now, dtype=counts.dtype))
        owner = scopes.owner[asked]
        others = counts.view(len(counts), -1, width)[:, owner]  # (R, t, K)
        others = others - functional.one_hot(now[:, asked], width)
        required = torch.arange(width, device=values.device) < scopes.bounds[owner, :1]
        change = (others > 0.5).float() - ((others < 0.5) & required).float()
        costs.index_add_(1, scopes.own[asked], change * scopes.weight[owner][:, None])

    def _add_sums(self, costs: Tensor, scopes: _Scopes, values: Tensor) -> None:
        """Distance of a scope's sum from its bounds."""
        asked = scopes.own >= 0
        if not asked.any():
            return
        now = values[:, scopes.variable]
        own = scopes.add[torch.arange(len(scopes.add), device=values.device), now]  # (R, T)
        total = torch.zeros(values.shape[0], len(scopes.bounds), device=values.device)
        total.index_add_(1, scopes.owner, own)
        owner = scopes.owner[asked]
        sums = (total[:, owner] - own[:, asked])[..., None] + scopes.add[asked]  # (R, t, K)
        low, high = scopes.bounds[owner, :1], scopes.bounds[owner, 1:]
        outside = functional.relu(sums - high) + functional.relu(low - sums)
        costs.index_add_(1, scopes.own[asked], outside * scopes.weight[owner][:, None])

    def _add_tables(self, costs: Tensor, values: Tensor) -> None:
        """A value costs nothing where some tuple has it and fits all the other variables of the scope, else 1."""
        batch, table = self.batch, self.batch.structure.table
        arity, scopes = table.variables.shape[2], table.real.shape[1]
        if not (arity and scopes):
            return
        rows, width = values.shape[0], batch.values
        now = values[:, batch.flat(table.variables)].view(rows, *table.variables.shape)  # (R, G, P, arity)
        wrong = (now != table.values) & table.present
        fits = (wrong.sum(-1, keepdim=True) == wrong.int()) & table.present & (table.values < width)
        group = torch.arange(batch.groups, device=values.device)[:, None, None] * scopes
        place = (group + table.owner[..., None]) * arity + torch.arange(arity, device=values.device)  # (G, P, arity)
        cell = place * width + table.values.clamp(max=width - 1)
        allowed = torch.zeros(rows, batch.groups * scopes * arity * width, device=values.device)
        allowed.index_add_(1, cell.reshape(-1), fits.view(rows, -1).float())
        variable = torch.full((batch.groups * scopes * arity,), -1, device=values.device)
        present = table.present.reshape(-1)
        variable[place.reshape(-1)[present]] = batch.flat(table.variables)[present]
        own = torch.where(variable >= 0, self.place[variable.clamp(min=0)], -1)
        asked = own >= 0
        change = (allowed.view(rows, -1, width)[:, asked] < 0.5).float()
        weight = self._weight("table").repeat_interleave(scopes * arity)[asked]
        costs.index_add_(1, own[asked], change * weight[:, None])


def conditional_costs(values: Tensor, batch: Batch) -> Tensor:
    """The costs of all variables, (R, M, K)."""
    return Conditionals(batch, torch.arange(batch.groups * batch.variables, device=batch.device)).costs(values)
