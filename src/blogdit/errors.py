"""The one exception that a user is meant to read, and a check that many share."""

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


LARGEST_SEED = 1 << 62  # plus a small number it still fits 64 bits


def check_seed(seed: object) -> None:
    if not isinstance(seed, int) or not 0 <= seed <= LARGEST_SEED:
        raise InputError(f"seed must be a whole number from 0 to {LARGEST_SEED}, got {seed!r}")
