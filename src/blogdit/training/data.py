"""What a run trains on, and what chooses its weights: files and instances of the user, or generated ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path

import numpy as np

from blogdit import formats
from blogdit.core.digest import structure_digest
from blogdit.core.errors import InputError
from blogdit.core.instance import Instance
from blogdit.network.checkpoint import Model
from blogdit.problems import families
from blogdit.problems.generation import Tell, make_many
from blogdit.training.recipe import Recipe

HELD_OUT = 10  # of a problem that has no generator, one instance in so many chooses

Given = str | Path | Instance  # a file of instances, or one of them


@dataclass
class Data:
    """Training and validation instances; the second never trains, the first never chooses."""

    training: Sequence[Instance]
    validation: Sequence[Instance]
    sources: dict[str, str] = field(default_factory=dict)

    def require_fit(self, model: Model) -> None:
        """An InputError if the network does not see what an instance has: it would learn to do without."""
        for one in (*self.validation, *self.training):
            if misfit := model.misfit(one):
                raise model.refusal(one, misfit)

    def fingerprint(self) -> str:
        """Of the training instances, in their order."""
        return blake2b(b"".join(map(_content, self.training)), digest_size=16).hexdigest()


def data_for(recipe: Recipe, seed: int, training: Iterable[Given], validation: Iterable[Given], tell: Tell) -> Data:
    """What the user gives, and what the family generates in place of the rest. A problem without a family has nothing
    to generate: some of what is given for training is set aside."""
    problem, most = recipe.problem, recipe.training.validation
    pool, pool_source = _gather(training, recipe)
    held_out, held_out_source = _gather(validation, recipe)
    if pool and not held_out and problem not in families():
        if len(pool) == 1:
            raise InputError("one instance cannot both train and choose; expected more of them, or --valid")
        held_out, held_out_source = pool[::HELD_OUT][:most], f"one in {HELD_OUT} of {pool_source}"
    try:
        made = generated_data(recipe, seed, training=not pool, validation=not held_out, tell=tell)
    except ValueError as error:
        raise InputError(str(error)) from None
    held_out = [*held_out, *made.validation]
    sources = {"training": pool_source, "validation": held_out_source}
    return Data(
        _apart([*pool, *made.training], held_out),
        held_out[:most],
        {part: source or made.sources[part] for part, source in sources.items()},
    )


def generated_data(
    recipe: Recipe, seed: int, training: bool = True, validation: bool = True, tell: Tell = lambda line: None
) -> Data:
    """Instances from the family's generator; training and validation come from different seeds."""
    config, settings = recipe.training, recipe.generator
    pool = make_many(recipe.problem, config.pool, (seed, 0), settings, tell=tell) if training else []
    held_out = make_many(recipe.problem, config.validation, (seed, 1), settings, tell=tell) if validation else []
    return Data(_apart(pool, held_out), held_out, {"training": "generated", "validation": "generated"})


def _gather(given: Iterable[Given], recipe: Recipe) -> tuple[list[Instance], str]:
    """The instances, and where they come from."""
    found: list[Instance] = []
    sources: dict[str, None] = {}
    for one in given:
        if isinstance(one, Instance):
            _check(one, recipe.problem)
            found.append(one)
            sources["instances"] = None
        else:
            found += _read(one, recipe)
            sources[Path(one).name] = None
    return found, ", ".join(sources)


def _read(path: str | Path, recipe: Recipe) -> list[Instance]:
    problem, colors = recipe.problem, recipe.generator.get("colors")
    if problem not in families():
        instances = formats.read(path, colors=1)  # of graphs, which are refused below
    elif problem == "coloring":
        try:
            instances = formats.read(path, problem, colors if isinstance(colors, int) else None)
        except InputError as error:
            raise InputError(error.message.replace("--colors K", "--set colors=K"), error.path, error.line) from None
    else:
        instances = formats.read(path, problem)
    for instance in instances:
        _check(instance, problem, path)
    return instances


def _check(instance: Instance, problem: str, path: str | Path | None = None) -> None:
    if instance.problem != problem:
        raise InputError(f"expected instances of {problem}, got {instance.name or 'one'} of {instance.problem}", path)
    if not instance.size:
        raise InputError(f"{instance.name or 'an instance'} has no variables; nothing can be learnt from it", path)


def _apart(pool: Sequence[Instance], held_out: Sequence[Instance]) -> list[Instance]:
    """The pool without what is also in the other (there are few small puzzles, and files have the same line twice)."""
    known = {_content(instance) for instance in held_out}
    kept = [instance for instance in pool if _content(instance) not in known]
    if pool and not kept:
        wanted = "expected more different ones, or less `validation`"
        raise InputError(f"every training instance is also a validation instance; {wanted}")
    return kept


def _content(instance: Instance) -> bytes:
    """The same for instances that say the same, whatever they are called and wherever they come from."""
    givens = np.array(sorted(instance.givens.items()), np.int64)
    return structure_digest(instance, givens)
