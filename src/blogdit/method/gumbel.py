"""An ablation, not the paper's chain: assignments are updated directly, as ConsFormer does it.

The network sees one value for each variable. Its mean, with Gumbel noise added, gives the new logits of the block, so
that the likeliest value is a sample of softmax(mean). There is no variance, and the loss is the energy alone. Chosen
with `kernel="gumbel"` in `chain.ChainConfig`.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from blogdit.method.batch import Batch
from blogdit.method.blocks import decode
from blogdit.method.noise import Noise


def direct_update(
    denoise: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]],
    batch: Batch,
    logits: Tensor,
    block: Tensor,
    fresh: Tensor | None,
    noise: Noise,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Next logits, what the network saw, mean and log-variance. `fresh` hides the block, None leaves it visible.

    Variables outside the block keep their likeliest value, and lose everything else about their logits.
    """
    inside, held = block[..., None], assigned(logits, batch)
    seen = held if fresh is None else torch.where(inside, fresh, held)
    mean, log_variance = denoise(seen, block)
    return torch.where(inside, mean + _gumbel(batch, noise), held), seen, mean, log_variance


def assigned(logits: Tensor, batch: Batch) -> Tensor:
    """Logits of the likeliest value of each variable and of no other, as if it were given, (R, M, K)."""
    return batch.certain(decode(logits, batch))


def _gumbel(batch: Batch, noise: Noise) -> Tensor:
    """-log(-log u), u uniform: the largest of logits + noise is k with the probability softmax(logits)_k."""
    flat = noise.uniform(batch.chains, batch.size, batch.variables * batch.values)
    u = flat.view(batch.chains, batch.size, batch.variables, batch.values).clamp(2.0**-24, 1 - 2.0**-24)
    return batch.lay(-torch.log(-torch.log(u)))
