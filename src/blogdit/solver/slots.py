"""Who is on the device: the instances of one batch and the state of their chains.

Instances that are done leave, others of the same shape join. The noise of an instance depends on the seed and on the
instance alone, so its numbers do not depend on its company.
"""

from __future__ import annotations

import math
import time
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from blogdit.core.constraints import IntArray, Scopes
from blogdit.core.instance import Instance
from blogdit.finishers.backtracking import Backtracking, can_backtrack
from blogdit.finishers.improvement import can_improve
from blogdit.finishers.mending import can_mend
from blogdit.finishers.repair import can_repair
from blogdit.finishers.walk import can_walk
from blogdit.method.batch import Batch, collate, padded_size, same_structure
from blogdit.method.blocks import Selector, SelectorName, decode
from blogdit.method.chain import prior
from blogdit.method.noise import StreamNoise
from blogdit.method.relations import count_pairs
from blogdit.network.checkpoint import Model
from blogdit.network.kernels.noise import stream_noise

TOLERANCE = 1e-6  # energies closer than this are equal: sums of real weights depend on the order of addition
TOKEN = 6  # pairs that take a step as long as a variable does


# Padded variables, values, whether every variable has all of them, and whether pairs have weights that differ: what
# decides which kernels run.
Shape = tuple[int, int, bool, bool]


@dataclass
class Job:
    """An instance on its way through the solver."""

    index: int
    instance: Instance
    entered: float = math.inf  # when its time began
    limit: float = math.inf  # seconds that it has from then on
    steps: int = 0  # taken by its batch since
    tried: float = 0.0  # seconds after it had entered, when a search last tried to solve it before its last step
    looked_at: bool = False  # by a tree search, before the first step
    exhausted: bool = False  # a tree search has tried everything: there is no answer, or no better one
    tree: Backtracking | None = None  # a search that goes on at the next try
    filled: IntArray | None = None  # where a repair may begin
    improved: IntArray | None = None  # the best that blocks solved anew have given
    told: IntArray | None = None  # the last answer that somebody who looks at every step has heard of
    answered: bool = False  # it has its result, and keeps its place until others come
    shape: Shape = field(init=False)

    def __post_init__(self) -> None:
        self.shape = shape_of(self.instance)

    @cached_property
    def walks(self) -> bool:
        """Whether a walk can follow its last step."""
        return can_walk(self.instance, self.shape[0])

    @cached_property
    def terms(self) -> int:
        """Pairs of variables, and variables, times values: what the time of a step grows with."""
        return (count_pairs(self.instance) + TOKEN * self.instance.size) * self.shape[1]

    @cached_property
    def repairs(self) -> bool:
        """Whether violated pairs can be repaired after its last step."""
        return can_repair(self.instance)

    @cached_property
    def backtracks(self) -> bool:
        """Whether a tree search for pairs may come before the repair."""
        return self.repairs and can_backtrack(self.instance)

    @cached_property
    def completes(self) -> bool:
        """Whether a tree search, or mending, can follow its last step."""
        return can_mend(self.instance)

    @cached_property
    def improves(self) -> bool:
        """Whether blocks can be solved anew after its last step."""
        return can_improve(self.instance)

    @property
    def has_tree(self) -> bool:
        """Whether a tree search may solve it."""
        return self.backtracks or self.completes

    @property
    def all_or_nothing(self) -> bool:
        """Whether a search either solves it or not."""
        return self.repairs or self.completes

    @property
    def may_end_early(self) -> bool:
        """Whether a search may find that it is done: then it is tried before the last step."""
        return self.all_or_nothing or self.improves

    @property
    def searches(self) -> bool:
        """Whether a search can follow its last step."""
        return self.walks or self.may_end_early


def instance_key(instance: Instance, seed: int) -> int:
    """32 bits from the seed and the content of an instance."""
    key = zlib.crc32(seed.to_bytes(8, "little", signed=True))
    arrays = [instance.domain_sizes, instance.is_given, instance.given_values]
    for group in instance.constraints:
        arrays += [a for a in vars(group).values() if isinstance(a, np.ndarray)]
        arrays += [a for s in vars(group).values() if isinstance(s, Scopes) for a in (s.variables, s.offsets)]
    if instance.objective is not None:
        arrays += [a for a in vars(instance.objective).values() if isinstance(a, np.ndarray)]
    for array in arrays:
        key = zlib.crc32(array.tobytes(), key)
    return key


def shape_of(instance: Instance) -> Shape:
    """A function of the instance alone, so that batching never changes its numbers."""
    sizes = instance.domain_sizes
    values = int(sizes.max(initial=1))
    return max(padded_size(instance), 1), values, bool((sizes == values).all()), _weighted(instance)


def _weighted(instance: Instance) -> bool:
    """Whether differing is worth more for some pairs than for others, or less than nothing."""
    goal = instance.objective
    if goal is None or not len(goal.differ):
        return False
    worth = goal.differ_weights * (1.0 if goal.sense == "maximize" else -1.0)
    pairs = np.sort(goal.differ, 1) @ [instance.size, 1]
    return bool(worth.min() != worth.max() or worth.min() <= 0 or len(np.unique(pairs)) < len(pairs))


