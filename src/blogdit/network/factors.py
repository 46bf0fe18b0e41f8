"""Messages between literals and factors (see `method/literals.py`): pooling the literals of each factor, and summing
the factors of each literal. A member of a list counts as much as its amount says.

Both are linear in the number of memberships. On a GPU they are kernels, whose gradients follow the lists the other way
round; elsewhere the same numbers come from indexing.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from blogdit.method.lists import Lists
from blogdit.method.literals import Literals
from blogdit.network.runtime import runs_kernels

PIECE = 256  # members of a list that are compared one after the other; longer lists come in pieces


@dataclass(frozen=True)
class Turns:
    """How the highest of each list is found: the first members of all lists, the second ones, and so on, the longest
    list first; a list that is over has none. An empty one has some first member. `back` is where a list went.

    What is found may be pieces of lists, of which `above` takes the highest.
    """

    turns: tuple[Tensor, ...]
    back: Tensor
    above: Turns | None

    @classmethod
    def of(cls, members: Tensor, lengths: Tensor) -> Turns:
        """Lists one behind the other."""
        above, longest = None, int(lengths.max())
        if longest > PIECE:
            pieces = (lengths.clamp(min=1) + PIECE - 1) // PIECE
            parts = lengths.new_full((int(pieces.sum()),), PIECE)
            above = cls.of(torch.arange(len(parts), device=members.device), pieces)
            parts[pieces.cumsum(0) - 1] = lengths - (pieces - 1) * PIECE
            lengths, longest = parts, PIECE
        starts, order = lengths.cumsum(0) - lengths, lengths.argsort(descending=True, stable=True)
        lasting = len(lengths) - torch.bincount(lengths, minlength=longest + 1).cumsum(
            0
        )  # lists with more than so many
        counts = [len(lengths), *lasting[1:longest].tolist()]
        first = starts[order]
        padded = members if len(members) else members.new_zeros(1)
        turns = (padded[(first[:count] + turn).clamp(max=len(padded) - 1)] for turn, count in enumerate(counts))
        return cls(tuple(turns), order.argsort(), above)

    def highest(self, x: Tensor) -> Tensor:
        """Of the rows of x (count, dim), (lists, dim)."""
        found = x.index_select(0, self.turns[0])
        over = []  # lists that have no further member, the shortest first
        for turn in self.turns[1:]:
            over.append(found[len(turn) :])
            found = torch.maximum(found[: len(turn)], x.index_select(0, turn))
        found = torch.cat([found, *over[::-1]]).index_select(0, self.back)
        return found if self.above is None else self.above.highest(found)


@dataclass(frozen=True)
class Bags:
    """The lists of all rows one after the other, for a CPU: list n has the members starts[n] and following."""

    members: Tensor
    starts: Tensor
    lengths: Tensor
    turns: Turns
    amounts: Tensor | None  # of `members`; None: all are 1

    @classmethod
    def of(cls, lists: Lists, count: int, rows: int) -> Bags:
        """Lists over `count` members in each row."""
        size, width = lists.members.shape
        chains = rows // max(size, 1)
        real = torch.arange(width, device=lists.members.device) < lists.starts[:, -1:]
        offsets = count * torch.arange(rows, device=lists.members.device).view(chains, size, 1)
        members = (lists.members + offsets)[real.expand(chains, -1, -1)]
        lengths = lists.lengths.long().flatten().repeat(chains)
        amounts = lists.amounts[real].repeat(chains) if lists.amounts.shape[1] else None
        return cls(members, lengths.cumsum(0) - lengths, lengths, Turns.of(members, lengths), amounts)

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
            taken = flat.index_select(0, self.members)
            found = torch.segment_reduce(taken, "max", lengths=self.lengths, axis=0, initial=-1e30)
        else:
            found = self.turns.highest(flat)
        return found.masked_fill(self.lengths[:, None] == 0, 0.0).view(len(x), -1, x.shape[-1])


@dataclass(frozen=True)
class Graph:
    """The lists of a batch, for a network. Bags are None where kernels take the lists as they are."""

    literals: Literals
    rows: int  # chains of all instances: row r belongs to instance r % B
    members: Bags | None
    factors: Bags | None
    excluded: Bags | None
    coupled: Bags | None

    @classmethod
    def of(cls, literals: Literals, chains: int) -> Graph:
        size, count = literals.place.shape
        rows = chains * size
        if runs_kernels(literals.place.device):
            return cls(literals, rows, None, None, None, None)
        return cls(
            literals,
            rows,
            Bags.of(literals.members, count, rows),
            Bags.of(literals.factors, literals.kind.shape[1], rows),
            Bags.of(literals.excluded, count, rows) if literals.excluded.members.shape[1] else None,
            Bags.of(literals.coupled, count, rows) if literals.coupled.members.shape[1] else None,
        )

    def by_row(self, amounts: Tensor) -> Tensor:
        """(B, L) of instances -> (rows, L, 1)."""
        return amounts.repeat(self.rows // len(amounts), 1)[..., None]


def _tensors(*lists: Lists) -> list[Tensor]:
    """As kernels take them."""
    return [tensor for one in lists for tensor in (one.members, one.starts, one.amounts)]


def pool(u: Tensor, graph: Graph) -> tuple[Tensor, Tensor]:
    """Of literals u (rows, L, dim) the highest of each factor, (rows, C, dim), and the sum by amounts as a share of the
    most that amounts can add up to (the mean, where all are 1); 0 where it has none."""
    lists = graph.literals
    return _pooled(u, graph, graph.members, lists.members, lists.factors, lists.share)


def exclusions(u: Tensor, graph: Graph) -> tuple[Tensor, Tensor]:
    """Of literals u (rows, L, dim) the highest and the mean over those that each of them excludes."""
    lists = graph.literals
    return _pooled(u, graph, graph.excluded, lists.excluded, lists.excluded, lists.excluded_share)


def spread(t: Tensor, graph: Graph) -> Tensor:
    """Of factors t (rows, C, dim) the sum by amounts over those of each literal, (rows, L, dim)."""
    return _summed(t, graph.factors, graph.literals.factors, graph.literals.members)


def totals(y: Tensor, graph: Graph) -> Tensor:
    """Of literals y (rows, L, dim) the sum by amounts over those of each factor, (rows, C, dim)."""
    return _summed(y, graph.members, graph.literals.members, graph.literals.factors)


def couplings(u: Tensor, graph: Graph) -> Tensor:
    """Of literals u (rows, L, dim) the sum, by what they cost together, over those that each of them is coupled with,
    as a share of all that they could cost."""
    lists = graph.literals
    return graph.by_row(lists.coupled_share).to(u.dtype) * _summed(u, graph.coupled, lists.coupled, lists.coupled)


def _pooled(
    u: Tensor, graph: Graph, bags: Bags | None, lists: Lists, back: Lists, share: Tensor
) -> tuple[Tensor, Tensor]:
    if bags is None:
        from blogdit.network.kernels import factors as kernels

        return kernels.pool(u.contiguous(), *_tensors(lists, back), share)[:2]
    return bags.highest(u), bags.total(u) * graph.by_row(share).to(u.dtype)


def _summed(x: Tensor, bags: Bags | None, lists: Lists, back: Lists) -> Tensor:
    if bags is None:
        from blogdit.network.kernels import factors as kernels

        return kernels.gather_sum(x.contiguous(), *_tensors(lists, back))
    return bags.total(x)
