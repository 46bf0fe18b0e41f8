"""Problem families, found automatically: a new family is one new file here with a `FAMILY` in it."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from typing import Any

from blogdit.core.instance import Instance
from blogdit.problems.base import Family


@cache
def families() -> dict[str, Family]:
    """Every family by name."""
    found = {}
    for module in pkgutil.iter_modules(__path__):
        family = getattr(importlib.import_module(f"{__name__}.{module.name}"), "FAMILY", None)
        if isinstance(family, Family):
            found[family.name] = family
    return found


def register(family: Family, *names: str) -> None:
    """Make a family of the user known in this process, under its own name and others."""
    families().update(dict.fromkeys((family.name, *names), family))


def family(name: str) -> Family:
    """The family called `name`, or a ValueError that lists the known ones."""
    try:
        return families()[name]
    except KeyError:
        raise ValueError(f"unknown problem {name!r}; known: {', '.join(sorted(families()))}") from None


def generate(problem: str, count: int = 1, seed: int = 0, **settings: Any) -> list[Instance]:
    """`count` random instances of a family; the same seed gives the same instances on every machine."""
    return family(problem).make(count, seed, **settings)
