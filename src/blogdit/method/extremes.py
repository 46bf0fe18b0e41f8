"""What givens say about the largest and the smallest of some variables.

A smallest one is a largest one of opposite numbers. Where r = max(x, y, ...) must hold:

- beside a given x = 3, no r below 3 is possible, and members that are not above 3 do not matter;
- beside a given r = 5, no member above 5 is possible, and one of them has to be 5: a clause, unless a given one is.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from blogdit.method.rules import SUM, Rules


@dataclass(frozen=True)
class Extremes:
    """Entries (n,) of rules about largest ones, and for all F factors in each column what is given."""

    entry: Tensor
    factor: Tensor
    number: Tensor  # (n, 1) what the literal means
    is_result: Tensor  # (n, 1)
    must_hold: Tensor  # (F, 1)
    floor: Tensor  # (F, columns) the largest given member, -inf without any
    result: Tensor  # (F, columns) the given result, inf without any

    @classmethod
    def of(cls, rules: Rules, settled: Tensor) -> Extremes | None:
        """Beside the literals (places, columns) that givens make true; None where there is nothing to say."""
        entry = (~rules.number.isnan()).nonzero()[:, 0]
        true = settled[rules.place[entry]]
        if not true.any():
            return None
        factor, number, is_result = rules.factor[entry], rules.number[entry][:, None], rules.amount[entry][:, None] < 0
        owner, none = factor[:, None].expand(true.shape), number.new_full((len(rules.kind), true.shape[1]), torch.inf)
        members = torch.where(true & ~is_result, number, -torch.inf)
        results = torch.where(true & is_result, number, torch.inf)
        floor = (-none).scatter_reduce_(0, owner, members, "amax")
        result = none.scatter_reduce_(0, owner, results, "amin")
        return cls(entry, factor, number, is_result, (rules.weight == 0)[:, None], floor, result)

    def impossible(self) -> Tensor:
        """(n, columns): literals that would break a rule that must hold."""
        floor, result = self.floor[self.factor], self.result[self.factor]
        breaks = torch.where(self.is_result, self.number < floor, self.number > result)
        return breaks & self.must_hold[self.factor]

    def tell(self, kind: Tensor, amount: Tensor, bounds: Tensor, idle: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Kinds (F, columns), amounts (E, columns), bounds (F, columns, 2) and rules that hold anyway (F, columns), as
        they are with what is given."""
        is_clause = self.result.isfinite() & self.must_hold
        reaches = (self.number == self.result[self.factor]).to(amount.dtype)
        above = torch.where(~self.is_result & (self.number <= self.floor[self.factor]), 0.0, amount[self.entry])
        amount = amount.index_put((self.entry,), torch.where(is_clause[self.factor], reaches, above))
        one_at_least = torch.tensor([1.0, torch.inf], device=bounds.device)
        bounds = torch.where(is_clause[..., None], one_at_least, bounds)
        return torch.where(is_clause, SUM, kind), amount, bounds, idle | (is_clause & (self.floor >= self.result))
