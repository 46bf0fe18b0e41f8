"""How much one file may ask for: a small or damaged file must not take all memory or all day."""

from __future__ import annotations

import io
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from blogdit.core.errors import InputError

UNPACKED_FREELY = 1 << 26  # bytes: whatever unpacks to no more is not looked at
WORDS = {
    "bytes": "takes more than {:,} bytes to read",
    "vertices": "has more than {:,} vertices or variables",
    "edges": "has more than {:,} edges",
    "expansion": "unpacks to more than {:,} times its size",
}


@dataclass(frozen=True)
class Limits:
    """Of one instance; `--allow NAME=NUMBER` raises them."""

    bytes: int = 1 << 30  # of its text, unpacked; of what networkx makes of its text, where that reads it
    vertices: int = 50_000_000
    edges: int = 100_000_000
    expansion: int = 200  # how many times its own size a compressed file may be; text seldom comes to 20

    def require(self, name: str, number: int, path: str | Path | None, line: int | None = None) -> None:
        most = getattr(self, name)
        if number > most:
            found = f"{WORDS[name].format(most)}; expected less, or --allow {name}=N with a larger N"
            raise InputError(found, path, line)

    @classmethod
    def names(cls) -> tuple[str, ...]:
        return tuple(field.name for field in fields(cls))


class Counted(io.RawIOBase):
    """The bytes of a file, as `unpacked` gives them; counted on their way."""

    weight = 1  # bytes of memory for one of text

    def __init__(self, path: Path, packed: Any, unpacked: Any, limits: Limits):
        self.path, self.packed, self.unpacked, self.limits = path, packed, unpacked, limits
        self.total = self.of_instance = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        found = self.unpacked.readinto(buffer) or 0
        self.total += found
        self.of_instance += found
        self.limits.require("bytes", self.of_instance * self.weight, self.path)
        if self.unpacked is not self.packed and self.total > UNPACKED_FREELY:
            self.limits.require("expansion", -(-self.total // max(self.packed.tell(), 1)), self.path)
        return found

    def close(self) -> None:
        if not self.closed:
            self.unpacked.close()
        super().close()
