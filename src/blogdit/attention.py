"""Self-attention that knows which variables are related (Appendix E of the paper).

The logit of variable i towards j is q_i . k_j / sqrt(d) + bias_ij, with bias

- 0 for j = i,
- w . features_ij for related pairs, w learnt per head (or fixed at 0),
- c <= 0 for unrelated pairs: fixed, learnt per head, or minus infinity ("neighbours").

With `signed`, for weighted problems, a relation of strength s adds log |s|, so that attention is proportional to |s|;
even heads see only relations that push values apart (s > 0), odd heads those that pull them together (s < 0).

`dense` computes all pairs of an instance. `neighbours` computes related pairs only, in time and memory linear in
their number; with c minus infinity both give the same numbers.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from blogdit.batch import Batch


class DenseBias(NamedTuple):
    """Bias of every pair, (G, heads, N, N)."""

    bias: Tensor


class NeighbourBias(NamedTuple):
    """Related pairs of all groups, own pairs included: source and target (E,) in 0 .. M - 1, bias (E, heads)."""

    source: Tensor
    target: Tensor
    bias: Tensor


def _relation_bias(features: Tensor, weights: Tensor, signed: bool) -> Tensor:
    """Bias of related pairs with features (..., F) -> (..., heads)."""
    bias = (features @ weights).to(weights.dtype)  # autocast would make it bfloat16
    if not signed:
        return bias
    strength = features[..., :1]
    apart = torch.arange(weights.shape[1], device=weights.device) % 2 == 0
    hidden = torch.where(apart, strength < 0, strength > 0)
    logarithm = torch.where(strength == 0, 0.0, strength.abs().clamp(min=1e-6).log())
    return (bias + logarithm).masked_fill(hidden, float("-inf"))


def dense_bias(batch: Batch, weights: Tensor, unrelated: Tensor, signed: bool = False) -> DenseBias:
    """`weights` (F, heads) of the relation features, `unrelated` (heads,) the bias c, which may be -inf."""
    relations, n, heads = batch.structure.relations, batch.variables, weights.shape[1]
    groups = relations.source.shape[0]
    pair = (torch.arange(groups, device=batch.device)[:, None] * n + relations.target) * n + relations.source
    # Padding of the list points at a cell of its own behind the last one.
    pair = torch.where(relations.present, pair, groups * n * n).reshape(-1)
    values = _relation_bias(relations.features, weights, signed).reshape(-1, heads)
    bias = weights.new_zeros(groups * n * n + 1, heads).index_add(0, pair, values)[:-1].view(groups, n, n, heads)
    marked = torch.zeros(groups * n * n + 1, dtype=torch.bool, device=batch.device)
    marked[pair] = True
    related = marked[:-1].view(groups, n, n)
    bias = torch.where(related[..., None], bias, unrelated)
    own = torch.eye(n, dtype=torch.bool, device=batch.device)
    visible = related | own
    # Variables see related ones always, unrelated ones if c is finite, padding never, and themselves without bias.
    visible = visible | (torch.isfinite(unrelated).all() & batch.structure.real[:, None, :])
    bias = torch.where(own[..., None], 0.0, bias)
    return DenseBias(torch.where(visible[..., None], bias, float("-inf")).permute(0, 3, 1, 2).contiguous())


def neighbour_bias(batch: Batch, weights: Tensor, signed: bool = False) -> NeighbourBias:
    relations, count = batch.structure.relations, batch.groups * batch.variables
    present = relations.present.reshape(-1)
    own = torch.arange(count, device=batch.device)
    source = torch.cat([batch.flat(relations.source)[present], own])
    target = torch.cat([batch.flat(relations.target)[present], own])
    bias = _relation_bias(relations.features.reshape(-1, weights.shape[0])[present], weights, signed)
    bias = torch.cat([bias, bias.new_zeros(count, weights.shape[1])])
    order = torch.argsort(target, stable=True)
    return NeighbourBias(source[order], target[order], bias[order])


def dense(q: Tensor, k: Tensor, v: Tensor, bias: DenseBias) -> Tensor:
    """q, k, v (R, M, heads, d) -> (R, M, heads, d)."""
    rows, count, heads, width = q.shape
    groups, n = bias.bias.shape[0], bias.bias.shape[-1]
    folded = [t.view(rows * groups, n, heads, width).transpose(1, 2) for t in (q, k, v)]  # (R G, heads, N, d)
    mask = bias.bias.to(q.dtype)
    mask = mask.expand(rows, *mask.shape[1:]) if groups == 1 else mask.repeat(rows, 1, 1, 1)
    out = functional.scaled_dot_product_attention(folded[0], folded[1], folded[2], attn_mask=mask)
    return out.transpose(1, 2).reshape(rows, count, heads, width)


def neighbours(q: Tensor, k: Tensor, v: Tensor, bias: NeighbourBias) -> Tensor:
    """The same over related pairs only."""
    rows, count, heads, width = q.shape
    source, target = bias.source, bias.target
    logits = (q.index_select(1, target) * k.index_select(1, source)).sum(-1).float() / width**0.5 + bias.bias
    place = target[None, :, None].expand(rows, -1, heads)
    top = logits.new_full((rows, count, heads), float("-inf")).scatter_reduce(1, place, logits.detach(), "amax")
    weights = torch.exp(logits - top.index_select(1, target))
    total = weights.new_zeros(rows, count, heads).index_add(1, target, weights)
    messages = weights.to(v.dtype)[..., None] * v.index_select(1, source)
    summed = v.new_zeros(rows, count, heads, width).index_add(1, target, messages)
    return summed / total.to(v.dtype)[..., None]


def attend(q: Tensor, k: Tensor, v: Tensor, bias: DenseBias | NeighbourBias) -> Tensor:
    return dense(q, k, v, bias) if isinstance(bias, DenseBias) else neighbours(q, k, v, bias)
