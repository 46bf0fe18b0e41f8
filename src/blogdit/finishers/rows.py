"""Where the chains of a search on pairs are, what every change would cost them, and the best that they have seen.

`walk` and `repair` move them; `flips`, `flip_kernel` and `walk_kernel` take many moves at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import torch
from torch import Tensor

from blogdit.core.instance import Instance
from blogdit.finishers.polish import Pairs
from blogdit.finishers.terms import (
    Couplings,
    Tables,
    costs_alone,
    couplings,
    nudge_of,
    scale_of,
    tables_of,
    terms_of,
)
from blogdit.method.noise import wrap

AT_ONCE = {"cpu": 1 << 18, "cuda": 1 << 24}  # terms, looked up for several chains


class Rows:
    """Chains (C, B, N) on instances of one shape, flattened to rows (C * B, N). All tensors stay on the
    device of the start."""

    def __init__(self, instances: Sequence[Instance], values: Tensor, width: int):
        self.chains, self.size, self.variables = values.shape
        self.width, device = width, values.device
        pairs = [Pairs(instance) for instance in instances]
        scales = [scale_of(one) for one in pairs]
        self.terms = terms_of(pairs, scales, device)
        self.alone = costs_alone(pairs, scales, self.variables, width).to(device)
        sizes = torch.tensor([instance.size for instance in instances], device=device)
        self.real = torch.arange(self.variables, device=device) < sizes[:, None]
        self.instance = torch.arange(self.size, device=device).repeat(self.chains)  # of each row
        self.chain = torch.arange(self.chains, dtype=torch.int32, device=device).repeat_interleave(self.size)
        self.cells = torch.arange(self.variables, device=device) * width
        self.pause = (sizes // 4).clamp(max=20).int()[self.instance]
        # Equals are taken in an order that differs from chain to chain and from move to move.
        nudges = [nudge_of(*one) for one in zip(pairs, scales, strict=True)]
        self.nudge = torch.tensor(nudges, dtype=torch.int32, device=device)[self.instance]
        self.order = torch.arange(self.variables * width, dtype=torch.int32, device=device) * 0x5BD1E995
        self.usual = [one.usual and one.usual * scale for one, scale in zip(pairs, scales, strict=True)]
        self.round = 0
        # While `flips` or `flip_kernel` take the moves: the cost of 1 less that of 0, instead of `costs`.
        self.drive: Tensor | None = None
        self.start(values)

    @cached_property
    def links(self) -> list[Couplings]:
        """Of each instance, for variables with two values."""
        return couplings(self.terms, self.size, self.variables)

    @cached_property
    def tables(self) -> Tables:
        """Of all terms, for whoever looks up those of a variable on the device."""
        return tables_of(self.terms, self.size, self.variables)

    def start(self, values: Tensor) -> None:
        """Begin at `values` (C, B, N), with nothing seen."""
        values = torch.where(self.real, values, 0).long()
        costs = self._costs(values)  # (C, B, N, width)
        own, own_alone = (t.gather(-1, values[..., None])[..., 0] for t in (costs, self.alone.expand_as(costs)))
        # A term on a pair is in the costs of both of its variables.
        self.energy = (own.long() + own_alone).sum(-1).view(-1) // 2
        self.known_costs: Tensor | None = costs.view(len(self.instance), -1)
        self.x = values.int().view(-1, self.variables)
        self.best, self.best_x = self.energy.clone(), self.x.clone()
        self.rest = torch.zeros_like(self.x)  # the move at which a variable may change again
        self.when = torch.zeros_like(self.pause)  # kept by `repair`: the move that led to the best state
        self.taken = 0
        self.round += 1
        self.salt = self.chain * 0x3C6EF372 + wrap(self.round * 0x27D4EB2F)

    @property
    def costs(self) -> Tensor:
        """The energy of every variable at every value, the others where they are, (rows, N * width)."""
        if self.known_costs is None:
            self.known_costs = self._costs(self.x.view(self.chains, self.size, -1).long()).view(len(self.x), -1)
        return self.known_costs

    def _costs(self, x: Tensor) -> Tensor:
        """The energy of every variable at every value, the others at x (C, B, N)."""
        some = max(AT_ONCE[x.device.type] // max(len(self.terms.other), 1), 1)  # chains
        return torch.cat([self._costs_of(x[first : first + some]) for first in range(0, len(x), some)])

    def _costs_of(self, x: Tensor) -> Tensor:
        instance, variable, other, own, theirs, weight = self.terms
        first = instance.long() * self.variables
        there = x.flatten(1)[:, first + other]  # (C, E)
        same = own < 0
        cell = (first + variable) * self.width + torch.where(same, there, own)
        alone = self.alone.flatten().expand(len(x), -1)
        costs = alone.scatter_add(1, cell, weight * (same | (theirs == there)))
        return costs.view(len(x), self.size, self.variables, self.width)
