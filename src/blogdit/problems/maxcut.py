"""MaxCut: split the vertices of a graph into two sides so that the edges between them weigh the most."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from blogdit.core.constraints import IntArray
from blogdit.core.instance import Instance, Objective
from blogdit.problems.base import Family
from blogdit.problems.graphs import (
    GRAPH_PRESET,
    Graph,
    as_graph,
    make_graph,
    random_graph,
    show_vertices,
    sizes_and_densities,
)

WEIGHTS = ("unit", "signs", "normal", "mixed")


def build(graph: Any, name: str = "") -> Instance:
    """`graph` is a networkx graph or (vertices, edges[, weights]); without weights each edge counts 1."""
    graph = as_graph(graph)
    weights = np.ones(len(graph.edges)) if graph.weights is None else graph.weights
    return Instance(
        domain_sizes=np.full(graph.vertices, 2, np.int64),
        objective=Objective("maximize", differ=graph.edges, differ_weights=weights),
        problem="maxcut",
        name=name,
        labels=graph.labels,
    )


def graph_of(instance: Instance) -> Graph:
    """The graph to cut, or a ValueError if the instance is not a MaxCut problem."""
    goal = instance.objective
    if instance.constraints or goal is None or (instance.domain_sizes != 2).any():
        raise ValueError("maxcut has domains of size 2, no constraints and an objective")
    if goal.sense != "maximize" or not goal.has_only("differ"):
        raise ValueError("the objective of maxcut is to maximize 'differ' terms and nothing else")
    return Graph(instance.size, goal.differ, goal.differ_weights, labels=instance.labels)


def generate(
    count: int,
    rng: np.random.Generator,
    vertices: Any = 50,
    p_min: float = 0.05,
    p_max: float = 0.3,
    weights: str = "unit",
) -> list[Instance]:
    """G(n, p) with p uniform in [p_min, p_max] and weights 1 (unit), +1/-1 (signs), standard normal (normal) or any of
    these, graph by graph (mixed)."""
    if weights not in WEIGHTS:
        raise ValueError(f"weights must be one of {', '.join(WEIGHTS)}, got {weights!r}")
    instances: list[Instance] = []
    for n, p in sizes_and_densities(count, vertices, p_min, p_max, rng):
        graph = random_graph(n, p, rng)
        kind = weights if weights != "mixed" else WEIGHTS[int(rng.integers(3))]
        if kind == "signs":
            graph = make_graph(n, graph.edges, rng.choice([-1.0, 1.0], size=len(graph.edges)))
        elif kind == "normal":
            # Rounded: the last bits of a normal draw may differ between machines.
            graph = make_graph(n, graph.edges, rng.standard_normal(len(graph.edges)).round(6))
        instances.append(build(graph, name=f"maxcut-{len(instances)}"))
    return instances


def render(instance: Instance, values: IntArray | None = None) -> str:
    """The weight of the cut and the two sides."""
    lines = [f"{instance.size} vertices, {len(graph_of(instance).edges)} edges"]
    if values is not None:
        lines.append(f"cut {instance.verify(values).objective:g}")
        lines += [f"side {s}: {show_vertices(np.flatnonzero(values == s), instance.labels)}" for s in (0, 1)]
    return "\n".join(lines)


def preset(settings: Mapping[str, Any]) -> dict[str, Any]:
    """One model for weights of all kinds."""
    return {**GRAPH_PRESET, "weights": "mixed", "signed": True, "layers": 4, "validation_selector": "margin"}


FAMILY = Family(
    name="maxcut",
    summary="split the vertices of a weighted graph so that the edges between the sides weigh the most",
    build=build,
    generate=generate,
    render=render,
    preset=preset,
    graph_of=graph_of,
)
