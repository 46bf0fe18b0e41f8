"""What every value of a variable would cost, the others fixed: the exact conditionals of the energy.

`energy.move_costs` is a gradient, exact for pairs and objectives only. Here every kind of constraint is exact. For
pairs and all-different constraints the work is that of the variables that are asked for; of the other kinds each value
is tried. Variables are named by their place 0 .. M - 1 in the batch.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from blogdit.method.batch import Batch
from blogdit.method.energy import penalty_weights
from blogdit.method.penalties import KINDS, discrete, places_of
from blogdit.method.terms import DifferentTerms


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
    """All T entries of scopes with a variable that is asked for, and which t of them are of such variables."""

    count: int  # S, of all scopes
    owner: Tensor  # (T,) scope
    variable: Tensor  # (T,) place in 0 .. M - 1
    asked: Tensor  # (t,) places in the entries above
    own: Tensor  # (t,) place in the list of variables that are asked for
    required: Tensor  # (t, 1) how many values must all occur in the scope
    weight: Tensor  # (t, 1)


class Conditionals:
    """The costs of some variables of a batch: `costs(values)` (R, m, K) for m `members` that share no constraint."""

    def __init__(self, batch: Batch, members: Tensor):
        self.batch, self.members = batch, members
        self.place = torch.full((batch.groups * batch.variables,), -1, device=batch.device)
        self.place[members] = torch.arange(len(members), device=batch.device)
        self.weights = penalty_weights(batch)
        self.fixed = batch.structure.unary.reshape(-1, batch.values)[members]
        self.domain = batch.domain[members]
        self.pairs = self._pairs()
        s = batch.structure
        self.all_different = None if s.all_different.slots.shape[1] else self._scopes(s.all_different)
        fast = {"not_equal", "conflict"} | (set() if self.all_different is None else {"all_different"})
        self.tried = [  # whether soft, kind, of which nothing is known but its penalty
            (soft, kind)
            for soft, terms in ((False, s), (True, s.soft))
            for kind in KINDS
            if getattr(terms, kind).weights.shape[1] and kind not in (fast - {"all_different"} if soft else fast)
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
            (s.soft.not_equal, None, False, 1.0),
            (s.soft.conflict, None, True, 1.0),
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

    def _scopes(self, terms: DifferentTerms) -> _Scopes:
        members, scopes = terms.members, terms.weights.shape[1]
        owner, variable = places_of(members.owner, scopes), self.batch.flat(members.variables)
        present = members.present.reshape(-1)
        asked = present & (self.place[variable] >= 0)
        touched = torch.zeros(self.batch.groups * scopes, dtype=torch.bool, device=self.batch.device)
        touched[owner[asked]] = True
        kept = present & touched[owner]
        return _Scopes(
            len(touched),
            owner[kept],
            variable[kept],
            asked[kept].nonzero()[:, 0],
            self.place[variable[asked]],
            terms.required.reshape(-1)[owner[asked], None],
            self._weight("all_different").repeat_interleave(scopes)[owner[asked], None],
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
        if self.all_different is not None:
            self._add_all_different(costs, self.all_different, values)
        if self.tried:
            costs += self._try(values)
        return costs.masked_fill(~self.domain, float("inf"))

    def _add_all_different(self, costs: Tensor, scopes: _Scopes, values: Tensor) -> None:
        """With the others' counts: a value that occurs costs 1; one that must occur and does not saves 1."""
        width = self.batch.values
        if not len(scopes.asked):
            return
        now = values[:, scopes.variable]  # (R, T)
        counts = torch.zeros(values.shape[0], scopes.count * width, device=values.device)
        counts.scatter_add_(1, scopes.owner * width + now, torch.ones_like(now, dtype=counts.dtype))
        others = counts.view(len(counts), -1, width)[:, scopes.owner[scopes.asked]]  # (R, t, K)
        numbers = torch.arange(width, device=values.device)
        others = others - (now[:, scopes.asked, None] == numbers).float()
        change = (others > 0.5).float() - ((others < 0.5) & (numbers < scopes.required)).float()
        costs.index_add_(1, scopes.own, change * scopes.weight)

    def _try(self, values: Tensor) -> Tensor:
        """(R, m, K): what the constraints of each variable cost with it at each value. All variables that are asked for
        take a value at the same time, as no two of them share a constraint."""
        s, rows, width = self.batch.structure, len(values), self.batch.values
        trial = values.repeat_interleave(width, 0)  # (R * K, M): row r * K + k has value k
        tried = torch.arange(width, device=values.device).repeat(rows)[:, None]
        trial[:, self.members] = torch.where(self.domain.T.repeat(rows, 1), tried, trial[:, self.members])
        found = {soft: discrete(trial, self.batch, s.soft if soft else s) for soft in {soft for soft, _ in self.tried}}
        costs = torch.zeros(len(trial), len(self.place), device=values.device)
        for soft, kind in self.tried:
            terms, phi = getattr(s.soft if soft else s, kind), found[soft][kind]
            amounts = ((phi > 0) if soft else phi * self._weight(kind)[:, None]) * terms.weights
            owner, present = terms.members.owner, terms.members.present
            of_member = amounts.gather(2, owner.expand(len(trial), *owner.shape)) * present
            costs.index_add_(1, self.batch.flat(terms.members.variables), of_member.flatten(1).float())
        return costs[:, self.members].view(rows, width, -1).transpose(1, 2)
