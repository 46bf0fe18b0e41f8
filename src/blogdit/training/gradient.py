"""The gradient of an update, for the whole batch at once or part by part.

A device that has no memory for the whole batch works on its parts one after the other (`accumulate`). Each part sees
the random numbers that it would see in the whole batch. So the update is the same up to rounding, as it is for several
processes that work on a part each.
"""

from __future__ import annotations

from contextlib import nullcontext

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from blogdit.method.batch import Batch
from blogdit.method.noise import GeneratorNoise
from blogdit.training.recipe import TrainConfig
from blogdit.training.shelf import Shelf


def add_gradient(
    loss: nn.Module, shelf: Shelf, batch: Batch, noise: GeneratorNoise, tau: Tensor, config: TrainConfig
) -> tuple[Tensor, dict[str, Tensor]]:
    """Add the gradient of the mean loss of the shelf's chains, which work on the instances of `batch`. Returns their
    last logits (R, M, K) and the terms for the log, each a mean over the parts."""
    parts, chains = config.accumulate, shelf.chains
    size = batch.size // parts
    start = noise.generator.get_state() if parts > 1 else None
    logits = batch.per_instance(chains.logits)  # (1, B, N, K)
    steps = torch.arange(config.unroll, device=batch.device)[:, None, None]
    ends: list[Tensor] = []
    found: list[dict[str, Tensor]] = []
    for part in range(parts):
        own = slice(part * size, (part + 1) * size)
        some, index, drawn = batch, chains.index, noise
        if start is not None:
            noise.generator.set_state(start)  # each part takes its own share of the same numbers
            some, index, drawn = shelf.take(chains.index[own]), chains.index[own], noise.shared(part, parts)
        progress = (chains.age[own] + steps) / max(config.horizon - 1, 1)  # (unroll, 1, B)
        targets = None if shelf.answers is None else shelf.answers.take(index)
        # Processes exchange gradients once, with the last part.
        waits = isinstance(loss, DistributedDataParallel) and part < parts - 1
        with loss.no_sync() if waits else nullcontext():  # type: ignore[operator]
            value, end, terms = loss(some, some.lay(logits[:, own]), progress, drawn, tau, targets)
            (value / parts).backward()
        ends.append(some.per_instance(end))
        found.append(terms)
    return batch.lay(torch.cat(ends, 1)), {name: torch.stack([t[name] for t in found]).mean(0) for name in found[0]}
