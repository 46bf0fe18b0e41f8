"""Where random numbers come from. A chain takes a `Noise`; nothing in the package uses a global generator.

- `GeneratorNoise` draws from one torch generator: fast, for training.
- `StreamNoise` computes each number from (seed, instance, chain, draw, variable, value): what an instance sees does
  not depend on the instances beside it, on padding or on order. For solving. On a GPU, `network/kernels/noise.py` has
  a subclass that computes the same numbers in one kernel.
"""

from __future__ import annotations

import functools
import math
from typing import Protocol, Self

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

    def shared(self, part: int, parts: int) -> GeneratorNoise:
        """The same numbers for one of several equal parts of what this process works on."""
        return GeneratorNoise(self.generator, (self.rank * parts + part, self.world * parts))

    def _own(self, whole: Tensor, instances: int) -> Tensor:
        return whole if self.world == 1 else whole[:, self.rank * instances : (self.rank + 1) * instances]

    def normal(self, chains: int, instances: int, variables: int, width: int) -> Tensor:
        shape = (chains, instances * self.world, variables, width)
        return self._own(torch.randn(shape, generator=self.generator, device=self.device), instances)

    def uniform(self, chains: int, instances: int, variables: int) -> Tensor:
        shape = (chains, instances * self.world, variables)
        return self._own(torch.rand(shape, generator=self.generator, device=self.device), instances)


def wrap(number: int) -> int:
    """32 bits as int32 holds them."""
    return (number + (1 << 31)) % (1 << 32) - (1 << 31)


def mix(x: Tensor) -> Tensor:
    """A 32-bit finaliser on int32 tensors (Wellons' "lowbias32"): each input bit flips each output bit half the time.

    Products wrap around; a shift to the right brings in copies of the sign, which are masked away.
    """
    x = x ^ ((x >> 16) & 0xFFFF)
    x = x.mul_(0x7FEB352D)
    x = x ^ ((x >> 15) & 0x1FFFF)
    x = x.mul_(wrap(0x846CA68B))
    return x ^ ((x >> 16) & 0xFFFF)


class StreamNoise:
    """One stream per instance, keyed by `keys` (B,); `draws` (B,) counts what each instance has drawn so far."""

    def __init__(self, keys: Tensor, draws: Tensor | None = None):
        self.keys = keys.to(torch.int32)  # of a larger number, the lower 32 bits
        self.draws = torch.zeros_like(self.keys) if draws is None else draws.to(torch.int32)

    def take(self, index: Tensor) -> Self:
        """The streams of the instances at `index`."""
        return type(self)(self.keys[index], self.draws[index])

    def join(self, other: StreamNoise) -> Self:
        """These streams and those of another batch, one after the other."""
        return type(self)(torch.cat([self.keys, other.keys]), torch.cat([self.draws, other.draws]))

    def uniform(self, chains: int, instances: int, variables: int) -> Tensor:
        """(chains, B, variables) in [0, 1)."""
        numbers = self._uniform(chains, variables)
        self.draws = self.draws + 1  # also for no numbers: what comes next must not depend on the batch
        return numbers

    def normal(self, chains: int, instances: int, variables: int, width: int) -> Tensor:
        """(chains, B, variables, width) from N(0, 1)."""
        numbers = self._normal(chains, variables, width)
        self.draws = self.draws + 1
        return numbers

    def _uniform(self, chains: int, variables: int) -> Tensor:
        return self._bits(chains, variables, 1, lane=0).squeeze(-1).float() * 2.0**-24

    def _normal(self, chains: int, variables: int, width: int) -> Tensor:
        """Box-Muller from two uniform numbers per entry."""
        first = (self._bits(chains, variables, width, lane=0).float() + 0.5) * 2.0**-24  # (0, 1)
        second = self._bits(chains, variables, width, lane=1).float() * 2.0**-24
        return torch.sqrt(-2.0 * torch.log(first)) * torch.cos(2 * math.pi * second)

    def _bits(self, chains: int, variables: int, width: int, lane: int) -> Tensor:
        """(chains, B, variables, width) 24-bit numbers."""
        count = functools.partial(torch.arange, dtype=torch.int32, device=self.keys.device)
        key = mix(mix(self.keys ^ mix(self.draws * 2 + lane)) + 0x9E37)
        key = mix(key.view(1, -1, 1, 1) + count(chains).view(-1, 1, 1, 1) * 0x3C6EF372)
        key = mix(key + count(variables).view(1, 1, -1, 1) * 0x5BD1E995)
        return (mix(key ^ mix(count(width) + 0x51ED270B)) >> 8) & 0xFFFFFF
