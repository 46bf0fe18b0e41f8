"""CP-SAT and the other general systems against the enumeration of small instances."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blogdit.bench.systems import Budget, cp_sat, greedy, rlsa, system, systems
from blogdit.core.errors import InputError
from blogdit.core.instance import Instance
from blogdit.core.result import VALID
from blogdit.problems import generate
from small_instances import KINDS, assignments, instances, zoo

SECONDS = Budget(seconds=60.0)  # of which CP-SAT takes some milliseconds


def best_by_enumeration(instance: Instance) -> float | None:
    """The best objective of a valid assignment (0 without an objective), or None if there is no valid one."""
    best = None
    for values in assignments(instance):
        verdict = instance.verify(values)
        if not verdict.satisfied:
            continue
        worth = 0.0 if verdict.objective is None else verdict.objective
        if best is None or (instance.objective is not None and instance.objective.better(worth, best)):
            best = worth
    return best


def best_of_cp_sat(instance: Instance) -> float | None:
    """What `best_by_enumeration` gives, None being a proof that there is nothing."""
    result = system("cp-sat").solve(instance, SECONDS)
    assert (result.status == "infeasible") == ("INFEASIBLE" in (result.model or ""))
    if result.status == "infeasible":
        assert result.proved_by == "cp-sat"
        return None
    assert result.status == ("solved" if instance.objective is None else "optimal")
    return 0.0 if instance.objective is None else result.objective


def approximately(best: float | None) -> object:
    return None if best is None else pytest.approx(best, abs=1e-6)


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
@settings(max_examples=8, deadline=None)
def test_cp_sat_finds_the_optimum_of_every_kind(kind, data):
    instance = data.draw(instances(kinds=(kind,)))
    assert best_of_cp_sat(instance) == approximately(best_by_enumeration(instance))


@given(instance=instances(objective=True))
@settings(max_examples=15, deadline=None)
def test_cp_sat_finds_the_optimum_of_mixed_instances(instance):
    assert best_of_cp_sat(instance) == approximately(best_by_enumeration(instance))


def test_cp_sat_finds_what_enumeration_finds_on_hand_made_instances():
    for instance in zoo():
        assert best_of_cp_sat(instance) == approximately(best_by_enumeration(instance))


def test_feasibility_jump_solves_without_search_trees():
    """The local search is valid on instances with a solution, and its answers are never better than the best."""
    jump = cp_sat.CpSat("feasibility-jump", **system("feasibility-jump").parameters, max_deterministic_time=0.05)
    for instance in zoo():
        best = best_by_enumeration(instance)
        result = jump.solve(instance, Budget())
        assert not (result.verdict.satisfied and best is None)
        if result.verdict.satisfied and instance.objective is not None:
            assert not instance.objective.better(result.objective, best)


SMALL = {
    "sudoku": {"box": 2, "min_givens": 5, "max_givens": 6},
    "coloring": {"vertices": 20, "colors": 4, "p_min": 0.1, "p_max": 0.2},
    "maxcut": {"vertices": 12, "weights": "signs"},
    "mis": {},
    "qubo": {"variables": 12},
}


@pytest.mark.parametrize("name", sorted(systems()))
@pytest.mark.parametrize("problem", SMALL)
def test_every_system_answers_with_checked_results(name, problem):
    """One Result for each instance, in order, within its domain; valid where anything is (cuts and sets)."""
    one, many = systems()[name], generate(problem, 2, seed=5, **SMALL[problem])
    if not one.supports(many[0]):
        pytest.skip(f"{name} does not solve {problem}")
    budget = Budget(seconds=0.2) if one.counts == "seconds" else Budget(steps=10)
    results = one.solve_many(many, budget, seed=1)
    assert [result.instance for result in results] == many
    for instance, result in zip(many, results, strict=True):
        assert ((result.values >= 0) & (result.values < instance.domain_sizes)).all()
        assert (result.values[instance.is_given] == instance.given_values[instance.is_given]).all()
        assert instance.objective is None or result.status in VALID
        assert result.verdict == instance.verify(result.values)


OPTIMISERS = {
    "cp-sat": SECONDS,
    "annealing": Budget(steps=1000),
    "tabu": Budget(seconds=0.5),  # it begins again and again; a search takes it less than a millisecond
    "rlsa": Budget(steps=200),
    "gibbs": Budget(steps=200),
}


@pytest.mark.parametrize("name", OPTIMISERS)
def test_optimisers_find_small_maximum_cuts(name):
    (instance,) = generate("maxcut", 1, seed=8, vertices=10, p_min=0.4, p_max=0.4)
    best = best_by_enumeration(instance)
    assert systems()[name].solve(instance, OPTIMISERS[name], seed=1).objective == best


@pytest.mark.parametrize("name", ["cp-sat", "annealing", "tabu", "gibbs"])
def test_optimisers_find_the_least_energy_of_small_qubos(name):
    (instance,) = generate("qubo", 1, seed=8, variables=10, p_min=0.4, p_max=0.4)
    best = best_by_enumeration(instance)
    assert systems()[name].solve(instance, OPTIMISERS[name], seed=1).objective == best


def test_unknown_systems_and_missing_packages_are_named(monkeypatch):
    with pytest.raises(ValueError, match="unknown system 'nothing'; known: annealing"):
        system("nothing")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert system("greedy").missing() is None
    with pytest.raises(InputError, match=r"annealing needs dwave.samplers; expected pip install 'blogdit\[bench\]'"):
        system("annealing").warm_up([], SECONDS)


def test_two_systems_cannot_have_one_name(monkeypatch):
    monkeypatch.setattr(rlsa, "SYSTEMS", greedy.SYSTEMS)
    with pytest.raises(ValueError, match=r"rlsa.py: a second system is called 'greedy'; expected another name"):
        systems.__wrapped__()


def test_several_runs_share_the_seconds():
    """Independent runs have their own seeds and a part of the time each."""
    (instance,) = generate("maxcut", 1, seed=8, vertices=40)
    ((first, second),) = system("greedy").solve_runs([instance], Budget(seconds=1.0), seed=3, runs=2)
    assert (first.seed, second.seed) == (3, 4)
    assert not np.array_equal(first.values, second.values)


def test_an_interrupted_search_ends_and_is_not_taken_for_an_answer(monkeypatch):
    stopped = []

    class Solver:
        parameters, solve = SimpleNamespace(catch_sigint_signal=True), None

        def stop_search(self):
            stopped.append(True)

    class Future:
        def result(self):
            raise KeyboardInterrupt

    monkeypatch.setattr(cp_sat.ThreadPoolExecutor, "submit", lambda *_: Future())
    with pytest.raises(KeyboardInterrupt):
        cp_sat._interruptible(Solver(), None)
    assert stopped
    assert not Solver.parameters.catch_sigint_signal
