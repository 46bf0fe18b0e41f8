"""A suite of instances of the user's: a file or a folder of them makes one column, without published numbers."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

from blogdit.bench.datasets import Split
from blogdit.bench.suites import Case, Entrant, Suite
from blogdit.core.errors import InputError
from blogdit.formats.files import find_files, read_all

if TYPE_CHECKING:
    from blogdit.bench.variants import Models

SYSTEMS = ("blogdit", "gibbs", "rlsa", "annealing", "tabu", "cp-sat", "feasibility-jump", "greedy")
SECONDS = 10.0


def suite_of(path: Path, problem: str | None = None, colors: int | None = None) -> Suite:
    """All instances must be of one problem, and all want the most, the least, or any valid answer."""
    files, name = find_files([path]), path.resolve().name
    instances = tuple(read_all(files, problem, colors))
    problems = sorted({one.problem for one in instances})
    senses = sorted({"" if one.objective is None else one.objective.sense for one in instances})
    for kinds in (problems, senses):
        if len(kinds) > 1:
            named = " and ".join(kind or "no objective" for kind in kinds)
            raise InputError(f"has instances of different kinds: {named}; expected one kind", path)
    text = b"".join(file.read_bytes() for file in files)
    case = Case(
        name,
        Split(name, problems[0], source=str(path), instances=instances),
        "distance" if senses[0] else "solved",
        SECONDS,
        sense="minimize" if senses[0] == "minimize" else "maximize",
    )
    return Suite(
        name,
        f"{name}: {'distance from the best answer' if senses[0] else 'instances solved'}, per cent",
        cases=(case,),
        quick=(),
        entrants=tuple(Entrant(system, system) for system in SYSTEMS),
        published=False,
        checksum=f"{hashlib.sha256(text).hexdigest()[:12]} {problems[0]} {colors or ''}".rstrip(),
    )


def for_problem(models: Models, suite: Suite) -> Models:
    """Models that were named, for the problem of the user's instances, whatever they were trained on."""
    split = suite.cases[0].split
    assert isinstance(split, Split)
    return {(name, split.problem): path for (name, _), path in models.items()}
