"""Annealing from the definition: every flip is allowed, the kernel comes to the same states, and good ones come out."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import networkx
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from blogdit.core.constraints import Conflict, Linear, NotEqual
from blogdit.core.instance import Instance, Objective
from blogdit.finishers import cooling
from blogdit.finishers.cooling import COLD, EVERY, HOT, HOTTER, LAST, WARM, Cooling, steps_of
from blogdit.finishers.landscape import FINE, LEVELS, landscapes, levels
from blogdit.finishers.polish import Pairs
from blogdit.finishers.terms import scale_of
from blogdit.finishers.walk import Walk, can_walk
from blogdit.method.noise import mix, wrap
from blogdit.problems import generate, maxcut, mis
from helpers import instances
from test_walk import starts

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def cold(chains: int, size: int) -> torch.Tensor:
    return torch.zeros(chains, size, dtype=torch.bool, device=DEVICE)


def test_levels_are_exponential():
    """Their mean and their median are those of the distribution, as far as so few can have them."""
    e = levels() / FINE
    assert len(e) == LEVELS
    assert e.mean() == pytest.approx(1, abs=2e-3)
    assert np.median(e) == pytest.approx(np.log(2), abs=5e-3)
    assert (e > 3).mean() == pytest.approx(np.exp(-3), abs=2e-3)


@given(
    instances(
        kinds=("not_equal", "conflict"), objective=True, sizes=st.lists(st.integers(1, 2), min_size=2, max_size=6)
    )
)
@settings(max_examples=60, deadline=None)
def test_colours_share_no_term_and_cover_what_may_change(instance):
    if not can_walk(instance, instance.size + 1):
        return
    walk = Walk([instance], starts([instance], 1, instance.size + 1), 2)
    (land,) = landscapes(walk)
    for members in land.classes:
        for v in members:
            near = land.links.other[land.links.starts[v] : land.links.starts[v + 1]]
            assert not set(near) & set(members)
    free = [i for i in range(instance.size) if not instance.is_given[i] and instance.domain_sizes[i] == 2]
    assert sorted(v for members in land.classes for v in members) == free


def by_hand(walk: Walk, values: torch.Tensor, hot: torch.Tensor, sweeps: int) -> np.ndarray:
    """One variable after the other, costs from the walk's own table."""
    x = values.cpu().numpy().copy()
    for place, land in enumerate(landscapes(walk)):
        for chain in range(len(x)):
            most = HOT * (HOTTER if chain % EVERY == 1 else 1)
            begin = int((most if hot[chain, place] else WARM) * land.field)
            end = int(COLD * land.field)
            salt = wrap(wrap(chain * 0x3C6EF372) + wrap(walk.round * 0x2545F491))
            for sweep in range(sweeps):
                at = sweep // steps_of(sweeps) * steps_of(sweeps)
                temperature = begin - (begin - end) * at // sweeps if sweep < sweeps - LAST else 0
                key = mix(torch.tensor([wrap(salt + sweep * 0x9E3779B1)], dtype=torch.int32))
                for v in itertools.chain(*land.classes):
                    costs = walk._costs(torch.from_numpy(x[chain : chain + 1]).to(DEVICE))[0, place, v].tolist()
                    own = x[chain, place, v]
                    code = torch.tensor([wrap(int(v) * 0x5BD1E995)], dtype=torch.int32)
                    draw = int(mix(code ^ key) >> 20) & (LEVELS - 1)
                    if (costs[1 - own] - costs[own]) * FINE <= levels()[draw] * temperature:
                        x[chain, place, v] = 1 - own
    return x


def problems() -> list[Instance]:
    """Cuts of graphs of three sizes, with weights of both signs, and a weighted independent set with a given."""
    draws = np.random.default_rng(3)
    cuts = [maxcut.build((n, [[i, j] for i in range(n) for j in range(i) if draws.random() < 0.4])) for n in (5, 9, 12)]
    signed = generate("maxcut", 1, seed=2, vertices=10, p_min=0.4, p_max=0.5, weights="normal")
    pairs = Objective("maximize", unary=[[i, 1] for i in range(8)], unary_weights=[1.0, 2.0, 1.5, 1, 1, 3, 1, 1])
    edges = [[i, (i + k) % 8] for i in range(8) for k in (1, 3)]
    chosen = Instance([2] * 8, (Conflict(edges, [[1, 1]] * len(edges)),), pairs, givens={2: 0})
    return [*cuts, *signed, chosen]


