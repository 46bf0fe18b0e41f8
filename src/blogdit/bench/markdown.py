"""Cells and rows of Markdown tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from blogdit.bench.measures import Mean

NOTHING = "-"


def number(value: float, sign: str = "-") -> str:
    return f"{value:{sign if value else '-'}.3g}" if abs(value) < 1 else f"{value:{sign}.2f}"


def rounded(value: float) -> str:
    return number(value) if value < 1 else f"{value:.0f}"


def signed(value: float) -> str:
    return number(value, "+")


def with_interval(
    found: Mean | None, text: Callable[[float], str] = number, bold: bool = False, bracket: bool = True
) -> str:
    """A mean and its interval; without `bracket` no interval of a single measurement, which has no width."""
    if found is None:
        return NOTHING
    value, low, high = map(text, (found.value, found.low, found.high))
    value = f"**{value}**" if bold else value
    return f"{value} [{low}, {high}]" if bracket or found.low != found.high else value


def partly(count: int, of: int) -> str:
    """The number of instances, if a system ran on a part of them."""
    return f" ({count})" if 0 < count < of else ""


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---", *["---:"] * (len(header) - 1)], *rows]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)
