"""The anytime loop: many chains on many instances, until each has an answer or its budget is spent.

A `Solver` runs instances of one shape as one batch on the device. Instances that are done leave the batch, others take
their slots. Every answer is checked exactly when its `Result` is built. The noise of an instance depends on the seed
and on the instance alone, so its answer does not depend on its company.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

import torch

from blogdit.core.errors import InputError
from blogdit.core.instance import Instance
from blogdit.core.result import Result
from blogdit.finishers.base import Deadline, Finisher
from blogdit.method.blocks import decode
from blogdit.network.checkpoint import Model
from blogdit.network.inference import fastest, inference_copy
from blogdit.solver.budget import Budget
from blogdit.solver.events import Finished, Step
from blogdit.solver.finishing import Finishing
from blogdit.solver.options import SolveOptions
from blogdit.solver.pace import Pace
from blogdit.solver.queueing import Queue
from blogdit.solver.sampler import Sampler, Watch
from blogdit.solver.slots import Shape, Slot, Slots, goal_of
from blogdit.solver.tracing import steps_of

# (variable, value) pairs of all chains on the device at a time, where no batch size is given: enough to keep it busy,
# few enough that a step stays short (tens of milliseconds).
CAPACITY = {"cpu": 1 << 14, "cuda": 1 << 20}
MOST_SLOTS = 1024  # instances: a larger batch makes the host's part of a look as long as the steps before it
LOOK_EVERY = {"cpu": 1, "cuda": 16}  # steps; a look at a GPU makes it wait, and a CPU has nothing to wait for


class Solver:
    """Runs a model on instances. `events` is the loop; `results` is what most callers want.

    The host looks at the device every few steps: instances that are done leave then, `on_step` is called, and
    `stopping` (set from there, or from a signal handler) ends the loop. With `trace` it looks at every step and tells.
    Answers and their steps do not depend on when it looks.
    """

    def __init__(self, model: Model, options: SolveOptions, device: torch.device | str = "cpu"):
        self.options, self.device = options, torch.device(device)
        self.model = replace(model, denoiser=inference_copy(model.denoiser, self.device))
        self.trace = False
        self.look_every = LOOK_EVERY[self.device.type]
        self.on_step: Callable[[], None] | None = None
        self.on_note: Callable[[str], None] = warnings.warn  # what a user should know
        self.watch: Watch | None = None  # sees every step, on the device
        self.stopping = False
        self.steps_done = 0  # of all instances together
        self.slots: Slots | None = None
        self.sampler: Sampler | None = None
        self.pace = Pace(self.model, self.device)
        self.finishing = Finishing(options, self.model.name, self.device)
        self.cut_short = False  # the total time ended before the instances did
        self.elsewhere: Callable[[], int] = lambda: 0  # how many wait for a solver of another problem
        self.started = time.monotonic()
        self._records = self.device.type == "cuda"  # steps as a CUDA graph, unless that fails
        self._most = options.batch_size or MOST_SLOTS  # slots; falls when the device runs out of memory

    # -- the loop --------------------------------------------------------------------------------------------------

    def results(self, instances: Iterable[Instance]) -> Iterator[tuple[int, Result]]:
        """(index, result) of every instance as it is done, in the order of completion."""
        for event in self.events(instances):
            if isinstance(event, Finished):
                yield event.index, event.result

    def events(self, instances: Iterable[Instance]) -> Iterator[Step | Finished]:
        """An event for every instance that is done; with `trace`, also for every step."""
        return self.run(enumerate(instances))

    def run(self, numbered: Iterable[tuple[int, Instance]], started: float | None = None) -> Iterator[Step | Finished]:
        """The loop. When the total time (counted from `started`) is over, it ends, without a word about instances that
        it has not reached."""
        self.started = time.monotonic() if started is None else started
        queue = Queue(numbered)
        self.slots, self.cut_short = None, False
        while not self._ends():
            self._read(queue)
            try:
                self.slots = self._refill(self.slots, queue)
                if self.slots is None:
                    return
                steps = self._advance(self.slots)
            except torch.cuda.OutOfMemoryError:
                steps = None
            if steps is None:  # not in the handler: the error keeps the tensors of the failed step alive
                self._shrink(queue)
                continue
            yield from steps
            if self.on_step is not None:
                self.on_step()
            yield from self._answer_the_done()
        self.cut_short = not self.stopping and not queue.is_exhausted()
        if self.slots is not None:
            slots, self.slots = self.slots, None
            for place, slot in enumerate(slots.members):
                if not slot.answered:
                    yield self._answer(slots, place, complete=not self.stopping)

    def _advance(self, slots: Slots) -> list[Step]:
        """Steps until the next look at the device. With `trace` it is one, and what it did is told."""
        members, count = slots.open, self._steps_until_look(slots)
        if count == 0:
            return []
        began = time.monotonic()
        follows = self.options.schedule == "budget" and not self.options.unlimited
        progress = [slot.budget.progress for slot in slots.members] if follows else None
        sampler = self._sampler_of(slots, follows)
        before = decode(slots.logits, slots.batch) if self.trace else None
        stepped = sampler.once(progress) if self.trace else sampler.advance(count, progress)
        for slot in slots.members:
            slot.steps += count
        self.steps_done += count * len(members)
        self._records = sampler.records
        slots.reached.any().item()  # waits for the device
        elapsed = time.monotonic() - began
        for slot in members:
            slot.budget.sampled += self.own_seconds(elapsed, len(members))
        self.pace.learn(slots.batch.chains * sum(slot.work for slot in members), elapsed / count)
        return [] if before is None or stepped is None else steps_of(self.finishing, slots, before, stepped)

    def _steps_until_look(self, slots: Slots) -> int:
        """As many as fit before a budget is spent, and at least one; none where even one would take too long."""
        most, members = 1 if self.trace else self.look_every, slots.open
        if self.options.steps is not None:
            return max(min(most, *(self.options.steps - slot.steps for slot in members)), 0)
        if not any(slot.budget.samples for slot in members):
            return 0
        seconds = min(slot.budget.sampling_left for slot in members)
        if self.sampler is None or math.isinf(seconds):  # the first step tells how long one takes
            return most if math.isinf(seconds) else 1
        expected = slots.batch.chains * sum(self.pace.expected(slot.instance, slot.work) for slot in members)
        return max(min(most, int(seconds / max(self.own_seconds(expected, len(members)), 1e-9))), 1)

    def own_seconds(self, elapsed: float, members: int) -> float:
        """What an instance pays for time in which a batch of so many was worked on. On a CPU they share the core, so
        each pays its part. A GPU works on all of them at the same time, so each pays in full."""
        return elapsed / members if self.device.type == "cpu" else elapsed

    def _sampler_of(self, slots: Slots, follows_budget: bool) -> Sampler:
        if self.sampler is None or self.sampler.slots is not slots:
            with torch.no_grad():
                denoise = fastest(self.model.denoiser, slots.batch)
            chain, records = self.model.chain, self._records
            self.sampler = Sampler(slots, denoise, chain, self.options, follows_budget, records, self.watch)
        return self.sampler

    # -- the end of an instance ------------------------------------------------------------------------------------

    def _answer_the_done(self) -> Iterator[Finished]:
        """Results of those that the sampler has solved. Those whose sampling is over go to their finishers first."""
        slots = self.slots
        assert slots is not None
        reached = slots.reached.tolist()
        for place, slot in enumerate(slots.members):
            if reached[place] and not slot.answered:
                yield self._answer(slots, place)
        due = [place for place, slot in enumerate(slots.members) if not slot.answered and self._is_due(slot)]
        for finisher, places in self._finishers_of(slots, due):
            self._finish(slots, [p for p in places if not self.finishing.is_decided(slots.members[p])], finisher)
        for place in due:
            slot = slots.members[place]
            is_last = self.options.steps is not None or slot.budget.is_last_turn
            slot.budget.next_turn()
            if is_last or slot.budget.over or self.finishing.is_decided(slot):
                yield self._answer(slots, place, complete=not self.stopping)

    def _is_due(self, slot: Slot) -> bool:
        """Whether the sampler's steps, or its seconds of this turn, are over."""
        if self.options.steps is not None:
            return slot.steps >= self.options.steps or slot.budget.progress >= 1
        return slot.budget.over or slot.budget.is_due()

    def _finishers_of(self, slots: Slots, places: list[int]) -> list[tuple[Finisher, list[int]]]:
        """Which finisher works on whom. Where steps are counted there is one turn, and all finishers of an instance
        have it one after the other."""
        groups: dict[tuple[int, str], tuple[Finisher, list[int]]] = {}
        for place in places:
            slot = slots.members[place]
            chosen = self.finishing.of(slot.instance)
            if self.options.steps is None:
                chosen = chosen[min(slot.budget.turn, len(chosen) - 1) :][:1]
            for number, finisher in enumerate(dict.fromkeys(chosen)):
                groups.setdefault((number, finisher.name), (finisher, []))[1].append(place)
        return [groups[key] for key in sorted(groups)]

    def _finish(self, slots: Slots, places: list[int], finisher: Finisher) -> None:
        if not places or self._ends():
            return
        finisher.prepare()
        members = [slots.members[place] for place in places]
        if self.options.steps is not None:  # a fixed amount of work, so that the answer does not depend on the clock
            end = time.monotonic() + self._all_seconds([slot.budget.limit - slot.budget.spent for slot in members])
            deadline = Deadline(stopped=lambda: self._ends() or time.monotonic() >= end)
        else:
            seconds = self._all_seconds([slot.budget.finishing_left for slot in members])
            deadline = Deadline(min(seconds, self._end - time.monotonic()), lambda: self.stopping)
        elapsed = self.finishing.run(slots, places, finisher, deadline)
        for slot in members:
            slot.budget.finished += self.own_seconds(elapsed, len(members))

    def _all_seconds(self, each: list[float]) -> float:
        """How long a finisher may work on instances that have so many seconds each (see `own_seconds`)."""
        return sum(each) if self.device.type == "cpu" else min(each)

    def _answer(self, slots: Slots, place: int, complete: bool = True) -> Finished:
        slot, result = slots.members[place], self.finishing.result(slots, place)
        slot.answered = True
        self.steps_done -= slot.steps - result.steps  # those after it was solved do not count
        return Finished(slot.index, result, complete)

    # -- who is on the device --------------------------------------------------------------------------------------

    def capacity(self, shape: Shape) -> int:
        """How many instances of a shape may be on the device."""
        if self.options.batch_size is not None:
            return self._most
        return max(1, min(self._most, CAPACITY[self.device.type] // (math.prod(shape[:2]) * self.options.chains)))

    def _read(self, queue: Queue) -> None:
        shape = None if self.slots is None else self.slots.members[0].shape
        total = self.options.total_time if self.options.divides_total_time else None
        queue.read(shape, self.capacity, self._ends, total)

    def _refill(self, slots: Slots | None, queue: Queue) -> Slots | None:
        """Let waiting instances of the batch's shape in, once a quarter of the slots are free (joining costs)."""
        slots = self._without_answered(slots)
        if not queue:
            return slots
        shape = (slots.members[0] if slots is not None else queue.waiting[0]).shape
        inside = [] if slots is None else [place for place, slot in enumerate(slots.members) if not slot.answered]
        free = self.capacity(shape) - len(inside)
        if slots is not None and free < max(1, self.capacity(shape) // 4):
            return slots
        left = len(inside) + len(queue) + self.elsewhere()
        if not (fitting := queue.take(shape, free)):
            return slots
        self.sampler = None  # its memory is for the next one
        for slot in fitting:
            slot.budget = self._budget(slot, len(inside) + len(fitting), left)
        try:
            newcomers = self._enter(fitting, None if slots is None else slots.batch.chains)
            return newcomers if slots is None else slots.keep(inside).join(newcomers)
        except torch.cuda.OutOfMemoryError:
            queue.put_back(fitting)
            raise

    def _without_answered(self, slots: Slots | None) -> Slots | None:
        """The slots of those that have no result yet. On a GPU, where a new batch costs, the others keep their slots
        until half of the batch is done or others come."""
        if slots is None:
            return None
        staying = [place for place, slot in enumerate(slots.members) if not slot.answered]
        lasting = self._records and not self.trace
        if len(staying) > (len(slots.members) // 2 if lasting else len(slots.members) - 1):
            return slots
        self.sampler = None
        return slots.keep(staying) if staying else None

    def _enter(self, members: list[Slot], chains: int | None = None) -> Slots:
        """New chains. On a CPU that is short of time, as many as take a step in the first turn; at least one."""
        if chains is None:
            chains = self.options.chains
            if chains > 1 and self._is_short_of_time:
                slowest = max(self.pace.expected(slot.instance, slot.work) for slot in members)
                fitting = min(slot.budget.sampling_left for slot in members) / max(slowest, 1e-9)
                chains = max(1, min(chains, int(fitting)))
        goals = [goal_of(slot.instance, self.options) for slot in members]
        return Slots.enter(members, self.model, chains, self.options.seed, self.device, goals)

    @property
    def _is_short_of_time(self) -> bool:
        """Whether a slow step could use up the time of an instance."""
        return self.device.type == "cpu" and self.options.steps is None and not self.options.unlimited

    def _budget(self, slot: Slot, together: int, left: int) -> Budget:
        """The seconds of an instance that enters a batch of so many. A total time is divided evenly among the instances
        that are left; on a GPU those of a batch have theirs at the same time."""
        options, remaining = self.options, max(self._end - time.monotonic(), 0.0)
        limit = math.inf if options.time_limit is None else options.time_limit
        if options.divides_total_time:
            limit = remaining / left * (together if self.device.type == "cuda" else 1)
        share = options.finish_share if self.finishing.of(slot.instance) else 0.0
        budget = replace(slot.budget, limit=min(limit, remaining) + slot.budget.spent, finish_share=share)
        seconds = self.pace.expected(slot.instance, slot.work) if share and self._is_short_of_time else 0.0
        if seconds > (1 - share) * budget.limit:
            name = slot.instance.name or "an instance"
            self.on_note(f"{name}: one step takes about {seconds:.1f} s here, too long for its time limit; not sampled")
            budget.finish_share = 1.0
        return budget

    def _shrink(self, queue: Queue) -> None:
        """Out of device memory: everybody starts again, in batches of half the size."""
        slots, self.slots, self.sampler = self.slots, None, None
        queue.put_back([] if slots is None else slots.open)
        del slots
        tried = min(self.capacity(queue.waiting[0].shape), len(queue))
        if tried == 1:
            raise InputError("one instance does not fit the device's memory; expected fewer --chains or --device cpu")
        self._most = tried // 2
        torch.cuda.empty_cache()

    # -- the clock -------------------------------------------------------------------------------------------------

    @property
    def _end(self) -> float:
        """When the total time is over."""
        return math.inf if self.options.total_time is None else self.started + self.options.total_time

    def out_of_time(self) -> bool:
        return time.monotonic() >= self._end

    def _ends(self) -> bool:
        return self.stopping or self.out_of_time()

    # -- other questions -------------------------------------------------------------------------------------------

    def incumbent(self) -> float | None:
        """The best objective so far of the first instance in work."""
        if self.slots is None or not self.slots.open:
            return None
        place = self.slots.members.index(self.slots.open[0])
        result = self.finishing.result(self.slots, place)
        return result.objective if result.verdict.satisfied and result.instance.objective is not None else None

    def sample(self, instance: Instance, count: int, steps: int) -> list[Result]:
        """The last states of `count` chains after `steps` steps, each checked: samples, not the best ones."""
        start = time.monotonic()
        counted = Solver(self.model, replace(self.options, chains=count, steps=steps, finish="none"), self.device)
        slots = counted._enter([Slot(0, instance)])
        counted._sampler_of(slots, follows_budget=False).advance(steps)
        seconds = time.monotonic() - start
        return [
            Result(instance, values, steps, seconds, self.options.seed, self.model.name, found_by="sampler")
            for values in slots.chain_values([0])[0]
        ]
