"""Means with bootstrap confidence intervals, and what a record counts in a metric."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from blogdit.bench.records import Record

Metric = Literal["solved", "objective", "gap", "distance"]
RESAMPLES = 2000
COVERED = 95  # per cent


@dataclass(frozen=True)
class Mean:
    """A mean over instances with the interval that covers 95 % of the means of resampled instances."""

    value: float
    low: float
    high: float
    count: int


def mean(numbers: Sequence[float]) -> Mean:
    return mean_of_groups([[number] for number in numbers])


def mean_of_groups(groups: Sequence[Sequence[float]]) -> Mean:
    """The mean of all numbers. Those of a group were measured together, so it is groups that are resampled."""
    return quotient([(sum(group), len(group)) for group in groups], sum(map(len, groups)))


def quotient(pairs: Sequence[tuple[float, float]], count: int) -> Mean:
    """The sum of the first numbers over that of the second, which are about so many instances. The same pairs always
    get the same interval, in whatever order they come."""
    if not pairs:
        raise ValueError("a mean needs at least one number")
    above, below = np.array(sorted(pairs), np.float64).T
    draws = np.random.default_rng(0).integers(0, len(above), (RESAMPLES, len(above)))
    tail = (100 - COVERED) / 2
    sums = len(below) if (below == 1).all() else below[draws].sum(1)  # the usual case saves half of the time
    low, high = np.percentile(above[draws].sum(1) / sums, [tail, 100 - tail])
    return Mean(float(above.sum() / below.sum()), float(low), float(high), count)


def worth(record: Record, metric: Metric) -> float:
    """What an instance adds to the mean: 100 or 0 for solved or not, the objective, the gap to the best known, or the
    distance from it.

    An answer that breaks a constraint counts as objective 0, or as a distance of 100.
    """
    valid = record["verdict"] == "valid"
    if metric == "solved":
        return 100.0 if valid else 0.0
    if metric == "distance":
        return distance(float(record["objective"]), float(record["best_known"])) if valid else 100.0
    objective = float(record["objective"]) if valid else 0.0
    return objective if metric == "objective" else float(record["best_known"]) - objective


def distance(found: float, best: float) -> float:
    """How far an objective is from the best one, in per cent of the larger of the two; 100 if their signs differ. (In
    mixed-integer programming it is called the primal gap.)"""
    if found == best:
        return 0.0
    return 100.0 if found * best < 0 else 100 * abs(found - best) / max(abs(found), abs(best))
