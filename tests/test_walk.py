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
from blogdit.walk import Walk, can_walk, walk
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


def energies(walks: Walk, chosen: list[Instance]) -> np.ndarray:
    """Of the states, from the definition: what variables cost alone, and every pair once."""
    x = walks.x.view(walks.chains, walks.size, -1).cpu().numpy()
    found = np.zeros((walks.chains, walks.size))
    for place, one in enumerate(chosen):
        pairs = Pairs(one)
        for chain in range(walks.chains):
            values = x[chain, place, : one.size]
            alone = pairs.unary[np.arange(one.size), values].sum()
            found[chain, place] = 0.5 * (alone + pairs.costs(values)[np.arange(one.size), values].sum())
    return found


@given(instances(kinds=("not_equal", "conflict"), objective=True), st.integers(0, 12))
@settings(max_examples=150, deadline=None)
def test_energies_follow_the_moves(instance, moves):
    """After any number of moves: energies and costs are those of the state, no chain is above its best, givens hold."""
    if not can_walk(instance, instance.size + 2):
        return
    width = int(instance.domain_sizes.max(initial=1))
    walks = Walk([instance], starts([instance], 2, instance.size + 2), width)
    before = walks.energy.clone()
    walks.run(moves)
    expected = torch.from_numpy(energies(walks, [instance])).view(-1)
    torch.testing.assert_close(walks.energy.double().cpu(), expected, rtol=1e-4, atol=1e-4)
    assert (walks.best <= before + 1e-5).all()
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


def test_an_answer_does_not_depend_on_its_company():
    chosen = generate("mis", 3, seed=3)
    variables = max(one.size for one in chosen)
    first = starts(chosen, 2, variables)
    together = Walk(chosen, first, 2)
    together.run(60)
    for place, one in enumerate(chosen):
        alone = Walk([one], first[:, place : place + 1], 2)
        alone.run(60)
        assert torch.equal(alone.lowest()[0], together.lowest()[place])


def test_it_stops_in_time():
    chosen = generate("mis", 1, seed=3)
    walks = Walk(chosen, starts(chosen, 1, chosen[0].size), 2)
    walks.run(10**9, deadline=0.0)
    assert walks.taken == 0
    assert walk(chosen, starts(chosen, 1, chosen[0].size), 2, seconds=0.0).shape == (1, chosen[0].size)


def test_what_can_walk():
    goal = Objective("maximize", unary=[[0, 1]], unary_weights=[1.0])
    assert can_walk(Instance([2, 2], (NotEqual([[0, 1]]),), goal), 32)
    assert not can_walk(Instance([2, 2], (NotEqual([[0, 1]]),)), 32)
    assert not can_walk(Instance([2, 2], (AllDifferent([[0, 1]]),), goal), 32)
    hub = np.stack([np.zeros(9999, int), np.arange(1, 10_000)], 1)
    assert not can_walk(mis.build((10_000, hub)), 10_000)
