"""The anytime loop: many chains on many instances, until each has an answer or its budget is spent.

A `Solver` runs instances of one shape as one batch on the device. Instances that are done leave the batch, others take
their places. Every answer is checked exactly when its `Result` is built. The noise of an instance depends on the seed
and on the instance alone, so its answer does not depend on its company.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

import torch

from blogdit.core.constraints import IntArray
from blogdit.core.errors import InputError
from blogdit.core.instance import Instance
from blogdit.core.result import Result
from blogdit.method.batch import Batch
from blogdit.method.blocks import decode
from blogdit.method.chain import Denoise
from blogdit.network.checkpoint import Model
from blogdit.network.denoiser import Denoiser
from blogdit.network.inference import fastest, inference_copy
from blogdit.solver.ending import Ending, goal_of, sampling_share
from blogdit.solver.options import Finished, SolveOptions, Step
from blogdit.solver.sampler import Stepper, Watch
from blogdit.solver.slots import Crew, Job, Shape
from blogdit.solver.tracing import steps_of

# Values of all variables and chains on the device at a time, where no batch size is given: enough to keep it busy,
# few enough that a step stays short.
PLACES = {"cpu": 1 << 14, "cuda": 1 << 20}
MOST_PLACES = 1024  # instances
# Instances that are read to divide a total time among them, and the most of that time that reading may take.
AHEAD, AHEAD_SHARE = 1024, 1 / 16
# A search tries to solve an instance before its last step: first after this share of its time for sampling, or these
# seconds if they are less, then after so many times as long.
EARLY, SOON, LATER = 1 / 16, 0.25, 4
# Terms on pairs and values, of all chains, that a slow CPU samples in a second; the most of a time limit that a step
# may take; seconds that are always allowed.
PACE, SLOWEST, QUICK = 350_000, 1 / 16, 0.2
LOOK_EVERY = {"cpu": 1, "cuda": 16}  # steps; a look at the device makes it wait


class Solver:
    """Runs a model on instances. `events` is the loop; `results` is what most callers want.

    The host looks at the device every `look_every` steps: instances that are done leave then, `on_step` is called, and
    `stopping` (set from there, or from a signal handler) ends the loop. With `trace` it looks at every step and tells.
    Answers and their steps do not depend on when it looks.
    """

    def __init__(self, model: Model, options: SolveOptions, device: torch.device | str = "cpu"):
        self.options, self.device = options, torch.device(device)
        self.model = replace(model, denoiser=inference_copy(model.denoiser, self.device))
        self.bind: Callable[[Denoiser, Batch], Denoise] = fastest  # the network on a batch
        self.trace = False
        self.look_every = LOOK_EVERY[self.device.type]
        self._records = self.device.type == "cuda"  # steps as a CUDA graph, unless that fails
        self.on_step: Callable[[], None] | None = None
        self.watch: Watch | None = None  # sees every step, on the device
        self.stopping = False
        self.steps_done = 0  # of all instances together
        self.crew: Crew | None = None
        self.stepper: Stepper | None = None
        self.cut_short = False  # the total time ended before the instances did
        self.others_wait = False  # for a place in the batch
        self.elsewhere: Callable[[], int] = lambda: 0  # how many wait for a solver of another problem
        self.started = time.monotonic()
        self._most = options.batch_size or MOST_PLACES  # falls when the device runs out of memory

    def sample(self, instance: Instance, count: int, steps: int) -> list[Result]:
        """The last states of `count` chains after `steps` steps, each checked: samples, not the best ones."""
        start = time.monotonic()
        counted = Solver(self.model, replace(self.options, chains=count, steps=steps, polish=False), self.device)
        crew = counted._enter([Job(0, instance)])
        counted.bind = self.bind
        counted._stepper(crew).advance(steps, [0.0])
        values = crew.batch.per_instance(decode(crew.logits, crew.batch))[:, 0, : instance.size].cpu().numpy()
        seconds = time.monotonic() - start
        return [Result(instance, v, steps, seconds, self.options.seed, self.model.name) for v in values]

    def results(self, instances: Iterable[Instance]) -> Iterator[tuple[int, Result]]:
        """(index, result) of every instance as it is done, in the order of completion."""
        for event in self.events(instances):
            if isinstance(event, Finished):
                yield event.index, event.result

    def events(self, instances: Iterable[Instance]) -> Iterator[Step | Finished]:
        """An event for every instance that is done; with `trace`, also for every step."""
        return self.run(enumerate(instances))

    def run(self, numbered: Iterable[tuple[int, Instance]], started: float | None = None) -> Iterator[Step | Finished]:
        """The loop. Reads ahead by a bounded number, to fill batches of one shape. When the total time (counted from
        `started`) is over, it ends, without a word about instances that it has not reached."""
        self.started = time.monotonic() if started is None else started
        source, waiting = iter(numbered), deque[Job]()
        self.crew, self.cut_short = None, False
        while not self.stopping and not self.out_of_time():
            self._read_ahead(source, waiting)
            steps, self.others_wait = self._advance(waiting), bool(waiting)
            if steps is None:
                continue
            if self.crew is None:
                return
            yield from steps
            if self.on_step is not None:
                self.on_step()
            yield from self._leave()
        self.cut_short = not self.stopping and (bool(waiting) or next(source, None) is not None)
        if self.crew is not None:
            crew, self.crew = self.crew, None
            left = [place for place, job in enumerate(crew.jobs) if not job.answered]
            yield from self._finish(crew, left, done=not self.stopping)

    def incumbent(self) -> float | None:
        """The best objective that chains have so far, of the first instance in work."""
        if self.crew is None:
            return None
        place = next((place for place, job in enumerate(self.crew.jobs) if not job.answered), None)
        if place is None or (goal := self.crew.jobs[place].instance.objective) is None:
            return None
        lowest = float(self.crew.best_objective[place])
        return None if math.isinf(lowest) else lowest if goal.sense == "minimize" else -lowest

    # -- who is in the batch ---------------------------------------------------------------------------------------

    def _places(self, shape: Shape) -> int:
        """How many instances of a shape may be on the device."""
        if self.options.batch_size is not None:
            return self._most
        return max(1, min(self._most, PLACES[self.device.type] // (math.prod(shape[:2]) * self.options.chains)))

    def _read_ahead(self, source: Iterator[tuple[int, Instance]], waiting: deque[Job]) -> None:
        began = time.monotonic()
        while not self.stopping and not self.out_of_time():
            first = self.crew.jobs[0] if self.crew is not None else waiting[0] if waiting else None
            if first is not None and len(waiting) >= 4 * self._places(first.shape):
                late = time.monotonic() - began > AHEAD_SHARE * (self.options.total_time or 0.0)
                if not self._divides or late or len(waiting) >= AHEAD:
                    return
            if (following := next(source, None)) is None:
                return
            waiting.append(Job(*following))

    def _advance(self, waiting: deque[Job]) -> list[Step] | None:
        """Let waiting instances in and take a step; None if the device ran out of memory: then try again."""
        try:
            self.crew = self._refill(self.crew, waiting)
            return [] if self.crew is None or self._newcomers(self.crew) else self._take_steps(self.crew)
        except torch.cuda.OutOfMemoryError:
            pass
        self._shrink(waiting)  # not in the handler: the error keeps the tensors of the failed step alive
        return None

    def _refill(self, crew: Crew | None, waiting: deque[Job]) -> Crew | None:
        """Let waiting instances of the crew's shape in, once a quarter of the places are free (joining costs)."""
        crew = self._without_answered(crew)
        if not waiting:
            return crew
        shape = (crew.jobs[0] if crew is not None else waiting[0]).shape
        places = self._places(shape)
        inside = [] if crew is None else [place for place, job in enumerate(crew.jobs) if not job.answered]
        free = places - len(inside)
        if crew is not None and free < max(1, places // 4):
            return crew
        fitting = [job for job in waiting if job.shape == shape][:free]
        if not fitting:
            return crew
        self.stepper = None  # its memory is for the next one
        self._limit(fitting, len(inside) + len(fitting), len(inside) + len(waiting) + self.elsewhere())
        newcomers = self._enter(fitting)
        joined = newcomers if crew is None else crew.keep(inside).join(newcomers)
        chosen = {job.index for job in fitting}
        remaining = [job for job in waiting if job.index not in chosen]
        waiting.clear()
        waiting.extend(remaining)
        return joined

    def _without_answered(self, crew: Crew | None) -> Crew | None:
        """The crew of those that have no result yet. On a GPU, where a new batch costs, the others keep their places
        until half of the batch is done or others come."""
        if crew is None:
            return None
        staying = [place for place, job in enumerate(crew.jobs) if not job.answered]
        lasting = self._records and not self.trace
        if len(staying) > (len(crew.jobs) // 2 if lasting else len(crew.jobs) - 1):
            return crew
        self.stepper = None
        return crew.keep(staying) if staying else None

    @torch.no_grad()
    def _enter(self, jobs: list[Job]) -> Crew:
        goals = [goal_of(job.instance, self.options) for job in jobs]
        return Crew.enter(jobs, self.model, self.options.chains, self.options.seed, self.device, goals)

    def _leave(self) -> Iterator[Finished]:
        """Instances that are done get their result at once."""
        assert self.crew is not None
        crew, reached = self.crew, self.crew.reached.tolist()
        solved = [p for p, job in enumerate(crew.jobs) if reached[p] and not job.answered]
        yield from self._finish(crew, solved, done=True)  # these do not wait for what follows
        yield from self._search_at_once(crew)
        yield from self._search_early(crew)
        done = self._done(crew)
        yield from self._finish(crew, [p for p, job in enumerate(crew.jobs) if done[p] and not job.answered], done=True)

    def _newcomers(self, crew: Crew) -> list[int]:
        """Who begins with a tree search: on a CPU, where a step takes longer than many a tree. Not where steps are
        counted, or somebody wants to see them."""
        if self.device.type != "cpu" or not self.options.polish or self.options.steps is not None or self.trace:
            return []
        return [place for place, job in enumerate(crew.jobs) if job.has_tree and not job.looked_at and not job.answered]

    def _search_at_once(self, crew: Crew) -> Iterator[Finished]:
        """A tree search may be done in a moment: for newcomers it has the time after which all searches are tried or,
        in half of what there is for sampling, the time of the step that it may save."""
        places = self._newcomers(crew)
        if not places:
            return
        jobs, now = [crew.jobs[place] for place in places], time.monotonic()
        for job in jobs:
            job.looked_at = True
        saved = min(self._step_seconds(jobs), *((self._sampling_end(job) - now) / 2 for job in jobs))
        end = now + max(min(saved, SOON), *(self._first_try(job) for job in jobs))
        ending = self._ending(crew, min(end, self._deadline(jobs)))
        yield from self._decided(ending, ending.search(ending.searching(places), trees_alone=True))

    def _decided(self, ending: Ending, found: dict[int, IntArray]) -> Iterator[Finished]:
        for place, values in found.items():
            if ending.crew.jobs[place].exhausted or ending.is_enough(ending.crew.jobs[place].instance, values):
                yield self._answer(ending, place, values)

    def _search_early(self, crew: Crew) -> Iterator[Finished]:
        """What is easy to solve does not wait until its time for sampling is over: now and then a search takes as long
        as the instance has been here. Not where steps are counted: then answers do not depend on the clock; nor where
        somebody wants to see them."""
        now = time.monotonic()
        due = [place for place, job in enumerate(crew.jobs) if self._is_due(job, now)]
        if not due:
            return
        for place in due:
            crew.jobs[place].tried = now - crew.jobs[place].entered
        here = max(crew.jobs[place].tried for place in due)
        ending = self._ending(crew, min(now + here, self._deadline([crew.jobs[place] for place in due])))
        yield from self._decided(ending, ending.search(ending.searching(due)))

    def _is_due(self, job: Job, now: float) -> bool:
        if self.options.steps is not None or self.trace or not job.may_end_early or job.answered or not job.steps:
            return False
        return now - job.entered >= (LATER * job.tried or self._first_try(job))

    def _first_try(self, job: Job) -> float:
        """Seconds after which a search is first tried before the last step."""
        return min(SOON, EARLY * max(self._sampling_end(job) - job.entered, 0.0))

    def _ending(self, crew: Crew, deadline: float = math.inf) -> Ending:
        return Ending(crew, self.options, self.model.name, deadline, lambda: self.stopping)

    def _answer(self, ending: Ending, place: int, searched: IntArray | None, complete: bool = True) -> Finished:
        job, result = ending.crew.jobs[place], ending.result(place, searched)
        job.answered = True
        self.steps_done -= job.steps - result.steps  # those after it was solved do not count
        return Finished(job.index, result, complete)

    def _finish(self, crew: Crew, places: list[int], done: bool) -> Iterator[Finished]:
        """The results of instances. Who is asked to stop does not search on: an answer that lacks it is incomplete."""
        ending = self._ending(crew, self._deadline([crew.jobs[place] for place in places]))
        searching = ending.searching(places)
        for place in places:
            if place not in searching:
                yield self._answer(ending, place, None, complete=done)
        searched = ending.search(searching)
        for place in searching:
            yield self._answer(ending, place, searched.get(place), complete=done and not self.stopping)

    def _shrink(self, waiting: deque[Job]) -> None:
        """Out of device memory: everybody starts again, in batches of half the size."""
        crew, self.crew, self.stepper = self.crew, None, None
        inside = [] if crew is None else [job for job in crew.jobs if not job.answered]
        del crew
        waiting.extendleft(reversed(inside))
        tried = min(self._places(waiting[0].shape), len(waiting))
        if tried == 1:
            raise InputError("one instance does not fit the device's memory; expected fewer --chains or --device cpu")
        self._most = tried // 2
        torch.cuda.empty_cache()

    # -- one step --------------------------------------------------------------------------------------------------

    @property
    def _follows_budget(self) -> bool:
        return self.options.schedule == "budget" and not self.options.unlimited

    @property
    def _divides(self) -> bool:
        """Whether a total time has to be divided among instances: nothing else ends them."""
        return self.options.total_time is not None and self.options.time_limit is None and self.options.steps is None

    def _limit(self, jobs: list[Job], together: int, left: int) -> None:
        """Give instances that enter a batch of so many their seconds; of a total time their part, as so many instances
        are left for it, in this batch or elsewhere."""
        now = time.monotonic()
        part = max(self._end - now, 0.0) * together / left
        for job in jobs:
            if self._divides:
                job.limit = part + max(now - job.entered, 0.0)  # who starts again has used some time in vain
            else:
                job.limit = math.inf if self.options.time_limit is None else self.options.time_limit

    @property
    def _end(self) -> float:
        """When the total time is over."""
        return math.inf if self.options.total_time is None else self.started + self.options.total_time

    def _spent(self, job: Job, now: float) -> float:
        """The share of an instance's time for sampling that is used up."""
        end = self._sampling_end(job)
        return min((now - job.entered) / (end - job.entered), 1.0) if end > job.entered else 1.0

    def _sampling_end(self, job: Job) -> float:
        return min(job.entered + job.limit * self._share(job), self._end - self._reserve(job))

    @torch.no_grad()
    def _stepper(self, crew: Crew) -> Stepper:
        """Only who takes a step needs what the network knows of a batch: a search may come first, or be all."""
        if self.stepper is not None and self.stepper.crew is crew:
            return self.stepper
        crew.prepare(self.options.block)
        denoise = self.bind(self.model.denoiser, crew.batch)
        follows, records, chain = self._follows_budget, self._records, self.model.chain
        self.stepper = Stepper(crew, denoise, chain, self.options, follows, records, self.watch)
        return self.stepper

    def _take_steps(self, crew: Crew) -> list[Step]:
        """Steps until the next look at the device. With `trace` it is one, and what it did is told."""
        options, now = self.options, time.monotonic()
        open_ = [job for job in crew.jobs if not job.answered]
        if options.steps == 0 or not any(job.limit * self._share(job) for job in open_):
            return []
        steps = 1 if self.trace else self.look_every
        if options.steps is not None:
            steps = min(steps, *(options.steps - job.steps for job in open_))
        spent = [self._spent(job, now) for job in crew.jobs] if self._follows_budget else None
        before = decode(crew.logits, crew.batch) if self.trace else None
        if before is not None:
            stepped = self._stepper(crew).once(spent)
        else:
            self._stepper(crew).advance(steps, spent)
        for job in crew.jobs:
            job.steps += steps
        self.steps_done += steps * len(open_)
        self._records = self.stepper is not None and self.stepper.records
        return [] if before is None else steps_of(self._ending(crew), before, stepped)

    # -- answers ---------------------------------------------------------------------------------------------------

    def _share(self, job: Job) -> float:
        """Of a time limit, what is for sampling: nothing, if a search follows, a step would take too much of it and
        nobody asked for steps."""
        share = sampling_share(job, self.options)
        if self.options.steps is not None or self.trace or self.device.type != "cpu" or share == 1:
            return share
        slowest = SLOWEST * job.limit
        allowed = slowest if job.completes or job.improves else max(slowest, QUICK)  # a tree may take milliseconds
        return share if self._step_seconds([job]) <= allowed else 0.0

    def _step_seconds(self, jobs: Iterable[Job]) -> float:
        """What a step takes on a slow CPU."""
        return self.options.chains * sum(job.terms for job in jobs) / PACE

    def _reserve(self, job: Job) -> float:
        """Of the total time, what the search after the last step needs: after a number of steps, little."""
        if self.options.total_time is None:
            return 0.0
        reserve = (1 - sampling_share(job, self.options)) * min(self._end - job.entered, job.limit)
        if job.all_or_nothing and self.others_wait:  # who cannot be solved must not keep them out
            return 0.0
        return reserve if self.options.steps is None else 0.1 * reserve

    def out_of_time(self) -> bool:
        return time.monotonic() >= self._end

    def _done(self, crew: Crew) -> list[bool]:
        """Which instances have an answer that is good enough, or have spent their budget."""
        reached = crew.reached.tolist()  # waits for the device: the clock comes after it
        now = time.monotonic()
        return [enough or self._late(job, now) for job, enough in zip(crew.jobs, reached, strict=True)]

    def _late(self, job: Job, now: float) -> bool:
        """Whether the time or the steps for sampling are spent."""
        return (
            (self.options.steps is not None and job.steps >= self.options.steps)
            or now - job.entered >= job.limit * self._share(job)
            or now >= self._end - self._reserve(job)
        )

    def _deadline(self, jobs: list[Job]) -> float:
        """When the first of them has to be answered."""
        return min([self._end, *(job.entered + job.limit for job in jobs)])
