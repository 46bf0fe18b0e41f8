"""OR-Tools' CP-SAT: the whole solver, and its violation local search ("Feasibility Jump") alone.

No hints are given to it. It runs with `Budget.workers` threads and its own parameters otherwise; the time to build
the model counts. What it claims about the answer (OPTIMAL, INFEASIBLE, ...) is kept in `Result.model`. The claims
OPTIMAL and INFEASIBLE are also the result's proof.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from importlib.metadata import version
from typing import Any

from blogdit.bench.systems.base import Budget, Clock, System
from blogdit.core.instance import Instance
from blogdit.core.result import Proof, Result
from blogdit.finishers.cp_model import Translation
from blogdit.finishers.tasks import OutOfTime

LEAST_SECONDS = 1e-3  # that CP-SAT is given, if the model took all the time


class CpSat(System):
    threaded = True

    def __init__(self, name: str, **parameters: Any):
        self.name, self.parameters = name, parameters

    def warm_up(self, instances: Sequence[Instance], budget: Budget) -> None:
        import ortools.sat.python.cp_model  # noqa: F401, takes a second

    def solve_many(self, instances: Sequence[Instance], budget: Budget, seed: int = 0) -> list[Result]:
        """As many at a time as there are workers, which they share. Each has its part of the seconds that are left."""
        clock, lanes = Clock(budget.seconds), min(budget.workers, len(instances))
        waiting = itertools.count(len(instances), -1)

        def one(instance: Instance) -> Result:
            left = max(clock.left, 0.0) * min(lanes / next(waiting), 1.0)
            seconds = None if budget.seconds is None else left
            return self.solve(instance, replace(budget, seconds=seconds, workers=workers), seed)

        workers = max(budget.workers // max(len(instances), 1), 1)
        with ThreadPoolExecutor(max(lanes, 1)) as pool:
            return list(pool.map(one, instances))

    def solve(self, instance: Instance, budget: Budget, seed: int = 0) -> Result:
        from ortools.sat.python import cp_model

        clock = Clock(budget.seconds)
        try:
            if clock.left <= 0:
                raise OutOfTime
            translation = Translation(instance, lambda: clock.left <= 0)
        except OutOfTime:
            return Result(instance, instance.given_values, 0, clock.spent, seed)
        solver = cp_model.CpSolver()
        solver.parameters.random_seed = seed % 2**31
        solver.parameters.num_workers = budget.workers
        if budget.seconds is not None:
            solver.parameters.max_time_in_seconds = max(clock.left, LEAST_SECONDS)
        for name, value in self.parameters.items():
            setattr(solver.parameters, name, value)
        status = _interruptible(solver, translation.model)
        found = status in (cp_model.OPTIMAL, cp_model.FEASIBLE)
        values = translation.values(solver) if found else instance.given_values
        proof: Proof | None = "infeasible" if status == cp_model.INFEASIBLE else None
        if status == cp_model.OPTIMAL and instance.objective is not None and translation.exact_objective:
            proof = "optimal"
        claim = f"ortools {version('ortools')}: {solver.status_name(status)}"
        return Result(instance, values, 0, clock.spent, seed, claim, proof=proof, proved_by=self.name)


def _interruptible(solver: Any, model: Any) -> Any:
    """Solve in a thread: Ctrl-C then reaches Python at once, and ends the search instead of cutting it short unseen."""
    solver.parameters.catch_sigint_signal = False
    with ThreadPoolExecutor(1) as pool:
        status = pool.submit(solver.solve, model)
        try:
            return status.result()
        except KeyboardInterrupt:
            solver.stop_search()
            raise


SYSTEMS = (CpSat("cp-sat"), CpSat("feasibility-jump", use_ls_only=True))