@pytest.mark.parametrize(("count", "sweeps"), [(5, 1), (5, 7), (1, 600)])
def test_every_flip_is_metropolis(count, sweeps):
    chosen = problems()[:count]
    values = starts(chosen, 2, 14)
    walk = Walk(chosen, values, 2)
    hot = torch.tensor([[place % 2 == 0 for place in range(len(chosen))], [True] * len(chosen)], device=DEVICE)
    found = Cooling(walk).run(values, hot, sweeps)
    assert np.array_equal(found.cpu().numpy(), by_hand(walk, values, hot, sweeps))


@pytest.mark.parametrize("widest", [32, 512])
def test_the_kernel_comes_to_the_same_states(widest, monkeypatch):
    """On a GPU, else in the interpreter; tiles that do and do not hold a colour, and launches of a few sweeps."""
    kernel = pytest.importorskip("blogdit.finishers.cooling_kernel")
    monkeypatch.setattr(kernel, "WIDEST", widest)
    monkeypatch.setattr(kernel, "LAUNCH", 300)
    chosen = [*problems(), *generate("maxcut", 1, seed=5, vertices=60, p_min=0.1, p_max=0.1)]
    values = starts(chosen, 3, 60).cpu()
    hot = torch.arange(3)[:, None] % 2 == torch.arange(len(chosen)) % 2
    plain = Cooling(Walk(chosen, values, 2)).run(values, hot, 9)
    if DEVICE == "cpu":
        monkeypatch.setattr(cooling, "runs_kernels", lambda device: True)
    fast = Cooling(Walk(chosen, values.to(DEVICE), 2))
    assert fast.plan is not None
    assert torch.equal(fast.run(values.to(DEVICE), hot.to(DEVICE), 9).cpu(), plain)


def test_large_weights_are_exact():
    """Costs that float32 cannot hold: the same states as by hand."""
    draws = np.random.default_rng(0)
    edges = [[i, j] for i in range(12) for j in range(i)]
    goal = Objective("maximize", differ=edges, differ_weights=(1 + draws.random(len(edges)) * 1e6).tolist())
    chosen = [Instance([2] * 12, (), goal)]
    values = starts(chosen, 2, 12)
    walk = Walk(chosen, values, 2)
    found = Cooling(walk).run(values, cold(2, 1), 5)
    assert np.array_equal(found.cpu().numpy(), by_hand(walk, values, cold(2, 1), 5))


def test_annealing_finds_the_best_cut_of_small_graphs():
    chosen = generate("maxcut", 4, seed=1, vertices=12, p_min=0.4, p_max=0.5)
    values = starts(chosen, 8, 12)
    found = Cooling(Walk(chosen, values, 2)).run(values, ~cold(8, 4), 100).cpu().numpy()
    for place, one in enumerate(chosen):
        cuts = [one.verify(np.array(x)).objective for x in itertools.product((0, 1), repeat=12)]
        assert max(one.verify(x[place]).objective for x in found) == max(cuts)


def test_it_ends_when_it_is_told_to():
    chosen = generate("maxcut", 1, seed=1, vertices=30)
    values = starts(chosen, 2, 30)
    cooling_ = Cooling(Walk(chosen, values, 2))
    assert torch.equal(cooling_.run(values, cold(2, 1), 10, deadline=0), values)
    assert torch.equal(cooling_.run(values, cold(2, 1), 10, stopped=lambda: True), values)


def test_an_instance_without_terms_has_nothing_to_lose():
    goal = Objective("maximize", unary=[[0, 1]], unary_weights=[1.0])
    chosen = [Instance([2, 2, 2], (), goal, givens={0: 1, 1: 0, 2: 1})]
    values = starts(chosen, 2, 4)
    assert torch.equal(Cooling(Walk(chosen, values, 2)).run(values, cold(2, 1), 3), values)


