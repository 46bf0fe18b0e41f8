"""The same answer, bit for bit, whatever is solved beside it; another one with another seed or chain."""

from __future__ import annotations

import numpy as np
import pytest

from blogdit.method.blocks import SELECTORS
from blogdit.problems import generate
from helpers import answers, random_model

CASES = {
    "colouring of mixed sizes": ("coloring", {"vertices": "5-70", "colors": 4}, {"steps": 2, "chains": 2}),
    "cuts with real weights": ("maxcut", {"vertices": "20-60", "weights": "normal"}, {"steps": 2, "chains": 2}),
    "independent sets": ("mis", {"weighted": True}, {"steps": 2, "chains": 1}),
}


def test_sudokus_get_the_same_answers_in_any_company(sudoku4, puzzles):
    """Bit for bit at batch sizes 1, 7 and 64, in another order, and in two halves; also the number of steps."""
    puzzles, common = puzzles[:70], {"steps": 8, "seed": 3}
    alone = answers(sudoku4, puzzles, batch_size=1, **common)
    assert len({steps for _, steps, *_ in alone}) > 4, "they are done at different times"
    assert alone == answers(sudoku4, puzzles, batch_size=7, **common)
    assert alone == answers(sudoku4, puzzles, batch_size=64, **common)
    shuffled = np.random.default_rng(0).permutation(len(puzzles)).tolist()
    assert alone == answers(sudoku4, puzzles, shuffled, batch_size=7, **common)
    halves = [answers(sudoku4, part, **common) for part in (puzzles[:37], puzzles[37:])]
    assert alone == halves[0] + halves[1]


@pytest.mark.parametrize("case", CASES)
def test_graphs_get_the_same_answers_in_any_company(case, little_work):
    problem, settings, options = CASES[case]
    graphs = generate(problem, {"mis": 4, "maxcut": 5, "coloring": 12}[problem], seed=2, **settings)
    model = random_model(edge_features=problem == "maxcut")
    alone = answers(model, graphs, batch_size=1, **options)
    assert alone == answers(model, graphs, batch_size=7, **options)
    shuffled = np.random.default_rng(1).permutation(len(graphs)).tolist()
    assert alone == answers(model, graphs, shuffled, batch_size=7, **options)


@pytest.mark.parametrize("block", SELECTORS)
def test_every_selector_gives_the_same_answers_in_any_company(block):
    graphs = generate("maxcut", 9, seed=2, vertices="10-40") + generate("coloring", 9, seed=2, vertices="10-40")
    options = {"block": block, "steps": 6, "chains": 2, "finish": "none"}
    assert answers(random_model(), graphs, batch_size=1, **options) == answers(random_model(), graphs, **options)


def test_large_graphs_get_the_same_answers_in_any_company(little_work):
    """Above 256 variables attention goes over neighbours only."""
    graphs = generate("maxcut", 3, seed=2, vertices=520, p_min=0.004, p_max=0.01)
    model = random_model(relation="neighbours")
    assert answers(model, graphs, batch_size=1, steps=2) == answers(model, graphs, batch_size=3, steps=2)


@pytest.mark.parametrize(("problem", "target"), [("mis", 19.0), ("maxcut", 120.0)])
def test_answers_with_a_target_are_the_same_in_any_company(problem, target, little_work):
    """Also if others are searched longer for it; some do not reach it."""
    graphs = generate(problem, 6, seed=2, **({"vertices": "30-50"} if problem == "maxcut" else {}))
    options = {"steps": 1, "chains": 1, "target": target}
    alone = answers(random_model(), graphs, batch_size=1, **options)
    assert any(objective < target for *_, objective, _ in alone)
    assert any(objective >= target for *_, objective, _ in alone)
    assert alone == answers(random_model(), graphs, **options)


def test_the_seed_decides(sudoku4, puzzles):
    first = answers(sudoku4, puzzles, steps=30, seed=1)
    assert first == answers(sudoku4, puzzles, steps=30, seed=1)
    assert [steps for _, steps, *_ in first] != [steps for _, steps, *_ in answers(sudoku4, puzzles, steps=30, seed=2)]


def test_chains_are_independent_and_the_best_counts():
    """More chains search more: with the same steps, three chains are never worse than their first alone."""
    graphs = generate("maxcut", 10, seed=4, vertices=30)
    one, three = (answers(random_model(), graphs, steps=5, chains=chains, finish="none") for chains in (1, 3))
    assert all(few[3] <= many[3] for few, many in zip(one, three, strict=True))
    assert any(few[3] < many[3] for few, many in zip(one, three, strict=True))
