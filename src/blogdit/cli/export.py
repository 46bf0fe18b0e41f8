"""`blogdit export`"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from blogdit.cli.printing import say


def export(
    trace: Annotated[Path, typer.Argument(metavar="TRACE", help="What blogdit solve --trace has written.")],
    out: Annotated[Path, typer.Argument(metavar="OUT.html", help="The page; or .svg, a short animation.")],
    instances: Annotated[int, typer.Option(min=1, help="How many instances of the trace, from its first on.")] = 1,
) -> None:
    """Make one HTML file that plays a trace: anybody can open it, without blogdit and without a network.

    With a name that ends in .svg it is an animation of a Sudoku or Latin square instead, for a README or a slide.

    \b
    Examples:
      blogdit solve puzzle.txt --finish none --trace t.jsonl
      blogdit export t.jsonl demo.html
      blogdit export t.jsonl demo.svg
    """
    from blogdit.web.animation import write_svg
    from blogdit.web.export import write_html
    from blogdit.web.traces import read_trace

    records = read_trace(trace, instances)
    size = write_svg(records, out) if out.suffix == ".svg" else write_html(records, out, trace.stem)
    say(f"{out}: {size / 1000:.0f} kB")
