"""A denoiser that sees every constraint: messages go from literals to factors and back (see `method/literals.py`).

A layer does what propagation does in a constraint solver, learnt. A factor pools its literals ("does any variable of
this row still need the value k?"), and a literal adds up what its factors say ("the row has no other place for k").
Variables, values and constraints of a kind are treated alike, so any renaming of them renames the output.
"""

from __future__ import annotations

import math
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from blogdit.method.batch import GIVEN_LOGIT, Batch
from blogdit.method.literals import FACTOR_FEATURES, LITERAL_FEATURES
from blogdit.method.rules import DIFFERENT_KINDS, FACTOR_KINDS
from blogdit.network.config import LOG_VARIANCE_RANGE, MEAN_SCALE, DenoiserConfig
from blogdit.network.factors import Graph, couplings, exclusions, pool, spread, totals

STATE_FEATURES = 7  # of a factor, see `_standing`
FAR_OFF = 1e4  # a distance from a bound that counts as infinite


class LiteralContext(NamedTuple):
    """What the network is told about a batch, computed once for many steps."""

    graph: Graph
    kind: Tensor  # (B, C)
    open: Tensor  # (B, N * K) literals that no given rules out
    variable: Tensor  # (B, L) of a literal
    place: Tensor  # (B, L) of a literal in N * K
    target: Tensor  # (B, L) likewise; N * K in padding
    sizes: Tensor  # (B, L) literals of its variable


def literal_context(batch: Batch) -> LiteralContext:
    """The literals come with the batch, or are built now."""
    literals = batch.with_literals().literals
    assert literals is not None
    choices = batch.variables * batch.values
    place = literals.place.long()
    target = torch.where(literals.real, place, choices)
    is_open = torch.zeros(batch.size, choices + 1, dtype=torch.bool, device=batch.device).scatter_(1, target, True)
    is_open = is_open[:, :choices].contiguous()
    variable = place // batch.values
    sizes = is_open.view(batch.size, batch.variables, -1).sum(-1).gather(1, variable)
    return LiteralContext(
        Graph.of(literals, batch.chains), literals.kind.long(), is_open, variable, place, target, sizes.float()
    )


