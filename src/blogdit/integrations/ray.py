"""Solve on all machines of a Ray cluster: `solve(instances, "answers/")`.

The driver reads the instances while they are solved and cuts them into shards. One worker per GPU (or per group of
cores) solves a shard at a time, and the driver writes its answers as one file, whole or not at all. The shard of a
worker that dies is repeated: its answers reach the driver once, or not yet. The noise of an instance depends on the
seed and on the instance alone, so with a budget in steps the answers are those of one machine.
"""

from __future__ import annotations

import json
import logging
import math
import os
import pickle
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, Unpack

from blogdit.api import solver_pool
from blogdit.core.errors import InputError
from blogdit.core.files import claim, replacing
from blogdit.core.instance import Instance
from blogdit.core.result import VALID
from blogdit.formats.json_text import from_json
from blogdit.formats.records import RecordFile
from blogdit.formats.solutions import record
from blogdit.network.runtime import set_threads
from blogdit.solver.events import Finished
from blogdit.solver.options import SolveKeywords
from blogdit.solver.streams import SolverPool

PER_SHARD = 512  # instances: some seconds of work, in which a worker fills its device
LARGEST_SHARD = 64 << 20  # bytes: a worker that dies loses little, and what waits fits the memory of the driver
AHEAD = 2  # shards of a worker: one in work, and one that is there when it is done
ATTEMPTS = 3  # at a shard whose worker died: machines that fail for another reason are rare
BETWEEN_LOOKS = 0.5  # seconds between questions whether to stop
GRACE = 30.0  # seconds for workers that were told to stop, to end their step and hand back what is done
SHARD = "shard-{:06d}.jsonl"


@dataclass(frozen=True)
class Shard:
    """What a worker made of some instances."""

    records: list[dict[str, Any]]
    errors: list[str]  # what could not be solved, and why
    worker: int  # its process


@dataclass(frozen=True)
class Summary:
    """What became of the instances."""

    solved: int  # now, with a valid answer or without
    skipped: int  # answered before
    skipped_invalid: int  # those of them that have no valid answer


class Worker:
    """Solves shards, one after the other, with models that stay loaded."""

    def __init__(self, model: str | None, device: str, threads: int | None, options: SolveKeywords):
        self.model, self.device, self.threads, self.options = model, device, threads, options
        self.errors: list[str] = []
        self.pool: SolverPool | None = None
        self.stopping = False

    def solve(self, instances: list[bytes]) -> Shard:
        """Those that were done when `stop` was called have their records, and the others have none."""
        if self.pool is None:  # not when the worker is made: what is wrong with a model would not reach the driver
            set_threads(self.threads)
            self.pool = solver_pool(self.model, self.device, self._note, **self.options)
        if self.stopping:
            self.pool.stop()
        self.errors.clear()
        found = {}
        for event in self.pool.run(map(pickle.loads, instances)):
            if isinstance(event, Finished) and event.complete:
                found[event.index] = record(event.result)
        return Shard([found[place] for place in sorted(found)], list(self.errors), os.getpid())

    def stop(self) -> None:
        """Ray calls it from another thread while `solve` works."""
        self.stopping = True
        if self.pool is not None:
            self.pool.stop()

    def _note(self, error: InputError) -> None:
        self.errors.append(str(error))


