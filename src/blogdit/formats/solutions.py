"""Solution files: JSON lines as `blogdit solve` writes them, puzzle text, or lines of whole numbers."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, get_args

import numpy as np

from blogdit.core.arrays import IntArray, integers
from blogdit.core.errors import InputError
from blogdit.core.instance import Instance
from blogdit.core.result import Proof, Result
from blogdit.formats.competition_text import looks_like_competition, read_values
from blogdit.formats.json_text import json_objects, looks_like_json, plain_labels
from blogdit.formats.latin_text import list_squares, looks_like_latin
from blogdit.formats.sudoku_text import list_boards
from blogdit.formats.text import Lines, create_text, open_lines
from blogdit.problems import sudoku

CLAIMS = ("problem", "status", "violations", "objective", "labels", "answer")  # what the exact check can tell
MOST_SHOWN = 60  # characters of a wrong claim


class Solution(NamedTuple):
    """An assignment, and what its file says about it."""

    values: IntArray
    said: Mapping[str, Any] = {}

    def contradiction(self, instance: Instance) -> str | None:
        """What the file says that is not so. A proof is believed, if it names who has it and the check allows it."""
        status = self.said.get("status")
        proof: Proof | None = status if status in get_args(Proof) else None
        found = record(Result(instance, self.values, proof=proof))
        for name in CLAIMS:
            if name not in self.said:
                if "status" in self.said and name in ("violations", "objective"):
                    return f"no {name}, not {found[name]}"
            elif not _same(self.said[name], found.get(name)):
                return f"{name} {_short(self.said[name])}, not {_short(found.get(name))}"
        if proof is not None and not isinstance(self.said.get("proved_by"), str):
            return f"{status}, but not who has proved it"
        return None


def _same(said: Any, found: Any) -> bool:
    if type(said) in (int, float) and type(found) in (int, float):
        try:
            return math.isclose(said, found, rel_tol=1e-9, abs_tol=1e-9)  # sums of weights may be rounded elsewhere
        except OverflowError:  # more than any sum of weights
            return False
    return type(said) is type(found) and said == found


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}..."


def solution(data: Mapping[str, Any]) -> Solution:
    """Of a record."""
    values = data.get("values")
    if isinstance(values, str):
        return Solution(sudoku.parse(values) - 1, data)
    return Solution(integers(values if isinstance(values, list) else 0, "values", 1), data)


def record(result: Result) -> dict[str, Any]:
    """`result.record()` with a Sudoku's values as its string of digits, else with the names of variables and values."""
    data = result.record()
    instance, values = result.instance, result.values
    inside = bool(((values >= 0) & (values < instance.domain_sizes)).all())
    if instance.problem == "sudoku" and inside and instance.domain_sizes[0] <= len(sudoku.SYMBOLS):
        data["values"] = sudoku.text(instance, values)
    elif instance.labels is not None:
        data["labels"] = plain_labels(instance.labels)
    if instance.values is not None:
        data["answer"] = [instance.domains.call(variable, value) for variable, value in enumerate(values.tolist())]
    return data


def write_solutions(results: Iterable[Result], path: str | Path) -> None:
    """One JSON object per line."""
    with create_text(path) as handle:
        for result in results:
            handle.write(json.dumps(record(result)) + "\n")


def read_solutions(path: str | Path, instances: Sequence[Instance]) -> list[IntArray]:
    """The assignment for each instance, of which none may be missing; else as `match_solutions`."""
    found = match_solutions(path, instances)
    for one, instance in zip(found, instances, strict=True):
        if one is None:
            raise InputError(f"no solution for instance {instance.name!r}", path)
    return [one.values for one in found if one is not None]


def match_solutions(path: str | Path, instances: Sequence[Instance]) -> list[Solution | None]:
    """The solution of each instance, None where the file has none.

    Names decide where records have them. Otherwise order does, and counts must agree.
    """
    with open_lines(path) as lines:
        start = lines.peek(64)
        if not any(line.strip() for line in start):
            raise lines.error("empty file; expected solutions")
        found: Sequence[Solution | None]
        if looks_like_json(start):
            found = _read_json(lines, instances)
        elif instances and all(instance.problem == "sudoku" for instance in instances):
            boards = list_boards(lines)
            found = [Solution((question if answer is None else answer) - 1) for _, question, answer in boards]
        elif len(instances) == 1 and (instances[0].domain_sizes == 2).all() and looks_like_competition(start):
            found = [Solution(read_values(lines, instances[0]))]
        elif looks_like_latin(start) and all(instance.problem == "latin" for instance in instances):
            found = [Solution(symbols - 1) for _, symbols in list_squares(lines)]
        else:
            found = [Solution(values) for values in _read_numbers(lines, len(instances))]
        _require_fit(found, instances, lines)
    return list(found)


def _read_json(lines: Lines, instances: Sequence[Instance]) -> Sequence[Solution | None]:
    found, by_name = list[Solution](), dict[str, Solution]()
    for data, line, _ in json_objects(lines, ""):
        try:
            found.append(solution(data))
        except (ValueError, OverflowError) as error:
            raise lines.error(str(error), line) from None
        name = data.get("instance")
        if isinstance(name, str) and name and by_name.setdefault(name, found[-1]) is not found[-1]:
            raise lines.error(f"a second record of {name!r}; expected one", line)
    if not by_name:
        return found
    wanted = [instance.name for instance in instances]
    if len(by_name) < len(found) or len(set(wanted)) < len(wanted):
        who = "records" if len(by_name) < len(found) else "instances"
        raise InputError(f"records are matched by name; expected {who} with names that differ", lines.path)
    return [by_name.get(name) for name in wanted]


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


def _require_fit(found: Sequence[Solution | None], instances: Sequence[Instance], lines: Lines) -> None:
    if len(found) != len(instances):
        raise InputError(f"expected {len(instances)} solutions, got {len(found)}", lines.path)
    for one, instance in zip(found, instances, strict=True):
        if one is not None and len(one.values) != instance.size:
            named, number = instance.name or "the instance", len(one.values)
            raise InputError(f"expected {instance.size} values for {named}, got {number}", lines.path)
