"""The former name of `variants`."""

from blogdit.bench.variants import LowestStates, make

__all__ = ["LowestStates", "make"]
