"""The anytime loop: many chains on many instances, until each has an answer or its budget is spent.

A `Solver` runs instances of one shape as one batch on the device. Instances that are done leave the batch, others take
their slots. Every answer is checked exactly when its `Result` is built. The noise of an instance depends on the seed
and on the instance alone, so its answer does not depend on its company.

The parts of the loop: `occupants` (who is on the device), `sampler` (steps), `finishing` (what follows them), `answers`
(results), `session` (the caller's wishes and the clock), `budget` and `pace` (seconds of an instance, and of a step).
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace

import torch

from blogdit.core.clock import working_time
from blogdit.core.instance import Instance
from blogdit.core.result import Result
from blogdit.method.blocks import decode
from blogdit.network.checkpoint import Model
from blogdit.network.inference import inference_copy
from blogdit.network.runtime import runs_kernels, stand_still_while_compiling
from blogdit.solver.answers import Answers
from blogdit.solver.events import Finished, Step
from blogdit.solver.finishing import Finishing
from blogdit.solver.occupants import Occupants
from blogdit.solver.options import SolveOptions
from blogdit.solver.pace import Pace
from blogdit.solver.queueing import Queue
from blogdit.solver.session import Clock, Session
from blogdit.solver.slots import Slot, Slots
from blogdit.solver.tracing import steps_of

LOOK_EVERY = {"cpu": 1, "cuda": 16}  # steps; a look at a GPU makes it wait, and a CPU has nothing to wait for


class Solver:
    """Runs a model on instances. `events` is the loop; `results` is what most callers want.

    The host looks at the device every few steps: instances that are done leave then, and the session's `on_step` is
    called. Answers and their steps do not depend on when it looks.
    """

    def __init__(
        self,
        model: Model,
        options: SolveOptions,
        device: torch.device | str = "cpu",
        session: Session | None = None,
    ):
        self.options, self.device = options, torch.device(device)
        if runs_kernels(self.device):
            stand_still_while_compiling()
        self.model = replace(model, denoiser=inference_copy(model.denoiser, self.device))
        self.session = Session() if session is None else session
        self.clock = Clock(options, self.device, self.session)
        self.pace = Pace(self.model, self.device)
        self.finishing = Finishing(options, self.device, self.session, self.clock)
        self.answers = Answers(options.seed, self.model.name)
        self.occupants = Occupants(self.model, options, self.session, self.pace, self.finishing)
        self.look_every = LOOK_EVERY[self.device.type]
        self.steps_done = 0  # of all instances together
        self.cut_short = False  # the total time ended before the instances did

    def misfit(self, instance: Instance) -> str | None:
        """Why an instance cannot be solved with this model on this machine, or None."""
        return self.model.misfit(instance) or self.occupants.misfit(instance)

    def results(self, instances: Iterable[Instance]) -> Iterator[tuple[int, Result]]:
        """(index, result) of every instance as it is done, in the order of completion."""
        for event in self.events(instances):
            if isinstance(event, Finished):
                yield event.index, event.result

    def events(self, instances: Iterable[Instance]) -> Iterator[Step | Finished]:
        """An event for every instance that is done; if the session wants a trace, also for every step."""
        return self.run(enumerate(instances))

    def run(self, numbered: Iterable[tuple[int, Instance]], started: float | None = None) -> Iterator[Step | Finished]:
        """The loop. When the total time (counted from `started`) is over, it ends, without a word about instances that
        it has not reached."""
        self.clock.started = time.monotonic() if started is None else started
        queue, occupants = Queue(numbered), self.occupants
        occupants.slots, self.cut_short = None, False
        while not self.clock.ends():
            try:
                slots = occupants.refill(queue)
                if slots is None:
                    return
                steps = self._advance(slots)
            except torch.cuda.OutOfMemoryError:
                slots = None
            if slots is None:  # not in the handler: the error keeps the tensors of the failed step alive
                occupants.shrink(queue)
                continue
            yield from steps
            if self.session.on_step is not None:
                self.session.on_step()
            yield from self._answer_the_done(slots)
        self.cut_short = not self.session.stopping and not queue.is_exhausted()
        slots, occupants.slots = occupants.slots, None
        if slots is not None:
            for place in slots.open_places:
                yield self._answer(slots, place, complete=not self.session.stopping)

    def _advance(self, slots: Slots) -> list[Step]:
        """Steps until the next look at the device. With a trace it is one, and what it did is told."""
        trace, members, count = self.session.trace, slots.open, self._steps_until_look(slots)
        if count == 0:
            return []
        began, sampler = working_time(), self.occupants.sampler_of(slots)
        before = decode(slots.logits, slots.batch) if trace else None
        stepped = sampler.once() if trace else sampler.advance(count)
        for slot in slots.members:
            slot.steps += count
        self.steps_done += count * len(members)
        self.occupants.records = sampler.records
        slots.reached.any().item()  # waits for the device
        elapsed = working_time() - began
        for slot in members:
            slot.budget.sampled += self.clock.own_seconds(elapsed, len(members))
        self.pace.learn(slots.batch.chains * sum(slot.work for slot in members), elapsed / count)
        return [] if before is None or stepped is None else steps_of(self.answers, slots, before, stepped)

    def _steps_until_look(self, slots: Slots) -> int:
        """As many as fit before a budget is spent, and at least one; none where even one would take too long."""
        most, members = 1 if self.session.trace else self.look_every, slots.open
        if self.options.steps is not None:
            return max(min(most, *(self.options.steps - slot.steps for slot in members)), 0)
        if not any(slot.budget.samples for slot in members):
            return 0
        seconds = min(slot.budget.sampling_left for slot in members)
        if self.occupants.sampler is None or math.isinf(seconds):  # the first step tells how long one takes
            return most if math.isinf(seconds) else 1
        expected = slots.batch.chains * sum(self.pace.expected(slot.instance, slot.work) for slot in members)
        return max(min(most, int(seconds / max(self.clock.own_seconds(expected, len(members)), 1e-9))), 1)

    def _answer_the_done(self, slots: Slots) -> Iterator[Finished]:
        """Results of those that the sampler has solved. Those whose sampling is over go to their finishers first."""
        reached = slots.reached.tolist()
        for place in slots.open_places:
            if reached[place]:
                yield self._answer(slots, place)
        for place in self.finishing.take_turn(slots):
            yield self._answer(slots, place, complete=not self.session.stopping)

    def _answer(self, slots: Slots, place: int, complete: bool = True) -> Finished:
        slot, result = slots.members[place], self.answers.result(slots, place)
        slot.answered = True
        self.steps_done -= slot.steps - result.steps  # those after it was solved do not count
        return Finished(slot.index, result, complete)

    # -- other questions -------------------------------------------------------------------------------------------

    def incumbent(self) -> float | None:
        """The best objective so far of the first instance in work."""
        slots = self.occupants.slots
        if slots is None or not slots.open:
            return None
        result = self.answers.result(slots, slots.open_places[0])
        return result.objective if result.verdict.satisfied and result.instance.objective is not None else None

    def sample(self, instance: Instance, count: int, steps: int) -> list[Result]:
        """The last states of `count` chains after `steps` steps, each checked: samples, not the best ones."""
        start = time.monotonic()
        options = replace(self.options, chains=count, steps=steps, finish="none", schedule="cycle")
        counted = Solver(self.model, options, self.device).occupants
        slots = counted.enter([Slot(0, instance)])
        counted.sampler_of(slots).advance(steps)
        seconds = time.monotonic() - start
        return [
            Result(instance, values, steps, seconds, self.options.seed, self.model.name, found_by="sampler")
            for values in slots.chain_values([0])[0]
        ]
