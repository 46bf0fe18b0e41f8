"""What the values of variables are called, and which constraints use it."""

from __future__ import annotations

import itertools
import pickle

import numpy as np
import pytest

from blogdit.core.constraints import AllDifferent, Function, Linear, NotEqual, Sum
from blogdit.core.domains import Domains
from blogdit.core.instance import Instance, Objective
from blogdit.core.result import Result
from blogdit.formats import from_json, to_json


def test_numbers_with_an_offset_and_gaps():
    """Hours 8, 12 and 16: sums, bounds and objectives are in hours."""
    rule = Linear([[0, 1]], [[1, 1]], ["<="], [24])
    goal = Objective("maximize", linear=[0, 1], linear_weights=[1, 2])
    instance = Instance([3, 3], (rule,), goal, values=[8, 12, 16])
    for x in itertools.product(range(3), repeat=2):
        hours = [(8, 12, 16)[value] for value in x]
        verdict = instance.verify(x)
        assert verdict.satisfied == (sum(hours) <= 24)
        assert verdict.objective == hours[0] + 2 * hours[1]


def test_values_are_compared_by_what_they_mean():
    """2 in 1..3 and 2 in 2..4 are the same; names are the same if they read the same."""
    numbers = Instance([3, 3], (AllDifferent([[0, 1]]),), values=[[1, 2, 3], [2, 3, 4]])
    assert [numbers.verify(x).satisfied for x in ((1, 0), (1, 1), (0, 0))] == [False, True, True]
    names = Instance([2, 3], (AllDifferent([[0, 1]]),), values=[["b", "a"], ["a", "b", "c"]])
    assert [names.verify(x).satisfied for x in ((0, 1), (0, 0), (1, 0))] == [False, True, False]
    mixed = Instance([2, 2], (AllDifferent([[0, 1]]),), values=[["b", 7], [7, 8]])
    assert [mixed.verify(x).satisfied for x in ((0, 0), (1, 0), (1, 1))] == [True, False, True]


def test_queens_need_two_groups_with_offsets():
    """Of the 40,320 permutations of 8 rows, 92 have no two queens on a diagonal."""
    scope = [list(range(8))]
    groups = (AllDifferent(scope), AllDifferent(scope, [list(range(8))]), AllDifferent(scope, [list(range(0, -8, -1))]))
    board = Instance([8] * 8, groups)
    perms = (np.array(order) for order in itertools.permutations(range(8)))
    assert sum(not any(group.violations(order).any() for group in groups) for order in perms) == 92
    assert board.verify([0, 4, 7, 5, 2, 6, 1, 3]).satisfied
    assert not board.verify([0, 1, 2, 3, 4, 5, 6, 7]).satisfied


def test_one_list_serves_all_variables():
    shared = Instance([2, 2], values=["no", "yes"])
    assert shared.values == (("no", "yes"), ("no", "yes"))
    assert Instance([2], values=np.array([3, 5])).values == ((3, 5),)
    assert Instance([2, 3], values=[range(2), np.array([4, 5, 6])]).values == ((0, 1), (4, 5, 6))
    assert Instance([2], values=[[1.0, 2.5]]).values == ((1, 2.5),), "a whole number is one, however it is written"
    assert to_json(shared)["values"] == ["no", "yes"]
    twin = pickle.loads(pickle.dumps(shared))
    assert (twin.values, from_json(to_json(shared)).values) == (shared.values, shared.values)


def test_answers_have_names():
    instance = Instance([2, 2], labels=["Ann", "Ben"], values=[["early", "late"], [8, 16]])
    assert Result(instance, np.array([1, 0])).answer == {"Ann": "late", "Ben": 8}
    assert Result(Instance([2, 2]), np.array([1, 0])).answer == {0: 1, 1: 0}


def test_codes_of_names_are_beyond_numbers():
    domains = Domains([2, 3], [["a", "b"], [-5, 0, 9]])
    assert domains.are_numbers.tolist() == [False, True]
    assert domains.of(1).tolist() == [-5, 0, 9]
    assert domains.of(0).min() > domains.of(1).max()
    assert domains.numbers(np.array([7, -3]))[1] == -5, "outside a domain, the nearest inside"


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Instance([2], values=[["a", "b", "c"]]), "3 names for the 2 values of variable 0"),
        (lambda: Instance([2, 2], values=[[0, 1]]), "values must have one list for each variable: 1 for 2"),
        (lambda: Instance([2], values=[["a", "a"]]), r"values\[0\] must differ, got 'a' twice"),
        (lambda: Instance([2], values=[[1, 1.0]]), r"values\[0\] must differ, got 1 twice"),
        (lambda: Instance([2], values=["ab", [0, 1]]), r"values\[0\] must be a list of numbers or names, got 'ab'"),
        (lambda: Instance([1], values=[[None]]), r"values\[0\] must hold numbers and names, got None"),
        (lambda: Instance([1], values=[[float("nan")]]), r"values\[0\] must hold numbers and names, got nan"),
        (lambda: Instance([1], values=[[2**40]]), r"values\[0\] must lie in"),
        (
            lambda: Instance([2, 2], (NotEqual([[0, 1]]),), values=[[0, 1], [1, 2]]),
            "not_equal needs variables with the same values, got 0 and 1; AllDifferent does not",
        ),
        (
            lambda: Instance(
                [2, 2], (), Objective("maximize", differ=[[0, 1]], differ_weights=[1]), values=[[0, 1], [1, 2]]
            ),
            "objective differ needs variables with the same values",
        ),
        (
            lambda: Instance([2], (Linear([[0]], [[1]], ["<="], [1]),), values=["a", "b"]),
            "linear needs whole numbers, got 'a' among the values of variable 0",
        ),
        (lambda: Instance([2], (Sum([[0]], low=[0]),), values=[0.5, 1]), "sum needs whole numbers, got 0.5"),
        (lambda: Instance([2, 2], (Function("max", [0], [[1]]),), values=["a", "b"]), "function needs whole numbers"),
        (
            lambda: Instance([2, 2], (AllDifferent([[0, 1]], [[0, 1]]),), values=["a", "b"]),
            "all_different with offsets needs whole numbers",
        ),
        (
            lambda: Instance([2], (), Objective("minimize", linear=[0], linear_weights=[1]), values=["a", "b"]),
            "objective linear needs whole numbers",
        ),
    ],
)
def test_values_that_do_not_fit_are_refused(build, message):
    with pytest.raises(ValueError, match=message):
        build()


def test_names_are_fine_where_nothing_is_added():
    rule = Sum([[0, 1]], equals=[[0, 1]], low=[1])  # x0 = a or x1 = b
    instance = Instance([2, 2], (rule, NotEqual([[0, 1]])), values=["a", "b"])
    assert instance.verify([0, 1]).satisfied
    assert not instance.verify([1, 0]).satisfied
