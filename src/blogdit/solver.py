"""The anytime loop: many chains on many instances, until each has an answer or its budget is spent.

A `Solver` runs instances of one shape as one batch on the device. Instances that are done leave the batch, others take
their places. Every answer is checked exactly when its `Result` is built. The noise of an instance depends on the seed
and on the instance alone, so its answer does not depend on its company.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from blogdit.blocks import SELECTORS, SelectorName, decode
from blogdit.chain import reverse_step
from blogdit.checkpoint import Model
from blogdit.constraints import IntArray
from blogdit.crew import Crew, Job, shape_of
from blogdit.csp import Instance
from blogdit.denoiser import in_bfloat16
from blogdit.energy import energy, objective, one_hot, violation_scores
from blogdit.errors import InputError
from blogdit.polish import can_polish, polish
from blogdit.result import Result

TOLERANCE = 1e-6  # energies closer than this are equal: sums of real weights depend on the order of addition


@dataclass(frozen=True)
class SolveOptions:
    """Budgets (the first that is reached ends an instance) and how to search."""

    steps: int | None = None
    time_limit: float | None = None  # seconds for one instance, from when it enters the batch
    total_time: float | None = None  # seconds for everything
    target: float | None = None  # stop at an objective this good
    first_feasible: bool = False  # stop at the first valid answer, also if there is an objective
    chains: int = 1
    block: SelectorName = "random"
    cycle: int = 100  # steps of a block schedule; a chain that has not improved for so long starts it again (reheat)
    polish: bool = True
    batch_size: int = 256  # instances on the device at a time
    seed: int = 0

    def __post_init__(self) -> None:
        if self.block not in SELECTORS:
            raise ValueError(f"block must be one of {', '.join(SELECTORS)}, got {self.block!r}")
        for name in ("chains", "cycle", "batch_size"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        for name in ("steps", "time_limit", "total_time"):
            value = getattr(self, name)
            if value is not None and not value >= 0:
                raise ValueError(f"{name} must not be negative, got {value}")
        if self.target is not None and not math.isfinite(self.target):
            raise ValueError(f"target must be finite, got {self.target}")

    @property
    def unlimited(self) -> bool:
        return self.steps is None and self.time_limit is None and self.total_time is None


@dataclass(frozen=True)
class Step:
    """What one reverse step did to one instance's first chain; for traces and live displays."""

    index: int
    instance: Instance
    step: int
    rate: float
    block: IntArray  # variables that were resampled
    changed: IntArray  # those whose value changed
    values: IntArray
    violations: float
    energy: float
    confidence: float  # mean probability of the decoded values
    result: Result | None  # a new best answer, checked, if this step (of any chain) found one


@dataclass(frozen=True)
class Finished:
    """An instance that is done."""

    index: int
    result: Result


