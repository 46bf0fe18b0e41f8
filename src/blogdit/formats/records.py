"""A file of records that grows line by line and can be gone on with, however the last run ended."""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

from blogdit.errors import InputError
from blogdit.formats.solutions import record
from blogdit.formats.text import COMPRESSION_SUFFIXES
from blogdit.result import Result


class Held(NamedTuple):
    """What a file says about an instance; None where it says nothing (traces do not)."""

    problem: str | None
    variables: int | None
    highest: int | None  # of the values
    status: str | None


class RecordFile:
    """JSON lines, each in the file as soon as it is written. `held` are the instances it held at the start, by name.

    A file that exists is gone on with only if `resume` says so; a last line that a kill has cut off is dropped. An
    error before the first line leaves no new file behind.
    """

    def __init__(self, path: str | Path, resume: bool = False):
        self.path, self.held = Path(path), dict[str, Held]()
        if self.path.suffix in COMPRESSION_SUFFIXES:
            raise InputError("grows line by line and cannot be compressed; expected .jsonl", path)
        if self.path.is_file() and self.path.stat().st_size:
            if not resume:
                raise InputError("exists already; expected --resume to go on with it, or another file", path)
            self._take_stock()
        self._is_new = not self.path.exists()
        try:
            self._file = open(self.path, "ab", buffering=0)  # noqa: SIM115 (closed with this object)
        except OSError as error:
            raise self._unwritable(error) from None

    def write_result(self, result: Result) -> None:
        self.write(record(result))

    def write(self, data: dict[str, Any]) -> None:
        """A whole line or, if the disk is full, nothing."""
        line = json.dumps(data).encode() + b"\n"
        try:
            before = self._file.seek(0, os.SEEK_END) if self._file.seekable() else None
            while line:
                line = line[self._file.write(line) :]
        except OSError as error:
            if before:
                os.ftruncate(self._file.fileno(), before)
            raise self._unwritable(error) from None

    def _take_stock(self) -> None:
        try:
            with open(self.path, "rb+") as file:
                end = 0  # of the last whole line
                for number, line in enumerate(file, 1):
                    if line.endswith(b"\n"):
                        name, held = self._held(line, number)
                        self.held[name] = held
                        end += len(line)
                file.truncate(end)
        except OSError as error:
            raise InputError(f"cannot be read: {error.strerror or error}", self.path) from None

    def _held(self, line: bytes, number: int) -> tuple[str, Held]:
        try:
            data = json.loads(line)
            name, values = data["instance"], data.get("values")
            variables = len(values) if isinstance(values, list | str) else None
            highest = max(values, default=None) if isinstance(values, list) else None
            held = Held(data.get("problem"), variables, highest, data.get("status"))
        except (ValueError, TypeError, KeyError, AttributeError):
            name = None
        if not isinstance(name, str):
            raise InputError("not a record of blogdit; expected a file that --out has written", self.path, number)
        return name, held

    def _unwritable(self, error: OSError) -> InputError:
        return InputError(f"cannot be written: {error.strerror or error}", self.path)

    def __enter__(self) -> RecordFile:
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._file.close()
        if error is not None and self._is_new and not self.path.stat().st_size:
            self.path.unlink()
