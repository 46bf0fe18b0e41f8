"""The translation to CP-SAT and the exact finisher, against enumeration."""

from __future__ import annotations

import itertools
import threading
import time
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blogdit.core.constraints import Constraint, Linear, NotEqual, Scopes, Table
from blogdit.core.instance import Instance, Objective
from blogdit.finishers import Deadline, Task, cp_model, cp_variables, exact
from blogdit.finishers.cp_model import Translation, cliques, whole_weights
from blogdit.finishers.exact import Exact
from blogdit.finishers.tasks import OutOfTime
from blogdit.problems import coloring, generate, maxcut, mis
from blogdit.problems.graphs import random_graph
from small_instances import KINDS, assignments, instances


def random_task(instance: Instance, target: float | None = None) -> Task:
    starts = np.random.default_rng(0).integers(0, instance.domain_sizes, (2, instance.size))
    return Task(instance, starts, target)


def assert_decided(instance: Instance) -> None:
    """CP-SAT decides it, and says what enumeration says; also from a hint that violates constraints."""
    (finish,) = Exact(threads=1).finish([random_task(instance)], Deadline(), seed=0)
    verdicts = [verdict for verdict in map(instance.verify, assignments(instance)) if verdict.satisfied]
    if not verdicts:
        assert finish == (None, "infeasible")
        return
    found = instance.verify(finish.values)
    assert found.satisfied
    assert finish.proof == (None if instance.objective is None else "optimal")
    if instance.objective is not None:
        assert not any(instance.objective.better(verdict.objective, found.objective) for verdict in verdicts)


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
@settings(max_examples=10, deadline=None)
def test_every_kind_is_decided(kind, data):
    assert_decided(data.draw(instances(kinds=(kind,))))


@pytest.mark.parametrize("allowed", [1, 2, 5, 8, 9])
def test_soft_tables_are_said_by_what_they_allow_or_by_what_they_do_not(allowed):
    """Of nine pairs of values. Two tables want different things, and a third variable joins them."""
    rng = np.random.default_rng(allowed)
    pairs = rng.permutation(list(np.ndindex(3, 3)))
    soft = [(Table([[0, 1], [1, 2]], pairs[:allowed]), [2, 3]), (Table([[2, 0]], pairs[-allowed:]), 4)]
    goal = Objective("minimize", unary=[[0, 1], [2, 2]], unary_weights=[1, -1], soft=soft)
    assert_decided(Instance([3, 3, 3], (NotEqual([[0, 2]]),), goal))


@given(instance=instances())
@settings(max_examples=25, deadline=None)
def test_also_with_integer_variables(instance):
    """As where domains are too large for a Boolean of each value; some of each within one instance, too."""
    for most in (0, 2):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(cp_variables, "MOST_LITERALS", most)
            assert_decided(instance)


@given(instance=instances(), seed=st.integers(0, 9))
@settings(max_examples=40, deadline=None)
def test_a_hint_is_whole_and_makes_no_model_invalid(instance, seed):
    """Every Boolean and integer of the model that is no constant has one; hints of one variable do not repeat."""
    from ortools.sat.python import cp_model as ortools

    translation = Translation(instance)
    start = np.random.default_rng(seed).integers(0, instance.domain_sizes)
    translation.hint(np.where(instance.is_given, instance.given_values, start))
    proto = translation.model.proto
    hinted = list(proto.solution_hint.vars)
    assert len(set(hinted)) == len(hinted)
    open_ones = {i for i, variable in enumerate(proto.variables) if min(variable.domain) != max(variable.domain)}
    assert open_ones <= set(hinted)
    assert ortools.CpSolver().solve(translation.model) != ortools.MODEL_INVALID


