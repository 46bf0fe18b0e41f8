"""blogdit: a learned, reusable heuristic for constraint problems."""

__version__ = "0.1.0"
