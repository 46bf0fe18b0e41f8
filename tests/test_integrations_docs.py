"""Each example of docs/integrations.md prints what the page shows."""

from __future__ import annotations

import re

import pytest

from installation import ROOT, integrations, project, run_installed
from oldest import is_installed, oldest

SECTION = re.compile(r"^## (\S+)$(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
EXAMPLE = re.compile(r"^```python\n(.*?)^```\n\n```text\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SECTIONS = dict(SECTION.findall((ROOT / "docs" / "integrations.md").read_text()))


@pytest.mark.parametrize("section", SECTIONS)
def test_the_example_prints_what_the_page_shows(section, tmp_path):
    ((code, printed),) = EXAMPLE.findall(SECTIONS[section])
    assert SECTIONS[section].count("```python") == 1
    assert run_installed(tmp_path, "-c", code) == printed
    assert len(code.strip().splitlines()) <= 12, "a short example"


def test_every_integration_has_a_section_and_an_extra():
    assert integrations() <= {section.lower().replace("-", "") for section in SECTIONS}
    assert integrations() <= set(project()["optional-dependencies"])


def test_the_oldest_versions_are_known():
    """`make oldest` tests with exactly these."""
    assert oldest() == {
        "cpmpy": ["cpmpy==1.1", "pycsp3==2.5"], "dimod": ["dimod==0.12.16"], "hub": ["huggingface_hub==1.0"],
        "networkx": ["networkx==3.6"], "ortools": ["ortools==9.12.4544"], "ray": ["ray[data]==2.60"],
    }  # fmt: skip


@pytest.mark.parametrize(("requirement", "same"), [
    ("networkx==3.6", False), ("networkx==3.6.1", True), ("networkx[default]==3.6.1.0", True), ("nothing==1", False),
])  # fmt: skip
def test_a_version_that_is_installed_anyway_is_known(requirement, same):
    assert is_installed(requirement) == same


@pytest.mark.parametrize("package", ["cpmpy", "dimod"])
def test_a_missing_package_is_named_with_its_extra(package, tmp_path):
    code = f"import sys; sys.modules[{package!r}] = None\ntry:\n    import blogdit.integrations.{package}\n"
    code += "except ModuleNotFoundError as error:\n    print(error)"
    expected = f"no module '{package}'; expected pip install 'blogdit[{package}]'\n"
    assert run_installed(tmp_path, "-c", code) == expected
