"""Markdown tables from records. Published numbers stand in columns of their own, marked as such."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from blogdit.bench import datasets
from blogdit.bench import worth as worth_table
from blogdit.bench.markdown import NOTHING, markdown, partly, rounded, signed, with_interval
from blogdit.bench.measures import BEFORE, COVERED, Records, before, mean, names_of, with_raw, worth
from blogdit.bench.records import FIGURE, TABLE, Record
from blogdit.bench.suites import Case, Suite
from blogdit.bench.systems import systems

ARROWS = {"solved": "↑", "objective": "↑", "gap": "↓", "distance": "↓"}
MEANINGS = {
    "solved": "per cent of instances with a valid answer",
    "objective": "mean objective of valid answers; an invalid one counts 0",
    "gap": "mean of best known less found",
    "distance": "mean distance from the best answer of all rows, in per cent of the larger objective; an invalid one "
    "counts 100",
}


@cache
def published() -> dict[str, dict[str, dict[str, Any]]]:
    """Suite, system, case -> number."""
    return tomllib.loads((Path(__file__).parent / "published.toml").read_text())


def write_report(suite: Suite, records: Sequence[Record], out: Path, brief: bool = False) -> None:
    """The tables and the figure of a suite, from its records: of the cases that they have. `brief`: the first table."""
    there = {record["case"] for record in records}
    suite = replace(suite, cases=tuple(case for case in suite.cases if case.name in there))
    text = f"## {suite.title}\n\n{table(suite, records, brief)}\n{footer(suite, records)}"
    (out / TABLE).write_text(text)
    if records:
        from blogdit.bench.plots import draw

        draw(suite, records, out / FIGURE)


def table(suite: Suite, records: Sequence[Record], brief: bool = False) -> str:
    """Rows in the order of the suite, then others. A system without records has no row, but for published numbers."""
    labels, all_records = names_of(records, suite.entrants), Records(records)
    if brief and suite.table == "systems":
        return _values(suite, labels, with_raw(all_records))
    return TABLES[suite.table](suite, labels, all_records)


# -- tables -------------------------------------------------------------------------------------------------------


def _by_case(title: str, suite: Suite, labels: Sequence[str], cell: Callable[[Case, str], str]) -> str:
    """A row for each label, a column for each case; nothing without rows."""
    rows = [[label, *(cell(case, label) for case in suite.cases)] for label in labels]
    return markdown([title, *(case.name for case in suite.cases)], rows) if rows else ""


def _published(suite: Suite) -> tuple[list[Case], dict[str, dict[str, Any]]]:
    """The cases that have published numbers, and these numbers."""
    numbers = published().get(suite.name, {}) if suite.published else {}
    return [case for case in suite.cases if any(case.name in row for row in numbers.values())], numbers


def _by_system(suite: Suite, labels: Sequence[str], records: Records) -> str:
    searched = with_raw(records)
    tables = [
        _values(suite, labels, searched),
        _differences(suite, labels, searched),
        _refuted(suite, labels, records),
        _spent(suite, labels, records),
    ]
    return "\n".join(filter(None, tables))


def _values(suite: Suite, labels: Sequence[str], records: Records) -> str:
    """The metric of every system on every case, then what was published; the best of those that ran on all is bold."""
    known, numbers = _published(suite)
    present = names_of(records)
    labels = [name for label in labels for name in (label, before(label)) if name in present]
    cells: dict[tuple[str, str], str] = {}
    for case in suite.cases:
        counts = {label: records.counted(case, label) for label in labels}
        means = {label: records.measured(case, label) for label in labels}
        most = max(counts.values(), default=0)
        whole = [m.value for label, m in means.items() if m is not None and counts[label] == most]
        best = (min if ARROWS[case.metric] == "↓" else max)(whole, default=None)
        for label, m in means.items():
            part = partly(counts[label], most)
            cells[case.name, label] = with_interval(m, bold=m is not None and not part and m.value == best) + part
    live = [f"{case.name} {ARROWS[case.metric]}" for case in suite.cases]
    rows = []
    for label in [*labels, *(name for name in numbers if known and name not in labels)]:
        shown = [numbers.get(label, {}).get(case.name) for case in known]
        ours = [cells.get((case.name, label), NOTHING) for case in suite.cases]
        rows.append([label, *ours, *(NOTHING if value is None else f"{value:g}" for value in shown)])
    return markdown(["system", *live, *(f"{case.name}, published" for case in known)], rows)


def _differences(suite: Suite, labels: Sequence[str], records: Records) -> str:
    """Every system against the first on the instances that both ran on, also before their searches."""
    first, *others = labels or [""]
    pairs = {name: other for label in others for name, other in ((label, first), (before(label), before(first)))}
    found = {
        (name, case.name): records.difference(case, name, other)
        for name, other in pairs.items()
        for case in suite.cases
    }

    def cell(case: Case, name: str) -> str:
        m = found[name, case.name]
        return NOTHING if m is None else f"{with_interval(m, signed)} ({m.count})"

    shown = [name for name in pairs if any(found[name, case.name] for case in suite.cases)]
    return _by_case(f"less {first}, on the same instances", suite, shown, cell)


def _refuted(suite: Suite, labels: Sequence[str], records: Records) -> str:
    """Of how many instances a system has proved that they have no valid answer. A system that never did so has no row;
    one whose records do not say has an empty one."""
    found = {(label, case.name): records.refuted(case, label) for label in labels for case in suite.cases}
    told = {label: [m for case in suite.cases if (m := found[label, case.name])] for label in labels}
    if not any(m.value for means in told.values() for m in means):
        return ""

    def cell(case: Case, label: str) -> str:
        m = found[label, case.name]
        return with_interval(m) + partly(m.count if m else 0, records.counted(case, label))

    shown = [label for label, means in told.items() if not means or any(m.value for m in means)]
    return _by_case("shown to have no valid answer, %", suite, shown, cell)


def _spent(suite: Suite, labels: Sequence[str], records: Records) -> str:
    """Without an interval where all instances shared one call: that is one measurement."""

    def seconds(case: Case, label: str) -> str:
        return with_interval(records.timed(case, label), bracket=False)

    return _by_case("seconds per instance", suite, labels, seconds)


def _by_cost(suite: Suite, labels: Sequence[str], records: Records) -> str:
    """Seconds, steps per second, and what was published, which is about instances one by one."""

    def rate(case: Case, label: str) -> str:
        return with_interval(records.steps_per_second(case, label), rounded, bracket=False)

    known, numbers = _published(suite)
    shown = [
        (label, unit)
        for label, row in numbers.items()
        for unit in ("seconds", "steps")
        if any(unit in cell for cell in row.values())
    ]
    rows = [
        [case.name, *(str(numbers[label].get(case.name, {}).get(unit) or NOTHING) for label, unit in shown)]
        for case in known
    ]
    tables = [
        _spent(suite, labels, records),
        _by_case("steps per second, of all instances together", suite, labels, rate),
        markdown(["one instance", *(f"{label}: {unit}, published" for label, unit in shown)], rows) if rows else "",
    ]
    return "\n".join(filter(None, tables))


def _by_instance(suite: Suite, labels: Sequence[str], records: Records) -> str:
    numbers = published().get(suite.name, {}) if suite.published else {}
    instances: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        instances.setdefault((record["case"], record["instance"]), []).append(record)
    named = [label for label in labels if any(name in numbers.get(label, {}) for _, name in instances)]
    header = ["graph", "best known", *(f"{label}: mean ± sd [CI], best" for label in labels)]
    rows = []
    for (_, name), of in instances.items():
        best_known = next((record["best_known"] for record in of if record["best_known"] is not None), None)
        row = [name, NOTHING if best_known is None else f"{best_known:g}"]
        for label in labels:
            values = [worth(record, "objective") for record in of if record["system"] == label]
            m = mean(values) if values else None
            spread = f"{m.value:.1f} ± {np.std(values):.1f} [{m.low:.1f}, {m.high:.1f}]" if m else ""
            row.append(f"{spread}, {max(values):g}" if m else NOTHING)
        pairs = [numbers[label].get(name) for label in named]
        rows.append([*row, *(NOTHING if pair is None else f"{pair[0]:.10g} ± {pair[1]:.10g}" for pair in pairs)])
    return markdown([*header, *(f"{label}, published" for label in named)], rows)


def _by_trajectory(suite: Suite, labels: Sequence[str], records: Records) -> str:
    rows = []
    for label in labels:
        path = [record for record in records if record["system"] == label and record["kind"] == "path"]
        if path:
            right = [record["share_right"] for record in path]
            first = next((str(record["steps"]) for record in path if record["violated"] == 0), NOTHING)
            rows.append([label, str(path[-1]["steps"]), first, f"{100 * max(right):.1f}", f"{100 * right[-1]:.1f}"])
    return markdown(["system", "steps", "solved at step", "most cells right, %", "cells right at the end, %"], rows)


TABLES: dict[str, Callable[[Suite, Sequence[str], Records], str]] = {
    "systems": _by_system,
    "cost": _by_cost,
    "instances": _by_instance,
    "trajectory": _by_trajectory,
    "worth": worth_table.table,
}


# -- how the numbers came about -----------------------------------------------------------------------------------


def footer(suite: Suite, records: Sequence[Record]) -> str:
    """Instances, budgets, machine, commit, and notes."""
    records, by_system = Records(records), suite.table == "systems"
    names, lines = names_of(records), list[str]()
    counts = {case.name: {records.counted(case, label) for label in names} for case in suite.cases}
    for name, case in {case.group or case.name: case for case in suite.cases}.items():
        most = max(counts[case.name], default=0)
        told = [f"{name}: {datasets.split_named(case.split).summary}"]
        if not case.group:
            told += [f"{most} instance{'s' * (most > 1)}"] if most else []
            told += [*budgets(case, records), *([f"Measure: {MEANINGS[case.metric]}"] if by_system else [])]
        lines.append(". ".join(told) + ".")
    facts = {name: sorted({r[name] for r in records if name in r}) for name in ("device", "commit", "seed")}
    shown = [f"{name} {', '.join(map(str, values))}" for name, values in facts.items() if values]
    lines.append("; ".join([*shown, *_workers(names, records)]) + ".")
    if suite.table != "trajectory":
        lines.append(f"Brackets: {COVERED} % bootstrap intervals of the mean; none of seconds that are of one call.")
    lines.append("Every answer was checked by the same verifier.")
    if by_system and len(with_raw(records)) > len(records):
        lines.append(f"Rows `{BEFORE}`, also of the differences, are about what the chains had found by themselves.")
        if _published(suite)[0]:
            lines.append(f"Published numbers of networks are of chains alone, which have rows `{BEFORE}` here.")
    if by_system and any(len(found - {0}) > 1 for found in counts.values()):
        lines.append("(N): on N instances; of the first table, compare these cells by the differences alone.")
    if suite.table == "worth":
        lines += worth_table.footnotes(names, records)
    elif suite.table != "trajectory":
        weights = dict.fromkeys(f"{r['system']} {r['weights']}" for r in records if r.get("weights"))
        lines += [f"Weights: {', '.join(weights)}."] if weights else []
        lines += _without_steps(suite, names, records)
    lines += [suite.notes, suite.published_notes if suite.published else ""]
    return "".join(f"- {line}\n" for line in lines if line)


def _without_steps(suite: Suite, names: Sequence[str], records: Records) -> list[str]:
    """Networks that took no step, as one would have taken too long: that was the finisher alone."""
    found = []
    for label in names:
        steps = {case.name: [record["steps"] for record in records.cell(case, label)] for case in suite.cases}
        cases = [name for name, taken in steps.items() if taken and not any(taken)]
        if cases and label not in systems():
            found.append(f"{label} took no step of its network on {', '.join(cases)}: the search had all the time.")
    return found


def _workers(names: Sequence[str], records: Sequence[Record]) -> list[str]:
    """The CPU threads of systems that can use several."""
    threaded = [label for label in names if label in systems() and systems()[label].threaded]
    numbers = {label: sorted({r["workers"] for r in records if r["system"] == label}) for label in threaded}
    return [f"{label} with {' or '.join(map(str, n))} worker{'s' * (n != [1])}" for label, n in numbers.items()]


def budgets(case: Case, records: Records) -> list[str]:
    """What the systems had for an instance, as the records say: each budget with the systems that had it."""
    by_budget: dict[str, list[str]] = {}
    for label in names_of(records):
        chosen = records.cell(case, label)
        together = any(record.get("batch", 1) > 1 for record in chosen)
        runs = len({record.get("run") for record in chosen})
        for budget in dict.fromkeys(_budget(case, record, together) for record in chosen):
            by_budget.setdefault(f"{runs} runs in {budget}" if runs > 1 else budget, []).append(label)
    if len(by_budget) < 2:
        return [*by_budget] or [f"{case.seconds:g} s each"]
    return [f"{budget}: {', '.join(labels)}" for budget, labels in by_budget.items()]


def _budget(case: Case, record: Record, together: bool) -> str:
    if (steps := record.get("budget_steps", case.steps)) is not None:
        return f"{steps:,} steps each"
    if (seconds := record.get("budget_seconds", case.seconds)) is None:
        return "Steps of its own"
    if case.stretch:
        return f"{seconds:.3g} s" + (" for graphs of one size together" if together else " each")
    share = f"{seconds / record.get('batch', 1):.3g} s"
    return f"{share} for each of a batch, together" if together else f"{share} each"
