"""The answer of an instance: the sampler's, or a finisher's where that is better. It is checked when it is built."""

from __future__ import annotations

from dataclasses import dataclass

from blogdit.core.constraints import IntArray
from blogdit.core.instance import Instance
from blogdit.core.result import SAMPLER, Result, Sampled
from blogdit.finishers.tasks import cost
from blogdit.solver.slots import Slots


@dataclass(frozen=True)
class Answers:
    """Builds results; `seed` and `model` go into each of them."""

    seed: int
    model: str

    def of_sampler(self, slots: Slots, place: int) -> Result:
        """The best answer that the sampler has."""
        instance, (values, valid) = slots.members[place].instance, slots.best(place)
        if instance.objective is not None and is_better(instance, valid, values):
            values = valid
        return self._result(slots, place, values, SAMPLER)

    def result(self, slots: Slots, place: int) -> Result:
        """The best answer of all."""
        slot, sampled = slots.members[place], self.of_sampler(slots, place)
        if slot.found is not None and is_better(slot.instance, slot.found, sampled.values):
            return self._result(slots, place, slot.found, slot.found_by, sampled.sampler)
        return sampled

    def _result(
        self, slots: Slots, place: int, values: IntArray, found_by: str, sampler: Sampled | None = None
    ) -> Result:
        slot = slots.members[place]
        return Result(
            slot.instance, values, slots.steps_of(place), slot.budget.spent, self.seed, self.model,
            found_by=found_by, proof=slot.proof, proved_by=slot.proved_by, sampler=sampler,
        )  # fmt: skip


def is_better(instance: Instance, values: IntArray, other: IntArray) -> bool:
    """Whether `values` violate less than `other` or, if they violate as much, have a better objective."""
    return cost(instance, values) < cost(instance, other)
