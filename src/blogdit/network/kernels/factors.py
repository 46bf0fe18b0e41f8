"""Messages between literals and factors on a GPU, forward and backward; see `network/factors.py`.

A program has some owners of one row in hand and goes through their lists, so nothing is written but the results. Lists
have their members first and padding behind, so it ends where the longest of them does. The gradient of a gather is a
gather by the lists the other way round, so no two programs write to one place.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

CELLS = 2048  # numbers that a program of four warps has in hand at a time


@triton.jit
def _listed(lists_ptr, row, owner, s, size, owners, most, count):
    """Member s of each owner of a row, and whether there is one."""
    inside = (owner < owners) & (tl.zeros_like(owner) + s < most)
    member = tl.load(lists_ptr + ((row % size) * owners + owner) * most + s, mask=inside, other=count)
    return member, member < count


@triton.jit
def _amount(amounts_ptr, row, owner, s, size, owners, most, real, weighted: tl.constexpr):
    """How much member s of each owner counts, (tile, 1)."""
    if weighted:
        at = ((row % size) * owners + owner) * most + s
        return tl.load(amounts_ptr + at, mask=real, other=0.0).to(tl.float32)[:, None]
    else:
        return tl.where(real, 1.0, 0.0)[:, None]


@triton.jit
def _pool_kernel(
    u_ptr, members_ptr, share_ptr, amounts_ptr, highest_ptr, mean_ptr, first_ptr,
    size, literals, factors, most, weighted: tl.constexpr, dim: tl.constexpr, tile: tl.constexpr,
):  # fmt: skip
    row, c = tl.program_id(0).to(tl.int64), tl.program_id(1) * tile + tl.arange(0, tile)
    d, here = tl.arange(0, dim)[None, :], (c < factors)[:, None]
    highest = tl.full((tile, dim), -1e30, tl.float32)
    total, first = tl.zeros((tile, dim), tl.float32), tl.full((tile, dim), -1, tl.int32)
    s, more = 0, 1
    while more > 0:
        member, real = _listed(members_ptr, row, c, s, size, factors, most, literals)
        inside = real[:, None]
        u = tl.load(u_ptr + (row * literals + member)[:, None] * dim + d, mask=inside, other=0.0).to(tl.float32)
        better = inside & (u > highest)
        first = tl.where(better, member[:, None], first)
        highest = tl.where(better, u, highest)
        total += u * _amount(amounts_ptr, row, c, s, size, factors, most, real, weighted)
        s += 1
        more = tl.max(real.to(tl.int32), 0)
    at = (row * factors + c)[:, None] * dim + d
    share = tl.load(share_ptr + (row % size) * factors + c, mask=c < factors, other=0.0)[:, None]
    tl.store(highest_ptr + at, tl.where(first < 0, 0.0, highest), mask=here)
    tl.store(mean_ptr + at, total * share, mask=here)
    tl.store(first_ptr + at, first.to(first_ptr.dtype.element_ty), mask=here)


@triton.jit
def _pool_backward_kernel(
    dhighest_ptr, dmean_ptr, first_ptr, factors_ptr, share_ptr, amounts_ptr, du_ptr,
    size, literals, factors, most, weighted: tl.constexpr, dim: tl.constexpr, tile: tl.constexpr,
):  # fmt: skip
    row, m = tl.program_id(0).to(tl.int64), tl.program_id(1) * tile + tl.arange(0, tile)
    d, total = tl.arange(0, dim)[None, :], tl.zeros((tile, dim), tl.float32)
    s, more = 0, 1
    while more > 0:
        factor, real = _listed(factors_ptr, row, m, s, size, literals, most, factors)
        at, inside = (row * factors + factor)[:, None] * dim + d, real[:, None]
        share = tl.load(share_ptr + (row % size) * factors + factor, mask=real, other=0.0)[:, None]
        share *= _amount(amounts_ptr, row, m, s, size, literals, most, real, weighted)
        first = tl.load(first_ptr + at, mask=inside, other=-1).to(tl.int32)
        total += share * tl.load(dmean_ptr + at, mask=inside, other=0.0).to(tl.float32)
        mine = inside & (first == m[:, None])
        total += tl.load(dhighest_ptr + at, mask=mine, other=0.0).to(tl.float32)
        s += 1
        more = tl.max(real.to(tl.int32), 0)
    tl.store(du_ptr + (row * literals + m)[:, None] * dim + d, total, mask=(m < literals)[:, None])


@triton.jit
def _gather_sum_kernel(
    x_ptr, lists_ptr, amounts_ptr, out_ptr,
    size, owners, count, most, weighted: tl.constexpr, dim: tl.constexpr, tile: tl.constexpr,
):  # fmt: skip
    row, owner = tl.program_id(0).to(tl.int64), tl.program_id(1) * tile + tl.arange(0, tile)
    d, total = tl.arange(0, dim)[None, :], tl.zeros((tile, dim), tl.float32)
    s, more = 0, 1
    while more > 0:
        member, real = _listed(lists_ptr, row, owner, s, size, owners, most, count)
        at = (row * count + member)[:, None] * dim + d
        amount = _amount(amounts_ptr, row, owner, s, size, owners, most, real, weighted)
        total += amount * tl.load(x_ptr + at, mask=real[:, None], other=0.0).to(tl.float32)
        s += 1
        more = tl.max(real.to(tl.int32), 0)
    tl.store(out_ptr + (row * owners + owner)[:, None] * dim + d, total, mask=(owner < owners)[:, None])


def _launch(rows: int, owners: int, dim: int, amounts: Tensor) -> tuple[tuple[int, int], dict[str, int]]:
    tile = max(1, CELLS // dim)
    weighted = amounts.numel() > 0
    return (rows, triton.cdiv(owners, tile)), {"weighted": weighted, "dim": dim, "tile": tile, "num_warps": 4}


def _numbers_of(literals: int) -> torch.dtype:
    """The smallest integers that can name a literal."""
    return torch.int16 if literals <= torch.iinfo(torch.int16).max else torch.int32


@torch.library.custom_op("blogdit::pool_factors", mutates_args=())
def pool(
    u: Tensor, members: Tensor, factors: Tensor, share: Tensor, member_amounts: Tensor, factor_amounts: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """u (rows, L, dim), dim a power of 2; members (B, C, S), factors (B, L, Q), their amounts (or (B, 0, 0)), share
    (B, C); all contiguous. Returns the highest and the mean of each factor, and which literal is the highest,
    (rows, C, dim)."""
    (rows, literals, dim), (size, count, most) = u.shape, members.shape
    highest, mean = u.new_empty(rows, count, dim), u.new_empty(rows, count, dim)
    first = u.new_empty((rows, count, dim), dtype=_numbers_of(literals))
    if highest.numel():
        grid, shape = _launch(rows, count, dim, member_amounts)
        _pool_kernel[grid](
            u, members, share, member_amounts, highest, mean, first, size, literals, count, most, **shape
        )
    return highest, mean, first


@pool.register_fake
def _(
    u: Tensor, members: Tensor, factors: Tensor, share: Tensor, member_amounts: Tensor, factor_amounts: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    shape = (u.shape[0], members.shape[1], u.shape[2])
    return u.new_empty(shape), u.new_empty(shape), u.new_empty(shape, dtype=_numbers_of(u.shape[1]))


@torch.library.custom_op("blogdit::pool_factors_backward", mutates_args=())
def _pool_backward(
    dhighest: Tensor, dmean: Tensor, first: Tensor, factors: Tensor, share: Tensor, amounts: Tensor
) -> Tensor:
    (rows, count, dim), (size, literals, most) = dhighest.shape, factors.shape
    du = dhighest.new_empty(rows, literals, dim)
    if du.numel():
        grid, shape = _launch(rows, literals, dim, amounts)
        given = (dhighest.contiguous(), dmean.contiguous(), first, factors, share, amounts)
        _pool_backward_kernel[grid](*given, du, size, literals, count, most, **shape)
    return du


@_pool_backward.register_fake
def _(dhighest: Tensor, dmean: Tensor, first: Tensor, factors: Tensor, share: Tensor, amounts: Tensor) -> Tensor:
    return dhighest.new_empty(dhighest.shape[0], factors.shape[1], dhighest.shape[2])


def _save_pool(ctx: Any, inputs: tuple[Tensor, ...], output: tuple[Tensor, ...]) -> None:
    _, _, factors, share, _, factor_amounts = inputs
    ctx.save_for_backward(output[2], factors, share, factor_amounts)


def _pool_gradient(ctx: Any, dhighest: Tensor, dmean: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
    return _pool_backward(dhighest, dmean, *ctx.saved_tensors), None, None, None, None, None


pool.register_autograd(_pool_gradient, setup_context=_save_pool)


@torch.library.custom_op("blogdit::gather_sum", mutates_args=())
def gather_sum(x: Tensor, lists: Tensor, back: Tensor, amounts: Tensor, back_amounts: Tensor) -> Tensor:
    """The sum by amounts of the members of each list: x (rows, count, dim), dim a power of 2; lists (B, owners, most)
    of numbers below `count`, `back` (B, count, ...) the same the other way round, and the amounts of both (or
    (B, 0, 0)); all contiguous. Returns (rows, owners, dim)."""
    (rows, count, dim), (size, owners, most) = x.shape, lists.shape
    out = x.new_empty(rows, owners, dim)
    if out.numel():
        grid, shape = _launch(rows, owners, dim, amounts)
        _gather_sum_kernel[grid](x, lists, amounts, out, size, owners, count, most, **shape)
    return out


@gather_sum.register_fake
def _(x: Tensor, lists: Tensor, back: Tensor, amounts: Tensor, back_amounts: Tensor) -> Tensor:
    return x.new_empty(x.shape[0], lists.shape[1], x.shape[2])


def _save_lists(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
    ctx.save_for_backward(*inputs[1:])


def _gather_gradient(ctx: Any, dout: Tensor) -> tuple[Tensor | None, ...]:
    lists, back, amounts, back_amounts = ctx.saved_tensors
    return gather_sum(dout.contiguous(), back, lists, back_amounts, amounts), None, None, None, None


gather_sum.register_autograd(_gather_gradient, setup_context=_save_lists)
