"""`blogdit train`"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from blogdit.cli.interrupts import Interrupts
from blogdit.cli.options import Device, Seed, Settings, parse_settings
from blogdit.cli.printing import say, show, tell
from blogdit.core.errors import InputError


def train(
    problem: Annotated[str, typer.Argument(metavar="PROBLEM", help="sudoku, latin, ..., or your own FILE.py.")],
    out: Annotated[Path, typer.Option(help="Folder for the model, the log and the state to resume from.")],
    minutes: Annotated[float | None, typer.Option(help="Train this long, all stretches together (see below).")] = None,
    updates: Annotated[int | None, typer.Option(help="Train for this many updates.")] = None,
    set_: Settings = [],  # noqa: B006 (typer copies it)
    data: Annotated[list[Path], typer.Option(help="Train on the instances of this file; may be repeated.")] = [],  # noqa: B006
    valid: Annotated[list[Path], typer.Option(help="Choose the best weights on this file; may be repeated.")] = [],  # noqa: B006
    from_: Annotated[
        str | None, typer.Option("--from", metavar="MODEL", help="Begin with the weights of a model.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in --out.")] = False,
    pause_after: Annotated[float | None, typer.Option(min=0, help="Stop after so many minutes, to be resumed.")] = None,
    compare: Annotated[
        int | None,
        typer.Option(min=0, help="Held-out instances for the table at the end (16 for a FILE.py, else none)."),
    ] = None,
    seed: Seed = 0,
    device: Device = "auto",
    tensorboard: Annotated[bool, typer.Option("--tensorboard", help="Also write TensorBoard files.")] = False,
) -> None:
    """Train a model for a problem, without labels.

    Instances are generated unless --data names files. A problem of your own is a Python file with a function
    generate(rng) that returns an instance (docs/training.md). If you have instances only, PROBLEM is what their JSON
    has as "problem", with --data; without --valid one in ten of them chooses the best weights. Sudoku and Latin squares
    also learn from their own verified answers.

    --out receives best.safetensors and last.safetensors (models for `blogdit solve --model`), log.jsonl (every loss
    term of every update) and what --resume needs. A run that was stopped or killed at any moment goes on with
    --resume. With several GPUs, start it with torchrun. --minutes begin with the first update: preparing the instances
    and the last scoring come on top.

    \b
    Examples:
      blogdit train sudoku --set box=2 --minutes 3 --out runs/sudoku4
      blogdit train coloring --minutes 25 --out runs/coloring --device cuda
      blogdit train sudoku --minutes 25 --out runs/sudoku --resume
      blogdit train my_problem.py --minutes 10 --out runs/mine
      blogdit train my_problem.py --from general --minutes 10 --out runs/mine
      blogdit train timetable --data exams.jsonl --minutes 10 --out runs/timetable     (instances of your own)
      blogdit train coloring --from coloring --set own_answers=0.3 --minutes 10 --out runs/better
      blogdit train sudoku --set selector=all --updates 1000 --out runs/dit     (an ablation)
    """
    from blogdit.api import train as train_model
    from blogdit.bench import payoff
    from blogdit.cli.progress import TrainingProgress
    from blogdit.problems.own import is_file
    from blogdit.training.runlog import STATE

    if (minutes is None) == (updates is None):
        raise InputError("expected either --minutes or --updates")
    writer = _tensorboard(out) if tensorboard else None

    def on_record(record: dict[str, Any], spent: float) -> None:
        progress.show(record, spent)
        if writer is not None:
            for name, value in record.items():
                if name != "update":
                    writer.add_scalar(name, value, record["update"])

    first = os.environ.get("RANK", "0") == "0"  # of several processes
    with Interrupts() as interrupts:
        try:
            with TrainingProgress() as progress:
                model = train_model(
                    problem, out, minutes, updates, parse_settings(set_), data, valid, resume, pause_after, seed,
                    device, on_record, progress.tell if first else lambda line: None, from_, interrupts.stop,
                )  # fmt: skip
        except KeyboardInterrupt:
            kept = f"the same command with --resume goes on with what is in {out}"
            tell(f"stopped; {kept if (out / STATE).exists() else 'there was nothing to keep yet'}")
            raise typer.Exit(interrupts.exit_code or 130) from None
    if writer is not None:
        writer.close()
    scores = ", ".join(f"{name} {value:.4g}" for name, value in model.provenance["validation"].items())
    say(f"{out / 'best.safetensors'}: {model.problem}, {model.provenance['updates']} updates, {scores}")
    count = compare if compare is not None else payoff.HELD_OUT if is_file(problem) else 0
    if count and pause_after is None and first:
        show(payoff.compare(out, from_, count, device=device, tell=tell))


def _tensorboard(out: Path) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise InputError("TensorBoard is not installed; expected pip install 'blogdit[tensorboard]'") from None
    return SummaryWriter(out / "tensorboard")
