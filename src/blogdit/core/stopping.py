"""A wish to stop: asked for at any moment, granted where it does no harm."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class Stopped(KeyboardInterrupt):
    """Raised in the middle of work that may be given up at any moment."""


class Stop:
    """Somebody, a signal handler for instance, calls `ask`. Work that must not be torn looks at `asked` from time to
    time. Work that may be given up at any moment runs within `at_once`."""

    def __init__(self) -> None:
        self.asked, self.impatient = False, False

    def ask(self) -> None:
        self.asked = True
        self.hurry()

    def hurry(self) -> None:
        """End what may be given up at once, and nothing else."""
        if self.impatient:
            raise Stopped

    @contextmanager
    def at_once(self) -> Iterator[None]:
        self.impatient = True
        try:
            if self.asked:
                raise Stopped
            yield
        finally:
            self.impatient = False
