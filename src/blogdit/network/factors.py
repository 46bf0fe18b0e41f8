"""Messages between literals and factors (see `method/literals.py`): pooling the literals of each factor, and summing
the factors of each literal. Lists name their members; a number beyond the last one is padding. A member counts as much
as its amount says.

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
    amounts: Tensor | None  # of `members`; None: all are 1

    @classmethod
    def of(cls, lists: Tensor, amounts: Tensor, count: int, rows: int) -> Bags:
        """Lists over `count` members in each row."""
        own = amounts.repeat(rows // max(len(lists), 1), 1, 1).flatten(0, 1) if amounts.shape[1] else None
        lists = lists.long().repeat(rows // max(len(lists), 1), 1, 1)
        real = (lists < count).flatten(0, 1)  # (rows * A, S)
        offsets = count * torch.arange(rows, device=lists.device)[:, None, None]
        flat = (lists.clamp(max=count - 1) + offsets).flatten(0, 1)
        lengths = real.sum(1)
        order = lengths.argsort(descending=True, stable=True)
        lasting = [len(lengths), *(int((lengths > turn).sum()) for turn in range(1, int(lengths.max())))]
        turns = tuple(flat[order[:count], turn] for turn, count in enumerate(lasting))
        starts = lengths.cumsum(0) - lengths
        return cls(
            flat[real], starts, turns, order.argsort(), lengths == 0, None if own is None else own[real]
        )  # fmt: skip

    def total(self, x: Tensor) -> Tensor:
        """The sum over each list, of x (rows, count, dim): (rows, A, dim)."""
        amounts = None if self.amounts is None else self.amounts.to(x.dtype)
        totals = functional.embedding_bag(
            self.members, x.flatten(0, 1), self.starts, mode="sum", per_sample_weights=amounts
        )
        return totals.view(len(x), -1, x.shape[-1])

    def highest(self, x: Tensor) -> Tensor:
        """The highest of each list, likewise; 0 of an empty one."""
        flat = x.flatten(0, 1)
        if torch.is_grad_enabled():  # turn by turn, each turn would have a gradient of its own for all of x
            lengths = torch.diff(self.starts, append=self.starts.new_tensor([len(self.members)]))
            found = torch.segment_reduce(
                flat.index_select(0, self.members), "max", lengths=lengths, axis=0, initial=-1e30
            )
            return found.masked_fill(self.empty[:, None], 0.0).view(len(x), -1, x.shape[-1])
        found = flat.index_select(0, self.turns[0])
        over = []  # lists that have no further member, the shortest first
        for turn in self.turns[1:]:
            over.append(found[len(turn) :])
            found = torch.maximum(found[: len(turn)], flat.index_select(0, turn))
        found = torch.cat([found, *over[::-1]]).index_select(0, self.back)
        return found.masked_fill(self.empty[:, None], 0.0).view(len(x), -1, x.shape[-1])


@dataclass(frozen=True)
class Graph:
    """The lists of a batch, for a network. Bags are None where kernels take the lists as they are."""

    literals: Literals
    rows: int  # chains of all instances: row r belongs to instance r % B
    shares: Tensor  # (2, B, L) 1 / how many a literal excludes, and 1 / all that its couplings add up to
    members: Bags | None
    factors: Bags | None
    excluded: Bags | None
    coupled: Bags | None

    @classmethod
    def of(cls, literals: Literals, chains: int) -> Graph:
        size, count = literals.place.shape
        rows = chains * size
        degrees, strengths = (literals.excluded < count).sum(-1), literals.coupling.abs().sum(-1)
        shares = torch.stack([1 / degrees.clamp(min=1).float(), 1 / torch.where(strengths > 0, strengths, 1.0)])
        if runs_kernels(shares.device):
            return cls(literals, rows, shares, None, None, None, None)
        none = shares.new_zeros(size, 0, 0)
        return cls(
            literals, rows, shares,
            Bags.of(literals.members, literals.member_amounts, count, rows),
            Bags.of(literals.factors, literals.factor_amounts, literals.kind.shape[1], rows),
            Bags.of(literals.excluded, none, count, rows) if literals.excluded.shape[2] else None,
            Bags.of(literals.coupled, literals.coupling, count, rows) if literals.coupled.shape[2] else None,
        )  # fmt: skip

    def by_row(self, amounts: Tensor) -> Tensor:
        """(B, L) of instances -> (rows, L, 1)."""
        return amounts.repeat(self.rows // len(amounts), 1)[..., None]


def pool(u: Tensor, graph: Graph) -> tuple[Tensor, Tensor]:
    """Of literals u (rows, L, dim) the highest of each factor, (rows, C, dim), and the sum by amounts as a share of the
    most that amounts can add up to (the mean, where all are 1); 0 where it has none."""
    lists = graph.literals
    if graph.members is None:
        from blogdit.network.kernels import factors as kernels

        return kernels.pool(
            u.contiguous(), lists.members, lists.factors, lists.share, lists.member_amounts, lists.factor_amounts
        )[:2]
    return graph.members.highest(u), graph.members.total(u) * graph.by_row(lists.share).to(u.dtype)


def spread(t: Tensor, graph: Graph) -> Tensor:
    """Of factors t (rows, C, dim) the sum by amounts over those of each literal, (rows, L, dim)."""
    if graph.factors is None:
        from blogdit.network.kernels import factors as kernels

        lists = graph.literals
        return kernels.gather_sum(
            t.contiguous(), lists.factors, lists.members, lists.factor_amounts, lists.member_amounts
        )
    return graph.factors.total(t)


def totals(y: Tensor, graph: Graph) -> Tensor:
    """Of literals y (rows, L, dim) the sum by amounts over those of each factor, (rows, C, dim)."""
    if graph.members is None:
        from blogdit.network.kernels import factors as kernels

        lists = graph.literals
        return kernels.gather_sum(
            y.contiguous(), lists.members, lists.factors, lists.member_amounts, lists.factor_amounts
        )
    return graph.members.total(y)


def exclusions(u: Tensor, graph: Graph) -> tuple[Tensor, Tensor]:
    """Of literals u (rows, L, dim) the highest and the mean over those that each of them excludes."""
    if graph.excluded is None:
        from blogdit.network.kernels import factors as kernels

        lists, none = graph.literals.excluded, graph.shares.new_zeros(0, 0, 0)
        return kernels.pool(u.contiguous(), lists, lists, graph.shares[0], none, none)[:2]
    return graph.excluded.highest(u), graph.excluded.total(u) * graph.by_row(graph.shares[0]).to(u.dtype)


def couplings(u: Tensor, graph: Graph) -> Tensor:
    """Of literals u (rows, L, dim) the sum, by what they cost together, over those that each of them is coupled with,
    as a share of all that they could cost."""
    share = graph.by_row(graph.shares[1]).to(u.dtype)
    if graph.coupled is None:
        from blogdit.network.kernels import factors as kernels

        lists, amounts = graph.literals.coupled, graph.literals.coupling
        return share * kernels.gather_sum(u.contiguous(), lists, lists, amounts, amounts)
    return share * graph.coupled.total(u)
