"""What one client may ask of the server. Every limit has an answer of its own: a clear 4xx, or 503 when it is full."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    body: int = 2_000_000  # bytes of a request
    variables: int = 5_000
    choices: int = 200_000  # values of all variables together: a chain is a table of them
    constraints: int = 200_000
    translation: float = 20.0  # seconds for reading a CPMpy model
    seconds: float = 30.0  # of a job
    steps: int = 5_000  # of a job
    chains: int = 16
    jobs: int = 2  # that work at the same time
    queue: int = 16  # jobs that wait
    kept: int = 32  # jobs that are done and can still be watched
    events: int = 32_000_000  # bytes that one job may tell; then it ends with what it has
    memory: int = 128_000_000  # bytes of events of all jobs that are kept
    arrival: float = 60.0  # seconds in which somebody must begin to watch a job
    patience: float = 10.0  # seconds that a job goes on when its watchers have gone: a page may be loaded again


class Refused(Exception):
    """A request that is answered with a status and one line that says what was expected."""

    def __init__(self, status: int, message: str):
        super().__init__(message)
        self.status, self.message = status, " ".join(message.split())
