"""Repair from the definition: costs are right after any number of moves, the kernel takes the same ones, and graphs
are coloured."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from blogdit.finishers.repair import Repair, can_repair, repair
from hypothesis import given, settings
from hypothesis import strategies as st
from test_walk import DEVICE, STATE, expected_costs, starts

from blogdit.core.constraints import AllDifferent, Conflict, NotEqual
from blogdit.core.instance import Instance, Objective
from blogdit.finishers import repair as module
from blogdit.finishers import walk
from blogdit.problems import generate
from helpers import TRIANGLE, instances

PAIRS = instances(kinds=("not_equal", "conflict"), objective=False)


def random_repair(instance: Instance, chains: int = 2, device: str = "cpu") -> Repair:
    """From random states; two more variables than there are."""
    width = int(instance.domain_sizes.max(initial=1))
    return Repair([instance], starts([instance], chains, instance.size + 2).to(device), width)


def test_it_is_for_pairs_without_an_objective():
    sizes = np.array([2, 2, 2])
    assert can_repair(Instance(sizes, [NotEqual([(0, 1)]), Conflict([(0, 2)], (1, 1))]))
    assert not can_repair(Instance(sizes, [NotEqual([(0, 1)]), AllDifferent([[0, 1, 2]])]))
    assert not can_repair(Instance(sizes, [NotEqual([(0, 1)])], objective=Objective("minimize")))
    assert not can_repair(Instance(sizes))


@given(PAIRS, st.integers(0, 12))
@settings(max_examples=150, deadline=None)
def test_energies_and_costs_follow_the_moves(instance, moves):
    """Exactly those of the state; no chain is below its best, and givens hold."""
    if not can_repair(instance):
        return
    walks = random_repair(instance)
    before = walks.energy.clone()
    walks.run(moves)
    energy, costs = expected_costs(walks, [instance])
    assert walks.energy.tolist() == energy.tolist()
    known = ~np.isnan(costs)
    assert np.array_equal(walks.costs.numpy()[known], costs[known])
    assert (walks.best <= torch.minimum(before, walks.energy)).all()
    violated = [instance.verify(x[: instance.size]).violated for x in walks.best_x.numpy()]
    assert [best == 0 for best in walks.best.tolist()] == [count == 0 for count in violated]
    x = walks.x[:, : instance.size].numpy()
    assert (x < instance.domain_sizes).all()
    assert (x[:, instance.is_given] == instance.given_values[instance.is_given]).all()
    assert (walks.x[:, instance.size :] == 0).all()


@given(PAIRS, st.integers(0, 5))
@settings(max_examples=60, deadline=None)
def test_a_move_is_the_best_of_a_violated_variable(instance, moves):
    """By enumeration of all changes of one variable in a violated pair to a value that is not closed to it, or that
    leads below all before."""
    if not can_repair(instance):
        return
    walks = random_repair(instance, chains=1)
    walks.run(moves)
    x, closed = walks.x[0].numpy().copy(), walks.rest[0].view(-1, walks.width).numpy() > walks.taken + 1
    costs = walks.costs[0].view(-1, walks.width).numpy().copy()
    own, gap = costs[np.arange(len(x)), x], int(walks.best[0] - walks.energy[0])
    changes = {
        (i, k): int(costs[i, k] - own[i])
        for i in range(instance.size)
        for k in range(instance.domain_sizes[i])
        if own[i] > 0 and k != x[i] and not instance.is_given[i] and (not closed[i, k] or costs[i, k] - own[i] < gap)
    }
    before = int(walks.energy[0])
    walks.run(1)
    moved = np.flatnonzero(walks.x[0].numpy() != x)
    if not changes:
        assert not len(moved)
        return
    (i,) = moved
    assert int(walks.energy[0]) - before == changes[i, int(walks.x[0, i])] == min(changes.values())
    assert walks.rest[0, i * walks.width + x[i]] > walks.taken


@given(PAIRS, st.integers(1, 8))
@settings(max_examples=20, deadline=None)
def test_the_kernel_takes_the_same_moves(instance, moves):
    """The same state, bit by bit, also with small tiles; in Triton's interpreter where there is no GPU."""
    kernel = pytest.importorskip("blogdit.finishers.walk_kernel")
    if not can_repair(instance):
        return
    for tiles in ({}, {"CELLS": 4, "NEIGHBOURS": 2}):
        plain, fast = random_repair(instance), random_repair(instance, device=DEVICE)
        plain.run(moves)
        with pytest.MonkeyPatch.context() as patch:
            for one in (module, walk):
                patch.setattr(one, "runs_kernels", lambda device: True)
            for name, size in tiles.items():
                patch.setattr(kernel, name, size)
            fast.run(moves - 1)
            fast.run(1)
        for name in (*STATE, "when"):
            assert torch.equal(torch.as_tensor(getattr(fast, name)).cpu(), torch.as_tensor(getattr(plain, name))), name


def test_it_colours_graphs():
    """Ten graphs with a hidden colouring, from random states."""
    chosen = generate("coloring", 10, seed=3, vertices=60, colors=4, p_min=0.1, p_max=0.1, planted=True)
    first = starts(chosen, 1, 64).cpu()
    found = repair(chosen, first, 4)
    assert all(one.verify(x[: one.size].numpy()).satisfied for one, x in zip(chosen, found, strict=True))


@pytest.mark.parametrize("chains", [1, 4])
def test_an_answer_does_not_depend_on_its_company(chains):
    """Beside one that has no colouring, and that goes on after the others are solved."""
    chosen = generate("coloring", 5, seed=3, vertices=60, colors=3, p_min=0.1, p_max=0.1, planted=True)
    hopeless = generate("coloring", 1, seed=3, vertices=60, colors=3, p_min=0.5, p_max=0.5)
    first = starts([*chosen, *hopeless], chains, 64).cpu()
    together = repair([*chosen, *hopeless], first, 3)
    for place in range(5):
        assert torch.equal(repair(chosen[place : place + 1], first[:, place : place + 1], 3)[0], together[place])


def test_it_ends_where_there_is_no_answer():
    """After a number of moves, at the deadline, and when it is told."""
    alike = torch.zeros(1, 1, 3, dtype=torch.long)
    assert TRIANGLE.verify(repair([TRIANGLE], alike, 2)[0].numpy()).violated == 1
    assert torch.equal(repair([TRIANGLE], alike, 2, deadline=0.0, all_the_time=True), alike[0])
    assert torch.equal(repair([TRIANGLE], alike, 2, stopped=lambda: True, all_the_time=True), alike[0])
