"""Lists of different lengths in a batch of instances, one behind the other: a long one does not make others longer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TypeVar

import torch
from torch import Tensor
from torch.nn import functional

PADDING = 16  # numbers of owners and members are multiples of this, so that shapes are few

T = TypeVar("T")


@dataclass(frozen=True)
class Lists:
    """A list for each of A owners of B instances: members[b, starts[b, a] : starts[b, a + 1]] is that of owner a."""

    members: Tensor  # (B, T) int32; behind the last list 0
    starts: Tensor  # (B, A + 1) int32
    amounts: Tensor  # (B, T) how much a member counts; (B, 0) where all are 1

    @property
    def lengths(self) -> Tensor:
        """(B, A)."""
        return self.starts.diff(dim=1)

    def of(self, instance: int, owner: int) -> list[int]:
        """The members of one list."""
        first, end = self.starts[instance, owner : owner + 2].tolist()
        members: list[int] = self.members[instance, first:end].tolist()
        return members

    def amounts_of(self, instance: int, owner: int) -> Tensor:
        first, end = self.starts[instance, owner : owner + 2].tolist()
        return self.amounts[instance, first:end] if self.amounts.shape[1] else self.amounts.new_ones(end - first)


def make_lists(instance: Tensor, owner: Tensor, member: Tensor, amount: Tensor, size: int, owners: int) -> Lists:
    """Of entries (n,) that come instance by instance and owner by owner. Without amounts (0,) all are 1."""
    counts = torch.bincount(instance * owners + owner, minlength=size * owners).view(size, owners)
    starts = functional.pad(counts.cumsum(1), (1, 0))
    filled = starts[:, -1]
    width = round_up(filled)
    at = torch.arange(len(instance), device=instance.device) - (filled.cumsum(0) - filled)[instance] + instance * width

    def table(column: Tensor) -> Tensor:
        return column.new_zeros(size * width).index_put_((at,), column).view(size, width)

    amounts = table(amount) if len(amount) else amount.new_zeros(size, 0)
    return Lists(table(member.int()), starts.int(), amounts)


def round_up(counts: Tensor) -> int:
    return -(-int(counts.max()) // PADDING) * PADDING


def stacked(parts: Sequence[T]) -> T:
    """Records of several stretches of instances as one, padded alike. Padding is 0; lists of padding are empty."""
    found = {}
    for item in fields(parts[0]):  # type: ignore[arg-type]
        values = [getattr(part, item.name) for part in parts]
        if not isinstance(values[0], Tensor):
            found[item.name] = stacked(values)
            continue
        shape = [max(lengths) for lengths in zip(*(value.shape[1:] for value in values), strict=True)]
        missing = [[most - have for most, have in zip(shape, value.shape[1:], strict=True)] for value in values]
        if isinstance(parts[0], Lists) and item.name == "starts":
            grown = [torch.cat([v, v[:, -1:].expand(-1, m[0])], 1) for v, m in zip(values, missing, strict=True)]
        else:
            margins = ([side for length in reversed(m) for side in (0, length)] for m in missing)
            grown = [functional.pad(v, margin) for v, margin in zip(values, margins, strict=True)]
        found[item.name] = torch.cat(grown)
    return type(parts[0])(**found)
