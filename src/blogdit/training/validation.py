"""How good weights are: short chains on instances that never train."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from blogdit.core.instance import Instance
from blogdit.method.batch import collate
from blogdit.method.blocks import Selector, decode
from blogdit.method.chain import ChainConfig, prior, sample
from blogdit.method.energy import energy, one_hot, penalty_scale
from blogdit.method.noise import GeneratorNoise
from blogdit.network.denoiser import Denoiser
from blogdit.network.inference import fastest, inference_copy
from blogdit.training.recipe import TrainConfig


@contextmanager
def averaged(denoiser: Denoiser, average: dict[str, Tensor]) -> Iterator[None]:
    """The network with its averaged weights."""
    own = {name: value.detach().clone() for name, value in denoiser.state_dict().items()}
    denoiser.load_state_dict(average)
    try:
        yield
    finally:
        denoiser.load_state_dict(own)


@torch.no_grad()
def validate(
    denoiser: Denoiser,
    instances: Sequence[Instance],
    chain: ChainConfig,
    config: TrainConfig,
    device: torch.device,
    by_energy: bool = False,
) -> dict[str, float]:
    """Short chains with the given weights. Satisfaction problems: share of instances with zero discrete energy at any
    step, and at the last; optimisation problems, and others `by_energy`: the mean of the lowest energy seen, where
    each instance counts alike with `unit_energy`. `score` is larger when better. The network is afterwards in the mode,
    training or not, that it was in."""
    was_training, steps = denoiser.training, config.validation_steps
    try:
        batch = collate(instances, related=denoiser.config.relates).to(device)
        noise = GeneratorNoise(torch.Generator(device).manual_seed(0))
        denoise = fastest(inference_copy(denoiser, device), batch)
        rates = (
            chain.schedule.rate(torch.full((batch.chains, batch.size, 1), step / steps, device=device))
            for step in range(steps)
        )
        blocks = Selector(config.validation_selector, batch)
        best = torch.full((batch.rows, batch.groups), math.inf, device=device)
        unit = penalty_scale(batch) if config.unit_energy else 1.0
        for step in sample(denoise, batch, prior(batch, chain, noise), rates, chain, blocks, noise):
            last = energy(one_hot(decode(step.logits, batch), batch), batch) / unit  # (R, G)
            best = torch.minimum(best, last)
    finally:
        denoiser.train(was_training)
    if batch.optimisation or by_energy:
        return {"score": -best.mean().item(), "energy": best.mean().item(), "last_energy": last.mean().item()}
    solved, at_last = (best == 0).float().mean().item(), (last == 0).float().mean().item()
    return {"score": solved, "solved": solved, "solved_at_last": at_last}


def validate_all(denoiser: Denoiser, groups: Sequence[Sequence[Instance]], *how: Any) -> dict[str, float]:
    """As `validate`, the mean over groups of instances; of several groups also the score of each."""
    parts = [validate(denoiser, group, *how) for group in groups]
    scores = {name: sum(part[name] for part in parts) / len(parts) for name in parts[0]}
    if len(parts) > 1:
        scores |= {f"score_{number}": part["score"] for number, part in enumerate(parts, 1)}
    return scores
