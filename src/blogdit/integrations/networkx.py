"""The backend for networkx: `nx.approximation.maximum_independent_set(graph, backend="blogdit")`.

networkx loads this module when a call names the backend, and calls the function of the same name as its own. Each
function takes the arguments of networkx' function and, as keywords, those of `blogdit.solve`. What a call leaves out
comes from `nx.config.backends.blogdit`. What cannot be used raises a `NetworkXError`.
"""

from __future__ import annotations

import random
from collections.abc import Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import networkx as nx
import numpy as np

from blogdit import api
from blogdit.core.constraints import FloatArray, IntArray
from blogdit.core.instance import Instance
from blogdit.finishers.base import Deadline
from blogdit.finishers.descent import descend
from blogdit.finishers.tasks import best_of
from blogdit.integrations.networkx_info import DEFAULTS
from blogdit.problems import coloring, maxcut, mis
from blogdit.problems.graphs import Graph, make_graph

__all__ = [
    "greedy_color",
    "maximal_independent_set",
    "maximum_independent_set",
    "min_weighted_vertex_cover",
    "one_exchange",
]

Node = Hashable
Options = dict[str, Any]

LARGEST_DRAW = 2**31 - 1  # of a seed: what every generator of numpy and of Python can draw

# Tests of networkx that hold for its own algorithms alone.
UNLIKE_NETWORKX = {
    ("test_mis.py", "test_random_seed"): "lists draws of networkx' own random numbers",
    ("test_coloring.py", "test_special_cases"): "expects a colour too many, as a greedy strategy needs it",
    ("test_coloring.py", "test_strategy_as_function"): "expects which node has which colour",
}


class BackendGraph:
    """A networkx graph on its way through the dispatcher. Its data are read when a function runs."""

    __networkx_backend__ = "blogdit"

    def __init__(self, graph: Any):
        self.graph = graph

    def is_directed(self) -> bool:
        return bool(self.graph.is_directed())

    def is_multigraph(self) -> bool:
        return bool(self.graph.is_multigraph())


def convert_from_nx(graph: Any, **details: Any) -> BackendGraph:
    """What networkx calls before a function; `details` say which attributes the function reads."""
    return graph if isinstance(graph, BackendGraph) else BackendGraph(graph)


def convert_to_nx(result: Any, *, name: str | None = None) -> Any:
    """What networkx calls when it needs one of its own graphs."""
    return result.graph if isinstance(result, BackendGraph) else result


