"""Variables that follow from others: filled in, never sampled.

`derive` computes their rows from the rows of the others. On one-hot rows it is exact. On soft rows a gradient passes
through it, so that training hears what a variable does to those that follow from it.
"""

from __future__ import annotations

import functools

import torch
from torch import Tensor
from torch.nn import functional

from blogdit.method.batch import GIVEN_LOGIT, Batch
from blogdit.method.penalties import at_values, expected_numbers, expected_result, expected_sum
from blogdit.method.terms import Definitions, SumTerms, TableTerms


def derive(x: Tensor, batch: Batch) -> Tensor:
    """Rows (R, M, K) with those of derived variables computed from the others."""
    s = batch.structure
    terms = s.derived
    for _ in range(terms.depth):  # each round is right for variables whose inputs were right before
        found = []
        for sums, definitions in ((s.linear, terms.linear), (s.sum, terms.sum)):
            if definitions.rows.shape[1]:
                found.append((definitions, _near(_missing(x, batch, sums, definitions), batch, definitions, x)))
        if terms.truth.rows.shape[1]:
            found.append((terms.truth, _truth(x, batch, s.sum, terms.truth)))
        if terms.function.rows.shape[1]:
            wanted = _of_rows(expected_result(x, batch, s.function), terms.function)
            found.append((terms.function, _near(wanted, batch, terms.function, x)))
        if terms.table.rows.shape[1]:
            found.append((terms.table, _looked_up(x, batch, s.table, terms.table)))
        filled = torch.cat([x, x[:, :1]], 1)  # the last row takes what padding defines
        for definitions, rows in found:
            padding = definitions.coefficients.reshape(-1) == 0
            places = torch.where(padding, x.shape[1], batch.flat(definitions.variables))
            filled = filled.index_copy(1, places, rows.flatten(1, 2))
        x = torch.where(batch.derived[..., None], filled[:, :-1], x)
    return x


def with_derived(logits: Tensor, batch: Batch) -> Tensor:
    """Logits (R, M, K) with those of derived variables as if they were given, or in between."""
    if not batch.structure.derived.depth:
        return logits
    x = derive(batch.allowed(logits).softmax(-1), batch)
    return torch.where(batch.derived[..., None], (2 * x - 1) * GIVEN_LOGIT, logits)


def _of_rows(amounts: Tensor, definitions: Definitions) -> Tensor:
    """(R, G, S) of all constraints -> (R, G, D) of those that define something."""
    return amounts.gather(2, definitions.rows.expand(len(amounts), *definitions.rows.shape))


def _missing(x: Tensor, batch: Batch, sums: SumTerms, definitions: Definitions) -> Tensor:
    """The number that makes a sum right, (R, G, D). With c = 1 or -1 and bound = sum of the others + c y:
    y = y_now + c (bound - sum_now)."""
    total = _of_rows(expected_sum(x, batch, sums.numbers, sums.literals, sums.weights.shape[1]), definitions)
    bound = sums.limits[..., 0].gather(1, definitions.rows).to(x.dtype)
    return expected_numbers(x, batch, definitions.variables) + definitions.coefficients * (bound - total)


def _near(number: Tensor, batch: Batch, definitions: Definitions, x: Tensor) -> Tensor:
    """Rows (R, G, D, K) whose mean is the number (R, G, D), or the nearest that the domain allows: all of it on one
    value, or divided between the values below and above."""
    places, numbers = batch.flat(definitions.variables), batch.structure.numbers
    domain = batch.domain[places].view(*definitions.variables.shape, -1)  # (G, D, K)
    if numbers.shape[1]:
        means = numbers.reshape(-1, x.shape[2])[places].view(domain.shape).to(x.dtype)
    else:
        means = torch.arange(x.shape[2], device=x.device, dtype=x.dtype).expand(domain.shape)
    least = torch.where(domain, means, torch.inf).amin(-1)
    greatest = torch.where(domain, means, -torch.inf).amax(-1)
    number = torch.minimum(torch.maximum(number, least), greatest)[..., None]
    gaps = torch.where(domain[..., 1:], means[..., 1:] - means[..., :-1], 1.0)
    below, above = functional.pad(gaps, (1, 0), value=1.0), functional.pad(gaps, (0, 1), value=1.0)
    return functional.relu(1 + torch.minimum((number - means) / below, (means - number) / above)) * domain


def _truth(x: Tensor, batch: Batch, sums: SumTerms, definitions: Definitions) -> Tensor:
    """1 for the value that says that a sum is within its bounds, falling to 0 one step outside; and for the other."""
    total = expected_sum(x, batch, sums.numbers, sums.literals, sums.weights.shape[1])
    low, high = sums.bounds.to(x.dtype).unbind(-1)
    chance = (1 - functional.relu(total - high) - functional.relu(low - total)).clamp(0, 1)
    chance = _of_rows(chance, definitions)[..., None]  # (R, G, D, 1)
    index = definitions.rows[..., None].expand(*definitions.rows.shape, 3)
    _, value, truth = sums.when.gather(1, index).unbind(-1)  # (G, D)
    says_so = torch.arange(x.shape[2], device=x.device) == torch.where(truth == 1, value, 1 - value)[..., None]
    return torch.where(says_so, chance, 1 - chance) * (torch.arange(x.shape[2], device=x.device) < 2)


def _looked_up(x: Tensor, batch: Batch, tables: TableTerms, definitions: Definitions) -> Tensor:
    """The chance of each value, given the rows of the other columns. What no tuple allows goes to the first value."""
    scopes, width = tables.weights.shape[1], x.shape[2]
    target = torch.full((batch.groups, scopes), -1, device=x.device)
    defined = torch.where(definitions.coefficients != 0, definitions.variables, -1)
    target = target.scatter_reduce(1, definitions.rows, defined, "amax")
    own = (tables.variables == target.gather(1, tables.owner)[..., None]) & tables.present  # (G, P, arity)
    entries = torch.where(tables.present & ~own, at_values(x, batch, tables.variables, tables.values), 1.0)
    chances = functools.reduce(torch.mul, entries.unbind(-1))  # (R, G, P)
    value = (tables.values * own).sum(-1)
    cells = (tables.owner * width + value).expand(len(x), -1, -1)
    rows = x.new_zeros(len(x), batch.groups, scopes * width).scatter_add(2, cells, chances * own.any(-1))
    index = definitions.rows[..., None].expand(len(x), *definitions.rows.shape, width)
    rows = rows.view(len(x), batch.groups, scopes, width).gather(2, index)
    first = torch.arange(width, device=x.device) == 0
    return rows + first * (1 - rows.sum(-1, keepdim=True)).clamp(min=0)