def test_what_can_be_annealed():
    def can(instance: Instance, device: str = "cpu", width: int = 2) -> bool:
        return cooling.can_cool(instance, torch.device(device), width)

    (cut,) = generate("maxcut", 1, seed=0, vertices=300, p_min=0.05, p_max=0.05)
    assert can(cut)
    assert not can(cut, width=3)
    assert not can(*generate("maxcut", 1, seed=0, vertices=100, p_min=0.05, p_max=0.05))  # a sweep is mostly overhead
    assert not can(*generate("maxcut", 1, seed=0, vertices=300, p_min=0.9, p_max=0.9))  # as many colours as vertices
    (sets,) = sparse_sets(300, 0.02)
    assert can(sets)
    assert not can(*sparse_sets(100, 0.02))  # a walk finds as much
    assert not can(*sparse_sets(300, 0.1))  # and here more
    sums = Linear([[0, 1, 2]], [[1, 1, 1]], ["<="], [2])
    assert not can(Instance(sets.domain_sizes, (*sets.constraints, sums), sets.objective))
    assert not can(*generate("coloring", 1, seed=0, vertices=300, colors=3))  # nothing to optimise


def sparse_sets(vertices: int, density: float, weights: Callable[[int], float] = lambda v: 1.0) -> list[Instance]:
    graph = networkx.fast_gnp_random_graph(vertices, density, seed=1)
    return [mis.build(graph, [weights(v) for v in range(vertices)])]


def test_temperatures_of_sets_follow_what_vertices_usually_weigh():
    """A few large weights change nothing, and without constraints it is not asked."""
    weights = {0: 1e4, 1: 1e4, 2: 1e4}
    for chosen, usual in ((sparse_sets(60, 0.1), 1.0), (sparse_sets(60, 0.1, lambda v: weights.get(v, 2.0)), 2.0)):
        walk = Walk(chosen, starts(chosen, 1, 60), 2)
        assert landscapes(walk)[0].field == pytest.approx(usual * scale_of(Pairs(chosen[0])))
    cuts = generate("maxcut", 1, seed=1, vertices=12)
    cuts.append(Instance(cuts[0].domain_sizes, (NotEqual([[0, 1]]),), cuts[0].objective))  # pairs earn something too
    assert Walk(cuts, starts(cuts, 1, 12), 2).usual == [None, None]


def test_annealing_finds_the_heaviest_sets_of_small_graphs():
    chosen = [*sparse_sets(12, 0.3), *sparse_sets(12, 0.4, lambda v: 1.0 + v % 5)]
    values = starts(chosen, 8, 12)
    found = Cooling(Walk(chosen, values, 2)).run(values, ~cold(8, 2), 100).cpu().numpy()
    for place, one in enumerate(chosen):
        verdicts = [one.verify(np.array(x)) for x in itertools.product((0, 1), repeat=12)]
        heaviest = max(v.objective for v in verdicts if v.satisfied)
        assert max(v.objective for v in map(one.verify, found[:, place]) if v.satisfied) == heaviest


@pytest.mark.parametrize("extra", ["a few large weights", "many variables without neighbours"])
def test_temperatures_suit_the_median_variable(extra):
    """Neither changes the field of a ring: two neighbours with weight 1, J = 2, so a standard deviation of sqrt(2)."""
    edges, weights, size = [[i, (i + 1) % 40] for i in range(40)], [1.0] * 40, 40
    if extra == "a few large weights":
        weights[:3] = [1e4] * 3
    else:
        size = 400
    goal = Objective("maximize", differ=edges, differ_weights=weights)
    chosen = [Instance([2] * size, (), goal)]
    walk = Walk(chosen, starts(chosen, 1, size), 2)
    (land,) = landscapes(walk)
    weight = walk.terms.weight[walk.terms.variable == 20].max().item()  # an edge of weight 1, in the walk's units
    assert land.field == pytest.approx(np.sqrt(2) * weight, rel=1e-6)