class LiteralLayer(nn.Module):
    """Literals to factors to literals, and to their neighbours, then a feed-forward part; pre-norm."""

    def __init__(self, config: DenoiserConfig, depth: int):
        super().__init__()
        dim, wide, every = config.dim, config.ffn_factor * config.dim, config.sees == "every"
        self.norm = nn.LayerNorm(dim)
        self.pool_in = nn.Linear(2 * dim, dim, bias=False)
        self.kind = nn.Embedding(FACTOR_KINDS if every else DIFFERENT_KINDS, dim)
        self.told_in = nn.Linear(FACTOR_FEATURES + STATE_FEATURES, dim, bias=False) if every else None
        self.ffn_in = nn.Linear(2 * dim, wide)
        self.neighbours_in = nn.Linear(3 * dim, wide, bias=False) if every else None
        self.ffn_out = nn.Linear(wide, dim)
        nn.init.zeros_(self.kind.weight)
        nn.init.normal_(self.ffn_out.weight, std=0.02 / math.sqrt(depth))  # depth adds no variance at the start

    def known(self, told: Tensor | None, context: LiteralContext) -> Tensor:
        """What a factor has of its kind and of `told` (rows, C, F), whatever its literals say: (rows or B, C, dim)."""
        kinds: Tensor = self.kind(context.kind)  # (B, C, dim)
        if self.told_in is None:
            return kinds
        found: Tensor = self.told_in(told)
        return found + kinds.repeat(len(found) // len(kinds), 1, 1).to(found.dtype)

    def forward(self, h: Tensor, known: Tensor, context: LiteralContext) -> Tensor:
        """The residual stream of the literals, (rows, L, dim)."""
        u = self.norm(h).to(h.dtype)
        highest, mean = pool(u, context.graph)  # each (rows, C, dim)
        of_highest, of_mean = self.pool_in.weight.chunk(2, 1)
        pooled = functional.linear(highest, of_highest) + functional.linear(mean, of_mean)
        by_chain = pooled.view(-1, *known.shape) + known.to(pooled.dtype)
        heard = spread(functional.relu(by_chain).view_as(pooled), context.graph)  # (rows, L, dim)
        of_own, of_heard = self.ffn_in.weight.chunk(2, 1)
        inner = functional.linear(u, of_own, self.ffn_in.bias) + functional.linear(heard, of_heard)
        if self.neighbours_in is not None:
            of_highest, of_mean, of_coupled = self.neighbours_in.weight.chunk(3, 1)
            if context.graph.literals.excluded.members.shape[1]:
                highest, mean = exclusions(u, context.graph)
                inner = inner + functional.linear(highest, of_highest) + functional.linear(mean, of_mean)
            if context.graph.literals.coupled.members.shape[1]:
                inner = inner + functional.linear(couplings(u, context.graph), of_coupled)
        change: Tensor = self.ffn_out(functional.relu(inner))
        return h + change


class LiteralBody(nn.Module):
    """`config.layers` layers, the whole stack run `config.loops` times with the same weights."""

    def __init__(self, config: DenoiserConfig):
        super().__init__()
        self.loops, self.every = config.loops, config.sees == "every"
        self.chance_in = nn.Linear(3 + (LITERAL_FEATURES if self.every else 0), config.dim)
        depth = config.layers * config.loops
        self.layers = nn.ModuleList(LiteralLayer(config, depth) for _ in range(config.layers))
        self.norm = nn.LayerNorm(config.dim)
        self.out = nn.Linear(config.dim, 2)  # mean and log-variance

    def forward(self, logits: Tensor, block: Tensor, context: LiteralContext) -> tuple[Tensor, Tensor]:
        """logits (R, M, K), block (R, M) -> mean and log-variance (R, M, K). Literals that a given rules out have
        nothing to decide: their logits are those of a value that is not."""
        rows, choices = context.graph.rows, context.open.shape[1]
        chains, values = rows // len(context.open), logits.shape[-1]
        is_open, variable, place, target, sizes = (
            part.expand(chains, -1, -1).reshape(rows, -1)
            for part in (context.open, context.variable, context.place, context.target, context.sizes)
        )
        # Not minus infinity: a variable without any open literal has a softmax that nobody looks at.
        shown = logits.reshape(rows, choices).masked_fill(~is_open, -1e4).view(rows, -1, values).softmax(-1)
        x = shown.view(rows, choices).gather(1, place)  # (rows, L)
        hidden = block.reshape(rows, -1).gather(1, variable)
        # A probability, how it compares with the uniform one, and whether it is hidden.
        about, told = torch.stack([x, x * sizes, hidden.to(x.dtype)], -1), None
        if self.every:
            lists = context.graph.literals
            about = torch.cat([about, lists.about.repeat(chains, 1, 1)], -1)
            told = torch.cat([lists.features.repeat(chains, 1, 1), _standing(x, hidden, sizes, context.graph)], -1)
            told = told.to(self.out.weight.dtype)
        h = self.chance_in(about.to(self.out.weight.dtype))
        known = [cast(LiteralLayer, layer).known(told, context) for layer in self.layers]
        for _ in range(self.loops):
            for layer, of_factors in zip(self.layers, known, strict=True):
                h = layer(h, of_factors, context)
        out = self.out(self.norm(h).to(h.dtype)).float()  # (rows, L, 2)
        mean = out.new_full((rows, choices + 1), -GIVEN_LOGIT).scatter(1, target, MEAN_SCALE * out[..., 0])
        spread_ = out.new_full((rows, choices + 1), LOG_VARIANCE_RANGE[0]).scatter(1, target, out[..., 1])
        shape = logits.shape
        return mean[:, :choices].reshape(shape), spread_[:, :choices].reshape(shape).clamp(*LOG_VARIANCE_RANGE)


def _standing(x: Tensor, hidden: Tensor, sizes: Tensor, graph: Graph) -> Tensor:
    """How factors stand, (rows, C, STATE_FEATURES): how far the expected sum of amounts, and the part of it that is not
    hidden, are from the bounds; both as a share of the most; and what hidden ones would add if they were drawn blindly.
    """
    seen = x * ~hidden
    blind = hidden / sizes.clamp(min=1)
    four = torch.stack([x, seen, blind, blind], -1)  # kernels want a power of 2
    expected, visible, chance, _ = totals(four, graph).unbind(-1)
    lists, chains = graph.literals, graph.rows // len(graph.literals.share)
    low, high = (bound.repeat(chains, 1) for bound in lists.bounds.clamp(-FAR_OFF, FAR_OFF).unbind(-1))
    share = lists.share.repeat(chains, 1)
    distances = (functional.softsign(d) for d in (low - expected, expected - high, low - visible, visible - high))
    return torch.stack([*distances, expected * share, visible * share, chance * share], -1)
