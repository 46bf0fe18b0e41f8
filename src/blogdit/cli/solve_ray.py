"""`blogdit solve --ray`"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from blogdit.cli.interrupts import Interrupts, Reading
from blogdit.cli.printing import warn
from blogdit.cli.solve_output import Tally
from blogdit.core.errors import InputError
from blogdit.formats.files import find_files, read_all
from blogdit.formats.limits import Limits
from blogdit.integrations.ray import Shard, connect, solve
from blogdit.solver.options import SolveKeywords


def solve_on_cluster(
    address: str,
    out: Path,
    resume: bool,
    model: str | None,
    device: str,
    cores: int | None,
    options: SolveKeywords,
    paths: Sequence[Path],
    problem: str | None,
    colors: int | None,
    limits: Limits,
    strict: bool,
) -> int:
    """The exit code of the command, after its summary."""
    tally, started = Tally(), time.monotonic()

    def report(error: InputError | str) -> None:
        tally.broken += 1
        warn(str(error))

    def on_shard(shard: Shard) -> None:
        for one in shard.records:
            tally.count(one["problem"], one["status"], one["steps"], one["seconds"])
        for error in shard.errors:
            report(error)
        if strict and shard.errors:
            raise InputError("stopped at the first broken instance (--strict)")

    connect(address)
    with Interrupts() as interrupts:  # not before: Ray has a handler of its own
        instances = read_all(find_files(paths, leave_out=[out]), problem, colors, None if strict else report, limits)
        done = solve(
            Reading(instances, interrupts), out, model=model, device=device, resume=resume, cores=cores or 1,
            on_shard=on_shard, stopped=lambda: interrupts.received is not None, **options,
        )  # fmt: skip
    tally.skipped, tally.skipped_invalid = done.skipped, done.skipped_invalid
    note = f"stopped by {interrupts.received.name}" if interrupts.received is not None else ""
    tally.print_summary(time.monotonic() - started, sum(tally.steps.values()), note)
    return interrupts.exit_code or tally.exit_code(cut_short=False)
