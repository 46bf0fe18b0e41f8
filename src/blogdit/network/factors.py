"""Messages between literals and factors (see `method/literals.py`): pooling the literals of each factor, and summing
the factors of each literal. Lists name their members; a number beyond the last one is padding.

Both are linear in the number of memberships. On a GPU they are kernels, whose gradients follow the lists the other way
round; elsewhere the same numbers come from indexing.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from blogdit.method.literals import Literals
from blogdit.network.runtime import runs_kernels


@dataclass(frozen=True)
class Bags:
    """The lists (B, A, S) of all rows one after the other, for a CPU: list n has the members starts[n] and following.

    `turns` are the first members of all lists, the second ones, and so on, the longest list first; a list that is over
    has none. An empty one has some first member, and `empty` (rows * A) says so. `back` is where a list went.
    """

    members: Tensor
    starts: Tensor
    turns: tuple[Tensor, ...]
    back: Tensor
    empty: Tensor

    @classmethod
    def of(cls, lists: Tensor, count: int, rows: int) -> Bags:
        """Lists over `count` members in each row."""
        lists = lists.long().repeat(rows // max(len(lists), 1), 1, 1)
        real = (lists < count).flatten(0, 1)  # (rows * A, S)
        offsets = count * torch.arange(rows, device=lists.device)[:, None, None]
        flat = (lists.clamp(max=count - 1) + offsets).flatten(0, 1)
        lengths = real.sum(1)
        order = lengths.argsort(descending=True, stable=True)
        lasting = [len(lengths), *(int((lengths > turn).sum()) for turn in range(1, int(lengths.max())))]
        turns = tuple(flat[order[:count], turn] for turn, count in enumerate(lasting))
        return cls(flat[real], lengths.cumsum(0) - lengths, turns, order.argsort(), lengths == 0)

    def total(self, x: Tensor) -> Tensor:
        """The sum over each list, of x (rows, count, dim): (rows, A, dim)."""
        return functional.embedding_bag(self.members, x.flatten(0, 1), self.starts, mode="sum").view(
            len(x), -1, x.shape[-1]
        )

    def highest(self, x: Tensor) -> Tensor:
        """The highest of each list, likewise; 0 of an empty one."""
        flat = x.flatten(0, 1)
        found = flat.index_select(0, self.turns[0])
        over = []  # lists that have no further member, the shortest first
        for turn in self.turns[1:]:
            over.append(found[len(turn) :])
            found = torch.maximum(found[: len(turn)], flat.index_select(0, turn))
        found = torch.cat([found, *over[::-1]]).index_select(0, self.back)
        return found.masked_fill(self.empty[:, None], 0.0).view(len(x), -1, x.shape[-1])


@dataclass(frozen=True)
class Graph:
    """The lists of a batch, for a network."""

    literals: Literals
    rows: int  # chains of all instances: row r belongs to instance r % B
    share: Tensor  # (B, C) 1 / number of literals of a factor
    members: Bags | None  # None where kernels take the lists as they are
    factors: Bags | None

    @classmethod
    def of(cls, literals: Literals, chains: int) -> Graph:
        size, literal_count = literals.place.shape
        rows = chains * size
        share = 1 / (literals.members < literal_count).sum(-1).clamp(min=1).float()
        if runs_kernels(share.device):
            return cls(literals, rows, share, None, None)
        members = Bags.of(literals.members, literal_count, rows)
        return cls(literals, rows, share, members, Bags.of(literals.factors, literals.kind.shape[1], rows))


def pool(u: Tensor, graph: Graph) -> tuple[Tensor, Tensor]:
    """Of literals u (rows, L, dim) the highest and the mean of each factor, (rows, C, dim); 0 where it has none."""
    if graph.members is None:
        from blogdit.network.kernels import factors as kernels

        lists = graph.literals
        return kernels.pool(u.contiguous(), lists.members, lists.factors, graph.share)[:2]
    share = graph.share.repeat(graph.rows // len(graph.share), 1)[..., None]
    return graph.members.highest(u), graph.members.total(u) * share


def spread(t: Tensor, graph: Graph) -> Tensor:
    """Of factors t (rows, C, dim) the sum over those of each literal, (rows, L, dim)."""
    if graph.factors is None:
        from blogdit.network.kernels import factors as kernels

        return kernels.gather_sum(t.contiguous(), graph.literals.factors, graph.literals.members)
    return graph.factors.total(t)
