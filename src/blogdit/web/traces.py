"""Trace files: what `blogdit solve --trace` wrote, to be shown again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from blogdit.core.errors import InputError
from blogdit.formats.text import open_lines


def read_trace(path: Path, most: int | None = None) -> list[dict[str, Any]]:
    """The lines of the last run of each instance. A line that a kill has cut off at the end is left out."""
    runs: dict[str, list[dict[str, Any]]] = {}
    with open_lines(path) as lines:
        for line in lines:
            try:
                record = json.loads(line)
            except ValueError:
                record = None
                if not lines.peek(1) and runs:
                    break
            if not isinstance(record, dict) or not isinstance(record.get("instance"), str):
                raise lines.error("not a line of a trace; expected what blogdit solve --trace has written")
            name = record["instance"]
            if "question" in record:
                if name not in runs and most is not None and len(runs) == most:
                    continue
                runs[name] = [record]
            elif name in runs:
                runs[name].append(record)
            elif most is None or len(runs) < most:
                raise lines.error(f"a step of {name[:60]!r} without its question; it was written by an older version")
    if not runs:
        raise InputError("holds no trace; expected what blogdit solve --trace has written", path)
    return [record for run in runs.values() for record in run]
