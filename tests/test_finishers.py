"""The contract of every finisher, found through the table, against the enumeration of small instances."""

from __future__ import annotations

import itertools
import subprocess
import sys
import time

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from blogdit.core.constraints import AllDifferent, Conflict, Linear, NotEqual
from blogdit.core.errors import InputError
from blogdit.core.instance import Instance, Objective
from blogdit.finishers import FINISHERS, Deadline, Finish, Task, annealing, choose, make, swaps, tabu, tasks
from blogdit.problems import coloring, generate, maxcut, mis
from blogdit.problems.graphs import random_graph
from small_instances import KINDS, assignments, instances, zoo

OURS = make("cpu", threads=1)
PAIRS = ("not_equal", "conflict")
everybody = pytest.mark.parametrize("name", FINISHERS)
SMALL = {
    "sudoku": {"box": 2, "min_givens": 5, "max_givens": 6},
    "coloring": {"vertices": 20, "colors": 3, "p_min": 0.2, "p_max": 0.2},
    "maxcut": {"vertices": 12, "weights": "signs"},
    "mis": {"size": "small"},
}


def task(instance: Instance, chains: int = 3, seed: int = 0, target: float | None = None) -> Task:
    """Random states that keep the givens."""
    draws = np.random.default_rng(seed).integers(0, instance.domain_sizes, (chains, instance.size))
    return Task(instance, np.where(instance.is_given, instance.given_values, draws), target)


def by_family() -> list[Instance]:
    return [one for name, options in SMALL.items() for one in generate(name, 2, seed=3, **options)]


def is_better(instance: Instance, one: float, other: float) -> bool:
    assert instance.objective is not None
    return one > other if instance.objective.sense == "maximize" else one < other


def assert_keeps_the_contract(one: Task, finish: Finish) -> None:
    """What holds for every answer: it fits the instance, and it is no worse than the first start, which is the best."""
    instance, valid = one.instance, [v for v in map(one.instance.verify, one.starts[:1]) if v.satisfied]
    if finish.values is None:
        assert not valid
        return
    values = finish.values
    assert values.shape == (instance.size,)
    assert ((values >= 0) & (values < instance.domain_sizes)).all()
    assert (values[instance.is_given] == instance.given_values[instance.is_given]).all()
    verdict = instance.verify(values)
    assert verdict.satisfied or not valid
    if instance.objective is not None:
        assert not any(is_better(instance, start.objective, verdict.objective + 0.0) for start in valid)


def assert_proof_is_right(instance: Instance, finish: Finish) -> None:
    """By enumeration."""
    verdicts = [v for v in map(instance.verify, assignments(instance)) if v.satisfied]
    if finish.proof == "infeasible":
        assert not verdicts
    if finish.proof == "optimal":
        found = instance.verify(finish.values)
        assert found.satisfied
        assert not any(is_better(instance, v.objective, found.objective) for v in verdicts)


@everybody
@given(data=st.data())
@settings(max_examples=25, deadline=None)
def test_small_instances_of_all_kinds(name, data):
    """On pairs alone for most, so that the local searches have something to do."""
    sizes = st.lists(st.integers(1, data.draw(st.integers(2, 3))), min_size=3, max_size=6)
    kinds = PAIRS if data.draw(st.integers(0, 3)) else tuple(KINDS)
    instance = data.draw(instances(kinds=kinds, sizes=sizes))
    if not OURS[name].supports(instance):
        return
    one = task(instance, seed=data.draw(st.integers(0, 3)))
    (finish,) = OURS[name].finish([one], Deadline(), seed=1)
    assert_keeps_the_contract(one, finish)
    assert_proof_is_right(instance, finish)
    assert finish.proof is None or name == "exact"


@everybody
def test_every_family_and_kind(name, little_work):
    """One outcome for each task, in order, of all that it supports at once."""
    members = [task(one) for one in (*by_family(), *zoo()) if OURS[name].supports(one)]
    finishes = OURS[name].finish(members, Deadline(), seed=0)
    assert len(finishes) == len(members) > 0
    for one, finish in zip(members, finishes, strict=True):
        assert_keeps_the_contract(one, finish)


@everybody
def test_the_same_alone_and_beside_others(name, little_work):
    members = [task(one) for one in by_family() if OURS[name].supports(one)]
    together = OURS[name].finish(members, Deadline(), seed=5)
    again = make("cpu", threads=2)[name].finish(members[::-1], Deadline(), seed=5)[::-1]
    for one, finish, other in zip(members, together, again, strict=True):
        (alone,) = OURS[name].finish([one], Deadline(), seed=5)
        for same in (alone, other):
            assert (same.values is None) == (finish.values is None)
            assert finish.values is None or np.array_equal(same.values, finish.values)
            assert same.proof == finish.proof


def hard() -> list[Instance]:
    """Too large for all to be done at once, and one for each finisher."""
    graph = random_graph(400, 0.1, np.random.default_rng(0))
    return [mis.build(graph), maxcut.build(graph), coloring.build(graph, colors=5), mis.build(graph, [1.0, 2.0] * 200)]


