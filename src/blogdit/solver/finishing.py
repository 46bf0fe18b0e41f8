"""After the sampler: the turns of the finishers. What they find is remembered in the slots themselves."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
import torch

from blogdit.core.clock import working_time
from blogdit.core.constraints import IntArray
from blogdit.core.instance import Instance
from blogdit.finishers import choose, make
from blogdit.finishers.base import Deadline, Finisher, Task
from blogdit.finishers.tasks import is_enough
from blogdit.solver.answers import is_better
from blogdit.solver.options import SolveOptions
from blogdit.solver.session import Clock, Session
from blogdit.solver.slots import Slot, Slots, target_of


class Finishing:
    """Says whose turn it is, and calls the finishers."""

    def __init__(self, options: SolveOptions, device: torch.device, session: Session, clock: Clock):
        self.options, self.session, self.clock = options, session, clock
        self.finishers = make(device, torch.get_num_threads())

    def of(self, instance: Instance) -> tuple[Finisher, ...]:
        """The finishers that follow the sampler on such an instance, in the order of their turns."""
        return choose(self.options.finish, instance, self.finishers)

    def take_turn(self, slots: Slots) -> list[int]:
        """Let finishers work on all instances whose sampling is over for now. Returns the places of those that are
        done: decided, or without another turn."""
        due = [place for place in slots.open_places if self._is_due(slots.members[place])]
        for finisher, places in self._groups(slots, due):
            self._finish(slots, [p for p in places if not self._is_decided(slots.members[p])], finisher)
        return [place for place in due if self._ends(slots.members[place])]

    def _is_due(self, slot: Slot) -> bool:
        """Whether the sampler's steps, or its seconds of this turn, are over."""
        if self.options.steps is not None:
            return slot.steps >= self.options.steps or slot.budget.progress >= 1
        if slot.budget.is_first_turn and not all(finisher.is_prepared for finisher in self._following(slot)):
            return slot.budget.spent >= slot.budget.turn_end  # to load it takes longer than the rest of this short turn
        return slot.budget.over or slot.budget.is_due()

    def _following(self, slot: Slot) -> tuple[Finisher, ...]:
        """Who has the next turn. Where steps are counted there is one turn, and all have it one after the other."""
        chosen = self.of(slot.instance)
        return chosen if self.options.steps is not None else chosen[min(slot.finishes, len(chosen) - 1) :][:1]

    def _groups(self, slots: Slots, places: list[int]) -> list[tuple[Finisher, list[int]]]:
        """Which finisher works on whom."""
        groups: dict[tuple[int, str], tuple[Finisher, list[int]]] = {}
        for place in places:
            for number, finisher in enumerate(dict.fromkeys(self._following(slots.members[place]))):
                groups.setdefault((number, finisher.name), (finisher, []))[1].append(place)
        return [groups[key] for key in sorted(groups)]

    def _is_decided(self, slot: Slot) -> bool:
        """Whether nothing is left to find: a proof, or an answer that is good enough."""
        if slot.proof is not None or slot.found is None:
            return slot.proof is not None
        return is_enough(slot.instance, slot.found, target_of(slot.instance, self.options))

    def _ends(self, slot: Slot) -> bool:
        is_last = self.options.steps is not None or slot.budget.is_last_turn
        slot.budget.next_turn()
        return is_last or slot.budget.over or self._is_decided(slot)

    def _finish(self, slots: Slots, places: list[int], finisher: Finisher) -> None:
        if not places or self.clock.ends():
            return
        finisher.prepare()
        members = [slots.members[place] for place in places]
        deadline, began = self._deadline(members), working_time()
        self._run(slots, places, finisher, deadline)
        elapsed = working_time() - began
        for slot in members:
            slot.finishes += 1
            slot.budget.finished += self.clock.own_seconds(elapsed, len(members))

    def _deadline(self, members: Sequence[Slot]) -> Deadline:
        """Where steps are counted, finishers do a fixed amount of work: the answer does not depend on the clock."""
        if self.options.steps is not None:
            seconds = self.clock.all_seconds([slot.budget.limit - slot.budget.spent for slot in members])
            end = working_time() + seconds
            return Deadline(stopped=lambda: self.clock.ends() or working_time() >= end)
        seconds = self.clock.all_seconds([slot.budget.finishing_left for slot in members])
        return Deadline(min(seconds, self.clock.end - time.monotonic()), self.clock.ends)

    def _run(self, slots: Slots, places: list[int], finisher: Finisher, deadline: Deadline) -> None:
        states = zip(places, slots.chain_values(places), strict=True)
        try:
            outcomes = finisher.finish(
                [self._task(slots, place, chains) for place, chains in states], deadline, self.options.seed
            )
        except torch.cuda.OutOfMemoryError:  # then the sampler's answer has to do
            torch.cuda.empty_cache()
            return
        for place, outcome in zip(places, outcomes, strict=True):
            slot, values = slots.members[place], outcome.values
            if values is not None and (slot.found is None or is_better(slot.instance, values, slot.found)):
                slot.found, slot.found_by = values, finisher.name
            if outcome.proof is not None:
                slot.proof, slot.proved_by = outcome.proof, finisher.name

    def _task(self, slots: Slots, place: int, chains: IntArray) -> Task:
        """States of the sampler, best first; before them what earlier finishers found."""
        slot = slots.members[place]
        states = [slot.found] if slot.found is not None else []
        for state in slots.best(place):
            states.insert(0 if states and is_better(slot.instance, state, states[0]) else len(states), state)
        states += [*chains]
        return Task(slot.instance, np.array(states, np.int64), target_of(slot.instance, self.options))
