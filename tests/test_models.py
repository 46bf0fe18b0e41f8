"""The bundled models on small fixed samples: a model that got clearly worse fails here.

Each bound is what the model reached when it was bundled, less what chance may cost it. `bench quick` scores more,
beside the other systems.
"""

from __future__ import annotations

import pytest

import blogdit
from blogdit.api import bundled_models
from blogdit.problems import generate

# problem, number of instances, settings of the generator, steps; how many must be solved, or the least sum of values
CASES = {
    "easy puzzles": ("sudoku", 12, {"min_givens": 31, "max_givens": 42}, 20, 12),
    "hard puzzles": ("sudoku", 12, {"min_givens": 24, "max_givens": 30}, 60, 7),
    "five colours": ("coloring", 12, {"vertices": 50, "colors": 5, "p_min": 0.11, "p_max": 0.18}, 40, 11),
    "twelve colours": ("coloring", 6, {"vertices": 60, "colors": 12, "p_min": 0.4, "p_max": 0.55}, 40, 5),
    "cuts": ("maxcut", 4, {"vertices": 100, "p_min": 0.1, "p_max": 0.1}, 40, 1410),  # tabu search 1425, greedy 1327
    "signed cuts": (
        "maxcut",
        4,
        {"vertices": 100, "p_min": 0.1, "p_max": 0.1, "weights": "signs"},
        40,
        453,
    ),  # 468, 412
    "independent sets": ("mis", 4, {}, 40, 66),  # 75, 67
}


@pytest.mark.parametrize("name", CASES)
def test_a_model_is_as_good_as_it_was(name):
    problem, count, settings, steps, bound = CASES[name]
    results = blogdit.solve(
        generate(problem, count, seed=77, **settings), device="cpu", steps=steps, finish="none"
    )  # as the model leaves it
    if results[0].instance.objective is None:
        assert sum(result.verdict.satisfied for result in results) >= bound
    else:
        assert all(result.verdict.satisfied for result in results)
        assert sum(result.objective for result in results) >= bound


def test_every_problem_has_a_model_with_a_card():
    found = bundled_models()
    assert set(found) >= {"sudoku", "coloring", "maxcut", "mis"}
    for path in found.values():
        card = path.with_suffix(".md").read_text()
        assert all(f"## {part}" in card for part in ("Training", "Scores", "Known failures"))
        assert path.stat().st_size < 10_000_000
