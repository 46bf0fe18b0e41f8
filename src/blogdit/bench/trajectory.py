"""Paths of blogdit and RLSA on one Sudoku, in a plane (Appendix J of the paper).

States are the unfixed cells' probabilities of each digit. The plane is spanned by the first two principal components
of a cloud that does not depend on the systems: random assignments, and the solution with a random share of its cells
replaced. The plane shows broad differences; it is not the energy landscape.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import torch

from blogdit.api import solver_for
from blogdit.bench import datasets
from blogdit.bench.options import NothingToRun, Options, Run
from blogdit.bench.records import Record, RecordFile, device_name
from blogdit.bench.suites import Case, Entrant
from blogdit.bench.systems import Budget, system
from blogdit.bench.systems.base import Clock
from blogdit.bench.systems.qubo import qubo
from blogdit.bench.systems.rlsa import anneal, settings_for
from blogdit.bench.variants import Blogdit, Models, make, misfit
from blogdit.core.constraints import IntArray
from blogdit.core.errors import InputError
from blogdit.core.instance import Instance
from blogdit.network.runtime import commit

CLOUD = 1000
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Plane:
    """The first two principal components of a cloud of states."""

    centre: Floats
    axes: Floats  # (2, values of all unfixed cells)

    @classmethod
    def fit(cls, cloud: Floats) -> Plane:
        centre = cloud.mean(0)
        _, _, axes = np.linalg.svd(cloud - centre, full_matrices=False)
        return cls(centre, axes[:2])

    def place(self, states: Floats) -> Floats:
        return (states - self.centre) @ self.axes.T


@dataclass
class Steps:
    """How far a path is."""

    total: int
    done: int = 0
    began: float = field(default_factory=time.monotonic)

    def time_left(self) -> float:
        return (time.monotonic() - self.began) / max(self.done, 1) * (self.total - self.done)


def background(instance: Instance, solution: IntArray, rng: np.random.Generator) -> IntArray:
    """(CLOUD, n): half random assignments, half solutions with a random share of their cells replaced."""
    digits = rng.integers(0, instance.domain_sizes, (CLOUD, instance.size))
    replaced = rng.random((CLOUD, instance.size)) < rng.random((CLOUD, 1))
    replaced[: CLOUD // 2] = True
    return np.where(replaced & ~instance.is_given, digits, solution)


def _showable(run: Run, instance: Instance) -> list[Entrant]:
    shown = []
    absent: dict[str, list[str]] = {}
    for entrant in run.entrants:
        one = make(entrant.system, run.models)
        if entrant.system != "rlsa" and not isinstance(one, Blogdit):
            reason: str | None = "paths are those of rlsa, blogdit and its variants"
        else:
            reason = misfit(one, instance)
        if reason is None:
            shown.append(entrant)
        else:
            absent.setdefault(reason, []).append(entrant.label)
    run.leave_out(absent, everything=not shown)
    return shown


def collect(run: Run, file: RecordFile) -> None:
    """Records of the cloud, the solution and every step of each entrant that is not there yet."""
    suite, options, models, tell = run.suite, run.options, run.models, run.tell
    case = run.cases[0]
    instance = datasets.load(case.split, options.data, case.count or 1)[0]
    entrants = _showable(run, instance)
    solver = system("cp-sat")
    if (missing := solver.missing()) is not None:
        raise NothingToRun(f"{suite.name}: {missing}; nothing was done")
    answer = solver.solve(instance, Budget(seconds=60))
    if answer.status != "solved":
        raise InputError(f"{instance.name} has no solution that CP-SAT finds in a minute")
    solution, free = answer.values, ~instance.is_given
    width = int(instance.domain_sizes.max())
    cloud = background(instance, solution, np.random.default_rng(options.seed))

    def flat(values: npt.NDArray[np.int64]) -> Floats:
        return np.eye(width)[values][..., free, :].reshape(*values.shape[:-1], -1)

    plane = Plane.fit(flat(cloud))
    facts = {"suite": suite.name, "case": case.name, "instance": instance.name, "seed": options.seed}
    facts |= {"device": device_name(options.device), "commit": commit(), "budget_steps": case.steps}

    def point(kind: str, label: str, steps: int, state: Floats, values: IntArray, seconds: float | None) -> Record:
        x, y = plane.place(state)
        right = float((values == solution)[free].mean())
        violated = instance.verify(values).violated
        shown = {"kind": kind, "system": label, "steps": steps, "x": round(float(x), 5), "y": round(float(y), 5)}
        shown |= {"share_right": round(right, 5), "violated": violated, "verdict": "invalid" if violated else "valid"}
        return {**facts, **shown, "seconds": seconds}

    there = {record["system"] for record in file.records}
    if "cloud" not in there:
        points = [point("cloud", "cloud", 0, flat(values), values, None) for values in cloud]
        file.append([*points, point("target", "target", 0, flat(solution), solution, None)])
    for entrant in entrants:
        if entrant.label in there:
            continue
        work = Steps(case.steps or 0)

        def stepped(number: int, label: str = entrant.label, work: Steps = work) -> None:
            work.done = number
            tell(f"{suite.name}, steps of {label}", work)

        if entrant.system == "rlsa":
            states = rlsa_path(instance, case, options, stepped)
        else:
            states = blogdit_path(entrant.system, instance, case, options, models, stepped)
        seconds = round(time.monotonic() - work.began, 6)
        points = []
        for step, (state, values) in enumerate(states):
            points.append(point("path", entrant.label, step, state[free].reshape(-1), values, seconds))
        file.append(points)


def blogdit_path(
    name: str, instance: Instance, case: Case, options: Options, models: Models, stepped: Callable[[int], None]
) -> list[tuple[Floats, IntArray]]:
    """Probabilities (n, K) and decoded values of the first chain after each step, until the puzzle is solved."""
    entrant = make(name, models)
    assert isinstance(entrant, Blogdit)
    settings = {**(entrant.variant.options or {}), "steps": case.steps, "seed": options.seed, "chains": 1}
    solver = solver_for(instance, entrant.weights[instance.problem], options.device, **settings)
    states: list[tuple[Floats, IntArray]] = []

    def watch() -> None:
        assert solver.slots is not None
        batch = solver.slots.batch
        chances = batch.allowed(solver.slots.logits).softmax(-1)
        state = batch.per_instance(chances)[0, 0, : instance.size].double().cpu().numpy()
        states.append((state, state.argmax(-1)))
        stepped(len(states))

    solver.on_step, solver.look_every = watch, 1
    for _ in solver.results([instance]):
        pass
    return states


def rlsa_path(
    instance: Instance, case: Case, options: Options, stepped: Callable[[int], None]
) -> list[tuple[Floats, IntArray]]:
    """Bits (n, K) and decoded values of the chain that ends best, after each step."""
    form = qubo(instance)
    seen: list[torch.Tensor] = []
    settings = settings_for(instance) if case.steps is None else replace(settings_for(instance), steps=case.steps)

    def watch(x: torch.Tensor) -> None:
        stepped(len(seen))  # it begins with the first state
        seen.append(x[0].to(torch.bool).cpu())

    energies, _, _ = anneal([form], settings, options.seed, Clock(None), options.device, watch)
    chain = int(energies[0].argmin())
    paths = [state[:, chain].numpy().astype(np.int64) for state in seen]
    return [(bits.reshape(instance.size, -1).astype(np.float64), form.decode(bits)) for bits in paths]
