"""A file of records that grows line by line and can be gone on with, however the last run ended."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from blogdit.core.errors import InputError
from blogdit.core.files import claim
from blogdit.core.instance import Instance
from blogdit.core.result import Result
from blogdit.formats.solutions import record, solution
from blogdit.formats.text import COMPRESSION_SUFFIXES


class Held(NamedTuple):
    """What a file holds about an instance."""

    status: str | None  # None in traces
    start: int  # of its line
    number: int  # of its line


class RecordFile:
    """JSON lines, each in the file as soon as it is written. `held` are the instances it held at the start, by name.

    A file that exists is gone on with only if `resume` says so (None: this one cannot be); a last line that a kill has
    cut off is dropped. Without a line no new file is left behind.
    """

    def __init__(self, path: str | Path, resume: bool | None = False):
        self.path, self.held = Path(path), dict[str, Held]()
        if self.path.suffix in COMPRESSION_SUFFIXES:
            raise InputError("grows line by line and cannot be compressed; expected .jsonl", path)
        self._is_new = not self.path.exists()
        try:
            self._file = open(self.path, "ab", buffering=0)  # noqa: SIM115 (closed with this object)
        except OSError as error:
            raise self._unwritable(error) from None
        try:
            self._begin(resume)
        except BaseException:
            self._file.close()
            raise

    def _begin(self, resume: bool | None) -> None:
        """Look at what is there, once nobody else writes: a torn line may be one that is being written."""
        if not self.path.is_file():  # a device or a pipe
            return
        claim(self._file, self.path)
        if self.path.stat().st_size:
            if not resume:
                go_on = "" if resume is None else "--resume to go on with it, or "
                raise InputError(f"exists already; expected {go_on}another file", self.path)
            self._take_stock()

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
            if before is not None:
                with suppress(OSError):  # a device cannot be cut
                    os.ftruncate(self._file.fileno(), before)
            raise self._unwritable(error) from None

    def _take_stock(self) -> None:
        try:
            with open(self.path, "rb+") as file:
                end = 0  # of the last whole line
                for number, line in enumerate(file, 1):
                    if line.endswith(b"\n"):
                        data = self._parse(line, number)
                        self.held[data["instance"]] = Held(data.get("status"), end, number)
                        end += len(line)
                file.truncate(end)
        except OSError as error:
            raise InputError(f"cannot be read: {error.strerror or error}", self.path) from None

    def check(self, instance: Instance) -> None:
        """That what is held under its name is about this instance: its values are as good as the file says."""
        held = self.held[instance.name]
        with open(self.path, "rb") as file:
            file.seek(held.start)
            data = self._parse(file.readline(), held.number)
        try:
            found = solution(data)
            same = data.get("problem") == instance.problem and not found.contradiction(instance)
        except (ValueError, OverflowError):  # no values, or more or fewer than the instance has variables
            same = False
        if not same:
            message = f"holds the answer to another instance {instance.name!r}; expected the same, or another --out"
            raise InputError(message, self.path, held.number)

    def _parse(self, line: bytes, number: int) -> dict[str, Any]:
        try:
            data = json.loads(line)
        except (ValueError, RecursionError):
            data = None
        if not isinstance(data, dict) or not isinstance(data.get("instance"), str):
            raise InputError("not a record of blogdit; expected a file that --out has written", self.path, number)
        return data

    def _unwritable(self, error: OSError) -> InputError:
        return InputError(f"cannot be written: {error.strerror or error}", self.path)

    def __enter__(self) -> RecordFile:
        return self

    def __exit__(self, *exception: object) -> None:
        empty = not os.fstat(self._file.fileno()).st_size
        self._file.close()
        if self._is_new and empty:
            self.path.unlink(missing_ok=True)
