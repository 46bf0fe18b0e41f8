"""A first state for `repair`: variables get their values one after the other.

Next comes the variable with fewest values left that violate nothing, of equals the one with most neighbours, and it
takes the first value that violates least. In a graph that is DSATUR (Brélaz 1979).
"""

from __future__ import annotations

import heapq
import math
import time

import numpy as np

from blogdit.constraints import IntArray
from blogdit.csp import Instance
from blogdit.search.polish import Pairs

GLANCE = 256  # variables between looks at the clock


def fill(instance: Instance, deadline: float = math.inf) -> IntArray | None:
    """An assignment of an instance with constraints on pairs; None if the time does not suffice."""
    pairs = Pairs(instance)
    costs, degrees = pairs.unary, np.diff(pairs.starts)
    free = (costs == 0).sum(1)  # values of each variable that violate nothing
    queue = list(zip(free.tolist(), (-degrees).tolist(), range(instance.size), strict=True))
    heapq.heapify(queue)
    values, waits = instance.given_values.copy(), np.ones(instance.size, np.bool_)
    filled = 0
    while queue:
        left, _, variable = heapq.heappop(queue)
        if not waits[variable] or left != free[variable]:  # it is further ahead in the queue
            continue
        filled += 1
        if filled % GLANCE == 0 and time.monotonic() > deadline:
            return None
        waits[variable], value = False, int(costs[variable].argmin())
        values[variable] = value
        mine = slice(pairs.starts[variable], pairs.starts[variable + 1])
        own, theirs = pairs.values[mine].T
        charged = (own < 0) | (own == value)
        cells = pairs.other[mine][charged], np.where(own < 0, value, theirs)[charged]
        taken = np.unique(cells[0][(costs[cells] == 0) & waits[cells[0]]])
        np.add.at(costs, cells, pairs.weights[mine][charged])
        free[taken] = (costs[taken] == 0).sum(1)
        for other in taken.tolist():
            heapq.heappush(queue, (int(free[other]), -int(degrees[other]), other))
    return values