def can_run(name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool | str:
    """True, or why a call is not for this backend."""
    if name != "greedy_color":
        return True
    given = {**dict(zip(("G", "strategy", "interchange"), args, strict=False)), **kwargs}
    strategy, interchange = given.get("strategy"), given.get("interchange")
    if strategy not in (None, "largest_first") or interchange:  # networkx' default stands for no wish
        return "it follows no strategy: it looks for as few colours as it can find"
    return True


def on_start_tests(items: Iterable[Any]) -> None:
    """What networkx' own tests call before they run with a backend."""
    import pytest

    for item in items:
        if reason := UNLIKE_NETWORKX.get((item.path.name, item.name)):
            item.add_marker(pytest.mark.xfail(reason=reason))


def maximum_independent_set(G: Any, *, weight: str | None = None, **options: Any) -> set[Node]:
    """A large independent set or, with a node attribute `weight`, a heavy one. Nodes with a self-loop are in none."""
    view = View(G, weight)
    return view.names(_independent(view, _options(options)))


def maximal_independent_set(
    G: Any, nodes: Iterable[Node] | None = None, seed: Any = None, *, weight: str | None = None, **options: Any
) -> list[Node]:
    """A large independent set that contains `nodes`, with these at the front."""
    view, wanted = View(G, weight), dict.fromkeys(nodes or ())
    if unknown := [node for node in wanted if node not in view.index]:
        raise nx.NetworkXUnfeasible(f"{unknown[0]!r} is not a node of G; expected nodes of G")
    fixed = np.array([view.index[node] for node in wanted], np.int64)
    if view.blocked(fixed)[fixed].any():
        raise nx.NetworkXUnfeasible(f"{set(wanted)} is not an independent set of G")
    found = view.names(_independent(view, _options(options, seed), fixed))
    return [*wanted, *(node for node in view.nodes if node in found and node not in wanted)]


def min_weighted_vertex_cover(G: Any, weight: str | None = None, **options: Any) -> set[Node]:
    """A light vertex cover: what a heavy independent set leaves over."""
    view = View(G, weight)
    return view.names(~_independent(view, _options(options)))


def one_exchange(
    G: Any, initial_cut: Iterable[Node] | None = None, seed: Any = None, weight: str | None = None, **options: Any
) -> tuple[Any, tuple[set[Node], set[Node]]]:
    """A heavy cut that no change of one node improves, and no lighter than `initial_cut`."""
    view = View(G, edge_weight=weight)
    with _networkx_errors():
        instance = maxcut.build(view.graph)
    start = np.array([node in {*(initial_cut or ())} for node in view.nodes], np.int64)
    found = _solve(instance, _options(options, seed))
    sides = best_of(instance, [descend(instance, values, Deadline()) for values in (found, start)]) == 1
    first = view.names(sides)
    return nx.cut_size(view.source, first, weight=weight, backend="networkx"), (first, view.names(~sides))


def greedy_color(G: Any, strategy: Any = "largest_first", interchange: bool = False, **options: Any) -> dict[Node, int]:
    """A colouring with few colours: that of DSATUR, and then one colour less for as long as there is time."""
    view, chosen = View(G), _options(options)
    if len(view.loops):
        raise NotImplementedError(f"{view.nodes[view.loops[0]]!r} has a self-loop, so there is no colouring")
    deadline = Deadline(chosen.get("time_limit", np.inf))
    plain = nx.Graph()
    plain.add_nodes_from(range(len(view.nodes)))
    plain.add_edges_from(view.graph.edges.tolist())
    greedy = nx.greedy_color(plain, strategy="DSATUR", backend="networkx")
    colors = np.array([greedy[place] for place in plain], np.int64)
    least = view.clique()
    while (number := int(colors.max(initial=-1)) + 1) > least and not deadline.passed():
        limit = {} if deadline.unlimited else {"time_limit": deadline.left}
        instance = coloring.build(view.graph, number - 1)
        found = _solve(instance, {**chosen, **limit})
        if not instance.verify(found).satisfied:
            break
        colors = np.unique(found, return_inverse=True)[1]
    return dict(zip(view.nodes, colors.tolist(), strict=True))


class View:
    """The arrays of a graph. Directions and repeated edges make no difference here, and self-loops are kept apart."""

    def __init__(self, G: Any, node_weight: str | None = None, edge_weight: str | None = None):
        self.source = convert_to_nx(G)
        # networkx keeps converted graphs and warns that they may be out of date. Ours never are: nothing was copied.
        (getattr(self.source, "__networkx_cache__", None) or {}).get("backends", {}).pop("blogdit", None)
        self.nodes: list[Node] = list(self.source)
        self.index = {node: place for place, node in enumerate(self.nodes)}
        rows = [(self.index[u], self.index[v], w) for u, v, w in self.source.edges(data=edge_weight, default=1)]
        self.loops = np.array([u for u, v, _ in rows if u == v], np.int64)
        pairs = [(u, v) for u, v, _ in rows if u != v]
        heavy = None if edge_weight is None else [w for u, v, w in rows if u != v]
        own = None if node_weight is None else [w for _, w in self.source.nodes(data=node_weight, default=1)]
        with _networkx_errors():
            self.graph: Graph = make_graph(len(self.nodes), pairs, heavy, own)

    @property
    def weights(self) -> FloatArray:
        """Of the nodes."""
        return np.ones(len(self.nodes)) if self.graph.vertex_weights is None else self.graph.vertex_weights

    def names(self, chosen: Any) -> set[Node]:
        return {self.nodes[place] for place in np.flatnonzero(chosen)}

    def blocked(self, members: IntArray) -> Any:
        """(n,) bool: nodes that cannot be with `members` in an independent set."""
        inside, blocked = np.zeros(len(self.nodes), np.bool_), np.zeros(len(self.nodes), np.bool_)
        inside[members] = blocked[self.loops] = True
        first, second = self.graph.edges.T
        blocked[first[inside[second]]] = blocked[second[inside[first]]] = True
        return blocked

    def clique(self) -> int:
        """The size of a clique, which no colouring can do with fewer colours than."""
        near: list[set[int]] = [set() for _ in self.nodes]
        for first, second in self.graph.edges.tolist():
            near[first].add(second)
            near[second].add(first)
        clique: set[int] = set()
        for node in sorted(range(len(near)), key=lambda node: -len(near[node])):
            if clique <= near[node]:
                clique.add(node)
        return len(clique)


def _independent(view: View, options: Options, fixed: IntArray = np.zeros(0, np.int64)) -> Any:  # noqa: B008 (read-only)
    """(n,) bool: a set with the nodes `fixed` to which no node with a positive weight can be added."""
    out = view.blocked(fixed)
    out[fixed] = True
    rest = np.flatnonzero(~out & (view.weights > 0))  # the problem without what is decided beforehand
    place = np.full(len(out), -1)
    place[rest] = np.arange(len(rest))
    edges = place[view.graph.edges]
    instance = mis.build(make_graph(len(rest), edges[(edges >= 0).all(axis=1)]), view.weights[rest])
    values = instance.given_values
    if len(rest):
        found = _solve(instance, options) if len(instance.constraints[0]) else values
        values = _completed(instance, found)
    chosen = np.zeros(len(out), np.bool_)
    chosen[fixed] = True
    chosen[rest[values == 1]] = True
    return chosen


def _completed(instance: Instance, values: IntArray) -> IntArray:
    """A maximal independent set: the nodes of `values`, then the others by weight, as far as they are independent."""
    graph = mis.graph_of(instance)
    near: list[list[int]] = [[] for _ in range(graph.vertices)]
    for first, second in graph.edges.tolist():
        near[first].append(second)
        near[second].append(first)
    assert instance.objective is not None
    order = np.lexsort((-instance.objective.unary_weights, -values))
    chosen, blocked = np.zeros(graph.vertices, np.int64), np.zeros(graph.vertices, np.bool_)
    for node in order.tolist():
        if not blocked[node]:
            chosen[node] = 1
            blocked[near[node]] = True
    return best_of(instance, [chosen, values])


def _options(given: Mapping[str, Any], seed: Any = None) -> Options:
    """The configuration, then what the call says. A budget of steps takes the place of the configured seconds."""
    options = {**DEFAULTS, **nx.config.backends.get("blogdit", {}), **given}
    if given.get("steps") is not None and "time_limit" not in given:
        del options["time_limit"]
    if isinstance(seed, int):
        options["seed"] = seed
    elif seed is not None and seed is not random._inst:
        # networkx turns seeds into generators, and hands over the global one where a call names no seed.
        options["seed"] = seed.randint(0, LARGEST_DRAW)
    return options


def _solve(instance: Instance, options: Options) -> IntArray:
    with _networkx_errors():
        (result,) = api.solve_each(instance, **options)
    return result.values


@contextmanager
def _networkx_errors() -> Iterator[None]:
    """What cannot be used raises networkx' own error."""
    try:
        yield
    except ValueError as error:
        raise nx.NetworkXError(str(error)) from error