class Told(Deadline):
    """Somebody says that it is enough, at the twelfth look at it. `late` counts the looks that follow."""

    def __init__(self, seconds: float):
        self.late = -12
        super().__init__(seconds, self.enough)

    def enough(self) -> bool:
        self.late += 1
        return self.late >= 0


@everybody
def test_a_deadline_that_has_passed_ends_it(name):
    for instance in hard():
        if OURS[name].supports(instance):
            one, began = task(instance), time.monotonic()
            (finish,) = OURS[name].finish([one], Deadline(0.0), seed=0)
            assert time.monotonic() - began < 30
            assert_keeps_the_contract(one, finish)


@everybody
def test_time_is_kept_and_shared(name):
    members = [task(instance) for instance in hard() if OURS[name].supports(instance)]
    began = time.monotonic()
    finishes = OURS[name].finish(members, Deadline(0.4), seed=0)
    assert time.monotonic() - began < 30
    for one, finish in zip(members, finishes, strict=True):
        assert_keeps_the_contract(one, finish)


@everybody
@pytest.mark.parametrize("seconds", [float("inf"), 60.0])
def test_it_stops_when_it_is_told(name, seconds):
    """A search step by step at its next looks. CP-SAT does not ask Python: our thread looks every 0.02 s until it
    ends, which would be 3,000 times in a minute; it may also be done before."""
    least, most = (-12, 1000) if name == "exact" else (0, 10)
    for instance in hard():
        if OURS[name].supports(instance):
            one, told = task(instance), Told(seconds)
            (finish,) = OURS[name].finish([one], told, seed=0)
            assert least <= told.late <= most
            assert_keeps_the_contract(one, finish)


@everybody
def test_nothing_to_decide(name):
    """No variables, all given, one value each; no starts; no tasks."""
    goal = Objective("maximize", unary=[[0, 1], [1, 1]], unary_weights=[1.0, 1.0])
    pairs = (Conflict([[0, 1]], (1, 1)),)
    cases = [
        Instance([]),
        Instance([], (), Objective("maximize")),
        Instance([2, 2], pairs, goal, givens={0: 0, 1: 1}),
        Instance([2, 2], pairs, goal, givens={0: 0, 1: 0}),
        Instance([2, 2], pairs, goal, givens={0: 1, 1: 1}),
        Instance([1, 1], (NotEqual([[0, 1]]),)),
        Instance([1, 1], (NotEqual([[0, 1]]),), Objective("minimize")),
        Instance([2, 2], (NotEqual([[0, 1]]),), givens={0: 1, 1: 1}),
    ]
    assert OURS[name].finish([], Deadline(), seed=0) == []
    for instance in cases:
        if OURS[name].supports(instance):
            for one in (task(instance), Task(instance, np.zeros((0, instance.size), np.int64))):
                (finish,) = OURS[name].finish([one], Deadline(), seed=0)
                assert_keeps_the_contract(one, finish)
                assert_proof_is_right(instance, finish)


@everybody
def test_a_target_is_enough(name):
    """It ends well before a deadline that is far away."""
    for instance in (*generate("mis", 1, seed=3), *generate("maxcut", 1, seed=3, vertices=30)):
        if OURS[name].supports(instance):
            one, began = task(instance, target=3.0), time.monotonic()
            (finish,) = OURS[name].finish([one], Deadline(60.0), seed=0)
            assert time.monotonic() - began < 20
            assert instance.verify(finish.values).objective >= 3


@everybody
def test_another_seed_may_be_another_way_but_is_a_number(name, little_work):
    """Every seed that an option allows."""
    for instance in by_family()[::2]:
        if OURS[name].supports(instance):
            for seed in (1 << 62, 2**31 - 1):
                assert_keeps_the_contract(task(instance), OURS[name].finish([task(instance)], Deadline(), seed)[0])


@pytest.fixture
def as_on_a_gpu(monkeypatch):
    """Finishers that use their kernels: in Triton's interpreter where there is no GPU, and with little work."""
    pytest.importorskip("triton")
    monkeypatch.setattr(swaps, "GPU_STEPS", 12)
    monkeypatch.setattr(swaps, "WALKERS", 4)
    monkeypatch.setattr(tabu, "GPU_MOVES", 12)
    monkeypatch.setattr(annealing, "SWEEPS", {"cpu": 5, "cuda": 5})
    monkeypatch.setattr(annealing, "ROUNDS", {"cpu": 2, "cuda": 2})
    monkeypatch.setattr(annealing, "CHAINS", 2)
    monkeypatch.setattr(annealing, "FIRST_SWEEPS", 2)
    for module in (swaps, tabu):
        monkeypatch.setattr(module, "LAUNCH", 1 << 13)  # a few steps or moves in a launch
    monkeypatch.setattr("blogdit.finishers.annealing_kernel.LAUNCH", 100)
    if torch.cuda.is_available():
        return make("cuda")
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    for module in (swaps, annealing, tasks):
        monkeypatch.setattr(module, "programs_at_once", lambda device: 4)
    for module in (annealing, tasks):
        monkeypatch.setattr(module, "runs_kernels", lambda device: True)
    return make("cpu")


