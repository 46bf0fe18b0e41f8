"""Each constraint kind against its definition, on every assignment of small random instances."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blogdit.core.arrays import integers
from blogdit.core.constraints import AllDifferent, Conflict, Count, Function, Linear, NotEqual, Scopes, Sum, Table
from blogdit.core.instance import Instance

DOMAINS = st.lists(st.integers(1, 3), min_size=2, max_size=5)


def scopes_of(draw, count, width=None):
    """One to three scopes of different variables."""
    size = st.integers(1, count) if width is None else st.just(width)
    variables = st.permutations(range(count))
    return [draw(variables)[: draw(size)] for _ in range(draw(st.integers(1, 3)))]


@st.composite
def all_different(draw, domains):
    scopes = scopes_of(draw, len(domains))
    if draw(st.booleans()):
        return AllDifferent(scopes), lambda x: [
            sum(n - 1 for n in Counter(x[i] for i in scope).values()) for scope in scopes
        ]
    offsets = [[draw(st.integers(-2, 2)) for _ in scope] for scope in scopes]
    rows = [list(zip(scope, offset, strict=True)) for scope, offset in zip(scopes, offsets, strict=True)]
    return AllDifferent(scopes, offsets), lambda x: [
        sum(n - 1 for n in Counter(x[i] + o for i, o in row).values()) for row in rows
    ]


@st.composite
def not_equal(draw, domains):
    pairs = scopes_of(draw, len(domains), 2)
    return NotEqual(pairs), lambda x: [int(x[i] == x[j]) for i, j in pairs]


@st.composite
def conflict(draw, domains):
    pairs = scopes_of(draw, len(domains), 2)
    values = [[draw(st.integers(0, domains[i] - 1)) for i in pair] for pair in pairs]
    return Conflict(pairs, values), lambda x: [
        int(x[i] == a and x[j] == b) for (i, j), (a, b) in zip(pairs, values, strict=True)
    ]


@st.composite
def linear(draw, domains):
    scopes = scopes_of(draw, len(domains))
    coefficients = [[draw(st.integers(-3, 3)) for _ in scope] for scope in scopes]
    relations = [draw(st.sampled_from(["<=", "=", ">="])) for _ in scopes]
    bounds = [draw(st.integers(-5, 5)) for _ in scopes]

    def distance(x, scope, row, relation, bound):
        total = sum(c * x[i] for c, i in zip(row, scope, strict=True))
        allowed = {"<=": total <= bound, "=": total == bound, ">=": total >= bound}[relation]
        return 0 if allowed else abs(total - bound)

    rows = list(zip(scopes, coefficients, relations, bounds, strict=True))
    return Linear(scopes, coefficients, relations, bounds), lambda x: [distance(x, *row) for row in rows]


@st.composite
def count(draw, domains):
    scopes = scopes_of(draw, len(domains))
    values = [draw(st.integers(0, max(domains) - 1)) for _ in scopes]
    bounds = [sorted(draw(st.tuples(st.integers(0, 4), st.integers(0, 4)))) for _ in scopes]

    def distance(x, scope, value, bound):
        number = sum(x[i] == value for i in scope)
        return min(abs(number - allowed) for allowed in range(bound[0], bound[1] + 1))

    rows = list(zip(scopes, values, bounds, strict=True))
    low, high = zip(*bounds, strict=True)
    return Count(scopes, values, low, high), lambda x: [distance(x, *row) for row in rows]


@st.composite
def table(draw, domains):
    width = draw(st.integers(1, len(domains)))
    scopes = scopes_of(draw, len(domains), width)
    rows = st.lists(st.integers(0, max(domains) - 1), min_size=width, max_size=width)
    tuples = draw(st.lists(rows, min_size=1, max_size=4))
    return Table(scopes, tuples), lambda x: [int([x[i] for i in scope] not in tuples) for scope in scopes]


@st.composite
def sums(draw, domains):
    """Literals and numbers, the same variable more than once, bounds on both sides, one or none; conditions."""
    variables = st.integers(0, len(domains) - 1)
    scopes = [draw(st.lists(variables, min_size=1, max_size=4)) for _ in range(draw(st.integers(1, 3)))]
    weights = [[draw(st.integers(-3, 3)) for _ in scope] for scope in scopes]
    equals = [[draw(st.integers(-1, domains[i] - 1)) for i in scope] for scope in scopes]
    bounds = [sorted(draw(st.tuples(st.integers(-5, 5), st.integers(-5, 5)))) for _ in scopes]
    sides = [draw(st.sampled_from([(0, 1), (0,), (1,)])) for _ in scopes]
    low, high = (
        [bound[side] if side in kept else None for bound, kept in zip(bounds, sides, strict=True)] for side in (0, 1)
    )
    when, exactly = None, False
    if draw(st.booleans()):
        chosen = [draw(variables) for _ in scopes]
        when = [(i, draw(st.integers(0, domains[i] - 1)), draw(st.integers(0, 1))) for i in chosen]
        exactly = draw(st.booleans())

    def distance(x, index):
        terms = zip(scopes[index], weights[index], equals[index], strict=True)
        total = sum(w * (x[i] if a < 0 else int(x[i] == a)) for i, w, a in terms)
        allowed = [
            t
            for t in range(-60, 60)
            if (low[index] is None or t >= low[index]) and (high[index] is None or t <= high[index])
        ]
        if when is not None and (x[when[index][0]] == when[index][1]) != bool(when[index][2]):
            allowed = [t for t in range(-60, 60) if t not in allowed] if exactly else [total]
        return min(abs(total - t) for t in allowed)

    group = Sum(scopes, weights, equals, low, high, when, exactly)
    return group, lambda x: [distance(x, index) for index in range(len(scopes))]


@st.composite
def function(draw, domains):
    which = draw(st.sampled_from(["min", "max", "element"]))
    variables = st.integers(0, len(domains) - 1)
    scopes = [draw(st.lists(variables, min_size=1, max_size=3)) for _ in range(draw(st.integers(1, 3)))]
    if which == "element":
        indices = [draw(variables) for _ in scopes]
        scopes = [[i, *(draw(variables) for _ in range(domains[i] + draw(st.integers(0, 1))))] for i in indices]
    results = [draw(variables) for _ in scopes]

    def wanted(x, scope):
        if which == "element":
            return x[scope[1 + x[scope[0]]]]
        return (min if which == "min" else max)(x[i] for i in scope)

    rows = list(zip(results, scopes, strict=True))
    return Function(which, results, scopes), lambda x: [abs(x[result] - wanted(x, scope)) for result, scope in rows]


EVERY = (all_different, not_equal, conflict, linear, count, sums, function, table)


@pytest.mark.parametrize("kind", EVERY)
def test_check_agrees_with_enumeration(kind):
    """Violation amounts, and whether the instance is satisfied, equal the definition for all assignments."""

    @settings(max_examples=100, deadline=None)
    @given(st.data())
    def agrees(data):
        domains = data.draw(DOMAINS)
        group, definition = data.draw(kind(domains))
        instance = Instance(np.array(domains), (group,))
        for x in itertools.product(*map(range, domains)):
            expected = definition(x)
            assert group.violations(np.array(x)).tolist() == expected
            verdict = instance.verify(np.array(x))
            assert verdict.satisfied == (not any(expected))
            assert verdict.violated == sum(amount > 0 for amount in expected)
            found = [(v.kind, v.variables, v.amount) for v in verdict.violations()]
            assert found == [
                (group.kind, tuple(group.scope(j).tolist()), amount) for j, amount in enumerate(expected) if amount
            ]

    agrees()


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_groups_of_all_kinds_together(data):
    """An instance with every kind at once is satisfied exactly by the assignments that satisfy each."""
    domains = data.draw(DOMAINS)
    drawn = [data.draw(kind(domains)) for kind in EVERY]
    instance = Instance(np.array(domains), tuple(group for group, _ in drawn))
    for x in itertools.product(*map(range, domains)):
        expected = sum(amount > 0 for _, definition in drawn for amount in definition(x))
        assert instance.verify(np.array(x)).violated == expected


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: AllDifferent([[0, 1], []]), r"scopes\[1\] is empty"),
        (lambda: AllDifferent([[0, 1, 0]]), r"scopes\[0\] names variable 0 twice"),
        (lambda: NotEqual([[0, 0]]), r"pairs\[0\] joins variable 0 with itself"),
        (lambda: NotEqual([[0, 1, 2]]), r"pairs must have shape \(m, 2\)"),
        (lambda: NotEqual([[0.5, 1]]), "pairs must hold integers"),
        (lambda: NotEqual([[0, 1], [2]]), "pairs must be a rectangular array"),
        (lambda: Conflict([[0, 1]], [[0, 0], [1, 1]]), "values must have one row per pair"),
        (lambda: Linear([[0, 1]], [[1]], ["<="], [1]), "coefficients must have one number"),
        (lambda: Linear([[0]], [[1]], ["<"], [1]), "relations must be one of"),
        (lambda: Linear([[0]], [[1]], ["<="], [1, 2]), "bounds must have one entry per scope"),
        (lambda: Count([[0]], [0], [2], [1]), "low must not exceed high"),
        (lambda: Table([[0, 1]], np.zeros((0, 2), int)), "at least one allowed tuple"),
        (lambda: AllDifferent([[0, 1]], [[0]]), "offsets must have one number for each variable"),
        (lambda: Sum([[0, 1]], [[1]]), "weights must have one number for each variable"),
        (lambda: Sum([[0, 1]], equals=[[1]]), "equals must have one number for each variable"),
        (lambda: Sum([[0]], low=[1, 2]), "low must have one entry per scope"),
        (lambda: Sum([[0]], low=1), "low must be a list of whole numbers"),
        (lambda: Sum([[0]], low=[2], high=[1]), "low must not exceed high"),
        (lambda: Sum([[0]], low=["1"]), "low must hold integers"),
        (lambda: Sum([[0]], low=[0], when=[[0, 1], [1, 1]]), "when must have one entry per scope"),
        (lambda: Sum([[0]], low=[0], when=[[0, 1, 2]]), "the truth of `when` must lie in 0..1"),
        (lambda: Sum([[0]], low=[0], exactly=True), "exactly needs `when` and at least one bound"),
        (lambda: Sum([[0]], when=[[0, 1]], exactly=True), "exactly needs `when` and at least one bound"),
        (lambda: Function("mean", [0], [[1]]), "which must be one of min, max, element, got 'mean'"),
        (lambda: Function("max", [0, 1], [[1]]), "results must have one entry per scope"),
        (lambda: Function("element", [0], [[1]]), r"scopes\[0\] needs an index and something to choose from"),
        (lambda: integers([2**63], "x", 1), "beyond 64 bits"),
    ],
)
def test_bad_groups_are_refused_by_name(build, message):
    with pytest.raises(ValueError, match=message):
        build()


@pytest.mark.parametrize(
    "group",
    [
        AllDifferent([[0, 9]]),
        NotEqual([[0, 9]]),
        NotEqual([[0, -1]]),
        Conflict([[0, 1]], (0, 9)),
        Linear([[9]], [[1]], ["<="], [0]),
        Linear([[0]], [[2**62]], ["<="], [0]),
        Count([[0]], [9], [0], [1]),
        Sum([[9]]),
        Sum([[0]], equals=[[3]]),
        Sum([[0]], equals=[[-2]]),
        Sum([[0]], when=[[0, 3]]),
        Sum([[0]], when=[[9, 0]]),
        Sum([[0]], [[2**62]]),
        Sum([[0]], low=[2**62]),
        Function("max", [9], [[0]]),
        Function("max", [0], [[9]]),
        Function("element", [0], [[1, 2, 0]]),
        Table([[0]], [[9]]),
    ],
)
def test_groups_that_do_not_fit_the_variables(group):
    with pytest.raises(ValueError, match=f"^{group.kind} "):
        Instance(np.array([3, 3, 3]), (group,))


def test_arrays_are_copied_unless_read_only_already():
    """A caller's later change reaches no constraint; a shared read-only array stays shared."""
    pairs = np.array([[0, 1], [1, 2]])
    group = NotEqual(pairs)
    pairs[0, 1] = 2
    assert group.pairs.tolist() == [[0, 1], [1, 2]]
    with pytest.raises(ValueError, match="read-only"):
        group.pairs[0, 0] = 5
    assert NotEqual(group.pairs).pairs is group.pairs
    view = pairs[:]
    view.setflags(write=False)
    assert integers(view, "x", 2) is not view, "the owner of a view's data could still change it"


def test_scopes_of_different_lengths():
    scopes = Scopes([[3, 1], [2], [0, 1, 2]])
    assert scopes.lengths.tolist() == [2, 1, 3]
    assert scopes[2].tolist() == [0, 1, 2]
    assert scopes.total(np.arange(6)).tolist() == [1, 2, 12]
    assert scopes.same_lists(Scopes([[3, 1], [2], [0, 1, 2]]))
    assert not scopes.same_lists(Scopes([[3, 1, 2], [0, 1, 2]]))


def test_bounds_at_the_end_of_64_bits():
    ends = np.iinfo(np.int64)
    free = Count([[0, 1], [0, 1]], [1, 1], [ends.min, 2], [2, ends.max])
    assert free.violations(np.array([1, 1])).tolist() == [0, 0]
    assert free.violations(np.array([1, 0])).tolist() == [0, 1]
    Instance(np.full(3, 2), (Linear([[0], [1], [2]], [[1 << 60]] * 3, ["<="] * 3, [0] * 3),))  # each sum fits


def test_a_table_of_no_scopes():
    assert Table([], [[0, 1]]).violations(np.array([1, 1])).tolist() == []
    assert len(Table(np.zeros((0, 2), int), [[0, 1]])) == 0
