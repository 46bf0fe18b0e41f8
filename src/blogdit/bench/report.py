"""Puts the tables and figures of suites into a document: `python -m blogdit.bench.report RESULTS docs/results.md`.

RESULTS has a folder for each suite with its records: files *.jsonl or *.jsonl.gz, of one or of several runs. A document
has two lines for each suite, and all that is between them is replaced:

    <!-- begin SUITE -->            the first table and the figure; `blogdit bench` also writes differences and seconds
    <!-- begin SUITE figure -->     the figure alone
    <!-- end SUITE -->

Figures go to a folder `figures` beside the document. Runs under other conditions have a name of their own: SUITE/NAME,
with records in RESULTS/SUITE/NAME.
"""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
from pathlib import Path

from blogdit.bench.records import FIGURE, TABLE, read_records
from blogdit.bench.suites import SUITES
from blogdit.bench.tables import write_report
from blogdit.core.errors import InputError

PART = re.compile(r"^(<!-- begin ([\w-]+(?:/[\w-]+)?)( figure)? -->\n)(?:.*\n)*?(<!-- end \2 -->)$", re.MULTILINE)


def fill(results: Path, document: Path) -> list[str]:
    """Bring the document up to date; returns the names of the parts that were filled."""
    filled: list[str] = []

    def part(match: re.Match[str]) -> str:
        begin, name, figure_only, end = match.groups()
        if not any((results / name).glob("*.jsonl*")):
            return match[0]
        filled.append(name)
        table, figure = _report(name, results / name, document)
        return begin + (figure if figure_only else f"{table}\n{figure}") + end

    text = PART.sub(part, document.read_text())
    document.write_text(text)
    return filled


def _report(name: str, folder: Path, document: Path) -> tuple[str, str]:
    """The table of the records in a folder, and a link to their figure."""
    suite = SUITES.get(name.partition("/")[0])
    if suite is None:
        raise InputError(f"a table of {name!r}; expected one of {', '.join(SUITES)}", document)
    files = [*folder.glob("*.jsonl"), *folder.glob("*.jsonl.gz")]
    records = [record for file in sorted(files) for record in read_records(file)]
    cases = [case.name for case in suite.cases]
    if strange := [record["case"] for record in records if record["case"] not in cases]:
        raise InputError(f"records of a case {strange[0]!r}; expected some of {', '.join(cases)}", folder)
    image = document.parent / "figures" / f"{name.replace('/', '-')}.png"
    image.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as made:
        write_report(suite, records, Path(made), brief=True)
        shutil.copyfile(Path(made) / FIGURE, image)
        table = re.sub(r"\A## .*\n\n", "", (Path(made) / TABLE).read_text())  # the document has its own headings
    return table, f"![{name}](figures/{image.name})\n"


def main(arguments: list[str]) -> int:
    if len(arguments) != 2:
        print("usage: python -m blogdit.bench.report RESULTS DOCUMENT", file=sys.stderr)
        return 2
    results, document = map(Path, arguments)
    try:
        if not results.is_dir():
            raise InputError("no such folder", results)
        if not document.is_file():
            raise InputError("no such file", document)
        print("\n".join(fill(results, document)) or "no records found")
    except InputError as error:
        print(f"blogdit: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