@pytest.mark.parametrize("name", ["swaps", "annealing", "tabu"])
@pytest.mark.parametrize("seconds", [float("inf"), 0.5])
def test_batches_on_a_gpu(name, seconds, as_on_a_gpu, monkeypatch):
    """Several tasks at a time, of different sizes and numbers of starts; without a deadline the same as alone."""
    draws = [random_graph(n, 0.4, np.random.default_rng(n)) for n in (5, 8, 6)]
    build = {"swaps": mis.build, "annealing": maxcut.build, "tabu": lambda graph: coloring.build(graph, colors=2)}
    members = [task(build[name](graph), chains=number + 1) for number, graph in enumerate(draws)]
    finishes = as_on_a_gpu[name].finish(members, Deadline(seconds), seed=3)
    for one, finish in zip(members, finishes, strict=True):
        assert_keeps_the_contract(one, finish)
        if seconds == float("inf"):
            (alone,) = as_on_a_gpu[name].finish([one], Deadline(), seed=3)
            assert np.array_equal(alone.values, finish.values)


def test_what_auto_chooses():
    def names(instance: Instance) -> list[str]:
        return [one.name for one in choose("auto", instance, OURS)]

    graph = random_graph(8, 0.4, np.random.default_rng(0))
    assert names(mis.build(graph)) == ["swaps", "exact", "swaps"]
    assert names(mis.build(graph, [1.0, 2.0] * 4)) == ["annealing", "exact", "annealing"]
    assert names(maxcut.build(graph)) == ["annealing", "exact", "annealing"]
    assert names(coloring.build(graph, colors=3)) == ["tabu", "exact", "tabu"]
    assert names(generate("sudoku", 1, seed=0, **SMALL["sudoku"])[0]) == ["exact"]


def test_one_by_name_or_none():
    cut = maxcut.build(random_graph(8, 0.4, np.random.default_rng(0)))
    assert choose("none", cut, OURS) == ()
    assert choose("descent", cut, OURS) == (OURS["descent"],)
    with pytest.raises(InputError, match=r"^swaps cannot finish maxcut; expected exact or annealing or descent$"):
        choose("swaps", cut, OURS)
    expected = "unknown finisher 'magic'; expected auto, none or one of exact, swaps, annealing, tabu, descent"
    with pytest.raises(InputError, match=f"^{expected}$"):
        choose("magic", cut, OURS)


def test_a_kind_of_constraint_on_more_than_pairs_is_for_the_exact_one_alone():
    goal = Objective("maximize", unary=[[0, 1]], unary_weights=[1.0])
    for objective in (None, goal):
        instance = Instance([3, 3, 3], (AllDifferent([[0, 1, 2]]),), objective)
        assert [name for name, one in OURS.items() if one.supports(instance)] == ["exact"]


def test_soft_constraints_on_pairs_and_numbers_are_for_local_searches_too():
    """Numbers with gaps, soft pairs of both kinds, an objective on numbers; soft sums are for the exact one alone."""
    soft = [(NotEqual([[0, 1], [1, 2]]), [5, 1]), (Conflict([[0, 2]], (1, 1)), 2.5)]
    goal = Objective("maximize", linear=[0, 1, 2], linear_weights=[1, -2, 1], soft=soft)
    instance = Instance([2, 2, 2], (NotEqual([[0, 2]]),), goal, values=[3, 7])
    best = max(verdict.objective for verdict in map(instance.verify, assignments(instance)) if verdict.satisfied)
    able = [name for name, one in OURS.items() if one.supports(instance)]
    assert able == ["exact", "annealing", "descent"]
    for name in able:
        (finish,) = OURS[name].finish([task(instance)], Deadline(), seed=0)
        assert instance.verify(finish.values).objective == best
    sums = Objective("maximize", soft=[(Linear([[0, 1]], [[1, 1]], ["<="], [1]), 1)])
    assert [name for name, one in OURS.items() if one.supports(Instance([2, 2], (), sums))] == ["exact"]


def test_huge_domains_are_not_laid_out_as_tables():
    goal = Objective("maximize", unary=[[0, 1]], unary_weights=[1.0])
    for objective in (None, goal):
        instance = Instance([1 << 30] * 3, (NotEqual([[0, 1]]),), objective)
        assert [name for name, one in OURS.items() if one.supports(instance)] == ["exact"]


def test_importing_them_is_light():
    command = "import sys, blogdit.finishers; assert not {'ortools', 'triton'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", command], check=True)


def test_names_are_those_of_the_table():
    assert all(kind.name == name for name, kind in FINISHERS.items())
    assert len(set(itertools.chain(FINISHERS, ("auto", "none")))) == len(FINISHERS) + 2
