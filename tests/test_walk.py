"""Walks from the definition: energies are right after any number of moves, and the kernel takes the same ones."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import blogdit
from blogdit.core.constraints import AllDifferent, Conflict, NotEqual
from blogdit.core.instance import Instance, Objective
from blogdit.finishers import walk as module
from blogdit.finishers.polish import Pairs
from blogdit.finishers.terms import NEVER, in_units, nudge_of, scale_of
from blogdit.finishers.walk import GLANCE, Walk, can_walk
from blogdit.problems import generate, maxcut, mis
from blogdit.problems.graphs import random_graph
from helpers import instances

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def starts(chosen: list[Instance], chains: int, variables: int, seed: int = 0) -> torch.Tensor:
    """Random assignments, (chains, B, variables); givens as they are."""
    draws = np.random.default_rng(seed)
    values = np.zeros((chains, len(chosen), variables), np.int64)
    for place, one in enumerate(chosen):
        x = draws.integers(0, one.domain_sizes, (chains, one.size))
        values[:, place, : one.size] = np.where(one.is_given, one.given_values, x)
    return torch.from_numpy(values).to(DEVICE)


def expected_costs(walks: Walk, chosen: list[Instance]) -> tuple[np.ndarray, np.ndarray]:
    """Energies of the states and costs of every value, from the definition. Weights are rounded to units first, as the
    walk does, so that all sums are exact."""
    x = walks.x.view(walks.chains, walks.size, -1).cpu().numpy()
    energy = np.zeros((walks.chains, walks.size))
    costs = np.full((*x.shape, walks.width), np.nan)
    for place, one in enumerate(chosen):
        pairs = Pairs(one)
        weights, unary = (in_units(scale_of(pairs), amounts).astype(float) for amounts in (pairs.weights, pairs.unary))
        pairs.weights, pairs.unary = weights, np.where(np.isinf(pairs.unary), np.nan, unary)
        for chain in range(walks.chains):
            values = x[chain, place, : one.size]
            everyone = np.arange(one.size)
            found = pairs.costs(values)
            costs[chain, place, : one.size, : found.shape[1]] = found
            energy[chain, place] = 0.5 * (pairs.unary[everyone, values] + found[everyone, values]).sum()
    return energy.reshape(-1), costs.reshape(len(walks.x), -1)


@given(instances(kinds=("not_equal", "conflict"), objective=True), st.integers(0, 12))
@settings(max_examples=150, deadline=None)
def test_energies_and_costs_follow_the_moves(instance, moves):
    """Exactly those of the state, after any number of moves; no chain is below its best, and givens hold."""
    if not can_walk(instance, instance.size + 2):
        return
    width = int(instance.domain_sizes.max(initial=1))
    walks = Walk([instance], starts([instance], 2, instance.size + 2), width)
    before = walks.energy.clone()
    walks.run(moves)
    energy, costs = expected_costs(walks, [instance])
    assert walks.energy.tolist() == energy.tolist()
    known = ~np.isnan(costs)
    assert np.array_equal(walks.costs.cpu().numpy()[known], costs[known])
    assert (walks.best <= before).all()
    assert (walks.best <= walks.energy).all()
    x = walks.x[:, : instance.size].cpu().numpy()
    assert (x < instance.domain_sizes).all()
    assert (x[:, instance.is_given] == instance.given_values[instance.is_given]).all()
    assert (walks.x[:, instance.size :] == 0).all()


@pytest.mark.parametrize("weights", ["unit", "normal"])
def test_an_answer_does_not_depend_on_its_company(weights):
    chosen = generate("maxcut", 3, seed=3, vertices="20-30", weights=weights)
    variables = max(one.size for one in chosen)
    first = starts(chosen, 2, variables)
    together = Walk(chosen, first, 2)
    together.run(60)
    for place, one in enumerate(chosen):
        alone = Walk([one], first[:, place : place + 1], 2)
        alone.run(60)
        assert torch.equal(alone.best_x, together.best_x[place :: len(chosen)])


def test_it_stops_in_time_and_when_it_is_told():
    """It looks at the clock between moves: the third look says stop; a deadline that is over allows none."""
    chosen = generate("mis", 1, seed=3)
    walks, looks = Walk(chosen, starts(chosen, 1, chosen[0].size), 2), itertools.count(1)
    assert not walks.run(10**9, stopped=lambda: next(looks) == 3)
    seen = walks.taken
    assert seen == 2 * GLANCE or DEVICE == "cuda"
    assert not walks.run(10**9, deadline=0.0)
    assert walks.taken == seen
    assert walks.run(5)
    assert walks.taken == seen + 5


STATE = ("x", "rest", "costs", "energy", "best", "best_x", "taken")


def assert_same_walk(plain: Walk, fast: Walk) -> None:
    for name in STATE:
        assert torch.equal(torch.as_tensor(getattr(fast, name)), torch.as_tensor(getattr(plain, name))), name


def walk_with_kernel(walks: Walk, *stretches: int) -> None:
    """In Triton's interpreter where there is no GPU."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "runs_kernels", lambda device: True)
        for moves in stretches:
            walks.run(moves)


