"""The slots of one batch on the device: its instances, and the state of their chains.

Instances that are done leave, others of the same shape join. The noise of an instance depends on the seed and on the
instance alone, so its numbers do not depend on its company.
"""

from __future__ import annotations

import math
import sys
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from blogdit.core.constraints import IntArray, Scopes
from blogdit.core.instance import Instance
from blogdit.core.result import Proof
from blogdit.method.batch import Batch, collate, padded_size, same_structure
from blogdit.method.blocks import decode
from blogdit.method.chain import prior
from blogdit.method.noise import StreamNoise
from blogdit.network.checkpoint import Model
from blogdit.network.kernels.noise import stream_noise
from blogdit.solver.budget import Budget
from blogdit.solver.options import SolveOptions
from blogdit.solver.pace import work

TOLERANCE = 1e-6  # energies closer than this are equal: sums of real weights depend on the order of addition

# Padded variables, values, whether every variable has all of them, and whether pairs have weights that differ: what
# decides which kernels run.
Shape = tuple[int, int, bool, bool]


@dataclass(eq=False)
class Slot:
    """An instance on its way through the solver. Each is equal to itself alone."""

    index: int
    instance: Instance
    budget: Budget = field(default_factory=Budget)
    steps: int = 0  # taken by its batch since it entered
    finishes: int = 0  # turns that finishers have had; a turn that a slow step has used up is none
    found: IntArray | None = None  # the best that finishers have found
    found_by: str = ""
    proof: Proof | None = None
    proved_by: str | None = None
    told: IntArray | None = None  # the last answer that a listener to every step has heard of
    answered: bool = False  # it has its result, and keeps its slot until others come
    shape: Shape = field(init=False)

    def __post_init__(self) -> None:
        self.shape = shape_of(self.instance)

    @cached_property
    def work(self) -> int:
        """What the time of a step of one chain grows with."""
        return work(self.instance)


def target_of(instance: Instance, options: SolveOptions) -> float | None:
    """The objective with which an instance may leave, in the sense of the problem; None if none is good enough."""
    if instance.objective is None or not options.first_feasible:
        return None if instance.objective is None else options.target
    return sys.float_info.max if instance.objective.sense == "minimize" else -sys.float_info.max


def goal_of(instance: Instance, options: SolveOptions) -> float:
    """The same in minimisation form; -inf if none is good enough."""
    target = target_of(instance, options)
    if instance.objective is None or target is None:
        return -math.inf
    return (target if instance.objective.sense == "minimize" else -target) + TOLERANCE


def without_rules(instance: Instance) -> Instance:
    """Its variables alone. The tensors of a dense graph take longer than the time of one that is not sampled."""
    return replace(instance, constraints=(), objective=None, derived=())


def instance_key(instance: Instance, seed: int) -> int:
    """32 bits from the seed and the content of an instance."""
    key = zlib.crc32(seed.to_bytes(8, "little", signed=True))
    arrays: list[npt.NDArray[Any]] = [instance.domain_sizes, instance.is_given, instance.given_values]
    for group in instance.groups:
        arrays += [a for a in vars(group).values() if isinstance(a, np.ndarray)]
        arrays += [a for s in vars(group).values() if isinstance(s, Scopes) for a in (s.variables, s.offsets)]
    if instance.objective is not None:
        arrays += [a for a in vars(instance.objective).values() if isinstance(a, np.ndarray)]
        arrays += [weights for _, weights in instance.objective.soft]
    if instance.values is not None:
        arrays.append(instance.domains.codes)
    for array in arrays:
        key = zlib.crc32(np.ascontiguousarray(array).data, key)
    return key


def shape_of(instance: Instance) -> Shape:
    """A function of the instance alone, so that batching never changes its numbers. Where domains differ, values are
    padded anyway: there shapes are few, so that problems of all sorts share a batch."""
    sizes = instance.domain_sizes
    size, values = max(padded_size(instance), 1), int(sizes.max(initial=1))
    if (sizes == values).all():
        return size, values, True, _weighted(instance)
    return size if instance.positions is not None else _round_up(size), _round_up(values), False, _weighted(instance)


def _round_up(number: int) -> int:
    """The next of 1, 2, 3, 4, 6, 8, 12, 16, 24, ..."""
    power = 1 << (number - 1).bit_length()
    return power * 3 // 4 if number <= power * 3 // 4 else power


def _weighted(instance: Instance) -> bool:
    """Whether differing is worth more for some pairs than for others, or less than nothing."""
    goal = instance.objective
    if goal is None or not len(goal.differ):
        return False
    worth = goal.differ_weights * (1.0 if goal.sense == "maximize" else -1.0)
    if worth.min() != worth.max() or worth.min() <= 0:
        return True
    first, second = goal.differ.T
    pairs = np.minimum(first, second) * instance.size + np.maximum(first, second)
    return not (np.diff(pairs) > 0).all() and len(np.unique(pairs)) < len(pairs)  # most graphs list theirs in order


