"""A first state for `repair`: variables get their values one after the other.

Next comes the variable with fewest values left that violate nothing, of equals the one in most pairs, and it takes the
first value that violates least: nearly DSATUR (Brélaz 1979), which counts the pairs with those that wait.
"""

from __future__ import annotations

import heapq
import math
import time
from collections.abc import Callable

import numpy as np

from blogdit.core.constraints import IntArray
from blogdit.core.instance import Instance
from blogdit.finishers.polish import Pairs

GLANCE = 64  # variables between looks at the clock


def fill(
    instance: Instance, start: IntArray, deadline: float = math.inf, stopped: Callable[[], bool] = lambda: False
) -> tuple[IntArray, bool]:
    """An assignment of an instance with constraints on pairs, and whether there was time for all of it: who was not
    reached keeps the value of `start`."""
    values, waits = start.copy(), np.ones(instance.size, np.bool_)
    if time.monotonic() > deadline:
        return values, False
    pairs = Pairs(instance)
    costs, degrees = pairs.unary, np.diff(pairs.starts)
    free = (costs == 0).sum(1)  # values of each variable that violate nothing
    queue = list(zip(free.tolist(), (-degrees).tolist(), range(instance.size), strict=True))
    heapq.heapify(queue)
    filled = 0
    while queue:
        left, _, variable = heapq.heappop(queue)
        if not waits[variable] or left != free[variable]:  # it has its value, or is further ahead in the queue
            continue
        if filled % GLANCE == 0 and (time.monotonic() > deadline or stopped()):
            return values, False
        filled += 1
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
    return values, True
