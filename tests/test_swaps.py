"""Independent sets by swaps: against enumeration, from the definition, and the kernel takes the same steps."""

from __future__ import annotations

import itertools
import time

import numpy as np
import pytest
import torch
from blogdit.finishers.population import search
from blogdit.finishers.swap_walker import BITS, HALF, ONE, OUT, Walker
from hypothesis import given, settings
from hypothesis import strategies as st
from test_walk import DEVICE, starts

from blogdit.core.constraints import Conflict, NotEqual
from blogdit.core.instance import Instance, Objective
from blogdit.finishers import swaps as module
from blogdit.finishers.swaps import Swaps, can_swap, graph_of, without_conflicts
from blogdit.problems import generate, maxcut, mis
from blogdit.problems.graphs import random_graph


def graph(vertices: int, share: float, seed: int = 0) -> Instance:
    return mis.build(random_graph(vertices, share, np.random.default_rng(seed)))


def largest(instance: Instance) -> float:
    """By enumeration."""
    verdicts = (instance.verify(np.array(x)) for x in itertools.product((0, 1), repeat=instance.size))
    return max(verdict.objective for verdict in verdicts if verdict.satisfied)


def walker_of(instance: Instance) -> Walker:
    nothing = torch.zeros(1, 1, instance.size, dtype=torch.long)
    return Swaps([instance], nothing).walkers.of[0][0]


@given(st.integers(1, 11), st.floats(0, 1), st.integers(0, 10**6), st.integers(0, 60))
@settings(max_examples=100, deadline=None)
def test_weights_and_loads_follow_the_steps(vertices, share, seed, steps):
    """A key has the weight of the conflicts with the set; weights are symmetric and at least 1 where there is a pair;
    the best set has no conflict; a set is at most one larger than the best between steps."""
    instance = graph(vertices, share, seed)
    walker, near = walker_of(instance), graph_of(instance).near
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


@pytest.mark.parametrize("all_the_time", [False, True])
def test_small_graphs_are_solved(all_the_time):
    chosen = [graph(n, share, n) for n, share in ((1, 0.5), (2, 1.0), (9, 0.0), (9, 0.3), (11, 0.5), (12, 0.8))]
    first = starts(chosen, 3, 12)
    end = time.monotonic() + 0.3 if all_the_time else np.inf
    found = search(chosen, first, 2, end, all_the_time=all_the_time).cpu().numpy()
    for one, values in zip(chosen, found, strict=True):
        verdict = one.verify(values[: one.size])
        assert verdict.satisfied
        assert verdict.objective == largest(one)
        assert not values[one.size :].any()


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


def test_a_good_start_is_not_lost():
    """Also if there is no time at all."""
    instance = generate("mis", 1, seed=3)[0]
    good = search([instance], torch.zeros(1, 1, instance.size, dtype=torch.long, device=DEVICE), 2)
    again = search([instance], torch.stack([torch.zeros_like(good), good]), 2, deadline=0.0)
    assert torch.equal(again, good)


def test_an_instance_gets_the_same_beside_others():
    chosen = [graph(n, 0.3, n) for n in (20, 26, 32)]
    first = starts(chosen, 2, 32)
    together = search(chosen, first, 2)
    for place, one in enumerate(chosen):
        alone = search([one], first[:, place : place + 1, : one.size].contiguous(), 2)
        assert torch.equal(together[place, : one.size], alone[0])


def test_who_is_given_as_0_stays_out():
    plain = graph(10, 0.2, 5)
    some = Instance(plain.domain_sizes, plain.constraints, givens={2: 0, 7: 0}, objective=plain.objective)
    assert can_swap(some)
    found = search([some], torch.ones(2, 1, 10, dtype=torch.long, device=DEVICE), 2)[0].cpu().numpy()
    assert some.verify(found).satisfied
    assert some.verify(found).objective == max(
        some.verify(np.array(x)).objective
        for x in itertools.product((0, 1), repeat=10)
        if x[2] == x[7] == 0 and some.verify(np.array(x)).satisfied
    )


