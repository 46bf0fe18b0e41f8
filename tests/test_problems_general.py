"""The mixture of random problems: everything occurs, every instance has an answer, sizes keep to the settings."""

from __future__ import annotations

import importlib.util
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blogdit import Problem
from blogdit.bench.systems import Budget, system
from blogdit.core.constraints import AllDifferent, Function, Sum
from blogdit.core.instance import Instance
from blogdit.formats import from_json, to_json
from blogdit.method.batch import collate
from blogdit.problems import general, generate
from blogdit.problems.mixture_bricks import clauses
from blogdit.problems.mixture_draft import Draft, Limits
from blogdit.problems.mixture_themes import THEMES


def features(instance: Instance) -> set[str]:
    """What a constraint, an objective or a domain of the instance has."""
    found = {"derived"} if instance.derived else set()
    found |= {"givens"} if instance.givens else set()
    found |= {"named numbers"} if instance.values is not None else set()
    goal = instance.objective
    if goal is not None:
        found |= {goal.sense, *(name for name in ("unary", "linear", "differ", "pairwise") if len(getattr(goal, name)))}
        found |= {f"soft {group.kind}" for group, _ in goal.soft}
    else:
        found.add("no objective")
    for group in instance.constraints:
        found.add(group.kind)
        if isinstance(group, AllDifferent):
            found.add("offsets" if group.offsets is not None else "no offsets")
        if isinstance(group, Function):
            found.add(group.which)
        if isinstance(group, Sum) and group.when is not None:
            found.add("reified" if group.exactly else "implication")
        if type(group) is Sum and group.when is None:
            found.add("literals" if (group.equals >= 0).all() else "numbers")
    return found


def test_every_kind_occurs():
    seen = Counter[str]()
    for instance in generate("general", 400, seed=1, literals="100-300"):
        seen.update(features(instance))
    kinds = ("all_different", "not_equal", "conflict", "linear", "count", "sum", "function", "table")
    rules = ("offsets", "no offsets", "min", "max", "element", "reified", "implication", "literals", "numbers")
    goals = ("minimize", "maximize", "no objective", "unary", "linear", "differ", "pairwise")
    softs = tuple(f"soft {kind}" for kind in ("all_different", "not_equal", "conflict", "count", "sum", "table"))
    for what in (*kinds, *rules, *goals, *softs, "derived", "givens", "named numbers"):
        assert seen[what] >= 2, what


@pytest.mark.parametrize("theme", THEMES)
def test_the_hidden_assignment_keeps_all_constraints(theme):
    for seed in range(25):
        draft = general.draft(np.random.default_rng(seed), literals="60-400", themes=theme)
        instance = draft.instance("general", "one")
        assert instance.verify(draft.hidden).satisfied, seed
        assert not draft.is_empty


@pytest.mark.parametrize("theme", THEMES)
def test_few_variables_are_enough(theme):
    for seed in range(10):
        draft = general.draft(np.random.default_rng(seed), literals="20-60", variables="4-20", themes=theme)
        assert draft.instance("general", "one").verify(draft.hidden).satisfied, seed


def test_the_checker_of_the_soak_test_agrees():
    """It shares no code with the package (benchmarks/checker.py)."""
    source = Path(__file__).parents[1] / "benchmarks" / "checker.py"
    found = importlib.util.spec_from_file_location("checker", source)
    checker = importlib.util.module_from_spec(found)
    found.loader.exec_module(checker)
    rng = np.random.default_rng(0)
    for instance in generate("general", 40, seed=2, literals="30-120", variables="5-40"):
        data = to_json(instance)
        for _ in range(5):
            values = np.where(instance.is_given, instance.given_values, rng.integers(0, instance.domain_sizes))
            verdict = instance.verify(values)
            assert checker.violations(data, values.tolist()) == verdict.violated
            goal = checker.objective(data, values.tolist())
            assert goal == (None if verdict.objective is None else pytest.approx(verdict.objective))


