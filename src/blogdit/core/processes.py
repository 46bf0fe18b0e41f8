"""Functions called in processes of their own, where they share neither Python's lock nor Ctrl-C with us.

Run as a module (`python -m blogdit.core.processes`) it is such a process: calls come in pickled, answers leave pickled.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from threading import Lock
from typing import Any, BinaryIO, TypeVar

from blogdit.core.errors import InputError

T = TypeVar("T")


class Process:
    """A Python process that does one call after the other. It ends when nobody can ask it any more."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "blogdit.core.processes"],  # -P: no module comes from where we happen to be
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            start_new_session=True,  # a signal of the terminal is for us alone
        )

    def call(self, function: Callable[..., T], *arguments: Any) -> T:
        """What a function of a module returns or raises there."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        request = pickle.dumps((function, arguments))
        try:
            self.process.stdin.write(request)
            self.process.stdin.flush()
            answer, error = pickle.load(self.process.stdout)  # our own child's
        except (EOFError, BrokenPipeError):
            raise InputError(f"a process ended before it answered (exit code {self.process.wait()})") from None
        except BaseException:  # what is left of the answer must not be taken for the next one
            self.close()
            raise
        if error is not None:
            raise error
        return answer

    def close(self) -> None:
        """End it; what it is doing is lost."""
        self.process.kill()
        self.process.communicate()


class Processes:
    """As many processes as there are calls at a time, each started when it is first needed."""

    def __init__(self) -> None:
        self.everyone: list[Process] = []
        self.idle: list[Process] = []
        self.lock, self.closed = Lock(), False

    def call(self, function: Callable[..., T], *arguments: Any) -> T:
        """As `Process.call`; threads may call at the same time."""
        with self.lock:
            if self.closed:
                raise InputError("a process was asked after the last one had ended")
            if not self.idle:
                self.idle.append(Process())
                self.everyone.append(self.idle[-1])
            process = self.idle.pop()
        try:
            return process.call(function, *arguments)
        finally:
            if process.process.poll() is None:
                self.idle.append(process)

    def close(self) -> None:
        """End them all; what they are doing is lost."""
        with self.lock:
            self.closed = True
        for process in self.everyone:
            process.close()

    def __enter__(self) -> Processes:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def serve(calls: BinaryIO, answers: BinaryIO) -> None:
    while True:
        try:
            function, arguments = pickle.load(calls)
        except EOFError:
            return
        try:
            answer, error = function(*arguments), None
        except Exception as raised:
            answer, error = None, raised
        try:
            text = pickle.dumps((answer, error))
            if error is not None:
                pickle.loads(text)
        except Exception:  # what cannot be sent can at least be named
            text = pickle.dumps((None, RuntimeError(repr(error or answer))))
        answers.write(text)
        answers.flush()


if __name__ == "__main__":
    kept = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints is no answer
    try:
        serve(sys.stdin.buffer, kept)
    except BrokenPipeError:  # nobody is left to tell
        os._exit(1)
