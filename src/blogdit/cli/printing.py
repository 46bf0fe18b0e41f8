"""The only place that prints. What a line says may come from a stranger's file, so it passes `harmless` here."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, TextIO

from blogdit.core.errors import InputError
from blogdit.core.text import harmless

if TYPE_CHECKING:
    from rich.console import Console


def say(line: str = "") -> None:
    """A result: one line on stdout, at once."""
    try:
        _write(line, sys.stdout)
    except BrokenPipeError:
        raise
    except OSError as error:  # a full disk behind it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is still buffered cannot be written
        raise InputError(f"stdout cannot be written: {error.strerror or error}") from None


def show(lines: str) -> None:
    """Several lines that our own code has put together. The names in them have passed `harmless` already, since here
    a line end of theirs would look like one of ours."""
    for line in lines.split("\n"):
        say(line)


def tell(line: str) -> None:
    """All else: one line on stderr."""
    _write(line, sys.stderr)


def warn(message: str) -> None:
    """What is wrong, in one line on stderr."""
    tell("blogdit: " + " ".join(message.split()))


def stderr_console() -> Console:
    """For tables and pictures. Square brackets of a stranger are no markup."""
    from rich.console import Console

    return Console(stderr=True, highlight=False, markup=False, emoji=False)


def _write(line: str, stream: TextIO) -> None:
    encoding = stream.encoding or "utf-8"
    print(harmless(line).encode(encoding, "backslashreplace").decode(encoding), file=stream, flush=True)
