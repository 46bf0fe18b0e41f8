"""`blogdit generate`"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from blogdit.cli.options import Seed, Settings, parse_settings
from blogdit.core.errors import InputError
from blogdit.formats.files import write_files
from blogdit.problems import family, own


def generate(
    problem: Annotated[str, typer.Argument(metavar="PROBLEM", help="sudoku, latin, ..., or your own FILE.py.")],
    out: Annotated[Path, typer.Option(help="A file, or a folder for one file per instance.")],
    count: Annotated[int, typer.Option(min=1, help="How many instances.")] = 1,
    seed: Seed = 0,
    set_: Settings = [],  # noqa: B006 (typer copies it)
) -> None:
    """Make random instances of a problem; the same seed gives the same instances.

    Several instances go into one file (Sudoku: a line each; Latin squares: one after the other; others: JSON lines).
    If --out is a folder or has no suffix, each gets its own. `blogdit info` lists the settings of each problem.

    \b
    Examples:
      blogdit generate sudoku --count 100 --out puzzles.txt
      blogdit generate coloring --set vertices=100 --set colors=5 --out graph.col
      blogdit generate maxcut --out - | blogdit solve -
      blogdit generate my_problem.py --count 10 --out new.jsonl
    """
    try:
        chosen = own.adopt(problem) or family(problem)
        instances = chosen.make(count, seed, **parse_settings(set_))
    except InputError:
        raise
    except ValueError as error:
        raise InputError(str(error)) from None
    width = len(str(count - 1))
    write_files(instances, [f"{chosen.name}-{index:0{width}}" for index in range(count)], out)
