"""What networkx asks a backend for when networkx itself is imported.

Every program that imports networkx runs this file, so it loads nothing.
"""

from __future__ import annotations

from typing import Any

# The configuration `nx.config.backends.blogdit`: a user may change it, and every call may say otherwise.
DEFAULTS = {"time_limit": 1.0, "seed": 0, "device": "auto"}

OPTIONS = {
    "time_limit : float, optional": "Seconds for the call. Default: nx.config.backends.blogdit.time_limit",
    "device : str, optional": "auto, cpu or cuda. Default: nx.config.backends.blogdit.device",
    "model : str, optional": "A bundled model or a file. Default: the bundled model of the problem",
}
SEED = {"seed : int, optional": "Seed of everything random. Default: nx.config.backends.blogdit.seed"}
VERTEX_WEIGHT = {"weight : str, optional": "Node attribute to use as weight. Default: every node has weight 1"}


def info() -> dict[str, Any]:
    """The entry point `networkx.backend_info`."""
    return {
        "backend_name": "blogdit",
        "project": "blogdit",
        "package": "blogdit",
        "short_summary": "A learned sampler with local and exact search for hard problems on graphs.",
        "default_config": dict(DEFAULTS),
        "functions": {
            "maximum_independent_set": _function(
                "The largest or heaviest set that is found within the time limit.", VERTEX_WEIGHT, SEED
            ),
            "maximal_independent_set": _function(
                "A maximal set with `nodes`, as large or heavy as is found within the time limit.", VERTEX_WEIGHT
            ),
            "min_weighted_vertex_cover": _function("The lightest cover that is found within the time limit.", SEED),
            "one_exchange": _function(
                "The heaviest cut that is found within the time limit. No change of one node makes it heavier, "
                "and it is no lighter than `initial_cut`."
            ),
            "greedy_color": _function(
                "As few colours as are found within the time limit, and no more than DSATUR needs. "
                "There is no `strategy` and no `interchange`.",
                SEED,
            ),
        },
    }


def _function(summary: str, *more: dict[str, str]) -> dict[str, Any]:
    parameters = dict(OPTIONS)
    for some in more:
        parameters |= some
    return {"additional_docs": summary, "additional_parameters": parameters}
