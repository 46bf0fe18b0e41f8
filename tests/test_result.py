"""Results carry the verdict of the exact check and nothing else decides their status."""

from __future__ import annotations

import json

import numpy as np
import pytest

from blogdit.core.instance import Instance, Objective
from blogdit.core.result import Result, Sampled
from blogdit.formats import record
from blogdit.problems import coloring, maxcut, sudoku

TRIANGLE = (3, [[0, 1], [1, 2], [0, 2]])
SOLUTION = "1234341221434321"


@pytest.mark.parametrize(("values", "status", "violated"), [([0, 1, 2], "solved", 0), ([0, 1, 0], "unknown", 1)])
def test_status_without_objective(values, status, violated):
    result = Result(coloring.build(TRIANGLE, 3), values)
    assert (result.status, result.verdict.violated, result.objective) == (status, violated, None)


def test_status_with_objective():
    result = Result(
        maxcut.build(TRIANGLE),
        [0, 1, 0],
        steps=7,
        seconds=0.5,
        seed=3,
        model="m",
        found_by="swaps",
        sampler=Sampled(1.0, 0),
    )
    assert (result.status, result.objective) == ("feasible", 2)
    assert result.record() == {
        "instance": "",
        "problem": "maxcut",
        "status": "feasible",
        "objective": 2,
        "violations": 0,
        "values": [0, 1, 0],
        "found_by": "swaps",
        "proved_by": None,
        "sampler": {"objective": 1, "violations": 0},
        "steps": 7,
        "seconds": 0.5,
        "seed": 3,
        "model": "m",
    }


def test_a_proof_decides_between_unknown_and_infeasible_and_between_feasible_and_optimal():
    pair, cut = coloring.build((2, [[0, 1]]), 1), maxcut.build(TRIANGLE)
    assert Result(pair, [0, 0]).status == "unknown"
    assert Result(pair, [0, 0], proof="infeasible", proved_by="exact").status == "infeasible"
    proved = Result(cut, [0, 1, 0], proof="optimal", proved_by="exact")
    assert (proved.status, proved.record()["proved_by"]) == ("optimal", "exact")


def test_a_claim_that_the_exact_check_contradicts_is_dropped():
    answer = Result(coloring.build((2, [[0, 1]]), 2), [0, 1], proof="infeasible", proved_by="exact")
    assert (answer.status, answer.proof, answer.proved_by) == ("solved", None, None)
    broken = Result(coloring.build((2, [[0, 1]]), 2), [1, 1], proof="optimal", proved_by="exact")
    assert (broken.status, broken.proved_by) == ("unknown", None)


def test_an_assignment_outside_the_domains_is_no_answer():
    instance = Instance(np.array([2]), objective=Objective("maximize", [[0, 1]], [1]))
    assert Result(instance, [5]).status == "unknown"


def test_values_are_read_only_and_copied():
    values = np.array([0, 1, 2])
    result = Result(coloring.build(TRIANGLE, 3), values)
    values[0] = 1
    assert result.values.tolist() == [0, 1, 2]
    with pytest.raises(ValueError, match="read-only"):
        result.values[0] = 1


def test_record_of_a_sudoku_is_its_digits():
    puzzle = sudoku.build("1..." + "." * 12, name="p")
    result = Result(puzzle, sudoku.parse(SOLUTION) - 1)
    assert record(result)["values"] == SOLUTION
    assert result.status == "solved"
    assert json.loads(json.dumps(record(result))) == record(result)
    assert record(Result(puzzle, [-1] * 16))["values"] == [-1] * 16, "what has no digit is written as numbers"