@dataclass
class Slots:
    """Tensors lead with (chains, B) or, what belongs to an instance and not to a chain, with (B,)."""

    members: list[Slot]
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
    # What the host has fetched since the last step.
    seen: dict[str, npt.NDArray[Any]] = field(default_factory=dict, init=False)

    OF_CHAINS = ("since_reheat", "since_gain", "chain_best")
    OF_INSTANCES = ("best_energy", "best_values", "best_objective", "best_valid", "goal", "steps")

    @classmethod
    @torch.no_grad()
    def enter(
        cls, members: list[Slot], model: Model, chains: int, seed: int, device: torch.device, goals: Sequence[float]
    ) -> Slots:
        """Fresh chains for instances of one shape; `goals` are objectives to stop at, in minimisation form."""
        for slot in members:  # a slot that starts again keeps the seconds that it has spent
            slot.steps, slot.answered = 0, False
        instances = [slot.instance for slot in members]
        seen = instances if members[0].budget.samples else [without_rules(one) for one in instances]
        related = model.denoiser.config.relates
        batch = collate(seen, chains, *members[0].shape[:2], related=related).to(device)
        noise = stream_noise(torch.tensor([instance_key(one, seed) for one in seen], device=device))
        logits = prior(batch, model.chain, noise)
        zeros = torch.zeros(chains, len(members), dtype=torch.long, device=device)
        worst = torch.full((len(members),), math.inf, dtype=torch.float64, device=device)
        values = batch.per_instance(decode(logits, batch))[0]
        chain_worst = worst.expand(chains, -1).clone()
        goal = torch.tensor(goals, dtype=torch.float64, device=device)
        best = (worst, values, worst.clone(), values.clone())
        return cls(members, batch, noise, logits, zeros, zeros.clone(), chain_worst, *best, goal, zeros[0].clone())

    @property
    def shape(self) -> Shape:
        return self.members[0].shape

    @property
    def open_places(self) -> list[int]:
        """The places of instances that have no result yet."""
        return [place for place, slot in enumerate(self.members) if not slot.answered]

    @property
    def open(self) -> list[Slot]:
        return [self.members[place] for place in self.open_places]

    @property
    def reached(self) -> Tensor:
        """Which instances have an answer of the sampler that is good enough, (B,)."""
        has_objective = self.batch.structure.has_objective.expand(self.batch.size)
        return torch.where(has_objective, self.best_objective <= self.goal, self.best_energy <= TOLERANCE)

    def state(self) -> list[Tensor]:
        """All that a step changes."""
        return [self.logits, self.noise.draws, *(getattr(self, name) for name in self.OF_CHAINS + self.OF_INSTANCES)]

    def set_state(self, state: Sequence[Tensor]) -> None:
        self.logits, self.noise.draws, *rest = state
        for name, tensor in zip(self.OF_CHAINS + self.OF_INSTANCES, rest, strict=True):
            setattr(self, name, tensor)

    def join(self, new: Slots) -> Slots:
        """The slots of two batches of one shape as one."""
        members, old = self.members + new.members, self
        if old.batch.shared and new.batch.shared and same_structure([old.members[0].instance, new.members[0].instance]):
            is_given = torch.cat([old.batch.is_given, new.batch.is_given])
            given_values = torch.cat([old.batch.given_values, new.batch.given_values])
            batch = replace(old.batch, is_given=is_given, given_values=given_values, literals=None)
        else:
            instances = [slot.instance for slot in members]
            related = old.batch.structure.relations is not None
            batch = collate(instances, old.batch.chains, *members[0].shape[:2], related=related).to(old.batch.device)
        logits = torch.cat([slots.batch.per_instance(slots.logits) for slots in (old, new)], 1)
        noise = stream_noise(torch.cat([old.noise.keys, new.noise.keys]), torch.cat([old.noise.draws, new.noise.draws]))
        of_chains = (torch.cat([getattr(old, name), getattr(new, name)], 1) for name in self.OF_CHAINS)
        of_instances = (torch.cat([getattr(old, name), getattr(new, name)]) for name in self.OF_INSTANCES)
        return Slots(members, batch, noise, batch.lay(logits), *of_chains, *of_instances)

    def keep(self, places: Sequence[int]) -> Slots:
        """The slots at `places`."""
        index = torch.tensor(places, device=self.batch.device)
        batch = self.batch.take(index)
        logits = batch.lay(self.batch.per_instance(self.logits)[:, index])
        of_chains = (getattr(self, name)[:, index] for name in self.OF_CHAINS)
        of_instances = (getattr(self, name)[index] for name in self.OF_INSTANCES)
        members = [self.members[place] for place in places]
        return Slots(members, batch, self.noise.take(index), logits, *of_chains, *of_instances)

    def best(self, place: int) -> tuple[IntArray, IntArray]:
        """What the sampler has: of the lowest energy, and valid with the best objective."""
        size = self.members[place].instance.size
        return self._fetched("best_values")[place, :size], self._fetched("best_valid")[place, :size]

    def steps_of(self, place: int) -> int:
        return int(self._fetched("steps")[place])

    def _fetched(self, name: str) -> npt.NDArray[Any]:
        """A tensor on the host, for all instances at once: to wait for each of them would take longer."""
        if name not in self.seen:
            self.seen[name] = getattr(self, name).cpu().numpy()
        return self.seen[name]

    def chain_values(self, places: Sequence[int]) -> list[IntArray]:
        """Where the chains of instances are, (chains, n) each."""
        values = self.batch.per_instance(decode(self.logits, self.batch))[:, list(places)].cpu().numpy()
        return [values[:, i, : self.members[place].instance.size] for i, place in enumerate(places)]
