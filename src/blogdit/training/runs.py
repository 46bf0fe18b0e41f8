"""Which recipe a call of `blogdit.train` follows: that of a run to go on with, or a new one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from blogdit.core.errors import InputError
from blogdit.network.checkpoint import Model
from blogdit.network.runtime import by_torchrun
from blogdit.training import runlog
from blogdit.training.recipe import Recipe, recipe


def chosen_recipe(
    problem: str, out: Path, settings: Mapping[str, Any] | None, resume: bool, seed: int, begin: Model | None
) -> tuple[Recipe, int, bool]:
    """The recipe, the seed, and whether a run in `out` goes on. An InputError where `out` holds something else."""
    if resume and ((out / runlog.STATE).exists() or not by_torchrun()):
        saved = runlog.read_header(out / runlog.STATE)
        try:
            chosen, seed = Recipe.from_dict(saved["recipe"]), saved["seed"]
        except InputError as error:
            raise InputError(error.message, out / runlog.STATE) from None
        if chosen.problem != problem:
            raise InputError(f"holds a run for {chosen.problem}, not for {problem}", out)
        return chosen.resumed(settings or {}), seed, True
    chosen = recipe(problem, settings, own=True, start=begin)
    if out.exists() and not out.is_dir():
        raise InputError("is a file; expected a folder", out)
    if (out / runlog.STATE).exists():
        raise InputError("holds a training run already; resume it, or choose another folder", out)
    return chosen, seed, False
