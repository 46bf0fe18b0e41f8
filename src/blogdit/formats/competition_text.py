"""Answers as solvers for SAT, MaxSAT and pseudo-Boolean problems print them:

    s OPTIMUM FOUND
    o 12
    v 1 -2 3 0

Behind `v` are literals (1 -2 3, or x1 -x2 x3), or one string of bits (101). Variables that are not named are 0.
"""

from __future__ import annotations

import re

import numpy as np

from blogdit.core.arrays import IntArray
from blogdit.core.instance import Instance
from blogdit.formats.text import Lines

LINE = re.compile(r"[sovc]( |$)")


def looks_like_competition(start: list[str]) -> bool:
    """Lines that begin with s, o, v or c alone, one of them with v."""
    lines = [line.strip() for line in start if line.strip()]
    return all(map(LINE.match, lines)) and any(line[0] == "v" for line in lines)


def read_values(lines: Lines, instance: Instance) -> IntArray:
    labels = range(instance.size) if instance.labels is None else instance.labels
    places = {str(label): place for place, label in enumerate(labels)}
    own = instance.size - len(instance.derived)
    values = np.zeros(instance.size, np.int64)
    for line in lines:
        kind, *fields = line.split() or ["c"]
        if kind != "v":
            continue
        if len(fields) == 1 and len(fields[0]) == own and set(fields[0]) <= {"0", "1"}:
            values[:own] = [int(bit) for bit in fields[0]]
            continue
        for field in fields:
            name = field.lstrip("-~")
            if name == "0" and name not in places:
                continue  # the end
            if name not in places:
                raise lines.error(f"expected variables like {labels[0]} or -{labels[-1]}, got {field[:40]!r}")
            values[places[name]] = name == field
    return _completed(instance, values)


def _completed(instance: Instance, values: IntArray) -> IntArray:
    """With the variables that follow from others."""
    for variable, group, row in instance.derived:
        values[variable] = 1
        numbers = instance.domains.numbers(values)
        values[variable] = instance.constraints[group].violations(values, numbers)[row] == 0
    return values
