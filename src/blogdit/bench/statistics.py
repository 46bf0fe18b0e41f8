"""Means with bootstrap confidence intervals, and what a record counts in a metric."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from blogdit.bench.records import Record

Metric = Literal["solved", "objective", "gap"]
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
    """The same numbers always get the same interval, in whatever order they come."""
    data = np.sort(np.asarray(numbers, np.float64))
    if not len(data):
        raise ValueError("a mean needs at least one number")
    draws = np.random.default_rng(0).integers(0, len(data), (RESAMPLES, len(data)))
    tail = (100 - COVERED) / 2
    low, high = np.percentile(data[draws].mean(1), [tail, 100 - tail])
    return Mean(float(data.mean()), float(low), float(high), len(data))


def worth(record: Record, metric: Metric) -> float:
    """What an instance adds to the mean: 100 or 0 for solved or not, the objective, or the gap to the best known.

    An answer that breaks a constraint counts as objective 0.
    """
    valid = record["verdict"] == "valid"
    if metric == "solved":
        return 100.0 if valid else 0.0
    objective = float(record["objective"]) if valid else 0.0
    return objective if metric == "objective" else float(record["best_known"]) - objective
