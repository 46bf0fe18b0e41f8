"""Blocked Gibbs sampling without learning: what the trained network replaces.

It has the energy and the rates of blogdit, and random blocks. The variables of a block are resampled from their exact
conditionals, p(x_i = k | all others) ~ exp(-H / tau). Variables are resampled class by class; those of a class share no
constraint, so every update is a true Gibbs step. The rate and tau fall geometrically, once over the budget.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from blogdit.bench.systems.base import Budget, Clock, System, in_parts
from blogdit.bench.systems.conditionals import Conditionals
from blogdit.bench.systems.greedy import repaired
from blogdit.core.constraints import IntArray
from blogdit.core.instance import Instance
from blogdit.core.result import Result
from blogdit.method.batch import Batch, collate
from blogdit.method.blocks import Schedule, Selector
from blogdit.method.energy import discrete_energy, one_hot
from blogdit.method.noise import GeneratorNoise, Noise
from blogdit.method.relations import LARGEST_CLIQUE, relation_list
from blogdit.solver.sampler import keep_best
from blogdit.solver.slots import TOLERANCE

STEPS = 1000  # where no budget is given
CHAINS = 4
HOT, COLD = 1.0, 0.1  # tau at the start and at the end
ENTRIES = {"cpu": 1 << 18, "cuda": 1 << 26}  # values of all variables of all chains on the device at a time


class Gibbs(System):
    name = "gibbs"
    batched = True
    counts = "steps"

    def solve_many(self, instances: Sequence[Instance], budget: Budget, seed: int = 0) -> list[Result]:
        def most(left: Sequence[Instance]) -> int:
            entries = (budget.chains or CHAINS) * left[0].size * int(left[0].domain_sizes.max(initial=1))
            return ENTRIES[torch.device(budget.device).type] // max(entries, 1)

        return in_parts(instances, budget, most, lambda part, share: self._run(part, share, seed))

    @torch.no_grad()
    def _run(self, instances: Sequence[Instance], budget: Budget, seed: int) -> list[Result]:
        clock = Clock(budget.seconds)
        steps = STEPS if budget.steps is None and budget.seconds is None else budget.steps
        members = [
            replace(one, derived=()) if one.derived else one for one in instances
        ]  # it searches for all variables alike
        batch = collate(members, budget.chains or CHAINS, related=False).to(budget.device)
        noise = GeneratorNoise(torch.Generator(budget.device).manual_seed(seed))
        classes = classes_of(members, batch)
        selector, schedule = Selector("random", batch), Schedule()
        values = start(batch, noise)
        best, step = Best(batch), 0
        best.keep(values, step)
        while True:
            shares = [0.0 if not steps else step / steps, clock.share()]
            if max(shares) >= 1 or steps == 0 or bool(best.solved().all()):
                break
            progress = torch.full((batch.chains, batch.size, 1), max(shares), device=batch.device)
            tau = HOT * (COLD / HOT) ** max(shares)
            block = selector.draw(one_hot(values, batch), schedule.rate(progress), noise)
            values = sweep(values, batch, block, classes, tau, noise, clock)
            step += 1
            best.keep(values, step)
        taken = torch.where(best.solved(), best.step, step).tolist()
        return [
            Result(instance, repaired(instance, best.answer(place)[: instance.size]), taken[place], clock.spent, seed)
            for place, instance in enumerate(instances)
        ]


def start(batch: Batch, noise: Noise) -> Tensor:
    """Uniformly random values (R, M) within the domains; givens keep theirs."""
    sizes = batch.domain.sum(-1)  # (M,)
    drawn = batch.lay(noise.uniform(batch.chains, batch.size, batch.variables))
    return torch.where(batch.given, batch.given_value, (drawn * sizes).long().clamp(max=sizes - 1))


def sweep(
    values: Tensor,
    batch: Batch,
    block: Tensor,
    classes: Sequence[Conditionals],
    tau: float,
    noise: Noise,
    clock: Clock = Clock(None),  # noqa: B008, it never ends
) -> Tensor:
    """Resample the block (R, M), class by class, from the exact conditionals at temperature tau. If the time is over
    before that, the other classes keep their values."""
    drawn = batch.lay(noise.uniform(batch.chains, batch.size, batch.variables))
    values = values.clone()
    for each in classes:
        if clock.left <= 0:
            break
        chances = (-each.costs(values) / tau).softmax(-1).cumsum(-1)  # (R, m, K)
        # Divided by the last sum, which is then exactly 1: a value outside the domain is never drawn.
        fresh = (chances / chances[..., -1:] <= drawn[:, each.members, None]).sum(-1)
        values[:, each.members] = torch.where(block[:, each.members], fresh, values[:, each.members])
    return values


def classes_of(instances: Sequence[Instance], batch: Batch) -> list[Conditionals]:
    """The conditionals of a batch in classes of variables that share no constraint."""
    members = instances[:1] if batch.shared else instances
    classes = torch.full((batch.groups, batch.variables), -1)
    for row, instance in zip(classes, members, strict=True):
        row[: instance.size] = torch.from_numpy(independent_classes(instance))
    flat = classes.reshape(-1).to(batch.device)
    return [Conditionals(batch, (flat == number).nonzero()[:, 0]) for number in range(int(classes.max()) + 1)]


def independent_classes(instance: Instance) -> IntArray:
    """A class for each variable, greedily the first that no variable of a shared constraint or term has. Variables
    with most neighbours choose first."""
    source, target, _ = relation_list(instance)  # sorted by target
    near = np.split(source, np.searchsorted(target, np.arange(1, instance.size)))
    inside: dict[int, list[set[int]]] = {}
    for scope, used in ((scope, set[int]()) for scope in _long_scopes(instance)):
        for variable in scope.tolist():
            inside.setdefault(variable, []).append(used)
    classes = np.full(instance.size, -1)
    for variable in sorted(range(instance.size), key=lambda i: -len(near[i])):
        taken = set(classes[near[variable]].tolist()).union(*inside.get(variable, ()))
        classes[variable] = next(number for number in itertools.count() if number not in taken)
        for used in inside.get(variable, ()):
            used.add(int(classes[variable]))
    return classes


def _long_scopes(instance: Instance) -> Iterator[IntArray]:
    """Those of which `relation_list` has not all pairs."""
    for members in (group.members for group in instance.groups):
        yield from (members[int(index)] for index in np.flatnonzero(members.lengths > LARGEST_CLIQUE))


class Best:
    """The best state of all chains of each instance, and the step at which it came."""

    def __init__(self, batch: Batch):
        self.batch = batch
        self.best_energy = torch.full((batch.size,), float("inf"), dtype=torch.float64, device=batch.device)
        self.best_objective = self.best_energy.clone()
        self.best_values = torch.zeros(batch.size, batch.variables, dtype=torch.long, device=batch.device)
        self.best_valid = self.best_values.clone()
        self.step = torch.zeros(batch.size, dtype=torch.long, device=batch.device)

    def keep(self, values: Tensor, step: int) -> None:
        total, cost = (amount.view(self.batch.chains, -1) for amount in discrete_energy(values, self.batch))
        better = keep_best(self, self.batch, values, total, cost, ~self.solved())
        self.step = torch.where(better, step, self.step)

    def solved(self) -> Tensor:
        """Which instances have an answer that cannot be better, (B,): none, if there is an objective."""
        return (self.best_energy <= TOLERANCE) & (not self.batch.optimisation)

    def answer(self, place: int) -> IntArray:
        found = self.best_valid if bool(torch.isfinite(self.best_objective[place])) else self.best_values
        return found[place].cpu().numpy()


SYSTEMS = (Gibbs(),)
