"""The clock by which instances pay for their time: it stands still while kernels are compiled.

Kernels are compiled once for a GPU and a version, and kept on disk. Whoever is the first to need one should not have a
worse answer for it. The wall clock (`time.monotonic`) goes on: a total time is a promise about it.
"""

from __future__ import annotations

import time

_standstill = 0.0  # seconds


def working_time() -> float:
    """Seconds since some moment, without those in which the clock stood still."""
    return time.monotonic() - _standstill


def stand_still(seconds: float) -> None:
    """The last seconds were not work."""
    global _standstill
    _standstill += max(seconds, 0.0)
