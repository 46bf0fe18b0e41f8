"""Expert iteration without labels: the model answers its own training instances, and learns from what it found.

A round runs the package's sampler, with the averaged weights and more steps than validation has, on training instances
as they lie on the device. Answers that the exact check accepts go into a store, the best few of each instance. Training
goes on with them (see `method/answers.py`), and a better model gives better answers in the next round. Nothing comes
from outside: no label, no other solver. A local finisher of the package may follow the sampler, as a setting.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from blogdit.core.constraints import IntArray
from blogdit.core.instance import Instance
from blogdit.core.result import VALID, Result
from blogdit.finishers import make
from blogdit.finishers.base import Deadline, Task
from blogdit.method.answers import Targets
from blogdit.method.batch import Batch
from blogdit.method.blocks import Selector, decode
from blogdit.method.chain import ChainConfig, prior, sample
from blogdit.method.energy import discrete_energy
from blogdit.method.noise import GeneratorNoise, Noise
from blogdit.network.checkpoint import Model, read_tensors, write_tensors
from blogdit.network.denoiser import Denoiser
from blogdit.network.inference import fastest, inference_copy
from blogdit.training.recipe import Recipe

ANSWERS = "answers.safetensors"
ANSWERS_FORMAT, ANSWERS_VERSION = "blogdit-answers", 1
FIRST_STRETCH = 8  # steps before solved instances leave for the first time; then twice as many, and so on
BROKEN = 1e12  # added to the energy of a state that breaks a rule: any valid one is better


class Answers:
    """The best verified answers of instances, up to A for each; all of them different."""

    def __init__(self, instances: Sequence[Instance], kept: int, device: torch.device):
        variables = max(instance.size for instance in instances)
        self.values = torch.zeros(len(instances), kept, variables, dtype=torch.int32, device=device)
        self.costs = torch.full((len(instances), kept), math.inf, device=device)  # smaller is better; no answer: inf

    def take(self, index: Tensor) -> Targets:
        return Targets(self.values[index].long(), self.costs[index] < math.inf)

    @property
    def answered(self) -> Tensor:
        return self.costs[:, 0] < math.inf

    def add(self, places: Sequence[int], results: Sequence[Result]) -> int:
        """Keep what is new and good enough; how many were. An answer as good as the worst one replaces it, so that
        answers stay fresh."""
        if not places:
            return 0
        values, costs = self.values[places].cpu().numpy(), self.costs[places].cpu().numpy()
        added = 0
        for rows, row_costs, result in zip(values, costs, results, strict=True):
            cost = cost_of(result)
            size = result.instance.size
            known = (rows[:, :size] == result.values).all(1) & np.isfinite(row_costs)
            if cost > row_costs[-1] or known.any() or not math.isfinite(cost):
                continue
            rows[-1, :size], row_costs[-1] = result.values, cost
            order = np.argsort(row_costs, kind="stable")
            rows[:], row_costs[:] = rows[order], row_costs[order]
            added += 1
        # In place: a recorded update reads these very tensors.
        at = torch.as_tensor(places, device=self.values.device)
        self.values[at] = torch.from_numpy(values).to(self.values.device)
        self.costs[at] = torch.from_numpy(costs).to(self.costs.device)
        return added


def cost_of(result: Result) -> float:
    """What is smaller for a better answer; infinite for none."""
    if result.status not in VALID:
        return math.inf
    goal = result.instance.objective
    if goal is None or result.objective is None:
        return 0.0
    return goal.sign * result.objective


@dataclass
class Teacher:
    """Asks the model for answers in rounds."""

    recipe: Recipe
    seed: int
    device: torch.device

    def due(self, last_end: float | None, spent: float) -> bool:
        """Whether it is time for a round. Shares of the budget: when the last round ended, if there was one, and what
        is spent now. A round that takes long puts off the next, so that training keeps its share."""
        config = self.recipe.training
        first = config.teacher_start if last_end is None else last_end + config.teacher_every
        return config.own_answers > 0 and not config.improve and spent >= first

    def wanted(self, instances: Sequence[Instance], answers: Answers) -> IntArray:
        """Those whose answers could still teach something, as places in `instances`."""
        if self.recipe.training.answers_kept == 1 and all(one.objective is None for one in instances):
            return np.flatnonzero(~answers.answered.cpu().numpy())  # one answer is as good as another
        return np.arange(len(instances))

    def ask(
        self, model: Model, pool: Batch, instances: Sequence[Instance], answers: Answers, number: int, together: int
    ) -> tuple[int, int]:
        """Round `number` on a pool of instances, with so many at a time: how many were asked, and how many new answers
        there are."""
        config = self.recipe.training
        rng = np.random.default_rng((self.seed, number))
        places = rng.permutation(self.wanted(instances, answers))[: config.teacher_instances].tolist()
        noise = GeneratorNoise(torch.Generator(self.device).manual_seed(int(rng.integers(1 << 31))))
        was_training = model.denoiser.training
        denoiser, new = inference_copy(model.denoiser, self.device), 0
        for start in range(0, len(places), together):
            some = places[start : start + together]
            batch = pool.take(torch.tensor(some, device=self.device)).with_chains(config.teacher_chains)
            values = best_states(denoiser, batch, model.chain, config.teacher_steps, noise).cpu().numpy()
            results = [
                Result(one, row[: one.size]) for one, row in zip((instances[p] for p in some), values, strict=True)
            ]
            new += answers.add(some, self._finished(results, int(rng.integers(1 << 31))))
        model.denoiser.train(was_training)
        return len(places), new

    def _finished(self, results: list[Result], seed: int) -> list[Result]:
        """What a local finisher makes of them, where that is better; without a deadline its work is fixed."""
        name = self.recipe.training.teacher_finish
        if name == "none":
            return results
        finisher = make(self.device, torch.get_num_threads())[name]
        finisher.prepare()
        open_ = [place for place, one in enumerate(results) if finisher.supports(one.instance)]
        tasks = [Task(results[place].instance, results[place].values[None]) for place in open_]
        for place, outcome in zip(open_, finisher.finish(tasks, Deadline(), seed), strict=True):
            if outcome.values is not None:
                found = Result(results[place].instance, outcome.values)
                results[place] = min(results[place], found, key=cost_of)
        return results


@torch.no_grad()
def best_states(denoiser: Denoiser, batch: Batch, chain: ChainConfig, steps: int, noise: Noise) -> Tensor:
    """The best state of each instance, (B, N), over all its chains and steps. Those that are solved leave early."""
    best = torch.full((batch.size,), math.inf, dtype=torch.float64, device=batch.device)
    values = torch.zeros(batch.size, batch.variables, dtype=torch.int64, device=batch.device)
    inside = torch.arange(batch.size, device=batch.device)  # the instances that `batch` still holds
    logits, taken, stretch = prior(batch, chain, noise), 0, FIRST_STRETCH
    while taken < steps and len(inside):
        count = min(stretch, steps - taken)
        shape = (batch.chains, batch.size, 1)
        progress = (torch.full(shape, (taken + step) / steps, device=batch.device) for step in range(count))
        rates, selector = map(chain.schedule.rate, progress), Selector("random", batch)
        for transition in sample(fastest(denoiser, batch), batch, logits, rates, chain, selector, noise):
            logits = transition.logits
            states = decode(logits, batch)
            total, cost = (part.view(batch.chains, batch.size) for part in discrete_energy(states, batch))
            lowest, chosen = (total + BROKEN * (total > cost)).min(0)
            better = lowest < best[inside]
            picked = batch.per_instance(states).gather(0, chosen[None, :, None].expand(1, -1, batch.variables))[0]
            best[inside] = torch.where(better, lowest, best[inside])
            values[inside] = torch.where(better[:, None], picked, values[inside])
        taken, stretch = taken + count, 2 * stretch
        left = (best[inside] > 0).nonzero().flatten()
        if not batch.optimisation and len(left) < len(inside):
            kept = batch.per_instance(logits)[:, left]
            batch, inside = batch.take(left), inside[left]
            logits = batch.lay(kept)
    return values


def save_answers(out: Path, shelves: Sequence[Answers]) -> None:
    tensors: dict[str, Tensor] = {}
    for number, answers in enumerate(shelves):
        tensors |= {f"{number}.values": answers.values.short(), f"{number}.costs": answers.costs}
    write_tensors(out / ANSWERS, tensors, {"format": ANSWERS_FORMAT, "version": ANSWERS_VERSION})


def load_answers(out: Path, shelves: Sequence[Answers]) -> None:
    tensors, _ = read_tensors(out / ANSWERS, ANSWERS_FORMAT, ANSWERS_VERSION)
    for number, answers in enumerate(shelves):
        answers.values.copy_(tensors[f"{number}.values"])
        answers.costs.copy_(tensors[f"{number}.costs"])
