"""Puts the tables of finished suites into a document: `python -m blogdit.bench.report RESULTS docs/results.md`.

RESULTS has a folder for each suite, as `blogdit bench SUITE --out RESULTS/SUITE` writes it. Between the lines
`<!-- begin SUITE -->` and `<!-- end SUITE -->` of the document everything is replaced by the suite's table, and its
figure is copied to a folder `figures` beside the document.
"""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

from blogdit.bench.records import FIGURE, TABLE


def fill(results: Path, document: Path) -> list[str]:
    """Bring the document up to date; returns the suites that were found."""
    text, filled = document.read_text(), []
    for name in re.findall(r"^<!-- begin ([\w-]+) -->$", text, re.MULTILINE):
        folder = results / name
        if not (folder / TABLE).exists():
            continue
        body = re.sub(r"\A## .*\n\n", "", (folder / TABLE).read_text())  # the document has headings of its own
        if (folder / FIGURE).exists():
            figures = document.parent / "figures"
            figures.mkdir(exist_ok=True)
            shutil.copyfile(folder / FIGURE, figures / f"{name}.png")
            body += f"\n![{name}](figures/{name}.png)\n"
        begin, end = f"<!-- begin {name} -->\n", f"<!-- end {name} -->"
        before, _, rest = text.partition(begin)
        text = before + begin + body + end + rest.partition(end)[2]
        filled.append(name)
    document.write_text(text)
    return filled


if __name__ == "__main__":
    print("\n".join(fill(Path(sys.argv[1]), Path(sys.argv[2]))))
