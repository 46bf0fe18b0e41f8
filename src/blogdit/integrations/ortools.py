"""OR-Tools' CP-SAT: a model as an instance (`from_cp_model`), and the sampler's answer as a hint (`hint`)."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack

from ortools.sat.python import cp_model

from blogdit import api
from blogdit.core.errors import InputError
from blogdit.core.instance import Instance
from blogdit.core.result import Result
from blogdit.finishers.cp_model import Translation
from blogdit.integrations.ortools_model import from_cp_model as from_cp_model
from blogdit.integrations.ortools_proto import has
from blogdit.network.checkpoint import Model
from blogdit.solver.options import SolveKeywords

DEFAULT_SECONDS = 1.0  # for the sampler, where no budget is given


@dataclass(frozen=True)
class Run:
    """What CP-SAT did: its status, and the seconds and objectives of its solutions, each better than the one before."""

    status: str
    seconds: float
    solutions: tuple[tuple[float, float], ...]

    @property
    def first(self) -> float | None:
        """Seconds until there was a solution; None if there was none."""
        return self.solutions[0][0] if self.solutions else None

    @property
    def objective(self) -> float | None:
        return self.solutions[-1][1] if self.solutions else None

    def reached(self, target: float, maximize: bool) -> float | None:
        """Seconds until a solution was as good as the target; None if none was."""
        return next((at for at, value in self.solutions if _as_good(value, target, maximize)), None)


@dataclass(frozen=True)
class Gain:
    """CP-SAT on the same model without the hint and with it. `target` is what the times `to_target` are for."""

    without: Run
    hinted: Run
    target: float | None
    to_target: tuple[float | None, float | None]  # seconds without the hint and with it; those of the hint not counted


@dataclass(frozen=True)
class Hint:
    """A model of CP-SAT with the hint in it, the checked answer that the hint is, and the seconds that it took."""

    model: Any
    result: Result
    seconds: float

    def gain(self, time_limit: float = 10.0, target: float | None = None, workers: int = 1, seed: int = 0) -> Gain:
        """Let CP-SAT solve the model twice, without the hint and with it. Without a `target`, it is the best objective
        that CP-SAT has found without the hint. `time_limit` is in seconds for each of both."""
        plain = self.model.clone()
        plain.clear_hints()
        without = solve_once(plain, time_limit, target, workers, seed)
        goal = without.objective if target is None else target
        hinted = solve_once(self.model, time_limit, goal, workers, seed)
        times: tuple[float | None, float | None] = (without.first, hinted.first)
        if goal is not None and self.model.has_objective():
            maximize = _maximizes(self.model)
            times = without.reached(goal, maximize), hinted.reached(goal, maximize)
        return Gain(without, hinted, goal if self.model.has_objective() else None, times)


def hint(
    model_or_instance: Any,
    model: str | Path | Model | None = None,
    device: str = "auto",
    **options: Unpack[SolveKeywords],
) -> Hint:
    """Let the sampler solve a model of CP-SAT, or an instance, and put its best answer into the model as a hint.

    The hints of a `CpModel` are replaced; from an instance a CP-SAT model is made. `model` is that of the sampler, and
    all keywords are those of `blogdit.solve`. Without a budget the sampler has a second, and without `finish` it is
    alone: nothing follows it.
    """
    is_instance = isinstance(model_or_instance, Instance)
    if not is_instance and not isinstance(model_or_instance, cp_model.CpModel):
        raise InputError(f"expected a CpModel of OR-Tools or an instance, got {type(model_or_instance).__name__}")
    instance = model_or_instance if is_instance else from_cp_model(model_or_instance)
    began = time.monotonic()
    chosen: SolveKeywords = {"finish": "none", **options}
    if all(options.get(name) is None for name in ("time_limit", "steps", "total_time")):
        chosen["time_limit"] = DEFAULT_SECONDS
    (result,) = api.solve_each(instance, model, device, **chosen)
    seconds = time.monotonic() - began
    if is_instance:
        translation = Translation(instance)
        translation.hint(result.values)
        return Hint(translation.model, result, seconds)
    model_or_instance.clear_hints()
    numbers = instance.domains.numbers(result.values).tolist()
    for index, number in enumerate(numbers[: len(model_or_instance.proto.variables)]):
        model_or_instance.add_hint(model_or_instance.get_int_var_from_proto_index(index), number)
    return Hint(model_or_instance, result, seconds)


def solve_once(model: Any, time_limit: float, target: float | None = None, workers: int = 1, seed: int = 0) -> Run:
    """CP-SAT on a model, until the time limit, a proof, or a solution as good as the target."""
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = time_limit
    solver.parameters.num_workers = workers
    solver.parameters.random_seed = seed
    maximize, began = _maximizes(model), time.monotonic()
    found: list[tuple[float, float]] = []

    class Trace(cp_model.CpSolverSolutionCallback):
        def on_solution_callback(self) -> None:
            found.append((time.monotonic() - began, self.objective_value))
            if target is not None and model.has_objective() and _as_good(self.objective_value, target, maximize):
                self.stop_search()

    status = solver.solve(model, Trace())
    return Run(solver.status_name(status), time.monotonic() - began, tuple(found))


def _as_good(value: float, target: float, maximize: bool) -> bool:
    return value >= target if maximize else value <= target


def _maximizes(model: Any) -> bool:
    proto = model.proto  # to look at a field that is not there would make it
    if has(proto, "floating_point_objective"):
        return bool(proto.floating_point_objective.maximize)
    return bool(has(proto, "objective") and proto.objective.scaling_factor < 0)
