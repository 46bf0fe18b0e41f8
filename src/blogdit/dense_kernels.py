"""Attention within small groups as one Triton kernel, forward and backward: all pairs of a group stay on the chip.

One program takes one group in one row, head by head: its queries, keys and values, at most 128 of each, fit into
registers, and pairs that are not related are masked. On boards and small dense graphs this beats walking lists of
neighbours (`kernels.py`, where the formulas are), because matrix units do the products and nothing is gathered.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

LOG2_E = math.log2(math.e)


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
