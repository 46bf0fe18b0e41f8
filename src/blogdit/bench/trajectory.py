"""Paths of blogdit and RLSA on one Sudoku, in a plane (Appendix J of the paper).

States are the unfixed cells' probabilities of each digit. The plane is spanned by the first two principal components
of a cloud that does not depend on the systems: random assignments, and the solution with a random share of its cells
replaced. The plane shows broad differences; it is not the energy landscape.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import torch

from blogdit.bench import datasets
from blogdit.bench.calls import Run
from blogdit.bench.options import Options
from blogdit.bench.records import Record, RecordFile, device_name
from blogdit.bench.suites import Case, Entrant
from blogdit.bench.systems import Budget, system
from blogdit.bench.systems.base import Clock
from blogdit.bench.systems.qubo import qubo
from blogdit.bench.systems.rlsa import anneal, settings_for
from blogdit.bench.variants import Blogdit, make, misfit
from blogdit.core.constraints import IntArray
from blogdit.core.errors import InputError
from blogdit.core.instance import Instance
from blogdit.network.runtime import commit

CLOUD = 1000
Floats = npt.NDArray[np.float64]


def plane_of(cloud: Floats) -> Callable[[Floats], Floats]:
    """A function from states to their places in the plane of the cloud's first two principal components."""
    centre = cloud.mean(0)
    _, _, axes = np.linalg.svd(cloud - centre, full_matrices=False)
    return lambda states: (states - centre) @ axes[:2].T


def background(instance: Instance, solution: IntArray, rng: np.random.Generator) -> IntArray:
    """(CLOUD, n): half random assignments, half solutions with a random share of their cells replaced."""
    digits = rng.integers(0, instance.domain_sizes, (CLOUD, instance.size))
    replaced = rng.random((CLOUD, instance.size)) < rng.random((CLOUD, 1))
    replaced[: CLOUD // 2] = True
    return np.where(replaced & ~instance.is_given, digits, solution)


def _showable(run: Run, instance: Instance) -> list[Entrant]:
    """The entrants that have a path on this instance."""
    shown, absent = [], defaultdict(list)
    for entrant in run.entrants:
        one = make(entrant.system, run.models)
        has_path = entrant.system == "rlsa" or isinstance(one, Blogdit)
        reason = misfit(one, instance) if has_path else "paths are those of rlsa, blogdit and its variants"
        if reason is None:
            shown.append(entrant)
        else:
            absent[reason].append(entrant.label)
    run.leave_out(absent, everything=not shown)
    return shown


def collect(run: Run, file: RecordFile) -> None:
    """Records of the cloud, the solution and every step of each entrant that is not there yet."""
    suite, options, case = run.suite, run.options, run.cases[0]
    instance = datasets.load(case.split, options.data, case.count or 1)[0]
    entrants = _showable(run, instance)
    answer = system("cp-sat").solve(instance, Budget(seconds=60))
    if answer.status != "solved":
        raise InputError(f"{instance.name} has no solution that CP-SAT finds in a minute")
    solution, free = answer.values, ~instance.is_given
    width = int(instance.domain_sizes.max())
    cloud = background(instance, solution, np.random.default_rng(options.seed))

    def flat(values: npt.NDArray[np.int64]) -> Floats:
        return np.eye(width)[values][..., free, :].reshape(*values.shape[:-1], -1)

    place = plane_of(flat(cloud))
    facts = {"suite": suite.name, "case": case.name, "instance": instance.name, "seed": options.seed}
    facts |= {"device": device_name(options.device), "commit": commit(), "budget_steps": case.steps}

    def point(
        kind: str, label: str, state: Floats, values: IntArray, steps: int = 0, seconds: float | None = None
    ) -> Record:
        x, y = place(state)
        right = float((values == solution)[free].mean())
        violated = instance.verify(values).violated
        shown = {"kind": kind, "system": label, "steps": steps, "x": round(float(x), 5), "y": round(float(y), 5)}
        shown |= {"share_right": round(right, 5), "violated": violated, "verdict": "invalid" if violated else "valid"}
        return {**facts, **shown, "seconds": seconds}

    there = {record["system"] for record in file.records}
    if "cloud" not in there:
        points = [point("cloud", "cloud", flat(values), values) for values in cloud]
        file.append([*points, point("target", "target", flat(solution), solution)])
    for entrant in entrants:
        if entrant.label in there:
            continue
        run.tell(f"{suite.name}, {entrant.label}: {case.steps} steps", None)
        began = time.monotonic()
        one = make(entrant.system, run.models)
        if isinstance(one, Blogdit):
            states = blogdit_path(one, instance, case, options)
        else:
            states = rlsa_path(instance, case, options)
        seconds = round(time.monotonic() - began, 6)
        file.append(
            point("path", entrant.label, state[free].reshape(-1), values, step, seconds)
            for step, (state, values) in enumerate(states)
        )


def blogdit_path(system: Blogdit, instance: Instance, case: Case, options: Options) -> list[tuple[Floats, IntArray]]:
    """Probabilities (n, K) and decoded values of the first chain after each step, until the puzzle is solved."""
    solver = system.solver(
        instance, Budget(steps=case.steps, chains=1, device=options.device), options.seed, finish="none"
    )
    states: list[tuple[Floats, IntArray]] = []

    def watch() -> None:
        slots = solver.occupants.slots
        assert slots is not None
        batch = slots.batch
        chances = batch.allowed(slots.logits).softmax(-1)
        state = batch.per_instance(chances)[0, 0, : instance.size].double().cpu().numpy()
        states.append((state, state.argmax(-1)))

    solver.session.on_step, solver.look_every = watch, 1
    for _ in solver.results([instance]):
        pass
    return states


def rlsa_path(instance: Instance, case: Case, options: Options) -> list[tuple[Floats, IntArray]]:
    """Bits (n, K) and decoded values of the chain that ends best, after each step."""
    form = qubo(instance)
    seen: list[torch.Tensor] = []
    settings = settings_for(instance) if case.steps is None else replace(settings_for(instance), steps=case.steps)

    def watch(x: torch.Tensor) -> None:
        seen.append(x[0].to(torch.bool).cpu())

    energies, _, _ = anneal([form], settings, options.seed, Clock(None), options.device, watch)
    chain = int(energies[0].argmin())
    paths = [state[:, chain].numpy().astype(np.int64) for state in seen]
    return [(bits.reshape(instance.size, -1).astype(np.float64), form.decode(bits)) for bits in paths]
