"""How long a step takes on this machine, with this network: measured, never assumed."""

from __future__ import annotations

import time

import numpy as np
import torch

from blogdit.core.constraints import NotEqual
from blogdit.core.instance import Instance
from blogdit.method.batch import collate
from blogdit.method.blocks import Selector
from blogdit.method.chain import prior, sample
from blogdit.method.noise import GeneratorNoise
from blogdit.method.relations import count_pairs
from blogdit.network.checkpoint import Model
from blogdit.network.inference import fastest

PAIRS_PER_VARIABLE = 6  # a variable costs as much time in a step as 6 pairs of related ones (benchmarks/speed.py)
TRIAL_VARIABLES = 256  # of the instance that is tried first: large enough that fixed costs do not count, 20 ms
TRIAL_PAIRS = 4 * TRIAL_VARIABLES
TRIAL_VALUES = 4  # at most: a value costs the same however many there are


def work(instance: Instance) -> int:
    """What the time of a step grows with: pairs and variables, times values."""
    values = int(instance.domain_sizes.max(initial=1))
    return (count_pairs(instance) + PAIRS_PER_VARIABLE * instance.size) * values


class Pace:
    """Seconds that a step of one chain takes for an instance."""

    def __init__(self, model: Model, device: torch.device):
        self.model, self.device = model, device
        self.seconds_per_work: float | None = None

    def expected(self, instance: Instance) -> float:
        if self.seconds_per_work is None:
            self.seconds_per_work = self._try(min(int(instance.domain_sizes.max(initial=1)), TRIAL_VALUES))
        return work(instance) * self.seconds_per_work

    def learn(self, instances: list[Instance], chains: int, seconds: float) -> None:
        """From a step that was taken."""
        self.seconds_per_work = seconds / max(chains * sum(map(work, instances)), 1)

    @torch.no_grad()
    def _try(self, values: int) -> float:
        """Time two steps on a random graph. The first one warms up."""
        rng = np.random.default_rng(0)
        pairs = rng.integers(0, TRIAL_VARIABLES, (TRIAL_PAIRS, 2))
        dims = self.model.denoiser.config.position_dims
        instance = Instance(
            np.full(TRIAL_VARIABLES, values),
            (NotEqual(pairs[pairs[:, 0] != pairs[:, 1]]),),
            positions=np.zeros((TRIAL_VARIABLES, dims), np.int64) if dims else None,
        )
        batch = collate([instance]).to(self.device)
        noise = GeneratorNoise(torch.Generator(self.device).manual_seed(0))
        logits, rate = prior(batch, self.model.chain, noise), torch.full((1, 1, 1), 0.5, device=self.device)
        chain = sample(
            fastest(self.model.denoiser, batch), batch, logits, [rate] * 2, self.model.chain,
            Selector("random", batch), noise,
        )  # fmt: skip
        next(chain)
        began = time.perf_counter()
        next(chain)
        return (time.perf_counter() - began) / work(instance)
