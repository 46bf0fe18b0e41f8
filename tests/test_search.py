"""The search after the last step against enumeration, and how it makes new starts."""

from __future__ import annotations

import itertools
import time
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from blogdit.bench.systems.greedy import independent_set
from blogdit.core.instance import Instance, Objective
from blogdit.finishers import population as module
from blogdit.finishers.population import Population, search
from blogdit.problems import generate, maxcut, mis
from blogdit.problems.graphs import random_graph
from test_walk import DEVICE, starts


@pytest.mark.parametrize("problem", ["mis", "maxcut"])
def test_small_instances_are_solved(problem):
    """The best of all assignments, found by enumeration, from four starts."""
    build = {"mis": mis.build, "maxcut": maxcut.build}[problem]
    chosen = [build(random_graph(n, 0.4, np.random.default_rng(n))) for n in (7, 9, 11)]
    lowest = search(chosen, starts(chosen, 4, 11), 2).cpu().numpy()
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
    assert torch.equal(search([plain], first, 2), search([scaled], first, 2))


def test_time_that_is_over_leaves_the_best_start():
    chosen = generate("mis", 1, seed=3, weighted=True)
    first = starts(chosen, 3, chosen[0].size)
    population = Population(chosen, first, 2)
    lowest = search(chosen, first, 2, deadline=0.0)
    assert torch.equal(lowest, population.lowest())
    assert population.energies.min() == population.energies[(first == lowest).all(2)].min()


def test_states_only_get_lower_and_stay_different():
    """Over rounds: no chain's energy rises, and no two chains have the same state once they differed."""
    chosen = [maxcut.build(random_graph(n, 0.2, np.random.default_rng(n))) for n in (12, 16)]
    population = Population(chosen, starts(chosen, 6, 16), 2)
    for _ in range(5):
        before = population.energies.clone()
        population.walk.run(20)
        population._accept(*population._outcome())
        assert (population.energies <= before).all()
        population.walk.start(population._children()[0])
    for place in range(2):
        assert len({tuple(state.tolist()) for state in population.states[:, place]}) == 6
        assert (population.states[:, place, 0] == 0).all()  # of mirror images one


def test_chains_mix_on_islands():
    """Of eight, or one more at the end: everybody has a partner of the own island, another one every round."""
    chosen = [maxcut.build(random_graph(12, 0.4, np.random.default_rng(1)))]
    for chains, expected in ((1, [0]), (5, [0] * 5), (9, [0] * 9), (17, [0] * 8 + [1] * 9)):
        population = Population(chosen, starts(chosen, chains, 12), 2)
        assert population.island.tolist() == expected
        for _ in range(5 if chains > 1 else 0):
            partners = population._partners()
            assert (population.island[partners] == population.island).all()
            assert (partners != torch.arange(chains, device=partners.device)).all()
            population.walk.round += 1


def test_an_island_without_gain_begins_again_and_the_best_is_kept():
    """A graph of three vertices: every walk ends at the best cut at once."""
    chosen = [maxcut.build((3, [[0, 1], [1, 2]])), maxcut.build(random_graph(30, 0.3, np.random.default_rng(2)))]
    population = Population(chosen, starts(chosen, 6, 30), 2)
    for _ in range(8):
        population.walk.run(10)
        population._accept(*population._outcome())
        best = population.best_energy.clone()
        anew = population.since_gain[0, 0] >= 3
        population.walk.start(population._children()[0])
        assert (population.energies[:, 0] == 1 << 62).all() == anew
        assert torch.equal(population.best_energy, best)
        if anew:
            break
    assert anew
    assert chosen[0].verify(population.lowest()[0, :3].cpu().numpy()).objective == 2


def test_a_child_has_what_its_parents_agree_on():
    chosen = [mis.build(random_graph(40, 0.2, np.random.default_rng(1)))]
    population = Population(chosen, starts(chosen, 2, 44), 2)
    child, _ = population._children()
    own, other = population.states, population.states.roll(1, 0)
    assert ((child == own) | (child == other)).all()
    apart = (own != other)[0, 0]
    assert 0 < (child != own)[0, 0].sum() < apart.sum()
    assert not population.mirrored.any()


def test_a_mirror_image_is_turned_before_it_is_mixed():
    """Two states of a cut that say the same have nothing to mix: some of the variables are drawn anew."""
    chosen = [maxcut.build(random_graph(60, 0.2, np.random.default_rng(1)))]
    first = starts(chosen, 1, 64)
    turned = torch.where(torch.arange(64, device=first.device) < 60, 1 - first, first)
    population = Population(chosen, torch.cat([first, turned]), 2)
    assert population.mirrored.all()
    changed = (population._children()[0] != population.states).sum(2)
    assert (changed > 0).all()
    assert (changed < 20).all()


