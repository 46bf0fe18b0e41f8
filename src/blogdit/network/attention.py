"""Self-attention that knows which variables are related (Appendix E of the paper).

The logit of variable i towards j is q_i . k_j / sqrt(d) + bias_ij, with bias

- 0 for j = i,
- w . features_ij for related pairs, w learnt per head (or fixed at 0),
- c <= 0 for unrelated pairs: fixed, learnt per head, or minus infinity ("neighbours").

With `signed`, for weighted problems, a relation of strength s adds log |s|, so that attention is proportional to |s|;
even heads see only relations that push values apart (s > 0), odd heads those that pull them together (s < 0).

Five ways to compute it, which give the same numbers where they apply:

- `dense`: all pairs of an instance; the only way if unrelated pairs are visible.
- `neighbours`: related pairs only, in time and memory linear in their number.
- `kernels/neighbours.py`: likewise on a GPU, in one kernel and memory linear in the variables.
- `kernels/dense.py`, masked: on a GPU, for small groups whose relations have no weights.
- `kernels/dense.py`, tiled: likewise for groups of any size, worth it where many pairs are related; no gradients.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from blogdit.method.batch import Batch
from blogdit.network.runtime import runs_kernels

LOG2_E = math.log2(math.e)
MOST_NUMBERS = 1 << 24  # in an array with an entry for every related pair, where that can be chosen


class DenseBias(NamedTuple):
    """Bias of every pair, (G, heads, N, N); or (G, 1, N, N) where it is the same for all heads."""

    bias: Tensor


class NeighbourBias(NamedTuple):
    """Related pairs of all groups, own pairs included: source and target (E,) in 0 .. M - 1, bias (E, heads)."""

    source: Tensor
    target: Tensor
    bias: Tensor


class NeighbourLists(NamedTuple):
    """Related pairs as the kernel wants them: `source` (G, E) and `starts` (G, N + 1) of `batch.Relations` as int32,
    bias (G, E, heads) in units of ln 2, or None where it is 0. `even_only`: odd heads see nothing but the variable
    itself (no gradients then)."""

    source: Tensor
    starts: Tensor
    bias: Tensor | None
    even_only: bool = False


class Mask(NamedTuple):
    """Which variables see each other, (G, N, N) uint8, for the kernel of small groups."""

    related: Tensor


class MaskBits(NamedTuple):
    """The same for groups of any size, every variable itself included: (G, N, words) int32, 32 variables in a word."""

    words: Tensor


class Divided(NamedTuple):
    """Some groups of a batch, by their numbers (C,), have lists, the others bits: each what suits it."""

    few: Tensor
    lists: NeighbourLists
    many: Tensor
    bits: MaskBits


Bias = DenseBias | NeighbourBias | NeighbourLists | Mask | MaskBits | Divided


def _relation_bias(features: Tensor, weights: Tensor, signed: bool) -> Tensor:
    """Bias of related pairs with features (..., F) -> (..., heads)."""
    bias = (features @ weights.float()).float()  # autocast would make it bfloat16
    if not signed:
        return bias
    strength = features[..., :1]
    apart = torch.arange(weights.shape[1], device=weights.device) % 2 == 0
    hidden = torch.where(apart, strength < 0, strength > 0)
    logarithm = torch.where(strength == 0, 0.0, strength.abs().clamp(min=1e-6).log())
    return (bias + logarithm).masked_fill(hidden, float("-inf"))


def dense_bias(batch: Batch, weights: Tensor, unrelated: Tensor, signed: bool = False) -> DenseBias:
    """`weights` (F, heads) of the relation features, `unrelated` (heads,) the bias c, which may be -inf."""
    relations, n, heads = batch.relations, batch.variables, weights.shape[1]
    groups = relations.source.shape[0]
    pair = (torch.arange(groups, device=batch.device)[:, None] * n + relations.target) * n + relations.source
    # Padding of the list points at a cell of its own behind the last one.
    pair = torch.where(relations.present, pair, groups * n * n).reshape(-1)
    values = _relation_bias(relations.features, weights, signed).reshape(-1, heads)
    unrelated = unrelated.float()
    bias = values.new_zeros(groups * n * n + 1, heads).index_add(0, pair, values)[:-1].view(groups, n, n, heads)
    marked = torch.zeros(groups * n * n + 1, dtype=torch.bool, device=batch.device)
    marked[pair] = True
    related = marked[:-1].view(groups, n, n)
    bias = torch.where(related[..., None], bias, unrelated)
    own = torch.eye(n, dtype=torch.bool, device=batch.device)
    visible = related | own
    # Variables see related ones always, unrelated ones if c is finite, padding never, and themselves without bias.
    visible = visible | (torch.isfinite(unrelated).all() & batch.structure.real[:, None, :])
    bias = torch.where(own[..., None], 0.0, bias)
    bias = torch.where(visible[..., None], bias, float("-inf")).permute(0, 3, 1, 2).contiguous()
    return DenseBias(bias)


def neighbour_bias(batch: Batch, weights: Tensor, signed: bool = False) -> NeighbourBias:
    relations, count = batch.relations, batch.groups * batch.variables
    present = relations.present.reshape(-1)
    own = torch.arange(count, device=batch.device)
    source = torch.cat([batch.flat(relations.source)[present], own])
    target = torch.cat([batch.flat(relations.target)[present], own])
    bias = _relation_bias(relations.features.reshape(-1, weights.shape[0])[present], weights, signed)
    bias = torch.cat([bias, bias.new_zeros(count, weights.shape[1])])
    order = torch.argsort(target, stable=True)
    return NeighbourBias(source[order], target[order], bias[order])


def has_kernel(device: torch.device, heads: int, width: int) -> bool:
    """Whether the kernel runs here: a CUDA device, Triton, and heads whose sizes are powers of two."""
    powers = heads & (heads - 1) == 0 and width & (width - 1) == 0
    return powers and runs_kernels(device)


def neighbour_lists(batch: Batch, weights: Tensor, signed: bool = False) -> NeighbourLists:
    """For weights that are all zero: the kernel gives no gradient for the bias."""
    relations = batch.relations
    source, starts = relations.source.int(), relations.starts.int()
    if not signed:
        return NeighbourLists(source, starts, None)
    if not torch.is_grad_enabled() and weights.shape[1] % 2 == 0:  # in solving, unweighted graphs are worth a look
        unweighted = (relations.features[..., 0] == 1) | ~relations.present
        if unweighted.all():
            return NeighbourLists(source, starts, None, even_only=True)
    return NeighbourLists(source, starts, _relation_bias(relations.features, weights.detach(), True) * LOG2_E)


def pair_mask(batch: Batch) -> Mask:
    """For relations without weights and without learnt bias."""
    relations, n = batch.relations, batch.variables
    groups = relations.source.shape[0]
    pair = (torch.arange(groups, device=batch.device)[:, None] * n + relations.target) * n + relations.source
    pair = torch.where(relations.present, pair, groups * n * n)  # padding of the list: a cell behind the last one
    related = torch.zeros(groups * n * n + 1, dtype=torch.uint8, device=batch.device)
    return Mask(related.index_fill_(0, pair.reshape(-1), 1)[:-1].view(groups, n, n))


def pair_bits(batch: Batch) -> MaskBits:
    """`pair_mask` with every variable itself, bit j % 32 of word j // 32 for variable j."""
    related = pair_mask(batch).related
    related.diagonal(dim1=1, dim2=2).fill_(1)
    related = functional.pad(related, (0, -related.shape[2] % 32)).view(*related.shape[:2], -1, 8)
    places = torch.tensor([1 << place for place in range(8)], dtype=torch.uint8, device=batch.device)
    return MaskBits((related * places).sum(-1, dtype=torch.uint8).view(torch.int32))  # the first byte is the lowest


