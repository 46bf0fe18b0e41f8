"""blogdit: a learned, reusable heuristic for constraint problems.

Importing it loads nothing; each name below comes from its module when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from blogdit.api import as_instance, load, sample, solve, solve_each, stream, train
    from blogdit.core.constraints import AllDifferent, Conflict, Count, Linear, NotEqual, Table
    from blogdit.core.errors import InputError
    from blogdit.core.instance import Instance, Objective, Verdict, Violation
    from blogdit.core.result import Result
    from blogdit.formats import read, read_solutions, write, write_solutions
    from blogdit.problems import families, generate

__version__ = "0.1.0"

_MODULE_OF = {
    "AllDifferent": "core.constraints",
    "Conflict": "core.constraints",
    "Count": "core.constraints",
    "InputError": "core.errors",
    "Instance": "core.instance",
    "Linear": "core.constraints",
    "NotEqual": "core.constraints",
    "Objective": "core.instance",
    "Result": "core.result",
    "Table": "core.constraints",
    "Verdict": "core.instance",
    "Violation": "core.instance",
    "as_instance": "api",
    "families": "problems",
    "generate": "problems",
    "load": "api",
    "read": "formats",
    "read_solutions": "formats",
    "sample": "api",
    "solve": "api",
    "solve_each": "api",
    "stream": "api",
    "train": "api",
    "write": "formats",
    "write_solutions": "formats",
}

__all__ = [
    "AllDifferent",
    "Conflict",
    "Count",
    "InputError",
    "Instance",
    "Linear",
    "NotEqual",
    "Objective",
    "Result",
    "Table",
    "Verdict",
    "Violation",
    "as_instance",
    "families",
    "generate",
    "load",
    "read",
    "read_solutions",
    "sample",
    "solve",
    "solve_each",
    "stream",
    "train",
    "write",
    "write_solutions",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'blogdit' has no attribute {name!r}")
    return getattr(importlib.import_module(f"blogdit.{_MODULE_OF[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
