"""Blocks: how large they are on average, whatever the selector, and what is in them."""

from __future__ import annotations

import networkx
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from blogdit.core.constraints import Conflict, NotEqual
from blogdit.core.instance import Instance, Objective
from blogdit.method.batch import collate
from blogdit.method.blocks import SELECTORS, Schedule, Selector, _constraint_rate, decode, fit_budget
from blogdit.method.noise import StreamNoise
from blogdit.problems import coloring, generate, maxcut, mis
from helpers import noise, zoo

PARTIAL = [name for name in SELECTORS if name != "all"]


# -- schedules ---------------------------------------------------------------------------------------------------------


def test_schedules_are_those_of_appendix_c():
    """rho_t for t = 4, 3, 2, 1, 0 of T = 4; progress is 1 - t/T, of steps or of a time budget alike."""
    progress = torch.tensor([0.0, 0.25, 0.5, 0.75, 1.0])
    linear = Schedule(0.9, 0.3, "linear").rate(progress)
    assert linear.tolist() == pytest.approx([0.9, 0.75, 0.6, 0.45, 0.3])
    geometric = Schedule(0.9, 0.3, "geometric").rate(progress)
    assert geometric.tolist() == pytest.approx([0.3 * 3 ** (t / 4) for t in (4, 3, 2, 1, 0)])
    assert Schedule().rate(progress).tolist() == geometric.tolist(), "the default"
    late = Schedule().rate(torch.tensor([-0.5, 1.5]))
    assert late.tolist() == pytest.approx([0.9, 0.3]), "a clock that overruns stays at the end"
    assert Schedule(1.0, 1.0).rate(progress).tolist() == [1.0] * 5, "DiT"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rho_min": 0.0}, r"rho_min must be in \(0, 1\], got 0.0"),
        ({"rho_max": 1.5}, r"rho_max must be in \(0, 1\], got 1.5"),
        ({"rho_min": 0.95}, "rho_min must not exceed rho_max"),
        ({"shape": "cosine"}, "shape must be geometric or linear"),
    ],
)
def test_bad_schedules_are_refused_by_name(settings, message):
    with pytest.raises(ValueError, match=message):
        Schedule(**settings)


# -- the budget --------------------------------------------------------------------------------------------------------

EXTREME = st.sampled_from([0.0, 1e-30, 1e-12, 0.1, 1.0, 3.0, 1e6, 1e30]) | st.floats(0, 10)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(EXTREME, st.integers(0, 3)), min_size=1, max_size=30), st.floats(0.01, 1.0))
def test_budget_is_kept_whatever_the_weights(rows, rate):
    """Probabilities are at most 1, zero off the free variables, and their mean over the free ones is the rate."""
    weights = torch.tensor([[w for w, _ in rows]])
    free = torch.tensor([[kind > 0 for _, kind in rows]])
    chance = fit_budget(weights, torch.tensor([[rate]]), free)
    assert ((chance >= 0) & (chance <= 1)).all()
    assert (chance[~free] == 0).all()
    if free.any():
        assert chance[free].mean().item() == pytest.approx(rate, abs=1e-4)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.floats(0.01, 10), min_size=2, max_size=20), st.floats(0.01, 1.0))
def test_probabilities_are_proportional_below_one(weights, rate):
    """Heavier variables are at least as likely; those not clipped keep the proportions of their weights."""
    w = torch.tensor(weights)
    chance = fit_budget(w, torch.tensor([rate]), torch.ones(len(w), dtype=torch.bool))
    order = w.argsort()
    assert (chance[order].diff() >= -1e-6).all()
    ratio = (chance / w)[chance < 0.9999]
    if len(ratio):
        assert ratio.max().item() == pytest.approx(ratio.min().item(), rel=0.01)


