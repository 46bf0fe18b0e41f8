"""After the sampler: the finisher that follows, and the answer, checked."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
import torch

from blogdit.core.constraints import IntArray
from blogdit.core.instance import Instance
from blogdit.core.result import Result, Sampled
from blogdit.finishers import choose, make
from blogdit.finishers.base import Deadline, Finisher, Task
from blogdit.finishers.tasks import cost
from blogdit.solver.options import SolveOptions
from blogdit.solver.slots import Slot, Slots, goal_of

SAMPLER = "sampler"


class Finishing:
    """Calls finishers for slots and builds results. It remembers what finishers found in the slots themselves."""

    def __init__(self, options: SolveOptions, model: str, device: torch.device):
        self.options, self.model = options, model
        self.finishers = make(device, torch.get_num_threads())

    def of(self, instance: Instance) -> tuple[Finisher, ...]:
        """The finishers that follow the sampler on such an instance, in the order of their turns."""
        return choose(self.options.finish, instance, self.finishers)

    def run(self, slots: Slots, places: Sequence[int], finisher: Finisher, deadline: Deadline) -> float:
        """Let a finisher work on slots. Returns the seconds that it took."""
        began = time.monotonic()
        chains = slots.chain_values(places)
        tasks = [self._task(slots, place, states) for place, states in zip(places, chains, strict=True)]
        try:
            outcomes = finisher.finish(tasks, deadline, self.options.seed)
        except torch.cuda.OutOfMemoryError:  # then the sampler's answer has to do
            torch.cuda.empty_cache()
            return time.monotonic() - began
        for place, outcome in zip(places, outcomes, strict=True):
            slot = slots.members[place]
            if outcome.values is not None and (
                slot.found is None or is_better(slot.instance, outcome.values, slot.found)
            ):
                slot.found, slot.found_by = outcome.values, finisher.name
            if outcome.proof is not None:
                slot.proof, slot.proved_by = outcome.proof, finisher.name
        return time.monotonic() - began

    def _task(self, slots: Slots, place: int, chains: IntArray) -> Task:
        """States of the sampler, best first; before them what earlier finishers found."""
        slot = slots.members[place]
        states = [slot.found] if slot.found is not None else []
        for state in self._best(slots, place):
            states.insert(0 if states and is_better(slot.instance, state, states[0]) else len(states), state)
        states += [*chains]
        return Task(slot.instance, np.array(states, np.int64), self._target(slot.instance))

    def _target(self, instance: Instance) -> float | None:
        """The objective to stop at, in the sense of the problem."""
        if instance.objective is None or (self.options.target is None and not self.options.first_feasible):
            return None
        sign = 1.0 if instance.objective.sense == "minimize" else -1.0
        return sign * goal_of(instance, self.options)

    def is_decided(self, slot: Slot) -> bool:
        """Whether nothing is left to find: a proof, or an answer that is good enough."""
        if slot.proof is not None:
            return True
        return slot.found is not None and self._is_enough(slot.instance, slot.found)

    def _is_enough(self, instance: Instance, values: IntArray) -> bool:
        verdict, goal = instance.verify(values), instance.objective
        if not verdict.satisfied or goal is None:
            return verdict.satisfied
        lowest = (1.0 if goal.sense == "minimize" else -1.0) * (verdict.objective or 0.0)
        return lowest <= goal_of(instance, self.options)

    # -- answers ---------------------------------------------------------------------------------------------------

    def _best(self, slots: Slots, place: int) -> tuple[IntArray, IntArray]:
        """What the sampler has: of the lowest energy, and valid with the best objective."""
        size = slots.members[place].instance.size
        return slots.best_values[place, :size].cpu().numpy(), slots.best_valid[place, :size].cpu().numpy()

    def of_sampler(self, slots: Slots, place: int) -> Result:
        """The best answer that the sampler has, checked."""
        slot, (closest, valid) = slots.members[place], self._best(slots, place)
        values = closest
        if slot.instance.objective is not None and is_better(slot.instance, valid, closest):
            values = valid
        return self._result(slots, place, values, SAMPLER)

    def result(self, slots: Slots, place: int) -> Result:
        """The best answer of an instance, checked: the sampler's, or what a finisher has found."""
        slot, sampled = slots.members[place], self.of_sampler(slots, place)
        if slot.found is not None and is_better(slot.instance, slot.found, sampled.values):
            return self._result(slots, place, slot.found, slot.found_by, sampled)
        return self._result(slots, place, sampled.values, SAMPLER, sampled)

    def _result(
        self, slots: Slots, place: int, values: IntArray, found_by: str, sampled: Result | None = None
    ) -> Result:
        slot, steps = slots.members[place], int(slots.steps[place])
        alone = None
        if sampled is not None and slot.steps:
            valid = sampled.verdict.satisfied
            alone = Sampled(sampled.objective if valid else None, sampled.verdict.violated)
        return Result(
            slot.instance, values, steps, slot.budget.spent, self.options.seed, self.model,
            found_by=found_by, proof=slot.proof, proved_by=slot.proved_by, sampler=alone,
        )  # fmt: skip


def is_better(instance: Instance, values: IntArray, other: IntArray) -> bool:
    """Whether `values` violate less than `other` or, if they violate as much, have a better objective."""
    return cost(instance, values) < cost(instance, other)
