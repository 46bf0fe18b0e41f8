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
from itertools import islice
from pathlib import Path
from typing import IO, Any, TypeVar

from blogdit.core.errors import InputError
from blogdit.core.files import replacing
from blogdit.formats.limits import Counted, Limits

LONGEST_LINE = 1 << 28  # characters; a damaged archive could unpack to one endless line
READ_AT_ONCE = 1 << 18  # bytes
GZIP_MAGIC, XZ_MAGIC = b"\x1f\x8b", b"\xfd7zXZ\x00"
COMPRESSION_SUFFIXES = (".gz", ".xz")
STANDARD = Path("-")  # standard input, or standard output
_OFFSET = re.compile(r"[c#*] blogdit\b.*\boffset=(\S+)")
_NOT_UTF8 = re.compile("[\udc80-\udcff]")  # what the error handler "surrogateescape" makes of such bytes

T = TypeVar("T")
OnError = Callable[[InputError], None]


@contextmanager
def naming(path: Path | str | None) -> Iterator[None]:
    """What is wrong with the contents of a file is said with its name."""
    try:
        yield
    except InputError:
        raise
    except (ValueError, OverflowError) as error:
        raise InputError(str(error), path) from None


class Lines:
    """The lines of a file one by one, with a look at the next ones and errors that name the place.

    An error about one line leaves the ones behind it readable: `next` goes on with the following line.
    """

    def __init__(self, path: Path, handle: IO[str], source: Counted):
        self.path, self.number, self.limits = path, 0, source.limits
        self._handle, self._source, self._ahead, self._ended = handle, source, list[str](), False

    def count_for(self, weight: int) -> None:
        """Each byte takes so many in memory: the whole text is taken apart before there is an instance."""
        self._source.weight = weight

    def begin_instance(self) -> None:
        """What is read from here on belongs to another instance, with limits of its own."""
        self._source.of_instance = 0

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        """The next line, without its end; `number` is that of the line handed out last."""
        self._read_ahead(1)
        if not self._ahead:
            raise StopIteration
        line = self._ahead.pop(0)
        self.number += 1
        self._require_text(line)
        return line

    def peek(self, count: int) -> list[str]:
        """The next lines, at most `count`, without consuming them."""
        self._read_ahead(count)
        return self._ahead[:count]

    def take(self, count: int) -> list[str]:
        """The next lines, at most `count`."""
        self._read_ahead(count)
        block = self._ahead[:count]
        del self._ahead[:count]
        if self._is_text("".join(block)):  # all at once is several times faster
            self.number += len(block)
            return block
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

    def _read_ahead(self, count: int) -> None:
        """Until so many lines are there, or no more can be read."""
        if self._ended or len(self._ahead) >= count:
            return
        read, before = list[str](), self._source.total
        try:
            read.extend(islice(self._handle, count - len(self._ahead)))
        except (EOFError, gzip.BadGzipFile, lzma.LZMAError, zlib.error):
            self._keep(read)
            raise self._unreadable("the compressed file is truncated or damaged") from None
        except OSError as error:
            self._ended = True
            raise InputError(f"cannot be read: {error.strerror or error}", self.path) from None
        except InputError:  # a limit
            self._ended = True
            raise
        self._keep(read)
        if self._source.total - before > LONGEST_LINE and len(max(read, key=len)) > LONGEST_LINE:
            raise self._unreadable(f"a line of more than {LONGEST_LINE} characters")

    def _keep(self, read: list[str]) -> None:
        """Without their ends: to cut the text of all is several times faster than to cut each."""
        text = "".join(read)
        self._ahead += text.removesuffix("\n").split("\n") if text else []

    def _unreadable(self, message: str) -> InputError:
        """For what ends the file: there is no next line to go on with."""
        self._ended = True
        return self.error(message, self.number + len(self._ahead) + 1)

    def _is_text(self, text: str) -> bool:
        return "\0" not in text and (text.isascii() or not _NOT_UTF8.search(text))

    def _require_text(self, line: str) -> None:
        if not self._is_text(line):
            binary = "\0" in line
            raise self.error("a binary file; expected text" if binary else "not text (UTF-8); expected a text file")


def hinted_offset(line: str, lines: Lines) -> float | None:
    """The constant of an objective, in a comment of our own writers: formats for solvers have no place for it."""
    found = _OFFSET.match(line)
    if found is None:
        return None
    try:
        return float(found[1])
    except ValueError:
        raise lines.error(f"expected a number as offset, got {found[1][:60]!r}") from None


@contextmanager
def open_lines(path: str | Path, limits: Limits | None = None) -> Iterator[Lines]:
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
        source = Counted(path, raw, binary, limits or Limits())
        buffered = io.BufferedReader(source, READ_AT_ONCE)
        with io.TextIOWrapper(buffered, encoding="utf-8-sig", errors="surrogateescape") as handle:
            yield Lines(path, handle, source)


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
