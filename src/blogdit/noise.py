"""Where random numbers come from. A chain takes a `Noise`; nothing in the package uses a global generator.

- `GeneratorNoise` draws from one torch generator: fast, for training.
- `StreamNoise` computes each number from (seed, instance, chain, draw, variable, value): what an instance sees does
  not depend on the instances beside it, on padding or on order. For solving.
"""

from __future__ import annotations

import math
from typing import Protocol

import torch
from torch import Tensor


class Noise(Protocol):
    """Random numbers for a state of `chains` x `instances` x `variables` (x `width`)."""

    def normal(self, chains: int, instances: int, variables: int, width: int) -> Tensor: ...

    def uniform(self, chains: int, instances: int, variables: int) -> Tensor: ...


class GeneratorNoise:
    """Numbers from one generator. With `shard = (rank, world)` each of `world` processes takes its own part of what
    one process would draw for the whole batch, so that several processes see the numbers of one."""

    def __init__(self, generator: torch.Generator, shard: tuple[int, int] = (0, 1)):
        self.generator, self.device = generator, generator.device
        self.rank, self.world = shard

    def _own(self, whole: Tensor, instances: int) -> Tensor:
        return whole if self.world == 1 else whole[:, self.rank * instances : (self.rank + 1) * instances]

    def normal(self, chains: int, instances: int, variables: int, width: int) -> Tensor:
        shape = (chains, instances * self.world, variables, width)
        return self._own(torch.randn(shape, generator=self.generator, device=self.device), instances)

    def uniform(self, chains: int, instances: int, variables: int) -> Tensor:
        shape = (chains, instances * self.world, variables)
        return self._own(torch.rand(shape, generator=self.generator, device=self.device), instances)


_MASK = 0xFFFFFFFF


def _mix(x: Tensor) -> Tensor:
    """A 32-bit finaliser on int64 tensors (Wellons' "lowbias32"): each input bit flips each output bit half the time.

    Factors stay below 2^31 x 2^32 < 2^63, so no product overflows.
    """
    x = x ^ (x >> 16)
    x = (x * 0x7FEB352D) & _MASK
    x = x ^ (x >> 15)
    x = (x * 0x046CA68B + ((x & 1) << 31)) & _MASK  # 0x846CA68B without its top bit, which is added back
    return x ^ (x >> 16)


class StreamNoise:
    """One stream per instance, keyed by `keys` (B,); `draws` (B,) counts what each instance has drawn so far."""

    def __init__(self, keys: Tensor, draws: Tensor | None = None):
        self.keys = keys & _MASK
        self.draws = torch.zeros_like(keys) if draws is None else draws

    def take(self, index: Tensor) -> StreamNoise:
        """The streams of the instances at `index`."""
        return StreamNoise(self.keys[index], self.draws[index])

    def _bits(self, chains: int, variables: int, width: int, lane: int) -> Tensor:
        """(chains, B, variables, width) 32-bit numbers."""
        device = self.keys.device
        chain = torch.arange(chains, device=device).view(-1, 1, 1, 1)
        variable = torch.arange(variables, device=device).view(1, 1, -1, 1)
        value = torch.arange(width, device=device).view(1, 1, 1, -1)
        key = _mix(_mix(self.keys ^ _mix(self.draws * 2 + lane)) + 0x9E37)
        key = _mix((key.view(1, -1, 1, 1) + chain * 0x3C6EF372) & _MASK)
        key = _mix((key + variable * 0x5BD1E995) & _MASK)
        return _mix((key ^ _mix(value + 0x51ED270B)) & _MASK)

    def uniform(self, chains: int, instances: int, variables: int) -> Tensor:
        if variables:
            bits = self._bits(chains, variables, 1, lane=0).squeeze(-1)
        else:
            bits = self.keys.new_zeros(chains, instances, 0)
        self.draws = self.draws + 1  # also for no numbers: what comes next must not depend on the batch
        return (bits >> 8).float() * 2.0**-24  # [0, 1) with 24 bits

    def normal(self, chains: int, instances: int, variables: int, width: int) -> Tensor:
        """Box-Muller from two uniform numbers per entry."""
        first = ((self._bits(chains, variables, width, lane=0) >> 8).float() + 0.5) * 2.0**-24  # (0, 1)
        second = (self._bits(chains, variables, width, lane=1) >> 8).float() * 2.0**-24
        self.draws = self.draws + 1
        return torch.sqrt(-2.0 * torch.log(first)) * torch.cos(2 * math.pi * second)


def value_codes(sets: int, values: int, dim: int, generator: torch.Generator) -> Tensor:
    """Sets of random codes (sets, K, dim) of length sqrt(dim) on the CPU, orthogonal as far as dim allows. Code k
    depends on those before it only, so a larger K adds codes and changes none."""
    blocks = []
    width = -(-dim // 16) * 16  # torch draws 16 at a time: whole rows make the first numbers the same for every K
    for start in range(0, values, dim):
        rows = torch.randn(min(dim, values - start), sets, width, generator=generator)[..., :dim]
        frames, upper = torch.linalg.qr(rows.permute(1, 2, 0))
        signs = upper.diagonal(dim1=-2, dim2=-1).sign()  # they make the frames uniformly distributed
        blocks.append((frames * signs[:, None, :]).mT)
    return torch.cat(blocks, 1) * math.sqrt(dim)
