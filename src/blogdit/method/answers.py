"""Learning from answers: the block is pulled towards an answer of the instance that agrees with what is visible.

Where a problem has many answers, one that contradicts the rest of the state teaches nothing: the network cannot know
which answer is meant. So of several answers the one nearest to the visible state is the target, and where values are
interchangeable (colours, the two sides of a cut), it is first renamed to agree with it best.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from blogdit.method.batch import Batch


class Targets(NamedTuple):
    """Answers of the instances of a batch, up to A for each."""

    values: Tensor  # (B, A, N)
    known: Tensor  # (B, A)

    @property
    def any(self) -> Tensor:
        """(B,) instances that have an answer."""
        return self.known.any(1)


def nearest(targets: Targets, values: Tensor, visible: Tensor, batch: Batch, rename: bool) -> Tensor:
    """The answer (chains, B, N) of each instance that agrees best with the values (chains, B, N) where visible."""
    answers = targets.values.expand(batch.chains, -1, -1, -1)  # (chains, B, A, N)
    seen, here = visible[:, :, None, :], values[:, :, None, :]
    if rename:
        answers = _renamed(answers, here, seen, batch.values)
    agreement = ((answers == here) & seen).sum(-1).masked_fill(~targets.known, -1)  # (chains, B, A)
    best = agreement.argmax(-1)[..., None, None].expand(-1, -1, 1, batch.variables)
    return answers.gather(2, best).squeeze(2)


def _renamed(answers: Tensor, values: Tensor, seen: Tensor, count: int) -> Tensor:
    """The answers (chains, B, A, N) with their values renamed: again and again the pair of an old and a new name that
    agrees most often is fixed. That is greedy, but a device can do it for all chains together."""
    shape = answers.shape[:3]
    pairs = answers * count + values  # (chains, B, A, N) old name, new name
    table = torch.zeros(*shape, count * count, device=answers.device)
    table.scatter_add_(-1, pairs, seen.expand_as(pairs).float())
    table = table.view(*shape, count, count)
    names = torch.zeros(*shape, count, dtype=torch.long, device=answers.device)
    for _ in range(count):
        most = table.flatten(-2).argmax(-1, keepdim=True)
        old, new = most // count, most % count
        names.scatter_(-1, old, new)
        table.scatter_(-2, old[..., None].expand(*shape, 1, count), -1.0)
        table.scatter_(-1, new[..., None, :].expand(*shape, count, 1), -1.0)
    return names.gather(-1, answers)


def surprise(logits: Tensor, answers: Tensor, block: Tensor, batch: Batch) -> Tensor:
    """-log of the probability that logits (R, M, K) give to the answers (R, M), summed over the block, (R, G)."""
    chances = batch.allowed(logits).log_softmax(-1)
    missed = -chances.gather(-1, answers[..., None]).squeeze(-1)
    return torch.where(block & batch.free, missed, 0.0).view(batch.rows, batch.groups, -1).sum(-1)
