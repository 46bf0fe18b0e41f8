"""An answer as text: as its family shows it or, for problems of one's own, as a table by names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from blogdit.core.constraints import IntArray
from blogdit.core.instance import Instance, label_text
from blogdit.problems import families
from blogdit.problems.graphs import show_vertices

SPARSEST = 4  # cells of a grid for each variable: with more it would show little but holes


def render(instance: Instance, values: IntArray) -> str:
    """What a person reads: as the family shows it, or a table."""
    family = families().get(instance.problem)
    return table_of(instance, values) if family is None else family.render(instance, values)


def table_of(instance: Instance, values: IntArray) -> str:
    """Variables on a grid are shown there: rows and columns are the two parts of their labels, or their positions. Of
    bits, those that are 1 are listed. All others are lines of a name and a value."""
    names = [label_text(instance.domains.call(variable, value)) for variable, value in enumerate(values.tolist())]
    labels = range(instance.size) if instance.labels is None else instance.labels
    cells, headed = cells_of(instance)
    if not cells and instance.labels is None:
        return f"[{', '.join(names)}]"
    if not cells and instance.values is None and instance.positions is None and (instance.domain_sizes == 2).all():
        return f"ones: {show_vertices(np.flatnonzero(values == 1), instance.labels)}"
    lines = _grid({cell: names[variable] for variable, cell in cells.items()}, headed)
    rest = [variable for variable in range(instance.size) if variable not in cells]
    return "\n".join([*lines, *(f"{label_text(labels[variable])} = {names[variable]}" for variable in rest)])


def cells_of(instance: Instance) -> tuple[Mapping[int, tuple[Any, Any]], bool]:
    """Row and column of the variables on a grid, and whether these have names."""
    named = _from_labels(instance)
    return (named, True) if named else (_from_positions(instance), False)


def _from_labels(instance: Instance) -> Mapping[int, tuple[Any, Any]]:
    """Row and column of the variables whose labels name them."""
    return {
        variable: (label[0], label[1])
        for variable, label in enumerate(instance.labels or ())
        if isinstance(label, tuple) and len(label) == 2
    }


def _from_positions(instance: Instance) -> Mapping[int, tuple[int, int]]:
    """Row and column of all variables, if they have different ones on a board that is not too large."""
    if instance.positions is None or instance.positions.shape[1] != 2 or not instance.size:
        return {}
    low, high = instance.positions.min(0), instance.positions.max(0)
    fits = np.prod(high - low + 1) <= SPARSEST * instance.size
    placed = {variable: (row, column) for variable, (row, column) in enumerate(instance.positions.tolist())}
    return placed if fits and len(set(placed.values())) == len(placed) else {}


def axes_of(cells: Iterable[tuple[Any, Any]], headed: bool) -> tuple[list[Any], list[Any]]:
    """Rows and columns; with headings in the order in which they come, else by number."""
    every = list(cells)
    rows, columns = (list(dict.fromkeys(cell[part] for cell in every)) for part in (0, 1))
    return (rows, columns) if headed else (sorted(rows), sorted(columns))


def _grid(cells: Mapping[tuple[Any, Any], str], headed: bool) -> list[str]:
    """Lines of a table."""
    rows, columns = axes_of(cells, headed)
    lines = [
        [*([label_text(row)] if headed else []), *(cells.get((row, column), "") for column in columns)] for row in rows
    ]
    if headed and lines:
        lines.insert(0, ["", *map(label_text, columns)])
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]
