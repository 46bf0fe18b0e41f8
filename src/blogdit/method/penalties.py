"""phi of each constraint: relaxed, of rows of probabilities, and discrete, of an assignment, where it is exact.

Both are at least 0 and, for an assignment, 0 exactly where the constraint holds. All are (R, G, S): R rows, G groups, S
constraints of the kind. What they are in padding is multiplied by a weight of 0 by the callers.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn import functional

from blogdit.core.constraints import FAR
from blogdit.method.batch import Batch
from blogdit.method.terms import ALWAYS, DifferentTerms, Entries, FunctionTerms, PairTerms, SumTerms, TableTerms, Terms

KINDS = ("not_equal", "conflict", "all_different", "linear", "count", "sum", "function", "table")
AllDifferentForm = Literal["counts", "pairs"]


def relaxed(
    x: Tensor, batch: Batch, terms: Terms, form: AllDifferentForm, kinds: Sequence[str] = KINDS
) -> dict[str, Tensor]:
    """phi of a relaxed assignment (R, M, K), for each of the kinds that there are."""
    computed: dict[str, Callable[[Any], Tensor]] = {
        "not_equal": lambda pairs: same_value(x, batch, pairs),
        "conflict": lambda pairs: both_values(x, batch, pairs),
        "all_different": lambda scopes: _all_different(x, batch, scopes, form),
        "linear": lambda sums: _sum(x, batch, sums),
        "count": lambda sums: _sum(x, batch, sums),
        "sum": lambda sums: _sum(x, batch, sums),
        "function": lambda functions: _function(x, batch, functions),
        "table": lambda tables: _table(x, batch, tables),
    }
    found = ((kind, getattr(terms, kind)) for kind in kinds)
    return {kind: computed[kind](rows) for kind, rows in found if rows.weights.shape[1]}


def discrete(values: Tensor, batch: Batch, terms: Terms) -> dict[str, Tensor]:
    """phi of an assignment (R, M) as truth or whole numbers, for each of the kinds that there are. Pairs are compared
    by their values, which takes a K-th of the memory, and sums are of whole numbers: float32 would round large ones."""

    def pairs(rows: PairTerms, exact: bool) -> Tensor:
        ends = _at(values, batch, rows.variables)
        return (ends == rows.values).all(-1) if exact else ends[..., 0] == ends[..., 1]

    computed: dict[str, Callable[[Any], Tensor]] = {
        "not_equal": lambda rows: pairs(rows, exact=False),
        "conflict": lambda rows: pairs(rows, exact=True),
        "linear": lambda sums: _exact_sum(values, batch, sums),
        "count": lambda sums: _exact_sum(values, batch, sums),
        "sum": lambda sums: _exact_sum(values, batch, sums),
        "function": lambda functions: _exact_function(values, batch, functions),
    }
    found = {
        kind: compute(rows) for kind, compute in computed.items() if (rows := getattr(terms, kind)).weights.shape[1]
    }
    others = [kind for kind in KINDS if kind not in computed and getattr(terms, kind).weights.shape[1]]
    if others:  # small whole numbers, also in float32
        rows = functional.one_hot(values, batch.values).float()
        found |= {kind: phi.round().long() for kind, phi in relaxed(rows, batch, terms, "counts", others).items()}
    return found


# -- where x is looked up ----------------------------------------------------------------------------------------------


def at_variables(x: Tensor, batch: Batch, variables: Tensor) -> Tensor:
    """x (R, M, K) at variables (G, ...) -> (R, G, ..., K)."""
    return x.index_select(1, batch.flat(variables)).view(x.shape[0], *variables.shape, x.shape[2])


def at_values(x: Tensor, batch: Batch, variables: Tensor, values: Tensor) -> Tensor:
    """x_{i,a} for variables i and values a (G, ...) -> (R, G, ...)."""
    cells = batch.flat(variables) * x.shape[2] + values.reshape(-1)
    return x.reshape(x.shape[0], -1).index_select(1, cells).view(x.shape[0], *variables.shape)


def _at(values: Tensor, batch: Batch, variables: Tensor) -> Tensor:
    """Values (R, M) at variables (G, ...) -> (R, G, ...)."""
    return values.index_select(1, batch.flat(variables)).view(values.shape[0], *variables.shape)


def expected_numbers(x: Tensor, batch: Batch, variables: Tensor) -> Tensor:
    """The mean of the numbers that values stand for, at variables (G, ...) -> (R, G, ...)."""
    rows, numbers = at_variables(x, batch, variables), batch.structure.numbers
    if not numbers.shape[1]:
        return rows @ torch.arange(x.shape[2], device=x.device, dtype=x.dtype)
    return (rows * numbers.reshape(-1, x.shape[2])[batch.flat(variables)].view(*variables.shape, -1)).sum(-1)


def numbers_of(values: Tensor, batch: Batch) -> Tensor:
    """What values (R, M) mean."""
    numbers = batch.structure.numbers
    if not numbers.shape[1]:
        return values
    return numbers.reshape(-1, numbers.shape[2]).expand(len(values), -1, -1).gather(2, values[..., None]).squeeze(-1)


def places_of(owner: Tensor, scopes: int) -> Tensor:
    """Owners (G, T) as one list over all groups."""
    return (owner + torch.arange(len(owner), device=owner.device)[:, None] * scopes).reshape(-1)


def sum_scopes(entries: Tensor, owner: Tensor, scopes: int) -> Tensor:
    """Entries (R, G, T, ...) added up by the scope (G, T) they belong to -> (R, G, S, ...)."""
    rows, groups = entries.shape[:2]
    out = entries.new_zeros(rows, groups * scopes, *entries.shape[3:])
    out = out.index_add(1, places_of(owner, scopes), entries.reshape(rows, -1, *entries.shape[3:]))
    return out.view(rows, groups, scopes, *entries.shape[3:])


# -- relaxed -----------------------------------------------------------------------------------------------------------


def same_value(x: Tensor, batch: Batch, terms: PairTerms) -> Tensor:
    """sum_k x_ik x_jk: how likely two variables take the same value."""
    ends = at_variables(x, batch, terms.variables)  # (R, G, S, 2, K)
    return (ends[..., 0, :] * ends[..., 1, :]).sum(-1)


def both_values(x: Tensor, batch: Batch, terms: PairTerms) -> Tensor:
    """x_ia x_jb."""
    first, second = at_values(x, batch, terms.variables, terms.values).unbind(-1)
    return first * second  # the gradient of prod would wait for the host


def occurrences(x: Tensor, batch: Batch, terms: DifferentTerms) -> Tensor:
    """How often each value, or each slot, occurs in each scope, (R, G, S, width)."""
    members, scopes = terms.members, terms.weights.shape[1]
    entries = at_variables(x, batch, members.variables) * members.present[..., None]
    if not terms.slots.shape[1]:
        return sum_scopes(entries, members.owner, scopes)
    cells = members.owner[..., None] * terms.width + terms.slots  # (G, T, K)
    counts = sum_scopes(entries.flatten(2), cells.flatten(1), scopes * terms.width)
    return counts.view(*counts.shape[:2], scopes, terms.width)


def _all_different(x: Tensor, batch: Batch, terms: DifferentTerms, form: AllDifferentForm) -> Tensor:
    """With c_k = sum_i x_ik, how often value k occurs in a scope:

    - "counts": sum_k max(0, c_k - 1), and where the scope is as long as its domain also sum_k max(0, 1 - c_k), which
      makes sum_k |1 - c_k|, the paper's penalty. It is zero on uniform rows.
    - "pairs": sum over pairs i < j of sum_k x_ik x_jk = 1/2 sum_k (c_k^2 - sum_i x_ik^2), the expected number of
      equal pairs if rows are drawn independently. It is linear in each row, so hedging never pays.
    """
    counts = occurrences(x, batch, terms)
    if form == "pairs":
        return 0.5 * (counts**2 - occurrences(x**2, batch, terms)).sum(-1)
    required = torch.arange(counts.shape[3], device=x.device) < terms.required[..., None]  # (G, S, width)
    return (functional.relu(counts - 1) + functional.relu(1 - counts) * required).sum(-1)


def _sum(x: Tensor, batch: Batch, terms: SumTerms) -> Tensor:
    """Of the expected sum."""
    total = expected_sum(x, batch, terms.numbers, terms.literals, terms.weights.shape[1])
    variable, value, _ = terms.when.unbind(-1)
    return _out_of_bounds(total, terms.bounds, at_values(x, batch, variable, value), terms)


def _out_of_bounds(total: Tensor, bounds: Tensor, chance: Tensor, terms: SumTerms) -> Tensor:
    """Distance of sums from their bounds, times the chance that these count. With `exactly`, where they do not, the
    distance from being outside. `chance` is that of the value in `when`."""
    low, high = bounds.unbind(-1)
    outside = functional.relu(total - high) + functional.relu(low - total)
    if not terms.when.shape[1]:
        return outside
    truth = terms.when[..., 2]  # (G, S)
    counts = torch.where(truth == ALWAYS, 1, torch.where(truth == 1, chance, 1 - chance))
    inside = functional.relu(torch.minimum(total - low, high - total) + 1)
    return counts * outside + (1 - counts) * torch.where(terms.exactly, inside, 0)


def expected_sum(x: Tensor, batch: Batch, numbers: Entries, literals: Entries, scopes: int) -> Tensor:
    """The mean of each sum, (R, G, S)."""
    total = x.new_zeros(x.shape[0], batch.groups, scopes)
    if numbers.owner.shape[1]:
        terms = expected_numbers(x, batch, numbers.variables) * numbers.amounts
        total = total + sum_scopes(terms, numbers.owner, scopes)
    if literals.owner.shape[1]:
        terms = at_values(x, batch, literals.variables, literals.values) * literals.amounts
        total = total + sum_scopes(terms, literals.owner, scopes)
    return total


def _function(x: Tensor, batch: Batch, terms: FunctionTerms) -> Tensor:
    """Distance of the result's mean number from that of what it should be."""
    return (expected_numbers(x, batch, terms.results) - expected_result(x, batch, terms)).abs()


