"""Attention over neighbours in one kernel.

Forward and backward it has no array larger than the queries. A program takes one variable of one row and
walks its list of neighbours, keeping a running softmax:

    out_i = sum_j p_ij v_j,  p_ij = exp(q_i . k_j / sqrt(d) + bias_ij) / sum of the same over j,  j in {i} + neighbours.

Lists are symmetric (if j is a neighbour of i, so is i of j, with the same bias), so in the backward pass the list of i
also names the variables that look at i, and no two programs write to the same place: results are deterministic.

    dp_ij = dout_i . v_j,  ds_ij = p_ij (dp_ij - dout_i . out_i),
    dq_i = sum_j ds_ij k_j / sqrt(d),  dk_i = sum_j ds_ji q_j / sqrt(d),  dv_i = sum_j p_ji dout_j.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

LOG2_E = math.log2(math.e)
CHUNKS = {"forward": 4, "backward": 2}  # neighbours of a variable that a program looks at in one go


@triton.jit
def _list(cell, here, starts_ptr, count, variables, edges):
    """Where the list of neighbours of a variable begins and ends, and its group's first cell."""
    place = (cell % count).to(tl.int32)
    group = place // variables
    at = place + group  # lists have one entry more than variables
    start, end = tl.load(starts_ptr + at, mask=here, other=0), tl.load(starts_ptr + at + 1, mask=here, other=0)
    before = group.to(tl.int64) * edges
    return before + start, before + end, cell - place + group * variables


# One version of each kernel for all sizes of a batch: a batch changes its size again and again.
@triton.jit(do_not_specialize=["cells", "count", "edges"])
def _forward_kernel(
    qkv_ptr, source_ptr, starts_ptr, bias_ptr, out_ptr, lse_ptr,
    cells, count, variables, edges, scale,
    all_heads: tl.constexpr, width: tl.constexpr, biased: tl.constexpr, even_only: tl.constexpr,
    chunk: tl.constexpr, several: tl.constexpr,
):  # fmt: skip
    """Slot s has every chunk-th neighbour of one variable, with a running softmax of its own: slots meet at the end."""
    stride: tl.constexpr = 2 if even_only else 1
    heads: tl.constexpr = all_heads // stride
    inner: tl.constexpr = all_heads * width
    s = tl.arange(0, several * chunk)
    h = tl.arange(0, heads)
    c = (h[:, None] * (stride * width) + tl.arange(0, width)[None, :])[None, :, :]  # (1, heads, width)
    cell = tl.program_id(0).to(tl.int64) * several + s // chunk
    alive = cell < cells
    own, there = cell[:, None, None] * 3 * inner + c, alive[:, None, None]
    q = tl.load(qkv_ptr + own, mask=there, other=0.0).to(tl.float32) * scale  # (slots, heads, width)
    k = tl.load(qkv_ptr + own + inner, mask=there, other=0.0).to(tl.float32)
    v = tl.load(qkv_ptr + own + 2 * inner, mask=there, other=0.0).to(tl.float32)
    # The variable itself comes first, without bias.
    is_own = (s % chunk == 0)[:, None]
    top = tl.where(is_own, tl.sum(q * k, 2), -1e30)  # (slots, heads)
    total = tl.where(is_own, 1.0, 0.0) + tl.zeros_like(top)
    summed = tl.where(is_own[:, :, None], v, 0.0)
    start, end, first = _list(cell, alive, starts_ptr, count, variables, edges)
    for step in range(0, tl.max(end - start, 0), chunk):
        edge = start + step + s % chunk
        here = edge < end
        at = (first + tl.load(source_ptr + edge, mask=here, other=0))[:, None, None] * 3 * inner + c
        k = tl.load(qkv_ptr + at + inner, mask=here[:, None, None], other=0.0).to(tl.float32)
        v = tl.load(qkv_ptr + at + 2 * inner, mask=here[:, None, None], other=0.0).to(tl.float32)
        logit = tl.sum(q * k, 2)
        if biased:
            logit += tl.load(bias_ptr + edge[:, None] * heads + h[None, :], mask=here[:, None], other=0.0)
        logit = tl.where(here[:, None], logit, float("-inf"))
        new_top = tl.maximum(top, logit)
        p, fade = tl.exp2(logit - new_top), tl.exp2(top - new_top)
        total = total * fade + p
        summed = summed * fade[:, :, None] + p[:, :, None] * v
        top = new_top
    highest = tl.max(tl.reshape(top, (several, chunk, heads)), 1)  # (several, heads)
    fade = tl.exp2(tl.reshape(top, (several, chunk, heads)) - highest[:, None, :])
    total = tl.sum(tl.reshape(total, (several, chunk, heads)) * fade, 1)
    summed = tl.sum(tl.reshape(summed, (several, chunk, heads, width)) * fade[:, :, :, None], 1)
    cell = tl.program_id(0).to(tl.int64) * several + tl.arange(0, several)
    alive = cell < cells
    tl.store(out_ptr + cell[:, None, None] * inner + c, summed / total[:, :, None], mask=alive[:, None, None])
    if even_only:  # the others see themselves
        v = tl.load(qkv_ptr + cell[:, None, None] * 3 * inner + 2 * inner + width + c, mask=alive[:, None, None])
        tl.store(out_ptr + cell[:, None, None] * inner + width + c, v, mask=alive[:, None, None])
    else:
        tl.store(lse_ptr + cell[:, None] * heads + h[None, :], highest + tl.log2(total), mask=alive[:, None])


