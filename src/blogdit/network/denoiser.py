"""The denoiser: logits and a block in, mean and log-variance of the block's next logits out (Appendix E).

No parameter depends on the number of values. Three ways in which values enter and leave (`values` of the config):

- "axis": each value of each variable is a token. Attention joins the tokens of one value across related variables;
  pooling joins the values of a variable. Values are interchangeable exactly (`value_axis.py`).
- "codes": a random vector per value, drawn anew for each step, so that values are interchangeable in distribution.
- "table": a learnt vector per value, the paper's layers sized by the number of values.

Values with a meaning of their own (a cost, in or out of a set) bring features that tell them apart.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

from blogdit.method.batch import Batch
from blogdit.method.noise import value_codes
from blogdit.method.relations import RELATION_FEATURES, VALUE_FEATURES
from blogdit.network.attention import (
    Bias,
    attend,
    dense_bias,
    has_kernel,
    lists_or_bits,
    neighbour_bias,
    neighbour_lists,
    pair_mask,
)
from blogdit.network.config import Context, DenoiserConfig
from blogdit.network.value_axis import AxisBody

LOG_VARIANCE_RANGE = (-12.0, 6.0)
MASK_LIMIT = 128  # variables of a group for which a GPU keeps all pairs on the chip
DENSE_LIMIT = (
    256  # variables; above this, attention to neighbours only is cheaper than all pairs (on a CPU, below one in eight)
)


def positional_encoding(positions: Tensor, dim: int) -> Tensor:
    """Sinusoids of each grid dimension side by side: (..., D) -> (..., dim)."""
    width = dim // positions.shape[-1]
    rates = torch.exp(torch.arange(0, width, 2, device=positions.device) * (-math.log(10000.0) / width))
    angles = positions[..., None].float() * rates  # (..., D, width / 2)
    return torch.cat([angles.sin(), angles.cos()], -1).flatten(-2)


def spread_codes(codes: Tensor, batch: Batch) -> Tensor:
    """Codes (B, K, dim), one set for each instance of a batch, in the batch's layout (R, G, K, dim)."""
    return codes.expand(batch.chains, *codes.shape).reshape(batch.rows, batch.groups, *codes.shape[1:])


class CodeBank:
    """Sets of random codes that instances take turns with: an unlucky set lasts for one step only. Empty for a network
    whose values do not enter through codes."""

    def __init__(
        self, config: DenoiserConfig, sets: int, values: int, generator: torch.Generator, device: torch.device
    ):
        drawn = value_codes(sets, values, config.dim, generator) if config.values == "codes" else None
        self.codes = None if drawn is None else drawn.to(device)

    def take(self, index: Tensor) -> Tensor | None:
        """Codes (B, K, dim) for instances that are to use the sets at `index` (B,), counted around."""
        return None if self.codes is None else self.codes[index % len(self.codes)]

    def give(self, context: Context, index: Tensor, batch: Batch) -> Context:
        """The context with these codes."""
        codes = self.take(index)
        return context if codes is None else context._replace(codes=spread_codes(codes, batch))


def _times_codes(x: Tensor, codes: Tensor) -> Tensor:
    """(R, M, a) times codes (a, b), or (R, G, a, b) of each instance -> (R, M, b)."""
    if codes.dim() == 2:
        return x @ codes.to(x.dtype)
    rows, groups, width, _ = codes.shape
    return (x.view(rows, groups, -1, width) @ codes.to(x.dtype)).flatten(1, 2)


class Layer(nn.Module):
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


class CodeBody(nn.Module):
    """One token per variable; values enter and leave through vectors, random ("codes") or learnt ("table")."""

    def __init__(self, config: DenoiserConfig):
        super().__init__()
        dim, self.table = config.dim, config.values == "table"
        self.value_in = nn.Linear(dim, dim)
        self.feature_in = nn.Linear(VALUE_FEATURES, dim, bias=False)
        self.layers = nn.ModuleList(Layer(config) for _ in range(config.layers))
        self.norm = nn.LayerNorm(dim)
        self.value_out = nn.Linear(dim, dim)
        self.feature_out = nn.Linear(dim, VALUE_FEATURES, bias=False)
        self.log_variance = nn.Linear(dim, config.max_values if self.table else 1)
        if self.table:
            self.code_table = nn.Parameter(torch.randn(config.max_values, dim))
            self.mean_table = nn.Parameter(torch.randn(config.max_values, dim))

    def _codes(self, context: Context, values: int) -> tuple[Tensor, Tensor]:
        """The codes by which values enter and leave."""
        if self.table:
            return self.code_table[:values], self.mean_table[:values]
        if context.codes is None:
            raise ValueError("this model needs codes for the values")
        return context.codes, context.codes

    def forward(self, x: Tensor, place: Tensor, context: Context) -> tuple[Tensor, Tensor]:
        codes_in, codes_out = self._codes(context, x.shape[-1])
        h = self.value_in(_times_codes(x, codes_in)) + place  # (R, M, dim)
        h = h + self.feature_in((x[..., None] * context.features).sum(-2))
        for layer in self.layers:
            h = layer(h, context.bias)
        h = self.norm(h)
        mean = _times_codes(self.value_out(h), codes_out.mT) / math.sqrt(h.shape[-1])
        mean = mean + (self.feature_out(h)[..., None, :] * context.features).sum(-1)
        return mean, self.log_variance(h)[..., : x.shape[-1]]


