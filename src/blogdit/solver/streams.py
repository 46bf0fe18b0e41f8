"""Instances without end: taken from a stream as they are asked for, and solved by a solver for each problem.

Nothing here holds more than a bounded number of instances, so a stream may be larger than memory.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial

from blogdit.core.errors import InputError
from blogdit.core.instance import Instance
from blogdit.formats.text import OnError
from blogdit.solver.events import Finished, Step
from blogdit.solver.session import Session
from blogdit.solver.solver import Solver

READ_AHEAD = 1024  # instances that may wait for the solver of another problem


class ByProblem:
    """A queue for each problem, filled from one stream as it is asked for.

    `of` ends when the problem's queue is empty and too many instances of other problems wait; it may be called again.
    """

    def __init__(self, instances: Iterable[Instance], limit: int = READ_AHEAD):
        self.source, self.limit = enumerate(instances), limit
        self.queues: dict[str, deque[tuple[int, Instance]]] = {}

    def first(self) -> Instance | None:
        """The instance that has waited longest, of whatever problem; None at the end of the stream."""
        heads = [queue[0] for queue in self.queues.values() if queue]
        if not heads and self._read():
            return self.first()
        return min(heads, key=lambda head: head[0])[1] if heads else None

    def waiting(self) -> dict[str, int]:
        """How many instances of each problem wait."""
        return {problem: len(queue) for problem, queue in self.queues.items()}

    def of(self, problem: str) -> Iterator[tuple[int, Instance]]:
        """(number in the stream, instance) of one problem."""
        queue = self.queues.setdefault(problem, deque())
        while True:
            if queue:
                yield queue.popleft()
            elif sum(map(len, self.queues.values())) >= self.limit or not self._read():
                return

    def _read(self) -> bool:
        following = next(self.source, None)
        if following is None:
            return False
        self.queues.setdefault(following[1].problem, deque()).append(following)
        return True


class SolverPool:
    """A solver for each problem of a stream, made by `make` from its first instance; one of them works at a time. They
    share a session.

    What cannot be solved (no model for the problem, a model that does not fit) goes to `on_error`, once for a problem
    and reason, and the others go on; without `on_error` it is raised.
    """

    def __init__(self, make: Callable[[Instance, Session], Solver], on_error: OnError | None = None):
        self.make, self.on_error, self.session = make, on_error, Session()
        self.solvers: dict[str, Solver | None] = {}
        self.working: Solver | None = None
        self.cut_short = False  # the total time ended before the stream did

    def stop(self) -> None:
        """End the run after the current step; may be called from a signal handler."""
        self.session.stopping = True

    @property
    def steps_done(self) -> int:
        return sum(solver.steps_done for solver in self.solvers.values() if solver is not None)

    def run(self, instances: Iterable[Instance], started: float | None = None) -> Iterator[Step | Finished]:
        """Events of all instances; their index is the place in the stream. The total time counts from `started`."""
        started, queues = time.monotonic() if started is None else started, ByProblem(instances)
        while not self.session.stopping and not self.cut_short and (head := queues.first()) is not None:
            solver = self._solver(head)
            if solver is None:
                for _ in queues.of(head.problem):
                    pass
                continue
            self.working = solver
            self.session.elsewhere = partial(self._elsewhere, queues, head.problem)
            yield from solver.run(self._fitting(solver, queues.of(head.problem)), started)
            self.cut_short = solver.cut_short or (solver.clock.is_over() and queues.first() is not None)

    def require_fit(self, instances: Iterable[Instance]) -> None:
        """Find out before the first step what cannot be solved."""
        for instance in instances:
            solver = self._solver(instance)
            if solver is not None and (misfit := solver.misfit(instance)) is not None:
                raise solver.model.refusal(instance, misfit)

    def _elsewhere(self, queues: ByProblem, problem: str) -> int:
        """How many instances wait for solvers of other problems."""
        left_out = {name for name, solver in self.solvers.items() if solver is None} | {problem}
        return sum(count for name, count in queues.waiting().items() if name not in left_out)

    def _solver(self, instance: Instance) -> Solver | None:
        if instance.problem not in self.solvers:
            try:
                self.solvers[instance.problem] = self.make(instance, self.session)
            except InputError as error:
                self._report(error)
                self.solvers[instance.problem] = None
        return self.solvers[instance.problem]

    def _fitting(self, solver: Solver, numbered: Iterator[tuple[int, Instance]]) -> Iterator[tuple[int, Instance]]:
        told = set()
        for number, instance in numbered:
            misfit = solver.misfit(instance)
            if misfit is None:
                yield number, instance
            elif misfit not in told:
                told.add(misfit)
                self._report(solver.model.refusal(instance, misfit))

    def _report(self, error: InputError) -> None:
        if self.on_error is None:
            raise error
        self.on_error(error)
