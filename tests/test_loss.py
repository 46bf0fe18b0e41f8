"""The loss of a chain: its closed forms, a stretch by hand, and its gradient."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch.distributions import Normal, kl_divergence

from blogdit.core.constraints import NotEqual
from blogdit.core.instance import Instance
from blogdit.method.batch import collate
from blogdit.method.blocks import Schedule, Selector
from blogdit.method.chain import ChainConfig, Transition, sample
from blogdit.method.energy import energy
from blogdit.method.loss import entropy, noise_matching, path_loss
from chain_cases import batches, rates, start
from helpers import generator, noise


def random_transition(batch, seed=0, width=None):
    """A step with arbitrary means, variances and block."""
    shape = (batch.rows, batch.groups * batch.variables, batch.values)
    draws = generator(seed)
    corrupted, mean = torch.randn(shape, generator=draws) * 3, torch.randn(shape, generator=draws) * 3
    log_variance = torch.randn(*shape[:2], width or shape[2], generator=draws)
    block = (torch.rand(shape[:2], generator=draws) < 0.6) & batch.free
    return Transition(mean, corrupted, mean, log_variance, block)


def masked(batch, step, amounts):
    """Sum over the block's variables and their domains, from the definition, instance by instance."""
    inside = batch.per_instance(step.block)[..., None] & batch.per_instance(
        batch.domain.expand(batch.rows, -1, -1)
    )  # fmt: skip
    return (batch.per_instance(amounts) * inside).sum((2, 3))


@pytest.mark.parametrize("layout", ["shared", "union"])
@pytest.mark.parametrize("width", [1, None])
def test_entropy_and_noise_matching_equal_torch_distributions(layout, width):
    """With one variance per variable or per value: h(q), and the cross entropy KL(q | N(Z_t, sigma^2)) + h(q)."""
    batch, config = batches()[layout], ChainConfig(sigma=1.7)
    step = random_transition(batch, width=width)
    q = Normal(step.mean, torch.exp(0.5 * step.log_variance).expand_as(step.mean))
    forward = Normal(step.corrupted, config.sigma)  # p(Z_t | Z_{t-1}) as a function of Z_{t-1}
    exact = masked(batch, step, q.entropy())
    found = entropy(step, batch).view(batch.chains, batch.size)
    torch.testing.assert_close(found, exact, rtol=1e-5, atol=1e-4)
    exact = masked(batch, step, kl_divergence(q, forward) + q.entropy())
    found = noise_matching(step, batch, config).view(batch.chains, batch.size)
    torch.testing.assert_close(found, exact, rtol=1e-5, atol=1e-3)


def test_noise_matching_is_the_expected_log_probability():
    """By simulation: the mean of -log p(Z_t | Z_{t-1}) over samples of the step."""
    batch, config = collate([Instance(np.array([3, 2]))]), ChainConfig(sigma=2.0)
    step = random_transition(batch, seed=4)._replace(block=torch.tensor([[True, True]]))
    q = Normal(step.mean, torch.exp(0.5 * step.log_variance))
    torch.manual_seed(0)
    samples = q.sample((200_000,))
    losses = -Normal(samples, 2.0).log_prob(step.corrupted)[..., batch.domain].sum(-1)
    assert noise_matching(step, batch, config).item() == pytest.approx(losses.mean().item(), rel=0.005)


def test_nothing_is_counted_outside_the_block():
    """An empty block has no entropy and no noise term."""
    batch = batches()["union"]
    step = random_transition(batch)._replace(block=torch.zeros(batch.rows, batch.groups * batch.variables) > 0)
    assert (entropy(step, batch) == 0).all()
    assert (noise_matching(step, batch, ChainConfig()) == 0).all()


@pytest.mark.parametrize("sigma", [0.5, 1.0, 4.0])
def test_without_energy_the_loss_is_least_at_the_forward_noise(sigma):
    """noise - entropy is a KL divergence: zero, with zero gradient, at sigma_theta = sigma and mean Z_t; else more."""
    batch, config = collate([Instance(np.array([4] * 3))]), ChainConfig(sigma=sigma)
    step = random_transition(batch)._replace(block=torch.ones(1, 3, dtype=torch.bool))

    def loss(mean, log_variance):
        at = step._replace(mean=mean, log_variance=log_variance)
        return (noise_matching(at, batch, config) - entropy(at, batch)).sum()

    best_mean = step.corrupted.clone().requires_grad_()
    best_variance = torch.full((1, 3, 1), 2 * math.log(sigma)).requires_grad_()
    least = loss(best_mean, best_variance)
    assert least.item() == pytest.approx(0, abs=1e-4)
    for gradient in torch.autograd.grad(least, [best_mean, best_variance]):
        assert gradient.abs().max() < 1e-5
    values = [loss(step.corrupted, torch.full((1, 3, 1), x)).item() for x in torch.linspace(-6, 6, 61)]
    at = torch.linspace(-6, 6, 61)[int(np.argmin(values))].item()
    assert at == pytest.approx(2 * math.log(sigma), abs=0.1)
    assert loss(step.corrupted + 0.3, best_variance) > least


def test_the_loss_of_a_stretch_by_hand():
    """Energy at the end, entropy and noise matching summed over the steps, means over the chains."""
    batch, config, tau = batches()["union"], ChainConfig(schedule=Schedule(0.9, 0.2)), 0.3
    denoise, logits = start(batch)
    shares = rates(config, torch.rand(3, batch.chains, batch.size, generator=generator(1)))
    steps = list(sample(denoise, batch, logits, shares, config, Selector("random", batch), noise(2)))
    found = path_loss(steps, batch, config, tau)
    assert torch.equal(found.logits, steps[-1].logits)
    x = batch.allowed(steps[-1].logits).softmax(-1)
    assert found.energy.item() == pytest.approx(energy(x, batch, form="pairs").mean().item())
    spread = sum(entropy(step, batch).mean() for step in steps)
    matching = sum(noise_matching(step, batch, config).mean() for step in steps)
    torch.testing.assert_close(found.entropy, spread)
    torch.testing.assert_close(found.noise_matching, matching)
    torch.testing.assert_close(found.loss, found.energy + tau * (matching - spread))
    inside = sum(int(step.block.sum()) for step in steps)
    assert found.block_share.item() == pytest.approx(inside / (3 * int(batch.free.sum())))
    without = path_loss(steps, batch, config, tau, with_entropy=False)
    torch.testing.assert_close(without.loss, found.energy + tau * matching)


def test_gradients_go_through_every_step():
    """The energy at the end reaches, by reparameterisation, what the first of three steps predicted."""
    batch = collate([Instance(np.array([3] * 6), (NotEqual([[i, i + 1] for i in range(5)]),))])
    denoise, logits = start(batch)
    means = []

    def watched(*arguments):
        mean, log_variance = denoise(*arguments)
        mean.retain_grad()
        means.append(mean)
        return mean, log_variance

    shares = torch.full((3, 1, 1, 1), 0.9)
    steps = list(sample(watched, batch, logits, shares, ChainConfig(), Selector("random", batch), noise(3)))
    end = steps[-1].logits
    energy(end.softmax(-1), batch).sum().backward()
    assert len(means) == 3
    assert all(mean.grad.abs().max() > 0 for mean in means)
