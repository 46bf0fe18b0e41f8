"""Independent sets by swaps: against enumeration, from the definition, and the kernel takes the same steps."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from blogdit.core.constraints import Conflict, NotEqual
from blogdit.core.instance import Instance, Objective
from blogdit.finishers import Deadline, Task, swaps
from blogdit.finishers.swaps import Swaps, graph_of, starting_sets, without_conflicts
from blogdit.finishers.swaps_walker import BITS, HALF, ONE, OUT, Walker, first_order
from blogdit.problems import generate, maxcut, mis
from blogdit.problems.graphs import random_graph

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def graph(vertices: int, share: float, seed: int = 0) -> Instance:
    return mis.build(random_graph(vertices, share, np.random.default_rng(seed)))


def largest(instance: Instance) -> float:
    """By enumeration."""
    verdicts = (instance.verify(np.array(x)) for x in itertools.product((0, 1), repeat=instance.size))
    return max(verdict.objective for verdict in verdicts if verdict.satisfied)


def from_nothing(instance: Instance) -> Walker:
    return Walker(graph_of(instance), np.zeros(instance.size, bool), first_order(instance.size, 0, seed=0))


@given(st.integers(1, 11), st.floats(0, 1), st.integers(0, 10**6), st.integers(0, 60))
@settings(max_examples=100, deadline=None)
def test_weights_and_loads_follow_the_steps(vertices, share, seed, steps):
    """A key has the weight of the conflicts with the set; weights are symmetric and at least 1 where there is a pair;
    the best set has no conflict; a set is at most one larger than the best between steps."""
    instance = graph(vertices, share, seed)
    walker, near = from_nothing(instance), graph_of(instance).near
    for _ in range(steps):
        before = len(walker.best)
        walker.take(1)
        members = walker.members[: walker.count]
        weights = walker.weights // ONE
        assert len(set(members.tolist())) == walker.count <= len(walker.best) + 1
        inside = np.zeros(vertices, bool)
        inside[members] = True
        key = walker.key - OUT * inside
        assert ((key + HALF) >> BITS).tolist() == weights[inside].sum(0).tolist()
        assert np.array_equal(weights, weights.T)
        assert np.array_equal(weights > 0, near)
        assert not near[np.ix_(walker.best, walker.best)].any()
        assert before <= len(walker.best)


@pytest.mark.parametrize("seconds", [float("inf"), 1.2])
def test_small_graphs_are_solved(seconds, ticking):
    chosen = [graph(n, share, n) for n, share in ((1, 0.5), (2, 1.0), (9, 0.0), (9, 0.3), (11, 0.5), (12, 0.8))]
    tasks = [Task(one, np.random.default_rng(0).integers(0, 2, (3, one.size))) for one in chosen]
    for one, finish in zip(chosen, Swaps(DEVICE).finish(tasks, Deadline(seconds), seed=0), strict=True):
        verdict = one.verify(finish.values)
        assert verdict.satisfied
        assert verdict.objective == largest(one)


def test_conflicts_of_a_start_are_taken_out():
    instance = graph(30, 0.4)
    near = graph_of(instance).near
    draws = np.random.default_rng(0)
    for _ in range(20):
        chosen = draws.random(30) < 0.5
        kept = without_conflicts(near, chosen)
        assert not near[np.ix_(kept, kept)].any()
        assert not (kept & ~chosen).any()
    independent = without_conflicts(near, np.ones(30, bool))
    assert np.array_equal(without_conflicts(near, independent), independent)


def test_the_largest_sets_go_first():
    one = graph_of(graph(6, 0.0))
    states = np.array([[1, 0, 0, 0, 0, 0], [1, 1, 1, 0, 0, 0], [1, 1, 0, 0, 0, 0]])
    assert starting_sets(one, states, 4).sum(1).tolist() == [3, 2, 1, 0]
    assert starting_sets(one, states, 2).sum(1).tolist() == [3, 1], "of the first two states"


def test_seeds_and_walkers_have_their_own_order():
    orders = {tuple(first_order(20, walker, seed)) for walker in range(3) for seed in (0, 1, 1 << 40)}
    assert len(orders) == 9
    assert all(sorted(order) == list(range(-20, 0)) for order in orders)


def test_a_variable_given_as_0_stays_out():
    plain = graph(10, 0.2, 5)
    some = Instance(plain.domain_sizes, plain.constraints, givens={2: 0, 7: 0}, objective=plain.objective)
    assert Swaps(DEVICE).supports(some)
    (finish,) = Swaps(DEVICE).finish([Task(some, np.ones((2, 10), int))], Deadline(), seed=0)
    assert some.verify(finish.values).satisfied
    assert some.verify(finish.values).objective == largest(some)


def test_what_it_supports():
    edges = [[0, 1], [1, 2]]
    one_each = Objective("maximize", unary=[[v, 1] for v in range(3)], unary_weights=[1.0] * 3)
    supports = Swaps("cpu").supports
    assert supports(graph(6, 0.5))
    fewest = Objective("minimize", unary=[[v, 0] for v in range(3)], unary_weights=[2.0] * 3)
    assert supports(Instance([2] * 3, (Conflict(edges, (1, 1)),), objective=fewest))
    for other in (
        generate("mis", 1, weighted=True)[0],
        maxcut.build(random_graph(6, 0.5, np.random.default_rng(0))),
        Instance([2] * 3, (Conflict(edges, (1, 0)),), objective=one_each),
        Instance([2] * 3, (NotEqual(edges),), objective=one_each),
        Instance([2] * 3, (Conflict(edges, (1, 1)),), givens={0: 1}, objective=one_each),
        Instance([2, 2, 3], (Conflict(edges, (1, 1)),), objective=one_each),
        Instance([2] * 3, (Conflict(edges, (1, 1)),)),
        Instance([2] * 3, (Conflict(edges, (1, 1)),), objective=Objective("minimize", one_each.unary, [1.0] * 3)),
        graph(swaps.MOST_VARIABLES["cpu"] + 1, 0.0),
    ):
        assert not supports(other)


def test_steps_end_before_their_numbers_do(monkeypatch):
    """A key has 31 bits for the step: it ends before a deadline that is far away."""
    monkeypatch.setattr(swaps, "MOST_STEPS", 300)
    instance = graph(40, 0.3)
    (finish,) = Swaps(DEVICE).finish([Task(instance, np.zeros((1, 40), int))], Deadline(1000.0), seed=0)
    assert instance.verify(finish.values).satisfied


@pytest.mark.parametrize(("vertices", "share"), [(1, 0.0), (5, 1.0), (17, 0.3), (30, 0.3), (40, 0.7)])
def test_the_kernel_takes_the_same_steps(vertices, share):
    """The same sets, loads, steps of change and weights, in stretches or at once; in Triton's interpreter where there
    is no GPU."""
    kernel = pytest.importorskip("blogdit.finishers.swaps_kernel")
    chosen = [graph(vertices, share, 1), graph(max(vertices - 2, 1), share, 2)]
    graphs, draws = [graph_of(one) for one in chosen], np.random.default_rng(0)
    sets = [starting_sets(one, draws.integers(0, 2, (2, one.size)), 3) for one in graphs]
    rows = kernel.KernelWalkers(graphs, sets, vertices, DEVICE, seed=7)
    walkers = [
        [Walker(one, chosen, first_order(one.size, chain, 7)) for chain, chosen in enumerate(some)]
        for one, some in zip(graphs, sets, strict=True)
    ]
    for steps in (1, 2, 30):
        rows.take(steps)
        for walker in itertools.chain(*walkers):
            walker.take(steps)
    for place, chain in itertools.product(range(2), range(3)):
        walker, row, size = walkers[place][chain], chain * 2 + place, graphs[place].size
        inside = np.zeros(size, np.int64)
        inside[walker.members[: walker.count]] = 1
        assert rows.x[row, :size].tolist() == inside.tolist()
        key = walker.key - OUT * inside
        assert rows.load[row, :size].tolist() == ((key + HALF) >> BITS).tolist()
        since = key - ((key + HALF) >> BITS) * ONE
        assert rows.since[row, :size].tolist() == np.where(inside, -since, since).tolist()
        assert rows.best_x[row, :size].tolist() == walker.answers()[0].tolist()
        assert np.array_equal(rows.weights[row, :size, :size].cpu().numpy(), walker.weights // ONE)
    best = [max(some, key=lambda walker: len(walker.best)).answers()[0] for some in walkers]
    assert all(np.array_equal(found, expected) for found, expected in zip(rows.answers(), best, strict=True))
