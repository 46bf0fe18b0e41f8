"""Problems written down variable by variable mean what they say, by trying everything."""

from __future__ import annotations

import itertools

import pytest

import blogdit
from blogdit.core.constraints import Count
from blogdit.core.problem import Problem
from blogdit.formats import from_json, to_json


def valid(problem: Problem) -> dict[tuple, float | None]:
    """All valid assignments by the names of their values, with what they are worth."""
    instance = problem.instance()
    found = {}
    for x in itertools.product(*map(range, instance.domain_sizes.tolist())):
        verdict = instance.verify(x)
        if verdict.satisfied:
            found[tuple(instance.values[i][value] for i, value in enumerate(x))] = verdict.objective
    return found


def three() -> tuple[Problem, list[int]]:
    problem = Problem("toy")
    return problem, [problem.variable(name, [1, 2, 4]) for name in "abc"]


def test_clauses():
    problem, (a, b, _) = three()
    problem.clause([(a, 1), (b, 4, False)])
    problem.clause([(a, 2, False)])
    assert set(valid(problem)) == {
        x for x in itertools.product((1, 2, 4), repeat=3) if (x[0] == 1 or x[1] != 4) and x[0] != 2
    }


def test_sums_with_conditions():
    problem, (a, b, c) = three()
    problem.sum([(2, a), (1, b), (3, c, 4)], low=5, high=9)
    problem.sum([(1, a), (1, b)], high=4, when=(c, 1))
    problem.sum([(1, a, 1), (1, b, 1)], low=1, when=(c, 2, False), exactly=True)
    expected = {
        x
        for x in itertools.product((1, 2, 4), repeat=3)
        if 5 <= 2 * x[0] + x[1] + 3 * (x[2] == 4) <= 9
        and (x[2] != 1 or x[0] + x[1] <= 4)
        and (x[2] != 2) == (1 in x[:2])
    }
    assert set(valid(problem)) == expected


def test_different_tables_and_other_groups():
    problem, (a, b, c) = three()
    problem.different([a, b])
    problem.different([a, b, c])
    problem.different([a, b, c], [0, 1, 2])
    problem.table([a, b], [(1, 2), (1, 4), (4, 2)])
    problem.add(Count([[a, b, c]], [0], [1], [1]))  # values by their places: one of them is 1
    expected = {
        x
        for x in itertools.permutations((1, 2, 4))
        if len({x[0], x[1] + 1, x[2] + 2}) == 3 and x[:2] in {(1, 2), (1, 4), (4, 2)}
    }
    assert set(valid(problem)) == expected
    kinds = [group.kind for group in problem.instance().constraints]
    assert kinds == ["not_equal", "all_different", "all_different", "table", "count"]


def test_variables_that_follow_from_others():
    problem, (a, b, c) = three()
    total = problem.total("total", [(2, a), (-1, b), (10, c, 4)])
    large = problem.truth("large", [(1, total)], low=5)
    least, most = problem.minimum("least", [a, b]), problem.maximum("most", [b, c])
    pick = problem.variable("pick", ["first", "second"])
    problem.element("picked", pick, [least, most])
    problem.element("price", pick, [30, 20], numbers=True)
    instance = problem.instance()
    assert [instance.labels[row.variable] for row in instance.derived] == [
        "total",
        "large",
        "least",
        "most",
        "picked",
        "price",
    ]
    assert instance.values[total] == tuple(range(2 - 4, 8 - 1 + 10 + 1))
    for x in itertools.product((1, 2, 4), (1, 2, 4), (1, 2, 4), (0, 1)):
        low, high = min(x[:2]), max(x[1:3])
        amount = 2 * x[0] - x[1] + 10 * (x[2] == 4)
        answer = {
            "a": x[0], "b": x[1], "c": x[2], "total": amount, "large": int(amount >= 5), "least": low, "most": high,
            "pick": ("first", "second")[x[3]], "picked": (low, high)[x[3]], "price": (30, 20)[x[3]],
        }  # fmt: skip
        values = [instance.values[i].index(answer[label]) for i, label in enumerate(instance.labels)]
        assert instance.verify(values).satisfied
        for wrong in (least, most, large):
            changed = [
                (value + 1) % instance.domain_sizes[i] if i == wrong else value for i, value in enumerate(values)
            ]
            assert not instance.verify(changed).satisfied


def test_objectives_and_soft_constraints():
    problem, (a, b, c) = three()
    problem.maximize([(3, a), (-0.5, b), (10, c, 2)])
    problem.clause([(a, 1), (b, 1)], weight=4)
    problem.clause([(a, 4)], weight=7)
    problem.different([a, b], weight=2)
    problem.add(Count([[a], [b]], [0, 0], [1, 1], [1, 1]), weight=[1, 3])
    found = valid(problem)
    assert len(found) == 27, "soft constraints forbid nothing"
    for x, objective in found.items():
        costs = 4 * (1 not in x[:2]) + 7 * (x[0] != 4) + 2 * (x[0] == x[1]) + 1 * (x[0] != 1) + 3 * (x[1] != 1)
        assert objective == 3 * x[0] - 0.5 * x[1] + 10 * (x[2] == 2) - costs
    alone = Problem()
    alone.clause([(alone.variable("x"), 1)], weight=2)
    assert valid(alone) == {(0,): 2.0, (1,): 0.0}, "without an objective the costs are to be minimised"


def test_givens_and_names():
    problem = Problem("toy", "one")
    problem.variable("x", ["low", "high"], given="high")
    instance = problem.instance()
    assert (instance.problem, instance.name, dict(instance.givens)) == ("toy", "one", {0: 1})
    assert instance.objective is None


def test_it_survives_json():
    problem, (a, b, _) = three()
    problem.truth("t", [(1, a), (1, b)], low=4)
    problem.clause([(a, 2), (b, 2)], weight=0.5)
    problem.minimize([(1, a)])
    written = to_json(problem.instance())
    assert to_json(from_json(written)) == written


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda p: p.clause([(0, 3)]), "'a' has no value 3; expected one of 1, 2, 4"),
        (lambda p: p.variable("d", ["x"], given="y"), "'d' has no value 'y'; expected one of 'x'"),
        (lambda p: p.minimize([(1, 0, 9)]), "'a' has no value 9"),
        (lambda p: p.table([0, 1], [(1, 2, 3)]), "argument 2 is longer|zip"),
        (lambda p: p.clause([(0, 1)], weight=-1), "the weight of sum must be above 0, got -1"),
        (lambda p: p.variable("a"), "labels must differ, got 'a' twice"),
    ],
)
def test_mistakes_are_named(act, message):
    problem, _ = three()

    def build() -> None:
        act(problem)
        problem.instance()

    with pytest.raises(ValueError, match=message):
        build()


def test_it_is_solved_and_proved():
    """A knapsack with a wish: items of weights 3, 4, 5 and 6 in a bag for 10."""
    bag = blogdit.Problem("bag")
    items = [bag.variable(("item", weight), ["out", "in"]) for weight in (3, 4, 5, 6)]
    load = bag.total("load", [(weight, item, "in") for weight, item in zip((3, 4, 5, 6), items, strict=True)])
    bag.sum([(1, load)], high=10)
    bag.clause([(items[1], "out")], weight=2)
    bag.maximize([(1, load)])
    (result,) = blogdit.solve(bag.instance(), steps=5)
    assert (result.status, result.objective) == ("optimal", 9.0)  # 3 + 6; with 4 + 6 the wish would cost 2
    assert result.answer == {("item", 3): "in", ("item", 4): "out", ("item", 5): "out", ("item", 6): "in", "load": 9}
