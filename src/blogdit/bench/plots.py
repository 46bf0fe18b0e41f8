"""Figures from records, as PNG files. matplotlib is imported when one is drawn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from blogdit.bench.measures import Mean, Records, before, groups, mean, names_of, with_raw, worth
from blogdit.bench.records import Record
from blogdit.bench.suites import Suite
from blogdit.core.errors import InputError

MOST_PANELS = 6  # in a row
LABELS = {"solved": "solved, %", "objective": "objective", "gap": "gap", "distance": "distance, %"}


def require_matplotlib() -> Any:
    """Its class of figures."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise InputError("figures need matplotlib; expected pip install 'blogdit[bench]'") from None
    return Figure


def draw(suite: Suite, records: Sequence[Record], path: Path) -> None:
    """The figure of a suite."""
    figure = require_matplotlib()(figsize=(8, 4.5), layout="constrained")
    DRAWERS[suite.figure](figure, suite, Records(records))
    figure.suptitle(suite.title, fontsize=11)
    figure.savefig(path, dpi=150)


def _whiskers(value: float, low: float, high: float) -> list[list[float]]:
    return [[max(value - low, 0.0)], [max(high - value, 0.0)]]


def _curve(axis: Any, points: Sequence[tuple[float, Mean | None]], label: str) -> None:
    """Means over some number, with their intervals as a band. Where there is no mean, there is no point."""
    found = [(x, mean) for x, mean in points if mean is not None]
    places = [x for x, _ in found]
    axis.plot(places, [mean.value for _, mean in found], marker="o", ms=4, label=label)
    axis.fill_between(places, [mean.low for _, mean in found], [mean.high for _, mean in found], alpha=0.2)


