"""Instances as quadratic functions of bits, E(x) = constant + b.x + sum_{i<j} Q_ij x_i x_j, and the way back.

The forms are those of the paper's appendix: MIS and MaxCut have a bit per vertex, Sudoku and colouring one for each
value of each variable. A QUBO is its own form.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from blogdit.bench.systems.greedy import repaired
from blogdit.core.constraints import FloatArray, IntArray
from blogdit.core.instance import Instance
from blogdit.problems import coloring, maxcut, mis
from blogdit.problems.qubo import quadratic_of

PROBLEMS = ("sudoku", "coloring", "mis", "maxcut")
MIS_PENALTY = 1.02
SUDOKU_PENALTY = 3.0


@dataclass(frozen=True, eq=False)
class Qubo:
    instance: Instance
    linear: FloatArray  # b, (N,)
    pairs: IntArray  # (m, 2) with i != j, each pair once
    weights: FloatArray  # Q, (m,)
    constant: float = 0.0
    clamped: IntArray | None = None  # (N,): 0 or 1 where a bit is fixed, -1 where it is free
    target: float | None = None  # the energy of a solution, where it is known

    @property
    def size(self) -> int:
        return len(self.linear)

    def gradient(self, bits: FloatArray) -> FloatArray:
        """dE/dx at bits (N,)."""
        slope = self.linear.copy()
        np.add.at(slope, self.pairs[:, 0], self.weights * bits[self.pairs[:, 1]])
        np.add.at(slope, self.pairs[:, 1], self.weights * bits[self.pairs[:, 0]])
        return slope

    def energy(self, bits: FloatArray) -> float:
        pairs = bits[self.pairs[:, 0]] * bits[self.pairs[:, 1]]
        return float(self.constant + self.linear @ bits + self.weights @ pairs)

    def decode(self, bits: IntArray) -> IntArray:
        """An assignment of the instance: sets are made independent and maximal, cuts locally optimal; of several or
        no values that a variable has, the one with the least slope counts."""
        if self.instance.problem in ("mis", "maxcut"):
            return repaired(self.instance, bits)
        if self.instance.problem == "qubo":
            return np.append(bits, 0)  # the reference
        slope = self.gradient(bits.astype(np.float64)).reshape(self.instance.size, -1)
        scores = np.where(bits.reshape(slope.shape) > 0, slope - 1e9, slope)
        values: IntArray = scores.argmin(1).astype(np.int64)
        return np.where(self.instance.is_given, self.instance.given_values, values)


def qubo(instance: Instance) -> Qubo:
    """The quadratic form of an instance of one of PROBLEMS, or of a QUBO."""
    if instance.problem == "mis":
        graph = mis.graph_of(instance)
        weights = np.ones(graph.vertices) if graph.vertex_weights is None else graph.vertex_weights
        lighter = weights[graph.edges].min(axis=1) if len(graph.edges) else np.zeros(0)
        return Qubo(instance, -weights, graph.edges, MIS_PENALTY * lighter)
    if instance.problem == "maxcut":
        graph = maxcut.graph_of(instance)
        weights = np.ones(len(graph.edges)) if graph.weights is None else graph.weights
        degree = np.bincount(graph.edges.reshape(-1), np.repeat(weights, 2), graph.vertices)
        return Qubo(instance, -degree.astype(np.float64), graph.edges, 2 * weights)  # -sum w (x_i + x_j - 2 x_i x_j)
    if instance.problem == "qubo":
        form = quadratic_of(instance)
        linear, couplings, constant = form.bits()
        return Qubo(instance, linear, form.pairs, couplings, constant)
    if instance.problem == "sudoku":
        houses = instance.constraints[0]
        pairs = np.concatenate([_couples(houses.scope(index)) for index in range(len(houses))])
        pairs = np.unique(np.sort(pairs, axis=1), axis=0)
        return _one_hot(instance, pairs, SUDOKU_PENALTY, SUDOKU_PENALTY, 0.0)
    if instance.problem == "coloring":
        # (1 - sum_k x_k)^2 = 1 - sum_k x_k + 2 sum_{k<l} x_k x_l, as x^2 = x
        return _one_hot(instance, coloring.graph_of(instance).edges, 1.0, 2.0, float(instance.size))
    raise ValueError(f"no quadratic form of {instance.problem!r}; known: {', '.join(PROBLEMS)}")


def _couples(members: IntArray) -> IntArray:
    first, second = np.triu_indices(len(members), 1)
    return np.stack([members[first], members[second]], axis=1)


def _one_hot(instance: Instance, pairs: IntArray, between: float, within: float, constant: float) -> Qubo:
    """Bit i * K + k says that variable i takes value k. A value earns 1, two values of one variable cost `within`, and
    equal values of a pair cost `between`."""
    n, width = instance.size, int(instance.domain_sizes.max(initial=1))
    values = np.arange(width)
    same = (pairs[:, None, :] * width + values[None, :, None]).reshape(-1, 2)
    several = (np.arange(n)[:, None, None] * width + _couples(values)[None]).reshape(-1, 2)
    clamped = np.full((n, width), -1, np.int64)
    clamped[instance.is_given] = 0
    clamped[instance.is_given, instance.given_values[instance.is_given]] = 1
    return Qubo(
        instance,
        np.full(n * width, -1.0),
        np.concatenate([same, several]),
        np.concatenate([np.full(len(same), between), np.full(len(several), within)]),
        constant,
        clamped.reshape(-1),
        constant - n,
    )
