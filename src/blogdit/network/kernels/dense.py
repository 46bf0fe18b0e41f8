"""Attention over all pairs of a group, those that are not related masked, as Triton kernels.

Where many pairs are related this beats walking lists of neighbours (`kernels.py`, where the formulas are): matrix units
do the products, and nothing is gathered.

- Small groups, forward and backward: one program takes one group in one row, head by head. Its queries, keys and
  values, at most 128 of each, fit into registers.
- Groups of any size, forward: one program takes some queries of one head, and goes from key to key with a running
  softmax.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

LOG2_E = math.log2(math.e)
# Of `tiled_attention`; see TILED in method/structure.py.
TILE = {"queries": 64, "keys": 64, "num_warps": 4, "num_stages": 1}


@triton.jit
def _tile(ptr, first, stride, count, n, c):
    """Rows first, first + stride, ... (block, width); zero behind the last."""
    at = ptr + (first + n.to(tl.int64) * stride)[:, None] + c[None, :]
    return tl.load(at, mask=(n < count)[:, None], other=0.0)


@triton.jit
def _qkv(ptr, start, count, n, c, inner: tl.constexpr):
    """Queries, keys and values of one head of a group."""
    q = _tile(ptr, start, 3 * inner, count, n, c)
    k = _tile(ptr, start + inner, 3 * inner, count, n, c)
    return q, k, _tile(ptr, start + 2 * inner, 3 * inner, count, n, c)


@triton.jit
def _related(mask_ptr, group, variables, n):
    """Which pairs see each other: the mask, and every variable itself."""
    inside = (n < variables)[:, None] & (n < variables)[None, :]
    at = group.to(tl.int64) * variables * variables + n[:, None] * variables + n[None, :]
    return (tl.load(mask_ptr + at, mask=inside, other=0) != 0) | (n[:, None] == n[None, :])


@triton.jit
def _forward_kernel(
    qkv_ptr, mask_ptr, out_ptr, lse_ptr, groups, variables, scale,
    heads: tl.constexpr, width: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    group = tl.program_id(0) % groups
    first = tl.program_id(0).to(tl.int64) * variables  # the group's first variable, counted over rows
    n, c = tl.arange(0, block), tl.arange(0, width)
    inner: tl.constexpr = heads * width
    here = n < variables
    related = _related(mask_ptr, group, variables, n)
    for head in range(heads):
        start = first * 3 * inner + head * width
        q, k, v = _qkv(qkv_ptr, start, variables, n, c, inner)
        s = tl.where(related, tl.dot(q, tl.trans(k), input_precision="ieee") * scale, float("-inf"))
        top = tl.max(s, 1)
        p = tl.exp2(s - top[:, None])
        total = tl.sum(p, 1)
        out = tl.dot(p.to(v.dtype), v, input_precision="ieee") / total[:, None]
        tl.store(out_ptr + ((first + n) * inner + head * width)[:, None] + c[None, :], out, mask=here[:, None])
        tl.store(lse_ptr + (first + n) * heads + head, top + tl.log2(total), mask=here)


@triton.jit
def _backward_kernel(
    qkv_ptr, mask_ptr, out_ptr, dout_ptr, lse_ptr, dqkv_ptr, groups, variables, scale, natural_scale,
    heads: tl.constexpr, width: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    group = tl.program_id(0) % groups
    first = tl.program_id(0).to(tl.int64) * variables
    n, c = tl.arange(0, block), tl.arange(0, width)
    inner: tl.constexpr = heads * width
    here = n < variables
    related = _related(mask_ptr, group, variables, n)
    for head in range(heads):
        start = first * 3 * inner + head * width
        q, k, v = _qkv(qkv_ptr, start, variables, n, c, inner)
        dout = _tile(dout_ptr, first * inner + head * width, inner, variables, n, c)
        out = _tile(out_ptr, first * inner + head * width, inner, variables, n, c)
        delta = tl.sum(dout.to(tl.float32) * out.to(tl.float32), 1)
        lse = tl.load(lse_ptr + (first + n) * heads + head, mask=here, other=0.0)
        s = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
        p = tl.where(related, tl.exp2(s - lse[:, None]), 0.0)
        dv = tl.dot(tl.trans(p.to(v.dtype)), dout, input_precision="ieee")
        dp = tl.dot(dout, tl.trans(v), input_precision="ieee")
        ds = (p * (dp - delta[:, None])).to(v.dtype)
        dq = tl.dot(ds, k, input_precision="ieee") * natural_scale
        dk = tl.dot(tl.trans(ds), q, input_precision="ieee") * natural_scale
        into = dqkv_ptr + (start + n.to(tl.int64) * 3 * inner)[:, None] + c[None, :]
        tl.store(into, dq, mask=here[:, None])
        tl.store(into + inner, dk, mask=here[:, None])
        tl.store(into + 2 * inner, dv, mask=here[:, None])


@triton.jit(do_not_specialize=["groups"])  # one version for all sizes of a batch
def _tiled_kernel(
    qkv_ptr, words_ptr, out_ptr, groups, variables, words, scale,
    heads: tl.constexpr, width: tl.constexpr, queries: tl.constexpr, keys: tl.constexpr,
):  # fmt: skip
    inner: tl.constexpr = heads * width
    head, place = tl.program_id(0) % heads, tl.program_id(0) // heads
    tiles = tl.cdiv(variables, queries)
    first = (place // tiles).to(tl.int64) * variables  # the group's first variable, counted over rows
    m, c = place % tiles * queries + tl.arange(0, queries), tl.arange(0, width)
    here = m < variables
    start = first * 3 * inner + head * width
    q = _tile(qkv_ptr, start, 3 * inner, variables, m, c)
    # Bits are looked at as matrix units hand out their results: key 32 w + 8 j + 2 pair + b of a query is with thread
    # `pair` of four. Once it has shifted the query's words by 2 pair, the place of each bit, 8 j + b, is a constant.
    each: tl.constexpr = keys // 32
    w, j, pair, b = tl.arange(0, each), tl.arange(0, 4), tl.arange(0, 4), tl.arange(0, 2)
    bit = (1 << (8 * j[:, None, None] + b[None, None, :]))[None, None, :, :, :]
    own_words = (place // tiles % groups).to(tl.int64) * variables * words + m[:, None] * words
    top = tl.full((queries,), -1e30, tl.float32)
    total, summed = tl.zeros((queries,), tl.float32), tl.zeros((queries, width), tl.float32)
    for key in range(0, variables, keys):
        n = key + tl.arange(0, keys)
        k = _tile(qkv_ptr, start + inner, 3 * inner, variables, n, c)
        v = _tile(qkv_ptr, start + 2 * inner, 3 * inner, variables, n, c)
        at = (key // 32 + w)[None, :]
        word = tl.load(words_ptr + own_words + at, mask=here[:, None] & (at < words), other=0)
        related = ((word[:, :, None, None, None] >> (2 * pair)[None, None, None, :, None]) & bit) != 0
        s = tl.reshape(tl.dot(q, tl.trans(k), input_precision="ieee"), (queries, each, 4, 4, 2))
        s = tl.reshape(tl.where(related, s, float("-inf")), (queries, keys))
        new_top = tl.maximum(top, tl.max(s, 1))
        p, fade = tl.exp2(tl.fma(s, scale, (-scale * new_top)[:, None])), tl.exp2((top - new_top) * scale)
        total = total * fade + tl.sum(p, 1)
        summed = tl.dot(p.to(v.dtype), v, summed * fade[:, None], input_precision="ieee")
        top = new_top
    into = out_ptr + ((first + m) * inner + head * width)[:, None] + c[None, :]
    tl.store(into, summed / tl.maximum(total, 0.5)[:, None], mask=here[:, None])  # 0 only behind the last variable


def _shapes(qkv: Tensor, mask: Tensor) -> dict[str, Any]:
    heads, width = qkv.shape[3:]
    groups, variables = mask.shape[:2]
    return {
        "groups": groups,
        "variables": variables,
        "scale": LOG2_E / math.sqrt(width),
        "heads": heads,
        "width": width,
        "block": max(16, triton.next_power_of_2(variables)),
    }


@torch.library.custom_op("blogdit::masked_attention", mutates_args=())
def masked_attention(qkv: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """qkv (R, G * N, 3, heads, d), contiguous; mask (G, N, N) uint8, symmetric, not 0 where a variable sees another
    (itself it always sees). Returns the output (R, G * N, heads, d) and log2 of the sums, (R, G * N, heads)."""
    rows, count, _, heads, width = qkv.shape
    out = qkv.new_empty(rows, count, heads, width)
    lse = qkv.new_empty(rows, count, heads, dtype=torch.float32)
    if out.numel():
        _forward_kernel[(rows * mask.shape[0],)](qkv, mask, out, lse, num_warps=4, **_shapes(qkv, mask))
    return out, lse


@masked_attention.register_fake
def _(qkv: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    rows, count, _, heads, width = qkv.shape
    return qkv.new_empty(rows, count, heads, width), qkv.new_empty(rows, count, heads, dtype=torch.float32)


@torch.library.custom_op("blogdit::masked_attention_backward", mutates_args=())
def _backward(qkv: Tensor, mask: Tensor, out: Tensor, lse: Tensor, dout: Tensor) -> Tensor:
    dout = dout.contiguous()
    dqkv, (rows, _, _, _, width) = torch.empty_like(qkv), qkv.shape
    if qkv.numel():
        _backward_kernel[(rows * mask.shape[0],)](
            qkv, mask, out, dout, lse, dqkv, natural_scale=1 / math.sqrt(width),
            num_warps=4 if mask.shape[1] <= 64 else 8, **_shapes(qkv, mask),
        )  # fmt: skip
    return dqkv


@_backward.register_fake
def _(qkv: Tensor, mask: Tensor, out: Tensor, lse: Tensor, dout: Tensor) -> Tensor:
    return torch.empty_like(qkv)


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    ctx.save_for_backward(*inputs, *output)


def _gradient(ctx: Any, dout: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
    return _backward(*ctx.saved_tensors, dout), None


masked_attention.register_autograd(_gradient, setup_context=_save)


def tiled_attention(qkv: Tensor, words: Tensor) -> Tensor:
    """qkv (R, G * N, 3, heads, d), contiguous; words (G, N, ceil(N / 32)) int32: bit j % 32 of word j // 32 says
    whether a variable sees variable j; itself it must see. Returns the output (R, G * N, heads, d); no gradients."""
    assert not (torch.is_grad_enabled() and qkv.requires_grad), "tiles have no backward pass"
    rows, count, _, heads, width = qkv.shape
    groups, variables, length = words.shape
    out = qkv.new_empty(rows, count, heads, width)
    if out.numel():
        tiles = -(-variables // TILE["queries"])
        _tiled_kernel[(rows * groups * tiles * heads,)](
            qkv, words, out, groups, variables, length, LOG2_E / math.sqrt(width), heads=heads, width=width, **TILE
        )
    return out
