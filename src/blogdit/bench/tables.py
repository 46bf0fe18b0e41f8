"""Markdown tables from records. Published numbers stand in columns of their own, marked as such."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from blogdit.bench import datasets
from blogdit.bench.measures import (
    BEFORE,
    Records,
    before,
    counted,
    difference,
    measured,
    names_of,
    refuted,
    select,
    steps_per_second,
    timed,
    with_raw,
)
from blogdit.bench.records import FIGURE, TABLE, Record
from blogdit.bench.statistics import COVERED, Mean, mean, worth
from blogdit.bench.suites import Case, Suite
from blogdit.bench.systems import systems

NOTHING = "-"
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


def write_report(suite: Suite, records: Sequence[Record], out: Path) -> None:
    """The table and the figure of a suite, from its records: of the cases that they have."""
    there = {record["case"] for record in records}
    suite = replace(suite, cases=tuple(case for case in suite.cases if case.name in there))
    text = f"## {suite.title}\n\n{table(suite, records)}\n{footer(suite, records)}"
    (out / TABLE).write_text(text)
    if records:
        from blogdit.bench.plots import draw

        draw(suite, records, out / FIGURE)


def table(suite: Suite, records: Sequence[Record]) -> str:
    """Rows in the order of the suite, then others. Who has no record has no row, but for published numbers."""
    return TABLES[suite.table](suite, names_of(records, suite.entrants), Records(records))


def _number(value: float, sign: str = "-") -> str:
    return f"{value:{sign if value else '-'}.3g}" if abs(value) < 1 else f"{value:{sign}.2f}"


def _cell(found: Mean | None, best: bool = False, sign: str = "-") -> str:
    if found is None:
        return NOTHING
    value, low, high = (_number(number, sign) for number in (found.value, found.low, found.high))
    return f"{f'**{value}**' if best else value} [{low}, {high}]"


def _seconds(found: Mean | None) -> str:
    """Without an interval where all instances shared one call: that is one measurement."""
    return _number(found.value) if found is not None and found.low == found.high else _cell(found)


def _markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---", *["---:"] * (len(header) - 1)], *rows]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def _published(suite: Suite, cases: Sequence[Case]) -> tuple[list[Case], dict[str, dict[str, Any]]]:
    """The cases that have published numbers, and these numbers."""
    numbers = published().get(suite.name, {}) if suite.published else {}
    return [case for case in cases if any(case.name in row for row in numbers.values())], numbers


def _by_system(suite: Suite, labels: Sequence[str], records: Records) -> str:
    searched = with_raw(records)
    tables = [
        _values(suite, labels, searched),
        _differences(suite, labels, searched),
        _refuted(suite, labels, records),
        _spent(suite, labels, records),
    ]
    return "\n".join(filter(None, tables))


def _refuted(suite: Suite, labels: Sequence[str], records: Records) -> str:
    """Who has shown of instances that they have no valid answer. Whoever never did has no row; one of nothing is that
    of a system whose records do not say."""
    rows, somebody = [], False
    for label in labels:
        found = {case: refuted(records, case, label) for case in suite.cases}
        shows = any(m and m.value for m in found.values())
        somebody |= shows
        if shows or not any(found.values()):
            counts = {case: counted(records, case, label) for case in suite.cases}
            rows.append([label, *(_cell(m) + _part(m.count if m else 0, counts[case]) for case, m in found.items())])
    header = ["shown to have no valid answer, %", *(case.name for case in suite.cases)]
    return _markdown(header, rows) if somebody else ""


def _part(count: int, of: int) -> str:
    return f" ({count})" if 0 < count < of else ""


def _spent(suite: Suite, labels: Sequence[str], records: Records) -> str:
    rows = [[label, *(_seconds(timed(records, case, label)) for case in suite.cases)] for label in labels]
    return _markdown(["seconds per instance", *(case.name for case in suite.cases)], rows)


def _values(suite: Suite, labels: Sequence[str], records: Records) -> str:
    """The metric of every system on every case, then what was published; the best of those that ran on all is bold."""
    known, numbers = _published(suite, suite.cases)
    present = names_of(records)
    labels = [name for label in labels for name in (label, before(label)) if name in present]
    best, all_of = {}, {}
    for case in suite.cases:
        counts = {label: counted(records, case, label) for label in labels}
        all_of[case.name] = max(counts.values(), default=0)
        whole = [label for label in labels if counts[label] == all_of[case.name]]  # others ran on a part
        found = [m.value for label in whole if (m := measured(records, case, label)) is not None]
        best[case.name] = (min if ARROWS[case.metric] == "↓" else max)(found, default=None)
    header = [
        "system",
        *(f"{c.name} {ARROWS[c.metric]}" for c in suite.cases),
        *(f"{c.name}, published" for c in known),
    ]
    rows = []
    for label in [*labels, *(name for name in numbers if known and name not in labels)]:
        cells = []
        for case in suite.cases:
            m, count = measured(records, case, label), counted(records, case, label)
            part = _part(count, all_of[case.name])
            cells.append(_cell(m, m is not None and not part and m.value == best[case.name]) + part)
        shown = [numbers.get(label, {}).get(case.name) for case in known]
        rows.append([label, *cells, *(NOTHING if value is None else f"{value:g}" for value in shown)])
    return _markdown(header, rows)


def _differences(suite: Suite, labels: Sequence[str], records: Records) -> str:
    """Every system against the first, in pairs, also before their searches: where one ran on a part, the columns of
    values alone do not compare."""
    first, *others = labels or [""]
    pairs = [pair for label in others for pair in ((label, first), (before(label), before(first)))]
    rows = []
    for label, other in pairs:
        found = [difference(records, case, label, other) for case in suite.cases]
        if any(found):
            rows.append([label, *(NOTHING if m is None else f"{_cell(m, sign='+')} ({m.count})" for m in found)])
    header = [f"less {first}, on the same instances", *(case.name for case in suite.cases)]
    return _markdown(header, rows) if rows else ""


def _by_cost(suite: Suite, labels: Sequence[str], records: Records) -> str:
    """Seconds, steps per second, and what was published, which is about instances one by one."""
    rates = [[label, *(_rate(steps_per_second(records, case, label)) for case in suite.cases)] for label in labels]
    known, numbers = _published(suite, suite.cases)
    shown = [(label, unit) for label in numbers for unit in ("seconds", "steps") if _publishes(numbers[label], unit)]
    there = [[numbers[label].get(case.name, {}).get(unit) for label, unit in shown] for case in known]
    rows = [[case.name, *(f"{value or NOTHING}" for value in row)] for case, row in zip(known, there, strict=True)]
    tables = [
        _spent(suite, labels, records),
        _markdown(["steps per second, of all instances together", *(case.name for case in suite.cases)], rates),
        _markdown(["one instance", *(f"{label}: {unit}, published" for label, unit in shown)], rows) if rows else "",
    ]
    return "\n".join(filter(None, tables))


def _rate(steps: Mean | None) -> str:
    if steps is None:
        return NOTHING
    value, low, high = (_number(n) if n < 1 else f"{n:.0f}" for n in (steps.value, steps.low, steps.high))
    return value if steps.low == steps.high else f"{value} [{low}, {high}]"


def _publishes(row: Mapping[str, Mapping[str, float]], unit: str) -> bool:
    return any(unit in cell for cell in row.values())


def _by_instance(suite: Suite, labels: Sequence[str], records: Records) -> str:
    numbers = published().get(suite.name, {}) if suite.published else {}
    instances = list(dict.fromkeys((record["case"], record["instance"]) for record in records))
    named = [label for label in labels if any(name in numbers.get(label, {}) for _, name in instances)]
    header = ["graph", "best known", *(f"{label}: mean ± sd [CI], best" for label in labels)]
    header += [f"{label}, published" for label in named]
    rows = []
    for case, name in instances:
        of = [record for record in records if record["case"] == case and record["instance"] == name]
        best_known = next((record["best_known"] for record in of if record["best_known"] is not None), None)
        row = [name, NOTHING if best_known is None else f"{best_known:g}"]
        for label in labels:
            values = [worth(record, "objective") for record in of if record["system"] == label]
            if not values:
                row.append(NOTHING)
                continue
            m = mean(values)
            row.append(f"{m.value:.1f} ± {np.std(values):.1f} [{m.low:.1f}, {m.high:.1f}], {max(values):g}")
        for label in named:
            pair = numbers[label].get(name)
            row.append(NOTHING if pair is None else f"{pair[0]:.10g} ± {pair[1]:.10g}")
        rows.append(row)
    return _markdown(header, rows)


def _by_trajectory(suite: Suite, labels: Sequence[str], records: Records) -> str:
    rows = []
    for label in labels:
        path = [record for record in records if record["system"] == label and record["kind"] == "path"]
        if path:
            right = [record["share_right"] for record in path]
            first = next((str(record["steps"]) for record in path if record["violated"] == 0), NOTHING)
            rows.append([label, str(path[-1]["steps"]), first, f"{100 * max(right):.1f}", f"{100 * right[-1]:.1f}"])
    return _markdown(["system", "steps", "solved at step", "most cells right, %", "cells right at the end, %"], rows)


TABLES: dict[str, Callable[[Suite, Sequence[str], Records], str]] = {
    "systems": _by_system,
    "cost": _by_cost,
    "instances": _by_instance,
    "trajectory": _by_trajectory,
}


def footer(suite: Suite, records: Sequence[Record]) -> str:
    """How the numbers came about: instances, budgets, machine, commit."""
    lines, records = [], Records(records)
    for case in suite.cases:
        most = max((counted(records, case, label) for label in names_of(records)), default=0)
        many = f"; {most} instance{'s' * (most > 1)}" if most else ""
        told = [f"{datasets.split_named(case.split).summary}{many}", budgets(case, records)]
        told += [MEANINGS[case.metric]] if suite.table == "systems" else []
        lines.append(f"- {case.name}: {'; '.join(told)}.")
    facts = {name: sorted({r[name] for r in records if name in r}) for name in ("device", "commit", "seed")}
    shown = [f"{name} {', '.join(map(str, values))}" for name, values in facts.items() if values]
    lines.append("- " + "; ".join([*shown, *_workers(records)]) + ".")
    if suite.table != "trajectory":
        lines.append(f"- Brackets: {COVERED} % bootstrap intervals of the mean; none of seconds that are of one call.")
    lines.append("- Every answer was checked by the same verifier.")
    if suite.table == "systems" and len(with_raw(records)) > len(records):
        lines.append(f"- Rows `{BEFORE}`, also of the differences, are about what the chains had found by themselves.")
        if _published(suite, suite.cases)[0]:
            lines.append(f"- Published numbers of networks are of chains alone, which have rows `{BEFORE}` here.")
    if suite.table == "systems" and any(_runs_on_a_part(case, records) for case in suite.cases):
        lines.append("- (N): on N instances; of the first table, compare these cells by the differences alone.")
    weights = {f"{r['system']} {r['weights']}": None for r in records if r.get("weights")}
    if weights and suite.table != "trajectory":
        lines.append(f"- Weights: {', '.join(weights)}.")
    lines += _without_steps(suite, records)
    notes = (suite.notes, suite.published_notes if suite.published else "")
    lines += [f"- {note}" for note in notes if note]
    return "\n".join(lines) + "\n"


def _without_steps(suite: Suite, records: Records) -> list[str]:
    """Variants of blogdit whose network did nothing, as a step would have taken too long: that was the search alone."""
    found = []
    for label in names_of(records) if suite.table != "trajectory" else ():
        steps = {case.name: [record["steps"] for record in select(records, case, label)] for case in suite.cases}
        cases = [name for name, taken in steps.items() if taken and not any(taken)]
        if cases and label not in systems():
            found.append(f"- {label} took no step of its network on {', '.join(cases)}: the search had all the time.")
    return found


def _workers(records: Sequence[Record]) -> list[str]:
    """How many CPU threads those systems had that can use several."""
    threaded = [label for label in names_of(records) if label in systems() and systems()[label].threaded]
    numbers = {label: sorted({r["workers"] for r in records if r["system"] == label}) for label in threaded}
    return [f"{label} with {' or '.join(map(str, n))} worker{'s' * (n != [1])}" for label, n in numbers.items()]


def _runs_on_a_part(case: Case, records: Records) -> bool:
    return len({counted(records, case, label) for label in names_of(records)} - {0}) > 1


def budgets(case: Case, records: Records) -> str:
    """What each system had for an instance, as the records say."""
    by_budget: dict[str, list[str]] = {}
    for label in names_of(records):
        chosen = select(records, case, label)
        together = any(record.get("batch", 1) > 1 for record in chosen)
        runs = len({record.get("run") for record in chosen})
        for budget in dict.fromkeys(_budget(case, record, together) for record in chosen):
            budget = f"{runs} runs in {budget}" if runs > 1 else budget
            by_budget.setdefault(budget, []).append(label)
    if len(by_budget) < 2:
        return next(iter(by_budget), f"{case.seconds:g} s each")
    return ", ".join(f"{' and '.join(labels)} {budget}" for budget, labels in by_budget.items())


def _budget(case: Case, record: Record, together: bool) -> str:
    if (steps := record.get("budget_steps", case.steps)) is not None:
        return f"{steps:,} steps each"
    if (seconds := record.get("budget_seconds", case.seconds)) is None:
        return "steps of its own"
    if case.stretch:
        return f"{seconds:.3g} s" + (" for graphs of one size together" if together else " each")
    share = f"{seconds / record.get('batch', 1):.3g} s"
    return f"{share} for each of a batch, together" if together else f"{share} each"
