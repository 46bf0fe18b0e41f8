"""QUBO and Ising models: the objective is the energy, for every assignment."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blogdit.core.constraints import NotEqual
from blogdit.core.instance import Instance, Objective
from blogdit.problems import qubo
from helpers import assignments

weight = st.integers(-8, 8).map(lambda number: number / 4)


@st.composite
def coefficients(draw):
    """linear, pairs (in both orders, and twice), couplings, offset"""
    n = draw(st.integers(1, 4))
    pairs = list(itertools.permutations(range(n), 2))
    chosen = draw(st.lists(st.sampled_from(pairs), max_size=6)) if pairs else []
    values = draw(st.lists(weight, min_size=n + len(chosen), max_size=n + len(chosen)))
    return values[:n], chosen, values[n:], draw(weight)


def energy(x, linear, pairs, couplings, offset):
    return offset + np.dot(linear, x) + sum(c * x[i] * x[j] for (i, j), c in zip(pairs, couplings, strict=True))


@settings(deadline=None)
@given(coefficients())
def test_the_objective_is_the_energy_of_bits_and_of_spins(terms):
    for make, value in ((qubo.from_bits, lambda bit: bit), (qubo.from_spins, lambda bit: 2 * bit - 1)):
        instance = qubo.build(make(*terms))
        for bits in itertools.product((0, 1), repeat=len(terms[0])):
            verdict = instance.verify([*bits, 0])
            assert verdict.satisfied
            assert verdict.objective == pytest.approx(energy([value(bit) for bit in bits], *terms))
        assert not instance.verify([0] * len(terms[0]) + [1]).satisfied, "the reference is given"
        assert qubo.recognise(instance) is instance


@settings(deadline=None)
@given(coefficients())
def test_the_way_back(terms):
    for make, back in ((qubo.from_bits, qubo.Quadratic.bits), (qubo.from_spins, qubo.Quadratic.spins)):
        for form in (make(*terms), qubo.quadratic_of(qubo.build(make(*terms)))):
            linear, couplings, offset = back(form)
            for x in itertools.product((-1, 1) if make is qubo.from_spins else (0, 1), repeat=form.size):
                assert energy(x, linear, form.pairs, couplings, offset) == pytest.approx(energy(x, *terms))


@st.composite
def two_valued(draw):
    """Problems on two values with terms of all kinds, some variables known."""
    n = draw(st.integers(2, 4))
    variable, value = st.integers(0, n - 1), st.integers(0, 1)
    pair = st.tuples(variable, variable).filter(lambda pair: pair[0] != pair[1])
    givens = draw(st.dictionaries(variable, value, max_size=2))
    rows = {
        "unary": draw(st.lists(st.tuples(variable, value), max_size=4)),
        "differ": draw(st.lists(pair, max_size=4)),
        "pairwise": [(*p, *v) for p, v in draw(st.lists(st.tuples(pair, st.tuples(value, value)), max_size=4))],
    }
    weights = {f"{kind}_weights": [draw(weight) for _ in some] for kind, some in rows.items()}
    return Instance([2] * n, (), Objective(draw(st.sampled_from(["minimize", "maximize"])), **rows, **weights), givens)


@settings(deadline=None)
@given(two_valued())
def test_every_problem_on_two_values_without_constraints_is_one(instance):
    form = qubo.quadratic_of(instance)
    same = qubo.build(form)
    sign = 1 if instance.objective.sense == "minimize" else -1
    free = ~instance.is_given
    assert form.size == free.sum()
    for values in assignments(instance):
        if instance.verify(values).satisfied:
            assert same.verify([*values[free], 0]).objective == pytest.approx(sign * instance.verify(values).objective)


def test_what_is_not_quadratic_is_refused():
    goal = Objective("minimize", unary=[(0, 0)], unary_weights=[1.0])
    for wrong in (
        Instance([2, 2]),
        Instance([3, 2], (), goal),
        Instance([2, 2], (NotEqual([(0, 1)]),), goal),
    ):
        with pytest.raises(ValueError, match="a quadratic function needs domains of size 2 at most, no constraints"):
            qubo.quadratic_of(wrong)
    with pytest.raises(ValueError, match="the objective of qubo is to minimize 'differ' terms"):
        qubo.recognise(Instance([2, 2], (), goal, givens={1: 0}))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (([1.0], [(0, 0)], [1.0]), "joins variable 0 with itself"),
        (([1.0], [(0, 1)], [1.0]), "pairs must lie in 0..0"),
        (([1.0, 2.0], [(0, 1)], [float("nan")]), "couplings must be finite"),
        (([1.0, float("inf")], [], []), "linear must be finite"),
        ("text", "a QUBO must be .linear, pairs, couplings"),
    ],
)
def test_bad_coefficients(data, message):
    with pytest.raises(ValueError, match=message):
        qubo.build(data)


def test_labels_and_what_is_shown():
    form = qubo.from_bits([1, -1], [(0, 1)], [2], labels=["a", "reference"])
    instance = qubo.build(form)
    assert instance.labels == ("a", "reference", "reference_")
    assert qubo.render(instance, np.array([0, 1, 0])) == "2 variables, 1 couplings\nenergy -1\nones: reference"