def lists_or_bits(batch: Batch, weights: Tensor) -> NeighbourLists | MaskBits | Divided:
    """Each group as it is faster, whoever is beside it; for solving, and for relations without weights."""
    crowded = batch.relations.crowded
    if crowded.all():
        return pair_bits(batch)
    if not crowded.any():
        return neighbour_lists(batch, weights)
    few, many = (~crowded).nonzero()[:, 0], crowded.nonzero()[:, 0]
    return Divided(few, neighbour_lists(batch.take(few), weights), many, pair_bits(batch.take(many)))


def dense(q: Tensor, k: Tensor, v: Tensor, bias: DenseBias) -> Tensor:
    """q, k, v (R, M, heads, d) -> (R, M, heads, d)."""
    rows, _, heads, width = q.shape
    groups, alike, n, _ = bias.bias.shape
    mask = bias.bias.to(q.dtype)
    q_, k_, v_ = (t.view(rows, groups, n, heads, width) for t in (q, k, v))
    if alike == 1 and groups > 1:  # rows beside heads: each group's mask is there once, for all of them
        q_, k_, v_ = (t.permute(1, 0, 3, 2, 4).flatten(1, 2) for t in (q_, k_, v_))  # (G, R heads, N, d)
        mask = mask.expand(-1, rows * heads, -1, -1)
        out = functional.scaled_dot_product_attention(q_, k_, v_, attn_mask=mask)
        return out.view(groups, rows, heads, n, width).permute(1, 0, 3, 2, 4).reshape(q.shape)
    q_, k_, v_ = (t.flatten(0, 1).transpose(1, 2) for t in (q_, k_, v_))  # (R G, heads, N, d)
    mask = mask.expand(rows, heads, n, n) if groups == 1 else mask.repeat(rows, 1, 1, 1)
    out = functional.scaled_dot_product_attention(q_, k_, v_, attn_mask=mask)
    return out.transpose(1, 2).reshape(q.shape)


