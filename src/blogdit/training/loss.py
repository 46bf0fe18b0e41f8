"""What training minimises, energy - tau * entropy + tau * noise matching (Equation 5), and its schedules."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from blogdit.method.batch import Batch
from blogdit.method.blocks import Selector
from blogdit.method.chain import unroll
from blogdit.method.energy import energy
from blogdit.method.noise import Noise
from blogdit.network.denoiser import Denoiser, in_bfloat16
from blogdit.training.recipe import Recipe


class TrainingLoss(nn.Module):
    """The loss of a stretch of chains as one module, so that several processes can share its gradient."""

    def __init__(self, denoiser: Denoiser, recipe: Recipe, compiled: bool, bfloat16: bool):
        super().__init__()
        self.denoiser, self.recipe = denoiser, recipe
        call: Callable[..., Any] = torch.compile(denoiser, dynamic=False) if compiled else denoiser
        # Not the network itself but a way to call it, so that its parameters are registered once.
        self.call = in_bfloat16(call) if bfloat16 else lambda *inputs: call(*inputs)

    def forward(
        self, batch: Batch, logits: Tensor, progress: Tensor, codes: Tensor | None, noise: Noise, tau: Tensor
    ) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
        config = self.recipe.training
        context = self.denoiser.context(batch, codes)
        selector = Selector(config.selector, batch)
        end = unroll(self.call, context, batch, logits, progress, self.recipe.chain, selector, noise)
        x = batch.allowed(end.logits).softmax(-1)
        h = energy(x, batch, form=config.all_different).mean()
        spread, matching = end.entropy.mean(), end.noise_matching.mean()
        loss = h + tau * matching - (tau * spread if config.entropy else 0.0)
        terms = {"loss": loss, "energy": h, "entropy": spread, "noise_matching": matching, "share": end.block_share}
        return loss, end.logits.detach(), {name: term.detach() for name, term in terms.items()}


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