def _points(figure: Any, suite: Suite, records: Records) -> None:
    """A panel for each case, a point with its interval for each system; hollow: before its local search. Who ran on a
    part of the instances has their number."""
    systems, records = names_of(records, suite.entrants), with_raw(records)
    rows, columns = -(-len(suite.cases) // MOST_PANELS), min(len(suite.cases), MOST_PANELS)
    figure.set_size_inches(max(8.0, 2.5 + 1.3 * columns), rows * (1.5 + 0.3 * len(systems)))
    axes = figure.subplots(rows, columns, squeeze=False, sharey=True).flatten()
    for axis in axes[len(suite.cases) :]:
        axis.remove()
    for axis, case in zip(axes, suite.cases, strict=False):
        most = max((records.counted(case, label) for label in systems), default=0)
        for row, label in enumerate(systems):
            m, count = records.measured(case, label), records.counted(case, label)
            if m is not None and count < most:
                axis.annotate(f"({count})", (m.value, row - 0.3), fontsize=6, ha="center", va="center")
            for name, shift, fill in ((label, -0.12, f"C{row % 10}"), (before(label), 0.18, "white")):
                m = records.measured(case, name)
                if m is not None:
                    whiskers, style = _whiskers(m.value, m.low, m.high), {"fmt": "o", "ms": 4.5, "capsize": 2}
                    axis.errorbar(m.value, row + shift, xerr=whiskers, color=f"C{row % 10}", mfc=fill, **style)
        if case.metric == "gap":
            axis.set_xscale("symlog", linthresh=1)
        axis.set_title(case.name, fontsize=9)
        axis.set_xlabel(LABELS[case.metric], fontsize=8)
        axis.tick_params(axis="x", labelsize=7)
        axis.tick_params(axis="y", labelsize=8)
        axis.grid(alpha=0.3)
    axes[0].set_yticks(range(len(systems)), systems)
    axes[0].set_ylim(len(systems) - 0.5, -0.5)
    if any(before(label) in names_of(records) for label in systems):
        figure.supxlabel("hollow: before the search", fontsize=8)


def _lines(figure: Any, suite: Suite, records: Records) -> None:
    """The metric against the steps, which are the names of the cases."""
    axis = figure.subplots()
    for label in names_of(records, suite.entrants):
        _curve(axis, [(case.steps or 0, records.measured(case, label)) for case in suite.cases], label)
    axis.set_xscale("log")
    axis.set_xlabel("steps")
    axis.set_ylabel(LABELS[suite.cases[0].metric])
    axis.legend(fontsize=8)
    axis.grid(alpha=0.3)


def _cost(figure: Any, suite: Suite, records: Records) -> None:
    """Seconds per instance, and below them steps per second, on logarithmic scales."""
    systems = names_of(records, suite.entrants)
    figure.set_size_inches(max(8.0, 1.5 + len(suite.cases)), 6)
    above, below = figure.subplots(2, 1, sharex=True)
    width = 0.8 / max(len(systems), 1)
    for row, label in enumerate(systems):
        style = {"width": width, "color": f"C{row % 10}", "label": label}
        for column, case in enumerate(suite.cases):
            place = column + (row - (len(systems) - 1) / 2) * width
            for axis, measure in ((above, records.timed), (below, records.steps_per_second)):
                if (m := measure(case, label)) is not None:
                    axis.bar(place, m.value, yerr=_whiskers(m.value, m.low, m.high), **style)
    for axis, title in ((above, "seconds per instance"), (below, "steps per second")):
        axis.set_yscale("log")
        axis.set_ylabel(title)
        axis.grid(alpha=0.3, axis="y")
    below.set_xticks(range(len(suite.cases)), [case.name for case in suite.cases], fontsize=8)
    shown = dict(zip(*reversed(above.get_legend_handles_labels()), strict=True))
    above.legend(shown.values(), shown.keys(), fontsize=7, ncols=4)


def _instances(figure: Any, suite: Suite, records: Records) -> None:
    """For each graph the mean over runs and its standard deviation, as a share of the best cut in the records."""
    axis, systems = figure.subplots(), names_of(records, suite.entrants)
    names = list(dict.fromkeys(str(record["instance"]) for record in records))
    for row, label in enumerate(systems):
        for column, name in enumerate(names):
            of = [record for record in records if record["instance"] == name]
            values = [worth(record, "objective") for record in of if record["system"] == label]
            if values:
                best = of[0]["best_known"] or max(worth(record, "objective") for record in of)
                place = column + 0.15 * (row - (len(systems) - 1) / 2)
                share = mean([100 * value / best for value in values]).value
                spread = float(np.std([100 * value / best for value in values]))
                axis.errorbar(
                    place, share, spread, fmt="o", ms=3, color=f"C{row % 10}", label=label if not column else None
                )
    axis.set_xticks(range(len(names)), names, rotation=90, fontsize=7)
    axis.set_ylabel("mean cut, % of best known")
    axis.legend(fontsize=8)


def _trajectory(figure: Any, suite: Suite, records: Records) -> None:
    """Paths over the cloud that the projection was fitted on, coloured by the share of right cells."""
    cloud = [record for record in records if record["kind"] == "cloud"]
    target = [record for record in records if record["kind"] == "target"]
    systems = [label for label in names_of(records) if label not in ("cloud", "target")]
    axes = figure.subplots(1, max(len(systems), 1), squeeze=False, sharex=True, sharey=True)[0]
    points = None
    for axis, label in zip(axes, systems, strict=False):
        axis.hexbin([r["x"] for r in cloud], [r["y"] for r in cloud], gridsize=30, cmap="Greys", mincnt=1, alpha=0.5)
        path = [record for record in records if record["system"] == label]
        x, y = [r["x"] for r in path], [r["y"] for r in path]
        axis.plot(x, y, lw=0.4, color="black", alpha=0.5)
        points = axis.scatter(x, y, c=[r["share_right"] for r in path], s=10, cmap="viridis", vmin=0, vmax=1)
        axis.plot([r["x"] for r in target], [r["y"] for r in target], "r*", ms=12)
        axis.set_title(f"{label}: {path[-1]['steps'] if path else 0} steps", fontsize=9)
    if points is not None:
        figure.colorbar(points, ax=list(axes), label="share of right cells")


def _worth(figure: Any, suite: Suite, records: Records) -> None:
    """A panel for each problem: the metric of every system against the seconds of a call."""
    panels = groups(suite, records)
    columns = min(len(panels), 4)
    rows = -(-len(panels) // columns)
    figure.set_size_inches(max(8.0, 3.2 * columns), 2.4 * rows + 1)
    axes = figure.subplots(rows, columns, squeeze=False).flatten()
    for axis in axes[len(panels) :]:
        axis.remove()
    labels = names_of(records, suite.entrants)
    for axis, (name, (cases, group)) in zip(axes, panels.items(), strict=False):
        for label in labels:
            found = [(cell[0], group.measured(case, label)) for case in cases if (cell := group.cell(case, label))]
            _curve(axis, [(record["budget_seconds"], m) for record, m in found], label)
        axis.set_xscale("log")
        axis.set_title(name, fontsize=9)
        axis.set_xlabel("seconds", fontsize=7)
        axis.set_ylabel(LABELS[cases[0].metric], fontsize=7)
        axis.tick_params(labelsize=7)
        axis.grid(alpha=0.3)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=len(labels), fontsize=8)


DRAWERS: dict[str, Callable[[Any, Suite, Records], None]] = {
    "points": _points,
    "lines": _lines,
    "cost": _cost,
    "instances": _instances,
    "trajectory": _trajectory,
    "worth": _worth,
}
