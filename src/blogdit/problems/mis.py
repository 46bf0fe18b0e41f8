"""Maximum independent set: choose as many (or as heavy) vertices as possible, no two of them joined by an edge."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from blogdit.core.constraints import Conflict, IntArray
from blogdit.core.instance import Instance, Objective
from blogdit.problems.base import Family
from blogdit.problems.graphs import GRAPH_PRESET, Graph, as_graph, rb_graph, show_vertices

# RB model: ranges (both ends included) of the cliques n, their size k, and the vertices an instance must have.
SIZES = {"small": ((20, 24), (5, 11), (200, 300)), "large": ((40, 54), (20, 24), (800, 1200))}
P_RANGE = (0.3, 1.0)


def build(graph: Any, weights: npt.ArrayLike | None = None, name: str = "") -> Instance:
    """`graph` is a networkx graph or (vertices, edges); value 1 means chosen.

    A vertex counts its weight: `weights`, else the nodes' `weight` attributes, else 1.
    """
    graph = as_graph(graph)
    if weights is None:
        weights = np.ones(graph.vertices) if graph.vertex_weights is None else graph.vertex_weights
    return Instance(
        domain_sizes=np.full(graph.vertices, 2, np.int64),
        constraints=(Conflict(graph.edges, (1, 1)),),
        objective=Objective("maximize", unary=_chosen(graph.vertices), unary_weights=weights),
        problem="mis",
        name=name,
        labels=graph.labels,
    )


def _chosen(vertices: int) -> IntArray:
    return np.stack([np.arange(vertices), np.ones(vertices, np.int64)], axis=1)


def graph_of(instance: Instance) -> Graph:
    """The graph and its vertex weights, or a ValueError if the instance is not an independent set problem."""
    edges = instance.constraints[0] if len(instance.constraints) == 1 else None
    if not isinstance(edges, Conflict) or (edges.values != 1).any() or (instance.domain_sizes != 2).any():
        raise ValueError("mis has domains of size 2 and one group of conflict constraints with values 1, 1")
    goal = instance.objective
    if goal is None or goal.sense != "maximize" or not goal.has_only("unary"):
        raise ValueError("the objective of mis is to maximize 'unary' terms and nothing else")
    if not np.array_equal(goal.unary, _chosen(instance.size)):
        raise ValueError("the objective of mis has one 'unary' term [v, 1] for each variable v, in order")
    weights = goal.unary_weights
    plain = bool((weights == 1).all())
    return Graph(instance.size, edges.pairs, vertex_weights=None if plain else weights, labels=instance.labels)


def generate(count: int, rng: np.random.Generator, size: str = "small", weighted: bool = False) -> list[Instance]:
    """RB-model graphs; `weighted` gives vertices whole weights from 1 to 10."""
    if size not in SIZES:
        raise ValueError(f"size must be one of {', '.join(SIZES)}, got {size!r}")
    n_range, k_range, (fewest, most) = SIZES[size]
    instances: list[Instance] = []
    while len(instances) < count:
        n = int(rng.integers(n_range[0], n_range[1] + 1))
        k = int(rng.integers(k_range[0], k_range[1] + 1))
        p = float(rng.uniform(*P_RANGE))
        if not fewest <= n * k <= most:  # no vertex is isolated (k >= 2), so the size is known beforehand
            continue
        graph = rb_graph(n, k, p, rng)
        weights = rng.integers(1, 11, size=graph.vertices) if weighted else None
        instances.append(build(graph, weights, name=f"mis-{len(instances)}"))
    return instances


def render(instance: Instance, values: IntArray | None = None) -> str:
    """The weight of the set and its vertices."""
    lines = [f"{instance.size} vertices, {len(graph_of(instance).edges)} edges"]
    if values is not None:
        verdict, chosen = instance.verify(values), np.flatnonzero(values == 1)
        lines.append(f"set of {len(chosen)}, weight {verdict.objective:g}, {verdict.in_words}")
        lines.append(f"chosen: {show_vertices(chosen, instance.labels, most=60)}")
    return "\n".join(lines)


def preset(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {**GRAPH_PRESET, "layers": 8, "batch_size": 128, "pool": 4096, "validation_selector": "critical"}


FAMILY = Family(
    name="mis",
    summary="choose the largest (or heaviest) set of vertices no two of which are joined",
    build=build,
    generate=generate,
    render=render,
    preset=preset,
    graph_of=graph_of,
)
