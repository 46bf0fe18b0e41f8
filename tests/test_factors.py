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
from blogdit.network.factors import Graph, couplings, exclusions, pool, spread
from blogdit.problems import generate

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
    literals = type(literals)(*(tensor.to(device) for tensor in vars(literals).values()))
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
            members = [m for m in literals.members[row % size, factor].tolist() if m < count]
            amounts = torch.ones(len(members), 1, device=device)
            if literals.member_amounts.numel():
                amounts = literals.member_amounts[row % size, factor, : len(members), None]
            if not members:
                assert not torch.cat([highest[row, factor], mean[row, factor]]).any()
                continue
            chosen = plain_u[row, members]
            assert torch.allclose(highest[row, factor], chosen.amax(0), atol=1e-6)
            average = (chosen * amounts).sum(0) * literals.share[row % size, factor]
            assert torch.allclose(mean[row, factor], average, atol=1e-6)
            losses.append((weights[0] * chosen.amax(0) + weights[1] * average).sum())
        for literal in range(count):
            factors = [f for f in literals.factors[row % size, literal].tolist() if f < factor_count]
            amounts = torch.ones(len(factors), 1, device=device)
            if literals.factor_amounts.numel():
                amounts = literals.factor_amounts[row % size, literal, : len(factors), None]
            total = (plain_t[row, factors] * amounts).sum(0)
            assert torch.allclose(heard[row, literal], total, atol=1e-5)
            losses.append((weights[2] * total).sum())
    torch.stack(losses).sum().backward()
    (weights[0] * highest + weights[1] * mean).sum().backward()
    (weights[2] * heard).sum().backward()
    assert torch.allclose(u.grad, plain_u.grad, atol=1e-5)
    assert torch.allclose(t.grad, plain_t.grad, atol=1e-5)


def test_the_two_lists_say_the_same(literals):
    size, count = literals.place.shape
    factor_count = literals.kind.shape[1]
    for b in range(size):
        by_factor = {(f, m) for f in range(factor_count) for m in literals.members[b, f].tolist() if m < count}
        by_literal = {(f, m) for m in range(count) for f in literals.factors[b, m].tolist() if f < factor_count}
        assert by_factor == by_literal
        if literals.factor_amounts.numel():
            amount = {
                (f, m): literals.member_amounts[b, f, s]
                for f in range(factor_count)
                for s, m in enumerate(literals.members[b, f].tolist())
            }
            for m in range(count):
                for q, f in enumerate(literals.factors[b, m].tolist()):
                    assert f == factor_count or amount[f, m] == literals.factor_amounts[b, m, q]


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
    for kind, members in zip(literals.kind[0].tolist(), literals.members[0].tolist(), strict=True):
        named = frozenset(pairs[m] for m in members if m < len(pairs))
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
    assert not (literals.members[0, 1:] < literals.place.shape[1]).any()


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
    literals = type(literals)(*(tensor.to(device) for tensor in vars(literals).values()))
    graph, (size, count) = Graph.of(literals, 2), literals.place.shape
    u = torch.randn(2 * size, count, 16, device=device, requires_grad=True)
    plain = u.detach().clone().requires_grad_()
    highest, mean, costs = *exclusions(u, graph), couplings(u, graph)
    weights, losses = torch.randn(3, 16, device=device), []
    for row in range(2 * size):
        for literal in range(count):
            others = [m for m in literals.excluded[row % size, literal].tolist() if m < count]
            if others:
                chosen = plain[row, others]
                assert torch.allclose(highest[row, literal], chosen.amax(0), atol=1e-6)
                assert torch.allclose(mean[row, literal], chosen.mean(0), atol=1e-6)
                losses.append((weights[0] * chosen.amax(0) + weights[1] * chosen.mean(0)).sum())
            others = [m for m in literals.coupled[row % size, literal].tolist() if m < count]
            if others:
                amounts = literals.coupling[row % size, literal, : len(others), None]
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
    for name, tensor in vars(whole).items():
        assert torch.equal(tensor, vars(parts)[name]), name
