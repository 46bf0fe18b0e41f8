"""Who is on the device: instances of one shape come in while there is room, and leave when they are done."""

from __future__ import annotations

import math
import time
from dataclasses import replace

import torch

from blogdit.core.clock import working_time
from blogdit.core.errors import InputError
from blogdit.core.instance import Instance
from blogdit.network.checkpoint import Model
from blogdit.network.inference import fastest
from blogdit.solver.budget import Budget
from blogdit.solver.finishing import Finishing
from blogdit.solver.memory import bytes_of_chain, free_bytes, gigabytes
from blogdit.solver.options import SolveOptions
from blogdit.solver.pace import Pace
from blogdit.solver.queueing import Queue
from blogdit.solver.sampler import Sampler
from blogdit.solver.session import Session
from blogdit.solver.slots import Shape, Slot, Slots, goal_of

# (variable, value) pairs of all chains on the device at a time, where no batch size is given: enough to keep it busy,
# few enough that a step stays short (tens of milliseconds).
CAPACITY = {"cpu": 1 << 14, "cuda": 1 << 20}
FRESH = 0.1  # seconds for which a look at the free memory holds: thousands of puzzles come in that time
MOST_SLOTS = 1024  # instances: a larger batch makes the host's part of a look as long as the steps before it


class Occupants:
    """`slots` are the instances on the device, `sampler` takes their steps."""

    def __init__(self, model: Model, options: SolveOptions, session: Session, pace: Pace, finishing: Finishing):
        self.model, self.options, self.session, self.pace = model, options, session, pace
        self.device, self.finishing, self.clock = pace.device, finishing, finishing.clock
        self.slots: Slots | None = None
        self.sampler: Sampler | None = None
        self.records = self.device.type == "cuda"  # steps as a CUDA graph, unless that fails
        self.free_memory: tuple[float, int | None] = (-math.inf, None)  # when we looked, and what there was
        self.most = options.batch_size or MOST_SLOTS  # slots; falls when the device runs out of memory

    def capacity(self, shape: Shape) -> int:
        """How many instances of a shape may be on the device."""
        if self.options.batch_size is not None:
            return self.most
        return max(1, min(self.most, CAPACITY[self.device.type] // (math.prod(shape[:2]) * self.options.chains)))

    def refill(self, queue: Queue) -> Slots | None:
        """Let waiting instances of the batch's shape in, once a quarter of the slots are free (joining costs)."""
        total = self.options.total_time if self.options.divides_total_time else None
        queue.read(None if self.slots is None else self.slots.shape, self.capacity, self.clock.ends, total)
        self._dismiss()
        if not queue:
            return self.slots
        shape = queue.waiting[0].shape if self.slots is None else self.slots.shape
        inside = [] if self.slots is None else self.slots.open_places
        free = self.capacity(shape) - len(inside)
        if inside and free < max(1, self.capacity(shape) // 4):
            return self.slots
        left = len(inside) + len(queue) + self.session.elsewhere()
        began = working_time()
        if not (fitting := self._alike(queue, shape, free, left)):
            return self.slots
        self.sampler = None  # its memory is for the next one
        try:
            newcomers = self.enter(fitting, None if self.slots is None else self.slots.batch.chains)
            self.slots = newcomers if self.slots is None else self.slots.keep(inside).join(newcomers)
        except torch.cuda.OutOfMemoryError:
            queue.put_back(fitting)
            raise
        for slot in fitting:  # what it took to let them in is time of theirs
            slot.budget.sampled += self.clock.own_seconds(working_time() - began, len(fitting))
        return self.slots

    def _alike(self, queue: Queue, shape: Shape, free: int, left: int) -> list[Slot]:
        """Those that enter now, with their budgets: either such that are sampled, or one that is too large for it and
        goes to its finisher alone."""
        inside = [] if self.slots is None else self.slots.open
        taken = queue.take(shape, free)
        for slot in taken:
            slot.budget = self._budget(slot, len(inside) + len(taken), left)
        sampled = (inside + taken)[0].budget.samples if taken else False
        room = len(taken) if sampled else 1 - len(inside)
        entering = self._within_memory([slot for slot in taken if slot.budget.samples == sampled][: max(room, 0)])
        inside_now = set(entering)
        queue.put_back([slot for slot in taken if slot not in inside_now])
        for slot in entering:
            if slot.budget.too_large:
                name = slot.instance.name or "an instance"
                self.session.on_note(f"{name}: one step takes too long for its time limit here; not sampled")
        return entering

    def _within_memory(self, slots: list[Slot]) -> list[Slot]:
        """As many as the memory has room for together; the first in any case, which is refused if it does not fit."""
        taken = 0
        for number, slot in enumerate(slots):
            need, free = self._memory(slot.instance)
            taken += need * self.options.chains
            if number and taken > free:
                return slots[:number]
        return slots

    def _dismiss(self) -> None:
        """Those that have their result. On a GPU, where a new batch costs, they keep their slots until half of the
        batch is done or others come."""
        if self.slots is None:
            return
        everyone, staying = len(self.slots.members), self.slots.open_places
        lasting = self.records and not self.session.trace
        if len(staying) <= (everyone // 2 if lasting else everyone - 1):
            self.sampler = None
            self.slots = self.slots.keep(staying) if staying else None

    def enter(self, members: list[Slot], chains: int | None = None) -> Slots:
        """New chains. On a CPU that is short of time, as many as take a step in the first turn; at least one."""
        if chains is None:
            chains = self.options.chains
            if chains > 1 and self._is_short_of_time:
                slowest = max(self.pace.expected(slot.instance, slot.work) for slot in members)
                fitting = min(slot.budget.sampling_left for slot in members) / max(slowest, 1e-9)
                chains = max(1, min(chains, int(fitting)))
        for slot in members[:1]:  # of one shape, so the others need about as much
            self._require_memory(slot.instance, chains)
        goals = [goal_of(slot.instance, self.options) for slot in members]
        return Slots.enter(members, self.model, chains, self.options.seed, self.device, goals)

    def misfit(self, instance: Instance) -> str | None:
        """Why nothing can be sampled of an instance here, or None."""
        need, free = self._memory(instance)
        if need > free:
            return f"one chain needs about {gigabytes(need)} of memory, and {gigabytes(free)} are free"
        return None

    def _require_memory(self, instance: Instance, chains: int) -> None:
        need, free = self._memory(instance)
        if chains * need > free:
            asked = f"{chains:,} chains of {instance.name or 'an instance'} need about {gigabytes(chains * need)}"
            most = f"--chains {max(free // max(need, 1), 1)} at most"
            raise InputError(f"{asked} of memory, and {gigabytes(free)} are free; expected {most}")

    def _memory(self, instance: Instance) -> tuple[int, int]:
        """What one chain needs, and what there is. A GPU says by itself when it has too little."""
        if self.device.type == "cpu" and time.monotonic() > self.free_memory[0] + FRESH:
            self.free_memory = time.monotonic(), free_bytes()
        free = self.free_memory[1]
        return (0, 0) if free is None else (bytes_of_chain(instance, self.model.denoiser.config), free)

    @property
    def _is_short_of_time(self) -> bool:
        """Whether a slow step could use up the time of an instance."""
        return self.device.type == "cpu" and self.options.steps is None and not self.options.unlimited

    def _budget(self, slot: Slot, together: int, left: int) -> Budget:
        """The seconds of an instance that enters a batch of so many. A total time is divided evenly among the instances
        that are left; on a GPU those of a batch have theirs at the same time."""
        options, remaining = self.options, max(self.clock.end - time.monotonic(), 0.0)
        limit = math.inf if options.time_limit is None else options.time_limit
        if options.divides_total_time:
            limit = remaining / left * (1 if self.clock.shares_the_core else together)
        share = options.finish_share if self.finishing.of(slot.instance) else 0.0
        budget = replace(slot.budget, limit=min(limit, remaining) + slot.budget.spent, finish_share=share)
        if share < 1 and self._is_short_of_time:
            available, began = (1 - share) * budget.limit, time.monotonic()
            expected = self.pace.expected(slot.instance, slot.work, available)
            available -= time.monotonic() - began
            # Without a finisher nothing else gives an answer: then only a large instance may go without a step.
            may_skip = share > 0 or not self.pace.is_small(slot.instance)
            budget.too_large = may_skip and expected > available
        return budget

    def sampler_of(self, slots: Slots) -> Sampler:
        if self.sampler is None or self.sampler.slots is not slots:
            with torch.no_grad():
                denoise = fastest(self.model.denoiser, slots.batch)
            chain, watch = self.model.chain, self.session.watch
            self.sampler = Sampler(slots, denoise, chain, self.options, self.records, watch)
        return self.sampler

    def shrink(self, queue: Queue) -> None:
        """Out of device memory: everybody starts again, in batches of half the size."""
        queue.put_back([] if self.slots is None else self.slots.open)
        self.slots = self.sampler = None
        tried = min(self.capacity(queue.waiting[0].shape), len(queue))
        if tried == 1:
            raise InputError("one instance does not fit the device's memory; expected fewer --chains or --device cpu")
        self.most = tried // 2
        torch.cuda.empty_cache()
