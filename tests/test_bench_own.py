"""Problems as users write them down: what an answer means, in words of its own, and that the sets are fixed."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from blogdit.bench import datasets, own, variants
from blogdit.bench.suites import SUITES
from blogdit.bench.systems import Budget, system
from blogdit.core.instance import Instance
from blogdit.formats import to_json


def drawn(name: str, seed: int = 0) -> Instance:
    return own.generate(name, np.random.default_rng(seed))


def answer(instance: Instance, seconds: float = 120.0) -> np.ndarray:
    """A valid one, by CP-SAT."""
    result = system("cp-sat").solve(instance, Budget(seconds=seconds, workers=4))
    assert result.verdict.satisfied
    return result.values


@pytest.mark.parametrize("name", own.GENERATORS)
def test_an_instance_depends_on_the_generator_alone(name):
    """Those of one name have the same number of variables, so that a GPU takes them together."""
    one, same, other = (to_json(drawn(name, seed)) for seed in (1, 1, 2))
    assert one == same != other
    assert drawn(name, 1).size == drawn(name, 2).size


def test_unknown_problems_are_named():
    with pytest.raises(ValueError, match="unknown problem 'chess'; known: roster loose, roster tight, exams"):
        own.generate("chess", np.random.default_rng(0))


def test_every_generator_is_a_case_of_the_suite():
    cases = {case.name: case for case in SUITES["own"].cases}
    assert set(cases) == set(own.GENERATORS)
    for name, case in cases.items():
        (first,) = datasets.load(case.split, limit=1)
        assert first.name == f"{case.split}-0"
        assert first.problem == datasets.SPLITS[case.split].problem
        assert (case.metric == "solved") == (first.objective is None)
        assert first.objective is None or first.objective.sense == case.sense
        assert variants.misfit(variants.make("blogdit", {}), drawn(name)) is None


@pytest.mark.parametrize(("name", "staff", "off"), [("roster loose", (2, 2, 1), 6), ("roster tight", (3, 3, 2), 4)])
def test_a_roster_keeps_its_rules(name, staff, off):
    instance = drawn(name)
    week = answer(instance)[: own.NURSES * own.DAYS + 2 * own.NURSES]
    shift = {
        label: own.SHIFTS[value] for label, value in zip(instance.labels, week, strict=False) if label[1] in range(14)
    }
    rows = [[shift[nurse, day] for day in range(own.DAYS)] for nurse in range(own.NURSES)]
    for day in zip(*rows, strict=True):
        assert tuple(day.count(one) for one in own.SHIFTS[:3]) == staff
        assert "night" in day[: own.SENIORS]
    for row in rows:
        assert row.count("off") >= off
        assert row.count("night") <= 4
        assert not any("off" not in row[first : first + 6] for first in range(9))
        assert not set(pairwise(row)) & set(own.TOO_SHORT)


def test_exams_cost_what_they_say():
    """Students, seats and dislikes read back from the instance's own arrays are those of the objective."""
    instance = own.exams(np.random.default_rng(3), count=12, slots=8, students=8)
    values = answer(instance)
    (clashes,) = [group for group in instance.constraints if group.kind == "not_equal"]
    assert all(values[a] != values[b] for a, b in clashes.pairs)
    ((near, students),) = instance.objective.soft
    follow = [abs(values[near.scope(i)[0]] - values[near.scope(i)[1]]) == 1 for i in range(len(near))]
    dislikes = {
        (int(e), int(s)): w
        for (e, s), w in zip(instance.objective.unary, instance.objective.unary_weights, strict=True)
    }
    disliked = sum(dislikes.get((exam, int(slot)), 0) for exam, slot in enumerate(values))
    assert students.sum() >= len(near) == len(clashes)
    assert instance.verify(values).objective == disliked + students[follow].sum()


def test_clauses_have_three_different_variables():
    instance = own.sat(np.random.default_rng(0), 12, 40)
    (clauses,) = instance.constraints
    assert len(clauses) == 40
    for index in range(40):
        assert len(set(clauses.scope(index).tolist())) == 3
    for values in np.random.default_rng(1).integers(0, 2, (50, 12)):
        broken = clauses.violations(values)
        assert set(broken.tolist()) <= {0, 1}
        assert abs((broken > 0).mean() - 1 / 8) < 0.25


def test_queens_do_not_attack_each_other():
    instance = own.queens(np.random.default_rng(0), size=12, placed=3)
    assert len(instance.givens) == 3
    columns = answer(instance).tolist()
    for row, column in enumerate(columns):
        for other in range(row):
            assert column != columns[other]
            assert abs(column - columns[other]) != row - other


def test_jobs_take_the_time_that_an_agent_has():
    instance = own.assignment(np.random.default_rng(0), jobs=12, agents=3)
    values, (times,) = answer(instance), instance.constraints
    assert len(times) == 3
    assert instance.verify(values).objective == sum(
        weight
        for (job, agent), weight in zip(instance.objective.unary, instance.objective.unary_weights, strict=True)
        if values[job] == agent
    )


def test_the_fewest_bins_are_those_that_the_items_were_cut_from():
    instance = own.packing(np.random.default_rng(0), full=3, spare=2)
    sizes = [int(label.split()[-1]) for label in instance.labels[:9]]
    assert sum(sizes) == 300
    result = system("cp-sat").solve(instance, Budget(seconds=120, workers=4))
    assert (result.status, result.objective) == ("optimal", 3)
    assert (
        sorted(sum(s for s, b in zip(sizes, result.values, strict=False) if b == at) for at in set(result.values[:9]))
        == [100] * 3
    )


def test_every_element_is_in_two_sets_at_least():
    instance = drawn("cover")
    (elements,) = instance.constraints
    assert len(elements) == 200
    assert min(len(elements.scope(index)) for index in range(200)) >= 2
    assert instance.verify(np.ones(200, np.int64)).satisfied
    assert instance.verify(np.zeros(200, np.int64)).violated == 200


def test_a_general_model_takes_every_problem_without_a_model_of_its_own():
    path = variants.WEIGHTS / "coloring.safetensors"
    mine = variants.make("mine", {("mine", variants.GENERAL): path})
    assert all(variants.misfit(mine, drawn(name)) is None for name in ("exams", "latin 20"))
    blogdit = variants.make("blogdit", {("blogdit", variants.GENERAL): variants.WEIGHTS / "mis.safetensors"})
    assert blogdit.file(drawn("latin 20")).stem == "latin"
    assert blogdit.file(Instance([2], problem="new")).stem == "mis"
