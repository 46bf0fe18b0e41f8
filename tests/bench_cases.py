"""A suite and its records by hand, for the tests of `blogdit.bench`."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from blogdit.bench.suites import Case, Entrant, Suite
from blogdit.bench.systems import Budget, System
from blogdit.core.instance import Instance
from blogdit.core.result import Result


class Counting(System):
    """Answers with zeros, counts its calls and stops the run when it is told to."""

    name = "counting"
    counts = "steps"

    def __init__(self):
        self.seen: list[tuple[str, Budget]] = []
        self.stop_after = 10**6

    def solve(self, instance: Instance, budget: Budget, seed: int = 0) -> Result:
        if len(self.seen) == self.stop_after:
            raise KeyboardInterrupt
        self.seen.append((instance.name, budget))
        return Result(instance, np.zeros(instance.size, np.int64), 3, 0.0, seed)


def silent(message, work):
    pass


def record(case, system, instance, objective, valid=True, seconds=1.0, steps=10, run=0, best_known=20.0):
    return {
        **{"suite": "tiny", "case": case, "system": system, "instance": instance, "problem": "maxcut", "run": run},
        **{"verdict": "valid" if valid else "invalid", "status": "feasible", "objective": objective, "violated": 0},
        **{"best_known": best_known, "seconds": seconds, "steps": steps, "seed": 0, "device": "CPU", "workers": 1},
        **{"commit": "abc", "model": None, "batch": 1},
    }


TINY = Suite(
    "tiny",
    "A tiny suite",
    cases=(Case("gaps", "maxcut-50", "gap", seconds=1), Case("shares", "coloring-5-50", "solved", seconds=1, steps=5)),
    quick=(),
    entrants=(Entrant("first", "greedy"), Entrant("second", "gibbs")),
)
LIVE = replace(TINY, cases=(replace(TINY.cases[0], metric="objective"), TINY.cases[1]))
BY_HAND = [
    record("gaps", "first", "a", 18),
    record("gaps", "first", "b", 20),
    record("gaps", "first", "c", 99, valid=False),  # an answer that breaks a constraint counts as objective 0
    record("gaps", "second", "a", 20, seconds=0.5, steps=0),
    *(record("shares", "first", str(i), None, valid=i < 3) for i in range(4)),
]
