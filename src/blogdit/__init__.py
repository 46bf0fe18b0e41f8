"""blogdit: a learned, reusable heuristic for constraint problems.

Importing it loads nothing; each name below comes from its module when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from blogdit.api import load, sample, solve, solve_each, stream, train
    from blogdit.constraints import AllDifferent, Conflict, Count, Linear, NotEqual, Table
    from blogdit.csp import Instance, Objective, Verdict, Violation
    from blogdit.errors import InputError
    from blogdit.formats import read, read_solutions, write, write_solutions
    from blogdit.problems import families, generate
    from blogdit.result import Result

__version__ = "0.1.0"

_MODULE_OF = {
    "AllDifferent": "constraints",
    "Conflict": "constraints",
    "Count": "constraints",
    "InputError": "errors",
    "Instance": "csp",
    "Linear": "constraints",
    "NotEqual": "constraints",
    "Objective": "csp",
    "Result": "result",
    "Table": "constraints",
    "Verdict": "csp",
    "Violation": "csp",
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
