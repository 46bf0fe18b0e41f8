"""An ablation: the paper's layers, sized by the number of values.

One token per variable. Every value has a learnt vector by which it enters and another by which it leaves, so a network
knows at most `max_values` values and tells them apart. Chosen with `values="table"`; the networks of this package
treat values as an axis instead (`value_axis.py`).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from blogdit.method.relations import VALUE_FEATURES
from blogdit.network.attention import Bias, attend
from blogdit.network.config import Context, DenoiserConfig


class TableLayer(nn.Module):
    """Pre-norm attention and feed-forward."""

    def __init__(self, config: DenoiserConfig):
        super().__init__()
        inner = config.heads * config.head_dim
        self.heads = config.heads
        self.attention_norm = nn.LayerNorm(config.dim)
        self.qkv = nn.Linear(config.dim, 3 * inner, bias=False)
        self.attention_out = nn.Linear(inner, config.dim)
        self.ffn_norm = nn.LayerNorm(config.dim)
        self.ffn_in = nn.Linear(config.dim, config.ffn_factor * config.dim)
        self.ffn_out = nn.Linear(config.ffn_factor * config.dim, config.dim)
        for last in (self.attention_out, self.ffn_out):  # residual branches start small, so depth adds no variance
            nn.init.normal_(last.weight, std=0.02 / math.sqrt(2 * config.layers))

    def forward(self, h: Tensor, bias: Bias) -> Tensor:
        rows, count, _ = h.shape
        qkv = self.qkv(self.attention_norm(h)).view(rows, count, 3, self.heads, -1)
        h = h + self.attention_out(attend(qkv, bias).reshape(rows, count, -1))
        return h + self.ffn_out(functional.relu(self.ffn_in(self.ffn_norm(h))))


class TableBody(nn.Module):
    """One token per variable; values enter and leave through tables of learnt vectors."""

    def __init__(self, config: DenoiserConfig):
        super().__init__()
        dim, most = config.dim, config.max_values
        self.value_in = nn.Linear(dim, dim)
        self.feature_in = nn.Linear(VALUE_FEATURES, dim, bias=False)
        self.layers = nn.ModuleList(TableLayer(config) for _ in range(config.layers))
        self.norm = nn.LayerNorm(dim)
        self.value_out = nn.Linear(dim, dim)
        self.feature_out = nn.Linear(dim, VALUE_FEATURES, bias=False)
        self.log_variance = nn.Linear(dim, most)
        self.code_table = nn.Parameter(torch.randn(most, dim))
        self.mean_table = nn.Parameter(torch.randn(most, dim))

    def forward(self, x: Tensor, role: Tensor, context: Context) -> tuple[Tensor, Tensor]:
        """x (R, M, K) on the simplex, role (R, M, dim) -> mean and log-variance (R, M, K)."""
        values = x.shape[-1]
        h = self.value_in(x @ self.code_table[:values].to(x.dtype)) + role  # (R, M, dim)
        h = h + self.feature_in((x[..., None] * context.features).sum(-2))
        for layer in self.layers:
            h = layer(h, context.bias)
        h = self.norm(h)
        out = self.value_out(h)
        mean = out @ self.mean_table[:values].mT.to(out.dtype) / math.sqrt(h.shape[-1])  # (R, M, K)
        mean = mean + (self.feature_out(h)[..., None, :] * context.features).sum(-1)
        return mean, self.log_variance(h)[..., :values]
