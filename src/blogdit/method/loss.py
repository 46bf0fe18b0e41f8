"""What the paper minimises over a stretch of the chain (Equation 7):

    energy - tau * entropy + tau * noise matching

Each term has a closed form (Section 4), and the energy is that of the relaxed assignment at the end of the stretch.
Equation 7 has a fourth term, which compares how the reverse and the forward process draw blocks. It vanishes where
blocks do not depend on the state (Equation 8): training draws no others, see `blocks.STATE_DEPENDENT`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

import torch
from torch import Tensor

from blogdit.method.batch import Batch
from blogdit.method.chain import ChainConfig, Transition
from blogdit.method.derived import derive
from blogdit.method.energy import AllDifferentForm, energy


def entropy(step: Transition, batch: Batch) -> Tensor:
    """h(q(Z_{t-1} | Z_t, m_t)) = 1/2 sum over the block of log(2 pi e) + log-variance, (R, G)."""
    return _sum_block(0.5 * (math.log(2 * math.pi * math.e) + step.log_variance), step.block, batch)


def noise_matching(step: Transition, batch: Batch, config: ChainConfig) -> Tensor:
    """E_q[-log p(Z_t | Z_{t-1}, m_t)], (R, G): 1/2 sum over the block of ((Z_t - mean)^2 + variance) / sigma^2 + const.

    With a hidden block, Z_t is fresh noise in the block, independent of the state. Where the mean is independent of
    that noise too, the term is in expectation (mean^2 + variance) / (2 sigma^2) + const: a Gaussian prior on the new
    logits, which keeps them from growing (centred at the prior's bias, if it has one). With a visible block, as in the
    paper, it ties the new logits to the old ones.
    """
    variance = config.sigma**2
    spread = (step.corrupted - step.mean) ** 2 + torch.exp(step.log_variance)
    return _sum_block(0.5 * (spread / variance + math.log(2 * math.pi * variance)), step.block, batch)


def _sum_block(amounts: Tensor, block: Tensor, batch: Batch) -> Tensor:
    """Sum over the coordinates of the block's variables and their domains: (R, M, K) -> (R, G)."""
    counted = amounts * (block[..., None] & batch.domain)
    return counted.view(batch.rows, batch.groups, -1).sum(-1)


class PathLoss(NamedTuple):
    """The loss of a stretch and its parts, each the mean over all chains, and where the stretch ended."""

    loss: Tensor  # ()
    energy: Tensor  # () of the relaxed assignments at the end
    entropy: Tensor  # () summed over the steps
    noise_matching: Tensor  # () summed over the steps
    block_share: Tensor  # () of the free variables that were in a block
    logits: Tensor  # (R, M, K) the last ones
    resampled: Tensor  # (R, M) variables that were in a block


def path_loss(
    steps: Iterable[Transition],
    batch: Batch,
    config: ChainConfig,
    tau: Tensor | float,
    form: AllDifferentForm = "pairs",
    with_entropy: bool = True,
    weights: Tensor | float = 1.0,
) -> PathLoss:
    """The objective for the steps of `chain.sample`; without the entropy term it is an ablation of the paper. The
    energies of chains may count with `weights` (R, G)."""
    entropies, matchings, shares = [], [], []
    resampled = torch.zeros_like(batch.free)
    for step in steps:
        if config.kernel == "gaussian":
            entropies.append(entropy(step, batch))
            matchings.append(noise_matching(step, batch, config))
        else:  # no density, no terms
            entropies.append(step.mean.new_zeros(batch.rows, batch.groups))
            matchings.append(step.mean.new_zeros(batch.rows, batch.groups))
        shares.append(step.block.sum() / batch.free.sum().clamp(min=1))
        resampled = resampled | step.block
    relaxed = derive(batch.allowed(step.logits).softmax(-1), batch)  # (R, M, K)
    energies = energy(relaxed, batch, form=form)  # (R, G)
    spread, matching = torch.stack(entropies).sum(0).mean(), torch.stack(matchings).sum(0).mean()
    loss = (weights * energies).mean() + tau * matching - (tau * spread if with_entropy else 0.0)
    return PathLoss(loss, energies.mean(), spread, matching, torch.stack(shares).mean(), step.logits, resampled)
