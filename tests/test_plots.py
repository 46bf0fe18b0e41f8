"""Figures come from records alone; each kind is drawn with what a suite would hand it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from bench_cases import BY_HAND, TINY, record
from blogdit.bench.measures import Records
from blogdit.bench.plots import DRAWERS, draw
from blogdit.bench.suites import Case
from blogdit.bench.trajectory import background, plane_of
from blogdit.core.errors import InputError
from blogdit.problems import generate


def drawn(kind, suite, records):
    """The figure, for a look at what is in it."""
    from matplotlib.figure import Figure

    figure = Figure()
    DRAWERS[kind](figure, suite, Records(records))
    return figure


def points(axis):
    """(value, row) of each point of a panel."""
    return [tuple(container.lines[0].get_xydata()[0]) for container in axis.containers]


def test_points_are_the_means_of_the_table_in_the_order_of_the_suite(tmp_path):
    left, right = drawn("points", TINY, [*BY_HAND[3:], *BY_HAND[:3]]).axes
    assert [round(row) for _, row in points(left)] == [0, 1]
    assert [value for value, _ in points(left)] == pytest.approx([22 / 3, 0.0])
    assert [value for value, _ in points(right)] == pytest.approx([75.0])
    assert left.get_ylim() == right.get_ylim(), "a row is the same system in every panel"
    assert [label.get_text() for label in left.get_yticklabels()] == ["first", "second"]
    draw(TINY, BY_HAND, tmp_path / "figure.png")
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")


def test_what_was_there_before_the_search_is_a_point_beside_it():
    records = [{**record("gaps", "first", "a", 20), "raw_objective": 15}]
    after, raw = points(drawn("points", TINY, records).axes[0])
    assert (after[0], raw[0]) == (0, 5)
    assert round(after[1]) == round(raw[1]) == 0


def test_lines_run_over_the_steps():
    cases = tuple(Case(str(n), "maxcut-50", "objective", seconds=1, steps=n) for n in (10, 100))
    records = [record("10", "first", "a", 3), record("100", "first", "a", 5)]
    (axis,) = drawn("lines", replace(TINY, cases=cases), records).axes
    assert axis.lines[0].get_xydata().tolist() == [[10, 3], [100, 5]]


def test_cost_and_instances_are_drawn():
    seconds, rates = drawn("cost", TINY, BY_HAND).axes
    assert sorted(bar.get_height() for bar in seconds.patches) == pytest.approx([0.5, 1.0, 1.0])
    assert [bar.get_height() for bar in rates.patches] == pytest.approx([10.0, 10.0])
    assert [text.get_text() for text in seconds.get_legend().get_texts()] == ["first", "second"]
    (graphs,) = drawn("instances", TINY, BY_HAND[:2]).axes
    assert [label.get_text() for label in graphs.get_xticklabels()] == ["a", "b"]


def test_matplotlib_is_asked_for_by_name(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "matplotlib.figure", None)
    with pytest.raises(InputError, match=r"figures need matplotlib; expected pip install 'blogdit\[bench\]'"):
        draw(TINY, BY_HAND, tmp_path / "figure.png")


def test_the_plane_of_a_flat_cloud_keeps_distances():
    """Points in a plane of five dimensions have the same distances in the picture."""
    rng = np.random.default_rng(0)
    cloud = rng.normal(size=(30, 2)) @ rng.normal(size=(2, 5)) + 3.0
    placed = plane_of(cloud)(cloud)
    assert placed.mean(0) == pytest.approx([0, 0])
    before = np.linalg.norm(cloud[:, None] - cloud[None], axis=-1)
    assert np.linalg.norm(placed[:, None] - placed[None], axis=-1) == pytest.approx(before)


def test_the_cloud_keeps_givens():
    (puzzle,) = generate("sudoku", 1, seed=1)
    solution = np.where(puzzle.is_given, puzzle.given_values, 0)
    cloud = background(puzzle, solution, np.random.default_rng(0))
    assert (cloud[:, puzzle.is_given] == puzzle.given_values[puzzle.is_given]).all()
    assert ((cloud >= 0) & (cloud < 9)).all()
