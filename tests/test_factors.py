"""Messages between literals and factors: the lists, plain and as kernels, against loops."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from blogdit.core.constraints import AllDifferent, Conflict, NotEqual, Sum
from blogdit.core.instance import Instance
from blogdit.core.objective import Objective
from blogdit.method.batch import collate
from blogdit.method.rules import EXACTLY_ONE, VARIABLE
from blogdit.method.terms import map_tensors
from blogdit.network.factors import Graph, couplings, exclusions, pool, spread
from blogdit.problems import generate
from helpers import small_denoiser

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"  # without a GPU, kernels run in Triton's interpreter


def literals_of(batch):
    return batch.with_literals().literals


def with_amounts():
    """Sums with amounts of their own, beside rules without."""
    rng = np.random.default_rng(1)
    scopes = [sorted(rng.choice(6, 3, replace=False).tolist()) for _ in range(4)]
    sums = Sum(scopes, weights=[rng.integers(1, 5, 3).tolist() for _ in scopes], low=[3] * 4, high=[9] * 4)
    return [Instance([3] * 6, [sums, NotEqual([[0, 1], [2, 3]])]), Instance([3] * 6, [sums], givens={0: 1, 4: 2})]


@pytest.fixture(params=["sudoku", "coloring", "sums"])
def literals(request):
    if request.param == "sums":
        return literals_of(collate(with_amounts()))
    settings = {"sudoku": {"box": 2}, "coloring": {}}[request.param]
    return literals_of(collate(generate(request.param, 3, seed=4, **settings)))


@pytest.mark.parametrize("kernels", [False, True])
def test_pool_and_spread_are_what_the_lists_say(literals, kernels, monkeypatch):
    monkeypatch.setattr("blogdit.network.factors.runs_kernels", lambda device: kernels)
    device = DEVICE if kernels else "cpu"
    literals = map_tensors(literals, lambda tensor: tensor.to(device))
    chains, dim = 2, 16
    graph = Graph.of(literals, chains)
    size, count = literals.place.shape
    factor_count = literals.kind.shape[1]
    u = torch.randn(chains * size, count, dim, device=device, requires_grad=True)
    t = torch.randn(chains * size, factor_count, dim, device=device, requires_grad=True)
    highest, mean = pool(u, graph)
    heard = spread(t, graph)
    plain_u, plain_t = u.detach().clone().requires_grad_(), t.detach().clone().requires_grad_()
    losses = [torch.zeros((), device=device)]
    weights = torch.randn(3, dim, device=device)
    for row in range(chains * size):
        for factor in range(factor_count):
            members = literals.members.of(row % size, factor)
            amounts = literals.members.amounts_of(row % size, factor)[:, None]
            if not members:
                assert not torch.cat([highest[row, factor], mean[row, factor]]).any()
                continue
            chosen = plain_u[row, members]
            assert torch.allclose(highest[row, factor], chosen.amax(0), atol=1e-6)
            average = (chosen * amounts).sum(0) * literals.share[row % size, factor]
            assert torch.allclose(mean[row, factor], average, atol=1e-6)
            losses.append((weights[0] * chosen.amax(0) + weights[1] * average).sum())
        for literal in range(count):
            factors = literals.factors.of(row % size, literal)
            amounts = literals.factors.amounts_of(row % size, literal)[:, None]
            total = (plain_t[row, factors] * amounts).sum(0)
            assert torch.allclose(heard[row, literal], total, atol=1e-5)
            losses.append((weights[2] * total).sum())
    torch.stack(losses).sum().backward()
    (weights[0] * highest + weights[1] * mean).sum().backward()
    (weights[2] * heard).sum().backward()
    assert torch.allclose(u.grad, plain_u.grad, atol=1e-5)
    assert torch.allclose(t.grad, plain_t.grad, atol=1e-5)


def test_the_highest_of_a_long_list_is_that_of_its_pieces(literals, monkeypatch):
    u = torch.randn(2 * len(literals.place), literals.place.shape[1], 4)
    with torch.no_grad():
        whole, _ = pool(u, Graph.of(literals, 2))
        monkeypatch.setattr("blogdit.network.factors.PIECE", 2)
        in_pieces, _ = pool(u, Graph.of(literals, 2))
    assert torch.equal(whole, in_pieces)


def hub(count):
    """One sum over all variables, and as many clauses of three as there are variables."""
    clauses = Sum((np.arange(count)[:, None] + [0, 1, 2]) % count, low=[1] * count)
    return Instance([2] * count, [Sum([list(range(count))], low=[count // 2]), clauses])


def test_a_hub_makes_no_other_list_longer():
    """The size of all tensors is linear in the memberships: two of each variable, one in the sum, three of a clause."""
    numbers = []
    for count in (2_500, 5_000):
        literals = literals_of(collate([hub(count)]))
        assert int(literals.members.lengths.max()) == count
        assert int(literals.members.lengths.sum()) == 6 * count
        stored = []
        map_tensors(literals, lambda tensor, stored=stored: stored.append(tensor.numel()) or tensor)
        numbers.append(sum(stored))
        assert sum(stored) < 25 * 6 * count
    assert numbers[1] < 2.1 * numbers[0]


def test_a_network_takes_a_step_beside_a_hub():
    batch = collate([hub(5_000)])
    network = small_denoiser(values="literals", sees="every", dim=4, layers=1)
    logits = torch.zeros(1, batch.variables, 2)
    with torch.no_grad():
        mean, _ = network.on(batch)(logits, batch.free)
    assert mean.isfinite().all()


def test_the_two_lists_say_the_same(literals):
    size, count = literals.place.shape
    for b in range(size):
        found = []
        for lists, owners in ((literals.members, literals.kind.shape[1]), (literals.factors, count)):
            found.append(
                {
                    (owner, member): amount
                    for owner in range(owners)
                    for member, amount in zip(lists.of(b, owner), lists.amounts_of(b, owner).tolist(), strict=True)
                }
            )
        by_factor, by_literal = found
        assert by_factor == {(factor, member): amount for (member, factor), amount in by_literal.items()}


def test_what_givens_rule_out_has_no_literal():
    """A row, a column and a box of a 4x4 board leave an open cell the values that none of them has."""
    instance = generate("sudoku", 1, seed=1, box=2)[0]
    literals = literals_of(collate([instance]))
    real = {divmod(place, 4) for place in literals.place[0][literals.real[0]].tolist()}
    expected = set()
    for cell in range(16):
        if cell in instance.givens:
            continue
        row, column = divmod(cell, 4)
        seen = {
            value
            for other, value in instance.givens.items()
            if other // 4 == row or other % 4 == column or (other // 4 // 2, other % 4 // 2) == (row // 2, column // 2)
        }
        expected |= {(cell, value) for value in range(4) if value not in seen}
    assert real == expected


def test_factors_hold_the_rules_that_are_still_open():
    """Every open cell takes one value, and every house has one place for each value that it lacks."""
    instance = generate("sudoku", 1, seed=2, box=2)[0]
    literals = literals_of(collate([instance]))
    pairs = [divmod(place, 4) for place in literals.place[0].tolist()]
    rules = set()
    for factor, kind in enumerate(literals.kind[0].tolist()):
        named = frozenset(pairs[m] for m in literals.members.of(0, factor))
        if not named:
            continue
        cells, values = {cell for cell, _ in named}, {value for _, value in named}
        assert kind in (VARIABLE, EXACTLY_ONE)
        assert len(cells if kind == VARIABLE else values) == 1
        rules.add((kind, named))
    open_cells = 16 - len(instance.givens)
    assert sum(kind == VARIABLE for kind, _ in rules) == open_cells


def test_one_literal_alone_is_no_rule_of_at_most_one():
    """Of two cells that must differ, one is given, and the other may take what is left."""
    cells = Instance([3, 3], [AllDifferent([[0, 1]])], givens={0: 1})
    literals = literals_of(collate([cells]))
    assert literals.kind[0].tolist()[:1] == [VARIABLE]
    assert not literals.members.lengths[0, 1:].any()


@pytest.mark.parametrize("kernels", [False, True])
def test_neighbours_are_what_the_lists_say(kernels, monkeypatch):
    monkeypatch.setattr("blogdit.network.factors.runs_kernels", lambda device: kernels)
    device = DEVICE if kernels else "cpu"
    goal = Objective("minimize", differ=[[0, 1], [1, 2]], differ_weights=[-2, 3], unary=[[0, 1]], unary_weights=[1])
    instances = [
        Instance([2] * 4, [NotEqual([[0, 3], [2, 3]])], goal),
        Instance([2] * 3, [Conflict([[0, 1], [0, 2]], [[1, 1], [1, 1]])]),
    ]
    literals = literals_of(collate(instances))
    literals = map_tensors(literals, lambda tensor: tensor.to(device))
    graph, (size, count) = Graph.of(literals, 2), literals.place.shape
    u = torch.randn(2 * size, count, 16, device=device, requires_grad=True)
    plain = u.detach().clone().requires_grad_()
    highest, mean, costs = *exclusions(u, graph), couplings(u, graph)
    weights, losses = torch.randn(3, 16, device=device), []
    for row in range(2 * size):
        for literal in range(count):
            others = literals.excluded.of(row % size, literal)
            if others:
                chosen = plain[row, others]
                assert torch.allclose(highest[row, literal], chosen.amax(0), atol=1e-6)
                assert torch.allclose(mean[row, literal], chosen.mean(0), atol=1e-6)
                losses.append((weights[0] * chosen.amax(0) + weights[1] * chosen.mean(0)).sum())
            others = literals.coupled.of(row % size, literal)
            if others:
                amounts = literals.coupled.amounts_of(row % size, literal)[:, None]
                total = (amounts * plain[row, others]).sum(0) / amounts.abs().sum()
                assert torch.allclose(costs[row, literal], total, atol=1e-5)
                losses.append((weights[2] * total).sum())
    torch.stack(losses).sum().backward()
    (weights[0] * highest + weights[1] * mean + weights[2] * costs).sum().backward()
    assert torch.allclose(u.grad, plain.grad, atol=1e-5)


def test_building_in_parts_gives_the_same(monkeypatch):
    batch = collate(generate("sudoku", 7, seed=5, box=2))
    whole = literals_of(batch)
    monkeypatch.setattr("blogdit.method.literals.WORK", 1)
    parts = literals_of(batch)
    one, other = [], []
    map_tensors(whole, lambda tensor: one.append(tensor) or tensor)
    map_tensors(parts, lambda tensor: other.append(tensor) or tensor)
    assert all(torch.equal(*pair) for pair in zip(one, other, strict=True))