@dataclass
class Crew:
    """Tensors lead with (chains, B) or, what belongs to an instance and not to a chain, with (B,)."""

    jobs: list[Job]
    batch: Batch
    noise: StreamNoise
    logits: Tensor  # (R, M, K)
    since_reheat: Tensor  # (chains, B) steps since a chain's schedule began
    since_gain: Tensor  # (chains, B) steps since its energy last fell
    chain_best: Tensor  # (chains, B) its lowest energy since the reheat
    best_energy: Tensor  # (B,) lowest energy so far
    best_values: Tensor  # (B, N) where that was
    best_objective: Tensor  # (B,) lowest objective among valid assignments, minimisation form; inf if none
    best_valid: Tensor  # (B, N)
    goal: Tensor  # (B,) an objective that is good enough, minimisation form; -inf if none is
    steps: Tensor  # (B,) taken until the goal was reached, or so far
    selector: Selector = field(init=False)

    OF_CHAINS = ("since_reheat", "since_gain", "chain_best")
    OF_INSTANCES = ("best_energy", "best_values", "best_objective", "best_valid", "goal", "steps")

    @classmethod
    def enter(
        cls, jobs: list[Job], model: Model, chains: int, seed: int, device: torch.device, goals: Sequence[float] = ()
    ) -> Crew:
        """Fresh chains for instances of one shape; `goals` are objectives to stop at, in minimisation form."""
        now = time.monotonic()
        for job in jobs:
            job.entered, job.steps, job.answered = (
                min(job.entered, now),
                0,
                False,
            )  # who starts again keeps the time that is left
        batch = collate([job.instance for job in jobs], chains, *jobs[0].shape[:2]).to(device)
        noise = stream_noise(torch.tensor([instance_key(job.instance, seed) for job in jobs], device=device))
        logits = prior(batch, model.chain, noise)
        zeros = torch.zeros(chains, len(jobs), dtype=torch.long, device=device)
        worst = torch.full((len(jobs),), math.inf, dtype=torch.float64, device=device)
        values = batch.per_instance(decode(logits, batch))[0]
        chain_worst = worst.expand(chains, -1).clone()
        goal = torch.tensor(goals, dtype=torch.float64, device=device) if goals else -worst
        best = (worst, values, worst.clone(), values.clone())
        return cls(jobs, batch, noise, logits, zeros, zeros.clone(), chain_worst, *best, goal, zeros[0].clone())

    def prepare(self, block: SelectorName) -> Crew:
        """Compute what depends on who is in the batch."""
        self.selector = Selector(block, self.batch)
        return self

    @property
    def reached(self) -> Tensor:
        """Which instances have an answer that is good enough, (B,)."""
        has_objective = self.batch.structure.has_objective.expand(self.batch.size)
        return torch.where(has_objective, self.best_objective <= self.goal, self.best_energy <= TOLERANCE)

    def state(self) -> list[Tensor]:
        """All that a step changes."""
        return [self.logits, self.noise.draws, *(getattr(self, name) for name in self.OF_CHAINS + self.OF_INSTANCES)]

    def set_state(self, state: Sequence[Tensor]) -> None:
        self.logits, self.noise.draws, *rest = state
        for name, tensor in zip(self.OF_CHAINS + self.OF_INSTANCES, rest, strict=True):
            setattr(self, name, tensor)

    def join(self, new: Crew) -> Crew:
        """Two crews of one shape as one."""
        jobs, old = self.jobs + new.jobs, self
        if old.batch.shared and new.batch.shared and same_structure([old.jobs[0].instance, new.jobs[0].instance]):
            is_given = torch.cat([old.batch.is_given, new.batch.is_given])
            given_values = torch.cat([old.batch.given_values, new.batch.given_values])
            batch = replace(old.batch, is_given=is_given, given_values=given_values)
        else:
            batch = collate([job.instance for job in jobs], old.batch.chains, *jobs[0].shape[:2]).to(old.batch.device)
        logits = torch.cat([crew.batch.per_instance(crew.logits) for crew in (old, new)], 1)
        noise = old.noise.join(new.noise)
        of_chains = (torch.cat([getattr(old, name), getattr(new, name)], 1) for name in self.OF_CHAINS)
        of_instances = (torch.cat([getattr(old, name), getattr(new, name)]) for name in self.OF_INSTANCES)
        return Crew(jobs, batch, noise, batch.lay(logits), *of_chains, *of_instances)

    def keep(self, places: Sequence[int]) -> Crew:
        """The crew of the instances at `places`."""
        index = torch.tensor(places, device=self.batch.device)
        batch = self.batch.take(index)
        logits = batch.lay(self.batch.per_instance(self.logits)[:, index])
        of_chains = (getattr(self, name)[:, index] for name in self.OF_CHAINS)
        of_instances = (getattr(self, name)[index] for name in self.OF_INSTANCES)
        jobs = [self.jobs[place] for place in places]
        return Crew(jobs, batch, self.noise.take(index), logits, *of_chains, *of_instances)
