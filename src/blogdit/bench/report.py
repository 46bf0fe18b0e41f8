"""Puts the tables of suites into a document: `python -m blogdit.bench.report RESULTS docs/results.md`.

RESULTS has a folder for each suite, as `blogdit bench SUITE --out RESULTS/SUITE` writes it; or with records alone, in
any number of files *.jsonl and *.jsonl.gz, of runs at different times. Between the lines `<!-- begin SUITE -->` and
`<!-- end SUITE -->` of the document everything is replaced by the suite's table, made from the records, and its figure
is copied to a folder `figures` beside the document. Runs under other conditions have a table of their own: SUITE/NAME,
from the folder RESULTS/SUITE/NAME.
"""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from blogdit.bench.records import FIGURE, TABLE, Record, read_records
from blogdit.bench.suites import SUITES, Suite
from blogdit.bench.tables import write_report
from blogdit.core.errors import InputError


def fill(results: Path, document: Path) -> list[str]:
    """Bring the document up to date; returns the tables that were filled."""
    text, filled = document.read_text(), []
    for name in re.findall(r"^<!-- begin ([\w-]+(?:/[\w-]+)?) -->$", text, re.MULTILINE):
        files = sorted([*(results / name).glob("*.jsonl"), *(results / name).glob("*.jsonl.gz")])
        if not files:
            continue
        suite = name.partition("/")[0]
        if suite not in SUITES:
            raise InputError(f"a table of {suite!r}; expected one of {', '.join(SUITES)}", document)
        records = [record for file in files for record in read_records(file)]
        cases = [case.name for case in SUITES[suite].cases]
        if strange := [record["case"] for record in records if record["case"] not in cases]:
            raise InputError(f"records of a case {strange[0]!r}; expected some of {', '.join(cases)}", results / name)
        with tempfile.TemporaryDirectory() as folder:
            _report(SUITES[suite], records, Path(folder))
            body = re.sub(r"\A## .*\n\n", "", (Path(folder) / TABLE).read_text())  # the document has its own headings
            if (Path(folder) / FIGURE).exists():
                figures, image = document.parent / "figures", f"{name.replace('/', '-')}.png"
                figures.mkdir(exist_ok=True)
                shutil.copyfile(Path(folder) / FIGURE, figures / image)
                body += f"\n![{name}](figures/{image})\n"
        begin, end = f"<!-- begin {name} -->\n", f"<!-- end {name} -->"
        before, _, rest = text.partition(begin)
        text = before + begin + body + end + rest.partition(end)[2]
        filled.append(name)
    document.write_text(text)
    return filled


def _report(suite: Suite, records: list[Record], folder: Path) -> None:
    """The cases that the records have, in the suite's order."""
    there = {record["case"] for record in records}
    write_report(replace(suite, cases=tuple(case for case in suite.cases if case.name in there)), records, folder)


def main(arguments: list[str]) -> int:
    if len(arguments) != 2:
        print("usage: python -m blogdit.bench.report RESULTS DOCUMENT", file=sys.stderr)
        return 2
    results, document = map(Path, arguments)
    for path, kind, there in ((results, "folder", results.is_dir()), (document, "file", document.is_file())):
        if not there:
            print(f"blogdit: {path}: no such {kind}", file=sys.stderr)
            return 2
    try:
        print("\n".join(fill(results, document)) or "no records found")
    except InputError as error:
        print(f"blogdit: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
