"""Walks against enumeration: energies are right after any number of moves, and small instances are solved."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from blogdit.constraints import AllDifferent, NotEqual
from blogdit.csp import Instance, Objective
from blogdit.polish import Pairs
from blogdit.problems import generate, maxcut, mis
from blogdit.problems.graphs import random_graph
from blogdit.walk import GLANCE, Walk, _units, can_walk, walk
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
        pairs.weights = _units(pairs, pairs.weights).astype(float)
        pairs.unary = np.where(np.isinf(pairs.unary), np.nan, _units(pairs, pairs.unary))
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


@pytest.mark.parametrize("problem", ["mis", "maxcut"])
def test_small_instances_are_solved(problem):
    """The best of all assignments, found by enumeration, from four starts."""
    build = {"mis": mis.build, "maxcut": maxcut.build}[problem]
    chosen = [build(random_graph(n, 0.4, np.random.default_rng(n))) for n in (7, 9, 11)]
    lowest = walk(chosen, starts(chosen, 4, 11), 2).cpu().numpy()
    for one, values in zip(chosen, lowest, strict=True):
        verdict = one.verify(values[: one.size])
        assert verdict.satisfied
        verdicts = (one.verify(np.array(x)) for x in itertools.product((0, 1), repeat=one.size))
        assert verdict.objective == max(v.objective for v in verdicts if v.satisfied)


@pytest.mark.parametrize("scale", [1e-4, 1.0, 1e9])
def test_the_scale_of_weights_does_not_matter(scale):
    graph = random_graph(40, 0.3, np.random.default_rng(1))
    plain, scaled = (maxcut.build((40, graph.edges, [w] * len(graph.edges))) for w in (1.0, scale))
    first = starts([plain], 2, 40)
    assert torch.equal(walk([plain], first, 2), walk([scaled], first, 2))


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
        assert torch.equal(alone.lowest()[0], together.lowest()[place])


def test_it_stops_in_time_and_when_it_is_told():
    """Looks come every 64 moves: the third says stop; a deadline that is over allows none."""
    chosen = generate("mis", 1, seed=3)
    first = starts(chosen, 1, chosen[0].size)
    walks, looks = Walk(chosen, first, 2), itertools.count(1)
    walks.run(10**9, stopped=lambda: next(looks) == 3)
    assert walks.taken == 2 * GLANCE
    walks.run(10**9, deadline=0.0)
    assert walks.taken == 2 * GLANCE
    assert walk(chosen, first, 2, deadline=0.0).shape == (1, chosen[0].size)


def test_what_can_walk():
    goal = Objective("maximize", unary=[[0, 1]], unary_weights=[1.0])
    assert can_walk(Instance([2, 2], (NotEqual([[0, 1]]),), goal), 32)
    assert not can_walk(Instance([2, 2], (NotEqual([[0, 1]]),)), 32)
    assert not can_walk(Instance([2, 2], (AllDifferent([[0, 1]]),), goal), 32)
    hub = np.stack([np.zeros(9999, int), np.arange(1, 10_000)], 1)
    assert not can_walk(mis.build((10_000, hub)), 10_000)
