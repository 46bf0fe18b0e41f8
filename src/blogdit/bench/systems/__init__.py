"""Other ways to solve the same instances, for comparison: a system is one file here, found by itself."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from blogdit.bench.systems.base import Budget, System

__all__ = ["Budget", "System", "system", "systems"]


@cache
def systems() -> dict[str, System]:
    """Every system by name."""
    found: dict[str, System] = {}
    for module in pkgutil.iter_modules(__path__):
        for one in getattr(importlib.import_module(f"{__name__}.{module.name}"), "SYSTEMS", ()):
            if one.name in found:
                raise ValueError(f"{module.name}.py: a second system is called {one.name!r}; expected another name")
            found[one.name] = one
    return found


def system(name: str) -> System:
    """The system called `name`, or a ValueError that lists the known ones."""
    try:
        return systems()[name]
    except KeyError:
        raise ValueError(f"unknown system {name!r}; known: {', '.join(sorted(systems()))}") from None
