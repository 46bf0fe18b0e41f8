"""Does a trained chain sample the Boltzmann distribution? Run: python benchmarks/boltzmann.py [--updates N]

Two problems small enough to enumerate, each trained at one fixed temperature tau. Printed for each: the total variation
distance between the assignments at the end of many chains and exp(-H / tau) / Z, beside that of as many exact draws
(the sampling error), of an untrained network, and of DiT (every variable in every step) with the same network and
number of updates; both with the block hidden from the network, as the package does it, and visible, as in the paper.

`nearest tau` is the temperature whose Boltzmann distribution is closest to the samples, and the distance to that one.
One Gaussian step from a hidden block cannot reach the Boltzmann distribution of its own tau: moving its mean costs more
than the odds of the values that this changes, so it samples a hotter one, about 1.6 tau for a single variable.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from blogdit import Instance, NotEqual
from blogdit.method.batch import collate
from blogdit.method.blocks import Schedule, Selector, decode
from blogdit.method.chain import ChainConfig, prior, sample
from blogdit.method.energy import energy, one_hot
from blogdit.method.noise import GeneratorNoise
from blogdit.network.denoiser import Denoiser, DenoiserConfig
from blogdit.problems import mis
from blogdit.training.data import Data
from blogdit.training.recipe import Recipe, TrainConfig
from blogdit.training.state import Budget
from blogdit.training.trainer import Trainer

NETWORK = DenoiserConfig(dim=32, heads=2, head_dim=16, layers=2, relation="neighbours")


def coloring_path() -> Instance:
    """A path of 4 vertices in 3 colours: 24 proper colourings, of several kinds that no symmetry joins."""
    return Instance(np.full(4, 3), (NotEqual([[0, 1], [1, 2], [2, 3]]),), name="colouring of a path, 3^4 states")


def weighted_set() -> Instance:
    """A weighted independent set on a triangle with two tails."""
    edges = [(0, 1), (1, 2), (0, 2), (2, 3), (3, 4)]
    return mis.build((5, edges), weights=[1.0, 0.8, 1.2, 0.9, 0.7], name="weighted independent set, 2^5 states")


PROBLEMS = ((coloring_path, 0.1), (weighted_set, 0.3))


def every_energy(instance: Instance) -> Tensor:
    """H of all assignments, in lexicographic order."""
    every = np.array(list(itertools.product(*(range(size) for size in instance.domain_sizes))))
    batch = collate([instance], chains=len(every))
    return energy(one_hot(torch.from_numpy(every), batch), batch)[:, 0].double()


def distance(p: Tensor, q: Tensor) -> float:
    """Total variation."""
    return 0.5 * (p - q).abs().sum().item()


class Sampler(NamedTuple):
    name: str
    dit: bool = False
    hide_block: bool = True


UNTRAINED = Sampler("untrained")
TRAINED = (
    Sampler("DiT, hidden", dit=True),
    Sampler("DiT, visible", dit=True, hide_block=False),
    Sampler("BloGDiT, visible", hide_block=False),
    Sampler("BloGDiT, hidden"),
)


def recipe(tau: float, sampler: Sampler, batch_size: int = 64) -> Recipe:
    """One temperature throughout; the single-step estimator on persistent chains."""
    return Recipe(
        "csp",
        denoiser=NETWORK,
        chain=ChainConfig(hide_block=sampler.hide_block, schedule=Schedule(0.5, 0.2)),
        training=TrainConfig(
            batch_size=batch_size,
            unroll=1,
            horizon=16,
            tau_start=tau,
            tau_floor=tau,
            learning_rate=3e-3,
            warmup=50,
            ema=0.99,
            selector="all" if sampler.dit else "random",
        ),
    )


def trained(instance: Instance, tau: float, sampler: Sampler, updates: int, seed: int = 0) -> Denoiser:
    run = Trainer(recipe(tau, sampler), Data([instance], [instance]), Budget(updates=updates), seed)
    for _ in range(updates):
        run.update()
    run.denoiser.load_state_dict(run.average)
    return run.denoiser


@torch.no_grad()
def sampled(
    model: Denoiser, instance: Instance, tau: float, sampler: Sampler, chains: int, steps: int = 30, seed: int = 2
) -> Tensor:
    """How often each assignment is where a chain ends, over independent chains."""
    chosen = recipe(tau, sampler)
    batch, noise = collate([instance], chains), GeneratorNoise(torch.Generator().manual_seed(seed))
    logits, selector = prior(batch, chosen.chain, noise), Selector(chosen.training.selector, batch)
    rates = (chosen.chain.schedule.rate(done.expand(chains, 1, 1)) for done in torch.linspace(0, 1, steps))
    for step in sample(model.on(batch), batch, logits, rates, chosen.chain, selector, noise):
        logits = step.logits
    place = np.cumprod([1, *instance.domain_sizes[:0:-1]])[::-1].copy()  # of a digit in the lexicographic order
    states = (decode(logits, batch) * torch.from_numpy(place)).sum(1)
    return torch.bincount(states, minlength=int(np.prod(instance.domain_sizes))).double() / chains


def untrained() -> Denoiser:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return Denoiser(NETWORK)


def nearest(p: Tensor, energies: Tensor, tau: float) -> tuple[float, float]:
    """The temperature whose Boltzmann distribution is closest to p, and the distance to it."""
    grid = [tau * 10 ** (x / 50) for x in range(-50, 51)]
    distances = [distance(p, torch.softmax(-energies / t, 0)) for t in grid]
    return grid[int(np.argmin(distances))], min(distances)


def samples(instance: Instance, tau: float, updates: int, chains: int) -> Iterator[tuple[str, Tensor]]:
    """The distribution of every sampler."""
    exact = torch.softmax(-every_energy(instance) / tau, 0)
    draws = torch.multinomial(exact, chains, replacement=True, generator=torch.Generator().manual_seed(1))
    yield "exact draws", torch.bincount(draws, minlength=len(exact)).double() / chains
    yield UNTRAINED.name, sampled(untrained(), instance, tau, UNTRAINED, chains)
    for sampler in TRAINED:
        yield sampler.name, sampled(trained(instance, tau, sampler, updates), instance, tau, sampler, chains)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--updates", type=int, default=600)
    parser.add_argument("--chains", type=int, default=5000)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    for build, tau in PROBLEMS:
        instance = build()
        energies = every_energy(instance)
        exact = torch.softmax(-energies / tau, 0)
        print(f"{instance.name}, tau = {tau:g}, {options.updates} updates, {options.chains} chains")
        print(f"  {'':<18}{'total variation':>16}{'nearest tau':>14}{'and distance':>14}{'mean energy':>14}{'s':>6}")
        began = time.monotonic()
        for name, p in samples(instance, tau, options.updates, options.chains):
            hotter, rest = nearest(p, energies, tau)
            mean, seconds = (p * energies).sum().item(), time.monotonic() - began
            print(
                f"  {name:<18}{distance(p, exact):16.3f}{hotter:14.3f}{rest:14.3f}{mean:14.3f}{seconds:6.0f}",
                flush=True,
            )
            began = time.monotonic()


if __name__ == "__main__":
    main()
