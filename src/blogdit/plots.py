"""Figures from records, as PNG files. matplotlib is imported when one is drawn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from blogdit.bench.records import Record
from blogdit.bench.statistics import mean, worth
from blogdit.bench.suites import Suite
from blogdit.bench.tables import measured, timed
from blogdit.errors import InputError

LABELS = {"solved": "solved, %", "objective": "objective", "gap": "gap to best known"}


def draw(suite: Suite, records: Sequence[Record], path: Path) -> None:
    """The figure of a suite."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise InputError("figures need matplotlib; expected pip install 'blogdit[bench]'") from None
    figure = Figure(figsize=(8, 4.5), layout="constrained")
    DRAWERS[suite.figure](figure, suite, records)
    figure.suptitle(suite.title, fontsize=11)
    figure.savefig(path, dpi=150)


def _systems(records: Sequence[Record]) -> list[str]:
    return list(dict.fromkeys(str(record["system"]) for record in records))


def _whiskers(value: float, low: float, high: float) -> list[list[float]]:
    return [[max(value - low, 0.0)], [max(high - value, 0.0)]]


def _bars(figure: Any, suite: Suite, records: Sequence[Record]) -> None:
    """A panel for each case, a bar with its interval for each system."""
    systems = _systems(records)
    axes = figure.subplots(1, len(suite.cases), squeeze=False)[0]
    for axis, case in zip(axes, suite.cases, strict=True):
        for row, label in enumerate(systems):
            m = measured(records, case, label)
            if m is not None:
                axis.barh(row, m.value, xerr=_whiskers(m.value, m.low, m.high), color=f"C{row % 10}", capsize=2)
        axis.set_yticks(range(len(systems)), systems if axis is axes[0] else [""] * len(systems), fontsize=8)
        axis.invert_yaxis()
        axis.set_title(case.name, fontsize=9)
        axis.set_xlabel(LABELS[case.metric], fontsize=8)
        axis.tick_params(axis="x", labelsize=7)


def _lines(figure: Any, suite: Suite, records: Sequence[Record]) -> None:
    """The metric against the steps, which are the names of the cases."""
    axis = figure.subplots()
    for label in _systems(records):
        found = [(case, m) for case in suite.cases if (m := measured(records, case, label)) is not None]
        steps = [case.steps or 0 for case, _ in found]
        axis.plot(steps, [m.value for _, m in found], marker="o", label=label)
        axis.fill_between(steps, [m.low for _, m in found], [m.high for _, m in found], alpha=0.2)
    axis.set_xscale("log")
    axis.set_xlabel("steps")
    axis.set_ylabel(LABELS[suite.cases[0].metric])
    axis.legend(fontsize=8)
    axis.grid(alpha=0.3)


def _cost(figure: Any, suite: Suite, records: Sequence[Record]) -> None:
    """Seconds per instance, on a logarithmic scale."""
    axis, systems = figure.subplots(), _systems(records)
    width = 0.8 / max(len(systems), 1)
    for row, label in enumerate(systems):
        for column, case in enumerate(suite.cases):
            m = timed(records, case, label)
            if m is not None:
                place = column + (row - (len(systems) - 1) / 2) * width
                name = label if column == 0 else None
                axis.bar(
                    place, m.value, width, yerr=_whiskers(m.value, m.low, m.high), color=f"C{row % 10}", label=name
                )
    axis.set_yscale("log")
    axis.set_xticks(range(len(suite.cases)), [case.name for case in suite.cases], fontsize=8)
    axis.set_ylabel("seconds per instance")
    axis.legend(fontsize=8)


def _instances(figure: Any, suite: Suite, records: Sequence[Record]) -> None:
    """For each graph the mean over runs and its standard deviation, as a share of the best cut in the records."""
    axis, systems = figure.subplots(), _systems(records)
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


def _trajectory(figure: Any, suite: Suite, records: Sequence[Record]) -> None:
    """Paths over the cloud that the projection was fitted on, coloured by the share of right cells."""
    cloud = [record for record in records if record["kind"] == "cloud"]
    target = [record for record in records if record["kind"] == "target"]
    systems = [label for label in _systems(records) if label not in ("cloud", "target")]
    axes = figure.subplots(1, max(len(systems), 1), squeeze=False, sharex=True, sharey=True)[0]
    points = None
    for axis, label in zip(axes, systems, strict=False):
        axis.hexbin([r["x"] for r in cloud], [r["y"] for r in cloud], gridsize=30, cmap="Greys", mincnt=1, alpha=0.5)
        path = [record for record in records if record["system"] == label]
        x, y = [r["x"] for r in path], [r["y"] for r in path]
        axis.plot(x, y, lw=0.4, color="black", alpha=0.5)
        points = axis.scatter(x, y, c=[r["share_right"] for r in path], s=10, cmap="viridis", vmin=0, vmax=1)
        axis.plot([r["x"] for r in target], [r["y"] for r in target], "r*", ms=12)
        axis.set_title(f"{label}: {path[-1]['step'] if path else 0} steps", fontsize=9)
    if points is not None:
        figure.colorbar(points, ax=list(axes), label="share of right cells")


DRAWERS: dict[str, Callable[[Any, Suite, Sequence[Record]], None]] = {
    "bars": _bars,
    "lines": _lines,
    "cost": _cost,
    "instances": _instances,
    "trajectory": _trajectory,
}
