"""Answers as pictures: HTML for notebooks, and matplotlib. A grid is shown as one, a problem on pairs as a graph."""

from __future__ import annotations

import colorsys
import html
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from blogdit.core.arrays import FloatArray, IntArray
from blogdit.core.constraints import Conflict, NotEqual
from blogdit.core.instance import Instance, label_text
from blogdit.core.result import VALID, Result
from blogdit.problems import families
from blogdit.problems.answers import axes_of, cells_of, render

MOST_PULLED = 400  # vertices; forces between all pairs of more would take seconds
MOST_DRAWN = 2000  # vertices and cells; larger pictures show nothing, and take megabytes in a notebook
ROUNDS = 60  # of forces, which settle by then
SIDE = 360  # pixels


class Drawing(NamedTuple):
    """A graph on a square from 0 to 1: where its vertices are, their edges, and which edges break a constraint."""

    places: FloatArray  # (n, 2)
    edges: IntArray  # (m, 2)
    is_broken: Any  # (m,)


def html_of(result: Result) -> str:
    """What a notebook shows: the facts in a line, then a grid, a graph, or text."""
    facts = [f"<b>{html.escape(result.instance.name or result.instance.problem)}</b>", result.status]
    facts += [] if result.objective is None else [f"objective {result.objective:.8g}"]
    facts += [] if result.status in VALID else [result.verdict.in_words]
    facts += [f"found by {result.found_by}"] if result.found_by else []
    return f"<div><p>{', '.join(facts)}</p>{_body(result)}</div>"


def _body(result: Result) -> str:
    instance, values = result.instance, result.values
    cells, headed = cells_of(instance)
    if cells and instance.size <= MOST_DRAWN:
        return _html_grid(result, cells, headed)
    drawing = draw_graph(instance, values)
    if drawing is not None:
        return _svg(drawing, instance, values)
    return f"<pre>{html.escape(render(instance, values))}</pre>"


def _html_grid(result: Result, cells: Any, headed: bool) -> str:
    instance = result.instance
    shown, wrong = symbols(result), wrong_variables(result)
    rows, columns = axes_of(cells.values(), headed)
    at = {cell: variable for variable, cell in cells.items()}

    def cell_text(row: Any, column: Any) -> str:
        variable = at.get((row, column))
        if variable is None:
            return "<td></td>"
        style = "font-weight:bold;" * bool(instance.is_given[variable]) + "color:#c00;" * (variable in wrong)
        if headed:
            style += f"background:{colour_of(int(result.values[variable]), 0.9)};"
        return f'<td style="border:1px solid #aaa;text-align:center;{style}">{html.escape(shown[variable])}</td>'

    head = "".join(f"<th>{html.escape(str(column))}</th>" for column in columns)
    lines = [f"<tr><th></th>{head}</tr>"] if headed else []
    for row in rows:
        first = f"<th>{html.escape(str(row))}</th>" if headed else ""
        lines.append(f"<tr>{first}{''.join(cell_text(row, column) for column in columns)}</tr>")
    rest = [
        f"{label_text((instance.labels or range(instance.size))[variable])} = {shown[variable]}"
        for variable in range(instance.size)
        if variable not in cells
    ]
    return f'<table style="border-collapse:collapse">{"".join(lines)}</table>' + "".join(
        f"<div>{html.escape(line)}</div>" for line in rest
    )


def _svg(drawing: Drawing, instance: Instance, values: IntArray) -> str:
    points = np.round(10 + (SIDE - 20) * drawing.places, 1).tolist()
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{SIDE}" height="{SIDE}">']
    for (u, v), broken in zip(drawing.edges.tolist(), drawing.is_broken.tolist(), strict=True):
        (x, y), (p, q) = points[u], points[v]
        parts.append(f'<line x1="{x}" y1="{y}" x2="{p}" y2="{q}" stroke="{"#c00" if broken else "#bbb"}"/>')
    radius = max(8 - len(points) / 60, 2.5)
    labels = range(instance.size) if instance.labels is None else instance.labels
    for variable, (x, y) in enumerate(points):
        title = f"{label_text(labels[variable])} = {instance.domains.call(variable, int(values[variable]))}"
        fill = colour_of(int(values[variable]), 0.55)
        circle = f'<circle cx="{x}" cy="{y}" r="{radius:.1f}" fill="{fill}" stroke="#333">'
        parts.append(f"{circle}<title>{html.escape(title)}</title></circle>")
    return "".join([*parts, "</svg>"])


