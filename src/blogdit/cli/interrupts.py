"""Ctrl-C and SIGTERM as a request to finish properly; a second one ends the program at once."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

from blogdit.core.stopping import Stop

SIGNALS = (signal.SIGINT, signal.SIGTERM)


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

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():  # Python allows handlers nowhere else
            self._previous = {number: signal.signal(number, self._handle) for number in SIGNALS}
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
