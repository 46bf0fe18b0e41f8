"""What the documents show is what happens."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

from blogdit import formats

ROOT = Path(__file__).parent.parent


def blocks(path: str, language: str = "") -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", (ROOT / path).read_text(), re.MULTILINE | re.DOTALL)


def test_readme_opens_with_the_two_commands():
    lines = [line.strip() for line in (ROOT / "README.md").read_text().splitlines() if line.strip()]
    assert [line.split("  ")[0] for line in lines[1:3]] == ["make demo", "make test"]


def test_readme_shows_what_the_demo_prints(tmp_path):
    program = tmp_path / "blogdit"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m blogdit "$@"\n')
    program.chmod(0o755)
    done = subprocess.run(["bash", ROOT / "examples" / "demo.sh", program], capture_output=True, text=True, check=True)
    assert done.stdout in blocks("README.md")
    assert done.stderr == ""


def test_readme_python_runs():
    for block in blocks("README.md", "python"):
        done = subprocess.run([sys.executable, "-c", block], cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert done.stdout.splitlines() == ["True 0 None", "all_different(0, 1, 2) violated by 1"]


def test_the_json_of_the_documentation_is_valid():
    (example,) = blocks("docs/formats.md", "json")
    instance = formats.from_json(json.loads(example))
    assert formats.to_json(instance) == json.loads(example)