@given(st.integers(2, 14), st.floats(0, 1), st.integers(0, 1000))
@settings(max_examples=60, deadline=None)
def test_cliques_hold_every_pair_and_no_other(nodes, share, seed):
    pairs = random_graph(nodes, share, np.random.default_rng(seed)).edges
    found = [set(clique) for clique in cliques(pairs, nodes)]
    joined = {frozenset(pair) for pair in pairs.tolist()}
    assert {frozenset(pair) for clique in found for pair in combinations(clique, 2)} == joined
    if share == 1:
        assert found == [set(range(nodes))]


@given(instance=instances(kinds=("conflict",), objective=True))
@settings(max_examples=15, deadline=None)
def test_large_graphs_are_taken_pair_by_pair(instance):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cp_model, "MOST_CLIQUE_NODES", 0)
        assert_decided(instance)


def test_large_domains():
    rule = (Linear([[0, 1]], [[3, -2]], ["="], [7]), NotEqual([[0, 1]]))
    goal = Objective("minimize", differ=[[0, 1]], differ_weights=[1.0], unary=[[0, 3]], unary_weights=[2.0])
    instance = Instance(np.array([10**6, 10**6]), rule, goal)
    (finish,) = Exact(threads=1).finish([random_task(instance)], Deadline(), seed=0)
    assert instance.verify(finish.values).objective == 1.0
    assert finish.proof == "optimal"


def test_weights_that_are_decimals_are_translated_exactly():
    assert whole_weights([1.0, -3.0]) == [1, -3]
    assert whole_weights([0.5, 1.1, 2.0]) == [5, 11, 20]
    assert whole_weights([0.000001, 7.0]) == [1, 7_000_000]
    assert whole_weights([1 / 3]) is None
    assert whole_weights([2.0**60]) is None
    assert whole_weights([]) == []


def test_rounded_weights_prove_nothing():
    """The same cut, with weights that are decimals and with weights that are not."""
    edges = random_graph(8, 0.5, np.random.default_rng(1)).edges
    for weight, proof in ((1.0, "optimal"), (0.1, "optimal"), (1 / 3, None), (1e300, None), (1e-300, None)):
        cut = maxcut.build((8, edges, [weight] * len(edges)))
        (finish,) = Exact(threads=1).finish([random_task(cut)], Deadline(), seed=0)
        assert finish.proof == proof
        assert cut.verify(finish.values).satisfied


def test_an_unknown_kind_is_named():
    class Parity(Constraint):
        kind = "parity"

        def __len__(self):
            return 1

        def scope(self, index):
            return np.array([0])

        members = Scopes([[0]])

        def violations(self, values, numbers=None):
            return values[:1] % 2

        def validate(self, domains):
            pass

    with pytest.raises(TypeError, match="no translation of parity constraints to CP-SAT"):
        Translation(Instance([2], (Parity(),)))


@pytest.mark.parametrize("problem", ["mis", "maxcut", "coloring"])
def test_building_a_model_can_be_interrupted(problem):
    """It looks at the clock often: a graph with a hundred thousand edges takes a second to build."""
    graph = random_graph(5000, 0.008, np.random.default_rng(0))
    build = {"mis": mis.build, "maxcut": maxcut.build, "coloring": lambda graph: coloring.build(graph, colors=3)}
    instance, looks, most = build[problem](graph), itertools.count(1), 30
    unfinished = Translation.__new__(Translation)
    with pytest.raises(OutOfTime):
        unfinished.__init__(instance, lambda: next(looks) == most)
    built = len(unfinished.model.proto.constraints) + len(unfinished.model.proto.variables)
    assert built <= 4 * most * cp_variables.BETWEEN_LOOKS < len(graph.edges), "an edge adds up to 4 of them"
    (finish,) = Exact(threads=1).finish([Task(instance, np.zeros((1, 5000), int))], Deadline(0.1), seed=0)
    assert problem != "mis" or instance.verify(finish.values).satisfied  # a valid start is not lost


