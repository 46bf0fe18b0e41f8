"""`blogdit info`"""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated

import typer

import blogdit
from blogdit.cli.options import WEIGHTS, models
from blogdit.cli.printing import say, show
from blogdit.core.errors import InputError
from blogdit.problems import families

PACKAGES = ("torch", "numpy", "networkx", "safetensors", "ortools")


def info(
    model: Annotated[
        str | None,
        typer.Argument(metavar="[MODEL]", help="A bundled model or a file: show its origin.", autocompletion=models),
    ] = None,
) -> None:
    """Show versions, the problem families with the settings of their generators, and the bundled models.

    \b
    Examples:
      blogdit info
      blogdit info sudoku
    """
    if model is not None:
        _show_model(model)
        return
    say(f"blogdit {blogdit.__version__}")
    say(f"python {platform.python_version()} on {platform.system()} {platform.machine()}")
    for package in PACKAGES:
        say(f"{package} {_version(package)}")
    for name, family in sorted(families().items()):
        say()
        say(f"{name}: {family.summary}")
        say("  --set " + " ".join(f"{key}={_shown(value)}" for key, value in family.settings.items()))
    say()
    say(f"models: {' '.join(path.stem for path in sorted(WEIGHTS.glob('*.safetensors')))}")


def _show_model(name: str) -> None:
    """A model's network, how it is run and how it was trained; of a bundled one also its card. All of it is in the
    header, which needs no torch."""
    from blogdit.network.header import options_for, part_of, read_header

    bundled = WEIGHTS / f"{name}.safetensors"
    path = bundled if bundled in WEIGHTS.glob("*.safetensors") else Path(name)
    if not path.exists():
        known = ", ".join(sorted(one.stem for one in WEIGHTS.glob("*.safetensors")))
        raise InputError(f"unknown model {name!r}; expected a file or one of {known}")
    header, numbers = read_header(path)
    try:
        config, chain, origin, solving = (
            part_of(header, one) for one in ("denoiser", "chain", "provenance", "solving")
        )
        schedule = part_of(chain, "schedule")
        part_of(solving, "cuda", {})
    except TypeError as error:
        raise InputError(f"a header that cannot be read ({error})", path) from None
    layers, dim, values = (config.get(one, "?") for one in ("layers", "dim", "values"))
    say(f"{path.stem}: {numbers:,} parameters, {layers} layers, dim {dim}, values as {values}")
    most, least, shape = (schedule.get(one, "?") for one in ("rho_max", "rho_min", "shape"))
    say(f"blocks {most} -> {least} of the variables, {shape}")
    for device in ("cpu", "cuda"):
        options = options_for(solving, device)
        say(f"solving ({device}): " + (" ".join(f"{k}={_shown(v)}" for k, v in options.items()) or "defaults"))
    if origin:
        minutes, updates, place, seed, commit = (
            origin.get(name, "?") for name in ("minutes", "updates", "device", "seed", "commit")
        )
        number = f"{updates:,}" if isinstance(updates, int) else updates
        say(f"trained {minutes} minutes, {number} updates on {place}, seed {seed}, commit {commit}")
    if path == bundled and (card := path.with_suffix(".md")).exists():
        show("\n" + card.read_text().strip())


def _version(package: str) -> str:
    """From the package's metadata: importing torch would take seconds."""
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _shown(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
