"""`blogdit bench`"""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from blogdit.bench.records import RECORDS, TABLE
from blogdit.bench.suites import SUITES
from blogdit.cli.options import Colors, Device, Problem, Seed
from blogdit.cli.printing import say, tell
from blogdit.core.errors import InputError

if TYPE_CHECKING:
    from blogdit.bench.calls import Work
    from blogdit.bench.options import Options
    from blogdit.bench.suites import Suite
    from blogdit.bench.variants import Models

EVERY = 5.0  # seconds between two lines of progress
LEAST_WORKERS = 8  # threads: with fewer, whatever the number of cores, CP-SAT leaves strategies out


def bench(
    suite: Annotated[
        str,
        typer.Argument(
            metavar="SUITE", help=f"quick, one of {', '.join(SUITES)}, or a file or folder of instances of your own."
        ),
    ],
    out: Annotated[Path, typer.Option(help="Folder for records, table and figure; an interrupted run goes on here.")],
    data: Annotated[Path | None, typer.Option(help="Folder with the published data (or BLOGDIT_DATA).")] = None,
    systems: Annotated[str | None, typer.Option(help="Only these systems, as a,b,c.")] = None,
    cases: Annotated[str | None, typer.Option(help="Only these cases (columns), as a,b,c; * is any text.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="At most so many instances of each case.")] = None,
    seconds: Annotated[float | None, typer.Option(min=0.001, help="Seconds for an instance, for all systems.")] = None,
    steps: Annotated[int | None, typer.Option(min=1, help="Steps, for systems that count them.")] = None,
    model: Annotated[
        list[str], typer.Option(metavar="NAME=PATH", help="Weights of blogdit, a variant, or a new row.")
    ] = [],  # noqa: B006
    workers: Annotated[
        int | None, typer.Option(min=1, help="Threads of CP-SAT; if not given one for each core, and eight at least.")
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Instances of CPU solvers at the same time; set --workers.")] = 1,
    problem: Problem = None,
    colors: Colors = None,
    seed: Seed = 0,
    device: Device = "auto",
) -> None:
    """Compare systems on a benchmark: records, a Markdown table and a figure.

    `quick` runs all suites small, on generated instances, each in a folder of its own (five minutes on two cores).
    --out receives records.jsonl and records.csv (a row for each instance and system), table.md and figure.png, both
    made from the records alone. Instances of your own have ten seconds each, and --problem and --colors as in `solve`;
    where there is an objective, systems are compared by the distance from the best answer that any of them has.

    \b
    Examples:
      blogdit bench quick --out results
      blogdit bench mis --systems blogdit,rlsa,greedy --limit 20 --out results/mis
      blogdit bench sudoku --data DIR --device cuda --out results/sudoku
      blogdit bench coloring --systems cp-sat --jobs 8 --workers 1 --out results/coloring
      blogdit bench exams.jsonl --model blogdit=runs/exams/best.safetensors --seconds 5 --out results/exams
    """
    from blogdit.bench.options import Options
    from blogdit.bench.variants import named_models
    from blogdit.problems.generation import cores

    if seconds is not None and not math.isfinite(seconds):
        raise InputError(f"expected --seconds as a number, got {seconds}")
    if data is not None and not data.is_dir():
        raise InputError("no such folder", data)
    options = Options(
        data=data, systems=_names(systems), cases=_names(cases), limit=limit, seconds=seconds, steps=steps,
        device=device, workers=workers or max(cores() // jobs, LEAST_WORKERS), jobs=jobs, seed=seed,
        quick=suite == "quick",
    )  # fmt: skip
    models, tell = named_models(model), Told()
    chosen = _suites(suite, out, problem, colors)
    try:
        _run(chosen, options, models, tell)
    except KeyboardInterrupt:
        if any((folder / RECORDS).exists() for folder in chosen):
            tell(f"stopped; what was finished is in {out}, and the same command goes on from there", None)
        else:
            tell("stopped before a first answer; nothing was kept", None)
        raise


def _suites(name: str, out: Path, problem: str | None, colors: int | None) -> dict[Path, Suite]:
    """What was asked for, and the folder of each suite."""
    from blogdit.bench.user_suite import suite_of

    if name not in (*SUITES, "quick") and Path(name).exists():
        return {out: suite_of(Path(name), problem, colors)}
    if problem is not None or colors is not None:
        raise InputError("--problem and --colors are for instances of your own; expected a file or folder of them")
    if name == "quick":
        return {out / one.name: one for one in SUITES.values()}
    if name not in SUITES:
        known = f"quick, one of {', '.join(SUITES)}, or a file or folder of instances"
        raise InputError(f"unknown suite {name!r}; expected {known}")
    return {out: SUITES[name]}


def _run(chosen: dict[Path, Suite], options: Options, models: Models, tell: Told) -> None:
    """One suite after the other. Of several, those that have nothing of what was asked for are left out, and failures
    of one wait until the others are done."""
    from blogdit.bench.options import NothingToRun, Unanswered
    from blogdit.bench.runner import run_suite

    several = len(chosen) > 1
    left_out, failures = [], []
    for number, (folder, suite) in enumerate(chosen.items(), 1):
        if several:
            tell(f"{suite.name} ({number} of {len(chosen)} suites)", None)
        try:
            run_suite(suite, folder, options, models, tell)
        except NothingToRun as error:
            left_out.append(error)
            if several:
                tell(f"left out: {error}", None)
            continue
        except Unanswered as error:
            failures.append(error)
        say(str(folder / TABLE))
    if len(left_out) == len(chosen):
        raise NothingToRun("no suite has these systems and cases; nothing was done") if several else left_out[0]
    if failures:
        raise failures[0]


def _names(text: str | None) -> tuple[str, ...] | None:
    return None if text is None else tuple(name.strip() for name in text.split(",") if name.strip())


class Told:
    """Progress on stderr: what was done last, how far it is and how long it may take; a line every few seconds."""

    def __init__(self) -> None:
        self.last = float("-inf")

    def __call__(self, message: str, work: Work | None) -> None:
        now = time.monotonic()
        if work is None:
            tell(message)
        elif now - self.last >= EVERY or work.done == work.total:
            self.last = now
            minutes, seconds = divmod(round(work.time_left()), 60)
            left = f"{minutes // 60:02}:{minutes % 60:02}:{seconds:02}"
            tell(f"{message}: {work.done} of {work.total}, at most about {left} left")
