"""How good weights are: short chains on instances that never train."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from blogdit.core.instance import Instance
from blogdit.method.batch import collate
from blogdit.method.blocks import Selector, decode
from blogdit.method.chain import ChainConfig, prior, unroll
from blogdit.method.energy import energy, one_hot
from blogdit.method.noise import GeneratorNoise
from blogdit.network.denoiser import CodeBank, Denoiser
from blogdit.network.inference import fastest, inference_copy


@torch.no_grad()
def validate(
    model: Denoiser, instances: Sequence[Instance], chain: ChainConfig, steps: int, selector: str, device: torch.device
) -> dict[str, float]:
    """Short chains with the given weights. Satisfaction problems: share of instances with zero discrete energy at any
    step, and at the last; optimisation problems: the mean of the lowest energy seen. `score` is larger when better."""
    generator = torch.Generator(device).manual_seed(0)
    batch, noise = collate(instances).to(device), GeneratorNoise(generator)
    bank = CodeBank(model.config, 61, batch.values, torch.Generator().manual_seed(0), device)
    place = torch.arange(batch.size, device=device)
    model = inference_copy(model, device)
    context, pick = model.context(batch), Selector(selector, batch)  # type: ignore[arg-type]
    denoise = fastest(model, context)
    logits = prior(batch, chain, noise)
    best = torch.full((batch.rows, batch.groups), math.inf, device=device)
    for step in range(steps):
        done = torch.full((1, batch.chains, batch.size), step / steps, device=device)
        context = bank.give(context, place + step, batch)
        logits = unroll(denoise, context, batch, logits, done, chain, pick, noise).logits
        last = energy(one_hot(decode(logits, batch), batch), batch)
        best = torch.minimum(best, last)
    if batch.optimisation:
        return {"score": -best.mean().item(), "energy": best.mean().item(), "last_energy": last.mean().item()}
    solved, at_last = (best == 0).float().mean().item(), (last == 0).float().mean().item()
    return {"score": solved, "solved": solved, "solved_at_last": at_last}