@triton.jit(do_not_specialize=["cells", "count", "edges"])
def _backward_kernel(
    qkv_ptr, source_ptr, starts_ptr, bias_ptr, dout_ptr, lse_ptr, delta_ptr, dqkv_ptr,
    cells, count, variables, edges, scale, natural_scale,
    heads: tl.constexpr, width: tl.constexpr, biased: tl.constexpr, chunk: tl.constexpr, several: tl.constexpr,
):  # fmt: skip
    """Slots as in the forward kernel; each adds up its share of dq, dk and dv."""
    s = tl.arange(0, several * chunk)
    inner: tl.constexpr = heads * width
    h = tl.arange(0, heads)
    c = (h[:, None] * width + tl.arange(0, width)[None, :])[None, :, :]
    cell = tl.program_id(0).to(tl.int64) * several + s // chunk
    alive = cell < cells
    own, there = cell[:, None, None] * 3 * inner + c, alive[:, None, None]
    q = tl.load(qkv_ptr + own, mask=there, other=0.0).to(tl.float32)
    k = tl.load(qkv_ptr + own + inner, mask=there, other=0.0).to(tl.float32)
    v = tl.load(qkv_ptr + own + 2 * inner, mask=there, other=0.0).to(tl.float32)
    dout = tl.load(dout_ptr + cell[:, None, None] * inner + c, mask=there, other=0.0).to(tl.float32)
    lse = tl.load(lse_ptr + cell[:, None] * heads + h[None, :], mask=alive[:, None], other=0.0)
    delta = tl.load(delta_ptr + cell[:, None] * heads + h[None, :], mask=alive[:, None], other=0.0)
    p = tl.where((s % chunk == 0)[:, None], tl.exp2(tl.sum(q * k, 2) * scale - lse), 0.0)
    ds = p * (tl.sum(dout * v, 2) - delta)
    dq, dk, dv = ds[:, :, None] * k, ds[:, :, None] * q, p[:, :, None] * dout
    start, end, first = _list(cell, alive, starts_ptr, count, variables, edges)
    for step in range(0, tl.max(end - start, 0), chunk):
        edge = start + step + s % chunk
        here = edge < end
        flat, wide = here[:, None], here[:, None, None]
        other = first + tl.load(source_ptr + edge, mask=here, other=0)
        at, by_head = other[:, None, None] * inner + c, other[:, None] * heads + h[None, :]
        qj = tl.load(qkv_ptr + other[:, None, None] * 3 * inner + c, mask=wide, other=0.0).to(tl.float32)
        kj = tl.load(qkv_ptr + other[:, None, None] * 3 * inner + c + inner, mask=wide, other=0.0).to(tl.float32)
        vj = tl.load(qkv_ptr + other[:, None, None] * 3 * inner + c + 2 * inner, mask=wide, other=0.0).to(tl.float32)
        doutj = tl.load(dout_ptr + at, mask=wide, other=0.0).to(tl.float32)
        lsej = tl.load(lse_ptr + by_head, mask=flat, other=0.0)
        deltaj = tl.load(delta_ptr + by_head, mask=flat, other=0.0)
        bias = tl.zeros_like(lsej)
        if biased:
            bias = tl.load(bias_ptr + edge[:, None] * heads + h[None, :], mask=flat, other=0.0)
        # The variable looks at j ...
        p = tl.exp2(tl.sum(q * kj, 2) * scale + bias - lse)
        ds = tl.where(flat, p * (tl.sum(dout * vj, 2) - delta), 0.0)
        dq += ds[:, :, None] * kj
        # ... and j looks at the variable.
        p = tl.where(flat, tl.exp2(tl.sum(qj * k, 2) * scale + bias - lsej), 0.0)
        ds = p * (tl.sum(doutj * v, 2) - deltaj)
        dk += ds[:, :, None] * qj
        dv += p[:, :, None] * doutj
    cell = tl.program_id(0).to(tl.int64) * several + tl.arange(0, several)
    into, there = dqkv_ptr + cell[:, None, None] * 3 * inner + c, (cell < cells)[:, None, None]
    dq = tl.sum(tl.reshape(dq, (several, chunk, heads, width)), 1) * natural_scale
    dk = tl.sum(tl.reshape(dk, (several, chunk, heads, width)), 1) * natural_scale
    tl.store(into, dq, mask=there)
    tl.store(into + inner, dk, mask=there)
    tl.store(into + 2 * inner, tl.sum(tl.reshape(dv, (several, chunk, heads, width)), 1), mask=there)


