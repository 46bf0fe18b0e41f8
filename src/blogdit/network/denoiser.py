"""The denoiser: logits and a block in, mean and log-variance of the block's next logits out (Appendix E).

Each value of each variable is a token. Attention joins the tokens of one value across related variables; pooling joins
the values of a variable (`value_axis.py`). So values are interchangeable exactly, and no parameter depends on how many
there are. Values with a meaning of their own (a cost, in or out of a set) bring features that tell them apart. An
ablation with the paper's layers, sized by the number of values, is in `table.py`.

`Denoiser.on(batch)` is the network as the chain calls it: it binds what the network is told about a batch.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from blogdit.method.batch import Batch
from blogdit.method.relations import RELATION_FEATURES, VALUE_FEATURES
from blogdit.network.attention import (
    Bias,
    dense_bias,
    has_kernel,
    lists_or_bits,
    neighbour_bias,
    neighbour_lists,
    pair_mask,
)
from blogdit.network.config import LOG_VARIANCE_RANGE, Context, DenoiserConfig
from blogdit.network.literal import LiteralBody, LiteralContext, literal_context
from blogdit.network.table import TableBody
from blogdit.network.value_axis import AxisBody

MASK_LIMIT = 128  # variables of a group for which a GPU keeps all pairs on the chip
# Variables of a group. Above this, attention over neighbours is cheaper than over all pairs (on a CPU, if fewer than
# one pair in eight is related).
DENSE_LIMIT = 256


def positional_encoding(positions: Tensor, dim: int) -> Tensor:
    """Sinusoids of each grid dimension side by side: (..., D) -> (..., dim)."""
    width = dim // positions.shape[-1]
    rates = torch.exp(torch.arange(0, width, 2, device=positions.device) * (-math.log(10000.0) / width))
    angles = positions[..., None].float() * rates  # (..., D, width / 2)
    return torch.cat([angles.sin(), angles.cos()], -1).flatten(-2)


AnyContext = Context | LiteralContext
Network = Callable[[Tensor, Tensor, AnyContext], tuple[Tensor, Tensor]]  # logits, block, context -> mean, log-variance


@dataclass(frozen=True)
class Bound:
    """A network on one batch, as `method.chain` calls it. The context is computed once, for many steps."""

    network: Network
    context: AnyContext

    def __call__(self, logits: Tensor, block: Tensor) -> tuple[Tensor, Tensor]:
        return self.network(logits, block, self.context)


class Denoiser(nn.Module):
    """What all ways to treat values share: the block, givens and positions of variables, and their relations."""

    def __init__(self, config: DenoiserConfig):
        super().__init__()
        self.config = config
        if config.values == "literals":
            self.body: nn.Module = LiteralBody(config)
            return
        self.in_block = nn.Parameter(torch.randn(config.dim) * 0.02)
        self.is_given = nn.Parameter(torch.randn(config.dim) * 0.02)
        # Attention without a learnt bias is several times faster, so only what a problem needs is learnt.
        self.relation_weights = nn.Parameter(torch.zeros(RELATION_FEATURES, config.heads), config.edge_features)
        # c = -softplus(u) <= 0
        start = math.log(math.expm1(max(-config.relation_bias, 1e-3)))
        self.unrelated = nn.Parameter(torch.full((config.heads,), start), config.relation == "learned")
        self.body = AxisBody(config) if config.values == "axis" else TableBody(config)

    def on(self, batch: Batch) -> Bound:
        """The network with what it is told about the batch: logits and block in, mean and log-variance out."""
        return Bound(self, self.context(batch))

    def context(self, batch: Batch) -> AnyContext:
        """What the network is told about the batch."""
        config = self.config
        if config.values == "literals":
            return literal_context(batch)
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
        domain = None if batch.full else batch.domain
        return Context(base.to(dtype), self.relation(batch), domain, features)

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

    def forward(self, logits: Tensor, block: Tensor, context: AnyContext) -> tuple[Tensor, Tensor]:
        """logits (R, M, K), block (R, M) -> mean (R, M, K), log-variance (R, M, K)."""
        if isinstance(context, LiteralContext):
            found: tuple[Tensor, Tensor] = self.body(logits, block, context)
            return found
        if context.domain is not None:
            logits = logits.masked_fill(~context.domain, float("-inf"))
        x = logits.softmax(-1).to(self.in_block.dtype)
        # What a variable is: where it lies, whether it is given, whether it is in the block.
        role = context.base + self.in_block * block[..., None]  # (R, M, dim)
        mean, log_variance = self.body(x, role, context)
        return mean.float(), log_variance.float().clamp(*LOG_VARIANCE_RANGE)


def in_bfloat16(network: Network) -> Network:
    """The same network with its matrix products in bfloat16; what goes in and comes out stays float32."""

    def call(logits: Tensor, block: Tensor, context: AnyContext) -> tuple[Tensor, Tensor]:
        with torch.autocast(logits.device.type, torch.bfloat16):
            return network(logits, block, context)

    return call
