"""What other packages have, as instances. Their own modules are loaded when one of their objects comes along."""

from __future__ import annotations

from typing import Any

from blogdit.core.errors import InputError
from blogdit.core.instance import Instance
from blogdit.formats import from_graph
from blogdit.problems import family
from blogdit.problems.graphs import Graph, as_graph


def as_instance(data: Any, problem: str | None = None, colors: int | None = None, name: str = "") -> Instance:
    """An instance from what other packages have: a networkx graph, a sparse matrix of SciPy or a tuple (vertices,
    edges[, weights]), each with the `problem` to solve on it, or a model of dimod, CPMpy or OR-Tools' CP-SAT."""
    if isinstance(data, Instance):
        return data
    try:
        if _package(data) == "dimod":
            from blogdit.integrations.dimod_models import instance_of

            return instance_of(data, name)
        if _package(data) == "cpmpy":
            from blogdit.integrations.cpmpy import instance_of as of_model

            return of_model(data, name)
        if _package(data) == "ortools":
            from blogdit.integrations.ortools_model import from_cp_model

            return from_cp_model(data, name)
        if not is_one(data):
            raise InputError(f"expected instances, graphs or models, got {type(data).__name__}")
        chosen = None if problem is None else family(problem)
        return from_graph(as_graph(data), chosen, colors, name, asked=("problem=", "colors=K"))
    except InputError:
        raise
    except ValueError as error:
        raise InputError(str(error)) from None


def _package(data: Any) -> str:
    return type(data).__module__.partition(".")[0]


def is_one(data: Any) -> bool:
    """Whether this is one problem, and not several: graphs can be iterated over, too."""
    known = isinstance(data, Instance | Graph) or _package(data) in ("dimod", "cpmpy", "ortools")
    is_graph = hasattr(data, "tocoo") or (hasattr(data, "nodes") and hasattr(data, "edges"))
    return known or is_graph or (isinstance(data, tuple) and len(data) > 1 and isinstance(data[0], int))
