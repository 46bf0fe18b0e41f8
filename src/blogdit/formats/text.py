"""Files as numbered lines: plain, gzip or xz, with one clear error for everything that cannot be read as text."""

from __future__ import annotations

import gzip
import io
import lzma
import re
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, TypeVar

from blogdit.core.errors import InputError
from blogdit.core.files import replacing

LONGEST_LINE = 1 << 28  # characters; a damaged archive could unpack to one endless line
GZIP_MAGIC, XZ_MAGIC = b"\x1f\x8b", b"\xfd7zXZ\x00"
COMPRESSION_SUFFIXES = (".gz", ".xz")
STANDARD = Path("-")  # standard input, or standard output
_NOT_UTF8 = re.compile("[\udc80-\udcff]")  # what the error handler "surrogateescape" makes of such bytes

T = TypeVar("T")
OnError = Callable[[InputError], None]


class Lines:
    """The lines of a file one by one, with a look at the next ones and errors that name the place.

    An error about one line leaves the ones behind it readable: `next` goes on with the following line.
    """

    def __init__(self, path: Path, handle: IO[str]):
        self.path, self.number = path, 0
        self._handle, self._ahead, self._ended = handle, list[str](), False

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        """The next line, without its end; `number` is that of the line handed out last."""
        line = self._ahead.pop(0) if self._ahead else self._read()
        if line is None:
            raise StopIteration
        self.number += 1
        self._require_text(line)
        return line

    def peek(self, count: int) -> list[str]:
        """The next lines, at most `count`, without consuming them."""
        while len(self._ahead) < count and (line := self._read()) is not None:
            self._ahead.append(line)
        return self._ahead[:count]

    def take(self, count: int) -> list[str]:
        """The next lines, at most `count`."""
        block = self.peek(count)
        del self._ahead[:count]
        for line in block:
            self.number += 1
            self._require_text(line)
        return block

    def parse_each(self, parse: Callable[[str], T | None], on_error: OnError | None = None) -> Iterator[T]:
        """What `parse` makes of each remaining line, where that is not None. Errors go to `on_error`, if there is one,
        and the lines behind them are parsed all the same."""
        while True:
            try:
                line = next(self, None)
                if line is None:
                    return
                found = parse(line)
            except InputError as error:
                if on_error is None:
                    raise
                on_error(error)
                continue
            if found is not None:
                yield found

    def error(self, message: str, line: int | None = None) -> InputError:
        return InputError(message, self.path, line or self.number or None)

    def _read(self) -> str | None:
        if self._ended:
            return None
        try:
            line = self._handle.readline(LONGEST_LINE)
        except (EOFError, gzip.BadGzipFile, lzma.LZMAError, zlib.error):
            raise self._unreadable("the compressed file is truncated or damaged") from None
        except OSError as error:
            self._ended = True
            raise InputError(f"cannot be read: {error.strerror or error}", self.path) from None
        if len(line) >= LONGEST_LINE:
            raise self._unreadable(f"a line of more than {LONGEST_LINE} characters")
        return line.rstrip("\n") if line else None

    def _unreadable(self, message: str) -> InputError:
        """For what ends the file: there is no next line to go on with."""
        self._ended = True
        return self.error(message, self.number + len(self._ahead) + 1)

    def _require_text(self, line: str) -> None:
        if "\0" in line:
            raise self.error("a binary file; expected text")
        if not line.isascii() and _NOT_UTF8.search(line):
            raise self.error("not text (UTF-8); expected a text file")


@contextmanager
def open_lines(path: str | Path) -> Iterator[Lines]:
    """The lines of a file, or of standard input if the path is `-`."""
    path = Path(path)
    if path.is_dir():
        raise InputError("is a directory; expected a file", path)
    try:
        if path == STANDARD:
            path, raw = Path("<stdin>"), open(sys.stdin.fileno(), "rb", closefd=False)  # noqa: SIM115 (closed below)
        else:
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
        # With or without a byte order mark; a line that is not UTF-8 is an error of its own, not of the whole file.
        with io.TextIOWrapper(binary, encoding="utf-8-sig", errors="surrogateescape") as handle:
            yield Lines(path, handle)


@contextmanager
def create_text(path: str | Path) -> Iterator[IO[str]]:
    """A new text file, compressed if its suffix says so; the same text gives the same bytes. `-` is standard output."""
    path = Path(path)
    if path == STANDARD:
        yield sys.stdout
        return
    try:
        with replacing(path) as raw:
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
    if path == STANDARD:
        return "stdin"
    return Path(path.stem).stem if path.suffix in COMPRESSION_SUFFIXES else path.stem