class Folder:
    """Shards of answers. `held` are the instances that they answer, each with its shard."""

    def __init__(self, path: str | Path, resume: bool):
        self.path = Path(path)
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._claim = open(self.path / ".lock", "ab")  # noqa: SIM115 (held as long as this object is)
        except OSError as error:
            raise InputError(f"cannot be written: {error.strerror or error}; expected a folder", path) from None
        claim(self._claim, self.path)
        self.held: dict[str, RecordFile] = {}
        self.skipped = self.skipped_invalid = 0
        for shard in sorted(self.path.glob(SHARD.format(0).replace("000000", "*"))):
            if not resume:
                raise InputError("holds answers already; expected --resume to go on with it, or another folder", path)
            with RecordFile(shard, resume=True) as records:
                self.held |= dict.fromkeys(records.held, records)
        self._numbers = (n for n in count() if not (self.path / SHARD.format(n)).exists())

    def unanswered(self, instances: Iterable[Instance]) -> Iterator[Instance]:
        """Those without an answer here. An answer to another question under the same name is an error."""
        for instance in instances:
            if (records := self.held.get(instance.name)) is None:
                yield instance
            else:
                records.check(instance)
                self.skipped += 1
                self.skipped_invalid += records.held[instance.name].status not in VALID

    def write(self, records: list[dict[str, Any]]) -> None:
        path = self.path / SHARD.format(next(self._numbers))
        try:
            with replacing(path) as file:
                file.writelines(json.dumps(one).encode() + b"\n" for one in records)
        except OSError as error:
            raise InputError(f"cannot be written: {error.strerror or error}", path) from None

    def close(self) -> None:
        self._claim.close()


def solve(
    instances: Any,
    out: str | Path,
    address: str | None = None,
    *,
    model: str | None = None,
    device: str = "auto",
    resume: bool = True,
    workers: int | None = None,
    cores: int = 1,
    per_shard: int = PER_SHARD,
    on_shard: Callable[[Shard], None] = lambda shard: None,
    stopped: Callable[[], bool] = lambda: False,
    **options: Unpack[SolveKeywords],
) -> Summary:
    """Solve instances on a Ray cluster and write their records to `out/shard-*.jsonl`.

    `instances` are Instances, or a `ray.data.Dataset` with a column `instance` of their JSON (docs/formats.md).
    `address` is that of a cluster: "auto" is the one of this machine, "local" a new one; None takes the one that this
    process is connected to, or else a new one. There is a worker for each GPU of the cluster, or without GPUs for each
    `cores` cores; `workers` asks for fewer. `resume` skips instances that `out` holds an answer to. A model that is
    named by a file must be at that place on every machine. `stopped` is asked now and then: once it says so, what is
    done is written and the workers end. `options` are those of `blogdit.solve`.
    """
    if options.get("total_time") is not None:
        raise InputError("a total time cannot be divided among machines; expected time_limit or steps")
    solver_pool(None, "cpu", **options)  # finds wrong options before any machine begins
    ray = connect(address)
    folder = Folder(out, resume)
    crew = None
    try:
        given = map(_from_row, instances.iter_rows()) if hasattr(instances, "iter_rows") else instances
        crew, done = Crew(ray, (model, device), workers, cores, options), 0
        for shard in crew.run(_shards(folder.unanswered(given), per_shard), stopped):
            if shard.records:
                folder.write(shard.records)
            done += len(shard.records)
            on_shard(shard)
        return Summary(done, folder.skipped, folder.skipped_invalid)
    finally:
        if crew is not None:
            crew.dismiss()
        folder.close()


def _shards(instances: Iterable[Instance], most: int) -> Iterator[list[bytes]]:
    """Instances as bytes, in groups of some size."""
    shard, size = list[bytes](), 0
    for instance in instances:
        shard.append(pickle.dumps(instance))
        size += len(shard[-1])
        if len(shard) >= most or size >= LARGEST_SHARD:
            yield shard
            shard, size = [], 0
    if shard:
        yield shard


@dataclass
class Job:
    """A shard on its way."""

    shard: Any  # where Ray has it
    name: str
    worker: Any = None
    deaths: int = 0  # of workers that had it


