"""Options that commands share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

import blogdit
from blogdit.core.constraints import LARGEST_SEED
from blogdit.core.errors import InputError
from blogdit.problems import families

WEIGHTS = Path(blogdit.__file__).parent / "weights"


def completes(*names: str) -> Callable[[str], list[str]]:
    """For shells: the names that begin with what has been typed. Typer knows the argument by its name."""

    def complete(incomplete: str) -> list[str]:
        return [name for name in names if name.startswith(incomplete)]

    return complete


def models(incomplete: str) -> list[str]:
    """The bundled models that begin with what has been typed."""
    return completes(*(path.stem for path in sorted(WEIGHTS.glob("*.safetensors"))))(incomplete)


def problems(incomplete: str) -> list[str]:
    return completes(*sorted(families()))(incomplete)


Problem = Annotated[
    str | None,
    typer.Option(help="Read it as sudoku, latin, coloring, maxcut, mis or qubo.", autocompletion=problems),
]
Colors = Annotated[int | None, typer.Option(help="Number of colours, for graph colouring.")]
Seed = Annotated[int, typer.Option(min=0, max=LARGEST_SEED, help="Seed of everything random.")]
Device = Annotated[
    str,
    typer.Option(help="auto (a GPU if there is one), cpu or cuda.", autocompletion=completes("auto", "cpu", "cuda")),
]
Settings = Annotated[list[str], typer.Option("--set", metavar="KEY=VALUE", help="A setting; may be repeated.")]


def parse_settings(pairs: Sequence[str]) -> dict[str, Any]:
    """`key=value` pairs: true and false, numbers, anything else as text."""
    settings = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not key or not equals:
            raise InputError(f"expected --set KEY=VALUE, got {pair!r}")
        settings[key.strip()] = _value(value.strip())
    return settings


def _value(text: str) -> Any:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            continue
    return text
