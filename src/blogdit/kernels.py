"""What a GPU does in one kernel of our own: attention over neighbours, and the noise of streams.

Attention, forward and backward, has no array larger than the queries. A program takes one variable of one row and
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
CHUNKS = {"forward": 16, "backward": 8}  # neighbours that a program looks at in one go


@triton.jit
def _logits(q, k, heads: tl.constexpr, width: tl.constexpr):
    """Inner products by head: (..., heads * width) twice -> (n, heads)."""
    return tl.sum(tl.reshape(q * k, (q.shape[0], heads, width)), 2)


@triton.jit
def _spread(x, heads: tl.constexpr, width: tl.constexpr):
    """A number per head for each of its coordinates: (n, heads) -> (n, heads * width)."""
    wide = tl.broadcast_to(tl.expand_dims(x, 2), (x.shape[0], heads, width))
    return tl.reshape(wide, (x.shape[0], heads * width))


@triton.jit
def _forward_kernel(
    qkv_ptr, source_ptr, starts_ptr, bias_ptr, out_ptr, lse_ptr,
    count, variables, edges, scale,
    heads: tl.constexpr, width: tl.constexpr, biased: tl.constexpr, chunk: tl.constexpr,
):  # fmt: skip
    place, row = tl.program_id(0) % count, (tl.program_id(0) // count).to(tl.int64)
    group = place // variables
    inner: tl.constexpr = heads * width
    c, h, e = tl.arange(0, inner), tl.arange(0, heads), tl.arange(0, chunk)
    cells = row * count
    own = (cells + place) * 3 * inner + c[None, :]
    q = tl.load(qkv_ptr + own).to(tl.float32) * scale  # (1, heads * width)
    # The variable itself comes first, without bias.
    top = _logits(q, tl.load(qkv_ptr + own + inner).to(tl.float32), heads, width)  # (1, heads)
    total = tl.full((1, heads), 1.0, tl.float32)
    summed = tl.load(qkv_ptr + own + 2 * inner).to(tl.float32)
    list_start = place + group  # lists have one entry more than variables
    start, end = tl.load(starts_ptr + list_start), tl.load(starts_ptr + list_start + 1)
    for first in range(start, end, chunk):
        here = (first + e) < end
        edge = group.to(tl.int64) * edges + first + e
        j = group * variables + tl.load(source_ptr + edge, mask=here, other=0)
        at = (cells + j)[:, None] * 3 * inner + c[None, :]
        k = tl.load(qkv_ptr + at + inner, mask=here[:, None], other=0.0).to(tl.float32)
        v = tl.load(qkv_ptr + at + 2 * inner, mask=here[:, None], other=0.0).to(tl.float32)
        s = _logits(tl.broadcast_to(q, k.shape), k, heads, width)  # (chunk, heads)
        if biased:
            s += tl.load(bias_ptr + edge[:, None] * heads + h[None, :], mask=here[:, None], other=0.0)
        s = tl.where(here[:, None], s, float("-inf"))
        new_top = tl.maximum(top, tl.max(s, 0)[None, :])
        p = tl.exp2(s - new_top)
        fade = tl.exp2(top - new_top)
        total = total * fade + tl.sum(p, 0)[None, :]
        summed = summed * _spread(fade, heads, width) + tl.sum(_spread(p, heads, width) * v, 0)[None, :]
        top = new_top
    cell = cells + place
    tl.store(out_ptr + cell * inner + c[None, :], summed / _spread(total, heads, width))
    tl.store(lse_ptr + cell * heads + h[None, :], top + tl.log2(total))


@triton.jit
def _backward_kernel(
    qkv_ptr, source_ptr, starts_ptr, bias_ptr, dout_ptr, lse_ptr, delta_ptr, dqkv_ptr,
    count, variables, edges, scale, natural_scale,
    heads: tl.constexpr, width: tl.constexpr, biased: tl.constexpr, chunk: tl.constexpr,
):  # fmt: skip
    place, row = tl.program_id(0) % count, (tl.program_id(0) // count).to(tl.int64)
    group = place // variables
    inner: tl.constexpr = heads * width
    c, h, e = tl.arange(0, inner), tl.arange(0, heads), tl.arange(0, chunk)
    cells = row * count
    own = (cells + place) * 3 * inner + c[None, :]
    q = tl.load(qkv_ptr + own).to(tl.float32)
    k = tl.load(qkv_ptr + own + inner).to(tl.float32)
    v = tl.load(qkv_ptr + own + 2 * inner).to(tl.float32)
    dout = tl.load(dout_ptr + (cells + place) * inner + c[None, :]).to(tl.float32)
    lse = tl.load(lse_ptr + (cells + place) * heads + h[None, :])
    delta = tl.load(delta_ptr + (cells + place) * heads + h[None, :])
    own_p = tl.exp2(_logits(q, k, heads, width) * scale - lse)
    own_ds = own_p * (_logits(dout, v, heads, width) - delta)
    dq, dk = _spread(own_ds, heads, width) * k, _spread(own_ds, heads, width) * q
    dv = _spread(own_p, heads, width) * dout
    list_start = place + group  # lists have one entry more than variables
    start, end = tl.load(starts_ptr + list_start), tl.load(starts_ptr + list_start + 1)
    for first in range(start, end, chunk):
        here = (first + e) < end
        edge = group.to(tl.int64) * edges + first + e
        j = group * variables + tl.load(source_ptr + edge, mask=here, other=0)
        at, there = (cells + j)[:, None] * 3 * inner + c[None, :], here[:, None]
        qj = tl.load(qkv_ptr + at, mask=there, other=0.0).to(tl.float32)
        kj = tl.load(qkv_ptr + at + inner, mask=there, other=0.0).to(tl.float32)
        vj = tl.load(qkv_ptr + at + 2 * inner, mask=there, other=0.0).to(tl.float32)
        cell = cells + j
        doutj = tl.load(dout_ptr + cell[:, None] * inner + c[None, :], mask=there, other=0.0).to(tl.float32)
        lsej = tl.load(lse_ptr + cell[:, None] * heads + h[None, :], mask=there, other=0.0)
        deltaj = tl.load(delta_ptr + cell[:, None] * heads + h[None, :], mask=there, other=0.0)
        bias = tl.zeros((chunk, heads), tl.float32)
        if biased:
            bias = tl.load(bias_ptr + edge[:, None] * heads + h[None, :], mask=there, other=0.0)
        # The variable looks at j ...
        p = tl.exp2(_logits(tl.broadcast_to(q, kj.shape), kj, heads, width) * scale + bias - lse)
        ds = tl.where(there, p * (_logits(tl.broadcast_to(dout, vj.shape), vj, heads, width) - delta), 0.0)
        dq += tl.sum(_spread(ds, heads, width) * kj, 0)[None, :]
        # ... and j looks at the variable.
        p = tl.exp2(_logits(qj, tl.broadcast_to(k, qj.shape), heads, width) * scale + bias - lsej)
        p = tl.where(there, p, 0.0)
        ds = p * (_logits(doutj, tl.broadcast_to(v, doutj.shape), heads, width) - deltaj)
        dk += tl.sum(_spread(ds, heads, width) * qj, 0)[None, :]
        dv += tl.sum(_spread(p, heads, width) * doutj, 0)[None, :]
    tl.store(dqkv_ptr + own, dq * natural_scale)
    tl.store(dqkv_ptr + own + inner, dk * natural_scale)
    tl.store(dqkv_ptr + own + 2 * inner, dv)


def _shapes(qkv: Tensor, source: Tensor, starts: Tensor, bias: Tensor | None) -> dict[str, Any]:
    """What both kernels are told about their arrays."""
    _, count, _, heads, width = qkv.shape
    return {
        "count": count,
        "variables": starts.shape[1] - 1,
        "edges": source.shape[1],
        "scale": LOG2_E / math.sqrt(width),
        "heads": heads,
        "width": width,
        "biased": bias is not None,
        "num_warps": 1,
    }


@torch.library.custom_op("blogdit::neighbour_attention", mutates_args=())
def neighbour_attention(qkv: Tensor, source: Tensor, starts: Tensor, bias: Tensor | None) -> tuple[Tensor, Tensor]:
    """qkv (R, M, 3, heads, d), contiguous; source (G, E) and starts (G, N + 1) int32: the neighbours of variable i of
    group g are source[g, starts[g, i] : starts[g, i + 1]], numbered within the group; bias (G, E, heads) float32, in
    units of ln 2. Returns the output (R, M, heads, d) and, for the backward pass, log2 of the sums, (R, M, heads)."""
    rows, count, _, heads, width = qkv.shape
    out = qkv.new_empty(rows, count, heads, width)
    lse = qkv.new_empty(rows, count, heads, dtype=torch.float32)
    if out.numel():
        _forward_kernel[(rows * count,)](
            qkv, source, starts, bias, out, lse, chunk=CHUNKS["forward"], **_shapes(qkv, source, starts, bias)
        )
    return out, lse


@neighbour_attention.register_fake
def _(qkv: Tensor, source: Tensor, starts: Tensor, bias: Tensor | None) -> tuple[Tensor, Tensor]:
    rows, count, _, heads, width = qkv.shape
    return qkv.new_empty(rows, count, heads, width), qkv.new_empty(rows, count, heads, dtype=torch.float32)


@torch.library.custom_op("blogdit::neighbour_attention_backward", mutates_args=())
def _backward(
    qkv: Tensor, source: Tensor, starts: Tensor, bias: Tensor | None, out: Tensor, lse: Tensor, dout: Tensor
) -> Tensor:
    dout = dout.contiguous()
    delta = (dout.float() * out.float()).sum(-1)
    dqkv, (rows, count) = torch.empty_like(qkv), qkv.shape[:2]
    if qkv.numel():
        _backward_kernel[(rows * count,)](
            qkv, source, starts, bias, dout, lse, delta, dqkv,
            natural_scale=1 / math.sqrt(qkv.shape[-1]), chunk=CHUNKS["backward"], **_shapes(qkv, source, starts, bias),
        )  # fmt: skip
    return dqkv


@_backward.register_fake
def _(
    qkv: Tensor, source: Tensor, starts: Tensor, bias: Tensor | None, out: Tensor, lse: Tensor, dout: Tensor
) -> Tensor:
    return torch.empty_like(qkv)


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    ctx.save_for_backward(*inputs, *output)


def _gradient(ctx: Any, dout: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
    return _backward(*ctx.saved_tensors, dout), None, None, None


neighbour_attention.register_autograd(_gradient, setup_context=_save)


@triton.jit
def _mix(x):
    """`noise._mix` on uint32."""
    x = x ^ (x >> 16)
    x = x * 0x7FEB352D
    x = x ^ (x >> 15)
    x = x * 0x846CA68B
    return x ^ (x >> 16)


@triton.jit
def _bits(key, draw, chain, variable, value, lane: tl.constexpr):
    """`noise.StreamNoise._bits` of one number."""
    key = _mix(_mix(key ^ _mix(draw * 2 + lane)) + 0x9E37)
    key = _mix(key + chain * 0x3C6EF372)
    key = _mix(key + variable * 0x5BD1E995)
    return (_mix(key ^ _mix(value + 0x51ED270B)) >> 8).to(tl.float32)


@triton.jit
def _noise_kernel(
    keys_ptr, draws_ptr, out_ptr, size, instances, variables, width, normal: tl.constexpr, chunk: tl.constexpr
):
    at = tl.program_id(0).to(tl.int64) * chunk + tl.arange(0, chunk)
    here = at < size
    cell = at // width
    value, variable = (at % width).to(tl.uint32), (cell % variables).to(tl.uint32)
    row = cell // variables
    instance, chain = row % instances, (row // instances).to(tl.uint32)
    key = tl.load(keys_ptr + instance, mask=here, other=0).to(tl.uint32, bitcast=True)
    draw = tl.load(draws_ptr + instance, mask=here, other=0).to(tl.uint32, bitcast=True)
    unit: tl.constexpr = 1.0 / 16777216.0
    first = _bits(key, draw, chain, variable, value, 0)
    if normal:
        second = _bits(key, draw, chain, variable, value, 1) * unit
        out = tl.sqrt(-2.0 * tl.log((first + 0.5) * unit)) * tl.cos(6.283185307179586 * second)
    else:
        out = first * unit
    tl.store(out_ptr + at, out, mask=here)


def stream_noise(keys: Tensor, draws: Tensor, chains: int, variables: int, width: int, normal: bool) -> Tensor:
    """What `noise.StreamNoise` computes, (chains, B, variables, width), from its keys and draws (B,) int32."""
    out = torch.empty(chains, len(keys), variables, width, device=keys.device)
    if size := out.numel():
        chunk = 1024
        _noise_kernel[(-(-size // chunk),)](
            keys, draws, out, size, len(keys), variables, width, normal=normal, chunk=chunk
        )
    return out
