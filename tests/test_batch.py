"""Batches: what an instance gets does not depend on the instances beside it, on padding or on the layout."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from blogdit.core.constraints import AllDifferent, Function, NotEqual, Sum, Table
from blogdit.core.instance import Instance
from blogdit.method.batch import collate
from blogdit.method.energy import KINDS, energy, move_costs, one_hot, penalties, violation_scores
from blogdit.problems import generate
from helpers import generator, instances, random_simplex, small_denoiser, zoo

MODELS = {
    relation: small_denoiser(relation=relation, edge_features=True) for relation in ("learned", "fixed", "neighbours")
}


def inputs(instances, chains=1, variables=None, values=None, seed=0):
    """A batch, logits, values and a block, the numbers of each instance depending on its place in the list alone."""
    batch = collate(instances, chains, variables, values)
    logits = torch.zeros(chains, batch.size, batch.variables, batch.values)
    for b, instance in enumerate(instances):
        k = int(instance.domain_sizes.max())
        numbers = torch.randn(chains, instance.size, k, generator=generator(seed + b + instance.size))
        logits[:, b, : instance.size, :k] = numbers
    logits = batch.lay(logits)
    values = logits.masked_fill(~batch.domain, -1e9).argmax(-1)
    return batch, logits, values, (logits[..., 0] > 0) & batch.free


def outcomes(batch, logits, values, block, model):
    """Every number the method computes of a state, per instance: (chains, B) or (chains, B, N, ...)."""
    x = logits.masked_fill(~batch.domain, float("-inf")).softmax(-1)
    mean, log_variance = model.on(batch)(logits, block)
    totals = {f"energy of {form}": energy(x, batch, form=form) for form in ("counts", "pairs")}
    nothing = torch.zeros(batch.rows, batch.groups)  # a kind that the batch does not have
    totals |= dict.fromkeys(KINDS, nothing) | {kind: phi.sum(-1) for kind, phi in penalties(x, batch).items()}
    rows = {
        "scores": violation_scores(values, batch),
        "costs": move_costs(values, batch).masked_fill(~batch.domain, 0.0),
        "mean": mean.masked_fill(~batch.domain, 0.0),
        "log_variance": log_variance.expand_as(mean).masked_fill(~batch.domain, 0.0),
    }
    found = {name: total.reshape(batch.chains, batch.size) for name, total in totals.items()}
    return found | {name: batch.per_instance(row) for name, row in rows.items()}


def assert_same(together, b, alone, place, instance):
    """Instance b of one batch has the numbers it has at `place` of another."""
    n, k = instance.size, int(instance.domain_sizes.max())
    for name, numbers in together.items():
        here, there = numbers[:, b], alone[name][:, place]
        if here.dim() > 1:
            here, there = here[:, :n], there[:, :n]
        if here.dim() > 2:
            here, there = here[..., :k], there[..., :k]
        torch.testing.assert_close(here, there, rtol=1e-4, atol=2e-5, msg=lambda text, name=name: f"{name}: {text}")


@pytest.mark.parametrize("relation", MODELS)
def test_a_batch_gives_each_instance_what_it_gets_alone(relation):
    """Energies, penalties, scores and network outputs of different instances, together and one by one."""
    every = zoo()
    together = outcomes(*inputs(every, chains=2), MODELS[relation])
    for b, instance in enumerate(every):
        alone = outcomes(*inputs([instance], chains=2, seed=b), MODELS[relation])
        assert_same(together, b, alone, 0, instance)


@settings(max_examples=40, deadline=None)
@given(st.lists(instances(), min_size=2, max_size=4), st.integers(0, 3), st.integers(0, 3))
def test_neighbours_and_padding_never_matter(members, more_variables, more_values):
    """The same for random instances of all kinds, with padding beyond what the batch needs."""
    n = max(i.size for i in members) + more_variables
    k = max(int(i.domain_sizes.max()) for i in members) + more_values
    together = outcomes(*inputs(members, variables=n, values=k), MODELS["learned"])
    for b, instance in enumerate(members):
        assert_same(together, b, outcomes(*inputs([instance], seed=b), MODELS["learned"]), 0, instance)


def test_take_equals_collating_the_subset():
    """For own structures and for shared ones, in any order, with repetitions."""
    puzzles = generate("sudoku", 4, seed=1, box=2, min_givens=4, max_givens=6)
    for members in (zoo(), puzzles):
        index = [3, 0, 3, 1]
        subset = [members[i] for i in index]
        batch = collate(members).take(torch.tensor(index))
        direct, logits, values, block = inputs(subset, variables=batch.variables, values=batch.values)
        assert batch.size == 4
        assert batch.shared == direct.shared
        assert torch.equal(batch.free, direct.free)
        assert torch.equal(batch.given_value, direct.given_value)
        taken = outcomes(batch, logits, values, block, MODELS["learned"])
        for name, numbers in outcomes(direct, logits, values, block, MODELS["learned"]).items():
            torch.testing.assert_close(taken[name], numbers, rtol=0, atol=0, msg=name)


def unshared(puzzle: Instance) -> Instance:
    """The same Sudoku with constraint objects of its own."""
    (houses,) = puzzle.constraints
    scopes = [houses.scope(j).tolist() for j in range(len(houses))]
    return Instance(puzzle.domain_sizes, (AllDifferent(scopes),), givens=puzzle.givens, positions=puzzle.positions)


@pytest.mark.parametrize("relation", MODELS)
def test_shared_and_union_layouts_give_the_same_numbers(relation):
    """Sudokus in one group or side by side."""
    puzzles = generate("sudoku", 3, seed=0, box=2, min_givens=4, max_givens=6)
    model = small_denoiser(relation=relation, position_dims=2)
    shared, logits, values, block = inputs(puzzles, chains=2)
    union = collate([unshared(p) for p in puzzles], chains=2)
    assert shared.shared
    assert shared.rows == 6
    assert not union.shared
    assert union.rows == 2
    one = outcomes(shared, logits, values, block, model)
    moved = [union.lay(shared.per_instance(t)) for t in (logits, values, block)]
    other = outcomes(union, *moved, model)
    for name, numbers in one.items():
        torch.testing.assert_close(numbers, other[name], rtol=1e-4, atol=2e-5, msg=name)


@pytest.mark.parametrize("members", [zoo(), generate("sudoku", 2, seed=0, box=2, min_givens=4, max_givens=6)])
def test_chains_are_independent_copies(members):
    """Chain c of a batch with three gets what a batch with one chain gets for the same state."""
    batch, logits, values, block = inputs(members, chains=3)
    three = outcomes(batch, logits, values, block, MODELS["learned"])
    single = batch.with_chains(1)
    for c in range(3):
        state = [single.lay(batch.per_instance(t)[c : c + 1]) for t in (logits, values, block)]
        one = outcomes(single, *state, MODELS["learned"])
        for name, numbers in one.items():
            torch.testing.assert_close(three[name][c : c + 1], numbers, rtol=1e-4, atol=2e-5, msg=name)


def test_laying_out_is_reversible_and_givens_land_on_their_variables():
    """(chains, B, N) and back; each given of each instance is where it belongs, padding is not free."""
    members = zoo()
    batch = collate(members, chains=2, variables=7)
    x = torch.arange(2 * len(members) * 7).view(2, len(members), 7)
    assert torch.equal(batch.per_instance(batch.lay(x)), x)
    for b, instance in enumerate(members):
        for chain in range(2):
            free = batch.per_instance(batch.free)[chain, b]
            assert free.tolist() == (~instance.is_given).tolist() + [False] * (7 - instance.size)
            given_values = batch.per_instance(batch.given_value)[chain, b, : instance.size]
            assert given_values.tolist() == instance.given_values.tolist()
    domain = batch.domain.view(len(members), 7, -1)
    for b, instance in enumerate(members):
        assert domain[b, : instance.size].sum(-1).tolist() == instance.domain_sizes.tolist()
        assert domain[b, instance.size :].all()


def test_groups_without_constraints():
    """Of every kind that allows it: nothing to violate."""
    nothing = (Table([], [[0, 1]]), AllDifferent([]), Sum([]), Function("max", [], []), NotEqual([]))
    batch = collate([Instance([2, 2], nothing), Instance([2, 2], (NotEqual([[0, 1]]),))])
    assert energy(one_hot(torch.zeros(1, 4, dtype=torch.long), batch), batch).tolist() == [[0.0, 1.0]]


def test_large_graphs_need_lists_not_matrices():
    """A graph with 30,000 vertices becomes tensors in proportion to its edges."""
    rng = np.random.default_rng(0)
    first = rng.integers(0, 30_000, 60_000)
    edges = np.unique(np.sort(np.stack([first, (first + rng.integers(1, 30_000, 60_000)) % 30_000], 1), 1), axis=0)
    from blogdit.problems import coloring

    batch = collate([coloring.build((30_000, edges), 4)])
    stored = []

    def visit(record):
        for item in vars(record).values():
            if isinstance(item, torch.Tensor):
                stored.append(item.numel())
            elif hasattr(item, "__dataclass_fields__"):
                visit(item)

    visit(batch)
    assert sum(stored) < 60 * (30_000 + len(edges))
    x = random_simplex(batch)
    exact = (x[0][edges[:, 0]] * x[0][edges[:, 1]]).sum()
    torch.testing.assert_close(energy(x, batch)[0, 0], exact, rtol=1e-4, atol=0.0)


def test_an_empty_batch_is_refused():
    with pytest.raises(ValueError, match="at least one instance"):
        collate([])


def test_positions_of_different_widths_share_a_batch():
    line, grid = ([[0], [1]], [[0, 1], [2, 3]])
    batch = collate([Instance(np.array([2, 2]), positions=np.array(places)) for places in (line, grid)])
    assert batch.structure.positions.tolist() == [[[0, 0], [1, 0]], grid]