class Crew:
    """The workers. They are hired as shards come, up to one for each GPU or group of cores."""

    def __init__(
        self,
        ray: Any,
        model_and_device: tuple[str | None, str],
        workers: int | None,
        cores: int,
        options: SolveKeywords,
    ):
        self.ray, resources = ray, ray.cluster_resources()
        model, device = model_and_device
        gpus = 0 if device == "cpu" else int(resources.get("GPU", 0))
        if device == "cuda" and not gpus:
            raise InputError("the cluster has no GPU; expected --device cpu or auto")
        self.most = gpus or int(resources.get("CPU", 1)) // cores
        if not self.most:
            raise InputError(f"the cluster has fewer than {cores} cores")
        self.most = min(self.most, workers or self.most)
        self.arguments = (model, "cuda" if gpus else "cpu", None if gpus else cores, options)
        needs = {"num_gpus": 1} if gpus else {"num_cpus": cores}
        self.kind = ray.remote(concurrency_groups={"control": 1}, **needs)(Worker)  # `stop` has a thread of its own
        self.hired: list[Any] = []
        self.work: dict[Any, Job] = {}  # by the promise of its outcome
        self.again: list[Job] = []  # whose worker died

    def run(self, shards: Iterator[list[bytes]], stopped: Callable[[], bool]) -> Iterator[Shard]:
        """What workers make of the shards, in the order of completion."""
        more, end = True, math.inf
        while time.monotonic() < end:
            while not stopped() and (self.again or more) and (worker := self._free(0 if self.again else AHEAD - 1)):
                if self.again:
                    self._begin(self.again.pop(), worker)
                elif more := (shard := next(shards, None)) is not None:
                    self._begin(Job(self.ray.put(shard), _described(shard)), worker)
            if not self.work:
                return
            if stopped() and math.isinf(end):
                end = time.monotonic() + GRACE
                for worker in self.hired:
                    worker.stop.options(concurrency_group="control").remote()
            for done in self.ray.wait([*self.work], timeout=BETWEEN_LOOKS)[0]:
                if (outcome := self._outcome(self.work.pop(done), done)) is not None:
                    yield outcome

    def _free(self, most: int) -> Any:
        """Who has the least to do, and at most so many shards; somebody new if all have something to do; else None."""
        busy = Counter(job.worker for job in self.work.values())
        busy.update({job.worker: AHEAD for job in self.work.values() if job.deaths})  # alone with a suspect
        least = min(self.hired, key=lambda worker: busy[worker], default=None)
        if (least is None or busy[least]) and len(self.hired) < self.most:
            self.hired.append(least := self.kind.remote(*self.arguments))
        return least if busy[least] <= most else None

    def _begin(self, job: Job, worker: Any) -> None:
        job.worker = worker
        self.work[worker.solve.remote(job.shard)] = job

    def _outcome(self, job: Job, done: Any) -> Shard | None:
        """What a worker made of a shard; None if the worker died. Which of its shards was to blame nobody knows, so
        each of them is tried again, on a worker that has nothing else."""
        try:
            shard: Shard = self.ray.get(done)
            return shard
        except self.ray.exceptions.RayTaskError as error:
            if isinstance(error.cause, InputError):
                raise InputError(str(error.cause)) from None
            raise
        except self.ray.exceptions.RayActorError:
            self.hired = [worker for worker in self.hired if worker is not job.worker]
            job.deaths += 1
            if job.deaths <= ATTEMPTS:
                self.again.append(job)
                return None
            return Shard([], [f"{job.name}: not solved; {job.deaths} workers died while they had it"], 0)

    def dismiss(self) -> None:
        for worker in self.hired:
            self.ray.kill(worker)
        self.hired.clear()


def _described(shard: list[bytes]) -> str:
    name = pickle.loads(shard[0]).name or "an instance"
    return name if len(shard) == 1 else f"{name} and {len(shard) - 1} more"


def connect(address: str | None) -> Any:
    """Ray, as a module that is connected to the cluster."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing calls home
    try:
        import ray
    except ModuleNotFoundError:
        raise InputError("Ray is not installed; expected pip install 'blogdit[ray]'") from None
    if address is not None or not ray.is_initialized():
        try:
            ray.init(address, ignore_reinit_error=True, log_to_driver=False, logging_level=logging.ERROR)
        except (ConnectionError, ValueError, RuntimeError) as error:
            raise InputError(f"no Ray at {address!r}: {str(error).splitlines()[0]}") from None
    return ray


def _from_row(row: dict[str, Any]) -> Instance:
    try:
        return from_json(json.loads(row["instance"]))
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"expected a column 'instance' with the JSON of an instance: {error}") from None
