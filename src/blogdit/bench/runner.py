"""Runs a suite: every entrant on every case, records as they come, then a table and a figure from the records."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from blogdit import datasets
from blogdit.baselines import Budget, System
from blogdit.bench.options import Options, Tell
from blogdit.bench.own import Blogdit, Models, fingerprint, make, own_names
from blogdit.bench.records import TABLE, Record, RecordFile, device_name
from blogdit.bench.suites import SUITES, Case, Entrant, Suite
from blogdit.csp import Instance
from blogdit.errors import InputError
from blogdit.processes import Processes
from blogdit.result import Result
from blogdit.runtime import commit, resolve_device

TOGETHER = {"cpu": 16, "cuda": 4096}  # instances of one call to a system that solves them at the same time
FREE = ("data", "systems", "cases", "limit", "jobs")  # options that a run may go on with others of
LARGE = 500  # variables: of such instances a GPU gets 128 a call, so that an interrupted run loses minutes at most


@dataclass
class Cell:
    """One entrant on one case: what is left to do."""

    case: Case
    entrant: Entrant
    system: System
    waiting: list[Instance]
    jobs: int = 1  # calls at the same time
    seconds: float = 0.0  # of all calls so far
    done: int = 0

    def expected(self) -> float:
        """Seconds for what is left: as measured, or else at most what the budget allows."""
        each = self.seconds / self.done if self.done else self.case.seconds
        return each * (len(self.waiting) - self.done) / self.jobs


@dataclass
class Call:
    """Instances that a system solved together."""

    together: list[Instance]
    budget: Budget
    results: list[list[Result]]  # of each instance its runs
    seconds: float


@dataclass
class Work:
    """All cells of a suite."""

    cells: list[Cell]
    total: int
    done: int = 0

    def time_left(self) -> float:
        return sum(cell.expected() for cell in self.cells)


def find_suite(name: str) -> Suite:
    try:
        return SUITES[name]
    except KeyError:
        raise InputError(f"unknown suite {name!r}; expected quick or one of {', '.join(SUITES)}") from None


def run_suite(suite: Suite, out: Path, options: Options, models: Models, tell: Tell) -> list[Record]:
    """Go on with a suite until it is complete; returns all its records."""
    options = replace(options, device=str(resolve_device(options.device)))
    cases = _cases(suite, options)
    if options.quick:
        suite = replace(suite, runs=min(suite.runs, 4), published=False)
    entrants = _entrants(suite, options, models)
    file = RecordFile(out, _settings(suite, options, models))
    if suite.table == "trajectory":
        from blogdit.bench.trajectory import collect

        collect(suite, cases[0], entrants, file, options, models, tell)
        _report(suite, cases, entrants, file)
    else:
        work = plan(suite, cases, entrants, file.records, options, models, tell)
        if not work.cells:
            raise InputError(f"none of these systems can run on {suite.name} here; nothing was done")
        try:
            for records in perform(suite, work, options, tell):
                file.append(records)
        finally:  # also of a run that was stopped
            if file.records:
                _report(suite, cases, entrants, file)
    number = len(file.records)
    tell(f"{suite.name}: {number} record{'s' * (number != 1)}, see {out / TABLE}", None)
    return file.records


def _report(suite: Suite, cases: Sequence[Case], entrants: Sequence[Entrant], file: RecordFile) -> None:
    from blogdit.bench.tables import write_report

    file.write_csv()
    write_report(replace(suite, cases=tuple(cases)), entrants, file.records, file.folder)


def _cases(suite: Suite, options: Options) -> list[Case]:
    offered = suite.quick if options.quick else suite.cases
    names = [case.name for case in offered]
    unknown = [name for name in options.cases or () if name not in names]
    if unknown:
        raise InputError(f"{suite.name} has no case {unknown[0]!r}; expected some of {', '.join(names)}")
    return [options.case(case) for case in offered if options.cases is None or case.name in options.cases]


def _settings(suite: Suite, options: Options, models: Models) -> dict[str, Any]:
    kept = {key: value for key, value in asdict(options).items() if key not in FREE}
    named = {f"{name}/{problem}": fingerprint(path) for (name, problem), path in models.items()}
    return {"suite": suite.name, **kept, "models": named}


def _entrants(suite: Suite, options: Options, models: Models) -> list[Entrant]:
    """Those of the suite; if systems are named, these only, and also ones that are not in the suite. Last come models
    that have a name of their own."""
    rows, wanted = list(suite.entrants), own_names(models)
    if options.systems is not None:
        if not options.systems:
            raise InputError("expected --systems a,b,c, got none")
        rows = [entrant for entrant in rows if {entrant.label, entrant.system} & set(options.systems)]
        wanted = list(dict.fromkeys([*options.systems, *wanted]))
    present = {name for entrant in rows for name in (entrant.label, entrant.system)}
    return rows + [Entrant(name, name) for name in wanted if name not in present]


def plan(
    suite: Suite,
    cases: Sequence[Case],
    entrants: Sequence[Entrant],
    records: Sequence[Record],
    options: Options,
    models: Models,
    tell: Tell,
) -> Work:
    """What is left to do after the records that are there."""
    there = {(record["case"], record["system"], record["instance"]) for record in records}
    cells, total = [], 0
    absent: dict[str, list[str]] = {}
    made = {entrant.label: make(entrant.system, models, entrant.options) for entrant in entrants}
    for case in cases:
        instances = datasets.load(case.split, options.data, case.count)
        for entrant in entrants:
            system = made[entrant.label]
            reason = system.missing() or _misfit(system, instances[0])
            if reason is not None:
                absent.setdefault(reason, []).append(f"{entrant.label} on {case.name}")
                continue
            waiting = [one for one in instances if (case.name, entrant.label, one.name) not in there]
            total += len(instances)
            cells.append(Cell(case, entrant, system, waiting, 1 if system.batched else options.jobs))
    _check_models(models, {cell.waiting[0].problem for cell in cells if cell.waiting}, options)
    for reason, left_out in absent.items():
        tell(f"{suite.name}: {reason}; left out: {', '.join(left_out)}", None)
    return Work(cells, total, total - sum(len(cell.waiting) for cell in cells))


def _check_models(models: Models, problems: set[str], options: Options) -> None:
    """A model that would not run at all is a mistake; `quick` has suites of every problem."""
    for (name, problem), path in models.items():
        if problems and problem not in problems and not options.quick:
            raise InputError(
                f"--model {name}: is a model for {problem}; expected one for {', '.join(sorted(problems))}", path
            )


def _misfit(system: System, instance: Instance) -> str | None:
    if system.supports(instance):
        return None
    if isinstance(system, Blogdit):
        return f"no model of {system.name} for {instance.problem} (expected --model {system.name}=PATH)"
    return f"{system.name} does not solve {instance.problem}"


def perform(suite: Suite, work: Work, options: Options, tell: Tell) -> Iterator[list[Record]]:
    """Solve what is left; yields the records of each call."""
    facts = {"workers": options.workers, "jobs": options.jobs, "commit": commit()}
    devices = {True: device_name(options.device), False: device_name("cpu")}  # of systems that solve many at a time
    with Processes() as processes:
        for cell in work.cells:
            best_known = datasets.best_known(cell.case.split, options.data)
            for call in _calls(cell, suite.runs, options, processes, tell):
                number = len(call.together)
                shared = {
                    **{"suite": suite.name, "case": cell.case.name, "system": cell.entrant.label},
                    **{"call_seconds": round(call.seconds, 6), "seconds": round(call.seconds / number, 6)},
                    **{"batch": number, "budget_seconds": call.budget.seconds, "budget_steps": call.budget.steps},
                    **{"device": devices[cell.system.batched], "searches": cell.system.searches, **facts},
                    "weights": cell.system.provenance(call.together[0]),
                }
                cell.done += number
                cell.seconds += call.seconds
                work.done += number
                yield [
                    {**_result(result), **shared, "run": run, "best_known": best_known.get(result.instance.name)}
                    for runs in call.results
                    for run, result in enumerate(runs)
                ]
                tell(f"{suite.name}, {cell.case.name}, {cell.entrant.label}", work)


def _calls(cell: Cell, runs: int, options: Options, processes: Processes, tell: Tell) -> Iterator[Call]:
    """One call after the other, or several at a time, as they end. Who is stopped has those that have begun, too."""
    orders = [
        (cell.system, together, _budget(cell, together, options), options.seed, runs)
        for together in _batches(cell, options)
    ]
    if cell.jobs == 1:
        yield from (_call(*order) for order in orders)
        return
    pool = ThreadPoolExecutor(cell.jobs)  # a thread waits for a process: calls must not share Python's lock
    calls = [pool.submit(partial(processes.call, _call, *order)) for order in orders]
    try:
        for ended in as_completed(tuple(calls)):
            calls.remove(ended)
            yield ended.result()
    except KeyboardInterrupt:
        begun = [one for one in calls if not one.cancel()]
        tell(f"{cell.entrant.label}: waiting for calls that have begun", None)
        yield from (one.result() for one in as_completed(begun))
        raise
    finally:
        if not all(one.done() for one in calls):  # nobody waits for them any more
            processes.close()
        pool.shutdown(cancel_futures=True)


def _batches(cell: Cell, options: Options) -> list[list[Instance]]:
    """Which instances share a call: as many as may; in a stretch, those of one size."""
    waiting, on_cpu = cell.waiting, options.device == "cpu"
    if not cell.system.batched:
        return _parts(waiting, 1)
    if cell.case.stretch and cell.case.steps is None:
        sizes = dict.fromkeys(instance.size for instance in waiting)
        return _parts(waiting, 1) if on_cpu else [[one for one in waiting if one.size == size] for size in sizes]
    ordered = sorted(waiting, key=lambda instance: instance.size)  # those of one shape make a batch
    if on_cpu:
        return _parts(ordered, TOGETHER["cpu"])
    small, large = ([one for one in ordered if (one.size > LARGE) == is_large] for is_large in (False, True))
    return _parts(small, TOGETHER["cuda"]) + _parts(large, TOGETHER["cuda"] // 32)


def _parts(instances: Sequence[Instance], size: int) -> list[list[Instance]]:
    return [list(instances[start : start + size]) for start in range(0, len(instances), size)]


def _budget(cell: Cell, together: Sequence[Instance], options: Options) -> Budget:
    case, counts = cell.case, cell.system.counts
    shared = Budget(device=options.device, workers=options.workers, chains=case.chains)
    if case.steps is not None and counts != "seconds":
        own = counts == "own steps" and options.steps is None and not options.quick
        return replace(shared, steps=None if own else case.steps)
    return replace(shared, seconds=case.seconds * (len(together) if cell.system.batched and not case.stretch else 1))


def _call(system: System, together: list[Instance], budget: Budget, seed: int, runs: int) -> Call:
    system.warm_up(together, budget)
    began = time.monotonic()
    results = _solve(system, together, budget, seed, runs)
    return Call(together, budget, results, time.monotonic() - began)


def _solve(system: System, together: Sequence[Instance], budget: Budget, seed: int, runs: int) -> list[list[Result]]:
    if runs > 1:
        return system.solve_runs(together, budget, seed, runs)
    return [[result] for result in system.solve_many(together, budget, seed)]


def _result(result: Result) -> Record:
    found = result.record()
    return {
        **{
            name: found[name]
            for name in ("instance", "problem", "status", "objective", "raw_objective", "steps", "seed")
        },
        "violated": found["violations"],
        "raw_violated": found["raw_violations"],
        "verdict": "valid" if result.verdict.satisfied else "invalid",
        "exhausted": result.exhausted,
        "model": found["model"],
    }