def neighbours(q: Tensor, k: Tensor, v: Tensor, bias: NeighbourBias) -> Tensor:
    """The same over related pairs only; without gradients, some rows at a time. Variables come first and rows lie side
    by side, so that gathering and adding up move long stretches of memory."""
    rows, count, heads, width = q.shape
    source, target = bias.source, bias.target
    some = max(1, MOST_NUMBERS // max(len(source) * heads * width, 1))
    if some < rows and not torch.is_grad_enabled():
        parts = zip(*(torch.split(t, some) for t in (q, k, v)), strict=True)
        return torch.cat([neighbours(q, k, v, bias) for q, k, v in parts])
    q, k, v = (t.transpose(0, 1).contiguous() for t in (q, k, v))  # (M, R, heads, d)
    logits = (q.index_select(0, target) * k.index_select(0, source)).sum(-1).float() / width**0.5
    logits = logits + bias.bias[:, None]  # (E, R, heads)
    place = target[:, None, None].expand(-1, rows, heads)
    top = logits.new_full((count, rows, heads), float("-inf")).scatter_reduce(0, place, logits.detach(), "amax")
    weights = torch.exp(logits - top.index_select(0, target))
    total = weights.new_zeros(count, rows, heads).index_add(0, target, weights)
    messages = weights.to(v.dtype)[..., None] * v.index_select(0, source)
    summed = v.new_zeros(count, rows, heads, width).index_add(0, target, messages)
    return (summed / total.to(v.dtype)[..., None]).transpose(0, 1)


def _divided(qkv: Tensor, bias: Divided) -> Tensor:
    rows, _, _, heads, width = qkv.shape
    qkv = qkv.view(rows, len(bias.few) + len(bias.many), -1, 3, heads, width)
    out = qkv.new_empty(*qkv.shape[:3], heads, width)
    for groups, own in ((bias.few, bias.lists), (bias.many, bias.bits)):
        seen = attend(qkv.index_select(1, groups).flatten(1, 2), own)
        out.index_copy_(1, groups, seen.view(rows, len(groups), -1, heads, width))
    return out.flatten(1, 2)


def attend(qkv: Tensor, bias: Bias) -> Tensor:
    """qkv (R, M, 3, heads, d) -> (R, M, heads, d)."""
    if isinstance(bias, NeighbourLists):
        from blogdit.network.kernels.neighbours import neighbour_attention  # needs Triton

        out: Tensor = neighbour_attention(qkv.contiguous(), *bias)[0]
        return out
    if isinstance(bias, Mask):
        from blogdit.network.kernels.dense import masked_attention

        seen: Tensor = masked_attention(qkv.contiguous(), bias.related)[0]
        return seen
    if isinstance(bias, MaskBits):
        from blogdit.network.kernels.dense import tiled_attention

        return tiled_attention(qkv.contiguous(), bias.words)
    if isinstance(bias, Divided):
        return _divided(qkv, bias)
    q, k, v = qkv.unbind(2)
    return dense(q, k, v, bias) if isinstance(bias, DenseBias) else neighbours(q, k, v, bias)
