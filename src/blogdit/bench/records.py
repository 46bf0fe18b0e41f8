"""Records: one JSON object per instance, system and run, appended as they come; a CSV file of the same.

Tables and figures are made from these files and from nothing else.
"""

from __future__ import annotations

import csv
import gzip
import json
import os
import re
import zlib
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import cache
from io import FileIO
from pathlib import Path
from typing import Any

from blogdit.core.errors import InputError
from blogdit.core.files import claim
from blogdit.problems.generation import cores

Record = dict[str, Any]
RECORDS, TABLE, SETTINGS, FIGURE, SHEET = "records.jsonl", "table.md", "settings.json", "figure.png", "records.csv"
COLUMNS = (
    *("suite", "case", "system", "instance", "problem", "run", "verdict", "status", "exhausted"),
    *("found_by", "proved_by"),
    *("objective", "raw_objective", "violated", "raw_violated", "best_known"),
    *("seconds", "steps", "seed", "call_seconds", "batch"),
    *("budget_seconds", "budget_steps", "searches", "device", "workers", "jobs", "commit", "model", "weights"),
)
NEEDED = ("suite", "case", "system", "instance", "verdict", "seconds", "steps")


class RecordFile:
    """The records of one suite in a folder: `with RecordFile(folder, settings) as file:` goes on with what is there, if
    the settings are equal. Nobody else may append until it is left; a run without a record leaves nothing behind."""

    def __init__(self, folder: Path, settings: Mapping[str, Any]):
        self.folder, self.path, self.settings = folder, folder / RECORDS, dict(settings)
        self.records: list[Record] = []
        self._file: FileIO | None = None
        self._made: list[Path] = []  # goes again, if nothing is recorded

    def __enter__(self) -> RecordFile:
        if self.folder.exists() and not self.folder.is_dir():
            raise InputError("is a file; expected a folder", self.folder)
        stored = self.folder / SETTINGS
        if not self.path.exists():
            for name in (SETTINGS, TABLE, FIGURE, SHEET):
                if (self.folder / name).exists():
                    raise InputError(f"holds a {name} but no records; expected another --out", self.folder)
        made = [path for path in (stored, self.path, self.folder) if not path.exists()]
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._file = open(self.path, "ab", buffering=0)
            claim(self._file, self.folder)
            self._made = made
            self.records = read_records(self.path)
            if self.records:
                self._compare(_read_settings(self.folder))
                self._check()
            else:
                stored.write_text(json.dumps(self.settings, indent=1))
            self._end_last_line()
        except BaseException as error:
            self.__exit__()
            if isinstance(error, OSError):
                raise InputError(f"cannot be written: {error.strerror or error}", self.folder) from None
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        if self._file is not None and not self._file.closed:
            if os.fstat(self._file.fileno()).st_size == 0:
                for path in self._made:
                    with suppress(OSError):  # the folder may hold something else by now
                        path.rmdir() if path == self.folder else path.unlink()
            self._file.close()

    def _compare(self, before: Mapping[str, Any]) -> None:
        asked = json.loads(json.dumps(self.settings))
        changed = [f"{key} ({before.get(key)}, not {asked[key]})" for key in asked if before.get(key) != asked[key]]
        if changed:
            found = f"holds records with another {', '.join(sorted(changed))}"
            raise InputError(f"{found}; expected the same, or another --out", self.folder)

    def _check(self) -> None:
        seen, suite = set(), self.settings["suite"]
        for line, record in enumerate(self.records, 1):
            if record["suite"] != suite:
                raise InputError(f"a record of {record['suite']}; expected {suite}, or another --out", self.path, line)
            place = (record["case"], record["system"], record["instance"], record.get("run"))
            if place in seen and "run" in record:  # points of a path have none
                found = f"a second record of {record['system']} on {record['instance']}"
                raise InputError(f"{found}; expected one", self.path, line)
            seen.add(place)

    def _end_last_line(self) -> None:
        """What a kill left of a last line goes; a whole record that lacks the end of its line gets it."""
        assert self._file is not None
        text = self.path.read_bytes()
        if text and not text.endswith(b"\n"):
            if text.count(b"\n") < len(self.records):
                self._file.write(b"\n")
            else:
                self._file.truncate(text.rfind(b"\n") + 1)

    def append(self, records: Iterable[Record]) -> None:
        """All of them or, if the disk is full, none."""
        assert self._file is not None, "append within `with file:`"
        new, before = list(records), os.fstat(self._file.fileno())
        text = "".join(json.dumps(record) + "\n" for record in new).encode()
        try:
            if self.path.stat().st_ino != before.st_ino:
                raise InputError("has been replaced while it was written to", self.path)
            while text:
                text = text[self._file.write(text) :]
            os.fsync(self._file.fileno())
        except OSError as error:
            self._file.truncate(before.st_size)
            raise InputError(f"cannot be written: {error.strerror or error}", self.path) from None
        self.records += new

    def write_csv(self) -> None:
        if not self.records:
            return
        names = list(dict.fromkeys([*COLUMNS, *(name for record in self.records for name in record)]))
        used = [name for name in names if any(name in record for record in self.records)]
        with open(self.folder / SHEET, "w", newline="") as file:
            writer = csv.DictWriter(file, used)
            writer.writeheader()
            writer.writerows(self.records)


def _read_settings(folder: Path) -> dict[str, Any]:
    path = folder / SETTINGS
    if not path.exists():
        raise InputError(f"holds records but no {SETTINGS}; expected both, or another --out", folder)
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        found = None
    if not isinstance(found, dict):
        raise InputError("not the settings of a run; expected a JSON object", path)
    return found


def read_records(path: Path) -> list[Record]:
    """All complete records; an unfinished last line (of a run that was killed) is left out."""
    try:
        content = path.read_bytes()
        lines = (gzip.decompress(content) if path.suffix == ".gz" else content).decode().splitlines(True)
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise InputError(f"cannot be read: {error}", path) from None
    records: list[Record] = []
    for number, line in enumerate(lines, 1):
        try:
            record = json.loads(line)
        except json.JSONDecodeError:
            if number == len(lines) and not line.endswith("\n"):
                break
            record = None
        missing = [name for name in NEEDED if not isinstance(record, dict) or name not in record]
        if missing:
            raise InputError(f"not a record; expected a JSON object with {', '.join(missing)}", path, number)
        records.append(record)
    return records


@cache
def device_name(device: str) -> str:
    if device.startswith("cuda"):
        import torch

        return str(torch.cuda.get_device_name())
    import platform

    info = Path("/proc/cpuinfo")
    model = re.search(r"^model name\s*:\s*(.*\S)", info.read_text() if info.exists() else "", re.MULTILINE)
    return f"CPU {model[1] if model else platform.machine()}, {cores()} core{'s' * (cores() > 1)}"
