"""blogdit and its variants as systems beside the baselines."""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import torch
from torch import Tensor

from blogdit.api import WEIGHTS, bundled_models, load, model_file, solver_for
from blogdit.bench.datasets import SPLITS
from blogdit.bench.systems import Budget, System, system, systems
from blogdit.bench.systems.base import Clock, in_parts
from blogdit.core.constraints import IntArray
from blogdit.core.errors import InputError
from blogdit.core.instance import Instance
from blogdit.core.result import Result
from blogdit.finishers import choose
from blogdit.method.blocks import Schedule, Selector
from blogdit.method.chain import sample
from blogdit.network.checkpoint import Model
from blogdit.network.denoiser import Denoiser
from blogdit.network.inference import fastest
from blogdit.problems import families
from blogdit.solver.sampler import Stepped
from blogdit.solver.slots import Shape, Slot, Slots, shape_of
from blogdit.solver.solver import Solver

T = TypeVar("T")
VARIANT_WEIGHTS = WEIGHTS / "variants"
GENERAL = "general"  # the problem of a model that works on all that have no model of their own
STAND_IN = "coloring"  # for the problems of `own`, where there is no general model
UNTRAINED = ", untrained"  # what follows the name of a model whose weights are replaced by those of a new one
BLOCKS = ("random", "margin", "critical", "related")
Models = Mapping[tuple[str, str], Path]  # (system, problem) -> file


@dataclass(frozen=True)
class Variant:
    """Which weights a variant of blogdit uses, and how it differs in solving. docs/benchmarks.md describes them."""

    suffix: str = ""  # of its weights in VARIANT_WEIGHTS, after the name of the problem; none: those of blogdit
    options: Mapping[str, Any] | None = None
    last_step: bool = False


VARIANTS = {
    "blogdit": Variant(),
    "blogdit-last-step": Variant(last_step=True),
    **{f"blogdit-{block}-blocks": Variant(options={"block": block}) for block in BLOCKS},
    "blogdit-brief": Variant("-brief"),
    "blogdit-no-entropy": Variant("-no-entropy"),
    "consformer": Variant("-consformer"),
    "dit": Variant("-dit", {"block": "all"}),
}


def make(name: str, models: Models, options: Mapping[str, Any] | None = None) -> System:
    """A system by name: a variant of blogdit, a model that was named, or a baseline."""
    if name in VARIANTS or name in new_names(models):
        return Blogdit(name, _weights(name, models), **(options or {}))
    try:
        return system(name)
    except ValueError:
        raise InputError(f"unknown system {name!r}; expected some of {', '.join([*VARIANTS, *systems()])}") from None


def named_models(pairs: Iterable[str]) -> dict[tuple[str, str], Path]:
    """`NAME=PATH` arguments; the problem is written in the model."""
    found = {}
    for pair in pairs:
        name, equals, path = pair.partition("=")
        if not equals or not name or name in systems():
            known = f"one of {', '.join(VARIANTS)}, or a new one"
            raise InputError(f"expected --model NAME=PATH with NAME {known}, got {pair!r}")
        found[name, load(path).problem] = model_file(path)
    return found


def misfit(system: System, instance: Instance) -> str | None:
    """Why a system cannot run on instances like this one, here."""
    if (missing := system.missing()) is not None:
        return missing
    if system.supports(instance):
        return None
    if isinstance(system, Blogdit):
        if system.name not in VARIANTS:
            return f"{system.name} is a model for {', '.join(system.weights)}, not for {instance.problem}"
        return f"no model of {system.name} for {instance.problem} (expected --model {system.name}=PATH)"
    return f"{system.name} does not solve {instance.problem}"


def new_names(models: Models) -> list[str]:
    """The names of models that are neither blogdit's nor a variant's: each is a row by itself."""
    return list(dict.fromkeys(name for name, _ in models if name not in VARIANTS))


@cache
def fingerprint(path: Path) -> str:
    """Tells weights apart: all training runs give their files the same names."""
    return f"{path.name} {hashlib.sha256(path.read_bytes()).hexdigest()[:12]}"


