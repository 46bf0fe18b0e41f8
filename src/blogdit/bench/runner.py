"""Runs a suite: every entrant on every case, records as they come, then a table and a figure from the records."""

from __future__ import annotations

import fnmatch
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from blogdit.bench import datasets
from blogdit.bench.calls import Call, Cell, Run, Tell, Work, allowance, carry_out
from blogdit.bench.options import NothingToRun, Options, Unanswered
from blogdit.bench.records import TABLE, Record, RecordFile, device_name
from blogdit.bench.suites import SUITES, Case, Entrant, Suite
from blogdit.bench.user_suite import for_problem
from blogdit.bench.variants import GENERAL, Models, fingerprint, make, misfit, new_names
from blogdit.core.errors import InputError
from blogdit.core.processes import Processes
from blogdit.core.result import Result
from blogdit.network.runtime import commit, resolve_device

FREE = ("data", "systems", "cases", "limit", "jobs")  # options that may change when a run goes on


def run_suite(suite: Suite, out: Path, options: Options, models: Models, tell: Tell) -> list[Record]:
    """Go on with a suite until it is complete; returns all its records."""
    from blogdit.bench.plots import require_matplotlib

    require_matplotlib()  # before hours of work, not after
    options = replace(_accepted(options, suite), device=str(resolve_device(options.device)))
    if suite.checksum:
        models = for_problem(models, suite)
    if options.quick:
        suite = replace(suite, cases=suite.quick, runs=min(suite.runs, 4), published=False)
    run = Run(suite, _cases(suite, options), _entrants(suite, options, models), options, models, tell)
    with RecordFile(out, _settings(suite, options, models)) as file:
        try:
            _go_on(run, file)
        finally:  # also of a run that was stopped
            _report(suite, file, options)
    number = len(file.records)
    tell(f"{suite.name}: {number} record{'s' * (number != 1)}, see {out / TABLE}", None)
    return file.records


def _accepted(options: Options, suite: Suite) -> Options:
    """Without what the suite has of its own; of `quick`, other suites may take it."""
    given = [name for name in suite.refuses if getattr(options, name) is not None]
    if given and not options.quick:
        raise InputError(f"{suite.name} has its own {given[0]}; expected no --{given[0]}")
    ignored: dict[str, Any] = dict.fromkeys(given)
    return replace(options, **ignored)


def _go_on(run: Run, file: RecordFile) -> None:
    """What the records lack."""
    if run.suite.table == "trajectory":
        from blogdit.bench.trajectory import collect

        return collect(run, file)
    work = plan(run, file.records)
    for records in perform(run, work):
        file.append(records)
    if work.failed:
        each = ", ".join(f"{name} ({count})" for name, count in Counter(work.failed).items())
        raise Unanswered(
            f"{run.suite.name}: no answer to some instances: {each}, see above; the same command asks again"
        )


def _report(suite: Suite, file: RecordFile, options: Options) -> None:
    """Of all cases that the records have, also those of earlier runs."""
    from blogdit.bench.tables import write_report

    if file.records:
        cases = tuple(options.case(case) for case in suite.cases)
        try:
            file.write_csv()
            write_report(replace(suite, cases=cases), file.records, file.folder)
        except OSError as error:
            raise InputError(f"cannot be written: {error.strerror or error}", file.folder) from None


def _cases(suite: Suite, options: Options) -> list[Case]:
    names, wanted = [case.name for case in suite.cases], options.cases
    if wanted is not None:
        if not wanted:
            raise InputError("expected --cases a,b,c, got none")
        elsewhere = {case.name for other in SUITES.values() for case in other.quick} if options.quick else set()
        known = [*names, *sorted(elsewhere - set(names))]
        if unknown := [pattern for pattern in wanted if not fnmatch.filter(known, pattern)]:
            raise InputError(f"{suite.name} has no case {unknown[0]!r}; expected some of {', '.join(known)}")
        names = [name for name in names if any(fnmatch.fnmatchcase(name, pattern) for pattern in wanted)]
    here = options.device.partition(":")[0]
    chosen = [case for case in suite.cases if case.name in names and case.device in (None, here)]
    if not chosen:
        had = [case.name for case in suite.cases if case.device in (None, here)]
        raise NothingToRun(f"{suite.name} has none of these cases; it has {', '.join(had)}")
    return [options.case(case) for case in chosen]


def _settings(suite: Suite, options: Options, models: Models) -> dict[str, Any]:
    kept = {key: value for key, value in asdict(options).items() if key not in FREE}
    named = {f"{name}/{problem}": fingerprint(path) for (name, problem), path in models.items()}
    return {"suite": suite.name, **kept, "models": named, **({"instances": suite.checksum} if suite.checksum else {})}


