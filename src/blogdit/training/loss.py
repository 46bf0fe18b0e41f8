"""The loss of `method/loss.py` as a module that can be compiled and shared by processes, and its schedules."""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import Tensor, nn

from blogdit.method.answers import Targets, nearest, surprise
from blogdit.method.batch import Batch
from blogdit.method.blocks import Selector, decode
from blogdit.method.chain import sample
from blogdit.method.energy import penalty_scale
from blogdit.method.improve import improved
from blogdit.method.loss import path_loss
from blogdit.method.noise import Noise
from blogdit.network.denoiser import Denoiser, Network, in_bfloat16
from blogdit.training.recipe import Recipe


class TrainingLoss(nn.Module):
    """The loss of a stretch of chains as one module, so that several processes can share its gradient."""

    def __init__(self, denoiser: Denoiser, recipe: Recipe, compiled: bool, bfloat16: bool):
        super().__init__()
        self.denoiser, self.recipe = denoiser, recipe
        network: Network = compiled_network(denoiser) if compiled else denoiser
        # Not the network itself but a way to call it, so that its parameters are registered once.
        self.network: Network = in_bfloat16(network) if bfloat16 else lambda *inputs: network(*inputs)

    def forward(
        self, batch: Batch, logits: Tensor, progress: Tensor, noise: Noise, tau: Tensor, targets: Targets | None = None
    ) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
        """One reverse step for each row of `progress` (steps, chains, B), which says how far along its schedule a chain
        is. Returns the loss, the last logits (R, M, K), and the terms for the log."""
        config, chain = self.recipe.training, self.recipe.chain
        if targets is not None and config.show_answer > 0:
            logits = self._with_answers(batch, logits, targets, noise)
        denoise = replace(self.denoiser.on(batch), network=self.network)
        rates = (chain.schedule.rate(done[..., None]) for done in progress)  # each (chains, B, 1)
        steps = sample(denoise, batch, logits, rates, chain, Selector(config.selector, batch), noise)
        weights: Tensor | float = 1 / penalty_scale(batch) if config.unit_energy else 1.0  # (G,)
        if targets is not None:
            known = targets.any.expand(batch.chains, -1).reshape(batch.rows, batch.groups)
            weights = weights * torch.where(known, config.relaxed, 1.0)
        path = path_loss(steps, batch, chain, tau, config.all_different, config.entropy, weights)
        terms = {
            "loss": path.loss,
            "energy": path.energy,
            "entropy": path.entropy,
            "noise_matching": path.noise_matching,
            "share": path.block_share,
        }
        loss = path.loss
        if targets is not None:
            visible = batch.per_instance(~path.resampled & batch.free)
            state = batch.per_instance(decode(logits, batch))
            answers = batch.lay(nearest(targets, state, visible, batch, config.rename))
            missed = surprise(path.logits, answers, path.resampled, batch)  # (R, G)
            terms["surprise"] = torch.where(known, missed, 0.0).sum() / known.sum().clamp(min=1)
            terms["answered"] = known.float().mean()
            loss = loss + config.own_answers * torch.where(known, missed, 0.0).mean()
        elif config.own_answers and config.improve:
            sampled = decode(path.logits, batch)
            better, gained = improved(sampled, path.resampled, batch, config.improve, config.improve_heat, noise)
            missed = torch.where(gained, surprise(path.logits, better, path.resampled, batch), 0.0)
            terms |= {"surprise": missed.sum() / gained.sum().clamp(min=1), "improved": gained.float().mean()}
            loss = loss + config.own_answers * missed.mean()
        terms["loss"] = loss
        return loss, path.logits.detach(), {name: term.detach() for name, term in terms.items()}

    def _with_answers(self, batch: Batch, logits: Tensor, targets: Targets, noise: Noise) -> Tensor:
        """Some chains stand at an answer, so that a block of it is hidden and the rest of it is shown."""
        state = batch.per_instance(decode(logits, batch))
        answers = batch.lay(nearest(targets, state, torch.ones_like(state, dtype=torch.bool), batch, rename=False))
        chosen = (noise.uniform(batch.chains, batch.size, 1) < self.recipe.training.show_answer) & targets.any[:, None]
        chosen = batch.lay(chosen.expand_as(state))[..., None]
        return torch.where(chosen & batch.free[..., None], batch.certain(answers), logits)


def compiled_network(denoiser: Denoiser) -> Network:
    """Layers of literals are compiled one by one: they are alike, so that one is enough for each shape of a batch."""
    if denoiser.config.values != "literals":
        return torch.compile(denoiser, dynamic=False)
    for layer in denoiser.body.layers:  # type: ignore[union-attr]
        layer.compile()
    return denoiser


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
