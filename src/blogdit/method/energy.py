"""The energy H = f + sum_j lambda_j phi_j of relaxed assignments (Equation 1), and what each variable adds to it.

A relaxed assignment x is (R, M, K) with rows on the simplex. Every penalty phi is at least 0 and, on one-hot rows,
0 exactly where the constraint holds (`penalties.py`). A soft constraint is a part of f: on one-hot rows it costs its
weight where it is violated. All of it guides the search only: answers are checked by `Instance.verify`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor
from torch.nn import functional

from blogdit.method.batch import Batch
from blogdit.method.penalties import KINDS as KINDS
from blogdit.method.penalties import AllDifferentForm as AllDifferentForm
from blogdit.method.penalties import at_variables, both_values, discrete, occurrences, relaxed, same_value
from blogdit.method.terms import PairTerms

# lambda where an objective competes with the constraints, in units of the most that one variable can change it
OPTIMISATION_WEIGHT = 1.01


def penalties(
    x: Tensor, batch: Batch, form: AllDifferentForm = "counts", kinds: Sequence[str] = KINDS
) -> dict[str, Tensor]:
    """phi_j of every constraint that must hold, (R, G, number of constraints), for each kind that the batch has."""
    s = batch.structure
    return {kind: phi * getattr(s, kind).weights for kind, phi in relaxed(x, batch, s, form, kinds).items()}


def objective(x: Tensor, batch: Batch, form: AllDifferentForm = "counts") -> Tensor:
    """f, to be minimised, (R, G); exact on one-hot rows."""
    s = batch.structure
    total = (x * s.unary.reshape(-1, x.shape[2])).view(x.shape[0], batch.groups, -1).sum(-1)
    if s.differ.weights.shape[1]:
        total = total + ((1 - same_value(x, batch, s.differ)) * s.differ.weights).sum(-1)
    if s.pairwise.weights.shape[1]:
        total = total + (both_values(x, batch, s.pairwise) * s.pairwise.weights).sum(-1)
    for kind, phi in relaxed(x, batch, s.soft, form).items():
        total = total + (phi.clamp(max=1) * getattr(s.soft, kind).weights).sum(-1)  # violated is violated
    return total


def penalty_scale(batch: Batch) -> Tensor:
    """lambda of all kinds, unless something else is asked for, (G,)."""
    s = batch.structure
    return torch.where(s.has_objective, OPTIMISATION_WEIGHT * s.largest_gain, 1.0)


def penalty_weights(batch: Batch, weights: Mapping[str, float] | None = None) -> dict[str, Tensor | float]:
    """lambda for each kind: 1 for instances without an objective; with one, 1.01 times the most that one variable
    can change it, so that no vertex of a weighted independent set is worth a conflict; unless `weights` says."""
    default = penalty_scale(batch)
    unknown = set(weights or {}) - set(KINDS)
    if unknown:
        raise ValueError(f"unknown constraint kind {sorted(unknown)[0]!r}; known: {', '.join(KINDS)}")
    return {kind: (weights or {}).get(kind, default) for kind in KINDS}


def energy(
    x: Tensor, batch: Batch, weights: Mapping[str, float] | None = None, form: AllDifferentForm = "counts"
) -> Tensor:
    """H of each chain, (R, G)."""
    factors = penalty_weights(batch, weights)
    total = objective(x, batch, form) if batch.optimisation else x.new_zeros(x.shape[0], batch.groups)
    for kind, phi in penalties(x, batch, form).items():
        total = total + factors[kind] * phi.sum(-1)
    return total


def one_hot(values: Tensor, batch: Batch) -> Tensor:
    """(R, M) integers -> (R, M, K) rows."""
    return functional.one_hot(values, batch.values).float()


def discrete_energy(values: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
    """H and f of assignments (R, M), each (R, G), in float64. What `energy` and `objective` give on one-hot rows, but
    large sums are not rounded: H must be 0 only where nothing is violated."""
    s, factors = batch.structure, penalty_weights(batch)
    cost = values.new_zeros(values.shape[0], batch.groups, dtype=torch.float64)

    def pairs(terms: PairTerms, exact: bool) -> Tensor:
        """Sum of the weights of pairs that are equal, or that have exactly the values that the terms name."""
        ends = values.index_select(1, batch.flat(terms.variables)).view(values.shape[0], *terms.variables.shape)
        hit = (ends == terms.values).all(-1) if exact else ends[..., 0] == ends[..., 1]
        return torch.where(hit, terms.weights.double(), 0.0).sum(-1)

    if batch.optimisation:
        unary = s.unary.reshape(-1, batch.values).double().expand(values.shape[0], -1, -1)
        cost = cost + unary.gather(2, values[..., None]).view(values.shape[0], batch.groups, -1).sum(-1)
        if s.differ.weights.shape[1]:
            cost = cost + s.differ.weights.double().sum(-1) - pairs(s.differ, exact=False)
        if s.pairwise.weights.shape[1]:
            cost = cost + pairs(s.pairwise, exact=True)
        for kind, phi in discrete(values, batch, s.soft).items():
            cost = cost + ((phi > 0) * getattr(s.soft, kind).weights.double()).sum(-1)
    total = cost
    for kind, phi in discrete(values, batch, s).items():
        total = total + factors[kind] * (phi * getattr(s, kind).weights.double()).sum(-1)
    return total, cost


def violation_scores(values: Tensor, batch: Batch, phi: Mapping[str, Tensor] | None = None) -> Tensor:
    """How much each variable takes part in violated constraints, (R, M).

    A pair adds its violation to both ends; AllDifferent adds to the variables whose value occurs too often; the
    others add theirs to every variable of the scope.
    """
    x = one_hot(values, batch)
    s, phi = batch.structure, penalties(x, batch) if phi is None else phi
    scores = x.new_zeros(x.shape[0], x.shape[1])

    def add(variables: Tensor, amounts: Tensor) -> None:
        scores.index_add_(1, batch.flat(variables), amounts.reshape(x.shape[0], -1))

    for kind, pairs in (("not_equal", s.not_equal), ("conflict", s.conflict)):
        if kind in phi:
            add(pairs.variables, phi[kind][..., None].expand(*phi[kind].shape, 2))
    if "all_different" in phi:
        terms, members = s.all_different, s.all_different.members
        excess = functional.relu(occurrences(x, batch, terms) - 1)  # (R, G, S, width)
        owners = members.owner[..., None].expand(*members.owner.shape, terms.width)
        of_scope = excess.gather(2, owners.expand(x.shape[0], *owners.shape))  # (R, G, T, width)
        if terms.slots.shape[1]:
            of_scope = of_scope.gather(3, terms.slots.expand(x.shape[0], *terms.slots.shape))  # (R, G, T, K)
        add(members.variables, (of_scope * at_variables(x, batch, members.variables)).sum(-1) * members.present)
    for kind in (kind for kind in phi if kind not in ("not_equal", "conflict", "all_different")):
        members = getattr(s, kind).members
        amounts = phi[kind].gather(2, members.owner.expand(x.shape[0], *members.owner.shape))
        add(members.variables, amounts * members.present)
    sources = s.derived.sources
    if sources.owner.shape[1]:  # no block holds a derived variable: those that it follows from take its part
        taken = scores.index_select(1, batch.flat(sources.owner)).view(x.shape[0], *sources.owner.shape)
        add(sources.variables, taken * sources.present)
    return scores


def move_costs(values: Tensor, batch: Batch, weights: Mapping[str, float] | None = None) -> Tensor:
    """dH/dx at a discrete assignment, (R, M, K): for objectives and pairs of variables, which are linear in each row,
    entry (i, k) minus entry (i, x_i) is exactly what changing x_i to k costs."""
    with torch.enable_grad():
        x = one_hot(values, batch).requires_grad_()
        total = energy(x, batch, weights).sum() + 0.0 * x.sum()  # without any constraint the energy is a constant
        (gradient,) = torch.autograd.grad(total, x)
    return gradient.detach()
