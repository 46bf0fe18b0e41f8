"""Annealing from the definition: every flip is allowed, the kernel comes to the same states, and good ones come out."""

from __future__ import annotations

import itertools

import networkx
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from blogdit.core.constraints import Conflict, Linear, NotEqual
from blogdit.core.instance import Instance, Objective
from blogdit.finishers import Deadline, Task, annealing
from blogdit.finishers.annealing import COLD, EVERY, HOT, HOTTER, WARM, Annealing, Chains, CpuSweeps
from blogdit.finishers.landscape import FINE, LEVELS, STILL, Landscape, landscape_of, levels, steps_of
from blogdit.finishers.pairs import Pairs
from blogdit.finishers.tasks import OutOfTime
from blogdit.method.noise import mix, wrap
from blogdit.problems import generate, maxcut, mis
from blogdit.problems.graphs import random_graph
from small_instances import instances

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
CPU = torch.device("cpu")
BINARY = instances(
    kinds=("not_equal", "conflict"), objective=True, sizes=st.lists(st.integers(1, 2), min_size=2, max_size=6)
)


def random_states(instance: Instance, chains: int, seed: int = 0) -> np.ndarray:
    x = np.random.default_rng(seed).integers(0, instance.domain_sizes, (chains, instance.size))
    return np.where(instance.is_given, instance.given_values, x)


def test_levels_are_exponential():
    """Their mean and their median are those of the distribution, as far as so few can have them."""
    e = levels() / FINE
    assert len(e) == LEVELS
    assert e.mean() == pytest.approx(1, abs=2e-3)
    assert np.median(e) == pytest.approx(np.log(2), abs=5e-3)
    assert (e > 3).mean() == pytest.approx(np.exp(-3), abs=2e-3)


@given(BINARY)
@settings(max_examples=80, deadline=None)
def test_the_landscape_is_the_energy(instance):
    """Differences of energy are those of `Pairs`, for all states; colours share no term and cover what may change."""
    land, pairs = landscape_of(instance), Pairs(instance)
    free = [i for i in range(instance.size) if not instance.is_given[i] and instance.domain_sizes[i] == 2]
    for members in land.colours:
        for v in members:
            near = land.links.other[land.links.starts[v] : land.links.starts[v + 1]]
            assert not set(near) & set(members)
    assert sorted(v for members in land.colours for v in members) == free
    states = np.array(list(itertools.product((0, 1), repeat=len(free))))
    every = np.tile(instance.given_values, (len(states), 1))
    every[:, free] = states
    found = land.energy_on(CPU)(torch.from_numpy(every)).numpy()
    everyone = np.arange(instance.size)
    alone = np.array([pairs.unary[everyone, x].sum() for x in every])
    both = np.array([(pairs.costs(x)[everyone, x] - pairs.unary[everyone, x]).sum() / 2 for x in every])
    expected = alone + both - (alone + both)[0]
    wide = np.ptp(expected) or 1.0
    scale = np.ptp(found) / wide
    np.testing.assert_allclose((found - found[0]) / (scale or 1.0), expected, atol=1e-6 * wide)


def by_hand(land: Landscape, x: np.ndarray, hot: list[bool], sweeps: int, salt: int) -> np.ndarray:
    """One variable after the other, the cost of a flip as the difference of two energies."""
    x, energy = x.copy(), land.energy_on(CPU)
    for chain in range(len(x)):
        most = HOT * (HOTTER if chain % EVERY == 1 else 1)
        begin, end = int((most if hot[chain] else WARM) * land.field), int(COLD * land.field)
        for sweep in range(sweeps):
            at = sweep // steps_of(sweeps) * steps_of(sweeps)
            temperature = begin - (begin - end) * at // sweeps if sweep < sweeps - STILL else 0
            key = mix(torch.tensor([wrap(chain * 0x3C6EF372 + salt + sweep * 0x9E3779B1)], dtype=torch.int32))
            for v in itertools.chain(*land.colours):
                other = x[chain].copy()
                other[v] = 1 - other[v]
                before, after = energy(torch.from_numpy(np.stack([x[chain], other]))).tolist()
                draw = int(mix(torch.tensor([wrap(int(v) * 0x5BD1E995)], dtype=torch.int32) ^ key) >> 20)
                if (after - before) * land.unit * FINE <= levels()[draw & (LEVELS - 1)] * temperature:
                    x[chain] = other
    return x


