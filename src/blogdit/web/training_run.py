"""A training run, watched from outside: its log as it grows, and what its current weights can do."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from blogdit.api import solve
from blogdit.core.errors import InputError
from blogdit.core.instance import Instance
from blogdit.core.result import Result
from blogdit.network.checkpoint import Model, load_model
from blogdit.problems import families
from blogdit.problems.own import recall
from blogdit.training import runlog
from blogdit.training.recipe import Recipe
from blogdit.web.channel import Channel

EVERY = 1.0  # seconds between two looks at the folder
POINTS = 1500  # records that a long log is thinned to, when it is opened; those with a score all stay
INSTANCES, SEED = 8, 20_000_003  # that the current weights are tried on: always the same ones
REFERENCE_SECONDS = 2.0  # for the answer that a gap is measured to
QUIET = 120.0  # seconds without a record after which a run no longer counts as running


def require_run(folder: Path) -> Recipe:
    """The recipe of the run in a folder, or an InputError that says what is missing."""
    if not (folder / "log.jsonl").exists():
        raise InputError("holds no training run; expected the folder that blogdit train --out has written", folder)
    return Recipe.from_dict(runlog.read_header(folder / runlog.STATE)["recipe"])


class TrainingRun(Channel):
    """Events `run` (what it is), `records` (of the log) and `score` (of the current weights)."""

    def __init__(self, folder: Path, loop: asyncio.AbstractEventLoop):
        super().__init__(loop)
        self.folder, self.recipe, self.stride = folder, require_run(folder), 1
        self.tell("run", {"folder": folder.name, "problem": self.recipe.problem, "recipe": self.recipe.to_dict()})
        for work in (self._follow_log, self._follow_weights):
            threading.Thread(target=self._guarded, args=(work,), daemon=True).start()

    def _guarded(self, work: Any) -> None:
        try:
            work()
        except InputError as error:
            self.tell("failed", {"error": str(error)})
        except Exception:
            traceback.print_exc(file=sys.stderr)
            self.tell("failed", {"error": "an error of the server; its log says more"})

    def _follow_log(self) -> None:
        path, position, was_running = self.folder / "log.jsonl", 0, False
        while not self.done:
            if path.stat().st_size < position:  # a resumed run has dropped what it repeats
                position = 0
                self.tell("again", {})
            with path.open("rb") as file:
                file.seek(position)
                whole = file.read().rpartition(b"\n")[0]
            running = time.time() - path.stat().st_mtime < QUIET
            if whole or running != was_running:
                was_running = running
                lines = whole.split(b"\n") if whole else []
                if position == 0:
                    self.stride = max(len(lines) // POINTS, 1)
                position += len(whole) + bool(whole)
                self.tell("records", {"records": list(self._thinned(lines)), "running": running})
            time.sleep(EVERY)

    def _thinned(self, lines: list[bytes]) -> Iterator[dict[str, Any]]:
        for line in lines:
            record = json.loads(line)
            if record["update"] % self.stride == 0 or "valid_score" in record or len(lines) < self.stride:
                yield record

    def _follow_weights(self) -> None:
        path, seen = self.folder / "last.safetensors", 0.0
        recall(self.folder, self.recipe.problem)
        if self.recipe.problem not in families():
            return  # nothing to make instances with
        instances = families()[self.recipe.problem].make(INSTANCES, SEED, **self.recipe.generator)
        references: list[Result] = []
        while not self.done:
            if path.exists() and (changed := path.stat().st_mtime) != seen:
                seen = changed
                model = load_model(path)
                if not references:
                    references = solve(instances, model, time_limit=REFERENCE_SECONDS)
                self.tell("score", self._score(model, instances, references))
            time.sleep(EVERY)

    def _score(self, model: Model, instances: list[Instance], references: list[Result]) -> dict[str, Any]:
        """The sampler alone, as many steps as in the run's own validation."""
        steps = self.recipe.training.validation_steps
        results = solve(instances, model, steps=steps, finish="none")
        rows = []
        for result, reference in zip(results, references, strict=True):
            row: dict[str, Any] = {
                "status": result.status,
                "violations": result.verdict.violated,
                "steps": result.steps,
            }
            if result.objective is not None and reference.objective is not None:
                row |= {"objective": result.objective, "reference": reference.objective}
            rows.append(row)
        valid = sum(result.verdict.satisfied for result in results)
        return {"update": model.provenance.get("updates"), "steps": steps, "valid": valid, "instances": rows}
