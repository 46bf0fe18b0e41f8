"""Greedy, quadratic forms, RLSA and Gibbs sampling: facts that hold whatever the seed."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import networkx
import numpy as np
import pytest
import torch
from hypothesis import given, settings

from blogdit.bench.systems import Budget, base, dwave, system
from blogdit.bench.systems.base import Clock
from blogdit.bench.systems.conditionals import Conditionals
from blogdit.bench.systems.gibbs import Best, Gibbs, classes_of, independent_classes, start, sweep
from blogdit.bench.systems.greedy import color, independent_set, one_exchange
from blogdit.bench.systems.qubo import qubo
from blogdit.bench.systems.rlsa import Settings, anneal, nth_largest
from blogdit.core.constraints import Linear, NotEqual
from blogdit.core.instance import Instance, Objective
from blogdit.method.batch import collate
from blogdit.method.energy import energy, one_hot
from blogdit.method.noise import GeneratorNoise
from blogdit.problems import coloring, generate, maxcut, mis
from blogdit.problems.graphs import Graph, make_graph
from helpers import enumerated, generator, instances, zoo

# -- greedy --------------------------------------------------------------------------------------------------------


def test_greedy_colours_a_crown_badly_and_says_so():
    """Two colours suffice for an even cycle; in a triangle they do not, and one edge stays broken."""
    square = coloring.build(networkx.cycle_graph(4), 2)
    assert system("greedy").solve(square, Budget()).status == "solved"
    triangle = coloring.build(networkx.complete_graph(3), 2)
    assert system("greedy").solve(triangle, Budget()).verdict.violated == 1


def test_greedy_colouring_is_that_of_networkx():
    graph = networkx.gnp_random_graph(30, 0.2, seed=1)
    found = networkx.greedy_color(graph, "largest_first")
    values = color(coloring.graph_of(coloring.build(graph, 30)), 30, "largest_first")
    assert values.tolist() == [found[v] for v in range(30)]


def test_least_degree_first_is_optimal_on_trees():
    """Leaves always belong to some largest independent set of a tree."""
    for seed in range(5):
        tree = networkx.random_labeled_tree(25, seed=seed)
        largest = len(tree) - len(networkx.max_weight_matching(tree, maxcardinality=True))  # Koenig, Gallai
        assert system("greedy").solve(mis.build(tree), Budget()).objective == largest


def test_any_set_becomes_independent_and_maximal():
    for instance in generate("mis", 3, seed=2):
        graph, rng = mis.graph_of(instance), np.random.default_rng(0)
        values = independent_set(graph, rng.integers(0, 2, graph.vertices))
        assert instance.verify(values).satisfied
        chosen = values.astype(bool)
        covered = chosen.copy()
        for i, j in graph.edges:
            covered[i] |= chosen[j]
            covered[j] |= chosen[i]
        assert covered.all()


def test_no_single_move_improves_a_cut():
    (instance,) = generate("maxcut", 1, seed=3, weights="normal")
    graph = maxcut.graph_of(instance)
    sides = one_exchange(graph, np.zeros(graph.vertices, np.int64))
    now = instance.verify(sides).objective
    for vertex in range(graph.vertices):
        moved = sides.copy()
        moved[vertex] ^= 1
        assert instance.verify(moved).objective <= now + 1e-9


# -- quadratic forms -----------------------------------------------------------------------------------------------


def test_forms_of_cuts_and_sets_are_the_objective():
    """-E is the cut; of a set it is its size less 1.02 for every edge inside."""
    graph = make_graph(4, [[0, 1], [1, 2], [2, 3], [0, 3], [0, 2]], [1.0, 2.0, -1.0, 3.0, 0.5])
    cut, sets = qubo(maxcut.build(graph)), qubo(mis.build(graph))
    for bits in itertools.product((0.0, 1.0), repeat=4):
        x = np.array(bits)
        assert -cut.energy(x) == pytest.approx(cut.instance.verify(x.astype(int)).objective)
        inside = sum(bits[i] * bits[j] for i, j in graph.edges)
        assert sets.energy(x) == pytest.approx(1.02 * inside - sum(bits))


@pytest.mark.parametrize("problem", ["sudoku", "coloring"])
def test_forms_of_one_bit_per_value_reach_their_target_exactly_at_solutions(problem):
    small = {"box": 2, "min_givens": 6, "max_givens": 6} if problem == "sudoku" else {"vertices": 20, "p_max": 0.15}
    (instance,) = generate(problem, 1, seed=4, **small)
    form = qubo(instance)
    values = system("cp-sat").solve(instance, Budget(seconds=5)).values
    width = int(instance.domain_sizes[0])
    bits = np.eye(width)[values].reshape(-1)
    assert form.energy(bits) == pytest.approx(form.target)
    assert form.decode(bits.astype(int)).tolist() == values.tolist()
    free = np.flatnonzero(~instance.is_given)
    for variable in free[:5]:
        broken = bits.copy().reshape(-1, width)
        broken[variable] = 0  # no value at all
        assert form.energy(broken.reshape(-1)) > form.target + 0.5
        broken[variable, :2] = 1  # two values
        assert form.energy(broken.reshape(-1)) > form.target + 0.5


def test_the_gradient_of_a_form_is_the_change_of_its_energy():
    form = qubo(generate("maxcut", 1, seed=1, vertices=9, weights="normal")[0])
    x = np.random.default_rng(0).integers(0, 2, 9).astype(float)
    for i in range(9):
        up, down = x.copy(), x.copy()
        up[i], down[i] = 1, 0
        assert form.energy(up) - form.energy(down) == pytest.approx(form.gradient(x)[i])


# -- RLSA ----------------------------------------------------------------------------------------------------------


def test_rlsa_keeps_the_best_state_of_each_chain():
    """More steps of the same chains never end with a worse best energy, and energies are those of the states."""
    forms = [qubo(instance) for instance in generate("mis", 2, seed=6)]
    longest = Settings(tau=0.01, d=5, steps=40, chains=8)
    energies, states, steps = anneal(forms, longest, 0, Clock(None))
    assert steps == 40
    for form, energy_of, bits in zip(forms, energies, states, strict=True):
        for chain in range(8):
            exact = form.energy(bits[: form.size, chain].astype(float))
            assert energy_of[chain] == pytest.approx(exact, abs=1e-3)
        assert bits[form.size :].sum() == 0
    start_energy, _, _ = anneal(forms, Settings(tau=0.01, d=5, steps=0, chains=8), 0, Clock(None))
    assert (energies <= start_energy + 1e-3).all()


def test_rlsa_dense_and_sparse_forms_agree(monkeypatch):
    forms = [qubo(instance) for instance in generate("maxcut", 2, seed=6, vertices="30-40")]
    settings = Settings(tau=1.0, d=2, steps=20, chains=4)
    dense = anneal(forms, settings, 3, Clock(None))
    monkeypatch.setattr("blogdit.bench.systems.rlsa.DENSE", 0)
    sparse = anneal(forms, settings, 3, Clock(None))
    assert np.array_equal(dense[1], sparse[1])


def test_rlsa_never_flips_givens():
    (instance,) = generate("sudoku", 1, seed=1)
    form = qubo(instance)
    _, states, _ = anneal([form], Settings(tau=0.1, d=2, steps=10, chains=3), 0, Clock(None))
    given = form.clamped >= 0
    assert (states[0][given] == form.clamped[given][:, None]).all()


def test_rlsa_comes_close_to_the_largest_sets():
    """On small RB graphs it loses at most one vertex to the planted bound (a set has at most one vertex a clique)."""
    many = generate("mis", 3, seed=12)
    found = system("rlsa").solve_many(many, Budget(steps=100), seed=0)
    greedy = system("greedy").solve_many(many, Budget())
    assert all(r.objective >= g.objective for r, g in zip(found, greedy, strict=True))
    assert all(17 <= r.objective <= 24 for r in found)


# -- Gibbs ---------------------------------------------------------------------------------------------------------


def conditional_costs(values, batch, members):
    """Of all variables, class by class, (R, M, K)."""
    found = torch.zeros(*values.shape, batch.values)
    for one in classes_of(members, batch):
        found[:, one.members] = one.costs(values)
    return found


def largest_error(instance: Instance) -> float:
    """Of the conditional costs against energy differences, over all assignments, variables and values, as a share of
    the cost where that is above 1; values outside a domain must cost infinity."""
    worst = 0.0
    batch, values, every = enumerated(instance)
    total = energy(one_hot(values, batch).double(), batch).view(-1)
    number = {tuple(row): index for index, row in enumerate(every.tolist())}
    costs = batch.per_instance(conditional_costs(values, batch, [instance]))[:, 0].double()
    for index, row in enumerate(every.tolist()):
        for i, size in enumerate(instance.domain_sizes):
            moves = [number[(*row[:i], k, *row[i + 1 :])] for k in range(size)]
            expected = total[moves] - total[moves[0]]
            found = costs[index, i, :size]
            error = (found - found[0] - expected).abs() / found.abs().max().clamp(min=1)
            worst = max(worst, error.max().item())
            assert torch.isinf(costs[index, i, size:]).all()
    return worst


@given(instance=instances())
@settings(max_examples=25, deadline=None)
def test_conditional_costs_are_energy_differences(instance):
    assert largest_error(instance) < 1e-4


def test_conditional_costs_of_hand_made_instances_and_of_a_padded_batch():
    for instance in zoo():
        assert largest_error(instance) < 1e-4
    batch = collate(zoo())
    values = start(batch, GeneratorNoise(generator(0)))
    together = batch.per_instance(conditional_costs(values, batch, zoo()))[0]
    for place, instance in enumerate(zoo()):
        alone = collate([instance])
        own = values.view(batch.size, -1)[place : place + 1, : instance.size]
        width = int(instance.domain_sizes.max())
        found = conditional_costs(own, alone, [instance])[0], together[place, : instance.size, :width]
        assert torch.allclose(*(costs - costs[:, :1] for costs in found)), "up to a constant for each variable"


def test_classes_share_no_constraint():
    for instance in [*zoo(), *generate("sudoku", 1, seed=1), *generate("maxcut", 1, seed=1)]:
        classes = independent_classes(instance)
        for group in instance.constraints:
            for index in range(len(group)):
                members = classes[group.scope(index)]
                assert len(set(members.tolist())) == len(members)
    long = Instance(np.full(300, 2), (Linear([range(300)], [[1] * 300], ["<="], [9]),))
    assert len(set(independent_classes(long).tolist())) == 300, "also where not all pairs are listed"


def test_gibbs_samples_the_boltzmann_distribution():
    """Sweeps with random blocks leave exp(-H / tau) unchanged: frequencies match the enumeration."""
    instance = Instance(
        np.array([3, 2, 3]),
        (NotEqual([[0, 1], [1, 2]]),),
        Objective("minimize", unary=[[0, 1], [2, 0]], unary_weights=[0.7, -0.5], differ=[[0, 2]], differ_weights=[0.4]),
    )
    tau, chains = 0.8, 6000
    batch, every_values, every = enumerated(instance)
    exact = (-energy(one_hot(every_values, batch), batch).view(-1) / tau).softmax(0)
    batch = collate([instance], chains=chains)
    noise, classes = GeneratorNoise(generator(1)), classes_of([instance], batch)
    values = start(batch, noise)
    for _ in range(15):
        block = batch.lay(noise.uniform(chains, 1, 3) < 0.6)
        before = values
        values = sweep(values, batch, block, classes, tau, noise)
        assert (values == before)[~block].all()
    numbers = values.view(chains, 3) @ torch.tensor([6, 3, 1])
    counts = torch.bincount(numbers, minlength=18)
    order = torch.from_numpy(every) @ torch.tensor([6, 3, 1])
    assert torch.allclose(counts[order] / chains, exact, atol=4 * (0.25 / chains) ** 0.5)


def test_gibbs_colours_easy_graphs_and_keeps_padding_apart():
    many = generate("coloring", 3, seed=2, vertices="20-30", colors=5, p_min=0.1, p_max=0.2)
    assert all(r.status == "solved" for r in Gibbs().solve_many(many, Budget(steps=200)))


def test_members_of_conditionals_may_be_any_subset_of_a_class():
    (instance,) = generate("coloring", 1, seed=2, vertices=10)
    batch = collate([instance], chains=2)
    values = start(batch, GeneratorNoise(generator(0)))
    some = torch.tensor([7, 2])
    assert torch.equal(Conditionals(batch, some).costs(values), conditional_costs(values, batch, [instance])[:, some])


def test_rlsa_threshold_is_the_nth_largest_with_ties_and_fixed_bits():
    gain = torch.randint(-3, 3, (4, 7, 5), generator=torch.Generator().manual_seed(1)).float()
    gain[:, :2] = float("-inf")
    for n in range(1, 8):
        assert torch.equal(nth_largest(gain, n), gain.sort(dim=1, descending=True).values[:, n - 1 : n])


def test_rlsa_answers_in_the_order_of_the_questions():
    mixed = [*generate("mis", 1, seed=0), *generate("maxcut", 1, seed=0), *generate("mis", 2, seed=1)]
    found = system("rlsa").solve_many(mixed, Budget(steps=3))
    assert [result.instance for result in found] == mixed


def test_vertices_worth_nothing_leave_first_and_those_worth_less_never_enter():
    path = Graph(4, np.array([[0, 1], [1, 2]]), vertex_weights=np.array([0.0, 1.0, 1.0, -5.0]))
    assert independent_set(path, np.array([1, 1, 0, 1])).tolist() == [0, 1, 0, 0]
    assert independent_set(path, np.zeros(4, np.int64)).tolist() in ([0, 1, 0, 0], [0, 0, 1, 0])


def test_gibbs_does_not_take_a_cheap_conflict_for_an_answer():
    light = mis.build(Graph(2, np.array([[0, 1]]), vertex_weights=np.array([0.1, 0.1])))
    best = Best(collate([light]))
    best.keep(torch.tensor([[1, 1]]), 1)
    best.keep(torch.tensor([[1, 0]]), 2)
    assert best.answer(0).tolist() == [1, 0]
    best.keep(torch.tensor([[1, 1]]), 3)
    assert best.answer(0).tolist() == [1, 0]


def test_runs_of_annealing_grow_up_to_a_limit(monkeypatch):
    """A millisecond for each sweep, on 40 vertices: the last run takes what is left of 20 s."""
    pytest.importorskip("dwave.samplers")
    asked, real = [], dwave.samplers().SimulatedAnnealingSampler()

    class Recorded:
        def sample(self, target, num_reads, num_sweeps, seed):
            asked.append(num_sweeps)
            return real.sample(target, num_reads=num_reads, num_sweeps=1, seed=seed)

    monkeypatch.setattr(dwave, "samplers", lambda: SimpleNamespace(SimulatedAnnealingSampler=Recorded))
    monkeypatch.setattr(base, "time", SimpleNamespace(monotonic=lambda: sum(asked) / 1000))
    (cut,) = generate("maxcut", 1, seed=0, vertices=40)
    result = dwave.Annealing().solve(cut, Budget(seconds=20.0))
    assert asked == pytest.approx([1000, 2000, 4000, 5120, 5120, 2760], abs=1)
    assert result.steps == sum(asked)
