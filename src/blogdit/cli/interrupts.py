"""Ctrl-C and SIGTERM as a request to finish properly; a second one ends the program at once."""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, TypeVar

from blogdit.core.stopping import Stop, Stopped

SIGNALS = (signal.SIGINT, signal.SIGTERM)
# Seconds after which a clock rings once more, as an exception may get lost in a destructor. Work that begins too late
# has as long: enough to see that nothing is left to do.
AGAIN = 0.1

T = TypeVar("T")


class Interrupts:
    """Within this context a signal is remembered in `received`, calls `on_signal` and asks to `stop`."""

    def __init__(self) -> None:
        self.received: signal.Signals | None = None
        self.stop = Stop()
        self.on_signal: Callable[[], None] | None = None
        self._previous: dict[signal.Signals, Any] = {}

    @property
    def exit_code(self) -> int:
        """As shells count: 128 and the number of the signal."""
        return 0 if self.received is None else 128 + self.received

    @contextmanager
    def giving_up(self, end: float = math.inf) -> Iterator[None]:
        """Work that a signal ends with `Stopped`, and that has time until `end`, by the monotonic clock."""
        rings = signal.SIGALRM in self._previous and math.isfinite(end) if hasattr(signal, "SIGALRM") else False
        with self.stop.at_once():
            try:
                if rings:
                    signal.setitimer(signal.ITIMER_REAL, max(end - time.monotonic(), AGAIN), AGAIN)
                yield
            finally:
                if rings:
                    signal.setitimer(signal.ITIMER_REAL, 0)

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():  # Python allows handlers nowhere else
            self._previous = {number: signal.signal(number, self._handle) for number in SIGNALS}
            if hasattr(signal, "SIGALRM"):
                ring = signal.signal(signal.SIGALRM, lambda number, frame: self.stop.hurry())
                self._previous[signal.SIGALRM] = ring
        return self

    def __exit__(self, *exception: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.received is not None:
            raise KeyboardInterrupt
        self.received = signal.Signals(number)
        if self.on_signal is not None:
            self.on_signal()
        self.stop.ask()


class Reading(Iterator[T]):
    """What is read from a source, until a signal or until the time is over: then it ends in the middle of whatever the
    source does, and `cut_short` says so."""

    def __init__(self, source: Iterator[T], interrupts: Interrupts, end: float = math.inf):
        self.source, self.interrupts, self.end, self.cut_short = source, interrupts, end, False

    def __next__(self) -> T:
        try:
            with self.interrupts.giving_up(self.end):
                return next(self.source)
        except Stopped:
            self.cut_short = True
            raise StopIteration from None
