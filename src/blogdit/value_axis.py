"""A Transformer whose tokens are the values of the variables: (variable i, value k), for all i and k.

A layer does what propagation does in a constraint solver, learnt: attention over related variables, within one value
("is k taken around me?"), then a feed-forward part that also sees the pooled values of its own variable ("is k all
that is left?"). Every value is treated alike, so permuting values permutes the output exactly, and nothing depends on
how many there are.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from blogdit.attention import Bias, attend
from blogdit.network import Context, DenoiserConfig
from blogdit.relations import VALUE_FEATURES

MEAN_SCALE = 4.0  # logits are of the size of sigma; the last layer starts with outputs of size 1


class HighestValue(torch.autograd.Function):
    """u.amax(1) for u (R, K, M, dim); of equal entries the first gets the gradient. torch shares it, and for that
    compares u with its maximum again: a compiled backward pass may do so with other roundings, and find none equal."""

    @staticmethod
    def forward(ctx: Any, u: Tensor) -> Tensor:
        ctx.save_for_backward(u.argmax(1, keepdim=True).int())
        ctx.values = u.shape[1]
        return u.amax(1)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        (first,) = ctx.saved_tensors
        places = torch.arange(ctx.values, dtype=torch.int32, device=first.device).view(-1, 1, 1)
        return torch.where(places == first, gradient[:, None], 0.0)


def highest_value(u: Tensor) -> Tensor:
    return HighestValue.apply(u) if u.requires_grad else u.amax(1)  # type: ignore[no-untyped-call]


class AxisLayer(nn.Module):
    """Pre-norm attention across variables, then a feed-forward part that sees the other values of the variable."""

    def __init__(self, config: DenoiserConfig):
        super().__init__()
        dim, inner, wide = config.dim, config.heads * config.head_dim, config.ffn_factor * config.dim
        self.heads = config.heads
        self.attention_norm = nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * inner, bias=False)
        self.attention_out = nn.Linear(inner, dim)
        self.ffn_norm = nn.LayerNorm(dim)
        self.ffn_in = nn.Linear(dim, wide)
        self.pool_in = nn.Linear(2 * dim, wide, bias=False)
        self.ffn_out = nn.Linear(wide, dim)
        for last in (self.attention_out, self.ffn_out):  # residual branches start small, so depth adds no variance
            nn.init.normal_(last.weight, std=0.02 / math.sqrt(2 * config.layers))

    def forward(self, h: Tensor, bias: Bias, domain: Tensor | None) -> Tensor:
        """h (R, K, M, dim), domain (K, M, 1) or None."""
        rows, values, count, _ = h.shape
        qkv = self.qkv(self.attention_norm(h)).view(rows * values, count, 3, self.heads, -1)
        seen = attend(qkv, bias).reshape(rows, values, count, -1)  # each value by itself
        h = h + self.attention_out(seen)
        u = self.ffn_norm(h)
        if domain is None:
            highest, mean = highest_value(u), u.mean(1)
        else:
            highest = highest_value(u.masked_fill(~domain, -1e4))
            mean = (u * domain).sum(1) / domain.sum(0)
        pooled = self.pool_in(torch.cat([highest, mean], -1))  # (R, M, wide)
        return h + self.ffn_out(functional.relu(self.ffn_in(u) + pooled[:, None]))


class AxisBody(nn.Module):
    def __init__(self, config: DenoiserConfig):
        super().__init__()
        self.chance_in = nn.Linear(2, config.dim)
        self.feature_in = nn.Linear(VALUE_FEATURES, config.dim, bias=False)
        self.layers = nn.ModuleList(AxisLayer(config) for _ in range(config.layers))
        self.norm = nn.LayerNorm(config.dim)
        self.out = nn.Linear(config.dim, 2)  # mean and log-variance

    def forward(self, x: Tensor, place: Tensor, context: Context) -> tuple[Tensor, Tensor]:
        """x (R, M, K) on the simplex, place (R, M, dim) -> mean and log-variance (R, M, K)."""
        # A probability, and how it compares with the uniform one.
        sizes = x.shape[-1] if context.domain is None else context.domain.sum(-1, keepdim=True)
        chances = torch.stack([x, x * sizes], -1).transpose(1, 2)  # (R, K, M, 2)
        h = self.chance_in(chances) + self.feature_in(context.features.transpose(0, 1))
        h = h + place[:, None].to(h.dtype)  # under autocast the residual stream is bfloat16, as it is in solving
        domain = None if context.domain is None else context.domain.T[..., None]  # (K, M, 1)
        for layer in self.layers:
            h = layer(h, context.bias, domain)
        out = self.out(self.norm(h)).transpose(1, 2)  # (R, M, K, 2)
        return (MEAN_SCALE * out[..., 0]).contiguous(), out[..., 1].contiguous()
