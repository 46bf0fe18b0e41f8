"""What a person watches while `blogdit solve` works, on stderr; where that is no terminal, the steps of `--live`.

Rich is imported with the first picture: what is solved before that, or without a terminal, does not wait for it.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from blogdit import formats
from blogdit.cli.printing import stderr_console, tell
from blogdit.cli.solve_output import Tally
from blogdit.core.errors import InputError
from blogdit.core.result import VALID
from blogdit.core.text import harmless
from blogdit.problems import families
from blogdit.problems.answers import render
from blogdit.solver.events import Step
from blogdit.solver.streams import SolverPool

if TYPE_CHECKING:
    from rich.console import Group
    from rich.live import Live
    from rich.table import Table
    from rich.text import Text

REDRAW = 0.1  # seconds


class Display:
    """A line with progress, and with `live` the instance in work above it. `limit`: seconds that all may take."""

    def __init__(self, pool: SolverPool, tally: Tally, limit: float | None, live: bool):
        self.pool, self.tally, self.limit, self.live = pool, tally, limit, live
        self.visible = sys.stderr.isatty()
        self.total: int | None = None  # instances, if somebody has counted them
        self.started = self.drawn = time.monotonic()
        self.focus: Step | None = None
        self.screen: Live | None = None

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.started

    def tick(self) -> None:
        """Redraw, if it is time."""
        now = time.monotonic()
        if self.visible and now - self.drawn >= REDRAW:
            self.drawn = now
            if self.screen is None:
                self.screen = self._open()
            self.screen.update(self._picture(), refresh=True)

    def show(self, step: Step) -> None:
        """Look at a step, if it is of the instance in focus. Without a terminal it is a line."""
        if self.live and (self.focus is None or self.focus.index == step.index):
            self.focus = step
            if not self.visible:
                tell(f"{step.instance.name}: {facts_of(step)}")

    def forget(self, index: int) -> None:
        """The instance is done; another may come into focus."""
        if self.focus is not None and self.focus.index == index:
            self.focus = None

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Let something be printed: the picture is taken away and drawn again."""
        if self.screen is not None:
            self.screen.stop()
        yield
        if self.screen is not None:
            self.screen.update(self._picture())
            self.screen.start()

    def _open(self) -> Live:
        from rich.live import Live

        screen = Live(console=stderr_console(), auto_refresh=False, transient=True, redirect_stdout=False)
        screen.start()
        return screen

    def __enter__(self) -> Display:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """For good."""
        if self.screen is not None:
            self.screen.stop()
        self.visible, self.screen = False, None

    def _picture(self) -> Group | Table:
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.table import Table

        line = Table.grid(padding=(0, 1))
        bar = ProgressBar(self.total or 1, self.tally.done + self.tally.skipped, width=20, pulse=self.total is None)
        line.add_row(bar, self._progress())
        return line if self.focus is None else Group(picture_of(self.focus), line)

    def _progress(self) -> str:
        tally, pool = self.tally, self.pool
        parts = [f"{tally.done}{'' if self.total is None else f'/{self.total - tally.skipped}'} done"]
        parts.append(f"{tally.number(*VALID)} with an answer")
        best = None if pool.working is None else pool.working.incumbent()
        parts += [] if best is None else [f"best {best:.8g}"]
        parts.append(f"{pool.steps_done / max(self.seconds, 1e-9):.0f} steps/s")
        left = self._seconds_left()
        parts += [] if left is None else [f"{_clock(left)} left"]
        return ", ".join(parts)

    def _seconds_left(self) -> float | None:
        """From the pace so far, and not more than the limits allow."""
        limits = [self.limit, self.pool.working.options.time_limit if self.pool.working and self.total == 1 else None]
        guesses = [max(limit - self.seconds, 0.0) for limit in limits if limit is not None]
        if self.total is not None and self.tally.done:
            left = self.total - self.tally.skipped - self.tally.done
            guesses.append(self.seconds / self.tally.done * max(left, 0))
        return min(guesses, default=None)


def count_instances(files: Sequence[Path]) -> int | None:
    """How many instances the files hold, as far as their lines tell; None if one cannot be looked at twice."""
    if not all(path.is_file() for path in files):
        return None
    total = 0
    for path in files:
        try:
            total += formats.count(path)
        except InputError:
            continue  # reported when it is read
    return total


def picture_of(step: Step) -> Text:
    """The state of an instance: what the family shows of its answers, or a table."""
    from rich.text import Text

    instance = step.instance
    family = families().get(instance.problem)
    if family is not None and family.marks:
        shown = family.render(instance, step.values, ansi=True, changed=step.changed)
    else:
        shown = render(instance, step.values)
    picture = Text.from_ansi(f"{shown}\n{harmless(instance.name)}: {facts_of(step)}, energy {step.energy:.6g}, ")
    return picture.append(f"confidence {step.confidence:.2f}")


def facts_of(step: Step) -> str:
    return f"step {step.step}, block of {len(step.block)}, {len(step.changed)} changed, {step.violations} violated"


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