def test_budget_by_hand():
    """What clipping takes from the heaviest goes to the others, in proportion."""
    free = torch.ones(4, dtype=torch.bool)
    half = torch.tensor([0.5])
    assert fit_budget(torch.tensor([1.0, 1, 1, 1]), half, free).tolist() == pytest.approx([0.5] * 4)
    assert fit_budget(torch.tensor([100.0, 2, 1, 1]), half, free).tolist() == pytest.approx(
        [1, 0.5, 0.25, 0.25], abs=1e-4
    )
    assert fit_budget(torch.tensor([9.0, 9, 0, 0]), half, free).tolist() == pytest.approx([1, 1, 0, 0], abs=1e-4)
    assert fit_budget(torch.zeros(4), half, free).tolist() == pytest.approx([0.5] * 4)
    assert fit_budget(torch.tensor([5.0, 0, 0, 0]), half, free).tolist() == pytest.approx([1, 1 / 3, 1 / 3, 1 / 3])


# -- selectors ---------------------------------------------------------------------------------------------------------


def hubs(build):
    """Two hubs of 12 and 6 leaves, a triangle and five isolated vertices."""
    edges = [(0, leaf) for leaf in range(2, 14)] + [(1, leaf) for leaf in range(8, 14)] + [(14, 15), (15, 16), (14, 16)]
    return build((22, edges))


CASES = {
    "sudoku": lambda: generate("sudoku", 1, seed=3, box=2, min_givens=4, max_givens=6)[0],
    "hubs and isolated vertices": lambda: hubs(lambda graph: coloring.build(graph, 3)),
    "cut": lambda: hubs(maxcut.build),
    "independent set": lambda: hubs(mis.build),
    "all kinds": lambda: zoo()[2],
    "no constraints": lambda: zoo()[4],
}


@pytest.mark.parametrize("rate", [0.1, 0.3, 0.9])
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", PARTIAL)
def test_the_mean_share_of_a_block_is_the_rate(name, case, rate):
    """Within 1 % over many chains (and never more than four standard errors more), for moderate and extreme logits.

    Padding and givens are never in a block and do not count.
    """
    instance, chains = CASES[case](), 12_000
    batch = collate([instance], chains, variables=instance.size + 3)
    draws, free = noise(1), batch.free
    rates = torch.full((chains, 1, 1), rate)
    for scale in (1.0, 1e4):
        logits = torch.randn(batch.rows, batch.variables, batch.values, generator=draws.generator) * scale
        block = Selector(name, batch).draw(logits, rates, draws)
        assert not (block & ~free).any()
        shares = block.sum(1) / free.sum(1)
        error = shares.std() / chains**0.5
        assert abs(shares.mean() - rate) < 0.01 * rate + 4 * error, f"scale {scale}"


@pytest.mark.parametrize("name", PARTIAL)
def test_the_share_keeps_the_rate_within_one_per_cent(name):
    """On hard cases with so many chains that the standard error is below a third of 1 %: extreme weights included."""
    for case, chains, rate in (("sudoku", 60_000, 0.5), ("hubs and isolated vertices", 60_000, 0.5)):
        batch = collate([CASES[case]()], chains)
        logits = torch.zeros(batch.rows, batch.variables, batch.values)
        logits[:, ::3, 0], logits[:, 1::3, 0] = 1e6, 1e-6  # certain, undecided and tied variables
        block = Selector(name, batch).draw(logits, torch.full((chains, 1, 1), rate), noise(2))
        shares = block.sum(1) / batch.free.sum(1)
        assert shares.std() / chains**0.5 < 0.0035 * rate
        assert shares.mean().item() == pytest.approx(rate, rel=0.01)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from([0.02, 0.3, 0.7, 0.99]))
