"""Givens of largest and smallest ones, against enumeration: what is left out is impossible, what is told is true."""

from __future__ import annotations

import numpy as np
import pytest

from blogdit.core.constraints import Function
from blogdit.core.instance import Instance
from blogdit.core.objective import Objective
from blogdit.method.rules import LARGEST, SMALLEST, SUM
from test_rules import assignments, literals_of, meets, rules_of


def draw(seed: int) -> Instance:
    """Three members and a result with numbers of their own; some of them are given."""
    rng = np.random.default_rng(seed)
    values = [sorted(rng.choice(6, int(rng.integers(2, 5)), replace=False).tolist()) for _ in range(4)]
    givens = {i: int(rng.integers(len(values[i]))) for i in range(4) if rng.random() < 0.4}
    which = "max" if seed % 2 else "min"
    return Instance([len(row) for row in values], [Function(which, [3], [[0, 1, 2]])], givens=givens, values=values)


@pytest.mark.parametrize("seed", range(200))
def test_what_is_told_beside_givens_is_true(seed):
    """Every valid assignment has open literals only and meets the rules. With a given result nothing else does."""
    instance = draw(seed)
    literals, width = literals_of(instance), int(instance.domain_sizes.max())
    valid, met = set(), set()
    for x in assignments(instance):
        if instance.verify(x).satisfied:
            valid.add(x)
        if meets(literals, 0, {i * width + value for i, value in enumerate(x) if i not in instance.givens}):
            met.add(x)
    assert valid <= met
    if valid and 3 in instance.givens:
        assert valid == met


def test_a_given_member_is_a_floor():
    """r = max(x, y), both of 0..3, beside a given 2: r is 2 or 3, and of y only 3 matters."""
    found = rules_of(literals_of(Instance([4, 4, 4], [Function("max", [2], [[0, 1]])], givens={0: 2})))
    assert [amounts for kind, amounts in found if kind == LARGEST] == [{7: 1.0, 10: -0.75, 11: -1.0}]


def test_a_given_result_is_a_clause():
    """1 = min(x, y), both of 0..2: none is 0, and one of them is 1."""
    found = rules_of(literals_of(Instance([3, 3, 3], [Function("min", [2], [[0, 1]])], givens={2: 1})))
    assert [amounts for kind, amounts in found if kind == SUM] == [{1: 1.0, 4: 1.0}]
    assert not any(kind == SMALLEST for kind, _ in found)
    both = Instance([3, 3, 3], [Function("min", [2], [[0, 1]])], givens={0: 1, 2: 1})
    assert not any(kind in (SMALLEST, SUM) for kind, _ in rules_of(literals_of(both)))


def test_a_soft_one_rules_nothing_out():
    goal = Objective("minimize", soft=[(Function("max", [2], [[0, 1]]), 1)])
    assert int(literals_of(Instance([3, 3, 3], [], goal, givens={0: 2})).real.sum()) == 6
