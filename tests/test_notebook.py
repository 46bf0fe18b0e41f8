"""The notebook of examples/ runs, and shows what it says."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")

ROOT = Path(__file__).parent.parent
NOTEBOOK = ROOT / "examples" / "graph.ipynb"


def outputs(notebook) -> list[tuple[str, set[str]]]:
    """What each cell of code ends with: text, HTML, a picture."""
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    return [(cell.source, {kind for one in cell.outputs for kind in one.get("data", {})}) for cell in cells]


def test_the_notebook_runs(monkeypatch):
    """With short time limits; the kinds of its outputs are those that are stored."""
    stored = nbformat.read(NOTEBOOK, as_version=4)
    fresh = nbformat.read(NOTEBOOK, as_version=4)
    for cell in fresh.cells:
        cell.source = re.sub(r"time_limit=\d+", "time_limit=0.3", cell.source)
    monkeypatch.setenv("PYTHONPATH", f"{ROOT / 'src'}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    nbclient.NotebookClient(fresh, timeout=600, kernel_name="python3").execute()
    assert [kinds for _, kinds in outputs(fresh)] == [kinds for _, kinds in outputs(stored)]
    assert {"text/html", "image/png"} <= set.union(*(kinds for _, kinds in outputs(stored)))


def test_the_notebook_is_stored_as_it_ran():
    stored = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.validate(stored)
    counts = [cell.execution_count for cell in stored.cells if cell.cell_type == "code"]
    assert counts == list(range(1, len(counts) + 1))
    assert not [one for cell in stored.cells for one in cell.get("outputs", []) if one.output_type == "error"]