def test_related_share_on_random_degree_sequences(seed, rate):
    """Graphs from empty to scale-free: the constraint rate solves for the mean share exactly (its expectation)."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 60))
    kind = rng.integers(3)
    if kind == 0:
        graph = networkx.gnp_random_graph(n, float(rng.uniform(0, 0.5)), seed=seed)
    elif kind == 1:
        graph = networkx.barabasi_albert_graph(max(n, 3), 1, seed=seed)
    else:
        graph = networkx.star_graph(n)
    degree = torch.zeros(1, 1, len(graph))
    for u, v in graph.edges:
        degree[0, 0, u] += 1
        degree[0, 0, v] += 1
    counted = degree > 0
    if not counted.any():
        return
    s = _constraint_rate(degree, torch.tensor([[[rate]]]), counted)
    expected = (1 - torch.exp(-s * degree))[counted].mean()
    assert expected.item() == pytest.approx(rate, rel=1e-3)


@pytest.mark.parametrize("name", SELECTORS)
def test_each_instance_has_its_own_rate(name):
    """Rates differ by chain and instance; a rate of 1 takes every free variable, whatever the selector."""
    batch = collate([CASES["sudoku"](), CASES["independent set"](), *zoo()], chains=300)
    rates = torch.full((300, batch.size, 1), 0.2)
    rates[150:, 0], rates[:, 1] = 0.8, 1.0
    logits = torch.randn(batch.rows, batch.groups * batch.variables, batch.values)
    block = batch.per_instance(Selector(name, batch).draw(logits, rates, noise()))
    free = batch.per_instance(batch.free)
    assert torch.equal(block[:, 1], free[:, 1])
    if name == "all":
        assert torch.equal(block, free)
    else:
        shares = block[:, 0].sum(-1) / free[:, 0].sum(-1)
        assert shares[:150].mean() < 0.35
        assert shares[150:].mean() > 0.65


@pytest.mark.parametrize("name", SELECTORS)
def test_blocks_do_not_depend_on_the_batch(name):
    """With streams of random numbers an instance gets the same blocks alone, in any company and under padding."""
    members = [*zoo(), CASES["independent set"](), CASES["sudoku"]()]
    keys = torch.arange(len(members)) + 100
    together = collate(members, chains=3, variables=40, values=6)
    logits = torch.randn(3, len(members), 40, 6)
    for b, instance in enumerate(members):
        alone = collate([instance], chains=3)
        blocks = []
        for batch, noises, state, place in (
            (together, StreamNoise(keys), logits, b),
            (alone, StreamNoise(keys[b : b + 1]), logits[:, b : b + 1, : alone.variables, : alone.values], 0),
        ):
            rates = torch.full((3, batch.size, 1), 0.4)
            selector = Selector(name, batch)
            drawn = [selector.draw(batch.lay(state), rates, noises) for _ in range(3)]
            blocks.append(torch.stack([batch.per_instance(d)[:, place, : instance.size] for d in drawn]))
        assert torch.equal(*blocks), f"instance {b}"


def test_all_is_every_free_variable():
    batch = collate(zoo(), chains=2)
    logits = torch.zeros(batch.rows, batch.groups * batch.variables, batch.values)
    block = Selector("all", batch).draw(logits, torch.full((2, batch.size, 1), 0.1), noise())
    assert torch.equal(block, batch.free)


@pytest.mark.parametrize("case", ["sudoku", "hubs and isolated vertices", "cut", "all kinds"])
def test_related_blocks_are_unions_of_scopes(case):
    """Each block is what the constraints that lie in it cover, besides variables that have no constraint."""
    instance = CASES[case]()
    scopes = [group.scope(j) for group in instance.constraints for j in range(len(group))]
    if instance.objective is not None:
        scopes += list(instance.objective.differ)
    scopes = [[i for i in scope if not instance.is_given[i]] for scope in scopes]
    bound = {i for scope in scopes for i in scope}
    batch = collate([instance], chains=200)
    logits = torch.zeros(batch.rows, batch.variables, batch.values)
    block = Selector("related", batch).draw(logits, torch.full((200, 1, 1), 0.3), noise())
    sizes = set()
    for row in block:
        chosen = set(row.nonzero().flatten().tolist())
        covered = {i for scope in scopes if set(scope) <= chosen for i in scope}
        assert chosen & bound == covered
        sizes.add(len(chosen))
    assert len(sizes) > 1


def drawn_shares(name, instance, values, rate=0.3, chains=4000):
    """How often each variable is in a block when the state holds `values`."""
    batch = collate([instance], chains)
    logits = torch.nn.functional.one_hot(torch.tensor(values), batch.values).float() * 10
    block = Selector(name, batch).draw(logits.expand(chains, -1, -1), torch.full((chains, 1, 1), rate), noise(3))
    return block.float().mean(0)


def test_critical_takes_violated_variables_first_and_falls_back_to_uniform():
    """On a path 0-0-1-0-1-0 the first edge is violated; on a coloured path all vertices are equally likely."""
    path = coloring.build((6, [(i, i + 1) for i in range(5)]), 2)
    shares = drawn_shares("critical", path, [0, 0, 1, 0, 1, 0], rate=1 / 3)
    assert shares.tolist() == pytest.approx([1, 1, 0, 0, 0, 0], abs=0.01)
    assert drawn_shares("critical", path, [0, 1, 0, 1, 0, 1]).tolist() == pytest.approx([0.3] * 6, abs=0.03)


def test_critical_sees_what_an_objective_could_gain():
    """No violation: a vertex that could join the independent set at once comes before those that could not."""
    goal = Objective("maximize", [[i, 1] for i in range(4)], [1.0] * 4)
    instance = Instance(np.full(4, 2), (Conflict([[0, 1], [1, 2]], (1, 1)),), goal)
    shares = drawn_shares("critical", instance, [1, 0, 1, 0], rate=0.25)
    assert shares[3] > 0.95
    assert shares[:3].max() < 0.05
    cut = Objective("maximize", differ=[[0, 1], [1, 2], [2, 3]], differ_weights=[1.0] * 3)
    shares = drawn_shares("critical", Instance(np.full(4, 2), (), cut), [0, 0, 1, 0], rate=0.25)
    assert shares[0] > 0.9, "moving vertex 0 gains an edge, moving vertex 1 gains none"


def test_margin_takes_undecided_variables_first():
    """Probabilities (0.5, 0.5), (0.75, 0.25) and certain: weights 1, 0.5 and 0."""
    instance = Instance(np.full(3, 2), (NotEqual([[0, 1]]),))
    batch = collate([instance], chains=20_000)
    chances = torch.tensor([[0.5, 0.5], [0.75, 0.25], [1.0, 1e-9]])
    block = Selector("margin", batch).draw(
        chances.log().expand(20_000, -1, -1), torch.full((20_000, 1, 1), 0.3), noise()
    )  # fmt: skip
    assert block.float().mean(0).tolist() == pytest.approx([0.6, 0.3, 0.0], abs=0.015)


def test_domains_of_one_value_are_no_obstacle():
    """They are certain; a problem of nothing else still spends its budget."""
    batch = collate([Instance(np.array([1, 1, 1, 1]))], chains=4000)
    logits = torch.randn(4000, 4, 1)
    for name in PARTIAL:
        block = Selector(name, batch).draw(logits, torch.full((4000, 1, 1), 0.5), noise())
        assert block.float().mean().item() == pytest.approx(0.5, abs=0.02)


@pytest.mark.parametrize("name", SELECTORS)
def test_nothing_free_means_an_empty_block(name):
    (puzzle,) = generate("sudoku", 1, seed=0, box=2, min_givens=16, max_givens=16)
    batch = collate([puzzle], chains=2)
    block = Selector(name, batch).draw(torch.zeros(2, 16, 4), torch.full((2, 1, 1), 0.9), noise())
    assert not block.any()


def test_decoding_stays_in_the_domain():
    """The likeliest value among those a variable may take."""
    batch = collate([Instance(np.array([2, 3]))])
    assert decode(torch.tensor([[[0.0, 1.0, 9.0], [0.0, 1.0, 9.0]]]), batch).tolist() == [[1, 2]]


def test_unknown_selectors_are_refused():
    with pytest.raises(ValueError, match="block must be one of all, random, margin, critical, related, got 'best'"):
        Selector("best", collate(zoo()))