def problems() -> list[Instance]:
    """Cuts of graphs of three sizes, with weights of both signs, and a weighted independent set with a given."""
    draws = np.random.default_rng(3)
    cuts = [maxcut.build((n, [[i, j] for i in range(n) for j in range(i) if draws.random() < 0.4])) for n in (5, 9, 12)]
    signed = generate("maxcut", 1, seed=2, vertices=10, p_min=0.4, p_max=0.5, weights="normal")
    goal = Objective("maximize", unary=[[i, 1] for i in range(8)], unary_weights=[1.0, 2.0, 1.5, 1, 1, 3, 1, 1])
    edges = [[i, (i + k) % 8] for i in range(8) for k in (1, 3)]
    chosen = Instance([2] * 8, (Conflict(edges, [[1, 1]] * len(edges)),), goal, givens={2: 0})
    return [*cuts, *signed, chosen]


def large_weights() -> Instance:
    """Costs that float32 cannot hold."""
    edges = [[i, j] for i in range(12) for j in range(i)]
    weights = 1 + np.random.default_rng(0).random(len(edges)) * 1e6
    return Instance([2] * 12, (), Objective("maximize", differ=edges, differ_weights=weights.tolist()))


@pytest.mark.parametrize(("count", "sweeps"), [(6, 1), (6, 7), (1, 600)])
def test_every_flip_is_metropolis(count, sweeps):
    for instance in [*problems(), large_weights()][:count]:
        land, x, hot = landscape_of(instance), random_states(instance, 2), [True, True]
        chains = Chains([land], [x], 2, CPU, seed=0)
        chains.anew[:] = True
        seen, anneal = [], chains.sweeps.anneal
        chains.sweeps.anneal = lambda *given, anneal=anneal, seen=seen: seen.append(anneal(*given)) or seen[0]
        chains.take_round(sweeps, Deadline())
        expected = by_hand(land, x, hot, sweeps, wrap(0x2545F491 + chains.key))
        assert np.array_equal(seen[0][:, 0].numpy(), expected)


@pytest.mark.parametrize("widest", [1, 4, 32, 512])
def test_the_kernel_comes_to_the_same_states(widest, monkeypatch):
    """On a GPU, else in the interpreter; tiles that do and do not hold a colour, and launches of a few sweeps."""
    kernel = pytest.importorskip("blogdit.finishers.annealing_kernel")
    monkeypatch.setattr(kernel, "WIDEST", widest)
    monkeypatch.setattr(kernel, "LAUNCH", 200)
    sweeps = STILL + 2
    chosen = [problems()[number] for number in (0, 3, 4)]
    if widest > 4:
        chosen += generate("maxcut", 1, seed=5, vertices=60, p_min=0.1, p_max=0.1)
    lands, chains = [landscape_of(one) for one in chosen], 3
    x = torch.zeros(chains, len(chosen), max(land.size for land in lands), dtype=torch.int8)
    for place, one in enumerate(chosen):
        x[:, place, : one.size] = torch.from_numpy(random_states(one, chains))
    field = torch.tensor([land.field for land in lands], dtype=torch.float64)
    begin = (torch.tensor([[HOT], [WARM], [2 * HOT]]) * field).long()
    end = (COLD * field).long().expand_as(begin)
    salt = (torch.arange(chains, dtype=torch.int32) * 0x3C6EF372)[:, None].expand_as(begin).contiguous()
    moved = [t.to(DEVICE) for t in (x, begin, end, salt)]
    fast = kernel.KernelSweeps(lands, DEVICE).anneal(*moved, sweeps, Deadline()).cpu()
    for place, land in enumerate(lands):
        one = slice(place, place + 1)
        part = x[:, one, : land.size].contiguous()
        plain = CpuSweeps(land).anneal(part, begin[:, one], end[:, one], salt[:, one], sweeps, Deadline())
        assert torch.equal(fast[:, one, : land.size], plain)