def test_drawn_values_are_allowed_ones():
    """Three values, the third not for every variable, and one variable is given."""
    goal = Objective("maximize", differ=[[i, i + 1] for i in range(39)], differ_weights=[1.0] * 39)
    instance = Instance([2, 3] * 20, (), goal, givens={0: 1})
    first = starts([instance], 1, 40).repeat(4, 1, 1)  # all the same: every child is shaken
    children, _ = Population([instance], first, 3)._children()
    assert (children.cpu().numpy() < instance.domain_sizes).all()
    assert (children[..., 0] == 1).all()
    assert (children != first).any()


def test_more_walkers_begin_at_random():
    """The first are as given; the others differ from them and from each other, and keep what is given."""
    goal = Objective("maximize", differ=[[i, i + 1] for i in range(39)], differ_weights=[1.0] * 39)
    instance = Instance([2, 3] * 20, (), goal, givens={0: 1})
    first = starts([instance], 2, 40)
    states = Population([instance], first, 3, walkers=7).states
    assert torch.equal(states[:2], first.int())
    assert len({tuple(state.tolist()) for state in states[:, 0]}) == 7
    assert (states.cpu().numpy() < instance.domain_sizes).all()
    assert (states[..., 0] == 1).all()


def test_large_cuts_are_annealed(monkeypatch):
    """A ring of 300 with chords, where moves alone end at a smaller cut."""
    edges = [[i, (i + k) % 300] for i in range(300) for k in (1, 3, 8)]
    chosen = [maxcut.build((300, edges))]
    first = starts(chosen, 4, 300)
    found = search(chosen, first, 2)
    annealed = chosen[0].verify(found[0].cpu().numpy()).objective
    monkeypatch.setattr("blogdit.finishers.population.can_cool", lambda *facts: False)
    monkeypatch.setitem(module.ROUNDS, "cuda", 1)
    assert annealed > chosen[0].verify(search(chosen, first, 2)[0].cpu().numpy()).objective


def test_large_sets_are_annealed_if_they_have_few_pairs():
    """More vertices than swaps are for, on a CPU; unless pairs are too many for annealing."""
    start = torch.zeros(2, 1, module.LARGE_SET + 1, dtype=torch.long)
    sparse, dense = (mis.build(random_graph(module.LARGE_SET + 1, p, np.random.default_rng(0))) for p in (0.004, 0.1))
    assert [module._way(one, start, 2)[0] for one in (sparse, dense)] == ["cools", "swaps"]
    found = search([sparse], start, 2)[0].numpy()
    greedy = independent_set(mis.graph_of(sparse), np.zeros(sparse.size, np.int64))
    assert sparse.verify(found).satisfied
    assert found.sum() > greedy.sum()


@pytest.mark.parametrize("all_the_time", [False, True])
def test_annealing_never_loses_a_good_start(all_the_time):
    """An even ring cut everywhere: no search can do better, and none may do worse."""
    ring = [maxcut.build((300, [[i, (i + 1) % 300] for i in range(300)]))]
    best = (torch.arange(300) % 2).expand(3, 1, -1).to(DEVICE)
    found = search(ring, best, 2, time.monotonic() + 0.5, all_the_time=all_the_time)
    assert ring[0].verify(found[0].cpu().numpy()).objective == 300


def test_an_instance_gets_the_same_beside_others():
    """Some are annealed and some are not: too small on a CPU, too dense; some swap. Alone as together."""
    draws = np.random.default_rng(0)
    ring = [[i, (i + k) % 256] for i in range(256) for k in (1, 5)]
    chosen = [maxcut.build(random_graph(n, p, draws)) for n, p in ((250, 0.03), (256, 0.03), (40, 0.9), (254, 0.02))]
    chosen.append(mis.build((256, ring)))
    first = starts(chosen, 4, 256)
    together = search(chosen, first, 2)
    for place, one in enumerate(chosen):
        assert torch.equal(search([one], first[:, [place]], 2)[0], together[place])


def test_a_target_ends_annealing_soon():
    """The cut that is asked for is there after the first short round of an hour's search."""
    (cut,) = generate("maxcut", 1, seed=0, vertices=400, p_min=0.02, p_max=0.02)
    edges = len(cut.objective.differ)
    asked = []

    def enough(instance, values):
        asked.append(instance.verify(values).objective)
        return asked[-1] > 0.6 * edges

    search([cut], starts([cut], 3, 400), 2, time.monotonic() + 3600, all_the_time=True, enough=enough)
    assert asked[-1] > 0.6 * edges


