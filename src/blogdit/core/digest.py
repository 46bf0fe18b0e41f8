"""A short name for content: the same for arrays and objects that say the same, wherever they come from."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

import numpy as np

from blogdit.core.instance import Instance


def digest(*parts: Any) -> bytes:
    """Of arrays by their shape and entries, of objects by their attributes, of bytes as they are, else as shown."""
    found = blake2b(digest_size=16)
    for part in parts:
        _add(found, part)
    return found.digest()


def _add(found: blake2b, part: Any) -> None:
    if isinstance(part, np.ndarray):
        found.update(f"{part.shape} {part.dtype} ".encode() + part.tobytes())
    elif isinstance(part, bytes):
        found.update(part)
    elif isinstance(part, tuple):
        for one in part:
            _add(found, one)
    elif hasattr(part, "__dict__"):
        found.update(type(part).__name__.encode())
        for name, attribute in sorted(vars(part).items()):
            found.update(name.encode())
            _add(found, attribute)
    else:
        found.update(repr(part).encode())


def structure_digest(instance: Instance, *more: Any) -> bytes:
    """Of domains, constraints and objective, and of what is added."""
    return digest(instance.domains, instance.constraints, instance.objective, *more)
