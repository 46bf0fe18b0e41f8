"""Small instances of every kind of constraint, and every assignment of them."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import strategies as st

from blogdit.core.constraints import AllDifferent, Conflict, Count, Function, Linear, NotEqual, Sum, Table
from blogdit.core.instance import Instance, Objective
from test_constraints import all_different, conflict, count, function, linear, not_equal, sums, table

KINDS = {
    "all_different": all_different,
    "not_equal": not_equal,
    "conflict": conflict,
    "linear": linear,
    "count": count,
    "sum": sums,
    "function": function,
    "table": table,
}
DOMAINS = st.lists(st.integers(1, 3), min_size=2, max_size=4)


@st.composite
def objectives(draw, domains, soft=()):
    """Terms of all kinds with whole weights, so that sums are exact; soft constraints of the kinds that are named."""
    n = len(domains)
    variables = st.integers(0, n - 1)
    pairs = st.permutations(range(n)).map(lambda order: order[:2])
    weights = st.integers(-4, 4)
    unary, differ, pairwise = [], [], []
    for _ in range(draw(st.integers(0, 3))):
        i = draw(variables)
        unary.append((i, draw(st.integers(0, domains[i] - 1)), draw(weights)))
    for _ in range(draw(st.integers(0, 3))):
        differ.append((*draw(pairs), draw(weights)))
    for _ in range(draw(st.integers(0, 3))):
        i, j = draw(pairs)
        values = [draw(st.integers(0, domains[v] - 1)) for v in (i, j)]
        pairwise.append((i, j, *values, draw(weights)))
    linear = draw(st.lists(st.tuples(variables, weights), max_size=2))
    chosen = draw(st.lists(st.sampled_from(list(soft)), max_size=2)) if soft else []
    groups = [draw(KINDS[kind](domains))[0] for kind in chosen]
    return Objective(
        draw(st.sampled_from(["minimize", "maximize"])),
        [row[:-1] for row in unary],
        [row[-1] for row in unary],
        [row[:-1] for row in differ],
        [row[-1] for row in differ],
        [row[:-1] for row in pairwise],
        [row[-1] for row in pairwise],
        [row[0] for row in linear],
        [row[1] for row in linear],
        [(group, draw(st.integers(1, 4))) for group in groups],
    )


@st.composite
def instances(draw, kinds=tuple(KINDS), objective=None, sizes=DOMAINS):
    """Small instances with one group of some of the kinds; half of them have numbers of their own. `objective` is True,
    False, or None for either."""
    domains = draw(sizes)
    chosen = draw(st.lists(st.sampled_from(list(kinds)), min_size=1, max_size=3, unique=True))
    groups = tuple(draw(KINDS[kind](domains))[0] for kind in chosen)
    wanted = draw(st.booleans()) if objective is None else objective
    goal = draw(objectives(domains, kinds)) if wanted else None
    givens = {i: draw(st.integers(0, size - 1)) for i, size in enumerate(domains) if draw(st.integers(0, 4)) == 0}
    numbers = draw(st.none() | st.permutations([-3, 0, 1, 4]))  # with gaps, in any order; the same for all variables
    values = None if numbers is None else [numbers[:size] for size in domains]
    return Instance(np.array(domains), groups, goal, givens, values=values)


def zoo() -> list[Instance]:
    """Hand-made instances of different sizes, domains and kinds; two have an objective, the last no constraints."""
    return [
        Instance(
            np.array([3, 3, 3, 2]),
            (AllDifferent([[0, 1, 2]]), NotEqual([[2, 3]]), Count([[0, 1, 3]], [1], [1], [2])),
            givens={1: 2},
        ),
        Instance(
            np.array([2, 2]),
            (Conflict([[0, 1]], (1, 1)),),
            Objective("maximize", unary=[[0, 1], [1, 1]], unary_weights=[2.0, 3.0]),
        ),
        Instance(
            np.array([5, 1, 4, 3, 2]),
            (Linear([[0, 2, 3]], [[1, -2, 3]], ["<="], [2]), Table([[3, 4]], [[0, 1], [2, 0]]), NotEqual([[0, 4]])),
        ),
        Instance(
            np.array([2, 3, 2]),
            (Table([[0, 1, 2]], [[0, 2, 1], [1, 1, 1]]), AllDifferent([[0, 2], [1]])),
            Objective(
                "minimize", differ=[[0, 1]], differ_weights=[1.5], pairwise=[[1, 2, 0, 1]], pairwise_weights=[-2]
            ),
        ),
        Instance(
            np.array([3, 4, 2, 3]),
            (
                Sum([[0, 1, 1]], [[2, 1, -1]], [[1, -1, 3]], [1], [None], [[2, 1, 0]]),
                Sum([[1, 3]], low=[2], when=[[2, 1]], exactly=True),
                Function("max", [1], [[0, 3]]),
                Function("element", [3], [[2, 0, 1]]),
                AllDifferent([[0, 1, 3]], [[0, 1, -1]]),
            ),
        ),
        Instance(np.array([4, 4, 4])),
    ]


def assignments(instance: Instance) -> np.ndarray:
    """Every assignment within the domains, (number, n)."""
    return np.array(list(itertools.product(*(range(size) for size in instance.domain_sizes))), np.int64)


def solvable(instance: Instance) -> bool:
    """By trying everything."""
    return any(instance.verify(values).satisfied for values in assignments(instance))
