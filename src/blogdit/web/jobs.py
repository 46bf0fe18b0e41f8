"""Jobs: questions that are answered by a few threads, with a bounded queue. Every step is an event of the job."""

from __future__ import annotations

import asyncio
import secrets
import sys
import traceback
import weakref
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from blogdit.api import solver_for
from blogdit.core.errors import InputError
from blogdit.method.blocks import Schedule
from blogdit.network.checkpoint import Model
from blogdit.solver.events import Teller
from blogdit.solver.solver import Solver
from blogdit.web.channel import Channel, kind_of
from blogdit.web.limits import Limits, Refused
from blogdit.web.models import Models
from blogdit.web.questions import Question


class Job(Channel):
    """A question on its way to an answer."""

    def __init__(self, loop: asyncio.AbstractEventLoop, question: Question, solver: Solver):
        super().__init__(loop)
        self.id, self.question = secrets.token_hex(8), question
        self.solver: Solver | None = solver  # let go when the job is done
        self.session = solver.session

    def stop(self) -> None:
        """End after the current step, or before the first one."""
        self.session.stopping = True


class Board:
    """All jobs, and the threads that do them."""

    def __init__(self, limits: Limits, models: Models, device: str = "auto"):
        self.limits, self.models, self.device = limits, models, device
        self.threads = ThreadPoolExecutor(limits.jobs, "job")
        self.jobs: dict[str, Job] = {}
        self.open: dict[str, Channel] = {}  # what `blogdit serve PATH` shows
        self.started = 0

    @property
    def unfinished(self) -> int:
        return sum(not job.done for job in self.jobs.values())

    def channel(self, name: str) -> Channel:
        found = self.open.get(name) or self.jobs.get(name)
        if found is None:
            raise Refused(404, "no such job; expected the id that POST /solve has given, not long ago")
        return found

    def require_room(self) -> None:
        most = self.limits.jobs + self.limits.queue
        if self.unfinished >= most:
            raise Refused(503, f"{most} jobs are at work or wait; try again soon")

    def prepare(self, question: Question) -> Solver:
        """The solver for a question; a model or an option that does not fit is refused here."""
        model = self.models.of(question.instance, question.model)
        if question.share is not None:
            model = _with_share(model, *question.share)
        try:
            solver = solver_for(question.instance, model, self.device, **question.options)
        except InputError as error:
            raise Refused(422, error.message) from None
        solver.session.trace = True
        solver.session.on_note = lambda note: None
        return solver

    def start(self, question: Question, solver: Solver) -> Job:
        """Called in the event loop, so that no two clients take the last place."""
        self.require_room()
        loop = asyncio.get_running_loop()
        job = Job(loop, question, solver)
        job.on_left = lambda: self._await_followers(job, self.limits.patience)
        self.jobs[job.id] = job
        self.started += 1
        self._await_followers(job, self.limits.arrival)
        self._forget_the_oldest()
        self.threads.submit(self._work, job)
        return job

    def _await_followers(self, job: Job, seconds: float) -> None:
        """A job that nobody watches ends; a client that comes back soon finds it at work."""
        watched = weakref.ref(job)  # the clock keeps no job that was forgotten

        def look() -> None:
            if (one := watched()) is not None and not one.followers:
                one.stop()

        if not job.done and not job.loop.is_closed():
            job.loop.call_later(seconds, look)

    def _forget_the_oldest(self) -> None:
        done = [job for job in self.jobs.values() if job.done and not job.followers]
        kept = sum(job.size for job in self.jobs.values())
        for number, job in enumerate(done):
            if len(done) - number <= self.limits.kept and kept <= self.limits.memory:
                return
            del self.jobs[job.id]
            kept -= job.size

    def _work(self, job: Job) -> None:
        solver = job.solver
        assert solver is not None
        teller = Teller(job.question.settings(solver))
        try:
            for event in solver.events([job.question.instance]):
                for line in teller.lines(event):
                    job.tell(kind_of(line), line)
                if job.size > self.limits.events:
                    job.stop()
            if not job.events:
                job.tell("failed", {"error": "stopped before the first step"})
        except InputError as error:
            job.tell("failed", {"error": error.message})
        except Exception:
            traceback.print_exc(file=sys.stderr)
            job.tell("failed", {"error": "an error of the server; its log says more"})
        finally:
            job.solver = None
            job.close()

    def close(self) -> None:
        for job in self.jobs.values():
            job.stop()
            job.close()
        self.threads.shutdown(wait=False, cancel_futures=True)


def _with_share(model: Model, largest: float, smallest: float) -> Model:
    """The model with another schedule of block sizes."""
    schedule = Schedule(largest, smallest, model.chain.schedule.shape)
    return replace(model, chain=replace(model.chain, schedule=schedule))
