"""A Transformer whose tokens are the values of the variables: (variable i, value k), for all i and k.

A layer does what propagation does in a constraint solver, learnt: attention over related variables, within one value
("is k taken around me?"), then a feed-forward part that also sees the pooled values of its own variable ("is k all
that is left?"). Every value is treated alike, so permuting values permutes the output exactly, and nothing depends on
how many there are.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from blogdit.method.relations import VALUE_FEATURES
from blogdit.network.attention import Bias, attend
from blogdit.network.config import MEAN_SCALE, Context, DenoiserConfig
from blogdit.network.runtime import runs_kernels


def fuses(h: Tensor) -> bool:
    """Whether a training step uses the kernels of `kernels/axis.py`. (For solving there is `kernels/fused.py`.)"""
    dim = h.shape[-1]
    return h.requires_grad and runs_kernels(h.device) and dim & (dim - 1) == 0


def add_norm(h: Tensor, change: Tensor, norm: nn.LayerNorm) -> tuple[Tensor, Tensor]:
    """h + change, (R, K, M, dim), and its norm."""
    if fuses(h):
        from blogdit.network.kernels import axis as axis_kernels

        h, u, *_ = axis_kernels.add_norm(
            h.contiguous(), change.contiguous(), norm.weight, norm.bias, None, norm.eps, False
        )
        return h, u
    h = h + change
    return h, norm(h)


def add_norm_pool(
    h: Tensor, change: Tensor, norm: nn.LayerNorm, domain: Tensor | None
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """h + change, its norm, and of that the highest and the mean over the values (R, M, dim); domain (K, M, 1)."""
    if fuses(h):
        from blogdit.network.kernels import axis as axis_kernels

        inside = None if domain is None else domain[..., 0].to(torch.uint8).contiguous()
        return axis_kernels.add_norm(
            h.contiguous(), change.contiguous(), norm.weight, norm.bias, inside, norm.eps, True
        )[:4]
    h = h + change
    u = norm(h)
    if domain is None:
        return h, u, u.amax(1), u.mean(1)
    return h, u, u.masked_fill(~domain, -1e4).amax(1), (u * domain).sum(1) / domain.sum(0)


def add_relu(a: Tensor, pooled: Tensor) -> Tensor:
    """What a variable has pooled is added to each of its values: a (R, K, M, wide), pooled (R, M, wide)."""
    if fuses(a):
        from blogdit.network.kernels import axis as axis_kernels

        return axis_kernels.add_relu(a.contiguous(), pooled.contiguous())
    return functional.relu(a + pooled[:, None])


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

    def forward(self, h: Tensor, change: Tensor, bias: Bias, domain: Tensor | None) -> tuple[Tensor, Tensor]:
        """The residual stream h (R, K, M, dim) and what is to be added to it: both come in and go out."""
        rows, values, count, _ = h.shape
        h, u = add_norm(h, change, self.attention_norm)
        qkv = self.qkv(u).view(rows * values, count, 3, self.heads, -1)
        seen = attend(qkv, bias).reshape(rows, values, count, -1)  # each value by itself
        h, u, highest, mean = add_norm_pool(h, self.attention_out(seen), self.ffn_norm, domain)
        pooled = self.pool_in(torch.cat([highest, mean], -1))  # (R, M, wide)
        return h, self.ffn_out(add_relu(self.ffn_in(u), pooled))


class AxisBody(nn.Module):
    def __init__(self, config: DenoiserConfig):
        super().__init__()
        self.chance_in = nn.Linear(2, config.dim)
        self.feature_in = nn.Linear(VALUE_FEATURES, config.dim, bias=False)
        self.layers = nn.ModuleList(AxisLayer(config) for _ in range(config.layers))
        self.norm = nn.LayerNorm(config.dim)
        self.out = nn.Linear(config.dim, 2)  # mean and log-variance

    def forward(self, x: Tensor, role: Tensor, context: Context) -> tuple[Tensor, Tensor]:
        """x (R, M, K) on the simplex, role (R, M, dim) -> mean and log-variance (R, M, K)."""
        # A probability, and how it compares with the uniform one.
        sizes = x.shape[-1] if context.domain is None else context.domain.sum(-1, keepdim=True)
        chances = torch.stack([x, x * sizes], -1).transpose(1, 2)  # (R, K, M, 2)
        h = self.chance_in(chances) + self.feature_in(context.features.transpose(0, 1))
        # Under autocast the residual stream is bfloat16, as it is in solving.
        change = role[:, None].to(h.dtype).expand_as(h)
        domain = None if context.domain is None else context.domain.T[..., None]  # (K, M, 1)
        for layer in self.layers:
            h, change = layer(h, change, context.bias, domain)
        out = self.out(self.norm(h + change)).transpose(1, 2)  # (R, M, K, 2)
        return (MEAN_SCALE * out[..., 0]).contiguous(), out[..., 1].contiguous()
