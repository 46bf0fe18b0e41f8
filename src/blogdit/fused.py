"""The network of `value_axis.py` in two kernels per layer, for solving on a GPU; the same numbers, no gradients.

What lies between two attentions touches only the values of one variable at a time: the output projection, the pooled
feed-forward part, the next layer's norm and its queries, keys and values. One program does all of it for a tile of
variables of one row, so that an activation is read and written once per layer instead of once per operation. Pooling
needs all values before the first can go on; recomputing the projection is cheaper than storing it.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from blogdit.attention import Mask, NeighbourLists, attend
from blogdit.denoiser import LOG_VARIANCE_RANGE, Denoiser
from blogdit.network import Context
from blogdit.relations import VALUE_FEATURES
from blogdit.value_axis import MEAN_SCALE, AxisBody, AxisLayer

LARGEST = (128, 128, 256)  # dim, heads * head_dim and the feed-forward part: more does not fit into shared memory


@triton.jit
def _norm(x, weight_ptr, bias_ptr, width: tl.constexpr):
    """LayerNorm of the rows of x (n, width)."""
    c = tl.arange(0, width)
    centred = x - (tl.sum(x, 1) / width)[:, None]
    variance = tl.sum(centred * centred, 1) / width
    scaled = centred * tl.rsqrt(variance + 1e-5)[:, None]
    return scaled * tl.load(weight_ptr + c).to(tl.float32)[None, :] + tl.load(bias_ptr + c).to(tl.float32)[None, :]


@triton.jit
def _times(x, matrix_ptr, rows: tl.constexpr, columns: tl.constexpr, stride: tl.constexpr):
    """x (n, rows) times a matrix (rows, columns) whose rows lie `stride` apart, summed in float32."""
    at = tl.arange(0, rows)[:, None] * stride + tl.arange(0, columns)[None, :]
    matrix = tl.load(matrix_ptr + at)
    return tl.dot(x.to(matrix.dtype), matrix, input_precision="ieee")


@triton.jit
def _store_qkv(h, norm_weight, norm_bias, matrix_ptr, qkv_ptr, cell, here, dim: tl.constexpr, inner: tl.constexpr):
    """Queries, keys and values of tokens h (n, dim) into their cells."""
    u, c = _norm(h, norm_weight, norm_bias, dim), tl.arange(0, inner)
    for part in tl.static_range(3):
        out = _times(u, matrix_ptr + part * inner, dim, inner, 3 * inner)
        tl.store(qkv_ptr + cell[:, None] * (3 * inner) + part * inner + c[None, :], out, mask=here[:, None])


@triton.jit
def _first_kernel(
    logits_ptr, block_ptr, base_ptr, features_ptr, chance_ptr, chance_bias, feature_ptr, in_block_ptr,
    norm_weight, norm_bias, matrix_ptr, h_ptr, qkv_ptr,
    count, values, tiles, base_stride,
    dim: tl.constexpr, inner: tl.constexpr, features: tl.constexpr, tile: tl.constexpr,
):  # fmt: skip
    """Tokens from logits, and the first layer's queries, keys and values."""
    row = (tl.program_id(0) // tiles).to(tl.int64)
    m = tl.program_id(0) % tiles * tile + tl.arange(0, tile)
    here, c = m < count, tl.arange(0, dim)
    variable = row * count + m
    top = tl.full((tile,), float("-inf"), tl.float32)
    for k in range(values):
        top = tl.maximum(top, tl.load(logits_ptr + variable * values + k, mask=here, other=0.0))
    total = tl.zeros((tile,), tl.float32)
    for k in range(values):
        total += tl.exp(tl.load(logits_ptr + variable * values + k, mask=here, other=0.0) - top)
    block = tl.load(block_ptr + variable, mask=here, other=0).to(tl.float32)
    base = tl.load(base_ptr + row * base_stride + m[:, None] * dim + c[None, :], mask=here[:, None], other=0.0)
    place = base.to(tl.float32) + tl.load(chance_bias + c).to(tl.float32)[None, :]
    place += block[:, None] * tl.load(in_block_ptr + c).to(tl.float32)[None, :]
    slope = tl.load(chance_ptr + c).to(tl.float32) + values * tl.load(chance_ptr + dim + c).to(tl.float32)
    for k in range(values):
        x = tl.exp(tl.load(logits_ptr + variable * values + k, mask=here, other=0.0) - top) / total
        h = place + x[:, None] * slope[None, :]
        for f in tl.static_range(features):
            feature = tl.load(features_ptr + (m * values + k) * features + f, mask=here, other=0.0).to(tl.float32)
            h += feature[:, None] * tl.load(feature_ptr + f * dim + c).to(tl.float32)[None, :]
        cell = (row * values + k) * count + m
        tl.store(h_ptr + cell[:, None] * dim + c[None, :], h, mask=here[:, None])
        _store_qkv(h, norm_weight, norm_bias, matrix_ptr, qkv_ptr, cell, here, dim, inner)


@triton.jit
def _attended(h_ptr, seen_ptr, out_ptr, out_bias, cell, here, dim: tl.constexpr, inner: tl.constexpr):
    """h + projection of what attention saw."""
    c, i = tl.arange(0, dim), tl.arange(0, inner)
    h = tl.load(h_ptr + cell[:, None] * dim + c[None, :], mask=here[:, None], other=0.0).to(tl.float32)
    seen = tl.load(seen_ptr + cell[:, None] * inner + i[None, :], mask=here[:, None], other=0.0)
    return h + _times(seen, out_ptr, inner, dim, dim) + tl.load(out_bias + c).to(tl.float32)[None, :]


@triton.jit
def _layer_kernel(
    h_ptr, seen_ptr, out_ptr, out_bias, norm_weight, norm_bias, in_ptr, in_bias, pool_ptr, back_ptr, back_bias,
    next_weight, next_bias, next_ptr, final_bias, qkv_ptr, mean_ptr, variance_ptr,
    count, values, tiles, scale, lowest, highest,
    dim: tl.constexpr, inner: tl.constexpr, wide: tl.constexpr, last: tl.constexpr, tile: tl.constexpr,
):  # fmt: skip
    """What follows a layer's attention, up to the next one's queries, keys and values, or up to the output."""
    row = (tl.program_id(0) // tiles).to(tl.int64)
    m = tl.program_id(0) % tiles * tile + tl.arange(0, tile)
    here, c, w = m < count, tl.arange(0, dim), tl.arange(0, wide)
    top = tl.full((tile, dim), float("-inf"), tl.float32)
    total = tl.zeros((tile, dim), tl.float32)
    for k in range(values):
        cell = (row * values + k) * count + m
        h = _attended(h_ptr, seen_ptr, out_ptr, out_bias, cell, here, dim, inner)
        u = _norm(h, norm_weight, norm_bias, dim)
        top = tl.maximum(top, u)
        total += u
    pooled = _times(top, pool_ptr, dim, wide, wide) + _times(total / values, pool_ptr + dim * wide, dim, wide, wide)
    pooled += tl.load(in_bias + w).to(tl.float32)[None, :]
    for k in range(values):
        cell = (row * values + k) * count + m
        h = _attended(h_ptr, seen_ptr, out_ptr, out_bias, cell, here, dim, inner)
        u = _norm(h, norm_weight, norm_bias, dim)
        z = tl.maximum(_times(u, in_ptr, dim, wide, wide) + pooled, 0.0)
        h += _times(z, back_ptr, wide, dim, dim) + tl.load(back_bias + c).to(tl.float32)[None, :]
        if last:
            u = _norm(h, next_weight, next_bias, dim)
            mean = tl.sum(u * tl.load(next_ptr + c).to(tl.float32)[None, :], 1) + tl.load(final_bias).to(tl.float32)
            log = tl.sum(u * tl.load(next_ptr + dim + c).to(tl.float32)[None, :], 1)
            log += tl.load(final_bias + 1).to(tl.float32)
            at = (row * count + m) * values + k
            tl.store(mean_ptr + at, scale * mean, mask=here)
            tl.store(variance_ptr + at, tl.minimum(tl.maximum(log, lowest), highest), mask=here)
        else:
            tl.store(h_ptr + cell[:, None] * dim + c[None, :], h, mask=here[:, None])
            _store_qkv(h, next_weight, next_bias, next_ptr, qkv_ptr, cell, here, dim, inner)


class Packed(NamedTuple):
    """The matrices of a layer with inputs as rows, one after the other in memory."""

    out: Tensor  # (inner, dim)
    feed_in: Tensor  # (dim, wide)
    pool: Tensor  # (2 dim, wide)
    back: Tensor  # (wide, dim)
    qkv: Tensor  # (dim, 3 inner)


def _packed(layer: AxisLayer) -> Packed:
    parts = (layer.attention_out, layer.ffn_in, layer.pool_in, layer.ffn_out, layer.qkv)
    return Packed(*(part.weight.detach().T.contiguous() for part in parts))


class FusedDenoiser:
    """Calls like a `Denoiser`. For networks that treat values as an axis, in batches where `fits` says so."""

    def __init__(self, denoiser: Denoiser, tile: int = 64):
        assert isinstance(denoiser.body, AxisBody)
        self.denoiser, self.body, self.tile = denoiser, denoiser.body, tile
        self.layers: list[AxisLayer] = list(denoiser.body.layers)  # type: ignore[arg-type]
        self.packed = [_packed(layer) for layer in self.layers]
        self.chance = denoiser.body.chance_in.weight.detach().T.contiguous()
        self.feature = denoiser.body.feature_in.weight.detach().T.contiguous()

    @staticmethod
    def fits(denoiser: Denoiser, context: Context) -> bool:
        config = denoiser.config
        sizes = (config.dim, config.heads * config.head_dim, config.ffn_factor * config.dim)
        powers = all(16 <= size <= most and size & (size - 1) == 0 for size, most in zip(sizes, LARGEST, strict=True))
        alike = context.domain is None and isinstance(context.bias, NeighbourLists | Mask)
        return config.values == "axis" and powers and alike

    @torch.no_grad()
    def __call__(self, logits: Tensor, block: Tensor, context: Context) -> tuple[Tensor, Tensor]:
        config, body = self.denoiser.config, self.body
        (rows, count, values), dtype = logits.shape, self.denoiser.in_block.dtype
        dim, inner = config.dim, config.heads * config.head_dim
        h = torch.empty(rows * values, count, dim, dtype=dtype, device=logits.device)
        qkv = torch.empty(rows * values, count, 3, config.heads, config.head_dim, dtype=dtype, device=logits.device)
        mean, log_variance = torch.empty_like(logits), torch.empty_like(logits)
        tiles = -(-count // self.tile)
        if not logits.numel():
            return mean, log_variance
        launch = {"count": count, "values": values, "tiles": tiles, "dim": dim, "inner": inner, "tile": self.tile}
        launch |= {"num_warps": 8, "num_stages": 1}  # more stages or fewer warps spill registers
        first, base = self.layers[0], context.base
        _first_kernel[(rows * tiles,)](
            logits.contiguous(), block.contiguous(), base.contiguous(), context.features.contiguous(), self.chance,
            body.chance_in.bias, self.feature, self.denoiser.in_block, first.attention_norm.weight,
            first.attention_norm.bias, self.packed[0].qkv, h, qkv,
            base_stride=count * dim if base.shape[0] > 1 else 0, features=VALUE_FEATURES, **launch,
        )  # fmt: skip
        for number, (layer, packed) in enumerate(zip(self.layers, self.packed, strict=True)):
            last = number + 1 == len(self.layers)
            norm = body.norm if last else self.layers[number + 1].attention_norm
            seen = attend(qkv, context.bias)
            _layer_kernel[(rows * tiles,)](
                h, seen, packed.out, layer.attention_out.bias, layer.ffn_norm.weight, layer.ffn_norm.bias,
                packed.feed_in, layer.ffn_in.bias, packed.pool, packed.back, layer.ffn_out.bias,
                norm.weight, norm.bias, body.out.weight if last else self.packed[number + 1].qkv, body.out.bias,
                qkv, mean, log_variance, scale=MEAN_SCALE, lowest=LOG_VARIANCE_RANGE[0],
                highest=LOG_VARIANCE_RANGE[1], wide=config.ffn_factor * dim, last=last, **launch,
            )  # fmt: skip
        return mean, log_variance
