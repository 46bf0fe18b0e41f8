"""The energy contract: on one-hot rows it is the exact check and the exact objective, on all assignments."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from blogdit.core.constraints import AllDifferent, Conflict, Count, Function, Linear, NotEqual, Sum, Table
from blogdit.core.instance import Instance, Objective
from blogdit.method import structure
from blogdit.method.batch import collate
from blogdit.method.blocks import decode
from blogdit.method.energy import KINDS as ENERGY_KINDS
from blogdit.method.energy import (
    discrete_energy,
    energy,
    move_costs,
    objective,
    one_hot,
    penalties,
    penalty_scale,
    penalty_weights,
    violation_scores,
)
from helpers import KINDS, enumerated, generator, instances, objectives, random_simplex, zoo

FORMS = ("counts", "pairs")
PAIRWISE = ("not_equal", "conflict")
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def sign_of(instance):
    return 1.0 if instance.objective.sense == "minimize" else -1.0


def test_every_constraint_kind_has_a_penalty():
    """A kind of the core without a relaxation would be ignored by the search."""
    every = {group.kind for group in (AllDifferent, NotEqual, Conflict, Linear, Count, Sum, Function, Table)}
    assert set(ENERGY_KINDS) == every == set(KINDS)
    batch = collate(zoo())
    assert set(penalties(random_simplex(batch), batch)) == every


@pytest.fixture
def as_written(monkeypatch):
    """Constraints on two variables do not become pairs (test_in_pairs.py), so that each can be found again."""
    monkeypatch.setattr(
        structure, "normal_form", lambda one: [(group, np.ones(len(group))) for group in one.constraints]
    )


@pytest.mark.usefixtures("as_written")
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", KINDS)
def test_penalty_is_zero_exactly_where_the_check_passes(kind, form):
    """Constraint by constraint, over all assignments of random instances of one kind."""

    @settings(max_examples=40, deadline=None)
    @given(st.data())
    def agrees(data):
        domains = data.draw(st.lists(st.integers(1, 3), min_size=2, max_size=4))
        group, _ = data.draw(KINDS[kind](domains))
        batch, values, every = enumerated(Instance(np.array(domains), (group,)))
        phi = penalties(one_hot(values, batch), batch, form)[kind][:, 0]
        exact = torch.from_numpy(np.array([group.violations(x) for x in every]))
        assert (phi >= 0).all()
        assert torch.equal(phi > 0, exact > 0)

    agrees()


@pytest.mark.parametrize("form", FORMS)
def test_energy_of_feasible_assignments_is_the_objective(form):
    """With all kinds mixed: H = f where the verifier is satisfied, and H = f + lambda * penalty elsewhere."""

    @settings(max_examples=60, deadline=None)
    @given(instances())
    def agrees(instance):
        free = replace(instance, givens={})  # givens are not penalised
        batch, values, every = enumerated(free)
        x = one_hot(values, batch)
        h = energy(x, batch, form=form)[:, 0]
        verdicts = [free.verify(row) for row in every]
        if free.objective is None:
            f = torch.zeros(len(every))
        else:
            f = sign_of(free) * torch.tensor([v.objective for v in verdicts])
        weight = penalty_scale(batch).item()
        phi = sum(p.sum(-1) for p in penalties(x, batch, form).values())[:, 0]
        torch.testing.assert_close(h, (f + weight * phi).float(), rtol=1e-6, atol=1e-5)
        for verdict, found, goal in zip(verdicts, h.tolist(), f.tolist(), strict=True):
            assert found == goal if verdict.satisfied else found > goal + 0.5

    agrees()


def test_lambda_is_101_percent_with_an_objective_and_can_be_set_by_kind():
    """One violated edge of an independent set costs 1.01; of a colouring 1; or what `weights` says."""
    edge = Conflict([[0, 1]], (1, 1))
    goal = Objective("maximize", [[0, 1], [1, 1]], [1.0, 1.0])
    both = torch.tensor([[1, 1]])
    independent = collate([Instance(np.array([2, 2]), (edge,), goal)])
    assert energy(one_hot(both, independent), independent).item() == pytest.approx(-2 + 1.01)
    assert energy(one_hot(both, independent), independent, {"conflict": 5.0}).item() == pytest.approx(-2 + 5)
    assert energy(one_hot(both, independent), independent, {"linear": 5.0}).item() == pytest.approx(-2 + 1.01)
    coloring = collate([Instance(np.array([2, 2]), (NotEqual([[0, 1]]),))])
    assert energy(one_hot(both, coloring), coloring).item() == 1.0
    assert energy(one_hot(both, coloring), coloring, {"not_equal": 0.25}).item() == 0.25
    mixed = collate([Instance(np.array([2, 2]), (edge,), goal), Instance(np.array([2, 2]), (edge,))])
    assert penalty_weights(mixed)["conflict"].tolist() == pytest.approx([1.01, 1.0])
    with pytest.raises(ValueError, match="unknown constraint kind 'magic'"):
        energy(one_hot(both, coloring), coloring, {"magic": 1.0})


@pytest.mark.usefixtures("as_written")
def test_relaxed_penalties_by_hand():
    """The formulas of the method on rows that are not one-hot."""
    x = torch.tensor([[[0.5, 0.5, 0.0], [0.25, 0.25, 0.5], [0.0, 1.0, 0.0]]])
    three = np.array([3, 3, 3])

    def phi(group, form="counts"):
        batch = collate([Instance(three, (group,))])
        return penalties(x, batch, form)[group.kind].flatten().tolist()

    assert phi(NotEqual([[0, 1], [1, 2]])) == [0.25, 0.25]
    assert phi(Conflict([[0, 1]], (1, 2))) == [0.25]
    # occurrences (0.75, 1.75, 0.5): as long as the domain |1 - c|, shorter max(0, c - 1)
    assert phi(AllDifferent([[0, 1, 2]])) == [0.25 + 0.75 + 0.5]
    assert phi(AllDifferent([[1, 2]])) == [0.25]
    assert phi(AllDifferent([[0, 1, 2]]), "pairs") == [0.25 + 0.5 + 0.25]
    assert phi(Linear([[0, 1]], [[2, 1]], ["="], [1])) == [2 * 0.5 + 1.25 - 1]
    assert phi(Count([[0, 1, 2]], [1], [0], [1])) == [0.75]
    assert phi(Count([[0, 1, 2]], [1], [2], [3])) == [0.25]
    assert phi(Table([[0, 2]], [[0, 1], [2, 2]])) == [0.5]
    # a clause: x0 = 0 or x1 = 2 has an expected number of 1 true literals, x0 = 0 or x1 = 0 of 0.75
    assert phi(Sum([[0, 1], [0, 1]], equals=[[0, 2], [0, 0]], low=[1, 1])) == [0.0, 0.25]
    # x0 = 1 -> 2 x1 <= 1, and x0 = 1 exactly where 2 x1 <= 1; 2 x1 is 2.5 in the mean
    assert phi(Sum([[1]], [[2]], None, None, [1], [[0, 1]])) == [0.5 * 1.5]
    assert phi(Sum([[1]], [[2]], None, None, [3], [[0, 1]], exactly=True)) == [0.5 * 1.5]
    # means are 0.5, 1.25 and 1
    assert phi(Function("max", [2], [[0, 1]])) == [0.25]
    assert phi(Function("min", [2], [[0, 1]])) == [0.5]
    assert phi(Function("element", [2], [[0, 1, 0, 2]])) == [1 - (0.5 * 1.25 + 0.5 * 0.5)]
    # x0 + 1 and x1 meet in 1 (0.5 * 0.25) and in 2 (0.5 * 0.5); "counts": 1 occurs 0.75 times
    assert phi(AllDifferent([[0, 1]], [[1, 0]]), "pairs") == [0.375]
    assert phi(AllDifferent([[0, 1]], [[1, 0]])) == [0.0]


def test_a_soft_constraint_costs_its_weight_where_it_is_violated_by_whatever_amount():
    """Relaxed, the cost grows up to the weight; a violation of 3 costs as much as one of 1."""
    rule = Linear([[0, 1]], [[2, 1]], ["<="], [1])
    for sense, sign in (("minimize", 1.0), ("maximize", -1.0)):
        goal = Objective(sense, linear=[0], linear_weights=[sign], soft=[(rule, 5.0)])
        instance = Instance(np.array([3, 3]), (), goal)
        batch, values, every = enumerated(instance)
        for row, found in zip(every, objective(one_hot(values, batch), batch)[:, 0].tolist(), strict=True):
            expected = row[0] + 5.0 * (2 * row[0] + row[1] > 1)
            assert found == expected
            assert instance.verify(row).objective == sign * expected
            assert instance.verify(row).unmet == int(2 * row[0] + row[1] > 1)
        half = torch.tensor([[[0.75, 0.25, 0.0], [0.0, 1.0, 0.0]]])
        assert objective(half, collate([instance])).item() == 0.25 + 0.5 * 5.0


def test_uniform_rows_have_no_all_different_penalty_but_equal_pairs():
    """Why 'pairs' trains better: in the paper's form hedging is free."""
    batch = collate([Instance(np.array([4] * 4), (AllDifferent([[0, 1, 2, 3]]),))])
    uniform = torch.full((1, 4, 4), 0.25)
    assert energy(uniform, batch, form="counts").item() == 0.0
    assert energy(uniform, batch, form="pairs").item() == 6 * 0.25


