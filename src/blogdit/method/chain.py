"""The blocked Gibbs diffusion chain (Sections 3 and 4 of the paper).

The state is a tensor of logits Z (R, M, K); `batch.py` explains its layout. A reverse step draws a block m_t, hides it
behind fresh noise, lets the denoiser predict a Gaussian for it given everything else, and samples that Gaussian. The
logits of all other variables are copied bit for bit. `sample` takes such steps one after the other. Training,
validation, solving and benchmarks all use it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from blogdit.method.batch import Batch
from blogdit.method.blocks import Schedule, Selector
from blogdit.method.derived import with_derived
from blogdit.method.gumbel import direct_update
from blogdit.method.noise import Noise

# Logits (R, M, K) and a block (R, M) -> mean (R, M, K) and log-variance (R, M, K or 1) of the block's next logits.
Denoise = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]


@dataclass(frozen=True)
class ChainConfig:
    """The two Gaussians of the chain and its block schedule; stored with the weights of a model."""

    prior_scale: float = 1.0  # s of the prior N(0, s^2)
    sigma: float = 4.0  # of the forward kernel N(Z_{t-1}, sigma^2) on the block
    hide_block: bool = True  # the denoiser sees fresh noise in the block; False: the block's current logits
    prior_bias: tuple[float, ...] = ()  # added to the prior's logits, value by value
    kernel: Literal["gaussian", "gumbel"] = "gaussian"  # "gumbel" is an ablation: see gumbel.py
    schedule: Schedule = field(default_factory=Schedule)

    def __post_init__(self) -> None:
        for name in ("prior_scale", "sigma"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be positive, got {getattr(self, name)}")
        if self.kernel not in ("gaussian", "gumbel"):
            raise ValueError(f"kernel must be gaussian or gumbel, got {self.kernel!r}")


class Transition(NamedTuple):
    """One reverse step: the next logits, and what the loss needs to know of how they were drawn."""

    logits: Tensor  # (R, M, K) Z_{t-1}
    corrupted: Tensor  # (R, M, K) Z_t as the denoiser saw it
    mean: Tensor  # (R, M, K)
    log_variance: Tensor  # (R, M, K or 1)
    block: Tensor  # (R, M) m_t


def prior(batch: Batch, config: ChainConfig, noise: Noise) -> Tensor:
    """Z_T ~ N(0, s^2 I), (R, M, K), with the given variables clamped to their values and derived ones filled in."""
    logits = torch.where(batch.given[..., None], batch.certain(batch.given_value), _fresh(batch, config, noise))
    return with_derived(logits, batch)


def reverse_step(
    denoise: Denoise, batch: Batch, logits: Tensor, block: Tensor, config: ChainConfig, noise: Noise
) -> Transition:
    """Sample Z_{t-1} ~ q(. | Z_t, m_t). Only variables of the block change, and those that follow from them."""
    fresh = _fresh(batch, config, noise) if config.hide_block else None  # (R, M, K)
    if config.kernel == "gumbel":
        drawn, corrupted, mean, log_variance = direct_update(denoise, batch, logits, block, fresh, noise)
        return Transition(with_derived(drawn, batch), corrupted, mean, log_variance, block)
    inside = block[..., None]
    corrupted = with_derived(logits if fresh is None else torch.where(inside, fresh, logits), batch)
    mean, log_variance = denoise(corrupted, block)
    epsilon = batch.lay(noise.normal(batch.chains, batch.size, batch.variables, batch.values))
    sampled = mean + torch.exp(0.5 * log_variance) * epsilon
    drawn = with_derived(torch.where(inside, sampled, logits), batch)
    return Transition(drawn, corrupted, mean, log_variance, block)


def sample(
    denoise: Denoise,
    batch: Batch,
    logits: Tensor,
    rates: Iterable[Tensor],
    config: ChainConfig,
    selector: Selector,
    noise: Noise,
) -> Iterator[Transition]:
    """The chain from `logits` on: one reverse step for each rate rho_t (chains, B, 1) of the blocks.

    `rates` is asked for the next rate only when the next step is taken. So an endless iterable gives an endless chain,
    and a rate may depend on the steps before it.
    """
    for rate in rates:
        block = selector.draw(logits, rate, noise)
        step = reverse_step(denoise, batch, logits, block, config, noise)
        yield step
        logits = step.logits


def _fresh(batch: Batch, config: ChainConfig, noise: Noise) -> Tensor:
    """N(bias, s^2) for all variables, (R, M, K)."""
    z = batch.lay(noise.normal(batch.chains, batch.size, batch.variables, batch.values)) * config.prior_scale
    for value, bias in enumerate(config.prior_bias[: batch.values]):
        z[..., value] += bias
    return z
