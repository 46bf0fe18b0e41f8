"""Pairs of literals: those that exclude each other, and those that the objective couples.

They could be factors of two literals. As lists of neighbours they take no more room than the literals themselves, which
counts on graphs: they have few literals and many edges.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from blogdit.method.structure import Structure
from blogdit.method.terms import PairTerms


@dataclass(frozen=True)
class Pairs:
    """Pairs of literals, with no thought of givens."""

    places: Tensor  # (G, P, 2) variable * K + value
    weights: Tensor  # (G, P) 0 in padding

    def both_ways(self, size: int) -> tuple[Tensor, Tensor, Tensor]:
        """One end, the other end and the weight of each pair, once from either end: (size, 2 P)."""
        one, other = self.places.unbind(-1)
        ends = torch.cat([one, other], 1), torch.cat([other, one], 1), self.weights.repeat(1, 2)
        return ends[0].expand(size, -1), ends[1].expand(size, -1), ends[2].expand(size, -1)


def excluding(structure: Structure) -> Pairs:
    """Literals of which one at most is true, by constraints on two variables that must hold."""
    return _joined(structure, [(structure.not_equal, 1.0, False), (structure.conflict, 1.0, True)])


def coupled(structure: Structure) -> Pairs:
    """Literals that cost something together (or earn it, with a weight below 0): terms of the objective over pairs,
    and soft constraints on two variables. What costs w where two values differ earns w where they are the same."""
    soft = structure.soft
    terms = [(structure.differ, -1.0, False), (structure.pairwise, 1.0, True)]
    return _joined(structure, [*terms, (soft.not_equal, 1.0, False), (soft.conflict, 1.0, True)])


def _joined(structure: Structure, parts: list[tuple[PairTerms, float, bool]]) -> Pairs:
    """Pairs of variables with a sign for their weights, and whether their values are named."""
    values = structure.domain.shape[2]
    value = torch.arange(values, device=structure.domain.device)
    places, weights = [], []
    for terms, sign, named in parts:
        taken = terms.values[..., None] if named else value  # (G, S, 2, 1) or (K,)
        place = terms.variables[..., None] * values + taken  # (G, S, 2, K or 1)
        places.append(place.transpose(2, 3).flatten(1, 2))
        weights.append((sign * terms.weights)[..., None].expand(-1, -1, place.shape[3]).flatten(1))
    return Pairs(torch.cat(places, 1), torch.cat(weights, 1))
