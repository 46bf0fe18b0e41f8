"""Tabu search from the definition: costs are right after any number of moves, the kernel makes the same ones, and
graphs are coloured."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from blogdit.core.constraints import AllDifferent, Conflict, NotEqual
from blogdit.core.instance import Instance, Objective
from blogdit.finishers import Deadline, Task, tabu, tabu_chain
from blogdit.finishers.tabu import Tabu
from blogdit.finishers.tabu_chain import Chain, chain_key, counted_pairs
from blogdit.finishers.tasks import clean_starts, key_of
from blogdit.problems import coloring, generate
from small_instances import instances

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
PAIRS = instances(kinds=("not_equal", "conflict"), objective=False)


def random_task(instance: Instance, chains: int = 1, seed: int = 0) -> Task:
    return Task(instance, np.random.default_rng(seed).integers(0, instance.domain_sizes, (chains, instance.size)))


def chains_of(task: Task, seed: int) -> list[Chain]:
    pairs, key = counted_pairs(task.instance), key_of(seed)
    return [Chain(pairs, start, chain_key(number, key)) for number, start in enumerate(clean_starts(task))]


def random_chain(instance: Instance) -> Chain:
    return chains_of(random_task(instance), seed=0)[0]


def violated_pairs(instance: Instance, x: np.ndarray) -> int:
    return sum(int(group.violations(x).sum()) for group in instance.constraints)


def costs_by_hand(instance: Instance, x: np.ndarray) -> np.ndarray:
    """(n, K): the violated pairs that each variable would be in at each value; -1 where it cannot have it."""
    costs = np.full((instance.size, int(instance.domain_sizes.max())), -1)
    for i in range(instance.size):
        allowed = [instance.given_values[i]] if instance.is_given[i] else range(instance.domain_sizes[i])
        for value in allowed:
            other = x.copy()
            other[i] = value
            hit = [(group, group.violations(other)) for group in instance.constraints]
            costs[i, value] = sum(int(one[(group.pairs == i).any(1)].sum()) for group, one in hit)
    return costs


def test_it_is_for_pairs_without_an_objective():
    supports, sizes = Tabu("cpu").supports, np.array([2, 2, 2])
    assert supports(Instance(sizes, [NotEqual([(0, 1)]), Conflict([(0, 2)], (1, 1))]))
    assert not supports(Instance(sizes, [NotEqual([(0, 1)]), AllDifferent([[0, 1, 2]])]))
    assert not supports(Instance(sizes, [NotEqual([(0, 1)])], objective=Objective("minimize")))
    assert not supports(Instance(sizes))
    assert not supports(Instance(sizes, [NotEqual([(0, 1)] * (tabu.MOST_DEGREE + 1))]))


@given(PAIRS, st.integers(0, 12))
@settings(max_examples=150, deadline=None)
def test_costs_follow_the_moves(instance, moves):
    """Exactly those of the state; no chain is below its best, and givens hold."""
    chain = random_chain(instance)
    before = chain.violated
    chain.take(moves)
    costs = costs_by_hand(instance, chain.x)
    assert np.array_equal(chain.costs[costs >= 0], costs[costs >= 0])
    assert (chain.costs[costs < 0] >= tabu_chain.FORBIDDEN).all()
    assert np.array_equal(chain.own, costs[np.arange(instance.size), chain.x])
    assert chain.violated == violated_pairs(instance, chain.x)
    assert chain.best == violated_pairs(instance, chain.best_x) <= min(before, chain.violated)
    assert (chain.x < instance.domain_sizes).all()
    assert (chain.x[instance.is_given] == instance.given_values[instance.is_given]).all()


@given(PAIRS, st.integers(0, 5))
@settings(max_examples=60, deadline=None)
def test_a_move_is_the_best_of_a_violated_variable(instance, moves):
    """By enumeration of all changes of one variable in a violated pair to a value that is not closed to it, or that
    leads below all before."""
    chain = random_chain(instance)
    chain.take(moves)
    x, closed, costs = chain.x.copy(), chain.open_from > chain.taken + 1, costs_by_hand(instance, chain.x)
    own, gap = costs[np.arange(len(x)), x], chain.best - chain.violated
    changes = {
        (i, k): int(costs[i, k] - own[i])
        for i, k in np.argwhere(costs >= 0).tolist()
        if own[i] > 0 and k != x[i] and (not closed[i, k] or costs[i, k] - own[i] < gap)
    }
    before = chain.violated
    chain.take(1)
    moved = np.flatnonzero(chain.x != x)
    if not changes:
        assert not len(moved)
        return
    (i,) = moved
    assert chain.violated - before == changes[i, int(chain.x[i])] == min(changes.values())
    assert chain.open_from[i, x[i]] > chain.taken


@given(PAIRS, PAIRS, st.integers(1, 8))
@settings(max_examples=15, deadline=None)
def test_the_kernel_makes_the_same_moves(one, other, moves):
    """The same state, bit by bit, beside another instance and with small tiles; in Triton's interpreter where there is
    no GPU."""
    kernel = pytest.importorskip("blogdit.finishers.tabu_kernel")
    for tiles in ({}, {"CELLS": 4, "NEIGHBOURS": 2}):
        tasks = [random_task(one, chains=2), random_task(other, chains=3)]
        chains = [chains_of(task, seed=3) for task in tasks]
        with pytest.MonkeyPatch.context() as patch:
            for name, size in tiles.items():
                patch.setattr(kernel, name, size)
            starts = [np.array([chain.x for chain in some]) for some in chains]
            rows = kernel.KernelChains([some[0].pairs for some in chains], starts, key_of(3), DEVICE)
            rows.take(moves - 1)
            rows.take(1)
        for row, chain in enumerate(chain for some in chains for chain in some):
            chain.take(moves)
            size, width = chain.costs.shape
            assert rows.x[row, :size].tolist() == chain.x.tolist()
            assert rows.best_x[row, :size].tolist() == chain.best_x.tolist()
            assert rows.costs[row, :size, :width].tolist() == chain.costs.tolist()
            assert rows.open_from[row, :size, :width].tolist() == chain.open_from.tolist()
            facts = (rows.violated[row].item(), rows.best[row].item(), rows.best_at[row].item())
            assert facts == (chain.violated, chain.best, chain.best_at)
        for some, found in zip(chains, rows.answers(), strict=True):
            expected = min(some, key=lambda chain: (chain.best, chain.best_at))
            assert np.array_equal(found, expected.best_x)
        assert rows.done() == all(any(chain.best == 0 for chain in some) for some in chains)


def test_it_colours_graphs():
    """Ten graphs with a hidden colouring, from random states."""
    chosen = generate("coloring", 10, seed=3, vertices=60, colors=4, p_min=0.1, p_max=0.1, planted=True)
    finishes = Tabu(DEVICE).finish([random_task(one) for one in chosen], Deadline(), seed=0)
    assert all(one.verify(finish.values).satisfied for one, finish in zip(chosen, finishes, strict=True))


def test_it_ends_where_there_is_no_answer():
    triangle = coloring.build((3, [[0, 1], [1, 2], [0, 2]]), colors=2)
    (finish,) = Tabu(DEVICE).finish([Task(triangle, np.zeros((1, 3), int))], Deadline(), seed=0)
    assert triangle.verify(finish.values).violated == 1
    (finish,) = Tabu(DEVICE).finish([Task(triangle, np.zeros((1, 3), int))], Deadline(0.1), seed=0)
    assert triangle.verify(finish.values).violated == 1
