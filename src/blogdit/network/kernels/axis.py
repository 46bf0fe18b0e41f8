"""Parts of a layer of `value_axis` in one pass over the residual stream, forward and backward, for training on a GPU.

`add_norm`: h' = h + change, u = LayerNorm(h') and, over the values of each variable, the highest and the mean of u.
`add_relu`: relu(a + pooled), pooled being the same for all values of a variable.

A program has some variables of one row and goes from value to value, so what belongs to a variable stays in registers.
With x^ = (h' - mean) / deviation over the last dimension, g the gradient of u, and bar the mean over that dimension:

    dh' += (g w - bar(g w) - x^ bar(g w x^)) / deviation,  dw = sum g x^,  db = sum g.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

CELLS = 1024  # numbers that a program of four warps has in hand at a time


@triton.jit
def _places(row, k, m, values, variables, dim: tl.constexpr):
    """Of (variables m, all dimensions) at value k, in (R, K, M, dim)."""
    return ((row * values + k) * variables + m)[:, None] * dim + tl.arange(0, dim)[None, :]


@triton.jit
def _normed(x, eps, dim: tl.constexpr):
    """x^ and 1 / deviation."""
    centred = x - tl.sum(x, 1)[:, None] / dim
    scale = tl.rsqrt(tl.sum(centred * centred, 1)[:, None] / dim + eps)
    return centred * scale, scale


@triton.jit
def _inside(domain_ptr, k, m, variables, masked: tl.constexpr):
    """Whether variables m can have value k."""
    here = m < variables
    return (tl.load(domain_ptr + k * variables + m, mask=here, other=0) != 0 if masked else here)[:, None]


@triton.jit
def _add_norm_kernel(
    h_ptr, change_ptr, weight_ptr, bias_ptr, domain_ptr, sum_ptr, u_ptr, highest_ptr, mean_ptr, first_ptr,
    values, variables, eps, dim: tl.constexpr, tile: tl.constexpr, pooled: tl.constexpr, masked: tl.constexpr,
):  # fmt: skip
    row, m = tl.program_id(0).to(tl.int64), tl.program_id(1) * tile + tl.arange(0, tile)
    here = (m < variables)[:, None]
    d = tl.arange(0, dim)[None, :]
    weight, bias = tl.load(weight_ptr + d).to(tl.float32), tl.load(bias_ptr + d).to(tl.float32)
    highest = tl.full((tile, dim), -1e30, tl.float32)
    total = tl.zeros((tile, dim), tl.float32)
    first, count = tl.zeros((tile, dim), tl.int32), tl.zeros((tile, 1), tl.float32)
    for k in range(values):
        at = _places(row, k, m, values, variables, dim)
        x = tl.load(h_ptr + at, mask=here, other=0.0).to(tl.float32)
        x += tl.load(change_ptr + at, mask=here, other=0.0).to(tl.float32)
        x = x.to(sum_ptr.dtype.element_ty).to(tl.float32)  # what the backward pass will see
        tl.store(sum_ptr + at, x, mask=here)
        u = _normed(x, eps, dim)[0] * weight + bias
        tl.store(u_ptr + at, u, mask=here)
        if pooled:
            inside = _inside(domain_ptr, k, m, variables, masked)
            better = inside & (u > highest)
            first = tl.where(better, k, first)
            highest = tl.where(better, u, highest)
            total += tl.where(inside, u, 0.0)
            count += tl.where(inside, 1.0, 0.0)
    if pooled:
        at = (row * variables + m)[:, None] * dim + d
        tl.store(highest_ptr + at, highest, mask=here)
        tl.store(mean_ptr + at, total / tl.maximum(count, 1.0), mask=here)
        tl.store(first_ptr + at, first.to(tl.int16), mask=here)


@triton.jit
def _add_norm_backward_kernel(
    sum_ptr, weight_ptr, domain_ptr, first_ptr, dsum_ptr, du_ptr, dhighest_ptr, dmean_ptr, dh_ptr, parts_ptr,
    values, variables, eps, dim: tl.constexpr, tile: tl.constexpr, pooled: tl.constexpr, masked: tl.constexpr,
):  # fmt: skip
    row, m = tl.program_id(0).to(tl.int64), tl.program_id(1) * tile + tl.arange(0, tile)
    here = (m < variables)[:, None]
    d = tl.arange(0, dim)[None, :]
    weight = tl.load(weight_ptr + d).to(tl.float32)
    dweight, dbias = tl.zeros((tile, dim), tl.float32), tl.zeros((tile, dim), tl.float32)
    if pooled:
        count = tl.zeros((tile, 1), tl.float32)
        for k in range(values):
            count += tl.where(_inside(domain_ptr, k, m, variables, masked), 1.0, 0.0)
        at = (row * variables + m)[:, None] * dim + d
        first = tl.load(first_ptr + at, mask=here, other=-1).to(tl.int32)
        dhighest = tl.load(dhighest_ptr + at, mask=here, other=0.0).to(tl.float32)
        dmean = tl.load(dmean_ptr + at, mask=here, other=0.0).to(tl.float32) / tl.maximum(count, 1.0)
    for k in range(values):
        at = _places(row, k, m, values, variables, dim)
        x, scale = _normed(tl.load(sum_ptr + at, mask=here, other=0.0).to(tl.float32), eps, dim)
        g = tl.load(du_ptr + at, mask=here, other=0.0).to(tl.float32)
        if pooled:
            inside = _inside(domain_ptr, k, m, variables, masked)
            g += tl.where(first == k, dhighest, 0.0) + tl.where(inside, dmean, 0.0)
        dweight += g * x
        dbias += g
        g *= weight
        dx = scale * (g - tl.sum(g, 1)[:, None] / dim - x * (tl.sum(g * x, 1)[:, None] / dim))
        dx += tl.load(dsum_ptr + at, mask=here, other=0.0).to(tl.float32)
        tl.store(dh_ptr + at, dx, mask=here)
    part = (row * tl.num_programs(1) + tl.program_id(1)) * 2 * dim + tl.arange(0, dim)
    tl.store(parts_ptr + part, tl.sum(dweight, 0))
    tl.store(parts_ptr + part + dim, tl.sum(dbias, 0))


@triton.jit
def _add_relu_kernel(
    a_ptr, pooled_ptr, out_ptr, values, variables, dim: tl.constexpr, tile: tl.constexpr,
):  # fmt: skip
    row, m = tl.program_id(0).to(tl.int64), tl.program_id(1) * tile + tl.arange(0, tile)
    here = (m < variables)[:, None]
    pooled = tl.load(pooled_ptr + _places(row, 0, m, 1, variables, dim), mask=here, other=0.0).to(tl.float32)
    for k in range(values):
        at = _places(row, k, m, values, variables, dim)
        tl.store(out_ptr + at, tl.maximum(tl.load(a_ptr + at, mask=here).to(tl.float32) + pooled, 0.0), mask=here)


@triton.jit
def _add_relu_backward_kernel(
    out_ptr, dout_ptr, da_ptr, dpooled_ptr, values, variables, dim: tl.constexpr, tile: tl.constexpr,
):  # fmt: skip
    row, m = tl.program_id(0).to(tl.int64), tl.program_id(1) * tile + tl.arange(0, tile)
    here = (m < variables)[:, None]
    total = tl.zeros((tile, dim), tl.float32)
    for k in range(values):
        at = _places(row, k, m, values, variables, dim)
        out = tl.load(out_ptr + at, mask=here, other=0.0).to(tl.float32)
        g = tl.where(out > 0, tl.load(dout_ptr + at, mask=here, other=0.0).to(tl.float32), 0.0)
        tl.store(da_ptr + at, g, mask=here)
        total += g
    tl.store(dpooled_ptr + _places(row, 0, m, 1, variables, dim), total, mask=here)


def _launch(h: Tensor) -> tuple[tuple[int, int], dict[str, Any]]:
    """The grid for h (R, K, M, dim), and what every kernel wants to know."""
    rows, values, variables, dim = h.shape
    tile = max(1, CELLS // dim)
    return (rows, -(-variables // tile)), {"values": values, "variables": variables, "dim": dim, "tile": tile}


@torch.library.custom_op("blogdit::add_norm", mutates_args=())
def add_norm(
    h: Tensor, change: Tensor, weight: Tensor, bias: Tensor, domain: Tensor | None, eps: float, pooled: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """h, change (R, K, M, dim), dim a power of 2; domain (K, M) uint8; all contiguous. Returns h + change, its norm u,
    and of u the highest and the mean over the values in the domain, and which is the highest (R, M, dim)."""
    rows, _, variables, dim = h.shape
    size = (rows, variables, dim) if pooled else (0,)
    sums, u, highest, mean = torch.empty_like(h), torch.empty_like(h), h.new_empty(size), h.new_empty(size)
    first = h.new_empty(size, dtype=torch.int16)
    if h.numel():
        grid, sizes = _launch(h)
        _add_norm_kernel[grid](
            h, change, weight, bias, domain, sums, u, highest, mean, first, eps=eps,
            pooled=pooled, masked=domain is not None, num_warps=4, **sizes,
        )  # fmt: skip
    return sums, u, highest, mean, first


@add_norm.register_fake
def _(
    h: Tensor, change: Tensor, weight: Tensor, bias: Tensor, domain: Tensor | None, eps: float, pooled: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    rows, _, variables, dim = h.shape
    size = (rows, variables, dim) if pooled else (0,)
    pools = h.new_empty(size), h.new_empty(size), h.new_empty(size, dtype=torch.int16)
    return torch.empty_like(h), torch.empty_like(h), *pools


@torch.library.custom_op("blogdit::add_norm_backward", mutates_args=())
def _add_norm_backward(
    sums: Tensor, weight: Tensor, domain: Tensor | None, first: Tensor, dsums: Tensor, du: Tensor, dhighest: Tensor,
    dmean: Tensor, eps: float, pooled: bool,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The gradient of h and of change, and of weight and bias (2, dim)."""
    dh, (grid, sizes) = torch.empty_like(sums), _launch(sums)
    parts = sums.new_zeros(*grid, 2, sums.shape[-1], dtype=torch.float32)
    if sums.numel():
        _add_norm_backward_kernel[grid](
            sums, weight, domain, first, dsums.contiguous(), du.contiguous(), dhighest.contiguous(),
            dmean.contiguous(), dh, parts, eps=eps, pooled=pooled, masked=domain is not None, num_warps=4, **sizes,
        )  # fmt: skip
    return dh, parts.sum((0, 1))


