"""Solution files: JSON lines as `blogdit solve` writes them, Sudoku text, or lines of whole numbers."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from blogdit.constraints import IntArray, integers
from blogdit.csp import Instance
from blogdit.errors import InputError
from blogdit.formats.json_text import json_objects, looks_like_json
from blogdit.formats.sudoku_text import list_boards
from blogdit.formats.text import Lines, create_text, open_lines
from blogdit.problems import sudoku
from blogdit.result import Result


def record(result: Result) -> dict[str, Any]:
    """`result.record()` with a Sudoku's values as its string of digits, else with the names of the variables."""
    data = result.record()
    instance, values = result.instance, result.values
    inside = bool(((values >= 0) & (values < instance.domain_sizes)).all())
    if instance.problem == "sudoku" and inside and instance.domain_sizes[0] <= len(sudoku.SYMBOLS):
        data["values"] = sudoku.text(instance, values)
    elif instance.labels is not None:
        data["labels"] = [label if isinstance(label, str | int | float) else str(label) for label in instance.labels]
    return data


def write_solutions(results: Iterable[Result], path: str | Path) -> None:
    """One JSON object per line."""
    with create_text(path) as handle:
        for result in results:
            handle.write(json.dumps(record(result)) + "\n")


def read_solutions(path: str | Path, instances: Sequence[Instance]) -> list[IntArray]:
    """The assignment for each instance, of which none may be missing; else as `match_solutions`."""
    found = match_solutions(path, instances)
    for values, instance in zip(found, instances, strict=True):
        if values is None:
            raise InputError(f"no solution for instance {instance.name!r}", path)
    return [values for values in found if values is not None]


def match_solutions(path: str | Path, instances: Sequence[Instance]) -> list[IntArray | None]:
    """The assignment for each instance, None where the file has none.

    Records with names, some of which are those of instances, are matched by name; otherwise order decides, and counts
    must agree.
    """
    with open_lines(path) as lines:
        start = lines.peek(64)
        if not any(line.strip() for line in start):
            raise lines.error("empty file; expected solutions")
        found: Sequence[IntArray | None]
        if looks_like_json(start):
            found = _read_json(lines, instances)
        elif instances and all(instance.problem == "sudoku" for instance in instances):
            found = [(question if answer is None else answer) - 1 for _, question, answer in list_boards(lines)]
        else:
            found = _read_numbers(lines, len(instances))
        _require_fit(found, instances, lines)
    return list(found)


def _read_json(lines: Lines, instances: Sequence[Instance]) -> Sequence[IntArray | None]:
    names, found = [], []
    for data, line, _ in json_objects(lines, ""):
        names.append(data.get("instance"))
        values = data.get("values")
        try:
            if isinstance(values, str):
                found.append(sudoku.parse(values) - 1)
            else:
                found.append(integers(values if isinstance(values, list) else 0, "values", 1))
        except (ValueError, OverflowError) as error:
            raise lines.error(str(error), line) from None
    by_name = {name: values for name, values in zip(names, found, strict=True) if isinstance(name, str)}
    wanted = [instance.name for instance in instances]
    if len(by_name) == len(found) and len(set(wanted)) == len(wanted) and not set(by_name).isdisjoint(wanted):
        return [by_name.get(name) for name in wanted]
    return found


def _read_numbers(lines: Lines, instances: int) -> list[IntArray]:
    """Whole numbers: a line per instance, or for a single instance the numbers of the whole file."""
    found: list[list[int]] = []
    for line in lines:
        fields = line.split("#")[0].split()
        try:
            if fields:
                found.append([int(field) for field in fields])
        except ValueError:
            raise lines.error(f"expected whole numbers, got {line.strip()[:60]!r}") from None
    if instances == 1:
        found = [[value for row in found for value in row]]
    try:
        return [np.array(row, np.int64) for row in found]
    except OverflowError:
        raise InputError("a number does not fit 64 bits", lines.path) from None


def _require_fit(found: Sequence[IntArray | None], instances: Sequence[Instance], lines: Lines) -> None:
    if len(found) != len(instances):
        raise InputError(f"expected {len(instances)} solutions, got {len(found)}", lines.path)
    for values, instance in zip(found, instances, strict=True):
        if values is not None and len(values) != instance.size:
            raise InputError(
                f"expected {instance.size} values for {instance.name or 'the instance'}, got {len(values)}", lines.path
            )
