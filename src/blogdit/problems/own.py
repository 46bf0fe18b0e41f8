"""A problem of one's own in one Python file: `generate(rng, ...)` makes an instance and, if wanted, `render` shows one.

    def generate(rng, size=20):            # a numpy Generator; what has a default is a setting
        return blogdit.Instance(...)       # or a blogdit.Problem

    def render(instance, values):          # the places of the values, as `Result.values` has them
        return "..."

A mistake in the file is an InputError with its line.
"""

from __future__ import annotations

import importlib.util
import inspect
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from blogdit.core.constraints import IntArray
from blogdit.core.errors import InputError
from blogdit.core.instance import Instance
from blogdit.core.problem import Problem
from blogdit.problems import families, register
from blogdit.problems.answers import table_of
from blogdit.problems.base import Family

UNNAMED = "csp"  # what an instance is called that says nothing about its problem
FILE = "problem.py"  # in the folder of a training run


def is_file(problem: str) -> bool:
    """Whether a problem is named by its Python file."""
    return problem.endswith(".py")


def adopt(problem: str) -> Family | None:
    """The family of a problem that is named by its file, known from now on; None for all other names."""
    if not is_file(problem):
        return None
    family = own_family(problem)
    register(family)
    return family


def keep(family: Family, folder: Path) -> None:
    """Put the file of a family into the folder of a training run."""
    assert family.source is not None
    folder.mkdir(parents=True, exist_ok=True)
    (folder / FILE).write_bytes(Path(family.source).read_bytes())


def recall(folder: Path, name: str) -> None:
    """Make the problem of a training run known, if its folder has it. Instances without a name are taken for its."""
    if (folder / FILE).exists():
        register(own_family(folder / FILE, name), UNNAMED)


def own_family(path: str | Path, name: str | None = None) -> Family:
    """The family of a file. Without a name it is that of the file's instances, or that of the file if they have none
    of their own."""
    file = Path(path)
    if not file.is_file():
        raise InputError("no such file", path)
    return _family(str(path), name, file.stat().st_mtime_ns)


@cache
def _family(path: str, name: str | None, changed: int) -> Family:
    module = _module(path)
    generate = getattr(module, "generate", None)
    if not callable(generate):
        raise InputError("has no function `generate(rng)`; expected one that returns an Instance", path)
    if name is None:
        name = _name(_made(generate, path, np.random.default_rng(0), {}).problem, path)
    return Family(
        name=name,
        summary=(inspect.getdoc(module) or f"the problem of {Path(path).name}").splitlines()[0],
        build=_build,
        generate=_many(generate, path, name),
        render=_shown(getattr(module, "render", None), path),
        source=path,
    )


def _name(problem: str, path: str) -> str:
    """Of the problem; those of the package are taken."""
    taken = {known for known, family in families().items() if family.source is None}
    name = Path(path).stem if problem == UNNAMED or problem in taken else problem
    if name in taken:
        raise InputError(f"is called like the problem {name!r} of blogdit; expected another name", path)
    return name


def _module(path: str) -> ModuleType:
    """The file, run with its folder in reach, as `python FILE` would."""
    spec = importlib.util.spec_from_file_location(f"blogdit_own_{Path(path).stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    folder = str(Path(path).resolve().parent)
    if folder not in sys.path:
        sys.path.append(folder)
    with blamed(path):
        spec.loader.exec_module(module)
    return module


@contextmanager
def blamed(path: str) -> Iterator[None]:
    """What goes wrong within is an InputError, with the last line of the file that took part."""
    try:
        yield
    except InputError:
        raise
    except SyntaxError as error:
        where = path if error.filename is None else error.filename
        raise InputError(f"SyntaxError: {error.msg}", where, error.lineno) from None
    except (Exception, SystemExit) as error:
        own = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path]
        raise InputError(f"{type(error).__name__}: {error}", path, own[-1] if own else None) from None


def _made(generate: Callable[..., Any], path: str, rng: np.random.Generator, settings: dict[str, Any]) -> Instance:
    with blamed(path):
        made = generate(rng, **settings)
        if isinstance(made, Problem):
            made = made.instance()
    code = getattr(generate, "__code__", None)
    line = None if code is None else code.co_firstlineno
    if not isinstance(made, Instance):
        raise InputError(f"generate(rng) returned {type(made).__name__}; expected an Instance", path, line)
    if not made.size:
        raise InputError("generate(rng) returned an instance without variables", path, line)
    return made


def _many(generate: Callable[..., Any], path: str, name: str) -> Callable[..., list[Instance]]:
    """As families have it: `count` instances, with the settings that the file's function takes."""

    def many(count: int, rng: np.random.Generator, **settings: Any) -> list[Instance]:
        made = (_made(generate, path, rng, settings) for _ in range(count))
        return [replace(one, problem=name, name=one.name or f"{name}-{place}") for place, one in enumerate(made)]

    settings = [one for one in inspect.signature(generate).parameters.values() if one.default is not one.empty]
    plain = [one for one in inspect.signature(many).parameters.values() if one.name != "settings"]
    kept = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in settings]
    many.__signature__ = inspect.Signature([*plain, *kept])  # type: ignore[attr-defined]
    return many


def _shown(render: Callable[..., Any] | None, path: str) -> Callable[..., str]:
    def shown(instance: Instance, values: IntArray | None = None) -> str:
        if values is None:
            return repr(instance)
        if render is None:
            return table_of(instance, values)
        with blamed(path):
            return str(render(instance, values))

    return shown


def _build(data: Any, name: str = "") -> Instance:
    """An instance is what it is; there is no other form."""
    if not isinstance(data, Instance):
        raise ValueError(f"expected an Instance, got {type(data).__name__}")
    return replace(data, name=name or data.name)
