"""Time limits where a step, or only what comes before it, would take longer than the limit. By CPU seconds: the machine
may be busy."""

from __future__ import annotations

import time

import numpy as np
import pytest

import blogdit
from blogdit.core.constraints import Conflict
from blogdit.core.instance import Instance, Objective
from blogdit.finishers.tasks import without_losers
from blogdit.problems import mis
from blogdit.solver import pace, session
from blogdit.solver.options import SolveOptions
from blogdit.solver.solver import Solver
from helpers import random_model


def complete(n: int) -> np.ndarray:
    return np.argwhere(np.triu(np.ones((n, n), np.bool_), 1))


@pytest.mark.filterwarnings("ignore:.*not sampled")
def test_a_complete_graph_has_an_answer_in_time():
    """Any single vertex is one. A step on it would take minutes on a CPU."""
    instance = mis.build((2000, complete(2000)))
    began = time.process_time()
    (result,) = blogdit.solve(instance, time_limit=2)
    assert time.process_time() - began < 20
    assert result.status in ("feasible", "optimal")
    assert result.objective == 1


def test_what_is_not_sampled_is_not_laid_out(monkeypatch):
    """It enters alone, as variables without rules, and says so once; the others are sampled together."""
    monkeypatch.setattr(pace, "UNTRIED", {"axis": 0})
    notes: list[str] = []
    large, small = (mis.build((n, complete(n)), name=f"K{n}") for n in (40, 39))
    solver = Solver(random_model(), SolveOptions(time_limit=5.0), session=session.Session(on_note=notes.append))
    monkeypatch.setattr(solver.pace, "expected", lambda one, *rest: 1e9 if one is large else 1e-9)
    results = dict(solver.results([large, small, small, large]))
    assert [results[i].objective for i in range(4)] == [1, 1, 1, 1]
    assert [results[i].steps > 0 for i in range(4)] == [False, True, True, False]
    assert notes == ["K40: one step takes too long for its time limit here; not sampled"] * 2


def test_without_a_finisher_a_step_that_does_not_fit_is_not_begun_either(monkeypatch):
    solver = Solver(random_model(), SolveOptions(time_limit=0.5, finish="none"), session=session.Session(on_note=print))
    monkeypatch.setattr(solver.pace, "expected", lambda *facts: 1e9)
    began = time.process_time()
    ((_, result),) = solver.results([mis.build((300, complete(300)))])
    assert (result.steps, result.sampler) == (0, None)
    assert time.process_time() - began < 5


def test_of_two_that_conflict_the_later_gives_way():
    goal = Objective("maximize", unary=[[i, 1] for i in range(4)], unary_weights=[1.0] * 4)
    path = Instance([2] * 4, (Conflict([[0, 1], [1, 2], [2, 3]], [1, 1]),), goal, {3: 1})
    found = without_losers(path, np.array([1, 1, 1, 1]))
    assert found.tolist() == [1, 0, 0, 1]
    assert path.verify(found).satisfied
    with_zeros = Instance([2] * 2, (Conflict([[0, 1]], [0, 1]),), None)  # 0 is in a conflict itself
    assert without_losers(with_zeros, np.array([0, 1])).tolist() == [0, 1]
