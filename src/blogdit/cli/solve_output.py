"""What `blogdit solve` prints: answers on stdout, the summary on stderr."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from blogdit import formats
from blogdit.cli.printing import say, show, tell
from blogdit.core.result import VALID, Result, Status
from blogdit.core.text import harmless
from blogdit.problems.answers import render

STATUSES: tuple[Status, ...] = (*VALID, "unknown", "infeasible")
FEW = 5  # instances whose answers are shown in full; of more, a line each
ROW = "{:<28} {:<10} {:>12} {:>10} {:>7} {:>9}"


def print_json(result: Result) -> None:
    say(json.dumps(formats.record(result)))


def print_header() -> None:
    say(ROW.format("instance", "status", "objective", "violations", "steps", "seconds"))


def print_row(result: Result) -> None:
    objective = "" if result.objective is None else f"{result.objective:.8g}"
    violated, name = result.verdict.violated, result.instance.name
    say(ROW.format(name, result.status, objective, violated, result.steps, f"{result.seconds:.2f}"))


def print_answer(result: Result) -> None:
    """The verdict in words, then the answer as its family or its names show it."""
    facts: str = result.status
    if result.status not in VALID:
        nothing = f"proved by {result.proved_by}" if result.status == "infeasible" else "no valid answer found"
        facts += f": {nothing}, {result.verdict.in_words}; the closest:"
    elif result.objective is not None:
        facts += f", objective {result.objective:.8g}"
    if result.status in VALID:
        facts += f" ({_origin(result)})"
    say(f"{result.instance.name}: {facts}")
    show(render(result.instance, result.values))
    if result.verdict.unmet:
        say(f"{_number(result.verdict.unmet, 'soft constraint')} violated, which the objective counts")


def _origin(result: Result) -> str:
    """Who found an answer, and what the sampler had by itself."""
    sampler, steps = result.sampler, f"{result.steps} step{'' if result.steps == 1 else 's'}"
    if sampler is None:
        return f"found by {result.found_by}"
    found = f"found by the sampler in {steps}"
    if result.found_by != "sampler":
        had = f"{_number(sampler.violations, 'constraint')} violated"
        if sampler.objective is not None:
            had = f"{sampler.objective:.8g}"
        found = f"found by {result.found_by}; the sampler alone: {had} after {steps}"
    return f"{found}; proved by {result.proved_by}" if result.proved_by else found


class View:
    """Shows results as they come or, `in_order`, in the order of their instances: who is done early waits."""

    def __init__(self, show: Callable[[Result], None] | None, in_order: bool = False):
        self.show, self.in_order = show, in_order
        self.waiting, self.following = dict[int, Result](), 0

    def add(self, index: int, result: Result) -> None:
        self.waiting[index] = result
        if not self.in_order:
            self.close()
        while self.following in self.waiting:
            self._show(self.following)
            self.following += 1

    def close(self) -> None:
        """Show all that still wait."""
        for index in sorted(self.waiting):
            self._show(index)

    def _show(self, index: int) -> None:
        result = self.waiting.pop(index)
        if self.show is not None:
            self.show(result)


@dataclass
class Tally:
    """What became of the instances."""

    results: Counter[tuple[str, str]] = field(default_factory=Counter)  # (problem, status) -> number
    steps: Counter[str] = field(default_factory=Counter)
    seconds: dict[str, float] = field(default_factory=dict)
    broken: int = 0  # lines, files and problems that could not be used
    skipped: int = 0  # instances that the file of results holds already
    skipped_invalid: int = 0  # those of them that have no valid answer
    unfinished: int = 0  # instances in work when a signal came

    def add(self, result: Result) -> None:
        self.count(result.instance.problem, result.status, result.steps, result.seconds)

    def count(self, problem: str, status: str, steps: int, seconds: float) -> None:
        self.results[problem, status] += 1
        self.steps[problem] += steps
        self.seconds[problem] = self.seconds.get(problem, 0.0) + seconds

    def number(self, *statuses: str) -> int:
        return sum(count for (_, status), count in self.results.items() if status in statuses)

    @property
    def done(self) -> int:
        return sum(self.results.values())

    def exit_code(self, cut_short: bool) -> int:
        """3: an instance has no valid answer; 2: some input could not be used; 0: all is well."""
        if cut_short or self.number("unknown", "infeasible") or self.skipped_invalid:
            return 3
        return 2 if self.broken else 0

    def print_summary(self, seconds: float, steps: int, note: str = "") -> None:
        seen = [status for status in STATUSES if self.number(status)]
        rows = [["problem", "instances", *seen, "mean steps", "mean seconds"]]
        for problem in sorted({problem for problem, _ in self.results}):
            counts = [self.results[problem, status] for status in seen]
            number = sum(counts)
            means = f"{self.steps[problem] / number:.1f}", f"{self.seconds[problem] / number:.2f}"
            rows.append([harmless(problem), str(number), *map(str, counts), *means])
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        for first, *others in rows if len(rows) > 1 else ():
            cells = (cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True))
            tell("  ".join([first.ljust(widths[0]), *cells]))
        facts = [f"{_number(self.done, 'instance')} in {seconds:.1f} s, {steps / max(seconds, 1e-9):.1f} steps/s"]
        without = f", {self.skipped_invalid} of them without a valid answer" if self.skipped_invalid else ""
        facts += [f"{self.skipped} answered before{without}"] if self.skipped else []
        facts += [f"{_number(self.broken, 'input')} could not be used"] if self.broken else []
        facts += [f"{self.unfinished} unfinished"] if self.unfinished else []
        tell("; ".join(facts + ([note] if note else [])))


def _number(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