def plot(result: Result, axes: Any = None) -> Any:
    """Draw with matplotlib, on `axes` or on new ones; returns the axes."""
    instance, values = result.instance, result.values
    if axes is None:
        axes = _new_axes()
    cells, headed = cells_of(instance)
    if cells and instance.size <= MOST_DRAWN:
        _plot_grid(result, cells, headed, axes)
    elif (drawing := draw_graph(instance, values)) is not None:
        for (u, v), broken in zip(drawing.edges.tolist(), drawing.is_broken.tolist(), strict=True):
            axes.plot(*drawing.places[[u, v]].T, color="#c00" if broken else "#bbb", linewidth=0.8, zorder=1)
        colours = [colour_of(value, 0.55) for value in values.tolist()]
        axes.scatter(*drawing.places.T, c=colours, edgecolors="#333", zorder=2)
        axes.set_axis_off()
    else:
        axes.plot(instance.domains.numbers(values) if instance.domains.are_numbers.all() else values, "o", markersize=3)
        axes.set_xlabel("variable")
    axes.set_title(f"{instance.name or instance.problem}: {result.status}", fontsize=10)
    return axes


def _new_axes() -> Any:
    try:
        from matplotlib import pyplot
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("no module 'matplotlib'; expected pip install 'blogdit[plot]'") from error
    return pyplot.subplots(figsize=(5, 5), layout="constrained")[1]


def _plot_grid(result: Result, cells: Any, headed: bool, axes: Any) -> None:
    shown, wrong = symbols(result), wrong_variables(result)
    rows, columns = axes_of(cells.values(), headed)
    picture = np.ones((len(rows), len(columns), 3))
    for variable, (row, column) in cells.items():
        y, x = rows.index(row), columns.index(column)
        picture[y, x] = rgb_of(int(result.values[variable]), 0.85)
        weight = "bold" if result.instance.is_given[variable] else "normal"
        colour = "#c00" if variable in wrong else "black"
        axes.text(x, y, shown[variable], ha="center", va="center", fontsize=8, fontweight=weight, color=colour)
    axes.imshow(picture)
    axes.set_xticks(range(len(columns)), map(str, columns) if headed else [""] * len(columns))
    axes.set_yticks(range(len(rows)), map(str, rows) if headed else [""] * len(rows))


def symbols(result: Result) -> list[str]:
    """What each variable is shown as."""
    family = families().get(result.instance.problem)
    first = 0 if family is None else family.first_symbol
    call = result.instance.domains.call
    return [str(value + first if first else call(i, value)) for i, value in enumerate(result.values.tolist())]


def wrong_variables(result: Result) -> set[int]:
    """The variables of constraints that are violated."""
    return {variable for violation in result.verdict.violations() for variable in violation.variables}


def draw_graph(instance: Instance, values: IntArray) -> Drawing | None:
    """The graph of a problem on pairs of variables; None for other problems, and for graphs that are too large."""
    goal = instance.objective
    groups = instance.constraints
    if not all(isinstance(group, NotEqual | Conflict) for group in groups) or not 0 < instance.size <= MOST_DRAWN:
        return None
    hard = [(group.pairs, group.violations(values) > 0) for group in groups if isinstance(group, NotEqual | Conflict)]
    terms = [] if goal is None else [goal.differ, goal.pairwise[:, :2]]
    found = [*hard, *((pairs, np.zeros(len(pairs), np.bool_)) for pairs in terms)]
    edges = np.concatenate([pairs for pairs, _ in found] or [np.zeros((0, 2), np.int64)])
    if not len(edges):
        return None
    return Drawing(layout(instance.size, edges, values), edges, np.concatenate([broken for _, broken in found]))


def layout(size: int, edges: IntArray, values: IntArray) -> FloatArray:
    """Places (n, 2) from 0 to 1. Edges pull and vertices push each other. They begin on a circle, on which vertices of
    one value are neighbours; a large graph stays there. The same graph always looks the same."""
    angles = np.empty(size)
    angles[np.lexsort((np.arange(size), values))] = 2 * np.pi * np.arange(size) / size
    places: FloatArray = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    if size <= MOST_PULLED:
        ideal = 2 / np.sqrt(size)
        for heat in np.linspace(0.2, 0.005, ROUNDS):
            apart = places[:, None] - places[None]  # (n, n, 2)
            distance = np.maximum(np.linalg.norm(apart, axis=2), 1e-3)
            move = (apart * (ideal / distance)[..., None] ** 2).sum(axis=1)
            along = places[edges[:, 0]] - places[edges[:, 1]]
            pull = along * (np.linalg.norm(along, axis=1, keepdims=True) / ideal)
            np.subtract.at(move, edges[:, 0], pull)
            np.add.at(move, edges[:, 1], pull)
            length = np.maximum(np.linalg.norm(move, axis=1, keepdims=True), 1e-9)
            places = places + move / length * np.minimum(length, heat)
    low, high = places.min(axis=0), places.max(axis=0)
    return (places - low) / np.maximum(high - low, 1e-9)


def rgb_of(value: int, lightness: float) -> tuple[float, float, float]:
    """Colours that differ for neighbouring values: the golden ratio spreads hues over the circle."""
    return colorsys.hls_to_rgb((0.58 + value * 0.618034) % 1.0, lightness, 0.65)


def colour_of(value: int, lightness: float) -> str:
    return "#" + "".join(f"{round(255 * part):02x}" for part in rgb_of(value, lightness))


def html_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th>{html.escape(name)}</th>" for name in header)
    body = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><tr>{head}</tr>{body}</table>"
