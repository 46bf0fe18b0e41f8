"""How long a step takes on this machine, with this network: measured, never assumed."""

from __future__ import annotations

import math
import time

import numpy as np
import torch

from blogdit.core.arrays import distinct
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
# Variables: the first step of an instance that has no more is as good as a trial. A network of literals takes a time
# that is linear in them and not in pairs, of which a trial graph would have to consist.
UNTRIED = {"axis": 256, "table": 256, "literals": 1024}
TRIAL_VARIABLES = 512  # of the graph that is tried, at least: large graphs take another path than those of up to 256
# Parts of a large instance that are tried one after the other. A large one is not in the cache, so that a small part
# says too little; but once a part says that a step takes too long, a larger one would take long itself.
TRIAL_SHARES = (1 / 4096, 1 / 256, 1 / 16)
SURE = 8  # times: a small part may say so much more than a step takes (a complete graph of 3,000 vertices: 7)
TRIAL_VALUES = 4  # at most: a value costs the same however many there are


def work(instance: Instance) -> int:
    """What the time of a step grows with: pairs and variables, times values."""
    values = int(instance.domain_sizes.max(initial=1))
    return (count_pairs(instance) + PAIRS_PER_VARIABLE * instance.size) * values


def _trial_size(like: Instance, share: float) -> tuple[int, int]:
    """Variables and pairs of a graph that is so much of an instance; at most half of its pairs are related."""
    number = max(4 * TRIAL_VARIABLES, int(share * count_pairs(like)))
    return max(TRIAL_VARIABLES, int(share * like.size), math.isqrt(4 * number)), number


class Pace:
    """Seconds that a step of one chain takes for an instance."""

    def __init__(self, model: Model, device: torch.device):
        self.model, self.device = model, device
        self.seconds_per_work: float | None = None

    def expected(self, instance: Instance, amount: int | None = None, enough: float = math.inf) -> float:
        """`amount` is its work, for callers who know it already. If it is more than `enough`, it may be a lot more.
        Nothing is expected of a small instance: its first step is as good as a trial."""
        if self.seconds_per_work is None and self.is_small(instance):
            return 0.0
        amount = work(instance) if amount is None else amount
        if self.seconds_per_work is None:
            sizes = dict.fromkeys(_trial_size(instance, share) for share in TRIAL_SHARES)  # each once
            for size, number in sizes:
                steps = 3 if self.seconds_per_work is None else 1  # the first ones warm up
                self.seconds_per_work = self._try(instance, size, number, steps)
                if amount * self.seconds_per_work > SURE * enough:
                    break
        assert self.seconds_per_work is not None
        return amount * self.seconds_per_work

    def is_small(self, instance: Instance) -> bool:
        return instance.size <= UNTRIED[self.model.denoiser.config.values]

    def learn(self, amount: int, seconds: float) -> None:
        """From a step that was taken, of so much work."""
        self.seconds_per_work = seconds / max(amount, 1)

    @torch.no_grad()
    def _try(self, like: Instance, size: int, number: int, steps: int) -> float:
        """Time some steps on a random graph, and take the shortest."""
        values = min(int(like.domain_sizes.max(initial=1)), TRIAL_VALUES)
        keys = distinct(np.random.default_rng(0).integers(0, size * size, number))
        pairs = np.stack(np.divmod(keys, size), 1)
        dims = self.model.denoiser.config.position_dims
        instance = Instance(
            np.full(size, values),
            (NotEqual(pairs[pairs[:, 0] != pairs[:, 1]]),),
            positions=np.zeros((size, dims), np.int64) if dims else None,
        )
        batch = collate([instance], related=self.model.denoiser.config.relates).to(self.device)
        noise = GeneratorNoise(torch.Generator(self.device).manual_seed(0))
        logits, rate = prior(batch, self.model.chain, noise), torch.full((1, 1, 1), 0.5, device=self.device)
        transitions = sample(
            fastest(self.model.denoiser, batch), batch, logits, [rate] * steps, self.model.chain,
            Selector("random", batch), noise,
        )  # fmt: skip
        times = []
        for _ in range(steps):
            began = time.perf_counter()
            next(transitions)
            times.append(time.perf_counter() - began)
        return min(times) / work(instance)
