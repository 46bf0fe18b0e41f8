"""Pairs of literals: those that exclude each other, and those that the objective couples.

They could be factors of two literals. As lists of neighbours they take no more room than the literals themselves, which
counts on graphs: they have few literals and many edges.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from blogdit.method.rules import merged
from blogdit.method.structure import Structure
from blogdit.method.terms import PairTerms


@dataclass(frozen=True)
class Pairs:
    """Pairs of literals of G structures, with no thought of givens: each pair once from either end, end by end."""

    end: Tensor  # (P,) ascending; (group * N + variable) * K + value
    other: Tensor  # (P,)
    weight: Tensor  # (P,)


def excluding(structure: Structure) -> Pairs:
    """Literals of which one at most is true, by constraints on two variables that must hold."""
    return _joined(structure, [(structure.not_equal, 1.0, False), (structure.conflict, 1.0, True)])


def coupled(structure: Structure) -> Pairs:
    """Literals that cost something together (or earn it, with a weight below 0): terms of the objective over pairs,
    and soft constraints on two variables. What costs w where two values differ earns w where they are the same."""
    soft = structure.soft
    terms = [(structure.differ, -1.0, False), (structure.pairwise, 1.0, True)]
    return _joined(structure, [*terms, (soft.not_equal, 1.0, False), (soft.conflict, 1.0, True)])


def most_pairs(structure: Structure) -> int:
    """At least as many as the ends of pairs of any group."""
    values, soft = structure.domain.shape[2], structure.soft
    wide = (structure.not_equal, structure.differ, soft.not_equal)
    named = (structure.conflict, structure.pairwise, soft.conflict)
    return 2 * sum(values * terms.weights.shape[1] for terms in wide) + 2 * sum(t.weights.shape[1] for t in named)


def _joined(structure: Structure, parts: list[tuple[PairTerms, float, bool]]) -> Pairs:
    """Pairs of variables with a sign for their weights, and whether their values are named."""
    domain, (_, variables, values) = structure.domain, structure.domain.shape
    ends, weights = [], []
    for terms, sign, named in parts:
        group, row = terms.weights.nonzero().unbind(1)
        pairs, weight = terms.variables[group, row], sign * terms.weights[group, row]
        place = (group[:, None] * variables + pairs) * values  # (n, 2)
        if named:
            place = place + terms.values[group, row]
        else:
            both = domain[group, pairs[:, 0]] & domain[group, pairs[:, 1]]  # (n, K)
            row, value = both.nonzero().unbind(1)
            place, weight = place[row] + value[:, None], weight[row]
        ends.append(place)
        weights.append(weight)
    one, other = torch.cat(ends).unbind(1)
    end, other = torch.cat([one, other]), torch.cat([other, one])
    first, weight = merged(end, other, torch.cat(weights).repeat(2))
    end, order = end[first].sort(stable=True)
    return Pairs(end, other[first][order], weight[order])
