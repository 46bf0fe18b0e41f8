"""Arrays and numbers from outside: checked once, by name, and read-only from then on."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]


class WriteOnce:
    """An object whose attributes cannot be replaced once they are set."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self.__dict__:
            raise AttributeError(f"{type(self).__name__}.{name} cannot be changed; build a new one")
        super().__setattr__(name, value)


def integers(data: npt.ArrayLike, name: str, ndim: int, width: int | None = None) -> IntArray:
    """`data` as a read-only int64 array with the given number of dimensions, or a ValueError that names it.

    A copy, unless `data` is such an array already: instances that share an array keep sharing it.
    """
    try:
        array = np.asarray(data)
    except ValueError as error:
        raise ValueError(f"{name} must be a rectangular array of integers") from error
    if array.size == 0:
        array = np.zeros((0,) + (() if ndim == 1 else (width or 0,)), np.int64)
    if array.dtype.kind not in "iu":
        raise ValueError(f"{name} must hold integers, got {array.dtype}")
    if array.dtype.kind == "u" and array.size and array.max() > np.iinfo(np.int64).max:
        raise ValueError(f"{name} holds a number beyond 64 bits")
    if array.ndim != ndim or (width is not None and array.shape[-1] != width):
        wanted = "(m,)" if ndim == 1 else f"(m, {width if width is not None else 'width'})"
        raise ValueError(f"{name} must have shape {wanted}, got {array.shape}")
    if array.dtype == np.int64 and array.flags.owndata and not array.flags.writeable and type(array) is np.ndarray:
        return array
    array = array.astype(np.int64)
    array.setflags(write=False)
    return array


def reals(data: npt.ArrayLike, name: str, length: int) -> FloatArray:
    """`data` as a read-only float64 array of `length` finite numbers, or a ValueError that names it."""
    try:
        given = np.array(data)
        if given.dtype.kind in "USc":  # numpy would read a text as a number, and drop a part of a complex one
            raise TypeError(f"{given.dtype} is no kind of real numbers")
        array = given.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must hold numbers") from error
    if array.shape != (length,):
        raise ValueError(f"{name} must have shape ({length},), got {array.shape}")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite, got {array[~np.isfinite(array)][0]}")
    array.setflags(write=False)
    return array


def distinct(numbers: IntArray) -> IntArray:
    """Each number (n,) once, sorted. np.unique does the same with a table, which takes long for millions."""
    ordered = np.sort(numbers)
    return ordered[np.concatenate([[True], ordered[1:] != ordered[:-1]])] if len(ordered) else ordered


def check_range(array: IntArray, low: int, high: int | IntArray, name: str) -> None:
    """Every entry in [low, high), or a ValueError with the first that is not."""
    wrong = (array < low) | (array >= high)
    if wrong.any():
        limit = np.broadcast_to(np.asarray(high), array.shape)[wrong][0]
        raise ValueError(f"{name} must lie in {low}..{limit - 1}, got {array[wrong][0]}")


def whole_number(value: Any, name: str, low: int, high: int | None = None) -> int:
    """`value` as an integer in low .. high, or a ValueError that names it."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < low or (high and value > high):
        wanted = f"of at least {low}" if high is None else f"from {low} to {high}"
        raise ValueError(f"{name} must be a whole number {wanted}, got {value!r}")
    return int(value)


def whole_range(value: Any, name: str, low: int, high: int | None = None) -> tuple[int, int]:
    """A number, or a range as a pair or as text "50-100"; both ends belong to it."""
    if isinstance(value, str):
        ends = value.split("-")
        value = tuple(int(end) if end.strip().isdecimal() else end for end in ends)
    pair = tuple(value) if isinstance(value, tuple | list) else (value, value)
    if len(pair) != 2:
        raise ValueError(f"{name} must be a number or a range like 50-100, got {value!r}")
    first = whole_number(pair[0], name, low, high)
    return first, whole_number(pair[1], name, first, high)


def share_range(value: Any, name: str) -> tuple[float, float]:
    """A number from 0 to 1, or a range of them as a pair or as text "0.3-0.42"."""
    pair = value.split("-") if isinstance(value, str) else value if isinstance(value, tuple | list) else (value, value)
    try:
        if any(isinstance(end, bool) for end in pair):
            raise ValueError
        first, last = (float(end) for end in pair)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be a number from 0 to 1 or a range like 0.3-0.42, got {value!r}") from None
    if not 0 <= first <= last <= 1:
        raise ValueError(f"{name} must be a number from 0 to 1 or a range like 0.3-0.42, got {value!r}")
    return first, last
