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

import numpy as np
import torch
from torch import Tensor, distributed

from blogdit.core.constraints import IntArray
from blogdit.core.instance import Instance
from blogdit.core.result import Result
from blogdit.finishers import make
from blogdit.finishers.base import Deadline, Task
from blogdit.method.batch import Batch
from blogdit.method.blocks import Selector, decode
from blogdit.method.chain import ChainConfig, prior, sample
from blogdit.method.energy import discrete_energy
from blogdit.method.noise import GeneratorNoise, Noise
from blogdit.network.checkpoint import Model
from blogdit.network.denoiser import Denoiser
from blogdit.network.inference import fastest, inference_copy
from blogdit.training.answers import Answers, cost_of
from blogdit.training.recipe import Recipe
from blogdit.training.shelf import Shelf

WITHOUT_GRADIENT = 4  # chains that take the memory of one whose steps keep what a gradient needs
FIRST_STRETCH = 8  # steps before solved instances leave for the first time; then twice as many, and so on


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

    def round(self, model: Model, shelves: Sequence[Shelf], number: int, is_first: bool) -> dict[str, float]:
        """Round `number`. In several processes the first one asks for all. Nothing changes before all have answered: a
        round that is stopped did not happen."""
        taught = [(shelf, shelf.answers) for shelf in shelves if shelf.answers is not None]
        found = [self.ask(model, shelf, answers, number) for shelf, answers in taught] if is_first else []
        new = sum(answers.add(*some) for (_, answers), some in zip(taught, found, strict=False))
        if distributed.is_initialized():
            for _, answers in taught:
                distributed.broadcast(answers.values, 0)
                distributed.broadcast(answers.costs, 0)
        answered = sum(int(answers.answered.sum()) for _, answers in taught)
        asked = sum(len(places) for places, _ in found)
        return {"teacher_asked": asked, "teacher_new": new, "teacher_answered": answered}

    def ask(self, model: Model, shelf: Shelf, answers: Answers, number: int) -> tuple[list[int], list[Result]]:
        """Some instances of a shelf, as places, and the best of each that the sampler found."""
        config = self.recipe.training
        rng = np.random.default_rng((self.seed, number))
        places = rng.permutation(self.wanted(shelf.instances, answers))[: config.teacher_instances].tolist()
        noise = GeneratorNoise(torch.Generator(self.device).manual_seed(int(rng.integers(1 << 31))))
        was_training = model.denoiser.training
        denoiser, results = inference_copy(model.denoiser, self.device), []
        together = max(shelf.batch_size * WITHOUT_GRADIENT // (config.teacher_chains * config.accumulate), 1)
        for start in range(0, len(places), together):
            some = places[start : start + together]
            batch = shelf.take(torch.tensor(some, device=self.device)).with_chains(config.teacher_chains)
            values = best_states(denoiser, batch, model.chain, config.teacher_steps, noise).cpu().numpy()
            asked = [shelf.instances[place] for place in some]
            found = [Result(one, row[: one.size]) for one, row in zip(asked, values, strict=True)]
            results += self._finished(found, int(rng.integers(1 << 31)))
        model.denoiser.train(was_training)
        return places, results

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
    broken = torch.ones_like(best, dtype=torch.bool)  # it has no valid state yet
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
            breaks = total > cost  # (chains, B)
            lowest, chosen = torch.where(breaks & ~breaks.all(0), math.inf, total).min(0)
            invalid, was_invalid = breaks.all(0), broken[inside]
            better = (was_invalid & ~invalid) | ((was_invalid == invalid) & (lowest < best[inside]))
            broken[inside] = was_invalid & invalid
            picked = batch.per_instance(states).gather(0, chosen[None, :, None].expand(1, -1, batch.variables))[0]
            best[inside] = torch.where(better, lowest, best[inside])
            values[inside] = torch.where(better[:, None], picked, values[inside])
        taken, stretch = taken + count, 2 * stretch
        left = (broken[inside] | (best[inside] > 0)).nonzero().flatten()
        if not len(left):
            break
        if not batch.optimisation and len(left) < len(inside):
            kept = batch.per_instance(logits)[:, left]
            batch, inside = batch.take(left), inside[left]
            logits = batch.lay(kept)
    return values