def expected_result(x: Tensor, batch: Batch, terms: FunctionTerms) -> Tensor:
    """The largest or smallest mean number of the scope, or the mean of the one that the index chooses, (R, G, S)."""
    means = expected_numbers(x, batch, terms.entries.variables)  # (R, G, T)
    index, last = terms.index.gather(1, terms.entries.owner), x.shape[2] - 1
    chance = at_values(x, batch, index, terms.places.clamp(max=last)) * (terms.places <= last)
    return _result(means, chance, terms)


def _result(numbers: Tensor, chance: Tensor, terms: FunctionTerms) -> Tensor:
    """Of the numbers of entries and the chance that the index chooses them, (R, G, T) each."""
    rows, groups, scopes = len(numbers), *terms.weights.shape
    owner, present = terms.entries.owner, terms.entries.present
    signed = torch.where(present, numbers * terms.signs.gather(1, owner), -FAR)
    lowest = numbers.new_full((rows, groups * scopes), -FAR)
    places = places_of(owner, scopes).expand(rows, -1)
    largest = lowest.scatter_reduce(1, places, signed.flatten(1), "amax").view(rows, groups, scopes)
    picked = sum_scopes(numbers * chance * present, owner, scopes)
    return torch.where(terms.is_element, picked, largest * terms.signs)