def _entrants(suite: Suite, options: Options, models: Models) -> list[Entrant]:
    """Those of the suite; if systems are named, these only, and also ones that are not in the suite. Last come models
    that have a name of their own."""
    rows, wanted = list(suite.entrants), new_names(models)
    if options.systems is not None:
        if not options.systems:
            raise InputError("expected --systems a,b,c, got none")
        rows = [entrant for entrant in rows if {entrant.label, entrant.system} & set(options.systems)]
        wanted = list(dict.fromkeys([*options.systems, *wanted]))
    present = {name for entrant in rows for name in (entrant.label, entrant.system)}
    return rows + [Entrant(name, name) for name in wanted if name not in present]


def plan(run: Run, records: Sequence[Record]) -> Work:
    """What is left to do after the records that are there."""
    there = {(record["case"], record["system"], record["instance"]) for record in records}
    cells, total, absent = [], 0, defaultdict(list)
    made = {entrant.label: make(entrant.system, run.models, entrant.options) for entrant in run.entrants}
    for case in run.cases:
        instances = datasets.load(case.split, run.options.data, case.count)
        for entrant in run.entrants:
            system = made[entrant.label]
            reason = misfit(system, instances[0])
            if reason is not None:
                absent[reason].append(f"{entrant.label} on {case.name}")
                continue
            waiting = [one for one in instances if (case.name, entrant.label, one.name) not in there]
            total += len(instances)
            cell = Cell(case, entrant, system, waiting)
            jobs = 1 if cell.takes_many else run.options.jobs
            cells.append(replace(cell, jobs=jobs, allowed=allowance(cell, run.options)))
    _check_models(run.models, {cell.waiting[0].problem for cell in cells if cell.waiting}, run.options)
    run.leave_out(absent, everything=not cells)
    return Work(cells, total, total - sum(len(cell.waiting) for cell in cells))


def _check_models(models: Models, problems: set[str], options: Options) -> None:
    """A model that would not run at all is a mistake; `quick` has suites of every problem."""
    for (name, problem), path in models.items():
        if problems and problem not in (*problems, GENERAL) and not options.quick:
            raise InputError(
                f"--model {name}: is a model for {problem}; expected one for {', '.join(sorted(problems))}", path
            )


def perform(run: Run, work: Work) -> Iterator[list[Record]]:
    """Solve what is left; yields the records of each call."""
    suite, options, tell = run.suite, run.options, run.tell
    facts = {"suite": suite.name, "workers": options.workers, "jobs": options.jobs, "commit": commit()}
    with Processes() as processes:
        for cell in work.cells:
            best_known = datasets.best_known(cell.case.split, options.data)
            place = f"{suite.name}, {cell.case.name}, {cell.entrant.label}"
            if cell.waiting:
                tell(place, work)
            for call in carry_out(cell, run, processes):
                count = len(call.together)
                cell.done += count
                cell.seconds += call.seconds
                work.done += count
                if call.error is not None:
                    work.failed += [cell.entrant.label] * count
                    tell(f"{place}, {_names(call)}: {call.error}", None)
                    continue
                shared = {
                    **{**facts, "case": cell.case.name, "system": cell.entrant.label},
                    **{"call_seconds": round(call.seconds, 6), "seconds": round(call.seconds / count, 6)},
                    **{"batch": count, "budget_seconds": call.budget.seconds, "budget_steps": call.budget.steps},
                    "device": device_name(options.device if cell.system.batched else "cpu"),
                    "searches": cell.system.searches,
                    "weights": cell.system.provenance(call.together[0]),
                }
                yield [
                    {**_result(one, cell.system.searches), **shared, "run": number, "best_known": best_known.get(name)}
                    for runs in call.results
                    for number, one in enumerate(runs)
                    for name in [one.instance.name]
                ]
                tell(place, work)


def _names(call: Call) -> str:
    first, *others = (instance.name for instance in call.together)
    return f"{first} and {len(others)} more" if others else first


def _result(result: Result, searches: bool) -> Record:
    """What `docs/records` keeps of a result. The columns `raw_...` are what the sampler alone had, where something else
    followed it."""
    found, sampler = result.record(), result.sampler if searches else None
    names = ("instance", "problem", "status", "objective", "steps", "seed", "model", "found_by", "proved_by")
    return {
        **{name: found[name] for name in names},
        "raw_objective": sampler and sampler.objective,
        "violated": found["violations"],
        "raw_violated": sampler and (sampler.violations if result.instance.objective is None else None),
        "verdict": "valid" if result.verdict.satisfied else "invalid",
        "exhausted": result.proof == "infeasible",
    }
