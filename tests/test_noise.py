"""Random numbers: streams that belong to an instance, and their distribution."""

from __future__ import annotations

import math

import pytest
import torch

from blogdit.method.noise import GeneratorNoise, StreamNoise
from helpers import generator

KEYS = torch.tensor([11, 5, 123456789, 2**31 + 7])


def test_a_stream_depends_on_its_instance_alone():
    """Batch composition, order, padding of variables and of values, and more chains change no number."""
    alone = StreamNoise(KEYS[1:2])
    beside = StreamNoise(KEYS[[3, 1, 0]])
    for _ in range(3):  # draw after draw
        assert torch.equal(alone.normal(2, 1, 5, 3)[:, 0], beside.normal(4, 3, 9, 8)[:2, 1, :5, :3])
        assert torch.equal(alone.uniform(2, 1, 5)[:, 0], beside.uniform(3, 3, 6)[:2, 1, :5])


def test_taking_streams_continues_them():
    """Instances that leave a batch take nothing from those that stay."""
    whole, part = StreamNoise(KEYS), StreamNoise(KEYS)
    whole.normal(1, 4, 6, 2)
    part.normal(1, 4, 6, 2)
    index = torch.tensor([2, 0])
    part = part.take(index)
    assert torch.equal(whole.normal(1, 4, 6, 2)[:, index], part.normal(1, 2, 6, 2))
    assert torch.equal(whole.uniform(1, 4, 6)[:, index], part.uniform(1, 2, 6))


def distance(sample, cumulative):
    """Kolmogorov-Smirnov: the largest gap between the empirical and the exact distribution, times sqrt(n)."""
    ordered = sample.flatten().double().sort().values
    n = len(ordered)
    exact = cumulative(ordered)
    steps = torch.arange(n, dtype=torch.float64) / n
    return max((exact - steps).max().item(), (steps + 1 / n - exact).max().item()) * math.sqrt(n)


def test_streams_are_normal_and_uniform():
    """Moments and the Kolmogorov-Smirnov distance (2.0 has probability 0.0007), along every axis."""
    noise = StreamNoise(torch.arange(20))
    draws = [noise.normal(10, 20, 25, 10) for _ in range(4)]
    sample = torch.stack(draws).double()
    n = sample.numel()
    assert abs(sample.mean()) < 4 / math.sqrt(n)
    assert abs(sample.var() - 1) < 4 * math.sqrt(2 / n)
    assert abs((sample**3).mean()) < 4 * math.sqrt(15 / n)
    assert abs((sample**4).mean() - 3) < 4 * math.sqrt(96 / n)
    standard = torch.distributions.Normal(torch.tensor(0.0, dtype=torch.float64), 1.0)
    assert distance(sample, standard.cdf) < 2.0
    for axis in range(sample.dim()):  # the first and the last slice of draws, chains, instances, variables, values
        for at in (0, -1):
            assert distance(sample.select(axis, at), standard.cdf) < 2.2
    flat = torch.stack([noise.uniform(20, 20, 50) for _ in range(4)])
    assert flat.min() >= 0
    assert flat.max() < 1
    assert distance(flat, lambda u: u) < 2.0


@pytest.mark.parametrize("axis", range(5))
def test_streams_are_uncorrelated(axis):
    """Between neighbouring draws, chains, instances, variables and values; also of squares, and of consecutive keys."""
    noise = StreamNoise(torch.arange(16))
    sample = torch.stack([noise.normal(8, 16, 20, 8) for _ in range(8)])
    for step in (1, 2):
        first = sample.narrow(axis, 0, sample.shape[axis] - step)
        second = sample.narrow(axis, step, sample.shape[axis] - step)
        for f in (lambda x: x, lambda x: (x**2 - 1) / math.sqrt(2)):
            assert abs((f(first) * f(second)).mean()) < 4.5 / math.sqrt(first.numel())


def test_uniform_and_normal_draws_share_no_number():
    """A block drawn before, between or after two normal draws is uncorrelated with them."""
    noise = StreamNoise(torch.arange(40))
    draws = [
        noise.uniform(10, 40, 20) * 2 - 1,
        noise.normal(10, 40, 20, 1).squeeze(-1),
        noise.uniform(10, 40, 20) * 2 - 1,
        noise.uniform(10, 40, 20) * 2 - 1,
        noise.normal(10, 40, 20, 1).squeeze(-1),
        noise.normal(10, 40, 20, 1).squeeze(-1),
    ]
    for i, first in enumerate(draws):
        for second in draws[:i]:
            for f in (lambda x: x, lambda x: x**2 - (x**2).mean()):
                assert abs((f(first) * f(second)).mean()) < 4.5 * (f(first).std() * f(second).std()) / math.sqrt(8000)


def test_no_number_comes_twice():
    """A million numbers of different draws, chains, instances and variables hold no repeated row."""
    noise = StreamNoise(torch.arange(10))
    rows = torch.cat([noise.normal(10, 10, 100, 4).view(-1, 4) for _ in range(10)])
    assert len(rows.unique(dim=0)) == len(rows)


def test_shards_of_a_generator_make_up_the_whole():
    """Three processes draw together what one draws for the whole batch."""
    whole = GeneratorNoise(generator(4))
    parts = [GeneratorNoise(generator(4), (rank, 3)) for rank in range(3)]
    for _ in range(2):
        assert torch.equal(whole.normal(2, 6, 5, 4), torch.cat([p.normal(2, 2, 5, 4) for p in parts], 1))
        assert torch.equal(whole.uniform(2, 6, 5), torch.cat([p.uniform(2, 2, 5) for p in parts], 1))
