"""Figures come from records alone; each kind is drawn with what a suite would hand it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from bench_cases import BY_HAND, TINY, record
from blogdit.bench.suites import Case
from blogdit.bench.trajectory import Plane, background
from blogdit.errors import InputError
from blogdit.plots import DRAWERS, draw
from blogdit.problems import generate


def drawn(kind, suite, records):
    """The figure, for a look at what is in it."""
    from matplotlib.figure import Figure

    figure = Figure()
    DRAWERS[kind](figure, suite, records)
    return figure


def test_bars_have_the_means_of_the_table(tmp_path):
    left, right = drawn("bars", TINY, BY_HAND).axes
    assert [bar.get_width() for bar in left.patches] == pytest.approx([22 / 3, 0.0])
    assert [bar.get_width() for bar in right.patches] == pytest.approx([75.0])
    assert [label.get_text() for label in left.get_yticklabels()] == ["first", "second"]
    draw(TINY, BY_HAND, tmp_path / "figure.png")
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")


def test_lines_run_over_the_steps():
    cases = tuple(Case(str(n), "maxcut-50", "objective", seconds=1, steps=n) for n in (10, 100))
    records = [record("10", "first", "a", 3), record("100", "first", "a", 5)]
    (axis,) = drawn("lines", replace(TINY, cases=cases), records).axes
    assert axis.lines[0].get_xydata().tolist() == [[10, 3], [100, 5]]


def test_cost_and_instances_are_drawn():
    (cost,) = drawn("cost", TINY, BY_HAND).axes
    assert sorted(bar.get_height() for bar in cost.patches) == pytest.approx([0.5, 1.0, 1.0])
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
    placed = Plane.fit(cloud).place(cloud)
    assert placed.mean(0) == pytest.approx([0, 0])
    before = np.linalg.norm(cloud[:, None] - cloud[None], axis=-1)
    assert np.linalg.norm(placed[:, None] - placed[None], axis=-1) == pytest.approx(before)


def test_the_cloud_keeps_givens():
    (puzzle,) = generate("sudoku", 1, seed=1)
    solution = np.where(puzzle.is_given, puzzle.given_values, 0)
    cloud = background(puzzle, solution, np.random.default_rng(0))
    assert (cloud[:, puzzle.is_given] == puzzle.given_values[puzzle.is_given]).all()
    assert ((cloud >= 0) & (cloud < 9)).all()
