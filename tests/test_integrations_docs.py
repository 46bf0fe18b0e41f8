"""Each example of docs/integrations.md prints what the page shows."""

from __future__ import annotations

import re

import pytest

from installation import ROOT, run_installed

SECTION = re.compile(r"^## (\S+)$(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
EXAMPLE = re.compile(r"^```python\n(.*?)^```\n\n```text\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SECTIONS = dict(SECTION.findall((ROOT / "docs" / "integrations.md").read_text()))


@pytest.mark.parametrize("section", SECTIONS)
def test_the_example_prints_what_the_page_shows(section, tmp_path):
    ((code, printed),) = EXAMPLE.findall(SECTIONS[section])
    assert SECTIONS[section].count("```python") == 1
    assert run_installed(tmp_path, "-c", code) == printed
    assert len(code.strip().splitlines()) <= 12


def test_every_extra_has_a_section():
    assert set(map(str.lower, SECTIONS)) >= {"networkx"}