def _weights(name: str, models: Models) -> dict[str, Path]:
    """The model of each problem: one that was named, else a bundled one. A variant with blogdit's weights takes those
    that were named for blogdit."""
    if name not in VARIANTS:
        return {problem: path for (of, problem), path in models.items() if of == name}
    variant = VARIANTS[name]
    bundled = bundled_models(VARIANT_WEIGHTS if variant.suffix else WEIGHTS)
    found = {stem.removesuffix(variant.suffix): path for stem, path in bundled.items() if stem.endswith(variant.suffix)}
    found = {one.name: found[one.stand_in] for one in families().values() if one.stand_in in found} | found
    if STAND_IN in found and GENERAL not in found:
        found = {one.problem: found[STAND_IN] for one in SPLITS.values() if one.generator} | found
    for owner in ("blogdit", name) if not variant.suffix else (name,):
        found |= {problem: path for (of, problem), path in models.items() if of == owner}
    return found


@cache
def _model(path: Path) -> Model:
    return load(path)


@cache
def _untrained(path: Path) -> Model:
    """The same model with weights as training begins with."""
    model = _model(path)
    with torch.random.fork_rng(devices=[]):  # the initialisation of torch's layers takes no generator
        torch.manual_seed(0)
        denoiser = Denoiser(model.denoiser.config).eval()
    return replace(model, denoiser=denoiser, name=model.name + UNTRAINED)


class Blogdit(System):
    """A model on all instances at the same time; without a step limit each has the seconds of the call."""

    counts = "steps"
    batched = True
    # Models and shapes whose kernels this process has compiled, also those of the finisher or not; for all variants.
    warm: ClassVar[set[tuple[Path, Shape, bool]]] = set()

    def __init__(
        self,
        name: str,
        weights: Mapping[str, Path],
        rho_max: float | None = None,
        rho_min: float | None = None,
        finish: str | None = None,
        finish_share: float | None = None,
        untrained: bool = False,
    ):
        self.name, self.weights, self.untrained = name, weights, untrained
        self.finish, self.finish_share = finish, finish_share
        self.variant = VARIANTS.get(name, Variant())
        self.problems = tuple(weights)
        self.searches = finish != "none" and not self.variant.last_step
        self.rates = None if rho_max is None or rho_min is None else Schedule(rho_max, rho_min)

    def supports(self, instance: Instance) -> bool:
        return instance.problem in self.weights or GENERAL in self.weights

    def file(self, instance: Instance) -> Path:
        """The weights for an instance."""
        return self.weights[instance.problem if instance.problem in self.weights else GENERAL]

    def provenance(self, instance: Instance) -> str:
        return fingerprint(self.file(instance)) + UNTRAINED * self.untrained

    def solver(self, instance: Instance, budget: Budget, seed: int, **options: Any) -> Solver:
        model = (_untrained if self.untrained else _model)(self.file(instance))
        if self.rates is not None:
            model = replace(model, chain=replace(model.chain, schedule=self.rates))
        limits = {"steps": budget.steps, "time_limit": budget.seconds, "total_time": budget.seconds}
        finishing = {"finish": self.finish, "finish_share": self.finish_share}
        chosen = {"chains": budget.chains, "seed": seed, **(self.variant.options or {})}
        return solver_for(instance, model, budget.device, **{**limits, **finishing, **chosen, **options})

    def warm_up(self, instances: Sequence[Instance], budget: Budget) -> None:
        """The weights, and what finishers load; on a GPU two steps for each shape, which compile its kernels, and the
        local search."""
        solver = self.solver(instances[0], budget, 0)
        for finisher in solver.finishing.of(instances[0]):
            finisher.prepare()
        if budget.device == "cpu":
            return

        def work(together: Sequence[Instance], share: Budget) -> Sequence[Instance]:
            kind = self.file(together[0]), shape_of(together[0]), self.searches
            if kind not in self.warm:
                solver = self.solver(together[0], share, 0, finish="none")
                list(solver.results(together[:64]))
                local = choose("auto", together[0], solver.finishing.finishers)[-1].name
                if self.searches and local != "exact":
                    list(self.solver(together[0], share, 0, finish=local).results(together[:1]))
                self.warm.update({kind, (*kind[:2], False)})
            return together

        _by_shape(instances, replace(budget, seconds=None, steps=2), work)

    def solve_many(self, instances: Sequence[Instance], budget: Budget, seed: int = 0) -> list[Result]:
        def work(together: Sequence[Instance], share: Budget) -> list[Result]:
            # If all share their seconds, all have to begin at once; else they come and go.
            size = None if share.seconds is None else len(together)
            solver = self.solver(together[0], share, seed, batch_size=size)
            if self.variant.last_step:
                return last_states(solver, together)
            found = dict(solver.results(together))
            return [found.get(place) or Result(one, one.given_values, seed=seed) for place, one in enumerate(together)]

        return _by_shape(instances, budget, work)

    def solve_runs(
        self, instances: Sequence[Instance], budget: Budget, seed: int = 0, runs: int = 1
    ) -> list[list[Result]]:
        """One chain for each run, all at the same time; the best state of each chain, without a finisher."""

        def work(together: Sequence[Instance], share: Budget) -> list[list[Result]]:
            solver = self.solver(together[0], share, seed, batch_size=len(together), finish="none")
            return best_of_chains(solver, together)

        return _by_shape(instances, replace(budget, chains=runs), work)