@triton.jit
def _delta_kernel(dout_ptr, out_ptr, delta_ptr, size, width: tl.constexpr, tile: tl.constexpr):
    """dout . out of every head."""
    at = tl.program_id(0).to(tl.int64) * tile + tl.arange(0, tile)
    cells, here = at[:, None] * width + tl.arange(0, width)[None, :], (at < size)[:, None]
    dout = tl.load(dout_ptr + cells, mask=here, other=0.0).to(tl.float32)
    out = tl.load(out_ptr + cells, mask=here, other=0.0).to(tl.float32)
    tl.store(delta_ptr + at, tl.sum(dout * out, 1), mask=at < size)


def head_products(dout: Tensor, out: Tensor) -> Tensor:
    """(..., heads, d) twice -> (..., heads), in one pass."""
    delta = torch.empty(dout.shape[:-1], device=dout.device)
    if size := delta.numel():
        _delta_kernel[(-(-size // 256),)](dout, out, delta, size, width=dout.shape[-1], tile=256)
    return delta


def _shapes(qkv: Tensor, source: Tensor, starts: Tensor, bias: Tensor | None) -> dict[str, Any]:
    """What both kernels are told about their arrays. A program is one warp: sums within it need no shared memory."""
    rows, count, _, _, width = qkv.shape
    return {
        "cells": rows * count,
        "count": count,
        "variables": starts.shape[1] - 1,
        "edges": source.shape[1],
        "scale": LOG2_E / math.sqrt(width),
        "width": width,
        "biased": bias is not None,
        "num_warps": 1,
    }


@torch.library.custom_op("blogdit::neighbour_attention", mutates_args=())
def neighbour_attention(
    qkv: Tensor, source: Tensor, starts: Tensor, bias: Tensor | None, even_only: bool
) -> tuple[Tensor, Tensor]:
    """qkv (R, M, 3, heads, d), contiguous; source (G, E) and starts (G, N + 1) int32: the neighbours of variable i of
    group g are source[g, starts[g, i] : starts[g, i + 1]], numbered within the group; bias (G, E, heads) float32, in
    units of ln 2. Returns the output (R, M, heads, d) and, for the backward pass, log2 of the sums, (R, M, heads);
    there is none with `even_only`, where odd heads see nothing but the variable itself."""
    rows, count, _, heads, width = qkv.shape
    out = qkv.new_empty(rows, count, heads, width)
    lse = qkv.new_empty(rows, count, heads, dtype=torch.float32)
    if out.numel():
        several = 2 if even_only else 1
        _forward_kernel[(-(-rows * count // several),)](
            qkv, source, starts, bias, out, lse, all_heads=heads, even_only=even_only, several=several,
            chunk=CHUNKS["forward"], **_shapes(qkv, source, starts, bias),
        )  # fmt: skip
    return out, lse


@neighbour_attention.register_fake
def _(qkv: Tensor, source: Tensor, starts: Tensor, bias: Tensor | None, even_only: bool) -> tuple[Tensor, Tensor]:
    rows, count, _, heads, width = qkv.shape
    return qkv.new_empty(rows, count, heads, width), qkv.new_empty(rows, count, heads, dtype=torch.float32)


@torch.library.custom_op("blogdit::neighbour_attention_backward", mutates_args=())
def _backward(
    qkv: Tensor, source: Tensor, starts: Tensor, bias: Tensor | None, out: Tensor, lse: Tensor, dout: Tensor
) -> Tensor:
    dout = dout.contiguous()
    delta = head_products(dout, out)
    dqkv, (rows, count, _, heads, width), several = torch.empty_like(qkv), qkv.shape, 2
    if qkv.numel():
        _backward_kernel[(-(-rows * count // several),)](
            qkv, source, starts, bias, dout, lse, delta, dqkv, natural_scale=1 / math.sqrt(width), heads=heads,
            several=several, chunk=CHUNKS["backward"], **_shapes(qkv, source, starts, bias),
        )  # fmt: skip
    return dqkv


@_backward.register_fake
def _(
    qkv: Tensor, source: Tensor, starts: Tensor, bias: Tensor | None, out: Tensor, lse: Tensor, dout: Tensor
) -> Tensor:
    return torch.empty_like(qkv)


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    *tensors, even_only = inputs
    assert not even_only, "even_only has no backward pass"
    ctx.save_for_backward(*tensors, *output)


def _gradient(ctx: Any, dout: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
    return _backward(*ctx.saved_tensors, dout), None, None, None, None


neighbour_attention.register_autograd(_gradient, setup_context=_save)
