"""Messages between literals and factors on a GPU, forward and backward; see `network/factors.py`.

A program has some owners of one row in hand and goes through their lists, so nothing is written but the results. It
knows beforehand where each list begins and ends, and ends where the longest of its lists does. The gradient of a gather
is a gather by the lists the other way round, so no two programs write to one place.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

CELLS = 2048  # numbers that a program of four warps has in hand at a time


@triton.jit
def _spans(starts_ptr, row, owner, size, owners, width):
    """Where the list of each owner of a row begins among all members, and how long it is."""
    instance, inside = row % size, owner < owners
    at = starts_ptr + instance * (owners + 1) + owner
    begin, end = tl.load(at, mask=inside, other=0), tl.load(at + 1, mask=inside, other=0)
    return instance * width + begin, end - begin


@triton.jit
def _amount(amounts_ptr, at, real, weighted: tl.constexpr):
    """How much the members at these places count, (tile, 1)."""
    if weighted:
        return tl.load(amounts_ptr + at, mask=real, other=0.0).to(tl.float32)[:, None]
    else:
        return tl.where(real, 1.0, 0.0)[:, None]


@triton.jit
def _pool_kernel(
    u_ptr, members_ptr, starts_ptr, share_ptr, amounts_ptr, highest_ptr, mean_ptr, first_ptr,
    size, literals, factors, width, weighted: tl.constexpr, dim: tl.constexpr, tile: tl.constexpr,
):  # fmt: skip
    row, c = tl.program_id(0).to(tl.int64), tl.program_id(1) * tile + tl.arange(0, tile)
    d, here = tl.arange(0, dim)[None, :], (c < factors)[:, None]
    highest = tl.full((tile, dim), -1e30, tl.float32)
    total, first = tl.zeros((tile, dim), tl.float32), tl.full((tile, dim), -1, tl.int32)
    begin, length = _spans(starts_ptr, row, c, size, factors, width)
    s, most = 0, tl.max(length, 0)
    while s < most:
        real = s < length
        member, inside = tl.load(members_ptr + begin + s, mask=real, other=0), real[:, None]
        u = tl.load(u_ptr + (row * literals + member)[:, None] * dim + d, mask=inside, other=0.0).to(tl.float32)
        better = inside & (u > highest)
        first = tl.where(better, member[:, None], first)
        highest = tl.where(better, u, highest)
        total += u * _amount(amounts_ptr, begin + s, real, weighted)
        s += 1
    at = (row * factors + c)[:, None] * dim + d
    share = tl.load(share_ptr + (row % size) * factors + c, mask=c < factors, other=0.0)[:, None]
    tl.store(highest_ptr + at, tl.where(first < 0, 0.0, highest), mask=here)
    tl.store(mean_ptr + at, total * share, mask=here)
    tl.store(first_ptr + at, first.to(first_ptr.dtype.element_ty), mask=here)


@triton.jit
def _pool_backward_kernel(
    dhighest_ptr, dmean_ptr, first_ptr, factors_ptr, starts_ptr, share_ptr, amounts_ptr, du_ptr,
    size, literals, factors, width, weighted: tl.constexpr, dim: tl.constexpr, tile: tl.constexpr,
):  # fmt: skip
    row, m = tl.program_id(0).to(tl.int64), tl.program_id(1) * tile + tl.arange(0, tile)
    d, total = tl.arange(0, dim)[None, :], tl.zeros((tile, dim), tl.float32)
    begin, length = _spans(starts_ptr, row, m, size, literals, width)
    s, most = 0, tl.max(length, 0)
    while s < most:
        real = s < length
        factor, inside = tl.load(factors_ptr + begin + s, mask=real, other=0), real[:, None]
        at = (row * factors + factor)[:, None] * dim + d
        share = tl.load(share_ptr + (row % size) * factors + factor, mask=real, other=0.0)[:, None]
        share *= _amount(amounts_ptr, begin + s, real, weighted)
        first = tl.load(first_ptr + at, mask=inside, other=-1).to(tl.int32)
        total += share * tl.load(dmean_ptr + at, mask=inside, other=0.0).to(tl.float32)
        mine = inside & (first == m[:, None])
        total += tl.load(dhighest_ptr + at, mask=mine, other=0.0).to(tl.float32)
        s += 1
    tl.store(du_ptr + (row * literals + m)[:, None] * dim + d, total, mask=(m < literals)[:, None])


@triton.jit
def _gather_sum_kernel(
    x_ptr, members_ptr, starts_ptr, amounts_ptr, out_ptr,
    size, owners, count, width, weighted: tl.constexpr, dim: tl.constexpr, tile: tl.constexpr,
):  # fmt: skip
    row, owner = tl.program_id(0).to(tl.int64), tl.program_id(1) * tile + tl.arange(0, tile)
    d, total = tl.arange(0, dim)[None, :], tl.zeros((tile, dim), tl.float32)
    begin, length = _spans(starts_ptr, row, owner, size, owners, width)
    s, most = 0, tl.max(length, 0)
    while s < most:
        real = s < length
        member = tl.load(members_ptr + begin + s, mask=real, other=0)
        at = (row * count + member)[:, None] * dim + d
        amount = _amount(amounts_ptr, begin + s, real, weighted)
        total += amount * tl.load(x_ptr + at, mask=real[:, None], other=0.0).to(tl.float32)
        s += 1
    tl.store(out_ptr + (row * owners + owner)[:, None] * dim + d, total, mask=(owner < owners)[:, None])


def _launch(rows: int, owners: int, dim: int, amounts: Tensor) -> tuple[tuple[int, int], dict[str, int]]:
    tile = max(1, CELLS // dim)
    weighted = amounts.numel() > 0
    return (rows, triton.cdiv(owners, tile)), {"weighted": weighted, "dim": dim, "tile": tile, "num_warps": 4}


def _numbers_of(literals: int) -> torch.dtype:
    """The smallest integers that can name a literal."""
    return torch.int16 if literals <= torch.iinfo(torch.int16).max else torch.int32


# Lists come as three tensors, (B, T), (B, owners + 1) and (B, T) or (B, 0), as in `method/lists.py`; `back` are the
# same memberships the other way round. All tensors are contiguous, and dim is a power of 2.


@torch.library.custom_op("blogdit::pool_factors", mutates_args=())
def pool(
    u: Tensor, members: Tensor, starts: Tensor, amounts: Tensor,
    back: Tensor, back_starts: Tensor, back_amounts: Tensor, share: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Of u (rows, L, dim) the highest of each list and the sum by amounts times the share (B, C), and which member is
    the highest, (rows, C, dim)."""
    (rows, literals, dim), (size, width), count = u.shape, members.shape, starts.shape[1] - 1
    highest, mean = u.new_empty(rows, count, dim), u.new_empty(rows, count, dim)
    first = u.new_empty((rows, count, dim), dtype=_numbers_of(literals))
    if highest.numel():
        grid, shape = _launch(rows, count, dim, amounts)
        _pool_kernel[grid](
            u, members, starts, share, amounts, highest, mean, first, size, literals, count, width, **shape
        )
    return highest, mean, first


