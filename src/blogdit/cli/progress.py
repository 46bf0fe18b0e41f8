"""What a person sees while a long command works; on stderr, one line per event where that is not a terminal."""

from __future__ import annotations

import time
from typing import Any

from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from blogdit.cli.printing import stderr_console, tell
from blogdit.core.text import harmless

QUIET = 30.0  # seconds without a line, where there is no bar


class TrainingProgress:
    """A bar with rate, time left, loss and the last validation score; without a terminal a line now and then."""

    def __init__(self) -> None:
        self.console = stderr_console()
        columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
        self.bar = Progress(*columns, console=self.console, disable=not self.console.is_terminal)
        self.task = self.bar.add_task("training", total=1.0)
        self.validation = ""
        self.marks: list[tuple[float, int]] = []
        self.told = time.monotonic()

    def show(self, record: dict[str, Any], spent: float) -> None:
        self.marks = [*self.marks[-50:], (time.monotonic(), record["update"])]
        (began, first), (now, last) = self.marks[0], self.marks[-1]
        rate = (last - first) / max(now - began, 1e-9)
        scored = {name: value for name, value in record.items() if name.startswith("valid_")}
        if scored:
            self.validation = " ".join(f"{name} {value:.4g}" for name, value in scored.items())
        skipped = f"  {record['bad_steps']} NaN steps skipped" if record["bad_steps"] else ""
        line = (
            f"{min(spent, 1.0):4.0%}  update {record['update']}  {rate:.1f}/s  loss {record['loss']:.4g}"
            f"  tau {record['tau']:.3g}  {self.validation}{skipped}"
        )
        if self.console.is_terminal:
            self.bar.update(self.task, completed=min(spent, 1.0), description=line)
        if scored or (not self.console.is_terminal and time.monotonic() - self.told >= QUIET):
            self.tell(line)

    def tell(self, line: str) -> None:
        self.told = time.monotonic()
        self.console.print(harmless(line), highlight=False) if self.console.is_terminal else tell(line)

    def __enter__(self) -> TrainingProgress:
        self.bar.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.bar.stop()
