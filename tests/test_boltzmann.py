"""A trained chain samples close to the Boltzmann distribution; `benchmarks/boltzmann.py` compares more samplers."""

from __future__ import annotations

import numpy as np
import torch

from blogdit.batch import collate
from blogdit.blocks import Schedule, Selector, decode
from blogdit.chain import ChainConfig, prior, unroll
from blogdit.constraints import NotEqual
from blogdit.csp import Instance
from blogdit.denoiser import DenoiserConfig
from blogdit.energy import energy, one_hot
from blogdit.recipe import Recipe, TrainConfig
from blogdit.training import Budget, Data, Trainer
from helpers import enumerated, generator, noise

TAU, CHAINS, STEPS = 0.1, 2000, 20
PATH = Instance(np.full(4, 3), (NotEqual([[0, 1], [1, 2], [2, 3]]),))  # 81 states, 24 of them proper colourings
CHAIN = ChainConfig(schedule=Schedule(0.5, 0.2))
TRAINING = TrainConfig(
    batch_size=64, unroll=1, horizon=16, tau_start=TAU, tau_floor=TAU, learning_rate=3e-3, warmup=50, ema=0.99
)


@torch.no_grad()
def ends_of_chains(run):
    """How often each state is where a chain ends."""
    batch, draws = collate([PATH], CHAINS), noise(2)
    context, selector = run.denoiser.context(batch), Selector("random", batch)
    progress = torch.linspace(0, 1, STEPS)[:, None, None].expand(STEPS, CHAINS, 1)
    end = unroll(run.denoiser, context, batch, prior(batch, CHAIN, draws), progress, CHAIN, selector, draws).logits
    states = (decode(end, batch) * torch.tensor([27, 9, 3, 1])).sum(1)
    return torch.bincount(states, minlength=81).double() / CHAINS


def test_training_brings_samples_close_to_the_boltzmann_distribution():
    """Total variation to exp(-H / tau) / Z: the trained chain's is less than half of the untrained one's; that of
    exact draws, the sampling error, is below both."""
    batch, values, _ = enumerated(PATH)
    exact = torch.softmax(-energy(one_hot(values, batch), batch)[:, 0].double() / TAU, 0)

    def distance(p):
        return 0.5 * (p - exact).abs().sum().item()

    draws = torch.multinomial(exact, CHAINS, replacement=True, generator=generator(1))
    error = distance(torch.bincount(draws, minlength=81).double() / CHAINS)
    network = DenoiserConfig(dim=32, heads=2, head_dim=16, layers=2, relation="neighbours")
    run = Trainer(Recipe("csp", {}, network, CHAIN, TRAINING), Data([PATH], [PATH]), Budget(updates=150))
    untrained = distance(ends_of_chains(run))
    for _ in range(150):
        run.update()
    run.denoiser.load_state_dict(run.average)
    trained = distance(ends_of_chains(run))
    assert error < trained < 0.5 * untrained, (error, trained, untrained)
