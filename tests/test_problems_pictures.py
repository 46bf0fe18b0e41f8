"""Answers as HTML and as figures of matplotlib."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

import blogdit.api  # it hands the pictures to results  # noqa: F401
from blogdit.core.constraints import NotEqual, Sum
from blogdit.core.instance import Instance, Objective
from blogdit.core.result import Result
from blogdit.problems import coloring, generate, pictures, sudoku

FOUR = "1234341221434321"


def parsed(result):
    """The HTML of a result; an error if it is not well-formed."""
    return ElementTree.fromstring(result._repr_html_())


def test_a_puzzle_is_a_grid_with_its_symbols():
    """Value 0 is shown as 1, givens are bold, and what breaks a rule is red."""
    puzzle = sudoku.build("1.34341221434321")
    right = sudoku.parse(FOUR) - 1
    rows = [[cell.text for cell in row] for row in parsed(Result(puzzle, right)).iter("tr")]
    assert rows == [list(FOUR[i : i + 4]) for i in range(0, 16, 4)]
    wrong = right.copy()
    wrong[1] = 0
    cells = list(parsed(Result(puzzle, wrong)).iter("td"))
    assert ["bold" in cell.get("style") for cell in cells].count(False) == 1
    assert "#c00" in cells[1].get("style")
    assert "#c00" not in cells[15].get("style")


def test_a_graph_is_drawn_with_its_colours():
    graph = coloring.build((3, [[0, 1], [1, 2]]), 2, name="<path>")
    picture = parsed(Result(graph, [0, 1, 1]))
    svg = "{http://www.w3.org/2000/svg}"
    fills = [circle.get("fill") for circle in picture.iter(f"{svg}circle")]
    assert (fills[0] != fills[1], fills[1] == fills[2]) == (True, True)
    assert [line.get("stroke") == "#c00" for line in picture.iter(f"{svg}line")] == [False, True]
    assert "<path>" in "".join(picture.itertext()), "names are escaped"
    assert "1 constraint violated" in "".join(picture.itertext())


def test_other_answers_are_text():
    result = Result(Instance([3, 3], (Sum([[0, 1]], low=[2]),), labels=["a", "b"]), [1, 2])
    assert "a = 1\nb = 2" in "".join(parsed(result).itertext())


def test_tables_of_names():
    problem = Instance([2] * 4, labels=[(n, d) for n in ("Ann", "Ben") for d in ("Mon", "Tue")], values=["off", "on"])
    rows = [[cell.text or "" for cell in row] for row in parsed(Result(problem, [0, 1, 1, 0])).iter("tr")]
    assert rows == [["", "Mon", "Tue"], ["Ann", "off", "on"], ["Ben", "on", "off"]]


def test_places_of_a_graph():
    """Within the square, the same every time, no two vertices at one place; neighbours are nearer than others."""
    edges = np.array([[i, i + 1] for i in range(19)] + [[0, 19]])
    values = np.zeros(20, np.int64)
    places = pictures.layout(20, edges, values)
    assert (places >= 0).all()
    assert (places <= 1).all()
    assert np.array_equal(places, pictures.layout(20, edges, values))
    apart = np.linalg.norm(places[:, None] - places[None], axis=2)
    joined = apart[edges[:, 0], edges[:, 1]]
    assert joined.min() > 0
    assert joined.max() < np.median(apart[np.triu_indices(20, 1)])


def test_large_graphs_stay_text_or_a_circle():
    (cut,) = generate("maxcut", 1, seed=1, vertices=3000, p_min=0.0005, p_max=0.001)
    assert pictures.draw_graph(cut, np.zeros(3000, np.int64)) is None
    assert "svg" not in pictures.html_of(Result(cut, np.zeros(3000, np.int64)))
    (middle,) = generate("maxcut", 1, seed=1, vertices=500, p_min=0.01, p_max=0.02)
    values = np.arange(500) % 2
    places = pictures.draw_graph(middle, values).places
    radius = np.linalg.norm(places - 0.5, axis=1)
    assert np.allclose(radius, 0.5, atol=0.01)


@pytest.mark.parametrize("problem", ["sudoku", "latin", "coloring", "mis", "maxcut", "qubo"])
def test_every_family_can_be_drawn(problem):
    figure = pytest.importorskip("matplotlib.figure").Figure()
    (instance,) = generate(problem, 1, seed=1)
    axes = figure.subplots()
    result = Result(instance, instance.given_values)
    assert result.plot(axes) is axes
    assert result.status in axes.get_title()
    assert re.fullmatch(r"<div>.*</div>", result._repr_html_(), re.DOTALL)


def test_numbers_without_a_picture_are_plotted_as_they_are():
    figure = pytest.importorskip("matplotlib.figure").Figure()
    instance = Instance([3, 3], (Sum([[0, 1]], low=[2]),), values=[5, 7, 9])
    axes = Result(instance, [1, 2]).plot(figure.subplots())
    assert axes.lines[0].get_ydata().tolist() == [7, 9]


def test_a_soft_problem_on_pairs_is_no_graph_of_constraints():
    goal = Objective("minimize", soft=[(NotEqual([[0, 1]]), 1)])
    assert pictures.draw_graph(Instance([2, 2], (), goal), np.zeros(2, np.int64)) is None
