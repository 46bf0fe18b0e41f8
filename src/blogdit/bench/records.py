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
    *("suite", "case", "system", "instance", "problem", "run", "verdict", "status", "objective", "raw_objective"),
    *("violated", "raw_violated", "best_known", "seconds", "steps", "seed", "call_seconds", "batch"),
    *("budget_seconds", "budget_steps", "device", "workers", "jobs", "commit", "model"),
)


class RecordFile:
    """The records of one suite in a folder. Opening it again goes on with what is there, if the settings are equal."""

    def __init__(self, folder: Path, settings: Mapping[str, Any]):
        self.folder, self.path = folder, folder / RECORDS
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"cannot be made a folder: {error.strerror or error}", folder) from None
        stored = folder / SETTINGS
        text = json.dumps(dict(settings), indent=1)
        if stored.exists() and self.path.exists() and json.loads(stored.read_text()) != json.loads(text):
            before = json.loads(stored.read_text())
            changed = sorted(key for key in settings if before.get(key) != json.loads(text)[key])
            raise InputError(
                f"holds records with another {', '.join(changed)}; expected the same, or another --out", folder
            )
        stored.write_text(text)
        self.records = read_records(self.path) if self.path.exists() else []
        if self.path.exists():  # what a kill left of a last line goes
            self.path.write_text("".join(json.dumps(record) + "\n" for record in self.records))

    def append(self, records: Iterable[Record]) -> None:
        new = list(records)
        with open(self.path, "a") as file:
            file.write("".join(json.dumps(record) + "\n" for record in new))
            file.flush()
            os.fsync(file.fileno())
        self.records += new

    def write_csv(self) -> None:
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
