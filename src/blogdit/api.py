"""What a user calls from Python; the command line calls the same."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from blogdit import formats, runlog
from blogdit.checkpoint import Model, load_model
from blogdit.csp import Instance
from blogdit.errors import InputError
from blogdit.recipe import Recipe, recipe
from blogdit.runtime import process_group, resolve_device
from blogdit.training import Budget, Data, Trainer, generated_data

WEIGHTS = Path(__file__).parent / "weights"


def bundled_models() -> dict[str, Path]:
    """The trained models that come with the package."""
    return {path.stem: path for path in sorted(WEIGHTS.glob("*.safetensors"))}


def load(model: str | Path) -> Model:
    """A bundled model by name, or one from a file."""
    found = bundled_models()
    if str(model) in found:
        return load_model(found[str(model)])
    if not Path(model).exists():
        raise InputError(f"unknown model {str(model)!r}; expected a file or one of {', '.join(found) or 'none'}")
    return load_model(model)


def train(
    problem: str,
    out: str | Path,
    minutes: float | None = None,
    updates: int | None = None,
    settings: Mapping[str, Any] | None = None,
    data: Iterable[str | Path] = (),
    valid: str | Path | None = None,
    resume: bool = False,
    pause_after: float | None = None,
    seed: int = 0,
    device: str = "auto",
    on_record: Callable[[dict[str, Any], float], None] | None = None,
) -> Model:
    """Train a model for a problem family without labels; returns the best model so far, also in `out`.

    Instances come from the family's generator, or from the files `data` and `valid`. `resume` goes on from the state
    in `out`, with its settings and seed. `pause_after` stops after that many minutes of this call, to be resumed.
    `on_record` gets each log record and the share of the budget that is spent.
    """
    out = Path(out)
    try:
        budget = Budget(updates, minutes)
        if resume:
            saved = runlog.read_header(out / runlog.STATE)
            chosen, seed = Recipe.from_dict(saved["recipe"]), saved["seed"]
            if chosen.problem != problem:
                raise InputError(f"holds a run for {chosen.problem}, not for {problem}", out)
            if settings:
                raise InputError("a resumed run keeps its settings; leave out --set")
        else:
            chosen = recipe(problem, settings)
            if (out / runlog.STATE).exists():
                raise InputError("holds a training run already; resume it, or choose another folder", out)
    except InputError:
        raise
    except ValueError as error:
        raise InputError(str(error)) from None
    with process_group(resolve_device(device)) as here:
        trainer = Trainer(chosen, _data(chosen, seed, list(data), valid), budget, seed, str(here))
        if resume:
            trainer.load(out)
        for record in trainer.run(out, pause_after):
            if on_record is not None and trainer.rank == 0:
                on_record(record, budget.spent(trainer.progress.updates, trainer.progress.seconds))
    best = out / "best.safetensors"
    return load_model(best if best.exists() else out / "last.safetensors")


def _data(chosen: Recipe, seed: int, files: list[str | Path], valid: str | Path | None) -> Data:
    """Files where they are given, generated instances elsewhere."""
    try:
        data = generated_data(chosen, seed, training=not files, validation=valid is None)
    except ValueError as error:
        raise InputError(str(error)) from None
    colors = chosen.generator.get("colors")
    if files:
        data.training = [instance for path in files for instance in _read(path, chosen.problem, colors)]
        data.sources["training"] = ", ".join(Path(path).name for path in files)
    if valid is not None:
        data.validation = _read(valid, chosen.problem, colors)[: chosen.training.validation]
        data.sources["validation"] = Path(valid).name
    return data


def _read(path: str | Path, problem: str, colors: int | None) -> list[Instance]:
    return formats.read(path, problem, colors if problem == "coloring" else None)