def _table(x: Tensor, batch: Batch, terms: TableTerms) -> Tensor:
    """1 - probability of an allowed tuple under independent rows."""
    entries = torch.where(terms.present, at_values(x, batch, terms.variables, terms.values), 1.0)
    chances = functools.reduce(torch.mul, entries.unbind(-1), entries.new_ones(entries.shape[:-1]))
    allowed = sum_scopes(chances * terms.present.any(-1), terms.owner, terms.weights.shape[1])
    return functional.relu(1 - allowed)


# -- discrete ----------------------------------------------------------------------------------------------------------


def _exact_sum(values: Tensor, batch: Batch, terms: SumTerms) -> Tensor:
    scopes, numbers, literals = terms.weights.shape[1], terms.numbers, terms.literals
    counted = _at(numbers_of(values, batch), batch, numbers.variables) * numbers.amounts
    earned = (_at(values, batch, literals.variables) == literals.values) * literals.amounts
    total = sum_scopes(counted, numbers.owner, scopes) + sum_scopes(earned, literals.owner, scopes)
    variable, value, _ = terms.when.unbind(-1)
    return _out_of_bounds(total, terms.limits, (_at(values, batch, variable) == value).long(), terms)


def _exact_function(values: Tensor, batch: Batch, terms: FunctionTerms) -> Tensor:
    numbers, index = numbers_of(values, batch), terms.index.gather(1, terms.entries.owner)
    chosen = (_at(values, batch, index) == terms.places).long()
    wanted = _result(_at(numbers, batch, terms.entries.variables), chosen, terms)
    return (_at(numbers, batch, terms.results) - wanted).abs()
