"""The loss of `method/loss.py` as a module that can be compiled and shared by processes, and its schedules."""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import Tensor, nn

from blogdit.method.batch import Batch
from blogdit.method.blocks import Selector
from blogdit.method.chain import sample
from blogdit.method.loss import path_loss
from blogdit.method.noise import Noise
from blogdit.network.denoiser import Denoiser, Network, in_bfloat16
from blogdit.training.recipe import Recipe


class TrainingLoss(nn.Module):
    """The loss of a stretch of chains as one module, so that several processes can share its gradient."""

    def __init__(self, denoiser: Denoiser, recipe: Recipe, compiled: bool, bfloat16: bool):
        super().__init__()
        self.denoiser, self.recipe = denoiser, recipe
        network: Network = torch.compile(denoiser, dynamic=False) if compiled else denoiser
        # Not the network itself but a way to call it, so that its parameters are registered once.
        self.network: Network = in_bfloat16(network) if bfloat16 else lambda *inputs: network(*inputs)

    def forward(
        self, batch: Batch, logits: Tensor, progress: Tensor, noise: Noise, tau: Tensor
    ) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
        """One reverse step for each row of `progress` (steps, chains, B), which says how far along its schedule a chain
        is. Returns the loss, the last logits (R, M, K), and the terms for the log."""
        config, chain = self.recipe.training, self.recipe.chain
        denoise = replace(self.denoiser.on(batch), network=self.network)
        rates = (chain.schedule.rate(done[..., None]) for done in progress)  # each (chains, B, 1)
        steps = sample(denoise, batch, logits, rates, chain, Selector(config.selector, batch), noise)
        path = path_loss(steps, batch, chain, tau, config.all_different, config.entropy)
        terms = {
            "loss": path.loss,
            "energy": path.energy,
            "entropy": path.entropy,
            "noise_matching": path.noise_matching,
            "share": path.block_share,
        }
        return path.loss, path.logits.detach(), {name: term.detach() for name, term in terms.items()}


def learning_rate(recipe: Recipe, updates: int, spent: float) -> float:
    """Linear warm-up, then a cosine down to final_rate."""
    config = recipe.training
    warm = min(1.0, (updates + 1) / max(config.warmup, 1))
    cosine = 0.5 * (1 + math.cos(math.pi * min(spent, 1.0)))
    return config.learning_rate * warm * (config.final_rate + (1 - config.final_rate) * cosine)


def temperature(recipe: Recipe, spent: float) -> float:
    """tau falls linearly to its floor."""
    config = recipe.training
    left = max(0.0, 1 - spent / config.tau_share)
    return config.tau_floor + max(config.tau_start - config.tau_floor, 0.0) * left
