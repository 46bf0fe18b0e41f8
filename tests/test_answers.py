"""How answers look to people."""

from __future__ import annotations

import numpy as np

import blogdit
from blogdit.core.constraints import Linear, NotEqual
from blogdit.core.instance import Instance
from blogdit.problems import generate, sudoku
from blogdit.problems.answers import render


def test_labels_of_two_parts_are_a_table_and_the_rest_are_lines():
    roster = blogdit.Problem("roster")
    for nurse in ("Ann", "Ben"):
        for day in ("Mon", "Tue", "Wed"):
            roster.variable((nurse, day), ["off", "early", "late"])
    roster.variable("total", [5, 10])
    assert render(roster.instance(), np.array([0, 1, 2, 1, 1, 0, 1])).splitlines() == [
        "     Mon    Tue    Wed",
        "Ann  off    early  late",
        "Ben  early  early  off",
        "total = 10",
    ]


def test_a_table_may_have_holes():
    labels = [("r1", "c1"), ("r2", "c2"), ("r1", "c2")]
    assert render(Instance([2, 2, 2], labels=labels, values=["no", "yes"]), np.array([1, 0, 0])).splitlines() == [
        "    c1   c2",
        "r1  yes  no",
        "r2       no",
    ]


def test_positions_are_a_grid():
    positions = [[1, 0], [0, 0], [0, 1], [1, 1]]
    assert render(Instance([10] * 4, positions=positions), np.array([3, 1, 2, 4])) == "1  2\n3  4"
    names = Instance([2] * 4, positions=positions, labels="abcd", values=[".", "Q"])
    assert render(names, np.array([0, 1, 0, 1])) == "Q  .\n.  Q"


def test_positions_that_are_no_grid_are_not_shown_as_one():
    for positions in ([[0, 0], [0, 0]], [[0, 0], [90, 90]], [[0], [1]], [[0, 0, 0], [0, 0, 1]]):
        assert render(Instance([2, 2], positions=positions, labels="ab"), np.array([0, 1])) == "a = 0\nb = 1"


def test_names_or_numbers():
    assert render(Instance([3, 3]), np.array([2, 0])) == "[2, 0]"
    assert render(Instance([3, 3], values=[5, 6, 7]), np.array([2, 0])) == "[7, 5]"
    assert render(Instance([3, 3], labels=["x", ("a", 1, 2)]), np.array([2, 0])) == "x = 2\na 1 2 = 0"
    assert render(Instance([]), np.zeros(0, np.int64)) == "[]"


def test_families_show_their_own():
    (puzzle,) = generate("sudoku", 1, seed=0, box=2, min_givens=6, max_givens=6)
    assert render(puzzle, puzzle.given_values) == sudoku.render(puzzle, puzzle.given_values)


def test_violations_name_labels_of_several_parts():
    instance = Instance([2, 2], (NotEqual([[0, 1]]),), labels=[("Ann", "Mon"), "b"])
    (violation,) = instance.verify([1, 1]).violations()
    assert violation.describe(instance.labels) == "not_equal(Ann Mon, b) violated by 1"


def test_soft_constraints_that_are_violated_can_be_listed():
    soft = [(Linear([[0], [1]], [[1], [1]], ["<=", "<="], [0, 0]), 2.0)]
    instance = Instance([3, 3], (), blogdit.Objective("minimize", soft=soft), labels="ab")
    verdict = instance.verify([0, 2])
    assert (verdict.violated, verdict.unmet, verdict.objective) == (0, 1, 2.0)
    assert [v.describe(instance.labels) for v in verdict.unmet_soft()] == ["linear(b) violated by 2"]