class Denoiser(nn.Module):
    """What all ways to treat values share: the block, givens and positions of variables, and their relations."""

    def __init__(self, config: DenoiserConfig):
        super().__init__()
        self.config = config
        self.in_block = nn.Parameter(torch.randn(config.dim) * 0.02)
        self.is_given = nn.Parameter(torch.randn(config.dim) * 0.02)
        # Attention without a learnt bias is several times faster, so only what a problem needs is learnt.
        self.relation_weights = nn.Parameter(torch.zeros(RELATION_FEATURES, config.heads), config.edge_features)
        # c = -softplus(u) <= 0
        start = math.log(math.expm1(max(-config.relation_bias, 1e-3)))
        self.unrelated = nn.Parameter(torch.full((config.heads,), start), config.relation == "learned")
        self.body = AxisBody(config) if config.values == "axis" else CodeBody(config)

    def context(self, batch: Batch, codes: Tensor | None = None) -> Context:
        """`codes` (B, K, dim) as drawn by `noise.value_codes`, for a network whose values enter through codes."""
        config = self.config
        if config.values == "table" and batch.values > config.max_values:
            raise ValueError(f"this model knows {config.max_values} values, the instance has {batch.values}")
        base = self.is_given * batch.given[..., None]
        if config.position_dims:
            positions = batch.structure.positions
            if positions.shape[-1] != config.position_dims:
                raise ValueError(
                    f"this model places variables in {config.position_dims} dimensions, "
                    f"the instance in {positions.shape[-1]}"
                )
            base = base + positional_encoding(positions.reshape(-1, config.position_dims), config.dim)
        dtype = self.in_block.dtype
        features = batch.structure.value_features.reshape(-1, batch.values, VALUE_FEATURES).to(dtype)
        spread = spread_codes(codes, batch) if codes is not None and config.values == "codes" else None
        domain = None if batch.full else batch.domain
        return Context(base.to(dtype), self.relation(batch), domain, features, spread)

    def relation(self, batch: Batch) -> Bias:
        config = self.config
        weights: Tensor = self.relation_weights
        if config.relation != "neighbours":
            return dense_bias(batch, weights, -functional.softplus(self.unrelated), config.signed)
        if has_kernel(batch.device, config.heads, config.head_dim) and not config.edge_features:
            if config.head_dim >= 16 and not config.signed:
                if batch.variables <= MASK_LIMIT:
                    return pair_mask(batch)
                if not torch.is_grad_enabled():
                    return lists_or_bits(batch, weights)
            return neighbour_lists(batch, weights, config.signed)
        if batch.variables > DENSE_LIMIT:
            return neighbour_bias(batch, weights, config.signed)
        if not (config.signed or config.edge_features):
            weights = weights[:, :1]  # all heads alike: one bias serves them
        return dense_bias(batch, weights, weights.new_full((weights.shape[1],), float("-inf")), config.signed)

    def forward(self, logits: Tensor, block: Tensor, context: Context) -> tuple[Tensor, Tensor]:
        """logits (R, M, K), block (R, M) -> mean (R, M, K), log-variance (R, M, 1 or K)."""
        if context.domain is not None:
            logits = logits.masked_fill(~context.domain, float("-inf"))
        x = logits.softmax(-1).to(self.in_block.dtype)
        place = context.base + self.in_block * block[..., None]  # (R, M, dim)
        mean, log_variance = self.body(x, place, context)
        return mean.float(), log_variance.float().clamp(*LOG_VARIANCE_RANGE)


def in_bfloat16(denoiser: Callable[..., tuple[Tensor, Tensor]]) -> Callable[..., tuple[Tensor, Tensor]]:
    """The same network with its matrix products in bfloat16; what goes in and comes out stays float32."""

    def call(logits: Tensor, block: Tensor, context: Context) -> tuple[Tensor, Tensor]:
        with torch.autocast(logits.device.type, torch.bfloat16):
            return denoiser(logits, block, context)

    return call