@_add_norm_backward.register_fake
def _(
    sums: Tensor, weight: Tensor, domain: Tensor | None, first: Tensor, dsums: Tensor, du: Tensor, dhighest: Tensor,
    dmean: Tensor, eps: float, pooled: bool,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    return torch.empty_like(sums), sums.new_empty(2, sums.shape[-1], dtype=torch.float32)


def _save_norm(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    _, _, weight, _, domain, ctx.eps, ctx.pooled = inputs
    ctx.save_for_backward(output[0], weight, domain, output[4])


def _norm_gradient(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
    dh, (dweight, dbias) = _add_norm_backward(*ctx.saved_tensors, *gradients[:4], ctx.eps, ctx.pooled)
    return dh, dh, dweight, dbias, None, None, None


add_norm.register_autograd(_norm_gradient, setup_context=_save_norm)


@torch.library.custom_op("blogdit::add_relu", mutates_args=())
def add_relu(a: Tensor, pooled: Tensor) -> Tensor:
    """a (R, K, M, dim), pooled (R, M, dim), both contiguous."""
    out = torch.empty_like(a)
    if a.numel():
        grid, sizes = _launch(a)
        _add_relu_kernel[grid](a, pooled, out, num_warps=4, **sizes)
    return out


@add_relu.register_fake
def _(a: Tensor, pooled: Tensor) -> Tensor:
    return torch.empty_like(a)


@torch.library.custom_op("blogdit::add_relu_backward", mutates_args=())
def _add_relu_backward(out: Tensor, dout: Tensor) -> tuple[Tensor, Tensor]:
    da, dpooled = torch.empty_like(out), out.new_empty(out.shape[0], *out.shape[2:])
    if out.numel():
        grid, sizes = _launch(out)
        _add_relu_backward_kernel[grid](out, dout.contiguous(), da, dpooled, num_warps=4, **sizes)
    return da, dpooled


@_add_relu_backward.register_fake
def _(out: Tensor, dout: Tensor) -> tuple[Tensor, Tensor]:
    return torch.empty_like(out), out.new_empty(out.shape[0], *out.shape[2:])


def _save_relu(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
    ctx.save_for_backward(output)


def _relu_gradient(ctx: Any, dout: Tensor) -> tuple[Tensor, Tensor]:
    found: tuple[Tensor, Tensor] = _add_relu_backward(*ctx.saved_tensors, dout)
    return found


add_relu.register_autograd(_relu_gradient, setup_context=_save_relu)
