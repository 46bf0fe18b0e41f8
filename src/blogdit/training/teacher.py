"""Expert iteration without labels: the model answers its own training instances, and learns from what it found.

A round runs the package's sampler, with the averaged weights and more steps than validation has, on training instances.
Answers that the exact check accepts go into a store, the best few of each instance. Training goes on with them (see
`method/answers.py`), and a better model gives better answers in the next round. Nothing comes from outside: no label,
no other solver. A local finisher of the package may follow the sampler, as a setting.
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
from blogdit.method.answers import Targets
from blogdit.network.checkpoint import Model, read_tensors, write_tensors
from blogdit.solver.options import SolveOptions
from blogdit.solver.solver import Solver
from blogdit.training.recipe import Recipe

ANSWERS = "answers.safetensors"
ANSWERS_FORMAT, ANSWERS_VERSION = "blogdit-answers", 1


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
        self, model: Model, instances: Sequence[Instance], answers: Answers, number: int, together: int
    ) -> tuple[int, int]:
        """Round `number`, with so many instances on the device: how many were asked, and how many new answers there
        are."""
        config = self.recipe.training
        rng = np.random.default_rng((self.seed, number))
        places = rng.permutation(self.wanted(instances, answers))[: config.teacher_instances].tolist()
        options = SolveOptions(
            steps=config.teacher_steps, chains=config.teacher_chains, finish=config.teacher_finish,
            batch_size=together, seed=int(rng.integers(1 << 31)),
        )  # fmt: skip
        found = dict(Solver(model, options, self.device).results([instances[place] for place in places]))
        order = sorted(found)
        return len(places), answers.add([places[n] for n in order], [found[n] for n in order])


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
