"""What is trained: a problem's preset with the user's settings laid over it, checked by name.

Every setting has one flat name, so that an ablation is one `--set` away: `entropy=false`, `rho_min=1 rho_max=1`
(DiT), `hide_block=false`, `values=table`, `box=2`, ...
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Literal

from blogdit.core.errors import InputError
from blogdit.method.blocks import SELECTORS, STATE_DEPENDENT, Schedule, SelectorName
from blogdit.method.chain import ChainConfig
from blogdit.method.energy import AllDifferentForm
from blogdit.network.checkpoint import Model, chain_from_dict
from blogdit.network.config import DenoiserConfig
from blogdit.problems import families, family

LOCAL = ("none", "annealing", "swaps", "tabu", "descent")  # what may follow a teacher's sampler: no outside solver
# Of a problem that has no family, with constraints of any kind. Many updates of few chains, which go on from update to
# update: a CPU can do that.
OWN_PRESET = {
    "values": "literals",
    "sees": "every",
    "dim": 64,
    "layers": 4,
    "loops": 2,
    "batch_size": 8,
    "unroll": 1,
    "horizon": 32,
    "tau_start": 0.02,
    "learning_rate": 1e-3,
    "unit_energy": True,
    "pool": 2048,
    "validation": 64,
    "validate_every": 250,
}


@dataclass(frozen=True)
class TrainConfig:
    """How a network is trained. tau and the learning rate follow the share of the budget (updates or minutes) spent."""

    batch_size: int = 512
    accumulate: int = 1  # parts of a process's batch, one after the other, of which the gradients are added
    unroll: int = 5  # reverse steps that a gradient goes through
    horizon: int = 5  # reverse steps of a chain before it starts again; above `unroll`, chains persist across updates
    entropy: bool = True
    all_different: AllDifferentForm = "pairs"  # which relaxation of AllDifferent trains; see energy.py
    unit_energy: bool = False  # energies in units of the most that one variable can change the objective
    tau_start: float = 0.1
    tau_floor: float = 0.01  # tau -> 0 would collapse the variance and freeze the chain
    tau_share: float = 0.6  # of the budget, over which tau falls linearly
    learning_rate: float = 5e-4
    final_rate: float = 0.05  # of learning_rate, at the end of the cosine
    warmup: int = 200
    weight_decay: float = 0.01
    clip: float = 1.0
    ema: float = 0.999
    selector: SelectorName = "random"  # how blocks are drawn in training; not by the state, see blocks.STATE_DEPENDENT
    # Own answers: see teacher.py. Without a weight for them it is the paper's training.
    own_answers: float = 0.0  # weight of the surprise about own answers
    relaxed: float = 1.0  # weight of the paper's energy, for instances that have an own answer
    rename: bool = False  # values are interchangeable: an answer may be renamed to agree with the state
    show_answer: float = 0.0  # share of the chains that see the rest of an own answer, instead of their own state
    improve: int = 0  # moves of a search over the block; what it finds is the target, without a teacher (improve.py)
    improve_heat: float = 0.3  # temperature at which it begins, in units of the energy
    answers_kept: int = 1  # of each instance
    teacher_start: float = 0.2  # share of the budget before the first round
    teacher_every: float = 0.1  # share of the budget from the end of a round to the next
    teacher_steps: int = 200  # reverse steps on an instance in a round
    teacher_chains: int = 1  # on an instance
    teacher_instances: int = 8192  # asked in a round, at most
    teacher_finish: str = "none"  # a local finisher that follows the teacher's sampler: annealing, swaps, tabu, descent
    pool: int = 8192  # instances generated for training
    validation: int = 256  # instances generated for validation
    validation_steps: int = 100
    validation_selector: SelectorName = "random"
    validate_every: int = 500
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    compile: Literal["auto", "yes", "no"] = "auto"

    def __post_init__(self) -> None:
        for name in (
            "batch_size", "accumulate", "unroll", "horizon", "pool", "validation", "validation_steps", "validate_every",
            "answers_kept", "teacher_steps", "teacher_chains", "teacher_instances",
        ):  # fmt: skip
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        for name in ("tau_start", "learning_rate", "clip", "tau_share", "teacher_every"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be positive, got {getattr(self, name)}")
        for name in (
            "tau_floor",
            "weight_decay",
            "final_rate",
            "warmup",
            "own_answers",
            "relaxed",
            "teacher_start",
            "improve",
            "improve_heat",
        ):
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name} must not be negative, got {getattr(self, name)}")
        if not 0 <= self.show_answer <= 1:
            raise ValueError(f"show_answer must be in [0, 1], got {self.show_answer}")
        if self.teacher_finish not in LOCAL:
            raise ValueError(f"teacher_finish must be one of {', '.join(LOCAL)}, got {self.teacher_finish!r}")
        if not 0 <= self.ema < 1:
            raise ValueError(f"ema must be in [0, 1), got {self.ema}")
        if self.horizon % self.unroll:
            raise ValueError(f"horizon must be a multiple of unroll, got {self.horizon} and {self.unroll}")
        for name in ("selector", "validation_selector"):
            if getattr(self, name) not in SELECTORS:
                raise ValueError(f"{name} must be one of {', '.join(SELECTORS)}, got {getattr(self, name)!r}")
        if self.selector in STATE_DEPENDENT:
            raise ValueError(
                f"selector {self.selector!r} draws blocks by the state, for which the loss lacks a term; "
                f"expected {', '.join(name for name in SELECTORS if name not in STATE_DEPENDENT)} in training"
            )
        for name, allowed in (
            ("precision", ("auto", "float32", "bfloat16")),
            ("compile", ("auto", "yes", "no")),
            ("all_different", ("counts", "pairs")),
        ):
            if getattr(self, name) not in allowed:
                raise ValueError(f"{name} must be one of {', '.join(allowed)}, got {getattr(self, name)!r}")


@dataclass(frozen=True)
class Recipe:
    """A problem, its instances, the network, the chain and the training."""

    problem: str
    generator: Mapping[str, Any] = field(default_factory=dict)
    denoiser: DenoiserConfig = field(default_factory=DenoiserConfig)
    chain: ChainConfig = field(default_factory=ChainConfig)
    training: TrainConfig = field(default_factory=TrainConfig)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def resumed(self, settings: Mapping[str, Any]) -> Recipe:
        """The recipe of a run that goes on: an InputError if one of the settings is another. Only `accumulate` may be,
        since a batch in other parts gives the same numbers."""
        again = recipe(self.problem, settings, own=True)
        asked, own = again._by_name(), self._by_name()
        for name in settings:
            if asked[name] != own.get(name) and name != "accumulate":
                raise InputError(
                    f"a resumed run keeps its settings; expected {name}={own.get(name)}, got {asked[name]}"
                )
        parts = again.training.accumulate if "accumulate" in settings else self.training.accumulate
        return replace(self, training=replace(self.training, accumulate=parts))

    def _by_name(self) -> dict[str, Any]:
        chain = asdict(self.chain)
        return {**asdict(self.denoiser), **chain, **chain["schedule"], **asdict(self.training), **self.generator}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Recipe:
        """What `to_dict` made; an InputError if it has a setting that this version does not know or allow."""
        for part, config in (("denoiser", DenoiserConfig), ("chain", ChainConfig), ("training", TrainConfig)):
            known = {item.name for item in fields(config)}
            if gone := sorted(set(data[part]) - known):
                raise InputError(f"has the setting {gone[0]!r}, which this version of blogdit does not know")
        try:
            return cls(
                problem=data["problem"],
                generator=data["generator"],
                denoiser=DenoiserConfig(**data["denoiser"]),
                chain=chain_from_dict(data["chain"]),
                training=TrainConfig(**data["training"]),
            )
        except ValueError as error:
            raise InputError(str(error)) from None


def _names(config: type) -> dict[str, Any]:
    return {item.name: item.default for item in fields(config) if item.name != "schedule"}


def _fit(name: str, value: Any, default: Any) -> Any:
    """The value with the type of the default, or a ValueError."""
    if isinstance(default, tuple):  # of numbers; on the command line 0.5,-1
        parts = value.split(",") if isinstance(value, str) else value if isinstance(value, list | tuple) else [value]
        try:
            return tuple(float(part) for part in parts)
        except (TypeError, ValueError):
            raise ValueError(f"{name} must be numbers, got {value!r}") from None
    if isinstance(default, bool) or isinstance(value, bool):
        good = isinstance(value, bool) and isinstance(default, bool)
    elif isinstance(default, float):
        good, value = isinstance(value, int | float), float(value) if isinstance(value, int) else value
    else:
        good = isinstance(value, type(default))
    if not good:
        raise ValueError(f"{name} must be of type {type(default).__name__}, got {value!r}")
    return value


def recipe(
    problem: str, settings: Mapping[str, Any] | None = None, own: bool = False, start: Model | None = None
) -> Recipe:
    """The preset of a problem with `settings` laid over it; with `own`, it may be one that has no family. The network
    and the chain of a model that training is to `start` from stay as they are."""
    settings = settings or {}
    chosen = None if own and problem not in families() else family(problem)
    generator = {} if chosen is None else dict(chosen.settings)
    instances = {name: value for name, value in settings.items() if name in generator}
    preset = OWN_PRESET if chosen is None or chosen.source else chosen.preset({**generator, **instances})
    parts = {
        "denoiser": _names(DenoiserConfig),
        "chain": _names(ChainConfig),
        "schedule": _names(Schedule),
        "training": _names(TrainConfig),
        "generator": generator,
    }
    shared = {*generator} & {name for part, names in parts.items() if part != "generator" for name in names}
    if shared:
        raise ValueError(
            f"{problem} and training both have a setting {min(shared)!r}; expected another name in generate"
        )
    if start is not None and (fixed := sorted({*parts["denoiser"], *parts["chain"], *parts["schedule"]} & {*settings})):
        raise ValueError(f"{fixed[0]} is settled by the model that training starts from")
    given: dict[str, dict[str, Any]] = {part: {} for part in parts}
    for name, value in {**preset, **settings}.items():
        owner = next((part for part, names in parts.items() if name in names), None)
        if owner is None:
            known = ", ".join(sorted(name for names in parts.values() for name in names))
            raise ValueError(f"unknown setting {name!r}; known: {known}")
        # The generator checks its own settings, some of which take several types.
        given[owner][name] = value if owner == "generator" else _fit(name, value, parts[owner][name])
    return Recipe(
        problem=problem,
        generator={**generator, **given["generator"]},
        denoiser=DenoiserConfig(**given["denoiser"]) if start is None else start.denoiser.config,
        chain=ChainConfig(schedule=Schedule(**given["schedule"]), **given["chain"]) if start is None else start.chain,
        training=TrainConfig(**given["training"]),
    )
