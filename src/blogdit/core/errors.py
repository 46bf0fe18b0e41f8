"""The one exception that a user is meant to read."""

from __future__ import annotations

from pathlib import Path


class InputError(ValueError):
    """Something the user gave cannot be used: a file, an option, a model.

    Printed as one line, `FILE:LINE: what was found, what was expected`, with exit code 2.
    """

    def __init__(self, message: str, path: str | Path | None = None, line: int | None = None):
        self.message, self.path, self.line = message, path, line
        where = "" if path is None else f"{path}: " if line is None else f"{path}:{line}: "
        super().__init__(where + message)
