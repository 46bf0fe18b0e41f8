"""Direct updates of assignments, the ablation: what they sample, see and keep."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from blogdit.core.instance import Instance
from blogdit.method.batch import GIVEN_LOGIT, collate
from blogdit.method.blocks import decode
from blogdit.method.chain import ChainConfig, reverse_step
from blogdit.method.loss import path_loss
from helpers import noise


def test_gumbel_steps_sample_the_softmax_of_the_means():
    """The likeliest value after a step is k as often as softmax(mean)_k says; variance and loss terms play no role."""
    batch = collate([Instance(np.array([3, 3]))], chains=20_000)
    mean = torch.tensor([1.0, 0.0, -1.0]).expand(batch.rows, 2, 3)
    config, block = ChainConfig(kernel="gumbel"), torch.ones(batch.rows, 2, dtype=torch.bool)

    def network(logits, block):
        return mean, torch.full_like(mean, 5.0)

    step = reverse_step(network, batch, torch.zeros_like(mean), block, config, noise(0))
    shares = torch.bincount(decode(step.logits, batch).flatten(), minlength=3) / (2 * batch.rows)
    torch.testing.assert_close(shares, mean[0, 0].softmax(-1), atol=0.01, rtol=0)
    found = path_loss([step], batch, config, tau=1.0)
    assert found.entropy == found.noise_matching == 0
    assert found.loss == found.energy


def test_direct_updates_see_and_keep_assignments():
    """Whatever the logits are: the network sees the likeliest value of each variable alone, also in the block, and what
    is outside the block stays exactly that."""
    batch = collate([Instance(np.array([2, 3, 3]))])
    logits = torch.tensor([[[0.2, 0.1, 9.0], [-3.0, -4.0, -2.9], [1.0, 0.0, 0.0]]])  # the first has no third value
    hard = torch.tensor([[[1.0, -1.0, -1.0], [-1.0, -1.0, 1.0], [1.0, -1.0, -1.0]]]) * GIVEN_LOGIT
    seen = []

    def network(logits, block):
        seen.append(logits)
        return torch.zeros_like(logits), torch.zeros_like(logits)

    config = ChainConfig(kernel="gumbel", hide_block=False)
    step = reverse_step(network, batch, logits, torch.tensor([[False, True, False]]), config, noise(0))
    torch.testing.assert_close(seen[0], hard)
    torch.testing.assert_close(step.logits[:, [0, 2]], hard[:, [0, 2]])


def test_the_kernel_is_checked():
    with pytest.raises(ValueError, match="kernel must be gaussian or gumbel, got 'x'"):
        ChainConfig(kernel="x")
