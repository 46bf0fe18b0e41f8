"""Results as a list and as a table."""

from __future__ import annotations

import copy
import pickle
import sys
import xml.etree.ElementTree as ElementTree

import pytest

import blogdit
from blogdit.core.instance import Instance
from blogdit.core.result import Result, Sampled
from blogdit.formats.results import COLUMNS, Results
from blogdit.problems import coloring, generate, maxcut


@pytest.fixture
def results():
    graph = coloring.build((2, [[0, 1]]), 2, name="edge")
    cut = maxcut.build((2, [[0, 1]], [2.5]), name="cut")
    return Results(
        [
            Result(graph, [0, 1], found_by="sampler", steps=3, seconds=0.5, seed=7, model="coloring"),
            Result(cut, [0, 0], found_by="exact", sampler=Sampled(None, 1)),
        ]
    )


def test_a_list_in_every_respect(results):
    plain = list(results)
    assert isinstance(results, list)
    assert results == plain
    assert [*results] == plain
    first, second = results
    assert (first, second) == (results[0], results[-1])
    assert isinstance(results[:1], Results)
    assert results[1:] == plain[1:]
    assert results + plain == plain + plain
    assert len(pickle.loads(pickle.dumps(results))) == len(copy.copy(results)) == 2
    assert isinstance(copy.copy(results), Results)
    results.append(first)
    assert len(results) == 3


def test_a_table_of_facts(results):
    pytest.importorskip("pandas")
    table = results.to_pandas()
    assert tuple(table.columns) == COLUMNS
    assert table["instance"].tolist() == ["edge", "cut"]
    assert table["status"].tolist() == ["solved", "feasible"]
    assert table["objective"].tolist()[1] == 0
    assert table["sampler_violations"].tolist() == [0, 1]
    assert table["values"].tolist() == [[0, 1], [0, 0]]
    assert Results().to_pandas().empty


def test_a_table_of_answers():
    pytest.importorskip("pandas")
    roster = Instance([2, 2], name="week", labels=[("Ann", "Mon"), ("Ann", "Tue")], values=["off", "on"])
    table = Results([Result(roster, [1, 0])]).to_pandas(answers=True)
    assert table.values.tolist() == [["week", "Ann Mon", "on"], ["week", "Ann Tue", "off"]]


def test_notebooks_show_few_in_full_and_many_as_a_table(results):
    assert results._repr_html_().count("<svg") == 2
    many = Results([*results] * 3)
    rows = list(ElementTree.fromstring(many._repr_html_()).iter("tr"))
    assert [cell.text for cell in rows[0]][:3] == ["instance", "status", "objective"]
    assert len(rows) == 7


def test_what_solve_and_sample_return(any_model):
    puzzles = generate("coloring", 2, vertices=6)
    found = blogdit.solve(puzzles, model=any_model, steps=2, device="cpu", finish="none")
    assert isinstance(found, Results)
    assert isinstance(blogdit.sample(puzzles[0], 2, steps=1, model=any_model, device="cpu"), Results)


def test_a_missing_package_is_named_with_its_extra(results, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ModuleNotFoundError, match=r"no module 'pandas'; expected pip install 'blogdit\[pandas\]'"):
        results.to_pandas()
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ModuleNotFoundError, match=r"no module 'matplotlib'; expected pip install 'blogdit\[plot\]'"):
        results[0].plot()
