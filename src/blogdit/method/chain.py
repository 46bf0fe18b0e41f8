"""The blocked Gibbs diffusion chain (Sections 3 and 4 of the paper).

The state is a tensor of logits Z (R, M, K). One reverse step corrupts a block of variables, lets the denoiser
predict a Gaussian for the block given everything else, samples it, and copies all other variables bit for bit (where
assignments are updated directly, their likeliest values). Training and solving use the same `reverse_step`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from blogdit.method.batch import Batch
from blogdit.method.blocks import Schedule, Selector, decode
from blogdit.method.noise import Noise
from blogdit.network.config import Context

GIVEN_LOGIT = 10.0  # a given value has this logit, the others its negative

DenoiserCall = Callable[[Tensor, Tensor, Context], tuple[Tensor, Tensor]]


@dataclass(frozen=True)
class ChainConfig:
    """The two Gaussians of the chain and its block schedule; stored with the weights of a model."""

    prior_scale: float = 1.0  # s of the prior N(0, s^2)
    sigma: float = 4.0  # of the forward kernel N(Z_{t-1}, sigma^2) on the block
    hide_block: bool = True  # the denoiser sees fresh noise in the block; False: the block's current logits
    prior_bias: tuple[float, ...] = ()  # added to the prior's logits, value by value
    # "gaussian" is the diffusion chain. "gumbel" updates assignments directly, as ConsFormer does: the network sees one
    # value for each variable, and its logits with Gumbel noise are the new ones of the block, so that the likeliest
    # value is a sample; there is no variance, and there are no loss terms.
    kernel: Literal["gaussian", "gumbel"] = "gaussian"
    schedule: Schedule = field(default_factory=Schedule)

    def __post_init__(self) -> None:
        for name in ("prior_scale", "sigma"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be positive, got {getattr(self, name)}")
        if self.kernel not in ("gaussian", "gumbel"):
            raise ValueError(f"kernel must be gaussian or gumbel, got {self.kernel!r}")


class Transition(NamedTuple):
    """One reverse step: the next logits, and what the loss needs of how they came about."""

    logits: Tensor  # Z_{t-1}
    corrupted: Tensor  # Z_t as the denoiser saw it
    mean: Tensor
    log_variance: Tensor
    block: Tensor


def _fresh(batch: Batch, config: ChainConfig, noise: Noise) -> Tensor:
    z = batch.lay(noise.normal(batch.chains, batch.size, batch.variables, batch.values)) * config.prior_scale
    for value, bias in enumerate(config.prior_bias[: batch.values]):
        z[..., value] += bias
    return z


def clamp_givens(logits: Tensor, batch: Batch) -> Tensor:
    values = torch.arange(batch.values, device=logits.device)
    clamped = torch.where(values == batch.given_value[..., None], GIVEN_LOGIT, -GIVEN_LOGIT)
    return torch.where(batch.given[..., None], clamped, logits)


def assigned(logits: Tensor, batch: Batch) -> Tensor:
    """Logits of the likeliest value of each variable and of no other, as if it were given."""
    likeliest = torch.arange(batch.values, device=logits.device) == decode(logits, batch)[..., None]
    return torch.where(likeliest, GIVEN_LOGIT, -GIVEN_LOGIT)


def prior(batch: Batch, config: ChainConfig, noise: Noise) -> Tensor:
    """Z_T ~ N(0, s^2 I), with the given variables clamped."""
    return clamp_givens(_fresh(batch, config, noise), batch)


def reverse_step(
    denoiser: DenoiserCall,
    context: Context,
    batch: Batch,
    logits: Tensor,
    block: Tensor,
    config: ChainConfig,
    noise: Noise,
) -> Transition:
    """Sample Z_{t-1} ~ q(. | Z_t, m_t). Only variables of the block change; with the kernel "gumbel", the others are
    reduced to their likeliest value."""
    inside = block[..., None]
    if config.kernel == "gumbel":
        logits = assigned(logits, batch)
    corrupted = torch.where(inside, _fresh(batch, config, noise), logits) if config.hide_block else logits
    mean, log_variance = denoiser(corrupted, block, context)
    if config.kernel == "gumbel":
        sample = mean + _gumbel(batch, noise)
    else:
        epsilon = batch.lay(noise.normal(batch.chains, batch.size, batch.variables, batch.values))
        sample = mean + torch.exp(0.5 * log_variance) * epsilon
    return Transition(torch.where(inside, sample, logits), corrupted, mean, log_variance, block)


def _gumbel(batch: Batch, noise: Noise) -> Tensor:
    """-log(-log u), u uniform: the largest of logits + noise is k with the probability softmax(logits)_k."""
    flat = noise.uniform(batch.chains, batch.size, batch.variables * batch.values)
    u = flat.view(batch.chains, batch.size, batch.variables, batch.values).clamp(2.0**-24, 1 - 2.0**-24)
    return batch.lay(-torch.log(-torch.log(u)))


def _sum_block(amounts: Tensor, block: Tensor, batch: Batch) -> Tensor:
    """Sum over the coordinates of the block's variables and their domains: (R, M, K) -> (R, G)."""
    counted = amounts * (block[..., None] & batch.domain)
    return counted.view(batch.rows, batch.groups, -1).sum(-1)


def entropy(step: Transition, batch: Batch) -> Tensor:
    """h(q(Z_{t-1} | Z_t, m_t)) = 1/2 sum over the block of log(2 pi e) + log-variance."""
    return _sum_block(0.5 * (math.log(2 * math.pi * math.e) + step.log_variance), step.block, batch)


def noise_matching(step: Transition, batch: Batch, config: ChainConfig) -> Tensor:
    """E_q[-log p(Z_t | Z_{t-1}, m_t)] = 1/2 sum over the block of ((Z_t - mean)^2 + variance) / sigma^2 + const."""
    variance = config.sigma**2
    spread = (step.corrupted - step.mean) ** 2 + torch.exp(step.log_variance)
    return _sum_block(0.5 * (spread / variance + math.log(2 * math.pi * variance)), step.block, batch)


class Unrolled(NamedTuple):
    """The end of a stretch of a chain, and the loss terms summed over its steps, each (R, G)."""

    logits: Tensor
    entropy: Tensor
    noise_matching: Tensor
    block_share: Tensor


def unroll(
    denoiser: DenoiserCall,
    context: Context,
    batch: Batch,
    logits: Tensor,
    progress: Tensor,
    config: ChainConfig,
    selector: Selector,
    noise: Noise,
) -> Unrolled:
    """One reverse step for each row of `progress` (steps, chains, B): how far along its schedule a chain is."""
    terms = []
    for done in progress:
        block = selector.draw(logits, config.schedule.rate(done[..., None]), noise)
        step = reverse_step(denoiser, context, batch, logits, block, config, noise)
        logits = step.logits
        share = block.sum() / batch.free.sum().clamp(min=1)
        if config.kernel == "gaussian":
            terms.append((entropy(step, batch), noise_matching(step, batch, config), share))
        else:
            nothing = step.mean.new_zeros(batch.rows, batch.groups)
            terms.append((nothing, nothing, share))
    entropies, matchings, shares = zip(*terms, strict=True)
    return Unrolled(logits, torch.stack(entropies).sum(0), torch.stack(matchings).sum(0), torch.stack(shares).mean())
