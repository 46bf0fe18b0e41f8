"""What may follow the sampler: one file per finisher, all behind the seam of `base`.

| finisher | for |
|---|---|
| `exact` | every instance; the only one that proves anything (OR-Tools' CP-SAT) |
| `swaps` | independent sets without weights |
| `annealing` | two values, an objective on pairs: MaxCut, weighted sets, QUBO |
| `tabu` | no objective, constraints on pairs: graph colouring |
| `descent` | an objective on pairs, any number of values; quick, and the last step of others |

Files that end in `_kernel` do the same on a GPU. `pairs` and `landscape` are what the searches look up.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from blogdit.core.errors import InputError
from blogdit.core.instance import Instance
from blogdit.finishers.annealing import Annealing
from blogdit.finishers.base import Deadline, Finish, Finisher, Task
from blogdit.finishers.descent import Descent
from blogdit.finishers.exact import Exact
from blogdit.finishers.swaps import Swaps
from blogdit.finishers.tabu import Tabu

FINISHERS: dict[str, type[Any]] = {one.name: one for one in (Exact, Swaps, Annealing, Tabu, Descent)}
LOCAL = (Swaps.name, Annealing.name, Tabu.name)  # what "auto" adds to `exact`: the first that supports the instance
MODES = ("auto", "none")

__all__ = ["FINISHERS", "MODES", "Deadline", "Finish", "Finisher", "Task", "choose", "make"]


def make(device: torch.device | str, threads: int | None = None) -> dict[str, Finisher]:
    """One finisher of each kind, by name. `threads` is the number of CPU cores to use; None means all."""
    return {name: kind(device=device, threads=threads) for name, kind in FINISHERS.items()}


def choose(mode: str, instance: Instance, finishers: Mapping[str, Finisher]) -> tuple[Finisher, ...]:
    """The finishers for an instance, in the order of their turns: "auto", "none", or one by its name.

    "auto" is a local search, the exact finisher, and the local search again; or the exact one alone.
    """
    if mode == "none":
        return ()
    if mode == "auto":
        local = [finishers[name] for name in LOCAL if finishers[name].supports(instance)][:1]
        return (*local, finishers[Exact.name], *local)
    if mode not in finishers:
        raise InputError(f"unknown finisher {mode!r}; expected {', '.join(MODES)} or one of {', '.join(finishers)}")
    if not finishers[mode].supports(instance):
        able = [name for name, finisher in finishers.items() if finisher.supports(instance)]
        raise InputError(f"{mode} cannot finish {instance.name or instance.problem}; expected {' or '.join(able)}")
    return (finishers[mode],)
