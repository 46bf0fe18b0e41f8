"""`blogdit verify`"""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Annotated

import typer

from blogdit.cli.options import Allow, Colors, Problem, parse_limits
from blogdit.cli.printing import say
from blogdit.core.instance import Instance, Verdict
from blogdit.formats.files import find_files, read_all
from blogdit.formats.solutions import match_solutions


def verify(
    instance: Annotated[Path, typer.Argument(metavar="INSTANCES", help="File with instances, or a folder of them.")],
    solution: Annotated[Path, typer.Argument(metavar="SOLUTION", help="File with a solution for each instance.")],
    problem: Problem = None,
    colors: Colors = None,
    max_violations: Annotated[int, typer.Option(min=0, help="Violated constraints to print per instance.")] = 20,
    allow: Allow = [],  # noqa: B006 (typer copies it)
) -> None:
    """Check solutions exactly: every violated constraint, the objective, and a verdict for each instance.

    Records with names are matched by name, other solutions by their order. Exit code 0: all are valid; 3: at least one
    is not, or has no solution, or its record says something else than what is found here.

    \b
    Examples:
      blogdit verify puzzles.txt solutions.txt
      blogdit verify graph.col answers.jsonl --colors 5
      blogdit verify graphs/ answers.jsonl --problem mis
    """
    files = find_files([instance], leave_out=[solution] if instance.is_dir() else [])
    instances = list(read_all(files, problem, colors, limits=parse_limits(allow)))
    valid, wrong = 0, 0
    for checked, found in zip(instances, match_solutions(solution, instances), strict=True):
        if found is None:
            say(f"{checked.name}: no solution in {solution}")
            continue
        verdict = checked.verify(found.values)
        valid += verdict.satisfied
        _report(checked, verdict, max_violations)
        if said := found.contradiction(checked):
            wrong += 1
            say(f"{checked.name}: WRONG RECORD, it says {said}")
    if len(instances) > 1:
        say(f"{valid} of {len(instances)} valid" + (f"; {wrong} wrong records" if wrong else ""))
    if wrong or valid < len(instances):
        raise typer.Exit(3)


def _report(instance: Instance, verdict: Verdict, most: int) -> None:
    for violation in islice(verdict.violations(), most):
        say(f"{instance.name}: {violation.describe(instance.labels)}")
    if verdict.violated > most:
        say(f"{instance.name}: ... and {verdict.violated - most} more")
    facts = ["valid" if verdict.satisfied else f"INVALID, {verdict.violated} violated"]
    facts += [] if verdict.objective is None else [f"objective {verdict.objective:.12g}"]
    facts += [f"{verdict.unmet} soft violated"] if verdict.unmet else []
    say(f"{instance.name}: {', '.join(facts)}")
