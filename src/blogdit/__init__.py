"""blogdit: a learned, reusable heuristic for constraint problems.

Importing it loads nothing; each name below comes from its module when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from blogdit.api import as_instance, load, sample, solve, solve_each, stream, train
    from blogdit.core.constraints import AllDifferent, Conflict, Count, Function, Linear, NotEqual, Sum, Table
    from blogdit.core.errors import InputError
    from blogdit.core.instance import Instance, Objective, Verdict, Violation
    from blogdit.core.problem import Problem
    from blogdit.core.result import Result
    from blogdit.formats import read, read_solutions, write, write_solutions
    from blogdit.integrations.hub import push
    from blogdit.integrations.ortools import from_cp_model, hint
    from blogdit.problems import families, generate
    from blogdit.problems.answers import render

__version__ = "0.1.0"

_NAMES_OF = {
    "api": ("as_instance", "load", "sample", "solve", "solve_each", "stream", "train"),
    "core.constraints": ("AllDifferent", "Conflict", "Count", "Function", "Linear", "NotEqual", "Sum", "Table"),
    "core.errors": ("InputError",),
    "core.instance": ("Instance", "Objective", "Verdict", "Violation"),
    "core.problem": ("Problem",),
    "core.result": ("Result",),
    "formats": ("read", "read_solutions", "write", "write_solutions"),
    "integrations.hub": ("push",),
    "integrations.ortools": ("from_cp_model", "hint"),
    "problems": ("families", "generate"),
    "problems.answers": ("render",),
}

__all__ = [
    "AllDifferent", "Conflict", "Count", "Function", "InputError", "Instance", "Linear", "NotEqual", "Objective",
    "Problem", "Result", "Sum", "Table", "Verdict", "Violation", "as_instance", "families", "from_cp_model",
    "generate", "hint", "load", "push", "read", "read_solutions", "render", "sample", "solve", "solve_each", "stream",
    "train", "write", "write_solutions",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    for module, names in _NAMES_OF.items():
        if name in names:
            return getattr(importlib.import_module(f"blogdit.{module}"), name)
    raise AttributeError(f"module 'blogdit' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
