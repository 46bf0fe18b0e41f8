"""How long a step takes: measured on this machine, not assumed."""

from __future__ import annotations

import itertools
import time

import numpy as np
import pytest
import torch

from blogdit.core.constraints import NotEqual
from blogdit.core.instance import Instance
from blogdit.problems import generate
from blogdit.solver.pace import PAIRS_PER_VARIABLE, Pace, work
from helpers import random_model

CPU = torch.device("cpu")


def test_work_counts_pairs_and_variables_for_each_value():
    assert work(Instance([3, 3, 3], (NotEqual([[0, 1], [1, 2]]),))) == (2 + 3 * PAIRS_PER_VARIABLE) * 3
    assert work(Instance([])) == 0


def test_a_trial_comes_first_and_then_the_steps_that_were_taken():
    pace, (graph,) = Pace(random_model(), CPU), generate("coloring", 1, seed=0, vertices=300)
    first = pace.expected(graph)
    assert first > 0
    assert pace.expected(graph) == first, "one trial is enough"
    pace.learn(10 * work(graph), 2.5)
    assert pace.expected(graph) == pace.expected(graph, work(graph)) == 0.25


def test_a_slower_network_is_seen_to_be_slower(monkeypatch):
    """Every look at the clock of a trial comes a millisecond later, or ten."""
    (graph,) = generate("coloring", 1, seed=0, vertices=300)

    def expected(tick):
        looks = itertools.count()
        monkeypatch.setattr(time, "perf_counter", lambda: next(looks) * tick)
        return Pace(random_model(), CPU).expected(graph)

    assert expected(0.01) == pytest.approx(10 * expected(0.001))


def test_models_that_place_variables_on_a_grid_are_tried_too():
    model = random_model(position_dims=2)
    grid = Instance(np.full(400, 2), positions=np.argwhere(np.ones((20, 20))))
    assert Pace(model, CPU).expected(grid) > 0
    assert Pace(random_model(), CPU).expected(Instance(np.full(20_000, 2))) > 0


def test_a_small_instance_is_its_own_trial():
    (puzzle,) = generate("sudoku", 1, seed=0)
    pace = Pace(random_model(), CPU)
    assert pace.expected(puzzle) == 0
    assert pace.seconds_per_work is None
    pace.learn(work(puzzle), 0.5)
    assert pace.expected(puzzle) == 0.5


def test_so_is_every_instance_of_a_network_of_literals(monkeypatch):
    """A trial on pairs would say nothing about it."""
    monkeypatch.setattr(Pace, "_try", lambda *_: 1 / 0)
    (square,) = generate("latin", 1, seed=0, order=17)
    pace = Pace(random_model(values="literals"), CPU)
    assert pace.expected(square) == 0
    pace.learn(2 * work(square), 0.5)
    assert pace.expected(square) == 0.25
