"""What a trace says of every step, and that it changes nothing."""

from __future__ import annotations

import numpy as np

from blogdit.core.constraints import AllDifferent, NotEqual
from blogdit.core.instance import Instance, Objective
from blogdit.formats import to_json
from blogdit.problems import generate
from blogdit.solver.events import Finished, Step, Teller, violated_numbers
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
    """Only variables of the block change; the records alone give back every state, how sure it is, and its exact
    violations."""
    graph = generate("coloring", 1, seed=0, vertices=30, colors=4)[0]
    *steps, _ = traced(graph, steps=12)
    values, sure = None, None
    for number, step in enumerate(steps, 1):
        record = step.record()
        assert record["step"] == number
        assert set(record["changed"]) <= set(record["block"])
        if values is None:
            values, sure = np.array(record["values"]), np.array(record["sure"])
        else:
            assert "values" not in record
            values[record["changed"]] = record["to"]
            sure[record["block"]] = record["sure"]
        assert values.tolist() == step.values.tolist()
        assert sure.tolist() == (100 * step.sure).astype(int).tolist()
        clashes = [n for n, (a, b) in enumerate(graph.constraints[0].pairs) if values[a] == values[b]]
        assert record["violated"] == clashes
        assert record["violations"] == graph.verify(values).violated
        assert record["energy"] == record["violations"]
        assert 0.25 <= record["confidence"] <= 1


def test_every_chain_is_checked():
    """The first chain is the one that is shown; the best answer so far is that of the best chain so far."""
    cut = generate("maxcut", 1, seed=3, vertices=30)[0]
    *steps, last = traced(cut, steps=10, chains=3, finish="none")
    records = [step.record() for step in steps]
    for step, record in zip(steps, records, strict=True):
        assert record["chain_violations"] == [0, 0, 0]
        assert record["chain_objectives"][0] == cut.verify(step.values).objective
    assert max(max(record["chain_objectives"]) for record in records) == last.result.objective
    seconds = [record["seconds"] for record in records]
    assert seconds == sorted(seconds)


def test_a_trace_begins_with_the_question_and_ends_with_the_result():
    graphs = generate("coloring", 2, seed=0, vertices=12, colors=4)
    solver, teller = Solver(random_model(), SolveOptions(steps=4)), Teller()
    solver.session.trace = True
    lines = [line for event in solver.events(graphs) for line in teller.lines(event)]
    for graph in graphs:
        first, *steps, last = (line for line in lines if line["instance"] == graph.name)
        assert first["question"] == to_json(graph)
        assert [line["step"] for line in steps] == list(range(1, len(steps) + 1))
        assert last["result"]["violations"] == graph.verify(last["result"]["values"]).violated
        assert last["complete"]


def test_constraints_are_numbered_through_their_groups():
    names = NotEqual([[0, 1]]), AllDifferent([[0, 1, 2], [1, 2, 3]])
    instance = Instance([3, 3, 3, 3], names)
    assert violated_numbers(instance, np.array([0, 1, 1, 2])).tolist() == [1, 2]
    assert violated_numbers(instance, np.array([0, 0, 1, 2])).tolist() == [0, 1]
    assert violated_numbers(Instance([3]), np.array([0])).tolist() == []


def test_soft_constraints_are_numbered_after_those_that_must_hold():
    wishes = (NotEqual([[0, 2], [1, 3]]), 2.5)
    instance = Instance([3, 3, 3, 3], (NotEqual([[0, 1]]),), Objective("minimize", soft=[wishes]))
    assert violated_numbers(instance, np.array([0, 1, 2, 1])).tolist() == [2]
    *steps, last = traced(instance, steps=3, finish="none")
    (line,) = list(Teller().lines(last))[1:]
    assert line["violated"] == violated_numbers(instance, last.result.values).tolist()
    for step in steps:
        soft = [number for number in step.record()["violated"] if number >= 1]
        assert len(soft) == instance.verify(step.values).unmet


def test_tracing_changes_nothing():
    graphs = generate("maxcut", 3, seed=0, vertices=20)
    for graph in graphs:
        *_, last = traced(graph, steps=10, chains=2)
        assert [last.result.values.tolist()] == [row[0] for row in answers(random_model(), [graph], steps=10, chains=2)]