def test_rounds_of_annealing_grow(monkeypatch):
    """Where it may end soon, the first one is short and each takes twice the sweeps of the one before."""
    planned = []

    def spy(self, values, hot, sweeps, deadline, stopped):
        planned.append(sweeps)
        return values

    monkeypatch.setattr(module.Cooling, "run", spy)
    monkeypatch.setattr(module, "TRIALS", {"cpu": 1, "cuda": 1})
    (cut,) = generate("maxcut", 1, seed=0, vertices=300, p_min=0.02, p_max=0.02)
    population = Population([cut], starts([cut], 3, 300), 2, cools=True)
    population.run_until(time.monotonic() + 3600, lambda: False, lambda: len(planned) == 6, soon=True)
    assert planned == [32, 64, 128, 256, 512, 1024]


@pytest.mark.parametrize("soon", [False, True])
@pytest.mark.parametrize("build", [maxcut.build, mis.build])
def test_what_is_near_chance_begins_hot(build, soon, monkeypatch):
    """After the trial: random states of a cut do, a good one does not. Sets are warm: conflicts go anyway."""
    heat, anneal = [], module.Cooling.run

    def spy(self, values, hot, *more):
        heat.append(hot[:, 0].tolist())
        return anneal(self, values, hot, *more) if len(heat) == 1 else values

    monkeypatch.setattr(module.Cooling, "run", spy)
    monkeypatch.setattr(module, "TRIALS", {"cpu": 1, "cuda": 1})
    one, is_cut = build(random_graph(400, 0.02, np.random.default_rng(0))), build is maxcut.build
    values = starts([one], 3, 400)
    population = Population([one], values, 2, cools=True)
    values[1] = anneal(population.cooling, values, population.anew, 500)[1]
    population = Population([one], values, 2, cools=True)
    population.run_until(time.monotonic() + 3600, lambda: False, lambda: len(heat) == 2, soon=soon)
    assert heat == [[False] * 3, [is_cut, False, is_cut]]


def test_rounds_without_end_do_not_overflow():
    """A target that nothing reaches, and rounds without annealing, of which there are thousands in a minute."""
    (cut,) = generate("maxcut", 1, seed=0, vertices=4, p_min=0.9, p_max=0.9)
    population, rounds = Population([cut], starts([cut], 3, 4), 2), itertools.count()
    population._round = lambda *_: next(rounds) < 2000
    population.run_until(time.monotonic() + 3600, lambda: False, lambda: False, soon=True)
    assert next(rounds) > 2000


def test_long_walks_leave_time_for_annealing(monkeypatch):
    """A thousand sweeps take a second, a walk two, and there are 20: the rounds after the trial are long ones."""
    clock, planned = [0.0], []

    def anneal(self, values, hot, sweeps, deadline, stopped):
        planned.append(sweeps)
        clock[0] += sweeps / 1000
        return values

    def walk(self, moves, deadline, stopped):
        clock[0] += 2
        return clock[0] < deadline

    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    monkeypatch.setattr(module, "TRIALS", {"cpu": 1, "cuda": 1})
    monkeypatch.setattr(module.Cooling, "run", anneal)
    monkeypatch.setattr(module.Walk, "run", walk)
    (cut,) = generate("maxcut", 1, seed=0, vertices=300, p_min=0.02, p_max=0.02)
    Population([cut], starts([cut], 3, 300), 2, cools=True).run_until(20.0, lambda: False, lambda: False)
    assert planned[:2] == [32, 5000]
    assert 8000 < planned[2] < 9000  # nine tenths of what is left
    assert planned[3:] == [32]


def test_a_walk_on_a_cpu_does_not_begin_at_more_states_than_it_has_time_to_look_up(monkeypatch):
    """Of many chains on a dense graph those are left that are best: the last ones. Where steps are counted, as many as
    if the graph were alone."""
    cuts, seen = generate("maxcut", 5, seed=0, vertices=30, p_min=1.0, p_max=1.0), []
    monkeypatch.setattr(module, "MOST_LOOKUPS", 10 * 32 * 29)
    monkeypatch.setattr(module, "Population", lambda members, starts, *others: seen.append(starts) or 1 / 0)
    first = torch.randint(2, (53, 5, 30), generator=torch.Generator().manual_seed(0))
    for number, all_the_time in ((1, False), (5, False), (1, True), (2, True), (5, True)):
        with pytest.raises(ZeroDivisionError):
            search(cuts[:number], first[:, :number], 2, time.monotonic() + 60, all_the_time=all_the_time)
    assert [len(some) for some in seen] == [10, 10, 10, 5, 4]
    assert all(some.equal(first[-len(some) :, : some.shape[1]]) for some in seen)
