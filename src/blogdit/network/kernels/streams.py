"""The numbers of `method.noise.StreamNoise` in one kernel of our own."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor


@triton.jit
def mix(x):
    """`noise.mix` on uint32."""
    x = x ^ (x >> 16)
    x = x * 0x7FEB352D
    x = x ^ (x >> 15)
    x = x * 0x846CA68B
    return x ^ (x >> 16)


@triton.jit
def _bits(key, draw, chain, variable, value, lane: tl.constexpr):
    """`noise.StreamNoise._bits` of one number."""
    key = mix(mix(key ^ mix(draw * 2 + lane)) + 0x9E37)
    key = mix(key + chain * 0x3C6EF372)
    key = mix(key + variable * 0x5BD1E995)
    return (mix(key ^ mix(value + 0x51ED270B)) >> 8).to(tl.float32)


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


def stream_numbers(keys: Tensor, draws: Tensor, chains: int, variables: int, width: int, normal: bool) -> Tensor:
    """What `noise.StreamNoise` computes, (chains, B, variables, width), from its keys and draws (B,) int32."""
    out = torch.empty(chains, len(keys), variables, width, device=keys.device)
    if size := out.numel():
        chunk = 1024
        _noise_kernel[(-(-size // chunk),)](
            keys, draws, out, size, len(keys), variables, width, normal=normal, chunk=chunk
        )
    return out
