"""Records: one JSON object per instance, system and run, appended as they come; a CSV file of the same.

Tables and figures are made from these files and from nothing else.
"""

from __future__ import annotations

import csv
import gzip
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from blogdit.errors import InputError
from blogdit.generation import cores

Record = dict[str, Any]
RECORDS, TABLE, SETTINGS, FIGURE, SHEET = "records.jsonl", "table.md", "settings.json", "figure.png", "records.csv"
COLUMNS = (
    *("suite", "case", "system", "instance", "problem", "run", "verdict", "status", "exhausted"),
    *("objective", "raw_objective", "violated", "raw_violated", "best_known"),
    *("seconds", "steps", "seed", "call_seconds", "batch"),
    *("budget_seconds", "budget_steps", "searches", "device", "workers", "jobs", "commit", "model", "weights"),
)


class RecordFile:
    """The records of one suite in a folder. Opening it again goes on with what is there, if the settings are equal."""

    def __init__(self, folder: Path, settings: Mapping[str, Any]):
        self.folder, self.path, self.settings = folder, folder / RECORDS, dict(settings)
        if folder.exists() and not folder.is_dir():
            raise InputError("is a file; expected a folder", folder)
        stored = folder / SETTINGS
        if not self.path.exists():
            for name in (TABLE, FIGURE, SHEET):
                if (folder / name).exists():
                    raise InputError(f"holds a {name} but no records; expected another --out", folder)
        elif stored.exists():
            self._compare(json.loads(stored.read_text()))
        self.records = read_records(self.path) if self.path.exists() else []
        if self.path.exists():  # what a kill left of a last line goes
            self.path.write_text("".join(json.dumps(record) + "\n" for record in self.records))

    def _compare(self, before: Mapping[str, Any]) -> None:
        asked = json.loads(json.dumps(self.settings))
        changed = [f"{key} ({before.get(key)}, not {asked[key]})" for key in asked if before.get(key) != asked[key]]
        if changed:
            raise InputError(
                f"holds records with another {', '.join(sorted(changed))}; expected the same, or another --out",
                self.folder,
            )

    def _begin(self) -> None:
        """Make the folder, once there is something to keep."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            (self.folder / SETTINGS).write_text(json.dumps(self.settings, indent=1))
        except OSError as error:
            raise InputError(f"cannot be made a folder: {error.strerror or error}", self.folder) from None

    def append(self, records: Iterable[Record]) -> None:
        new = list(records)
        if not (self.folder / SETTINGS).exists():
            self._begin()
        with open(self.path, "a") as file:
            file.write("".join(json.dumps(record) + "\n" for record in new))
            file.flush()
            os.fsync(file.fileno())
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


def read_records(path: Path) -> list[Record]:
    """All complete records; an unfinished last line (of a run that was killed) is left out."""
    records: list[Record] = []
    lines = (gzip.decompress(path.read_bytes()).decode() if path.suffix == ".gz" else path.read_text()).splitlines(True)
    for number, line in enumerate(lines, 1):
        try:
            records.append(json.loads(line))
        except json.JSONDecodeError:
            if number < len(lines) or line.endswith("\n"):
                raise InputError("not a record; expected a JSON object", path, number) from None
    return records


def device_name(device: str) -> str:
    if device.startswith("cuda"):
        import torch

        return str(torch.cuda.get_device_name())
    import platform

    models = [line.split(":")[1].strip() for line in _cpuinfo() if line.startswith("model name")]
    return f"CPU {models[0] if models else platform.machine()}, {cores()} core{'s' * (cores() > 1)}"


def _cpuinfo() -> list[str]:
    try:
        return Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return []
