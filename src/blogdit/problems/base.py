"""What a problem family offers to the rest of the package."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from blogdit.core.instance import Instance
from blogdit.problems.graphs import Graph


@dataclass(frozen=True)
class Family:
    """A problem family. Each module of `blogdit.problems` with a `FAMILY` of this type is found by itself.

    `build(data, name="", ...)` makes one instance from Python data. Families of graph problems set `graph_of`, the
    inverse of `build`; then any graph file can be read as, and written from, an instance of the family.
    `generate(count, rng, **settings)` makes instances from a numpy Generator. The keyword arguments that it takes are
    what `blogdit generate --set` and `blogdit train --set` accept.
    `render(instance, values)` shows an answer (or, with None, the question) as plain text for a terminal.
    `recognise` turns an instance of any origin into the family's own form, or raises a ValueError.
    `preset(settings)` gives the settings of `blogdit train` that suit instances made with these generator settings.
    """

    name: str
    summary: str
    build: Callable[..., Instance]
    generate: Callable[..., list[Instance]]
    render: Callable[..., str]
    preset: Callable[[Mapping[str, Any]], Mapping[str, Any]] = lambda settings: {}
    graph_of: Callable[[Instance], Graph] | None = None
    needs_colors: bool = False  # `build` takes the number of colours besides the graph
    recognise: Callable[[Instance], Instance] | None = None
    marks: bool = False  # `render` also takes `ansi` and `changed`: it marks givens, clashes and changes by colours
    first_symbol: int = 0  # what value 0 is shown as, where values are numbers on a board
    stand_in: str | None = None  # the bundled model that solves instances while the family has none of its own
    takes_all: bool = False  # `recognise` accepts every problem, so that it tells nothing
    source: str | None = None  # the Python file of a user that it comes from

    @cached_property
    def settings(self) -> dict[str, Any]:
        """The keyword arguments of `generate`, with their defaults."""
        parameters = inspect.signature(self.generate).parameters.values()
        return {one.name: one.default for one in parameters if one.default is not one.empty}

    def make(self, count: int, seed: int | np.random.Generator, **settings: Any) -> list[Instance]:
        """`generate`, with unknown settings refused by name."""
        unknown = sorted(set(settings) - set(self.settings))
        if unknown:
            raise ValueError(f"{self.name} has no setting {unknown[0]!r}; it takes {', '.join(self.settings)}")
        if isinstance(count, bool) or not isinstance(count, int) or count < 0:
            raise ValueError(f"count must be a whole number of at least 0, got {count!r}")
        rng = seed if isinstance(seed, np.random.Generator) else np.random.default_rng(seed)
        return self.generate(count, rng, **settings)

    def adopt(self, instance: Instance) -> Instance:
        """An instance that claims to belong to this family, if it does; otherwise a ValueError that says why not."""
        if self.graph_of is not None:
            self.graph_of(instance)
        return instance if self.recognise is None else self.recognise(instance)
