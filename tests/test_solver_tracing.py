"""What a trace says of every step, and that it changes nothing."""

from __future__ import annotations

import numpy as np

from blogdit.problems import generate
from blogdit.solver.events import Finished, Step
from blogdit.solver.options import SolveOptions
from blogdit.solver.solver import Solver
from helpers import answers, random_model


def traced(instance, model=None, **options) -> list[Step | Finished]:
    solver = Solver(model or random_model(), SolveOptions(**options))
    solver.session.trace = True
    return list(solver.events([instance]))


def test_the_best_of_the_whole_trajectory_is_kept():
    cut = generate("maxcut", 1, seed=3, vertices=30)[0]
    *steps, last = traced(cut, steps=25, finish="none")
    objectives = [cut.verify(step.values).objective for step in steps]
    assert last.result.objective == max(objectives) > objectives[-1]
    improved = [step.result.objective for step in steps if step.result is not None]
    assert improved == sorted(set(improved))
    assert improved[-1] == last.result.objective


def test_a_trace_can_be_replayed():
    """Only variables of the block change; the records alone give back every state and its exact violations."""
    graph = generate("coloring", 1, seed=0, vertices=30, colors=4)[0]
    *steps, _ = traced(graph, steps=12)
    values = None
    for number, step in enumerate(steps, 1):
        record = step.record()
        assert record["step"] == number
        assert set(record["changed"]) <= set(record["block"])
        if values is None:
            values = np.array(record["values"])
        else:
            assert "values" not in record
            values[record["changed"]] = record["to"]
        assert values.tolist() == step.values.tolist()
        assert record["violations"] == graph.verify(values).violated
        assert record["energy"] == record["violations"]
        assert 0.25 <= record["confidence"] <= 1


def test_tracing_changes_nothing():
    graphs = generate("maxcut", 3, seed=0, vertices=20)
    for graph in graphs:
        *_, last = traced(graph, steps=10, chains=2)
        assert [last.result.values.tolist()] == [row[0] for row in answers(random_model(), [graph], steps=10, chains=2)]
