"""What the documents show is what happens."""

from __future__ import annotations

import itertools
import json
import re
import runpy
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from blogdit import formats
from blogdit.bench import runner
from blogdit.bench.suites import SUITES
from blogdit.bench.systems import Budget, system
from blogdit.bench.variants import make
from blogdit.cli.app import run

ROOT = Path(__file__).parent.parent


def blocks(path: str, language: str = "") -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", (ROOT / path).read_text(), re.MULTILINE | re.DOTALL)


def test_readme_opens_with_the_two_commands():
    lines = [line.strip() for line in (ROOT / "README.md").read_text().splitlines() if line.strip()]
    assert [line.split("  ")[0] for line in lines[1:3]] == ["make demo", "make test"]


def masked(text: str) -> str:
    """Without what depends on the speed and the rounding of a machine: times, steps, whether the sampler or a finisher
    was first, whether there was time for a proof, and which of many good colourings or cuts it was."""
    text = re.sub(r'"steps": \d+, "seconds": [0-9.e-]+', '"steps": N, "seconds": S', text)
    text = re.sub(r'"found_by": "[a-z]+"', '"found_by": F', text)
    text = re.sub(r'"sampler": (null|\{[^}]*\})', '"sampler": A', text)
    text = re.sub(r"\(found by [^)]*\)", "(found by ...)", text)
    text = re.sub(r"(feasible|optimal), objective", "feasible or optimal, objective", text)
    text = re.sub(r"^(\S+: step) \d+, .*\n(\1 \d+, .*\n)*", r"\1 ...\n", text, flags=re.MULTILINE)
    return re.sub(r"^(colour|side) \d+: .*\n(\1 \d+: .*\n)*", r"\1 ...\n", text, flags=re.MULTILINE)


def test_readme_shows_what_the_demo_prints(tmp_path):
    program = tmp_path / "blogdit"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m blogdit "$@"\n')
    program.chmod(0o755)
    done = subprocess.run(["bash", ROOT / "examples" / "demo.sh", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert masked(done.stdout) in [masked(block) for block in blocks("README.md")]
    assert "problem" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.fixture
def examples(tmp_path, monkeypatch):
    """In a copy of the folder of examples."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path / "examples")


def test_what_the_page_on_solving_shows(examples, capfd):
    for block in blocks("docs/solving.md", "console"):
        shown = []
        for line in re.findall(r"^\$ (.*)$", block, re.MULTILINE):
            if line.startswith("blogdit "):
                code = run(shlex.split(line)[1:])
            else:
                code = subprocess.run(["bash", "-c", line]).returncode
            out, err = capfd.readouterr()
            reports = [text for text in err.splitlines(keepends=True) if text.startswith("blogdit: ")]
            shown += [f"$ {line}\n", *reports, out, f"(exit code {code})\n" if code else ""]
        assert masked("".join(shown)) == masked(block)


def test_what_the_page_on_the_python_api_shows(examples, capsys):
    """Each block of Python, run after those before it, prints the block of text that follows."""
    text = (ROOT / "docs/python-api.md").read_text()
    pairs = re.findall(r"^```python\n(.*?)^```\n\n```text\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert len(pairs) == text.count("```python")
    names: dict[str, object] = {}
    for code, printed in pairs:
        exec(code, names)
        assert capsys.readouterr().out == printed


def test_the_commands_of_the_results_are_known_and_do_not_share_folders(tmp_path, monkeypatch, capsys):
    """But for those of one suite and budget, which go on with each other's records."""
    folders: dict[Path, dict] = {}

    def see(planned, file):
        assert planned.cases
        assert all(make(one.system, planned.models, one.options) for one in planned.entrants)
        settings = runner._settings(planned.suite, planned.options, planned.models)
        assert folders.setdefault(file.folder, settings) == settings

    monkeypatch.chdir(tmp_path)
    (tmp_path / "DIR").mkdir()
    monkeypatch.setattr(runner, "_go_on", see)
    monkeypatch.setattr(runner, "resolve_device", str)  # without a GPU, too
    pattern = r"^    (?:taskset -c 0 )?blogdit (bench .*)$"
    commands = re.findall(pattern, (ROOT / "docs" / "results.md").read_text(), re.MULTILINE)
    for command in commands:
        assert run(shlex.split(command, comments=True)) == 0, command
    assert len(commands) >= len(folders) > len(SUITES)


def test_readme_python_runs():
    for block in blocks("README.md", "python"):
        done = subprocess.run([sys.executable, "-c", block], cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert done.stdout.splitlines() == ["['solved', 'solved', 'solved']", "True 0 None"]


def test_the_json_of_the_documentation_is_valid():
    (example,) = blocks("docs/formats.md", "json")
    instance = formats.from_json(json.loads(example))
    assert formats.to_json(instance) == json.loads(example)


def test_the_timetable_has_the_best_value_that_there_is(capsys):
    names = runpy.run_path(str(ROOT / "examples/timetable.py"))
    result = names["result"]
    best = system("cp-sat").solve(result.instance, Budget(seconds=30.0))
    assert (result.status, result.proved_by) == ("optimal", "exact")
    assert result.objective == best.objective
    assert f"wishes worth {best.objective:g}" in capsys.readouterr().out


def test_the_roster_keeps_its_rules(capsys):
    """In 25 lines of code; checked here without the package's own words for it."""
    path = ROOT / "examples/roster.py"
    names = runpy.run_path(str(path))
    code = [line for line in path.read_text().split('"""')[2].splitlines() if line.strip()]
    assert len(code) <= 25
    result, days = names["result"], names["DAYS"]
    assert (result.status, result.proved_by) == ("optimal", "exact")
    week = {nurse: [result.answer[nurse, day] for day in days] for nurse in names["NURSES"]}
    for number in range(7):
        shifts = [row[number] for row in week.values()]
        assert (shifts.count("early"), shifts.count("late"), shifts.count("night")) == (2, 1, 1)
    nights = [row.count("night") for row in week.values()]
    late = sum(pair == ("night", "late") for row in week.values() for pair in itertools.pairwise(row))
    assert not any(pair == ("night", "early") for row in week.values() for pair in itertools.pairwise(row))
    assert all(2 <= row.count("off") <= 3 for row in week.values())
    wishes = late + 3 * (week["Ann"][5] != "off") + 5 * (week["Eve"][2] == "night")
    assert result.objective == 2 * max(nights) + wishes == 4
    assert "      Mon" in capsys.readouterr().out


def test_the_sums_of_the_formats_page_mean_what_it_says():
    """Each entry of its table, on all values of three variables."""
    text = (ROOT / "docs/formats.md").read_text()
    entries = [json.loads(entry) for entry in re.findall(r"\| `(\{\"kind\": \"sum\".*?\})` \|", text)]
    means = [
        lambda x: x[0] == 2 or x[1] == 0,
        lambda x: x[0] == 2 or x[1] != 0,
        lambda x: x[2] != 1 or 3 * x[0] + x[1] <= 4,
        lambda x: (x[2] == 1) == ((x[0] == 0) + (x[1] == 0) == 1),
    ]
    for entry, holds in zip(entries, means, strict=True):
        data = {"format": "blogdit-csp", "version": 1, "domain_sizes": [3, 3, 2], "constraints": [entry]}
        instance = formats.from_json(data)
        for x in itertools.product(range(3), range(3), range(2)):
            assert instance.verify(x).satisfied == holds(x)
