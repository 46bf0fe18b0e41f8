"""Files as numbered lines: plain, gzip or xz, with one clear error for everything that cannot be read as text."""

from __future__ import annotations

import gzip
import io
import lzma
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from blogdit.errors import InputError

LONGEST_LINE = 1 << 28  # characters; a damaged archive could unpack to one endless line
GZIP_MAGIC, XZ_MAGIC = b"\x1f\x8b", b"\xfd7zXZ\x00"
COMPRESSION_SUFFIXES = (".gz", ".xz")


class Lines:
    """The lines of a file one by one, with a look at the next ones and errors that name the place."""

    def __init__(self, path: Path, handle: IO[str]):
        self.path, self.number = path, 0
        self._handle, self._ahead = handle, list[str]()

    def __iter__(self) -> Iterator[str]:
        """The remaining lines, without their ends; `number` is that of the line handed out last."""
        while True:
            line = self._ahead.pop(0) if self._ahead else self._read()
            if line is None:
                return
            self.number += 1
            yield line

    def peek(self, count: int) -> list[str]:
        """The next lines, at most `count`, without consuming them."""
        while len(self._ahead) < count and (line := self._read()) is not None:
            self._ahead.append(line)
        return self._ahead[:count]

    def take(self, count: int) -> list[str]:
        """The next lines, at most `count`."""
        block = self.peek(count)
        del self._ahead[:count]
        self.number += len(block)
        return block

    def error(self, message: str, line: int | None = None) -> InputError:
        return InputError(message, self.path, line or self.number or None)

    def _read(self) -> str | None:
        try:
            line = self._handle.readline(LONGEST_LINE)
        except UnicodeDecodeError:
            raise self._ahead_error("not text (UTF-8); expected a text file") from None
        except (EOFError, gzip.BadGzipFile, lzma.LZMAError, zlib.error):
            raise self._ahead_error("the compressed file is truncated or damaged") from None
        except OSError as error:
            raise InputError(f"cannot be read: {error.strerror or error}", self.path) from None
        if "\0" in line:
            raise self._ahead_error("a binary file; expected text")
        if len(line) >= LONGEST_LINE:
            raise self._ahead_error(f"a line of more than {LONGEST_LINE} characters")
        return line.rstrip("\n") if line else None

    def _ahead_error(self, message: str) -> InputError:
        return self.error(message, self.number + len(self._ahead) + 1)


@contextmanager
def open_lines(path: str | Path) -> Iterator[Lines]:
    path = Path(path)
    if path.is_dir():
        raise InputError("is a directory; expected a file", path)
    try:
        raw = path.open("rb")
        start = raw.peek(len(XZ_MAGIC))  # not read and seek: the path may be a pipe
    except FileNotFoundError:
        raise InputError("no such file", path) from None
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", path) from None
    with raw:
        binary: Any = raw
        if start.startswith(GZIP_MAGIC):
            binary = gzip.GzipFile(fileobj=raw)
        elif start.startswith(XZ_MAGIC):
            binary = lzma.LZMAFile(raw)  # noqa: SIM115 (closed with the wrapper)
        with io.TextIOWrapper(binary, encoding="utf-8-sig") as handle:  # with or without a byte order mark
            yield Lines(path, handle)


@contextmanager
def create_text(path: str | Path) -> Iterator[IO[str]]:
    """A new text file, compressed if its suffix says so; the same text gives the same bytes."""
    path = Path(path)
    try:
        with path.open("wb") as raw:
            binary: Any = raw
            if path.suffix == ".gz":
                binary = gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0)
            elif path.suffix == ".xz":
                binary = lzma.LZMAFile(raw, "wb")  # noqa: SIM115 (closed with the wrapper)
            with io.TextIOWrapper(binary, encoding="utf-8", newline="\n") as handle:
                yield handle
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror or error}", path) from None


def plain_suffix(path: str | Path) -> str:
    """The suffix that tells the format: `.col` of both a.col and a.col.gz."""
    path = Path(path)
    return (path.with_suffix("") if path.suffix in COMPRESSION_SUFFIXES else path).suffix.lower()


def plain_stem(path: str | Path) -> str:
    path = Path(path)
    return Path(path.stem).stem if path.suffix in COMPRESSION_SUFFIXES else path.stem
