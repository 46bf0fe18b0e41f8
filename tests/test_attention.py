"""Attention over related variables: all pairs and neighbours only, the same numbers."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from blogdit.core.constraints import NotEqual
from blogdit.core.instance import Instance, Objective
from blogdit.method.batch import collate
from blogdit.method.relations import RELATION_FEATURES
from blogdit.network.attention import attend, dense_bias, neighbour_bias
from blogdit.problems import generate
from helpers import generator, small_denoiser, zoo

HEADS, WIDTH = 2, 4
NONE = torch.full((HEADS,), float("-inf"))


@st.composite
def graphs(draw):
    """Weighted graphs with isolated vertices, as MaxCut and colouring relations together."""
    n = draw(st.integers(1, 7))
    edges = draw(st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=10))
    edges = sorted({(min(e), max(e)) for e in edges if e[0] != e[1]})
    other = edges[:: draw(st.integers(1, 3))]
    weights = [draw(st.integers(-3, 3)) for _ in other]
    goal = Objective("maximize", differ=other, differ_weights=weights) if other else None
    return Instance(np.full(n, 3), (NotEqual(edges[1:]),), goal)


def random_inputs(batch, seed):
    count = batch.groups * batch.variables
    draws = generator(seed)
    qkv = [torch.randn(batch.rows, count, HEADS, WIDTH, generator=draws).requires_grad_() for _ in range(3)]
    weights = torch.randn(RELATION_FEATURES, HEADS, generator=draws).requires_grad_()
    return qkv, weights


def by_hand(qkv, weights, unrelated, batch):
    """Attention from its definition, one variable at a time."""
    q, k, v = qkv
    relations, n = batch.relations, batch.variables
    out = torch.zeros_like(q)
    for g in range(batch.groups):
        related = {
            (int(t), int(s)): f
            for s, t, f, p in zip(*(getattr(relations, x)[g] for x in ("source", "target", "features", "present")))  # noqa: B905
            if p
        }
        for i in range(n):
            seen, logits = [], []
            for j in range(n):
                if i == j:
                    bias = torch.zeros(HEADS)
                elif (i, j) in related:
                    bias = related[i, j] @ weights
                elif torch.isfinite(unrelated).all() and batch.structure.real[g, j]:
                    bias = unrelated
                else:
                    continue
                seen.append(g * n + j)
                logits.append((q[:, g * n + i] * k[:, g * n + j]).sum(-1) / WIDTH**0.5 + bias)
            shares = torch.stack(logits, -1).softmax(-1)  # (R, heads, seen)
            out[:, g * n + i] = torch.einsum("rhs,rshd->rhd", shares, v[:, seen])
    return out


@settings(max_examples=40, deadline=None)
@given(st.lists(graphs(), min_size=1, max_size=3), st.integers(1, 2), st.integers(0, 1000))
def test_dense_without_unrelated_pairs_equals_neighbours(members, chains, seed):
    """Outputs and all gradients, on random graphs with isolated vertices, several groups, features on the edges."""
    batch = collate(members, chains)
    qkv, weights = random_inputs(batch, seed)
    outs, gradients = [], []
    for bias in (dense_bias(batch, weights, NONE), neighbour_bias(batch, weights)):
        out = attend(torch.stack(qkv, 2), bias)
        outs.append(out)
        gradients.append(
            torch.autograd.grad((out * torch.linspace(-1, 1, out.numel()).view_as(out)).sum(), [*qkv, weights])
        )
    torch.testing.assert_close(outs[0], outs[1], rtol=1e-5, atol=2e-6)
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(outs[0], by_hand(qkv, weights, NONE, batch), rtol=1e-5, atol=2e-6)


@settings(max_examples=20, deadline=None)
@given(st.lists(graphs(), min_size=1, max_size=3), st.floats(-5, 0), st.integers(0, 1000))
def test_dense_equals_its_definition(members, c, seed):
    """Bias c for unrelated pairs, the learnt bias of their features for related ones, 0 for a variable itself."""
    batch = collate(members)
    qkv, weights = random_inputs(batch, seed)
    unrelated = torch.tensor([c, 0.5 * c])
    out = attend(torch.stack(qkv, 2), dense_bias(batch, weights, unrelated))
    torch.testing.assert_close(out, by_hand(qkv, weights, unrelated, batch), rtol=1e-5, atol=2e-6)


def test_rows_in_parts_give_the_same_numbers(monkeypatch):
    """Without gradients, large problems are computed some rows at a time."""
    batch = collate(generate("coloring", 2, seed=0, vertices=8, colors=3), chains=5)
    qkv, weights = random_inputs(batch, 0)
    bias = neighbour_bias(batch, weights)
    with torch.no_grad():
        whole = attend(torch.stack(qkv, 2), bias)
        monkeypatch.setattr("blogdit.network.attention.MOST_NUMBERS", 2 * len(bias.source) * HEADS * WIDTH)
        assert torch.equal(attend(torch.stack(qkv, 2), bias), whole)


def test_an_isolated_vertex_sees_itself_alone():
    """Its output is its own value vector, with either computation."""
    batch = collate([Instance(np.full(3, 2), (NotEqual([[0, 1]]),))])
    qkv, weights = random_inputs(batch, 0)
    for bias in (dense_bias(batch, weights, NONE), neighbour_bias(batch, weights)):
        torch.testing.assert_close(attend(torch.stack(qkv, 2), bias)[:, 2], qkv[2][:, 2])


def path(n):
    return Instance(np.full(n, 3), (NotEqual([[i, i + 1] for i in range(n - 1)]),))


@pytest.mark.parametrize("limit", [512, 0])
def test_influence_travels_one_relation_per_layer(limit, monkeypatch):
    """With neighbours, two layers on a path carry nothing further than two vertices; with c learnt they do."""
    monkeypatch.setattr("blogdit.network.denoiser.DENSE_LIMIT", limit)
    batch = collate([path(6)])
    logits = torch.randn(1, 6, 3, generator=generator(1)).requires_grad_()
    block = torch.zeros(1, 6, dtype=torch.bool)

    def reach(relation):
        model = small_denoiser(relation=relation)
        mean, log_variance = model.on(batch)(logits, block)
        (gradient,) = torch.autograd.grad(mean[0, 0].pow(2).sum() + log_variance[0, 0].sum(), logits)
        return gradient[0].abs().amax(-1)

    near = reach("neighbours")
    assert (near[:3] > 1e-6).all()
    assert (near[3:] == 0).all()
    assert (reach("learned") > 0).all()


def test_other_groups_have_no_influence():
    """What another instance of the batch holds changes nothing, bit for bit."""
    batch = collate([*zoo(), path(5)])
    qkv, weights = random_inputs(batch, 3)
    changed = [t.detach().clone() for t in qkv]
    for t in changed:
        t[:, batch.variables :] += 100.0
    for bias in (
        dense_bias(batch, weights, NONE),
        dense_bias(batch, weights, -torch.ones(HEADS)),
        neighbour_bias(batch, weights),
    ):
        before, after = attend(torch.stack(qkv, 2), bias), attend(torch.stack(changed, 2), bias)
        assert torch.equal(before[:, : batch.variables], after[:, : batch.variables])


@pytest.mark.parametrize("start", [-8.0, -1.0, 0.0])
def test_the_bias_of_unrelated_pairs_is_never_positive(start):
    """c starts where it is set, is at most 0 whatever is learnt, and stays put when it is fixed."""
    (puzzle,) = generate("sudoku", 1, seed=0, box=2, min_givens=4, max_givens=6)
    batch = collate([puzzle])
    for relation in ("learned", "fixed"):
        model = small_denoiser(relation=relation, relation_bias=start)
        fresh = type(model)(model.config)
        bias = fresh.relation(batch).bias
        assert bias[0, 0, 0, 15].item() == pytest.approx(min(start, -1e-3), rel=1e-3)
        assert bias[0, 0, 0, 1].item() == 0.0
        assert fresh.unrelated.requires_grad == (relation == "learned")
        for value in (-50.0, 50.0):
            torch.nn.init.constant_(fresh.unrelated, value)
            assert (fresh.relation(batch).bias <= 0).all()
    with pytest.raises(ValueError, match="relation_bias must not be positive"):
        small_denoiser(relation_bias=0.5)


def test_large_instances_use_lists_and_small_ones_all_pairs():
    """4,000 vertices never become a matrix."""
    big = collate([path(4000)])
    model = small_denoiser(relation="neighbours")
    bias = model.relation(big)
    assert bias.source.shape == (2 * 3999 + 4000,)
    assert torch.equal(bias.target, bias.target.sort().values)
    small = model.relation(collate([path(10)]))
    assert small.bias[0, 0, 0].isfinite().tolist() == [True, True] + [False] * 8


def test_signed_heads_weigh_neighbours_by_their_edges():
    """With equal queries and keys an even head averages over positive edges, an odd one over negative, by |weight|."""
    weights = np.array([2.0, 1.0, -3.0])
    star = Instance(
        np.full(4, 2), objective=Objective("maximize", differ=[[0, 1], [0, 2], [0, 3]], differ_weights=weights)
    )
    batch = collate([star])
    qkv, nothing = random_inputs(batch, 0)
    zero = torch.zeros_like(qkv[0])
    v = qkv[2][0]  # (4, heads, d)
    share = torch.tensor(weights / np.abs(weights).mean(), dtype=torch.float32)
    even = (v[0, 0] + share[0] * v[1, 0] + share[1] * v[2, 0]) / (1 + share[0] + share[1])
    odd = (v[0, 1] - share[2] * v[3, 1]) / (1 - share[2])
    for bias in (dense_bias(batch, nothing * 0, NONE, signed=True), neighbour_bias(batch, nothing * 0, signed=True)):
        out = attend(torch.stack([zero, zero, qkv[2]], 2), bias)[0, 0]
        torch.testing.assert_close(out[0], even)
        torch.testing.assert_close(out[1], odd)