@pool.register_fake
def _(
    u: Tensor, members: Tensor, starts: Tensor, amounts: Tensor,
    back: Tensor, back_starts: Tensor, back_amounts: Tensor, share: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    shape = (u.shape[0], starts.shape[1] - 1, u.shape[2])
    return u.new_empty(shape), u.new_empty(shape), u.new_empty(shape, dtype=_numbers_of(u.shape[1]))


@torch.library.custom_op("blogdit::pool_factors_backward", mutates_args=())
def _pool_backward(
    dhighest: Tensor, dmean: Tensor, first: Tensor, back: Tensor, starts: Tensor, amounts: Tensor, share: Tensor
) -> Tensor:
    (rows, count, dim), (size, width), literals = dhighest.shape, back.shape, starts.shape[1] - 1
    du = dhighest.new_empty(rows, literals, dim)
    if du.numel():
        grid, shape = _launch(rows, literals, dim, amounts)
        given = (dhighest.contiguous(), dmean.contiguous(), first, back, starts, share, amounts)
        _pool_backward_kernel[grid](*given, du, size, literals, count, width, **shape)
    return du


@_pool_backward.register_fake
def _(
    dhighest: Tensor, dmean: Tensor, first: Tensor, back: Tensor, starts: Tensor, amounts: Tensor, share: Tensor
) -> Tensor:
    return dhighest.new_empty(dhighest.shape[0], starts.shape[1] - 1, dhighest.shape[2])


def _save_pool(ctx: Any, inputs: tuple[Tensor, ...], output: tuple[Tensor, ...]) -> None:
    ctx.save_for_backward(output[2], *inputs[4:])


def _pool_gradient(ctx: Any, dhighest: Tensor, dmean: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
    return _pool_backward(dhighest, dmean, *ctx.saved_tensors), None, None, None, None, None, None, None


pool.register_autograd(_pool_gradient, setup_context=_save_pool)


@torch.library.custom_op("blogdit::gather_sum", mutates_args=())
def gather_sum(
    x: Tensor, members: Tensor, starts: Tensor, amounts: Tensor, back: Tensor, back_starts: Tensor, back_amounts: Tensor
) -> Tensor:
    """Of x (rows, count, dim) the sum by amounts of each list, (rows, owners, dim)."""
    (rows, count, dim), (size, width), owners = x.shape, members.shape, starts.shape[1] - 1
    out = x.new_empty(rows, owners, dim)
    if out.numel():
        grid, shape = _launch(rows, owners, dim, amounts)
        _gather_sum_kernel[grid](x, members, starts, amounts, out, size, owners, count, width, **shape)
    return out


@gather_sum.register_fake
def _(
    x: Tensor, members: Tensor, starts: Tensor, amounts: Tensor, back: Tensor, back_starts: Tensor, back_amounts: Tensor
) -> Tensor:
    return x.new_empty(x.shape[0], starts.shape[1] - 1, x.shape[2])


def _save_lists(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
    ctx.save_for_backward(*inputs[1:])


def _gather_gradient(ctx: Any, dout: Tensor) -> tuple[Tensor | None, ...]:
    lists, back = ctx.saved_tensors[:3], ctx.saved_tensors[3:]
    return gather_sum(dout.contiguous(), *back, *lists), None, None, None, None, None, None


gather_sum.register_autograd(_gather_gradient, setup_context=_save_lists)
