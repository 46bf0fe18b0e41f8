"""Graph colouring: give each vertex one of k colours so that no edge joins two vertices of one colour."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from blogdit.core.arrays import whole_number, whole_range
from blogdit.core.constraints import IntArray, NotEqual
from blogdit.core.instance import Instance
from blogdit.problems.base import Family
from blogdit.problems.graphs import (
    GRAPH_PRESET,
    Graph,
    as_graph,
    random_graph,
    show_vertices,
    sizes_and_densities,
)


def build(graph: Any, colors: int, name: str = "") -> Instance:
    """`graph` is a networkx graph or (vertices, edges); weights play no role."""
    graph, colors = as_graph(graph), whole_number(colors, "colors", 1)
    return Instance(
        domain_sizes=np.full(graph.vertices, colors, np.int64),
        constraints=(NotEqual(graph.edges),),
        problem="coloring",
        name=name,
        labels=graph.labels,
    )


def graph_of(instance: Instance) -> Graph:
    """The graph to colour, or a ValueError if the instance is not a colouring problem."""
    edges = instance.constraints[0] if len(instance.constraints) == 1 else None
    sizes = instance.domain_sizes
    if not isinstance(edges, NotEqual) or instance.objective is not None or (sizes != sizes[:1]).any():
        raise ValueError("coloring has one group of not_equal constraints, equal domains and no objective")
    return Graph(instance.size, edges.pairs, labels=instance.labels)


def threshold(vertices: int, colors: int) -> float:
    """The edge probability around which random graphs stop being colourable: mean degree (2 k - 1) ln k."""
    return (2 * colors - 1) * math.log(colors) / max(vertices - 1, 1)


def generate(
    count: int,
    rng: np.random.Generator,
    vertices: Any = 50,
    colors: Any = 5,
    p_min: float = 0.11,
    p_max: float = 0.257,
    relative: bool = False,
    planted: bool = False,
) -> list[Instance]:
    """G(n, p) with p uniform in [p_min, p_max], or in that share of the `threshold` if `relative`; `planted` leaves out
    the edges inside hidden, balanced classes. `vertices` and `colors` may be ranges like 50-100."""
    fewest, most = whole_range(colors, "colors", 1)
    bounds = (p_min, p_max) if not relative else (0.0, 1.0)
    instances: list[Instance] = []
    for n, p in sizes_and_densities(count, vertices, *bounds, rng):
        k = int(rng.integers(fewest, most + 1)) if most > fewest else fewest
        if relative:
            p = min((p_min + (p_max - p_min) * p) * threshold(n, k), 1.0)
        hidden = rng.permutation(np.arange(n) % k) if planted else None
        instances.append(build(random_graph(n, p, rng, hidden), k, name=f"coloring-{len(instances)}"))
    return instances


def render(instance: Instance, values: IntArray | None = None) -> str:
    """One line per colour class."""
    colors = int(instance.domain_sizes.max(initial=0))
    lines = [f"{instance.size} vertices, {len(graph_of(instance).edges)} edges, {colors} colours"]
    if values is not None:
        used = np.unique(values)
        lines += [f"colour {c}: {show_vertices(np.flatnonzero(values == c), instance.labels)}" for c in used[:30]]
        lines += [f"... ({len(used)} colours used)"] if len(used) > 30 else []
        lines.append(instance.verify(values).in_words)
    return "\n".join(lines)


def preset(settings: Mapping[str, Any]) -> dict[str, Any]:
    """One model for many sizes and numbers of colours, on graphs below and around the threshold."""
    graphs = {"vertices": "40-120", "colors": "3-20", "relative": True, "p_min": 0.4, "p_max": 1.0}
    return {**GRAPH_PRESET, **graphs, "layers": 6, "batch_size": 256}


FAMILY = Family(
    name="coloring",
    summary="colour the vertices of a graph with k colours, no edge joining equal colours",
    build=build,
    generate=generate,
    render=render,
    preset=preset,
    graph_of=graph_of,
    needs_colors=True,
)
