"""A trace of a puzzle on a grid as an SVG that moves by itself, with CSS and no script: for a README or a slide."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from blogdit.core.constraints import IntArray
from blogdit.core.errors import InputError
from blogdit.core.instance import Instance
from blogdit.formats import from_json
from blogdit.problems.grids import clashing
from blogdit.problems.sudoku import SYMBOLS

CELL = 30  # pixels
SECONDS = 0.7  # of a picture
HOLD = 4  # pictures' time for the last one
MOST_STEPS = 60  # a longer run is shown by its first steps and its end
GRIDS = ("sudoku", "latin")
STYLE = """
svg{font:16px system-ui,sans-serif;
--ink:#1b1f24;--paper:#fff;--line:#9aa4af;--hidden:#d5dae0;--red:#b3261e;--new:#0b5cad}
@media(prefers-color-scheme:dark){svg{
--ink:#e8eaed;--paper:#16191d;--line:#6b7580;--hidden:#3a424b;--red:#ff8a80;--new:#7cc0ff}}
text{fill:var(--ink);text-anchor:middle;dominant-baseline:central}
.p{fill:var(--paper)}.l{stroke:var(--line)}.t{stroke:var(--ink);stroke-width:2}.g{font-weight:700}.h{fill:var(--hidden)}
.n{fill:var(--new)}.c{fill:var(--red);text-decoration:underline}.w{text-anchor:start;font-size:14px}
.f{visibility:hidden;animation:s TOTALs infinite step-end}
@keyframes s{0%{visibility:visible}SHOWN%{visibility:hidden}}
.z{animation-name:z}@keyframes z{0%{visibility:visible}HELD%{visibility:hidden}}
@media(prefers-reduced-motion:reduce){.f{animation:none}.z{visibility:visible}}
"""


class Picture(NamedTuple):
    values: IntArray
    hidden: frozenset[int]  # cells of the block, before they are drawn anew
    changed: frozenset[int]
    words: str


def write_svg(records: list[dict[str, Any]], out: Path) -> int:
    """Returns the size in bytes. Nothing is overwritten."""
    if out.exists():
        raise InputError("exists already; expected another file", out)
    data = svg(records).encode()
    try:
        out.write_bytes(data)
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror or error}", out) from None
    return len(data)


def svg(records: list[dict[str, Any]]) -> str:
    """The first instance of a trace, a picture for each block that is hidden and for each that is drawn."""
    instance = from_json(records[0]["question"])
    if instance.problem not in GRIDS:
        raise InputError(f"a trace of {instance.problem}; an animation shows {' or '.join(GRIDS)}, the page shows all")
    following = next((at for at, record in enumerate(records[1:], 1) if "question" in record), len(records))
    pictures = list(_pictures(instance, records[1:following]))
    side, total = math.isqrt(instance.size), SECONDS * (len(pictures) - 1 + HOLD)
    style = STYLE.replace("TOTAL", f"{total:g}").replace("SHOWN", f"{100 * SECONDS / total:.3f}")
    style = style.replace("HELD", f"{100 * HOLD * SECONDS / total:.3f}")
    width = CELL * side + 20
    delays = "".join(f".d{number}{{animation-delay:{number * SECONDS:g}s}}" for number in range(len(pictures)))
    frames = [_frame(instance, picture, f"d{n}") for n, picture in enumerate(pictures)]
    frames[-1] = frames[-1].replace('class="f ', 'class="f z ', 1)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {width + 24}" width="{width}" '
        f'height="{width + 24}" role="img"><title>The sampler at work on a puzzle</title><style>{style}{delays}</style>'
        f'<rect class="p" width="100%" height="100%"/>{"".join(frames)}{_lines(side)}{_givens(instance, side)}</svg>\n'
    )


def _pictures(instance: Instance, records: list[dict[str, Any]]) -> Iterator[Picture]:
    values, steps = instance.given_values, [record for record in records if "step" in record]
    if not steps:
        raise InputError("a trace without steps has nothing to show")
    everyone = frozenset(np.flatnonzero(~instance.is_given).tolist())
    yield Picture(values, everyone, frozenset(), "the question")
    for record in steps[:MOST_STEPS]:
        block = frozenset(record["block"]) - frozenset(np.flatnonzero(instance.is_given).tolist())
        if record["step"] > 1:
            yield Picture(values, block, frozenset(), f"step {record['step']}: a block of {len(block)} cells is hidden")
        values = values.copy()
        if "values" in record:
            values[:] = record["values"]
        else:
            values[record["changed"]] = record["to"]
        words = f"step {record['step']}: drawn anew, {record['violations']} violated"
        yield Picture(values, frozenset(), frozenset(record["changed"]), words)
    result = next((record["result"] for record in records if "result" in record), None)
    if result is not None:
        by = result["found_by"] or "nobody"
        yield Picture(np.array(result["values"]), frozenset(), frozenset(), f"{result['status']}, found by {by}")


def _frame(instance: Instance, picture: Picture, delay: str) -> str:
    side, cells = math.isqrt(instance.size), []
    clashes = clashing(instance, picture.values) if not picture.hidden else set()
    for cell in range(instance.size):
        x, y = 10 + CELL * (cell % side), 10 + CELL * (cell // side)
        if cell in picture.hidden:
            cells.append(f'<rect class="h" x="{x}" y="{y}" width="{CELL}" height="{CELL}"/>')
        elif not instance.is_given[cell]:
            mark = ' class="c"' if cell in clashes else ' class="n"' if cell in picture.changed else ""
            text = SYMBOLS[int(picture.values[cell])]
            cells.append(f'<text{mark} x="{x + CELL // 2}" y="{y + CELL // 2}">{text}</text>')
    words = f'<text class="w" x="10" y="{24 + CELL * side}">{picture.words}</text>'
    return f'<g class="f {delay}">{"".join(cells)}{words}</g>'


def _lines(side: int) -> str:
    box, end, parts = math.isqrt(side), 10 + CELL * side, []
    for number in range(side + 1):
        at, kind = 10 + CELL * number, "t" if number % (box if box * box == side else side) == 0 else "l"
        parts.append(f'<path class="{kind}" d="M10 {at}H{end}M{at} 10V{end}"/>')
    return "".join(parts)


def _givens(instance: Instance, side: int) -> str:
    return "".join(
        f'<text class="g" x="{10 + CELL * (cell % side) + CELL // 2}" y="{10 + CELL * (cell // side) + CELL // 2}">'
        f"{SYMBOLS[value]}</text>"
        for cell, value in instance.givens.items()
    )
