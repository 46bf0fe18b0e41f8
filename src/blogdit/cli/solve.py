"""`blogdit solve`"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, suppress
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from blogdit.cli.interrupts import Interrupts, Reading
from blogdit.cli.options import Allow, Colors, Device, Problem, Seed, completes, models, parse_limits
from blogdit.cli.printing import warn
from blogdit.cli.solve_output import FEW, Tally, View, print_answer, print_header, print_json, print_row
from blogdit.core.errors import InputError
from blogdit.core.result import VALID
from blogdit.core.stopping import Stopped

if TYPE_CHECKING:
    from blogdit.cli.solve_display import Display
    from blogdit.core.instance import Instance
    from blogdit.formats.records import RecordFile
    from blogdit.solver.options import SolveKeywords

COUNTING = 1.0  # seconds at most to count the instances that a line of progress tells about


def solve(
    paths: Annotated[list[Path], typer.Argument(metavar="PATH...", help="Files with instances, or folders of them.")],
    problem: Problem = None,
    colors: Colors = None,
    time_limit: Annotated[float | None, typer.Option(min=0, help="Seconds per instance (default 10).")] = None,
    total_time: Annotated[float | None, typer.Option(min=0, help="Seconds for everything.")] = None,
    steps: Annotated[int | None, typer.Option(min=0, help="Steps per instance.")] = None,
    target: Annotated[float | None, typer.Option(help="Stop at an objective this good.")] = None,
    first_feasible: Annotated[bool, typer.Option("--first-feasible", help="Stop at the first valid answer.")] = False,
    chains: Annotated[int | None, typer.Option(min=1, help="Chains per instance.")] = None,
    block: Annotated[str | None, typer.Option(help="random, margin, critical, related or all.")] = None,
    schedule: Annotated[str | None, typer.Option(help="Blocks shrink over a --cycle or over the budget.")] = None,
    cycle: Annotated[int | None, typer.Option(min=1, help="Steps before a stuck chain is reheated.")] = None,
    finish: Annotated[
        str | None,
        typer.Option(
            help="What follows the sampler: auto, none, exact, annealing, swaps, tabu, descent.",
            autocompletion=completes("auto", "none", "exact", "annealing", "swaps", "tabu", "descent"),
        ),
    ] = None,
    finish_share: Annotated[float | None, typer.Option(help="Its part of a time limit, up to 1 (default 0.5).")] = None,
    model: Annotated[
        str | None,
        typer.Option(
            help="A bundled model, a file or the folder of a training run; else that of the problem, or general.",
            autocompletion=models,
        ),
    ] = None,
    device: Device = "auto",
    threads: Annotated[int | None, typer.Option(min=1, help="Threads on the CPU.")] = None,
    batch_size: Annotated[int | None, typer.Option(min=1, help="Instances on the device at a time.")] = None,
    seed: Seed = 0,
    out: Annotated[Path | None, typer.Option(help="Write a JSON line per instance to this file.")] = None,
    ray: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Solve on a Ray cluster: auto, local, or HOST:PORT.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Skip the instances that --out holds already.")] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Stop at the first broken instance.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print a JSON object per instance.")] = False,
    table: Annotated[bool, typer.Option("--table", help="Print a line per instance, also of few.")] = False,
    live: Annotated[bool, typer.Option("--live", help="Show every step of the instance in work.")] = False,
    trace: Annotated[Path | None, typer.Option(help="Write every step to this file; blogdit serve plays it.")] = None,
    allow: Allow = [],  # noqa: B006 (typer copies it)
) -> None:
    """Solve the instances of files and folders; every answer is checked exactly.

    The sampler comes first, then a finisher. Records of --json and --out come in the order of completion. Budgets may
    be combined: the first that is reached ends an instance. Exit code 0: every instance has a valid
    answer; 3: at least one has none; 2: some input could not be used (the others are solved), or bad usage; 130 and
    143: stopped by Ctrl-C or SIGTERM, with what was finished written.

    \b
    Examples:
      blogdit solve puzzle.txt
      blogdit solve graph.col --colors 5 --time-limit 30
      blogdit solve puzzles.txt --out answers.jsonl
      blogdit solve puzzles.txt --out answers.jsonl --resume     (after an interruption)
      blogdit solve graphs/ --problem mis --chains 8 --json
      blogdit solve puzzles.txt --table                          (a line for each)
      blogdit solve puzzle.txt --finish none --live              (watch the sampler alone)
      blogdit solve graph.col --colors 3 --finish exact          (a colouring, or a proof that there is none)
      blogdit solve puzzles.jsonl --ray auto --out answers/      (on all machines of a cluster: docs/scale.md)
    """
    if json and table:
        raise InputError("--json and --table both go to stdout; expected one of them")
    if resume and out is None:
        raise InputError("--resume goes on with a file of results; expected --out FILE")
    options: SolveKeywords = {
        "time_limit": time_limit, "total_time": total_time, "steps": steps, "target": target,
        "first_feasible": first_feasible or None, "chains": chains, "block": block, "schedule": schedule,
        "cycle": cycle, "finish": finish, "finish_share": finish_share, "batch_size": batch_size, "seed": seed,
    }  # fmt: skip
    if ray is not None:
        if out is None or json or table or live or trace is not None:
            raise InputError("--ray writes files of results and prints none; expected --out FOLDER alone")
        from blogdit.cli.solve_ray import solve_on_cluster

        inputs = (paths, problem, colors, parse_limits(allow), strict)
        raise typer.Exit(solve_on_cluster(ray, out, resume, model, device, threads, options, *inputs))
    with Interrupts() as interrupts, ExitStack() as stack:
        from blogdit.api import solver_pool
        from blogdit.cli.solve_display import Display, count_instances
        from blogdit.formats.files import find_files, read_all
        from blogdit.formats.records import RecordFile
        from blogdit.network.runtime import set_threads
        from blogdit.solver.events import Step, Teller

        set_threads(threads)
        tally, teller, limits = Tally(), Teller(), parse_limits(allow)
        pool = solver_pool(model, device, **options)
        interrupts.on_signal = pool.stop
        files = find_files(paths, leave_out=[path for path in (out, trace) if path is not None])
        results = None if out is None else stack.enter_context(RecordFile(out, resume))
        steps_file = None if trace is None else stack.enter_context(RecordFile(trace, None if out is None else resume))
        display = Display(pool, tally, total_time, live)
        with suppress(Stopped), interrupts.giving_up(time.monotonic() + COUNTING):
            display.total = count_instances(files) if display.visible else None
        stack.enter_context(display)
        pool.session.trace, pool.session.on_step = live or trace is not None, display.tick
        pool.session.on_note = partial(_say, display)
        pool.on_error = None if strict else partial(_report, tally, display)

        started = time.monotonic()
        instances = read_all(files, problem, colors, pool.on_error, limits)
        if results is not None:
            instances = _unanswered(instances, results, tally)
        reading = Reading(instances, interrupts, started + (math.inf if total_time is None else total_time))
        view, instances = _view_of(reading, json, table, filed=results is not None)
        for event in pool.run(instances, started):
            if steps_file is not None:
                for line in teller.lines(event):
                    steps_file.write(line)
            if isinstance(event, Step):
                display.show(event)
                continue
            display.forget(event.index)
            tally.unfinished += not event.complete
            if results is not None and not event.complete:
                continue  # --resume takes it up again
            tally.add(event.result)
            if results is not None:
                results.write_result(event.result)
            with display.paused():
                view.add(event.index, event.result)
        display.close()
        view.close()
        cut_short = pool.cut_short or reading.cut_short
        if interrupts.received is not None or tally.done or tally.skipped or cut_short:
            tally.print_summary(display.seconds, pool.steps_done, _note(interrupts, cut_short))
    raise typer.Exit(interrupts.exit_code or tally.exit_code(cut_short))


def _say(display: Display, text: str) -> None:
    """One line on stderr."""
    with display.paused():
        warn(text)


def _report(tally: Tally, display: Display, error: InputError) -> None:
    """What is broken, and on with the others."""
    tally.broken += 1
    _say(display, str(error))


def _unanswered(instances: Iterable[Instance], results: RecordFile, tally: Tally) -> Iterator[Instance]:
    """Those that the file does not hold. An answer to another question under the same name is an error."""
    for instance in instances:
        held = results.held.get(instance.name)
        if held is None:
            yield instance
            continue
        results.check(instance)
        tally.skipped += 1
        tally.skipped_invalid += held.status not in VALID


def _view_of(instances: Iterator[Instance], json: bool, table: bool, filed: bool) -> tuple[View, Iterator[Instance]]:
    """How answers go to stdout: as JSON or a table if asked for, not at all if they are filed, else for people: in full
    if there are few, a line each if there are many. Looks at the first instances, and hands them back with the others.
    """
    if json or (filed and not table):
        return View(print_json if json else None), instances
    first = list(islice(instances, 0 if table else FEW + 1))
    table = table or len(first) > FEW
    if table:
        print_header()
    view = View(print_row) if table else View(print_answer, in_order=True)
    return view, chain(first, instances)


def _note(interrupts: Interrupts, cut_short: bool) -> str:
    if interrupts.received is not None:
        return f"stopped by {interrupts.received.name}"
    return "the total time is over, and not every instance was reached" if cut_short else ""
