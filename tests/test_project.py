"""The project itself: what a fresh clone relies on, and the speeds that are promised."""

from __future__ import annotations

import hashlib
import json
import os
import re
import tomllib
from pathlib import Path

import pytest

from blogdit.formats import to_json
from blogdit.problems import generate

ROOT = Path(__file__).parent.parent


def test_ci_runs_make_test():
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    assert "make test" in script.read_text()
    assert (ROOT / "LICENSE").exists()


def test_every_dependency_is_pinned_for_ci():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed = project["dependencies"] + project["optional-dependencies"]["dev"]
    pinned = set(re.findall(r"^([a-z0-9_-]+)==", (ROOT / "constraints.txt").read_text(), re.MULTILINE))
    assert {re.split(r"[<>=\[]", requirement)[0] for requirement in needed} <= pinned
    assert "torch==2.13.0" in (ROOT / "constraints.txt").read_text()


# Digests of instances made once; the same seed must give the same instances on every machine.
PINNED = {
    ("sudoku", ()): "42a768acf151d06f",
    ("sudoku", (("box", 2), ("min_givens", 5), ("max_givens", 7))): "4f4a47e41d4a17cc",
    ("coloring", ()): "5af1f9e522206e1b",
    ("coloring", (("planted", True), ("vertices", "40-60"))): "5a0fddf01adffa52",
    ("maxcut", (("weights", "signs"),)): "30183ed59a2a7880",
    ("maxcut", (("weights", "normal"),)): "639d8a511a65d4c6",
    ("mis", (("weighted", True),)): "b2ef7360979ddaa2",
}


@pytest.mark.parametrize(("problem", "settings"), PINNED)
def test_seeds_mean_the_same_everywhere(problem, settings):
    data = [to_json(instance) for instance in generate(problem, 3, seed=42, **dict(settings))]
    digest = hashlib.sha256(json.dumps(data).encode()).hexdigest()[:16]
    assert digest == PINNED[problem, settings]
