"""Propagation never takes a value that some solution needs; what it must find is worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blogdit.core.constraints import AllDifferent, Conflict, Count, Linear, NotEqual, Table
from blogdit.core.instance import Instance
from blogdit.finishers.propagation import Propagation
from helpers import KINDS, assignments, instances


def solutions(instance):
    return [values for values in assignments(instance).tolist() if instance.verify(values).satisfied]


def left(state):
    """The values that each variable still has."""
    return [{value for value in range(mask.bit_length()) if mask >> value & 1} for mask in state.domains]


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_no_solution_is_lost(kind, data):
    """At the top, and after a value has been fixed; taking that back restores every domain."""
    instance = data.draw(instances(kinds=(kind,), objective=False))
    state, all_of_them = Propagation(instance), solutions(instance)
    if not state.settle():
        assert not all_of_them
        return
    assert all(value in domain for values in all_of_them for value, domain in zip(values, left(state), strict=True))
    before, length = list(state.domains), len(state.trail)
    variable = data.draw(st.integers(0, instance.size - 1))
    value = data.draw(st.sampled_from(sorted(left(state)[variable])))
    some = [values for values in all_of_them if values[variable] == value]
    if state.keep(variable, 1 << value) and state.settle():
        assert all(v in domain for values in some for v, domain in zip(values, left(state), strict=True))
    else:
        assert not some
    state.take_back(length)
    assert state.domains == before


@given(instance=instances(objective=False))
@settings(max_examples=60, deadline=None)
def test_where_every_variable_has_one_value_it_is_a_solution(instance):
    state = Propagation(instance)
    for variable, size in enumerate(instance.domain_sizes.tolist()):
        if not state.settle():
            return
        if not any(state.domains[variable] >> value & 1 for value in range(size)):
            return
        state.keep(variable, state.domains[variable] & -state.domains[variable])
    if state.settle():
        assert instance.verify([mask.bit_length() - 1 for mask in state.domains]).satisfied


def settled(sizes, *constraints, **givens):
    state = Propagation(Instance(np.array(sizes), constraints, givens={int(k[1:]): v for k, v in givens.items()}))
    return left(state) if state.settle() else None


def test_different_values_find_their_places():
    triple = AllDifferent([[0, 1, 2]])
    assert settled([2, 2, 3], triple) == [{0, 1}, {0, 1}, {2}], "2 has one place"
    assert settled([3, 3, 3], triple, x0=1) == [{1}, {0, 2}, {0, 2}]
    assert settled([2, 2, 2], triple) is None, "three variables, two values"


def test_pairs():
    assert settled([3, 3], NotEqual([[0, 1]]), x1=2) == [{0, 1}, {2}]
    assert settled([3, 3], Conflict([[0, 1]], (1, 2)), x0=1) == [{1}, {0, 1}]
    assert settled([3, 3], Conflict([[0, 1]], (1, 2)), x0=0) == [{0}, {0, 1, 2}]
    assert settled([1, 1], NotEqual([[0, 1]])) is None


def test_sums():
    """2x - 3y <= -5 with x, y in 0..3: y >= 2; and x + y = 6: both are 3; then 2x - 3y = -3."""
    assert settled([4, 4], Linear([[0, 1]], [[2, -3]], ["<="], [-5])) == [{0, 1, 2}, {2, 3}]
    assert settled([4, 4], Linear([[0, 1]], [[1, 1]], ["="], [6])) == [{3}, {3}]
    assert settled([4, 4], Linear([[0, 1]], [[1, -1]], [">="], [2])) == [{2, 3}, {0, 1}]
    assert settled([4, 4], Linear([[0, 1], [0, 1]], [[2, -3], [1, 1]], ["<=", "="], [-5, 6])) is None
    assert settled([4, 4], Linear([[0, 1]], [[0, 1]], ["<="], [1])) == [{0, 1, 2, 3}, {0, 1}]


def test_large_numbers_stay_small():
    """A bound far beyond the domains is not a mask of that length."""
    assert settled([3, 3], Linear([[0, 1]], [[1, 1]], ["<="], [10**15])) == [{0, 1, 2}, {0, 1, 2}]
    assert settled([9, 9], Linear([[0, 1]], [[10**12, 1]], ["="], [5 * 10**12 + 3])) == [{5}, {3}]
    assert settled([9, 9], Linear([[0, 1]], [[-(10**12), -1]], [">="], [10**15])) is None


def test_givens_may_be_of_any_kind_of_integer():
    instance = Instance(np.array([3, 3, 100]), (AllDifferent([[0, 1, 2]]),), givens={0: np.int64(1), 2: np.int64(70)})
    state = Propagation(instance)
    assert state.settle()
    assert left(state) == [{1}, {0, 2}, {70}]


def test_counts_and_tables():
    assert settled([2, 2, 2], Count([[0, 1, 2]], [1], [3], [3])) == [{1}, {1}, {1}]
    assert settled([2, 2, 2], Count([[0, 1, 2]], [1], [0], [1]), x0=1) == [{1}, {0}, {0}]
    assert settled([2, 2], Count([[0, 1]], [1], [0], [0]), x0=1) is None
    rows = Table([[0, 1]], [[0, 2], [1, 1], [1, 2]])
    assert settled([2, 3], rows) == [{0, 1}, {1, 2}]
    assert settled([2, 3], rows, x0=0) == [{0}, {2}]
    assert settled([2, 3], rows, x1=0) is None
