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
TRIAL_VARIABLES = 256  # of the graph that is tried first, at least: with fewer, fixed costs would count
TRIAL_SHARE = 1 / 16  # of a large instance, which is not in the cache: the trial takes so much of the time of a step
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

    def expected(self, instance: Instance, amount: int | None = None) -> float:
        """`amount` is its work, for callers who know it already. Nothing is expected of an instance that is no larger
        than the trial graph: its first step is as good as a trial. A network of literals has no trial either. Its work
        is linear in literals: a trial on pairs would take longer than a step, and expect a hundred times too much."""
        is_quick = instance.size <= TRIAL_VARIABLES or self.model.denoiser.config.values == "literals"
        if self.seconds_per_work is None and is_quick:
            return 0.0
        if self.seconds_per_work is None:
            self.seconds_per_work = self._try(instance)
        return (work(instance) if amount is None else amount) * self.seconds_per_work

    def learn(self, amount: int, seconds: float) -> None:
        """From a step that was taken, of so much work."""
        self.seconds_per_work = seconds / max(amount, 1)

    @torch.no_grad()
    def _try(self, like: Instance) -> float:
        """Time steps on a random graph, and take the shortest. The first one warms up."""
        size = max(TRIAL_VARIABLES, int(TRIAL_SHARE * like.size))
        number = max(4 * size, int(TRIAL_SHARE * count_pairs(like)))
        values = min(int(like.domain_sizes.max(initial=1)), TRIAL_VALUES)
        pairs = np.random.default_rng(0).integers(0, size, (number, 2))
        dims = self.model.denoiser.config.position_dims
        instance = Instance(
            np.full(size, values),
            (NotEqual(pairs[pairs[:, 0] != pairs[:, 1]]),),
            positions=np.zeros((size, dims), np.int64) if dims else None,
        )
        batch = collate([instance]).to(self.device)
        noise = GeneratorNoise(torch.Generator(self.device).manual_seed(0))
        logits, rate = prior(batch, self.model.chain, noise), torch.full((1, 1, 1), 0.5, device=self.device)
        steps = sample(
            fastest(self.model.denoiser, batch), batch, logits, [rate] * 3, self.model.chain,
            Selector("random", batch), noise,
        )  # fmt: skip
        times = []
        for _ in range(3):
            began = time.perf_counter()
            next(steps)
            times.append(time.perf_counter() - began)
        return min(times[1:]) / work(instance)