def heaviest(instance: Instance) -> float:
    """By enumeration."""
    verdicts = (instance.verify(np.array(x)) for x in itertools.product((0, 1), repeat=instance.size))
    return max(verdict.objective for verdict in verdicts if verdict.satisfied)


def weighted_set(vertices: int, density: float, weights: list[float]) -> Instance:
    return mis.build(networkx.fast_gnp_random_graph(vertices, density, seed=1), weights)


def test_it_finds_the_best_of_small_graphs():
    """Cuts, dense ones too, with weights of very different size; sets with and without weights."""
    graph, steep = random_graph(12, 0.5, np.random.default_rng(3)), np.ones(12 * 11 // 2)
    steep[4] = 1e6
    chosen = [
        *generate("maxcut", 2, seed=1, vertices=12, p_min=0.4, p_max=0.5),
        *generate("maxcut", 1, seed=2, vertices=12, p_min=1.0, p_max=1.0, weights="normal"),
        maxcut.build((12, graph.edges, steep[: len(graph.edges)])),
        weighted_set(12, 0.3, [1.0] * 12),
        weighted_set(12, 0.4, [1.0 + v % 5 for v in range(12)]),
    ]
    finishes = Annealing(DEVICE).finish([Task(one, random_states(one, 3)) for one in chosen], Deadline(), seed=0)
    for one, finish in zip(chosen, finishes, strict=True):
        assert one.verify(finish.values).satisfied
        assert one.verify(finish.values).objective == pytest.approx(heaviest(one))


@pytest.mark.parametrize("scale", [1e-305, 1e-4, 2.0**20, 1e300])
def test_extreme_weights_make_no_nonsense(scale):
    edges = random_graph(12, 0.5, np.random.default_rng(1)).edges
    plain, scaled = (maxcut.build((12, edges, [w] * len(edges))) for w in (1.0, scale))
    with np.errstate(all="raise", under="ignore"):
        land = landscape_of(scaled)
    assert np.abs(land.links.pull * land.unit).max() <= 1 << 29
    if scale > 1e-280:
        assert np.array_equal(land.links.pull, landscape_of(plain).links.pull)


def test_many_copies_of_a_constraint_do_not_overflow():
    goal = Objective("maximize", unary=[[0, 1], [1, 1], [2, 1]], unary_weights=[1.0] * 3)
    instance = Instance([2, 2, 2], (Conflict([[0, 1]] * 40_000, [[1, 1]] * 40_000),), goal)
    (finish,) = Annealing(DEVICE).finish([Task(instance, np.ones((2, 3), int))], Deadline(), seed=0)
    assert instance.verify(finish.values).objective == 2


def test_it_ends_when_it_is_told_to():
    """Also while a landscape is being made."""
    (cut,) = generate("maxcut", 1, seed=1, vertices=30)
    land, x = landscape_of(cut), random_states(cut, 2)
    chains = Chains([land], [x], 2, CPU, seed=0)
    for deadline in (Deadline(0.0), Deadline(stopped=lambda: True)):
        before = chains.states.clone()
        chains.take_round(10, deadline)
        assert torch.equal(chains.states, before)
    with pytest.raises(OutOfTime):
        landscape_of(cut, lambda: True)


def test_random_starts_are_allowed_and_differ():
    """The first are as given; the others differ from them and from each other, and keep what is given."""
    goal = Objective("maximize", differ=[[i, i + 1] for i in range(39)], differ_weights=[1.0] * 39)
    instance = Instance([2, 2, 1, 2] * 10, (), goal, givens={0: 1})
    x = random_states(instance, 2)
    chains = Chains([landscape_of(instance)], [x], 7, CPU, seed=0)
    states = chains.states[:, 0].numpy()
    assert np.array_equal(states[:2], x)
    assert len({tuple(state) for state in states}) == 7
    assert (states < instance.domain_sizes).all()
    assert (states[:, 0] == 1).all()
    assert chains.anew[:, 0].tolist() == [False] * 2 + [True] * 5


def test_a_chain_without_gain_begins_again_and_the_best_is_kept():
    """A path of three vertices: every chain is at the best cut at once."""
    path = maxcut.build((3, [[0, 1], [1, 2]]))
    chains = Chains([landscape_of(path)], [random_states(path, 4)], 4, CPU, seed=0)
    restarted = []
    for _ in range(annealing.PATIENCE + 2):
        chains.take_round(20, Deadline())
        restarted.append(bool(chains.anew.any()))
        assert path.verify(chains.answers()[0]).objective == 2
    assert any(restarted)


def test_rounds_grow_with_the_time_and_the_last_takes_what_is_left(monkeypatch):
    """A thousand sweeps a second, and twenty seconds."""
    now, planned = [0.0], []
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    (cut,) = generate("maxcut", 1, seed=1, vertices=10)
    chains = Chains([landscape_of(cut)], [random_states(cut, 2)], 2, CPU, seed=0)

    def take_round(sweeps, deadline):
        planned.append(sweeps)
        now[0] += sweeps / 1000

    chains.take_round = take_round
    chains.run(Deadline(20.0), lambda: False)
    assert planned[:3] == [32, 320, 3200]
    assert 3200 <= planned[3] <= 5000
    assert 17_000 < sum(planned) <= 20_100


def test_what_it_supports():
    supports = Annealing("cpu").supports
    (cut,) = generate("maxcut", 1, seed=0, vertices=30)
    assert supports(cut)
    assert supports(Instance(cut.domain_sizes, (NotEqual([[0, 1]]),), cut.objective))
    assert not supports(Instance([3, 2, 2], (), Objective("maximize", differ=[[0, 1]], differ_weights=[1.0])))
    sums = Linear([[0, 1, 2]], [[1, 1, 1]], ["<="], [2])
    assert not supports(Instance(cut.domain_sizes, (sums,), cut.objective))
    assert not supports(*generate("coloring", 1, seed=0, vertices=30, colors=3))  # nothing to optimise


def test_temperatures_of_sets_follow_what_vertices_usually_weigh():
    """A few large weights change nothing, and without constraints it is not asked."""
    few = {0: 1e4, 1: 1e4, 2: 1e4}
    fields = [
        (landscape_of(one).field / abs(landscape_of(one).unit * landscape_of(one).drive[5]), weight)
        for one, weight in ((weighted_set(60, 0.1, [few.get(v, 2.0) for v in range(60)]), 2.0),)
    ]
    assert fields[0][0] == pytest.approx(1.0)  # the field is what vertex 5 weighs
    cuts = generate("maxcut", 1, seed=1, vertices=12)
    cuts.append(Instance(cuts[0].domain_sizes, (NotEqual([[0, 1]]),), cuts[0].objective))  # pairs earn something too
    assert [Pairs(one).usual for one in cuts] == [None, None]


@pytest.mark.parametrize("extra", ["a few large weights", "many variables without neighbours"])
def test_temperatures_suit_the_median_variable(extra):
    """Neither changes the field of a ring: two neighbours with weight 1, J = 2, so a standard deviation of sqrt(2)."""
    edges, weights, size = [[i, (i + 1) % 40] for i in range(40)], [1.0] * 40, 40
    if extra == "a few large weights":
        weights[:3] = [1e4] * 3
    else:
        size = 400
    goal = Objective("maximize", differ=edges, differ_weights=weights)
    land = landscape_of(Instance([2] * size, (), goal))
    weight = land.unit * abs(land.links.pull[land.links.starts[20]]) / 2  # of an edge of weight 1, in steps
    assert land.field == pytest.approx(np.sqrt(2) * weight, rel=1e-6)
