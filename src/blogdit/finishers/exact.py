"""The exact finisher: OR-Tools' CP-SAT on any instance, beginning with the best state of the sampler.

It is the only finisher that proves anything. A proof is CP-SAT's own status, and nothing is added to the model that
could change what the status means.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

import torch

from blogdit.core.constraints import IntArray
from blogdit.core.instance import Instance
from blogdit.core.result import Proof
from blogdit.finishers.base import Deadline, Finish, Task
from blogdit.finishers.cp_model import Translation
from blogdit.finishers.descent import descend, supports_descent
from blogdit.finishers.tasks import OutOfTime, best_of, clean_starts, is_enough
from blogdit.problems.generation import cores

# CP-SAT's deterministic seconds, if there is no deadline. A hard Sudoku takes it 0.01; a thousand instances that it
# cannot decide should not take an hour.
WORK = 0.2
BETWEEN_LOOKS = 0.02  # seconds between questions whether to stop: short for a user, no load for the machine
DESCENT_SHARE = 0.1  # part of the time for descent before CP-SAT: it seldom needs more, and CP-SAT starts higher
# With fewer workers, whatever the number of cores, CP-SAT leaves out strategies that improve answers: on two cores
# eight prove covers optimal in 1 s that two do not find in 3 s. Where nothing is optimised, two are as good.
OPTIMISING_WORKERS = 8
LEAST_SECONDS = 1e-3  # that CP-SAT is given; it takes 0 for no time at all and refuses less


class Exact:
    """CP-SAT. Several instances are solved side by side, with the cores shared among them."""

    name = "exact"

    def __init__(self, device: torch.device | str = "cpu", threads: int | None = None):
        """CP-SAT runs on the CPU, whatever the device. `threads` is the number of cores to use; None means all."""
        self.threads = cores() if threads is None else max(threads, 1)

    def supports(self, instance: Instance) -> bool:
        return True

    @property
    def is_prepared(self) -> bool:
        return "ortools.sat.python.cp_model" in sys.modules

    def prepare(self) -> None:
        """Importing OR-Tools takes about half a second, once."""
        import ortools.sat.python.cp_model  # noqa: F401

    def finish(self, tasks: Sequence[Task], deadline: Deadline, seed: int) -> list[Finish]:
        if not tasks:
            return []
        return _Run(tasks, deadline, seed, self.threads).all()


class _Run:
    """One call of `Exact.finish`."""

    def __init__(self, tasks: Sequence[Task], deadline: Deadline, seed: int, threads: int):
        self.tasks, self.deadline, self.seed = tasks, deadline, seed
        self.lanes = min(threads, len(tasks))  # tasks that are solved at the same time
        # Several workers race each other: without a deadline, when answers must repeat, there is one.
        alone = len(tasks) == 1 and tasks[0].instance.objective is not None
        self.workers = 1 if deadline.unlimited else max(threads // len(tasks), OPTIMISING_WORKERS if alone else 1)
        self.begun, self.cancelled = 0, False
        self.solvers: set[Any] = set()  # at work now
        self.lock = threading.Lock()

    def all(self) -> list[Finish]:
        """This thread keeps looking for a reason to stop; CP-SAT does not ask Python."""
        with ThreadPoolExecutor(self.lanes) as pool:
            futures = [pool.submit(self._one, task) for task in self.tasks]
            try:
                while wait(futures, BETWEEN_LOOKS).not_done:
                    if self.deadline.stopped():
                        self._cancel()
            except BaseException:  # Ctrl-C, above all: the pool would wait for the searches to end by themselves
                while wait(futures, BETWEEN_LOOKS).not_done:
                    self._cancel()
                raise
        return [future.result() for future in futures]

    def _cancel(self) -> None:
        """Ask all searches to end. One that has not quite begun does not hear it, so this is called until all have."""
        with self.lock:
            self.cancelled = True
            for solver in self.solvers:
                solver.stop_search()

    def _next_deadline(self) -> Deadline:
        """The part of the time for the next task: what is left on all lanes, divided among the tasks not yet begun."""
        with self.lock:
            waiting = len(self.tasks) - self.begun
            self.begun += 1
        return self.deadline.share(min(self.lanes / waiting, 1.0))

    def _one(self, task: Task) -> Finish:
        deadline, instance = self._next_deadline(), task.instance
        start = clean_starts(task)[0]
        is_valid = instance.verify(start).satisfied
        finish = Finish(start if is_valid else None)
        if self.cancelled or deadline.passed() or is_enough(instance, start, task.target):
            return finish
        if supports_descent(instance):
            start = best_of(instance, [start, descend(instance, start, deadline.share(DESCENT_SHARE))])
            if instance.verify(start).satisfied:
                finish = Finish(start)
            if is_enough(instance, start, task.target):
                return finish
        try:
            translation = Translation(instance, deadline.passed)
            translation.hint(start)
        except OutOfTime:
            return finish
        found, proof = self._solve(task, translation, deadline)
        candidates = [values for values in (finish.values, found) if values is not None]
        return Finish(best_of(instance, candidates) if candidates else None, proof)

    def _solve(self, task: Task, translation: Translation, deadline: Deadline) -> tuple[IntArray | None, Proof | None]:
        """What CP-SAT finds, if it passes the exact check, and what CP-SAT proves."""
        from ortools.sat.python import cp_model

        solver = cp_model.CpSolver()
        solver.parameters.random_seed = self.seed % 2**31
        solver.parameters.num_workers = self.workers
        solver.parameters.catch_sigint_signal = False  # Ctrl-C is for Python
        if deadline.unlimited:
            solver.parameters.max_deterministic_time = WORK
        else:
            solver.parameters.max_time_in_seconds = max(deadline.left, LEAST_SECONDS)
        with self.lock:
            self.solvers.add(solver)
        try:
            status = solver.solve(translation.model, _target_callback(task, translation))
        finally:
            with self.lock:
                self.solvers.discard(solver)
        if status == cp_model.INFEASIBLE:
            return None, "infeasible"
        if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            return None, None
        values = translation.values(solver)
        if not task.instance.verify(values).satisfied:
            return None, None
        proves = status == cp_model.OPTIMAL and task.instance.objective is not None and translation.exact_objective
        return values, "optimal" if proves else None


def _target_callback(task: Task, translation: Translation) -> Any:
    """Ends the search at the first solution that reaches the target; None if there is no target."""
    goal = task.instance.objective
    if goal is None or task.target is None:
        return None
    from ortools.sat.python import cp_model

    class AtTarget(cp_model.CpSolverSolutionCallback):
        def on_solution_callback(self) -> None:
            if is_enough(task.instance, translation.values(self), task.target):
                self.stop_search()

    return AtTarget()
