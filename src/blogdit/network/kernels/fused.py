"""The network of `value_axis.py` in two kernels per layer, for solving on a GPU; the same numbers, no gradients.

What lies between two attentions touches only the values of one variable at a time: the output projection, the pooled
feed-forward part, the next layer's norm and its queries, keys and values. One program does all of it for a tile of
variables of one row, so that activations are read and written a few times per layer instead of once per operation. The
layer's matrices lie in shared memory while a program goes from tile to tile.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.runtime import driver

from blogdit.method.relations import VALUE_FEATURES
from blogdit.network.attention import Divided, Mask, MaskBits, NeighbourLists, attend
from blogdit.network.config import LOG_VARIANCE_RANGE, MEAN_SCALE, Context
from blogdit.network.denoiser import AnyContext, Denoiser
from blogdit.network.value_axis import AxisBody, AxisLayer

SCRATCH = 16_384  # bytes of shared memory that a program takes beside the matrices of a layer


@triton.jit
def _norm(x, weight_ptr, bias_ptr, width: tl.constexpr):
    """LayerNorm of the rows of x (n, width)."""
    c = tl.arange(0, width)
    centred = x - (tl.sum(x, 1) / width)[:, None]
    variance = tl.sum(centred * centred, 1) / width
    scaled = centred * tl.rsqrt(variance + 1e-5)[:, None]
    return scaled * tl.load(weight_ptr + c).to(tl.float32)[None, :] + tl.load(bias_ptr + c).to(tl.float32)[None, :]


@triton.jit
def _matrix(ptr, rows: tl.constexpr, columns: tl.constexpr, stride: tl.constexpr):
    """A matrix (rows, columns) whose rows lie `stride` apart."""
    return tl.load(ptr + tl.arange(0, rows)[:, None] * stride + tl.arange(0, columns)[None, :])


@triton.jit
def _times(x, matrix):
    """The product, summed in float32."""
    return tl.dot(x.to(matrix.dtype), matrix, input_precision="ieee")


@triton.jit
def _vector(ptr, width: tl.constexpr):
    """A row (1, width) as float32."""
    return tl.load(ptr + tl.arange(0, width)).to(tl.float32)[None, :]


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
    here, c, i = m < count, tl.arange(0, dim), tl.arange(0, inner)
    variable = row * count + m
    top = tl.full((tile,), float("-inf"), tl.float32)
    for k in range(values):
        top = tl.maximum(top, tl.load(logits_ptr + variable * values + k, mask=here, other=0.0))
    total = tl.zeros((tile,), tl.float32)
    for k in range(values):
        total += tl.exp(tl.load(logits_ptr + variable * values + k, mask=here, other=0.0) - top)
    block = tl.load(block_ptr + variable, mask=here, other=0).to(tl.float32)
    base = tl.load(base_ptr + row * base_stride + m[:, None] * dim + c[None, :], mask=here[:, None], other=0.0)
    place = base.to(tl.float32) + _vector(chance_bias, dim) + block[:, None] * _vector(in_block_ptr, dim)
    slope = _vector(chance_ptr, dim) + values * _vector(chance_ptr + dim, dim)
    for k in range(values):
        x = tl.exp(tl.load(logits_ptr + variable * values + k, mask=here, other=0.0) - top) / total
        h = place + x[:, None] * slope
        for f in tl.static_range(features):
            feature = tl.load(features_ptr + (m * values + k) * features + f, mask=here, other=0.0).to(tl.float32)
            h += feature[:, None] * _vector(feature_ptr + f * dim, dim)
        cell = ((row * values + k) * count + m)[:, None]
        tl.store(h_ptr + cell * dim + c[None, :], h, mask=here[:, None])
        u = _norm(h, norm_weight, norm_bias, dim)
        for part in tl.static_range(3):
            out = _times(u, _matrix(matrix_ptr + part * inner, dim, inner, 3 * inner))
            tl.store(qkv_ptr + cell * (3 * inner) + part * inner + i[None, :], out, mask=here[:, None])


@triton.jit(do_not_specialize=["all_tiles"])  # one version for all sizes of a batch
def _layer_kernel(
    h_ptr, seen_ptr, out_ptr, out_bias, norm_weight, norm_bias, in_ptr, in_bias, pool_ptr, back_ptr, back_bias,
    next_weight, next_bias, next_ptr, final_bias, qkv_ptr, mean_ptr, variance_ptr,
    count, values, tiles, all_tiles, scale, lowest, highest,
    dim: tl.constexpr, inner: tl.constexpr, wide: tl.constexpr, last: tl.constexpr, tile: tl.constexpr,
):  # fmt: skip
    """What follows a layer's attention, up to the next one's queries, keys and values, or up to the output."""
    c, i = tl.arange(0, dim), tl.arange(0, inner)
    out_matrix, in_matrix = _matrix(out_ptr, inner, dim, dim), _matrix(in_ptr, dim, wide, wide)
    top_matrix, mean_matrix = _matrix(pool_ptr, dim, wide, wide), _matrix(pool_ptr + dim * wide, dim, wide, wide)
    back_matrix = _matrix(back_ptr, wide, dim, dim)
    if not last:
        q_matrix = _matrix(next_ptr, dim, inner, 3 * inner)
        k_matrix = _matrix(next_ptr + inner, dim, inner, 3 * inner)
        v_matrix = _matrix(next_ptr + 2 * inner, dim, inner, 3 * inner)
    for t in range(tl.program_id(0), all_tiles, tl.num_programs(0)):
        row = (t // tiles).to(tl.int64)
        m = t % tiles * tile + tl.arange(0, tile)
        here = (m < count)[:, None]
        # h plus the projection of what attention saw, for all values: pooling needs them before the first can go on.
        top = tl.full((tile, dim), float("-inf"), tl.float32)
        total = tl.zeros((tile, dim), tl.float32)
        for k in range(values):
            cell = ((row * values + k) * count + m)[:, None]
            seen = tl.load(seen_ptr + cell * inner + i[None, :], mask=here, other=0.0)
            h = tl.load(h_ptr + cell * dim + c[None, :], mask=here, other=0.0).to(tl.float32)
            h += _times(seen, out_matrix) + _vector(out_bias, dim)
            tl.store(h_ptr + cell * dim + c[None, :], h, mask=here)
            u = _norm(h, norm_weight, norm_bias, dim)
            top = tl.maximum(top, u)
            total += u
        pooled = _times(top, top_matrix) + _times(total / values, mean_matrix) + _vector(in_bias, wide)
        tl.debug_barrier()  # h is read again, maybe by other threads
        for k in range(values):
            cell = ((row * values + k) * count + m)[:, None]
            h = tl.load(h_ptr + cell * dim + c[None, :], mask=here, other=0.0).to(tl.float32)
            u = _norm(h, norm_weight, norm_bias, dim)
            z = tl.maximum(_times(u, in_matrix) + pooled, 0.0)
            h += _times(z, back_matrix) + _vector(back_bias, dim)
            u = _norm(h, next_weight, next_bias, dim)
            if last:
                mean = tl.sum(u * _vector(next_ptr, dim), 1) + tl.load(final_bias).to(tl.float32)
                log = tl.sum(u * _vector(next_ptr + dim, dim), 1) + tl.load(final_bias + 1).to(tl.float32)
                at = (row * count + m) * values + k
                tl.store(mean_ptr + at, scale * mean, mask=m < count)
                tl.store(variance_ptr + at, tl.minimum(tl.maximum(log, lowest), highest), mask=m < count)
            else:
                tl.store(h_ptr + cell * dim + c[None, :], h, mask=here)
                into = qkv_ptr + cell * (3 * inner) + i[None, :]
                tl.store(into, _times(u, q_matrix), mask=here)
                tl.store(into + inner, _times(u, k_matrix), mask=here)
                tl.store(into + 2 * inner, _times(u, v_matrix), mask=here)


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


def _shared_memory(device: torch.device) -> int:
    """Bytes that one program may have. Not all GPUs have what a layer of our models needs."""
    if device.type != "cuda":
        return 1 << 17  # for the interpreter
    place = torch.cuda.current_device() if device.index is None else device.index
    return int(driver.active.utils.get_device_properties(place)["max_shared_mem"])


def _multiprocessors(device: torch.device) -> int:
    return torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 1


class FusedDenoiser:
    """A `denoiser.Network`, for networks that treat values as an axis, in batches where `fits` says so."""

    def __init__(self, denoiser: Denoiser, tile: int = 64):
        assert isinstance(denoiser.body, AxisBody)
        self.denoiser, self.body, self.tile = denoiser, denoiser.body, tile
        self.layers: list[AxisLayer] = list(denoiser.body.layers)  # type: ignore[arg-type]
        self.packed = [_packed(layer) for layer in self.layers]
        self.chance = denoiser.body.chance_in.weight.detach().T.contiguous()
        self.feature = denoiser.body.feature_in.weight.detach().T.contiguous()

    @staticmethod
    def fits(denoiser: Denoiser, context: AnyContext) -> bool:
        config = denoiser.config
        if config.values != "axis" or not isinstance(context, Context):
            return False
        dim, inner, wide = config.dim, config.heads * config.head_dim, config.ffn_factor * config.dim
        powers = all(size >= 16 and size & (size - 1) == 0 for size in (dim, inner, wide))
        matrices = denoiser.in_block.element_size() * dim * (4 * inner + 4 * wide)
        alike = context.domain is None and isinstance(context.bias, NeighbourLists | Mask | MaskBits | Divided)
        small = matrices + SCRATCH <= _shared_memory(denoiser.in_block.device)
        return powers and small and alike

    @torch.no_grad()
    def __call__(self, logits: Tensor, block: Tensor, context: AnyContext) -> tuple[Tensor, Tensor]:
        assert isinstance(context, Context)
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
        launch |= {"num_stages": 1}  # more spill registers
        first, base = self.layers[0], context.base
        _first_kernel[(rows * tiles,)](
            logits.contiguous(), block.contiguous(), base.contiguous(), context.features.contiguous(), self.chance,
            body.chance_in.bias, self.feature, self.denoiser.in_block, first.attention_norm.weight,
            first.attention_norm.bias, self.packed[0].qkv, h, qkv,
            base_stride=count * dim if base.shape[0] > 1 else 0, features=VALUE_FEATURES, num_warps=8, **launch,
        )  # fmt: skip
        programs = min(rows * tiles, 2 * _multiprocessors(logits.device))
        for number, (layer, packed) in enumerate(zip(self.layers, self.packed, strict=True)):
            last = number + 1 == len(self.layers)
            norm = body.norm if last else self.layers[number + 1].attention_norm
            seen = attend(qkv, context.bias)
            _layer_kernel[(programs,)](
                h, seen, packed.out, layer.attention_out.bias, layer.ffn_norm.weight, layer.ffn_norm.bias,
                packed.feed_in, layer.ffn_in.bias, packed.pool, packed.back, layer.ffn_out.bias,
                norm.weight, norm.bias, body.out.weight if last else self.packed[number + 1].qkv, body.out.bias,
                qkv, mean, log_variance, scale=MEAN_SCALE, lowest=LOG_VARIANCE_RANGE[0],
                highest=LOG_VARIANCE_RANGE[1], wide=config.ffn_factor * dim, last=last, all_tiles=rows * tiles,
                num_warps=4, **launch,
            )  # fmt: skip
        return mean, log_variance
