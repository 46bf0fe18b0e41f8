"""Whether training paid: a model beside the one that it began with, sampling without learning, and CP-SAT.

All of them answer held-out instances, which neither trained the model nor chose its weights: first with equal steps,
then with equal time. No finisher follows the samplers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from blogdit.api import bundled_models, load, model_file
from blogdit.bench.systems import Budget, System, system
from blogdit.bench.variants import Blogdit
from blogdit.core.instance import Instance
from blogdit.core.result import VALID, Result
from blogdit.network.checkpoint import Model, load_model
from blogdit.network.runtime import resolve_device
from blogdit.problems.generation import cores, make_many
from blogdit.training.recipe import Recipe

HELD_OUT = 16  # instances
STEPS = 200
SECONDS = 1.0  # for an instance, where time is equal
PATIENCE = 3.0  # seconds for an instance, where steps are equal: a slow machine takes fewer of them
CLEAR = 0.05  # a difference is clear if chance alone would give it, or a larger one, less often
YOURS, GIBBS, EXACT = "your model", "Gibbs, no learning", "CP-SAT"


@dataclass(frozen=True)
class Row:
    """The answers of one system; none with equal steps if it does not count any."""

    name: str
    by_steps: Sequence[Result] | None
    by_time: Sequence[Result]


@dataclass(frozen=True)
class Match:
    """On how many instances one system is better than another, and on how many it is worse."""

    better: int
    worse: int

    @property
    def chance(self) -> float:
        """How often two equal systems differ that much or more, if each instance is a toss of a coin (sign test)."""
        number, most = self.better + self.worse, max(self.better, self.worse)
        tail = sum(math.comb(number, k) for k in range(most, number + 1)) / 2**number
        return min(1.0, 2 * tail)

    @property
    def clear(self) -> int:
        """1: better, -1: worse, 0: it cannot be said."""
        return 0 if self.chance >= CLEAR else 1 if self.better > self.worse else -1


def held_out(model: Model, count: int) -> list[Instance]:
    """New instances from the generator that the model was trained with."""
    recipe = Recipe.from_dict(model.provenance["recipe"])
    return make_many(recipe.problem, count, (model.provenance["seed"], 2), recipe.generator)


def compare(
    out: Path,
    start: str | None,
    count: int = HELD_OUT,
    steps: int = STEPS,
    seconds: float = SECONDS,
    device: str = "auto",
    tell: Callable[[str], None] = lambda line: None,
) -> str:
    """A table of all systems, and a sentence on what it means. `start` is the model that training began with; without
    one it is the general model, if there is one that fits."""
    model = load_model(model_file(out))
    instances = held_out(model, count)
    rival = start or ("general" if "general" in bundled_models() else None)
    if rival is not None and any(load(rival).misfit(one) for one in instances):
        rival = None
    systems: dict[str, System] = {YOURS: _sampler(model, out)}
    if rival is not None:
        systems[rival] = _sampler(model, rival)
    systems |= {GIBBS: system("gibbs"), EXACT: system("cp-sat")}
    budget = Budget(device=str(resolve_device(device)), workers=cores(), chains=1)
    rows = []
    for name, one in systems.items():
        tell(f"comparing: {name} on {count} held-out instances")
        own = budget if one.batched else replace(budget, device="cpu")
        one.warm_up(instances, own)
        counted = replace(own, steps=steps, seconds=PATIENCE * count)
        by_steps = one.solve_many(instances, counted) if one.counts == "steps" else None
        by_time = one.solve_many(instances, replace(own, seconds=seconds * count))
        rows.append(Row(name, by_steps, by_time))
        if name == YOURS and by_steps is not None:  # what it had no time for, nobody else does
            steps = max((result.steps for result in by_steps if result.status != "solved"), default=steps)
    return f"{table(rows, steps, seconds)}\n{verdict(rows, rival)}"


def _sampler(model: Model, where: str | Path) -> Blogdit:
    return Blogdit(str(where), {model.problem: model_file(where)}, finish="none")


def match(first: Sequence[Result], second: Sequence[Result], count_steps: bool = False) -> Match:
    """With `count_steps`, of two valid answers without an objective the one after fewer steps is better."""
    costs = [(_cost(a, count_steps), _cost(b, count_steps)) for a, b in zip(first, second, strict=True)]
    return Match(sum(a < b for a, b in costs), sum(a > b for a, b in costs))


def _cost(result: Result, count_steps: bool) -> tuple[int, float]:
    """Smaller for a better answer: what it violates comes first."""
    goal, violated = result.instance.objective, result.verdict.violated
    if goal is not None and result.objective is not None:
        return violated, goal.sign * result.objective
    return violated, float(result.steps) if count_steps and not violated else 0.0


def table(rows: Sequence[Row], steps: int, seconds: float) -> str:
    """A line for each system: valid answers, the mean of their objectives or, without one, of what all answers violate,
    and the mean of the steps that were taken (fewer where an answer came early, or the time was over)."""
    instances = [one.instance for one in rows[0].by_time]
    goals = {one.objective.sense for one in instances if one.objective is not None}
    measure = "violated" if not goals else "objective" if len(goals) == 1 else "objectives"
    lines = [["", f"{steps} steps: valid", measure, "taken", f"{seconds:g} s each: valid", measure]]
    for row in rows:
        taken = "-" if row.by_steps is None else f"{sum(one.steps for one in row.by_steps) / len(instances):.0f}"
        lines.append([row.name, *_cells(row.by_steps, bool(goals)), taken, *_cells(row.by_time, bool(goals))])
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join([line[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(line[1:], widths[1:], strict=True))]).rstrip()
        for line in lines
    )


def _cells(results: Sequence[Result] | None, optimisation: bool) -> tuple[str, str]:
    if results is None:
        return "-", "-"
    valid = [one for one in results if one.status in VALID]
    counted = [one.objective or 0.0 for one in valid] if optimisation else [one.verdict.violated for one in results]
    mean = f"{sum(counted) / len(counted):.6g}" if counted else "-"
    return f"{len(valid)} of {len(results)}", mean


def verdict(rows: Sequence[Row], rival: str | None) -> str:
    """One sentence on whether training paid: beside the rival or, without one, beside no learning."""
    known = {row.name: row for row in rows}
    own, number = known[YOURS], len(rows[0].by_time)

    def beside(name: str) -> tuple[Match, Match]:
        """With equal steps, and with equal time."""
        by_steps = match(own.by_steps or (), known[name].by_steps or (), count_steps=True)
        return by_steps, match(own.by_time, known[name].by_time)

    if not any(one.status in VALID for one in (*(own.by_steps or ()), *own.by_time)):
        return f"The model is useless so far: it has no valid answer to any of the {number} held-out instances."
    by_steps, by_time = beside(GIBBS)
    if by_steps.clear < 0 and by_time.clear < 0:
        return (
            f"The model is useless so far: Gibbs sampling without learning is better on {by_steps.worse} of {number} "
            f"instances with equal steps, and on {by_time.worse} with equal time."
        )
    name = rival or GIBBS
    by_steps, by_time = beside(name)
    return (
        f"{_opening(by_steps.clear, by_time.clear)}: beside {name}, your model is better on {by_steps.better} and "
        f"worse on {by_steps.worse} of {number} instances with equal steps (p = {by_steps.chance:.2g}), better on "
        f"{by_time.better} and worse on {by_time.worse} with equal time (p = {by_time.chance:.2g})."
    )


def _opening(by_steps: int, by_time: int) -> str:
    if by_steps == by_time == 0:
        return "Training made no clear difference"
    if by_steps > 0 and by_time < 0:
        return "Training paid by steps, but not by time"
    return "Training paid" if by_steps + by_time > 0 else "Training did not pay"
