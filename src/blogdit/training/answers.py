"""The store of own answers: the best few of each training instance, on the device and on disk."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from blogdit.core.instance import Instance
from blogdit.core.result import VALID, Result
from blogdit.method.answers import Targets
from blogdit.network.checkpoint import read_tensors, write_tensors

ANSWERS = "answers.safetensors"
ANSWERS_FORMAT, ANSWERS_VERSION = "blogdit-answers", 1


class Answers:
    """The best verified answers of instances, up to A for each; all of them different."""

    def __init__(self, instances: Sequence[Instance], kept: int, device: torch.device):
        variables = max(instance.size for instance in instances)
        self.values = torch.zeros(len(instances), kept, variables, dtype=torch.int32, device=device)
        # Smaller is better; no answer: infinite.
        self.costs = torch.full((len(instances), kept), math.inf, dtype=torch.float64, device=device)

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


def save_answers(out: Path, shelves: Sequence[Answers]) -> None:
    tensors: dict[str, Tensor] = {}
    for number, answers in enumerate(shelves):
        tensors |= {f"{number}.values": answers.values, f"{number}.costs": answers.costs}
    write_tensors(out / ANSWERS, tensors, {"format": ANSWERS_FORMAT, "version": ANSWERS_VERSION})


def load_answers(out: Path, shelves: Sequence[Answers]) -> None:
    tensors, _ = read_tensors(out / ANSWERS, ANSWERS_FORMAT, ANSWERS_VERSION)
    for number, answers in enumerate(shelves):
        answers.values.copy_(tensors[f"{number}.values"])
        answers.costs.copy_(tensors[f"{number}.costs"])