@given(instances(kinds=("not_equal", "conflict"), objective=True), st.integers(1, 8))
@settings(max_examples=40, deadline=None)
def test_the_kernels_take_the_same_moves(instance, moves):
    """The same state, bit by bit; variables of two values have a kernel of their own."""
    pytest.importorskip("triton")
    if not can_walk(instance, instance.size + 3):
        return
    width = int(instance.domain_sizes.max(initial=1))
    first = starts([instance], 2, instance.size + 3)
    plain, fast = Walk([instance], first, width), Walk([instance], first, width)
    plain._take(moves, None)
    walk_with_kernel(fast, moves - 1, 1)
    assert (fast.flips is not None) == (width == 2)
    assert_same_walk(plain, fast)


@given(instances(kinds=("not_equal", "conflict"), objective=True), st.integers(1, 12))
@settings(max_examples=60, deadline=None)
def test_numpy_takes_the_same_moves(instance, moves):
    if not can_walk(instance, instance.size + 3):
        return
    width = int(instance.domain_sizes.max(initial=1))
    first = starts([instance], 2, instance.size + 3).cpu()
    plain, fast = Walk([instance], first, width), Walk([instance], first, width)
    plain._take(moves, None)
    fast.run(moves - 1)
    fast.run(1)
    assert (fast.flips is not None) == (width == 2)
    assert_same_walk(plain, fast)


@pytest.mark.parametrize("kernel", ["for two values", "for any number"])
@pytest.mark.parametrize("weights", ["unit", "signs", "normal", "sets"])
def test_both_kernels_go_through_larger_graphs(weights, kernel, monkeypatch):
    """In tiles where that is how it works; with weights of a few bits and of many."""
    pytest.importorskip("triton")
    from blogdit.finishers import flip_kernel, walk_kernel

    monkeypatch.setattr(walk_kernel, "CELLS", 32)
    monkeypatch.setattr(walk_kernel, "NEIGHBOURS", 4)
    if kernel == "for any number":
        monkeypatch.setattr(flip_kernel, "MOST_VARIABLES", 0)
    draws = np.random.default_rng(0)
    graphs = [random_graph(n, 0.3, np.random.default_rng(n)) for n in (17, 30, 25)]
    if weights == "sets":
        chosen = [mis.build(graph) for graph in graphs]
    else:
        draw = {"unit": np.ones, "signs": lambda m: draws.choice([-1.0, 1.0], m), "normal": draws.standard_normal}
        chosen = [maxcut.build((g.vertices, g.edges, draw[weights](len(g.edges)))) for g in graphs]
    first = starts(chosen, 2, 30)
    plain, fast = Walk(chosen, first, 2), Walk(chosen, first, 2)
    plain._take(16, None)
    walk_with_kernel(fast, 16)
    assert_same_walk(plain, fast)
    if kernel == "for two values":
        in_numpy = Walk(chosen, first.cpu(), 2)
        in_numpy.run(16)
        if DEVICE == "cpu":
            assert_same_walk(plain, in_numpy)
        kind = torch.int32 if weights == "normal" else torch.int8
        assert fast.flips.table.dtype == kind