def test_cp_sat_finds_answers():
    """Without the hidden assignment, which no instance has."""
    for instance in generate("general", 8, seed=3, literals="60-120"):
        result = system("cp-sat").solve(instance, Budget(seconds=20))
        assert result.verdict.satisfied


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    literals=st.integers(40, 300),
    values=st.tuples(st.integers(2, 4), st.integers(4, 12)),
    most=st.integers(30, 120),
    longest=st.integers(16, 60),
)
def test_sizes_keep_to_the_settings(seed, literals, values, most, longest):
    rng = np.random.default_rng(seed)
    draft = general.draft(rng, literals, (10, most), values, longest=longest)
    instance = draft.instance("general", "one")
    assert 10 <= instance.size <= most
    assert instance.domain_sizes.sum() <= literals
    assert values[0] <= instance.domain_sizes.min()
    assert instance.domain_sizes.max() <= values[1]
    assert max((len(group.scope(row)) for group in instance.constraints for row in range(len(group))), default=0) <= (
        longest + 1
    ), "and a result"
    assert instance.verify(draft.hidden).satisfied
    assert to_json(from_json(to_json(instance))) == to_json(instance)


def test_the_seed_decides():
    first, again, other = (generate("general", 5, seed=seed) for seed in (7, 7, 8))
    assert [to_json(one) for one in first] == [to_json(one) for one in again]
    assert to_json(first[0]) != to_json(other[0])


def test_clauses_hold_for_the_hidden_assignment_alone_by_chance():
    """A random assignment misses about one in 2^k clauses: literals do not point to the hidden one."""
    draft = Draft(np.random.default_rng(0), Limits(800, (10, 400), (2, 2), 10**6, 100))
    made = draft.variables(400, 2)
    clauses(draft, made, density=1.0)
    (group,) = draft.constraints
    missed = np.mean([np.mean(group.violations(draft.anywhere()) > 0) for _ in range(20)])
    assert missed == pytest.approx(2.0 ** -group.scopes.lengths[0], rel=0.35)
    assert not group.violations(draft.hidden).any()


def test_a_thousand_take_less_than_a_minute():
    began = time.process_time()
    generate("general", 100, seed=0)
    assert time.process_time() - began < 6


def test_batches_of_them_have_energies_that_agree_with_the_check():
    import torch

    from blogdit.method.energy import discrete_energy

    drafts = [general.draft(np.random.default_rng(seed), literals="60-200") for seed in range(12)]
    instances = [draft.instance("general", f"{place}") for place, draft in enumerate(drafts)]
    batch = collate(instances)
    values = torch.zeros(1, batch.size, batch.variables, dtype=torch.long)
    for place, draft in enumerate(drafts):
        values[0, place, : len(draft)] = torch.from_numpy(draft.hidden)
    total, cost = discrete_energy(batch.lay(values), batch)
    assert torch.equal(total, cost), "nothing is violated"
    for place, (instance, draft) in enumerate(zip(instances, drafts, strict=True)):
        objective = instance.verify(draft.hidden).objective
        assert cost[0, place].item() == pytest.approx(0.0 if objective is None else instance.objective.sign * objective)


def test_any_problem_can_be_called_general():
    problem = Problem("roster", "mine")
    problem.different([problem.variable(name, (1, 2)) for name in "ab"])
    instance = general.build(problem)
    assert (instance.problem, instance.name) == ("general", "mine")
    assert general.render(instance, np.array([0, 1])).splitlines() == [
        "2 variables; 1 not_equal", "a = 1", "b = 2", "0 constraints violated",
    ]  # fmt: skip
    with pytest.raises(ValueError, match="must be a Problem or an Instance, got int"):
        general.build(3)


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        ({"themes": "sudoku"}, "themes has no 'sudoku'; expected all, or some of satisfiability, "),
        ({"literals": 5}, "literals must be a whole number of at least 20"),
        ({"entries": 0}, "entries must be"),
        ({"mixed": 2}, "mixed must be a number from 0 to 1"),
    ],
)
def test_bad_settings(chosen, message):
    with pytest.raises(ValueError, match=message):
        generate("general", 1, **chosen)