@settings(max_examples=30, deadline=None)
@given(instances(kinds=("all_different", "not_equal", "conflict", "table")), st.integers(0, 1000), st.data())
def test_pairs_form_is_the_expected_number_of_equal_pairs(instance, seed, data):
    """Energies that are linear in each row equal their mean over independently drawn values, by enumeration."""
    groups = tuple(group for group in instance.constraints if group.kind != "table")
    goal = data.draw(st.none() | objectives(instance.domain_sizes.tolist()))
    plain = replace(instance, constraints=groups, objective=goal, givens={})
    batch, values, every = enumerated(plain)
    rows = random_simplex(collate([plain]), seed)[0]  # (n, K)
    chances = torch.stack([rows[i][torch.from_numpy(every[:, i])] for i in range(plain.size)]).prod(0)
    mean = (energy(one_hot(values, batch), batch, form="pairs")[:, 0] * chances).sum()
    single = collate([plain])
    torch.testing.assert_close(energy(rows[None], single, form="pairs")[0, 0], mean, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("form", FORMS)
def test_gradients_are_finite_everywhere(form):
    """On uniform, one-hot, random and all-zero rows of every kind, infinite bounds included."""
    for instance in zoo():
        batch, values, _ = enumerated(instance)
        uniform = (batch.domain / batch.domain.sum(-1, keepdim=True)).expand(batch.rows, -1, -1)
        for x in (uniform, one_hot(values, batch), random_simplex(batch), torch.zeros_like(uniform)):
            x = x.clone().requires_grad_()
            h = energy(x, batch, form=form)
            assert torch.isfinite(h).all()
            if h.requires_grad:
                (gradient,) = torch.autograd.grad(h.sum(), x)
                assert torch.isfinite(gradient).all()


@settings(max_examples=40, deadline=None)
@given(instances())
def test_gradients_through_the_softmax_are_finite(instance):
    """Also for logits as large as a clamped given or a saturated network makes them."""
    batch = collate([instance], chains=4)
    for scale in (0.0, 1.0, 100.0, 1e4):
        logits = (torch.randn(4, batch.variables, batch.values) * scale).requires_grad_()
        x = logits.masked_fill(~batch.domain, float("-inf")).softmax(-1)
        for form in FORMS:
            h = energy(x, batch, form=form).sum() + 0 * logits.sum()
            (gradient,) = torch.autograd.grad(h, logits, retain_graph=True)
            assert torch.isfinite(h)
            assert torch.isfinite(gradient).all()


@settings(max_examples=60, deadline=None)
@given(instances())
def test_violation_scores_point_at_violated_constraints(instance):
    """Zero for all variables iff nothing is violated; positive only inside a violated constraint."""
    free = replace(instance, givens={})
    batch, values, every = enumerated(free)
    scores = violation_scores(values, batch)
    assert (scores >= 0).all()
    for row, found in zip(every, scores, strict=True):
        broken = list(free.verify(row).violations())
        involved = {i for violation in broken for i in violation.variables}
        positive = set(found.nonzero().flatten().tolist())
        assert positive <= involved
        assert bool(positive) == bool(broken)
        for violation in broken:
            assert positive & set(violation.variables), "each violated constraint is seen"
            if violation.kind != "all_different":
                assert set(violation.variables) <= positive


def test_violation_scores_by_hand():
    """A vertex scores its violated edges; in a house only the cells with a repeated digit score."""
    star = collate([Instance(np.array([2] * 4), (NotEqual([[0, 1], [0, 2], [0, 3]]),))])
    assert violation_scores(torch.tensor([[0, 0, 0, 1]]), star).tolist() == [[2, 1, 1, 0]]
    house = collate([Instance(np.array([4] * 4), (AllDifferent([[0, 1, 2, 3]]),))])
    assert violation_scores(torch.tensor([[2, 2, 0, 2]]), house).tolist() == [[2, 2, 0, 2]]


@settings(max_examples=60, deadline=None)
@given(instances(kinds=PAIRWISE), st.data())
def test_move_costs_are_exact_for_pairs_and_objectives(instance, data):
    """Entry (i, k) minus entry (i, x_i) is H after changing x_i to k, minus H before."""
    goal = data.draw(st.none() | objectives(instance.domain_sizes.tolist()))
    plain = replace(instance, objective=goal, givens={})
    batch, values, every = enumerated(plain)
    costs = move_costs(values, batch)
    h = energy(one_hot(values, batch), batch)[:, 0]
    place = {tuple(row): at for at, row in enumerate(every.tolist())}
    for at, row in enumerate(every.tolist()):
        for i, k in itertools.chain.from_iterable([(i, k) for k in range(s)] for i, s in enumerate(plain.domain_sizes)):
            moved = place[(*row[:i], k, *row[i + 1 :])]
            assert (costs[at, i, k] - costs[at, i, row[i]]).item() == pytest.approx((h[moved] - h[at]).item(), abs=1e-4)


def test_objective_of_a_cut_by_hand():
    """MaxCut of a weighted triangle: minus the weight of the cut edges, whatever the relaxation of the others."""
    goal = Objective("maximize", differ=[[0, 1], [1, 2], [0, 2]], differ_weights=[1.0, 2.0, 4.0])
    batch = collate([Instance(np.array([2, 2, 2]), (), goal)], chains=2)
    assert objective(one_hot(torch.tensor([[0, 1, 1], [0, 1, 0]]), batch), batch)[:, 0].tolist() == [-5.0, -3.0]
    assert objective(torch.full((2, 3, 2), 0.5), batch)[:, 0].tolist() == [-3.5, -3.5]


def test_no_vertex_is_worth_a_conflict():
    """In a weighted independent set the penalty of an edge exceeds the weight of either end; unit weights give 1.01."""
    edge = (Conflict([[0, 1]], (1, 1)),)
    for weights, penalty in (((2.0, 5.0), 5.05), ((1.0, 1.0), 1.01), ((0.5, 0.25), 0.505)):
        batch = collate([Instance(np.array([2, 2]), edge, Objective("maximize", [[0, 1], [1, 1]], weights))])
        both = energy(one_hot(torch.tensor([[1, 1]]), batch), batch).item()
        assert both == pytest.approx(penalty - sum(weights))
        assert both > -max(weights)


def test_no_gain_of_a_variable_is_worth_a_violation():
    """Whatever the terms of an objective: to change one variable of a valid assignment never pays if it violates."""
    differ = (NotEqual([[0, 1]]),)
    for goal in (
        Objective("maximize", [[0, 1], [0, 1], [1, 1], [1, 1]], [1.0, 1.0, 1.0, 1.0]),
        Objective("maximize", pairwise=[[0, 1, 1, 1], [0, 2, 1, 1]], pairwise_weights=[50.0, 20.0]),
        Objective("minimize", differ=[[0, 1], [0, 2], [1, 2]], differ_weights=[3.0, 4.0, 5.0]),
        Objective("minimize", [[0, 0], [0, 1]], [5.0, -5.0]),
    ):
        instance = Instance(np.array([2, 2, 2]), differ, goal)
        batch = collate([instance])
        found = {x: discrete_energy(torch.tensor([x]), batch)[0].item() for x in itertools.product((0, 1), repeat=3)}
        for x, y in itertools.permutations(found, 2):
            if sum(a != b for a, b in zip(x, y, strict=True)) == 1 and x[0] != x[1] and y[0] == y[1]:
                assert found[x] < found[y]


@settings(max_examples=60, deadline=None)
@given(st.lists(instances(), min_size=1, max_size=3), st.booleans(), st.integers(1, 2), st.integers(0, 1000), st.data())
def test_discrete_energy_is_that_of_one_hot_rows(members, with_goal, chains, seed, data):
    """Every kind of constraint and objective, several instances and chains."""
    if with_goal:
        goals = [data.draw(objectives(one.domain_sizes.tolist())) for one in members]
        members = [replace(one, objective=goal, givens={}) for one, goal in zip(members, goals, strict=True)]
    batch = collate(members, chains).to(DEVICE)
    draws = torch.rand(batch.rows, batch.groups * batch.variables, batch.values, generator=generator(seed))
    values = decode(draws.to(DEVICE), batch)
    total, cost = discrete_energy(values, batch)
    x = one_hot(values, batch).double()
    torch.testing.assert_close(total, energy(x, batch).double())
    if batch.optimisation:
        torch.testing.assert_close(cost, objective(x, batch).double())


@pytest.mark.parametrize("large", [1 << 24, 1 << 53, 1 << 60])
def test_sums_beyond_what_floats_hold_are_exact(large):
    """1 x + large y = large + 1: no other sum may pass for it."""
    sums = Linear([[0, 1], [0, 1]], [[1, large], [1, large]], ["=", "<="], [large + 1, large])
    for group in (sums, Linear([[0, 1]], [[1, large]], ["="], [large + 1])):
        instance = Instance(np.array([2, 2]), (group,))
        batch = collate([instance]).to(DEVICE)
        for values in itertools.product(range(2), repeat=2):
            total, _ = discrete_energy(torch.tensor([values], device=DEVICE), batch)
            assert (total.item() == 0) == instance.verify(values).satisfied, values