def test_weights_of_very_different_size_are_all_seen():
    """One edge of weight 10^6 among edges of weight 1: none is rounded away, and the best cut is found."""
    graph = random_graph(12, 0.5, np.random.default_rng(3))
    weights = np.ones(len(graph.edges))
    weights[4] = 1e6
    instance = maxcut.build((12, graph.edges, weights))
    pairs = Pairs(instance)
    units = in_units(scale_of(pairs), pairs.weights)
    assert (units != 0).all()
    assert np.array_equal(units / units.min(), pairs.weights / pairs.weights.min())
    walks = Walk([instance], starts([instance], 4, 12), 2)
    walks.run(300)
    best = max(instance.verify(np.array(x)).objective for x in itertools.product((0, 1), repeat=12))
    found = walks.best_x[walks.best.argmin()].cpu().numpy()
    assert instance.verify(found).objective == best


def test_a_zero_weight_changes_nothing():
    graph = random_graph(20, 0.4, np.random.default_rng(3))
    edges = np.concatenate([graph.edges, [[0, 1]]]) if [0, 1] not in graph.edges.tolist() else graph.edges
    weights = np.ones(len(edges))
    plain, zero = maxcut.build((20, edges, weights)), maxcut.build((20, edges, np.r_[weights[:-1], 0.0]))
    nudges = [nudge_of(pairs, scale_of(pairs)) for pairs in (Pairs(plain), Pairs(zero))]
    assert nudges[0] == nudges[1] > 100


@pytest.mark.parametrize("scale", [1e-305, 1e-9, 1e12, 1e300])
def test_extreme_weights_make_no_nonsense(scale):
    weights = np.array([1.0, 2.0, 3.5]) * scale
    instance = maxcut.build((3, [[0, 1], [1, 2], [0, 2]], weights))
    pairs = Pairs(instance)
    with np.errstate(all="raise", under="ignore"):
        units = in_units(scale_of(pairs), pairs.weights)
    assert (np.abs(units) < NEVER // 2).all()


def test_many_copies_of_a_constraint_do_not_overflow():
    goal = Objective("maximize", unary=[[0, 1], [1, 1], [2, 1]], unary_weights=[1.0] * 3)
    instance = Instance([2, 2, 2], (Conflict([[0, 1]] * 40_000, [[1, 1]] * 40_000),), goal)
    walks = Walk([instance], torch.ones(2, 1, 3, dtype=torch.long, device=DEVICE), 2)
    assert (walks.energy > 0).all()
    walks.run(20)
    verdict = instance.verify(walks.best_x[0].cpu().numpy())
    assert verdict.satisfied
    assert verdict.objective == 2


def test_what_can_walk():
    goal = Objective("maximize", unary=[[0, 1]], unary_weights=[1.0])
    assert can_walk(Instance([2, 2], (NotEqual([[0, 1]]),), goal), 32)
    assert not can_walk(Instance([2, 2], (NotEqual([[0, 1]]),)), 32)
    assert not can_walk(Instance([2, 2], (AllDifferent([[0, 1]]),), goal), 32)
    hub = np.stack([np.zeros(9999, int), np.arange(1, 10_000)], 1)
    hubs = Instance([3] * 10_000, (NotEqual(hub),), goal)
    assert not can_walk(hubs, 10_000)  # a table of 10,000 rows with 9,999 entries
    assert can_walk(mis.build((10_000, hub)), 10_000)  # needs a list only


def test_terms_of_single_variables_alone_can_be_walked():
    """An independent set of a graph without edges: everybody."""
    (found,) = blogdit.solve(mis.build((5, [])), steps=2, device="cpu")
    assert found.objective == 5