def test_a_target_ends_it_without_a_proof():
    (cut,) = generate("maxcut", 1, seed=8, vertices=60, p_min=0.5, p_max=0.5)
    value = cut.verify(Exact(threads=1).finish([random_task(cut)], Deadline(0.5), 0)[0].values).objective
    began = time.monotonic()
    (finish,) = Exact(threads=1).finish([random_task(cut, target=0.95 * value)], Deadline(60.0), seed=0)
    assert time.monotonic() - began < 30
    assert cut.verify(finish.values).objective >= 0.95 * value
    assert finish.proof is None


def test_a_target_that_nothing_reaches_leaves_a_proof_of_the_optimum():
    (cut,) = generate("maxcut", 1, seed=8, vertices=8, p_min=0.5, p_max=0.5)
    best = max(cut.verify(values).objective for values in assignments(cut))
    (finish,) = Exact(threads=1).finish([random_task(cut, target=best + 5)], Deadline(), seed=0)
    assert finish.proof == "optimal"
    assert cut.verify(finish.values).objective == best


def test_the_time_is_divided_among_tasks(monkeypatch):
    """Nine on two cores that all take what they are given: each gets a ninth at least, and a quarter at most."""
    (cut,), now, lanes, parts = generate("maxcut", 1, seed=1, vertices=9), [0.0], [0.0, 0.0], []
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    run = exact._Run([random_task(cut)] * 9, Deadline(2.0), 0, threads=2)
    for _ in range(9):
        now[0] = min(lanes)
        parts.append(run._next_deadline().left)
        lanes[lanes.index(now[0])] += parts[-1]
    assert 2 / 9 - 1e-9 < min(parts) <= max(parts) < 2 / 4 + 1e-9
    assert lanes == pytest.approx([2.0, 2.0])


def test_tasks_that_nobody_can_decide_in_time_are_late_by_little():
    chosen = generate("maxcut", 9, seed=1, vertices=150, p_min=0.3, p_max=0.3)
    began = time.monotonic()
    finishes = Exact(threads=2).finish([random_task(one) for one in chosen], Deadline(0.5), seed=0)
    assert time.monotonic() - began < 30
    for one, finish in zip(chosen, finishes, strict=True):
        assert one.verify(finish.values).objective >= one.verify(random_task(one).starts[0]).objective


def test_cores_are_shared():
    def workers(threads: int, tasks: int, seconds: float = 1.0, problem: str = "coloring") -> tuple[int, int]:
        (one,) = generate(problem, 1, seed=0)
        run = exact._Run([random_task(one)] * tasks, Deadline(seconds), 0, threads)
        return run.lanes, run.workers

    assert workers(8, 1) == (1, 8)
    assert workers(8, 3) == (3, 2)
    assert workers(2, 8) == (2, 1)
    assert workers(8, 1, float("inf")) == (1, 1)
    assert workers(2, 1) == (1, 2)
    assert workers(2, 1, problem="maxcut") == (1, 8), "an optimisation that is alone has all of CP-SAT's strategies"
    assert workers(2, 3, problem="maxcut") == (2, 1)
    assert workers(2, 1, float("inf"), "maxcut") == (1, 1)


def test_ctrl_c_ends_the_searches():
    """An error while it waits, as Ctrl-C is one, leaves no thread at work."""
    (cut,) = generate("maxcut", 1, seed=1, vertices=200, p_min=0.3, p_max=0.3)
    began, before, looks = time.monotonic(), threading.active_count(), itertools.count()

    def stopped() -> bool:
        if threading.current_thread() is threading.main_thread() and next(looks) == 20:
            raise KeyboardInterrupt
        return False

    with pytest.raises(KeyboardInterrupt):
        Exact(threads=1).finish([random_task(cut)], Deadline(60.0, stopped), seed=0)
    assert time.monotonic() - began < 30
    assert threading.active_count() == before


def test_nothing_is_printed(capfd):
    (cut,) = generate("maxcut", 1, seed=1, vertices=10)
    Exact(threads=1).finish([random_task(cut)], Deadline(), seed=0)
    assert capfd.readouterr() == ("", "")
