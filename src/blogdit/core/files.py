"""Files that are there as a whole or not at all, and that one process at a time may write."""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, BinaryIO

from blogdit.core.errors import InputError


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Write a file: whoever reads `path`, at any moment, finds the old file or the whole new one. After an error
    nothing has changed. What is no plain file (a device, a pipe) is written as it is."""
    if path.exists() and not path.is_file():
        with open(path, "wb") as file:
            yield file
        return
    # Nobody can guess the name, and a file or a link that bears it all the same is not followed ("x").
    partial = path.with_name(f".{path.name[:100]}.{secrets.token_hex(8)}.partial")
    try:
        with open(partial, "xb") as file:
            yield file
        with open(partial, "rb+") as written:
            os.fsync(written.fileno())
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def claim(file: IO[bytes], path: Path) -> None:
    """Two runs that write one file would do everything twice. The claim ends with the file, or with the process."""
    if sys.platform == "win32":  # has no such locks
        return
    import fcntl

    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise InputError("another run is writing here; expected another --out, or to wait for it", path) from None
    except OSError:
        pass  # a file system without locks