class Solver:
    """Runs a model on instances. `events` is the loop; `results` and `solve` are what most callers want."""

    def __init__(self, model: Model, options: SolveOptions, device: torch.device | str = "cpu"):
        self.model, self.options, self.device = model, options, torch.device(device)
        self.model.denoiser.to(self.device).eval()
        self.denoise = in_bfloat16(model.denoiser) if self.device.type == "cuda" else model.denoiser
        self.batch_size = options.batch_size
        self.trace = False
        self.steps_done = 0

    def sample(self, instance: Instance, count: int, steps: int) -> list[Result]:
        """The last states of `count` chains after `steps` steps, each checked: samples, not the best ones."""
        start = time.monotonic()
        counted = Solver(self.model, replace(self.options, chains=count, steps=steps, polish=False), self.device)
        with torch.inference_mode():
            crew = counted._prepare(counted._enter([Job(0, instance)]))
            for _ in range(steps):
                for _ in counted._step(crew):
                    pass
            values = crew.batch.per_instance(decode(crew.logits, crew.batch))[:, 0, : instance.size].cpu().numpy()
        seconds = time.monotonic() - start
        return [Result(instance, v, steps, seconds, self.options.seed, self.model.name) for v in values]

    def results(self, instances: Iterable[Instance]) -> Iterator[tuple[int, Result]]:
        """(index, result) of every instance as it is done, in the order of completion."""
        for event in self.events(instances):
            if isinstance(event, Finished):
                yield event.index, event.result

    def events(self, instances: Iterable[Instance]) -> Iterator[Step | Finished]:
        """The loop; with `trace`, also every step. Reads ahead by a bounded number, to fill batches of one shape."""
        start = time.monotonic()
        source, waiting, crew = enumerate(instances), deque[Job](), None
        with torch.inference_mode():
            while True:
                while len(waiting) < 4 * self.batch_size and (following := next(source, None)) is not None:
                    waiting.append(Job(*following))
                crew = self._refill(crew, waiting)
                if crew is None:
                    return
                try:
                    yield from self._step(crew)
                except torch.cuda.OutOfMemoryError:
                    self._shrink(crew, waiting)
                    crew = None
                    continue
                done, events = self._finished(crew, start)
                yield from events
                crew = self._without(crew, done)

    # -- who is in the batch ---------------------------------------------------------------------------------------

    def _refill(self, crew: Crew | None, waiting: deque[Job]) -> Crew | None:
        """Let waiting instances of the crew's shape in, once a quarter of the places are free (joining costs)."""
        free = self.batch_size - (len(crew.jobs) if crew else 0)
        if not waiting or (crew is not None and free < max(1, self.batch_size // 4)):
            return crew
        shape = (crew.batch.variables, crew.batch.values) if crew else shape_of(waiting[0].instance)
        fitting = [job for job in waiting if shape_of(job.instance) == shape][:free]
        if not fitting:
            return crew
        chosen = {job.index for job in fitting}
        remaining = [job for job in waiting if job.index not in chosen]
        waiting.clear()
        waiting.extend(remaining)
        newcomers = self._enter(fitting)
        return self._prepare(newcomers if crew is None else crew.join(newcomers))

    def _enter(self, jobs: list[Job]) -> Crew:
        return Crew.enter(jobs, self.model, self.options.chains, self.options.seed, self.device)

    def _prepare(self, crew: Crew) -> Crew:
        return crew.prepare(self.model, self.options.block, self.options.seed)

    def _without(self, crew: Crew, done: list[int]) -> Crew | None:
        if not done:
            return crew
        leaving = set(done)
        staying = [place for place in range(len(crew.jobs)) if place not in leaving]
        return self._prepare(crew.keep(staying)) if staying else None

    def _shrink(self, crew: Crew, waiting: deque[Job]) -> None:
        """Out of device memory: everybody starts again, in batches of half the size."""
        torch.cuda.empty_cache()
        if self.batch_size == 1:
            raise InputError("one instance does not fit the device's memory; expected fewer --chains or --device cpu")
        self.batch_size = max(1, min(self.batch_size, len(crew.jobs)) // 2)
        waiting.extendleft(reversed(crew.jobs))

    # -- one step --------------------------------------------------------------------------------------------------

    def _progress(self, crew: Crew) -> Tensor:
        """How far each chain is along its block schedule, (chains, B)."""
        return crew.since_reheat / max(self.options.cycle - 1, 1)

    def _step(self, crew: Crew) -> Iterator[Step | Finished]:
        """One reverse step of every chain; keeps what is better than before."""
        batch, options = crew.batch, self.options
        if options.steps == 0 or options.time_limit == 0 or options.total_time == 0:
            return
        rate = self.model.chain.schedule.rate(self._progress(crew)[..., None])
        before = decode(crew.logits, batch) if self.trace else None
        crew.redraw_codes()
        block = crew.selector.draw(crew.logits, rate, crew.noise)
        step = reverse_step(self.denoise, crew.context, batch, crew.logits, block, self.model.chain, crew.noise)
        crew.logits = step.logits
        values = decode(crew.logits, batch)
        x = one_hot(values, batch).double()
        total = energy(x, batch).view(options.chains, -1)  # (chains, B)
        better = self._keep_best(crew, values, x, total)
        self._reheat(crew, total)
        self.steps_done += 1
        for job in crew.jobs:
            job.steps += 1
        if self.trace and before is not None:
            yield from self._trace(crew, before, block, rate, total, better.tolist())

    def _keep_best(self, crew: Crew, values: Tensor, x: Tensor, total: Tensor) -> Tensor:
        """Remember what is better than before; returns for which instances, (B,)."""
        batch = crew.batch
        values = batch.per_instance(values)  # (chains, B, N)
        everyone = torch.arange(batch.size, device=self.device)
        lowest, chain = total.min(0)
        better = lowest < crew.best_energy - TOLERANCE
        crew.best_energy = torch.where(better, lowest, crew.best_energy)
        crew.best_values = torch.where(better[:, None], values[chain, everyone], crew.best_values)
        if not batch.optimisation:
            return better
        f = objective(x, batch).view(self.options.chains, -1)
        valid = total - f < TOLERANCE  # no penalty
        lowest, chain = torch.where(valid, f, math.inf).min(0)
        better_valid = lowest < crew.best_objective - TOLERANCE
        crew.best_objective = torch.where(better_valid, lowest, crew.best_objective)
        crew.best_valid = torch.where(better_valid[:, None], values[chain, everyone], crew.best_valid)
        return better | better_valid

    def _reheat(self, crew: Crew, total: Tensor) -> None:
        """A chain that has not improved for a whole cycle begins its block schedule again."""
        gained = total < crew.chain_best - TOLERANCE
        crew.chain_best = torch.minimum(crew.chain_best, total)
        crew.since_gain = torch.where(gained, 0, crew.since_gain + 1)
        crew.since_reheat = crew.since_reheat + 1
        stuck = (crew.since_reheat >= self.options.cycle) & (crew.since_gain >= self.options.cycle // 2)
        crew.since_reheat = torch.where(stuck, 0, crew.since_reheat)
        crew.since_gain = torch.where(stuck, 0, crew.since_gain)
        crew.chain_best = torch.where(stuck, total, crew.chain_best)

    def _trace(
        self, crew: Crew, before: Tensor, block: Tensor, rate: Tensor, total: Tensor, better: list[bool]
    ) -> Iterator[Step | Finished]:
        batch, now, values = crew.batch, time.monotonic(), decode(crew.logits, crew.batch)
        scores = batch.per_instance(violation_scores(values, batch))[0]
        sure = batch.per_instance(crew.logits.softmax(-1).amax(-1))[0]
        first = [batch.per_instance(t)[0].cpu().numpy() for t in (block, before != values, values)]
        for place, job in enumerate(crew.jobs):
            n = job.instance.size
            yield Step(
                index=job.index,
                instance=job.instance,
                step=job.steps,
                rate=float(rate[0, place]),
                block=np.flatnonzero(first[0][place, :n]),
                changed=np.flatnonzero(first[1][place, :n]),
                values=first[2][place, :n],
                violations=float(scores[place].sum()),
                energy=float(total[0, place]),
                confidence=float(sure[place, :n].mean()),
                result=self._result(crew, place, now) if better[place] else None,
            )

    # -- answers ---------------------------------------------------------------------------------------------------

    def _finished(self, crew: Crew, start: float) -> tuple[list[int], list[Finished]]:
        """Places of the instances that are done, and their results."""
        options, now = self.options, time.monotonic()
        solved = (crew.best_energy <= TOLERANCE).tolist()
        objectives = crew.best_objective.tolist()
        out_of_time = options.total_time is not None and now - start >= options.total_time
        done, events = [], []
        for place, job in enumerate(crew.jobs):
            goal = job.instance.objective
            if goal is None:
                enough = solved[place]
            else:
                enough = options.first_feasible and math.isfinite(objectives[place])
                if options.target is not None:
                    sign = 1.0 if goal.sense == "minimize" else -1.0
                    enough |= objectives[place] <= sign * options.target + TOLERANCE
            late = options.time_limit is not None and now - job.entered >= options.time_limit
            late |= options.steps is not None and job.steps >= options.steps
            if enough or late or out_of_time:
                done.append(place)
                events.append(Finished(job.index, self._result(crew, place, now)))
        return done, events

    def _result(self, crew: Crew, place: int, now: float) -> Result:
        """The best answer of an instance, checked; with an objective, polished if that was asked for."""
        job, n = crew.jobs[place], crew.jobs[place].instance.size
        values = crew.best_values[place, :n].cpu().numpy()
        facts: dict[str, Any] = {
            "steps": job.steps, "seed": self.options.seed, "model": self.model.name, "seconds": now - job.entered,
        }  # fmt: skip
        goal = job.instance.objective
        if goal is None:
            return Result(job.instance, values, **facts)
        raw = Result(job.instance, crew.best_valid[place, :n].cpu().numpy(), **facts)
        if not (self.options.polish and can_polish(job.instance)):
            return raw if raw.verdict.satisfied else Result(job.instance, values, **facts)
        facts["raw_objective"] = raw.objective if raw.verdict.satisfied else None
        best: Result | None = None
        for start in ([raw.values] if raw.verdict.satisfied else []) + [values]:
            found = Result(job.instance, polish(job.instance, start), **facts)
            worth = found.verdict.satisfied and found.objective is not None
            if best is None or (worth and goal.better(found.objective or 0.0, best.objective or 0.0)):
                best = found
        assert best is not None
        return best
