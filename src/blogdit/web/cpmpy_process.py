"""Reads CPMpy models in a process of its own. CPMpy takes minutes to translate some small models: it is ended then."""

from __future__ import annotations

from threading import Lock, Timer

from blogdit.core.errors import InputError
from blogdit.core.processes import Process
from blogdit.web.cpmpy_text import Translated, translated


class CpmpyProcess:
    """One model at a time. The process is started when it is first needed."""

    def __init__(self, seconds: float):
        self.seconds, self.lock = seconds, Lock()
        self.process: Process | None = None

    def read(self, text: str, name: str) -> Translated:
        """As `translated`, in bounded time."""
        with self.lock:
            if self.process is None:
                self.process = Process()
            timer = Timer(self.seconds, self.process.process.kill)
            timer.start()
            try:
                answer = self.process.call(_read, text, name)
            except InputError:  # it has ended before it answered
                self.close()
                message = f"takes more than {self.seconds:g} seconds to translate; expected a smaller model"
                raise InputError(message) from None
            finally:
                timer.cancel()
        if isinstance(answer, Translated):
            return answer
        raise InputError(answer[0], line=answer[1])

    def close(self) -> None:
        if self.process is not None:
            self.process.close()
        self.process = None


def _read(text: str, name: str) -> Translated | tuple[str, int | None]:
    """The model, or what is wrong and where: an exception would lose its line on the way."""
    try:
        return translated(text, name)
    except InputError as error:
        return error.message, error.line
