"""The energy H = f + sum_j lambda_j phi_j of relaxed assignments (Equation 1), and what each variable adds to it.

A relaxed assignment x is (R, M, K) with rows on the simplex. Every penalty phi is at least 0 and, on one-hot rows,
0 exactly where the constraint holds. It guides the search only: answers are checked by `Instance.verify`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional

from blogdit.method.batch import Batch
from blogdit.method.structure import PairTerms, ScopeTerms

KINDS = ("not_equal", "conflict", "all_different", "linear", "count", "table")
AllDifferentForm = Literal["counts", "pairs"]
# lambda where an objective competes with the constraints, in units of the most that one variable can change it
OPTIMISATION_WEIGHT = 1.01


def _at_variables(x: Tensor, batch: Batch, variables: Tensor) -> Tensor:
    """x (R, M, K) at variables (G, ...) -> (R, G, ..., K)."""
    return x.index_select(1, batch.flat(variables)).view(x.shape[0], *variables.shape, x.shape[2])


def _at_values(x: Tensor, batch: Batch, variables: Tensor, values: Tensor) -> Tensor:
    """x_{i,a} for variables i and values a (G, ...) -> (R, G, ...)."""
    cells = batch.flat(variables) * x.shape[2] + values.reshape(-1)
    return x.reshape(x.shape[0], -1).index_select(1, cells).view(x.shape[0], *variables.shape)


def _sum_scopes(entries: Tensor, owner: Tensor, scopes: int) -> Tensor:
    """Entries (R, G, T, ...) added up by the scope (G, T) they belong to -> (R, G, S, ...)."""
    rows, groups = entries.shape[:2]
    places = (owner + torch.arange(groups, device=owner.device)[:, None] * scopes).reshape(-1)
    out = entries.new_zeros(rows, groups * scopes, *entries.shape[3:])
    out = out.index_add(1, places, entries.reshape(rows, -1, *entries.shape[3:]))
    return out.view(rows, groups, scopes, *entries.shape[3:])


def same_value(x: Tensor, batch: Batch, terms: PairTerms) -> Tensor:
    """sum_k x_ik x_jk: how likely two variables take the same value, (R, G, m)."""
    ends = _at_variables(x, batch, terms.variables)  # (R, G, m, 2, K)
    return (ends[..., 0, :] * ends[..., 1, :]).sum(-1)


def both_values(x: Tensor, batch: Batch, terms: PairTerms) -> Tensor:
    """x_ia x_jb, (R, G, m)."""
    first, second = _at_values(x, batch, terms.variables, terms.values).unbind(-1)
    return first * second  # the gradient of prod would wait for the host


def occurrences(x: Tensor, batch: Batch, terms: ScopeTerms) -> Tensor:
    """How often each value occurs in each scope, (R, G, S, K)."""
    entries = _at_variables(x, batch, terms.variables) * terms.present[..., None]
    return _sum_scopes(entries, terms.owner, terms.bounds.shape[1])


def _outside(total: Tensor, bounds: Tensor) -> Tensor:
    """Distance of (R, G, S) sums from the interval (G, S, 2)."""
    return functional.relu(total - bounds[..., 1]) + functional.relu(bounds[..., 0] - total)


def _all_different(x: Tensor, batch: Batch, form: AllDifferentForm) -> Tensor:
    """With c_k = sum_i x_ik, how often value k occurs in a scope, (R, G, S):

    - "counts": sum_k max(0, c_k - 1), and where the scope is as long as its domain also sum_k max(0, 1 - c_k), which
      makes sum_k |1 - c_k|, the paper's penalty. It is zero on uniform rows.
    - "pairs": sum over pairs i < j of sum_k x_ik x_jk = 1/2 sum_k (c_k^2 - sum_i x_ik^2), the expected number of
      equal pairs if rows are drawn independently. It is linear in each row, so hedging never pays.
    """
    terms = batch.structure.all_different
    counts = occurrences(x, batch, terms)
    if form == "pairs":
        return 0.5 * (counts**2 - occurrences(x**2, batch, terms)).sum(-1)
    required = torch.arange(x.shape[2], device=x.device) < terms.bounds[..., :1]  # (G, S, K)
    return (functional.relu(counts - 1) + functional.relu(1 - counts) * required).sum(-1)


def _linear(x: Tensor, batch: Batch) -> Tensor:
    """Distance of the expected sum from its bounds."""
    terms = batch.structure.linear
    numbers = torch.arange(x.shape[2], device=x.device, dtype=x.dtype)
    expected = (_at_variables(x, batch, terms.variables) @ numbers) * terms.data
    return _outside(_sum_scopes(expected, terms.owner, terms.bounds.shape[1]), terms.bounds)


def _count(x: Tensor, batch: Batch) -> Tensor:
    """Distance of the expected number from its bounds."""
    terms = batch.structure.count
    counted = _at_values(x, batch, terms.variables, terms.data) * terms.present
    return _outside(_sum_scopes(counted, terms.owner, terms.bounds.shape[1]), terms.bounds)


def _table(x: Tensor, batch: Batch) -> Tensor:
    """1 - probability of an allowed tuple under independent rows."""
    terms = batch.structure.table
    entries = torch.where(terms.present, _at_values(x, batch, terms.variables, terms.values), 1.0)
    chances = functools.reduce(torch.mul, entries.unbind(-1), entries.new_ones(entries.shape[:-1]))
    allowed = _sum_scopes(chances * terms.present.any(-1), terms.owner, terms.real.shape[1])
    return functional.relu(1 - allowed) * terms.real


def penalties(
    x: Tensor, batch: Batch, form: AllDifferentForm = "counts", kinds: Sequence[str] = KINDS
) -> dict[str, Tensor]:
    """phi_j of every constraint, (R, G, number of constraints), for each of the kinds that the batch has."""
    s = batch.structure
    computed: dict[str, tuple[int, Callable[[], Tensor]]] = {
        "not_equal": (s.not_equal.weights.shape[1], lambda: same_value(x, batch, s.not_equal) * s.not_equal.weights),
        "conflict": (s.conflict.weights.shape[1], lambda: both_values(x, batch, s.conflict) * s.conflict.weights),
        "all_different": (s.all_different.bounds.shape[1], lambda: _all_different(x, batch, form)),
        "linear": (s.linear.bounds.shape[1], lambda: _linear(x, batch)),
        "count": (s.count.bounds.shape[1], lambda: _count(x, batch)),
        "table": (s.table.real.shape[1], lambda: _table(x, batch)),
    }
    return {kind: compute() for kind, (number, compute) in computed.items() if number and kind in kinds}


def objective(x: Tensor, batch: Batch) -> Tensor:
    """f, to be minimised, (R, G); exact on one-hot rows."""
    s = batch.structure
    total = (x * s.unary.reshape(-1, x.shape[2])).view(x.shape[0], batch.groups, -1).sum(-1)
    if s.differ.weights.shape[1]:
        total = total + ((1 - same_value(x, batch, s.differ)) * s.differ.weights).sum(-1)
    if s.pairwise.weights.shape[1]:
        total = total + (both_values(x, batch, s.pairwise) * s.pairwise.weights).sum(-1)
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
    total = objective(x, batch) if batch.optimisation else x.new_zeros(x.shape[0], batch.groups)
    for kind, phi in penalties(x, batch, form).items():
        total = total + factors[kind] * phi.sum(-1)
    return total


def one_hot(values: Tensor, batch: Batch) -> Tensor:
    """(R, M) integers -> (R, M, K) rows."""
    return functional.one_hot(values, batch.values).float()


def discrete_energy(values: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
    """H and f of assignments (R, M), each (R, G), in float64. What `energy` and `objective` give on one-hot rows, but
    pairs are compared by their values, which takes a K-th of the memory, and sums are of whole numbers: float32 would
    round large ones, and H must be 0 only where nothing is violated."""
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
    total = cost
    for kind, terms, exact in (("not_equal", s.not_equal, False), ("conflict", s.conflict, True)):
        if terms.weights.shape[1]:
            total = total + factors[kind] * pairs(terms, exact)
    if s.linear.owner.shape[1]:
        sums, (low, high) = linear_sums(values, batch), s.linear.limits.unbind(-1)
        outside = (sums - high).clamp(min=0) + (low - sums).clamp(min=0)
        total = total + factors["linear"] * outside.double().sum(-1)
    if any(terms.owner.shape[1] for terms in (s.all_different, s.count, s.table)):
        phi = penalties(one_hot(values, batch), batch, kinds=("all_different", "count", "table"))
        total = total + sum(factors[kind] * amount.double().sum(-1) for kind, amount in phi.items())
    return total, cost


def linear_sums(values: Tensor, batch: Batch) -> Tensor:
    """The sum of each linear constraint, (R, G, S), exactly."""
    terms = batch.structure.linear
    taken = values.index_select(1, batch.flat(terms.variables)).view(values.shape[0], *terms.variables.shape)
    return _sum_scopes(taken * terms.data, terms.owner, terms.limits.shape[1])


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
        entry = s.all_different
        excess = functional.relu(occurrences(x, batch, entry) - 1)  # (R, G, S, K)
        owners = entry.owner[..., None].expand(*entry.owner.shape, x.shape[2])
        of_scope = excess.gather(2, owners.expand(x.shape[0], *owners.shape))  # (R, G, T, K)
        add(entry.variables, (of_scope * _at_variables(x, batch, entry.variables)).sum(-1) * entry.present)
    for kind, scope in (("linear", s.linear), ("count", s.count)):
        if kind in phi:
            amounts = phi[kind].gather(2, scope.owner.expand(x.shape[0], *scope.owner.shape)) * scope.present
            add(scope.variables, amounts)
    if "table" in phi:
        rows = phi["table"].gather(2, s.table.owner.expand(x.shape[0], *s.table.owner.shape))
        add(s.table.variables, rows[..., None] * s.table.present)
    return scores


def move_costs(values: Tensor, batch: Batch, weights: Mapping[str, float] | None = None) -> Tensor:
    """dH/dx at a discrete assignment, (R, M, K): for objectives and pairs of variables, which are linear in each row,
    entry (i, k) minus entry (i, x_i) is exactly what changing x_i to k costs."""
    with torch.enable_grad():
        x = one_hot(values, batch).requires_grad_()
        total = energy(x, batch, weights).sum() + 0.0 * x.sum()  # without any constraint the energy is a constant
        (gradient,) = torch.autograd.grad(total, x)
    return gradient.detach()
