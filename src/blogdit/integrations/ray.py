"""Solve on all machines of a Ray cluster: `solve(instances, "answers/")`.

The driver reads the instances and cuts them into shards. One worker per GPU (or per group of cores) solves a shard at a
time, and the driver writes its answers as one file, whole or not at all. A shard whose worker dies goes to another one:
its answers reach the driver once, or not yet. The noise of an instance depends on the seed and on the instance alone,
so with a budget in steps the answers are those of one machine.
"""

from __future__ import annotations

import json
import logging
import os
import pickle
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import count, islice
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

PER_SHARD = 512  # instances: some seconds of work, in which a worker fills its device
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
        set_threads(threads)
        self.errors: list[str] = []
        self.pool = solver_pool(model, device, lambda error: self.errors.append(str(error)), **options)

    def __call__(self, rows: dict[str, Any]) -> dict[str, list[bytes]]:
        return {"shard": [pickle.dumps(self.solve(pickle.loads(one))) for one in rows["instances"]]}

    def solve(self, instances: list[Instance]) -> Shard:
        self.errors.clear()
        found = {event.index: event.result for event in self.pool.run(instances) if isinstance(event, Finished)}
        return Shard([record(found[place]) for place in sorted(found)], list(self.errors), os.getpid())


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
    **options: Unpack[SolveKeywords],
) -> Summary:
    """Solve instances on a Ray cluster and write their records to `out/shard-*.jsonl`.

    `instances` are Instances, or a `ray.data.Dataset` with a column `instance` of their JSON (docs/formats.md).
    `address` is that of a cluster: "auto" is the one of this machine, "local" a new one; None takes the one that this
    process is connected to, or else a new one. There is a worker for each GPU of the cluster, or without GPUs for each
    `cores` cores; `workers` asks for fewer. `resume` skips instances that `out` holds an answer to. A model that is
    named by a file must be at that place on every machine. `options` are those of `blogdit.solve`.
    """
    if options.get("total_time") is not None:
        raise InputError("a total time cannot be divided among machines; expected time_limit or steps")
    solver_pool(None, "cpu", **options)  # finds wrong options before any machine begins
    ray = connect(address)
    folder = Folder(out, resume)
    try:
        given = map(_from_row, instances.iter_rows()) if hasattr(instances, "iter_rows") else instances
        left = folder.unanswered(given)
        shards = [{"instances": pickle.dumps(some)} for some in iter(lambda: list(islice(left, per_shard)), [])]
        done = 0
        for shard in _run(ray, shards, (model, device), workers, cores, options):
            if shard.records:
                folder.write(shard.records)
            done += len(shard.records)
            on_shard(shard)
        return Summary(done, folder.skipped, folder.skipped_invalid)
    finally:
        folder.close()


def _run(
    ray: Any,
    shards: list[dict[str, bytes]],
    model_and_device: tuple[str | None, str],
    workers: int | None,
    cores: int,
    options: SolveKeywords,
) -> Iterator[Shard]:
    """What workers make of the shards, in the order of completion."""
    if not shards:
        return
    resources = ray.cluster_resources()
    model, device = model_and_device
    gpus = 0 if device == "cpu" else int(resources.get("GPU", 0))
    if device == "cuda" and not gpus:
        raise InputError("the cluster has no GPU; expected --device cpu or auto")
    most = gpus or int(resources.get("CPU", 1)) // cores
    if not most:
        raise InputError(f"the cluster has fewer than {cores} cores")
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    context.execution_options.preserve_order = False
    needs = {"num_gpus": 1} if gpus else {"num_cpus": cores}
    solved = ray.data.from_items(shards, override_num_blocks=len(shards)).map_batches(
        Worker,
        fn_constructor_args=(model, "cuda" if gpus else "cpu", None if gpus else cores, options),
        batch_size=1,
        # Ray restarts a worker that dies, and repeats its shard.
        compute=ray.data.ActorPoolStrategy(size=min(most, workers or most, len(shards))),
        **needs,
    )
    for row in solved.iter_rows():
        yield pickle.loads(row["shard"])


def connect(address: str | None) -> Any:
    """Ray, as a module that is connected to the cluster."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing calls home
    try:
        import ray
        import ray.data
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