def test_what_can_swap():
    sets, edges = graph(6, 0.5), [[0, 1], [1, 2]]
    one_each = Objective("maximize", unary=[[v, 1] for v in range(3)], unary_weights=[1.0] * 3)
    assert can_swap(sets)
    fewest = Objective("minimize", unary=[[v, 0] for v in range(3)], unary_weights=[2.0] * 3)
    assert can_swap(Instance([2] * 3, (Conflict(edges, (1, 1)),), objective=fewest))
    for other in (
        generate("mis", 1, weighted=True)[0],
        maxcut.build(random_graph(6, 0.5, np.random.default_rng(0))),
        Instance([2] * 3, (Conflict(edges, (1, 0)),), objective=one_each),
        Instance([2] * 3, (NotEqual(edges),), objective=one_each),
        Instance([2] * 3, (Conflict(edges, (1, 1)),), givens={0: 1}, objective=one_each),
        Instance([2, 2, 3], (Conflict(edges, (1, 1)),), objective=one_each),
        Instance([2] * 3, (Conflict(edges, (1, 1)),)),
        Instance([2] * 3, (Conflict(edges, (1, 1)),), objective=Objective("minimize", one_each.unary, [1.0] * 3)),
        graph(module.MOST_VARIABLES + 1, 0.0),
    ):
        assert not can_swap(other)


def test_it_stops_in_time_and_when_it_is_told():
    instance = generate("mis", 1, seed=4, size="large")[0]
    first = torch.zeros(1, 1, instance.size, dtype=torch.long, device=DEVICE)
    began, looks = time.monotonic(), []
    search([instance], first, 2, began + 0.3, all_the_time=True)
    assert time.monotonic() - began < 5
    search([instance], first, 2, stopped=lambda: looks.append(1) or len(looks) > 2, all_the_time=True)
    assert len(looks) == 3


def test_steps_end_before_their_numbers_do(monkeypatch):
    """A key has 31 bits for the step: with no deadline at all it ends."""
    monkeypatch.setattr(module, "MOST_STEPS", 300)
    instance = graph(40, 0.3)
    found = search([instance], starts([instance], 6, 40), 2, all_the_time=True)[0].cpu().numpy()
    assert instance.verify(found).satisfied


def test_walkers_have_room_for_their_weights():
    most = module.MOST_WEIGHTS["cuda"]
    for starts_, variables in ((6, 100), (6, 4096), (1000, 4096), (40, 1)):
        number = module.walkers(starts_, variables, "cuda")
        assert 1 <= number * variables**2 <= most
        assert number == max(starts_, 8) or (number + 1) * variables**2 > most


@pytest.mark.parametrize(("vertices", "share"), [(1, 0.0), (5, 1.0), (17, 0.3), (30, 0.3), (40, 0.7)])
def test_the_kernel_takes_the_same_steps(vertices, share, monkeypatch):
    """The same sets, loads, steps of change and weights, in stretches or at once; in Triton's interpreter where there
    is no GPU."""
    pytest.importorskip("triton")
    from blogdit.finishers.swap_kernel import KernelWalkers

    for kind in ("cpu", "cuda"):
        monkeypatch.setitem(module.WALKERS, kind, 3)
    chosen = [graph(vertices, share, 1), graph(max(vertices - 2, 1), share, 2)]
    first = starts(chosen, 2, vertices)
    plain = Swaps(chosen, first.cpu())
    monkeypatch.setattr(module, "runs_kernels", lambda device: True)
    fast = Swaps(chosen, first)
    assert isinstance(fast.walkers, KernelWalkers)
    for steps in (1, 2, 60):
        plain.walkers.take(steps)
        fast.walkers.take(steps)
    rows = fast.walkers
    for place, walkers in enumerate(plain.walkers.of):
        for chain, walker in enumerate(walkers):
            row, size = chain * len(chosen) + place, chosen[place].size
            inside = np.zeros(size, np.int64)
            inside[walker.members[: walker.count]] = 1
            assert rows.x[row, :size].tolist() == inside.tolist()
            key = walker.key - OUT * inside
            assert rows.load[row, :size].tolist() == ((key + HALF) >> BITS).tolist()
            since = key - ((key + HALF) >> BITS) * ONE
            assert rows.since[row, :size].tolist() == np.where(inside, -since, since).tolist()
            assert rows.best_x[row, :size].tolist() == walker.best_set().tolist()
            assert np.array_equal(rows.weights[row, :size, :size].cpu().numpy(), walker.weights // ONE)
    assert torch.equal(plain.lowest(), fast.lowest().cpu())