def _by_shape(
    instances: Sequence[Instance], budget: Budget, work: Callable[[Sequence[Instance], Budget], Sequence[T]]
) -> list[T]:
    """`work` on the instances of each shape, which fit one batch."""
    places = sorted(range(len(instances)), key=lambda place: shape_of(instances[place]))
    ordered = [instances[place] for place in places]

    def alike(left: Sequence[Instance]) -> int:
        return len(list(next(groupby(left, shape_of))[1]))

    found = dict(zip(places, in_parts(ordered, budget, alike, work), strict=True))
    return [found[place] for place in range(len(instances))]


class LowestStates:
    """The state with the lowest energy of every chain, of all batches of a solver; kept on the device."""

    def __init__(self) -> None:
        # Of each batch its slots (not its tensors: they may have to make room), energies (chains, B) and states
        # (chains, B, N).
        self.batches: list[tuple[list[Slot], Tensor, Tensor]] = []

    def __call__(self, slots: Slots, stepped: Stepped) -> None:
        values = slots.batch.per_instance(stepped.values)
        if not self.batches or self.batches[-1][0] is not slots.members:
            self.batches.append((slots.members, torch.full_like(stepped.energy, torch.inf), values.clone()))
        _, energies, states = self.batches[-1]
        states.copy_(torch.where((stepped.energy < energies)[..., None], values, states))
        energies.copy_(torch.minimum(energies, stepped.energy))

    def of(self, index: int) -> list[IntArray]:
        """Of each chain of an instance; none, if it took no step."""
        found = [
            (energies[:, place].cpu(), states[:, place, : slot.instance.size].cpu().numpy())
            for members, energies, states in self.batches
            for place, slot in enumerate(members)
            if slot.index == index
        ]
        lowest = torch.stack([energies for energies, _ in found]).argmin(0).tolist() if found else []
        return [found[part][1][chain] for chain, part in enumerate(lowest)]


def best_of_chains(solver: Solver, instances: Sequence[Instance]) -> list[list[Result]]:
    """The state with the lowest energy of every chain."""
    clock, lowest, options = Clock(None), LowestStates(), solver.options
    solver.session.watch = lowest
    steps = {index: result.steps for index, result in solver.results(instances)}
    return [
        [
            Result(one, values, steps.get(place, 0), clock.spent, options.seed)
            for values in lowest.of(place) or [one.given_values] * options.chains
        ]
        for place, one in enumerate(instances)
    ]


@torch.no_grad()
def last_states(solver: Solver, instances: Sequence[Instance]) -> list[Result]:
    """Where the first chain of each instance is after all steps, or when the time is over, solved before or not; the
    block schedule runs in plain cycles."""
    options, model = solver.options, solver.model
    most = math.inf if options.steps is None else options.steps

    def work(part: Sequence[Instance], share: Budget) -> list[Result]:
        clock, step = Clock(share.seconds), 0
        members = [Slot(place, one) for place, one in enumerate(part)]
        slots = Slots.enter(members, model, 1, options.seed, solver.device, [-math.inf] * len(part))
        progress = torch.arange(options.cycle, device=solver.device) / max(options.cycle - 1, 1)
        rates = itertools.cycle(model.chain.schedule.rate(progress[:, None, None, None].expand(-1, 1, len(part), 1)))
        denoise, selector = fastest(model.denoiser, slots.batch), Selector(options.block, slots.batch)
        chain = sample(denoise, slots.batch, slots.logits, rates, model.chain, selector, slots.noise)
        while step < most and clock.left > 0:
            slots.logits, step = next(chain).logits, step + 1
        ends = zip(part, slots.chain_values(range(len(part))), strict=True)
        return [Result(one, values[0], step, clock.spent, options.seed, model.name) for one, values in ends]

    size = solver.occupants.capacity(shape_of(instances[0]))
    return in_parts(instances, Budget(seconds=options.total_time), lambda left: size, work)
