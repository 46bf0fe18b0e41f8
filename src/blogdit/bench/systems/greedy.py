"""Greedy construction: networkx's colouring strategies, least degree first for independent sets, one-exchange for cuts.

One pass, no search: what anybody gets for nothing.
"""

from __future__ import annotations

import networkx
import numpy as np
import numpy.typing as npt

from blogdit.bench.systems.base import Budget, Clock, System
from blogdit.core.constraints import FloatArray, IntArray
from blogdit.core.instance import Instance
from blogdit.core.result import Result
from blogdit.problems import coloring, maxcut, mis
from blogdit.problems.graphs import Graph


class Greedy(System):
    problems: tuple[str, ...] = ("coloring", "mis", "maxcut")

    def __init__(self, name: str = "greedy", strategy: str = "largest_first"):
        self.name, self.strategy = name, strategy
        if strategy != "largest_first":
            self.problems = ("coloring",)

    def solve(self, instance: Instance, budget: Budget, seed: int = 0) -> Result:
        clock, rng, how = Clock(None), np.random.default_rng(seed), self.strategy
        if instance.problem == "coloring":
            values = color(coloring.graph_of(instance), int(instance.domain_sizes[0]), self.strategy)
        elif instance.problem == "mis":
            how, values = "least degree first", repaired(instance, np.zeros(instance.size, np.int64))
        else:
            how, values = "one-exchange", repaired(instance, rng.integers(0, 2, instance.size))
        return Result(instance, values, 1, clock.spent, seed, how)


def repaired(instance: Instance, values: IntArray) -> IntArray:
    """Sets are made independent and maximal, cuts locally optimal; other problems keep their values."""
    if instance.problem == "mis":
        return independent_set(mis.graph_of(instance), values)
    if instance.problem == "maxcut":
        return one_exchange(maxcut.graph_of(instance), values)
    return values


def color(graph: Graph, colors: int, strategy: str) -> IntArray:
    """networkx's greedy colouring; vertices that would need more colours take the least bad of those there are."""
    whole = networkx.empty_graph(graph.vertices)
    whole.add_edges_from(graph.edges.tolist())
    found = networkx.greedy_color(whole, strategy)
    values = np.array([found[v] for v in range(graph.vertices)], np.int64)
    for vertex in np.flatnonzero(values >= colors):
        taken = values[list(whole[int(vertex)])]
        values[vertex] = np.bincount(taken[taken < colors], minlength=colors).argmin()
    return values


def neighbours(graph: Graph) -> list[IntArray]:
    """The neighbours of each vertex."""
    both = np.concatenate([graph.edges, graph.edges[:, ::-1]])
    both = both[np.argsort(both[:, 0], kind="stable")]
    return np.split(both[:, 1], np.searchsorted(both[:, 0], np.arange(1, graph.vertices)))


def independent_set(graph: Graph, start: npt.NDArray[np.int64]) -> IntArray:
    """A maximal independent set from any set: of those in conflict the worst leave first, then vertices with the
    fewest free neighbours (per weight) enter."""
    weights = np.ones(graph.vertices) if graph.vertex_weights is None else graph.vertex_weights
    chosen, near = start.astype(np.bool_), neighbours(graph) if graph.vertices else []
    inside = chosen[graph.edges[:, 0]] & chosen[graph.edges[:, 1]]
    conflicts = np.bincount(graph.edges[inside].reshape(-1), minlength=graph.vertices).astype(np.float64)
    priced = np.maximum(weights, 1e-300)  # what is worth nothing leaves first
    while conflicts.any():
        worst = int(np.argmax(conflicts / priced))
        chosen[worst], conflicts[worst] = False, 0
        conflicts[near[worst]] -= chosen[near[worst]]
    chosen &= weights >= 0
    free = ~chosen & (weights > 0)
    for member in np.flatnonzero(chosen):
        free[near[member]] = False
    degree = np.array([free[n].sum() for n in near], np.float64)
    while free.any():
        vertex = int(np.argmin(np.where(free, (degree + 1) / priced, np.inf)))
        chosen[vertex], free[vertex] = True, False
        gone = near[vertex][free[near[vertex]]]
        free[gone] = False
        for other in gone:
            degree[near[other]] -= 1
    return chosen.astype(np.int64)


def one_exchange(graph: Graph, start: IntArray) -> IntArray:
    """Move the vertex that gains most to the other side until none gains."""
    weights = np.ones(len(graph.edges)) if graph.weights is None else graph.weights
    both = np.concatenate([graph.edges, graph.edges[:, ::-1]])
    order = np.argsort(both[:, 0], kind="stable")
    owner, other, weight = both[order, 0], both[order, 1], np.tile(weights, 2)[order]
    starts = np.searchsorted(owner, np.arange(graph.vertices + 1))
    sides = start.astype(np.int64)
    same = np.where(sides[owner] == sides[other], weight, -weight)
    gain: FloatArray = np.bincount(owner, same, graph.vertices).astype(np.float64)
    while len(gain) and gain.max() > 1e-9:
        vertex = int(gain.argmax())
        sides[vertex] ^= 1
        gain[vertex] = -gain[vertex]
        rows = slice(starts[vertex], starts[vertex + 1])
        now_same = sides[other[rows]] == sides[vertex]
        np.add.at(gain, other[rows], np.where(now_same, 2.0, -2.0) * weight[rows])
    return sides


SYSTEMS = (Greedy(), Greedy("greedy-dsatur", "saturation_largest_first"))
