"""Files that CPMpy reads, as instances: XCSP3, FlatZinc, job shops (JSPLIB), rosters, ...; and models of pycsp3."""

from __future__ import annotations

import contextlib
import gzip
import io
import lzma
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cpmpy.tools import io as cpmpy_io

from blogdit import formats
from blogdit.core.errors import InputError
from blogdit.core.instance import Instance
from blogdit.formats.text import plain_stem, plain_suffix
from blogdit.integrations.cpmpy import instance_of

OPENERS: dict[str, Any] = {".gz": gzip.open, ".xz": lzma.open, ".lzma": lzma.open}
# CPMpy's readers of these know no coefficients but 1, and drop the fractions of an objective.
OWN = ("mps", "lp")


def read(path: str | Path, form: str | None = None) -> Instance:
    """The instance of a file. `form` names one of CPMpy's formats (`cpmpy.tools.io.load_formats()`), if no suffix tells
    it: .xml is XCSP3. CPMpy needs more packages for some: pycsp3 for XCSP3, pyscipopt for FlatZinc."""
    path = Path(path)
    if not path.is_file():
        raise InputError("no such file", path)
    if form is not None and form not in cpmpy_io.load_formats():
        raise InputError(f"unknown format {form!r}; expected one of {', '.join(cpmpy_io.load_formats())}")
    unpacked = path.with_name(path.name.removesuffix(".lzma"))
    if form is None and plain_suffix(unpacked) == ".xml":
        form = "xcsp3"
    if form in OWN or plain_suffix(path).removeprefix(".") in OWN:
        return formats.read(path)[0]
    opener = OPENERS.get(path.suffix, open)
    with _one_line(path):
        model = cpmpy_io.load(path, format=form, open=lambda name, mode="rt", **options: opener(name, "rt", **options))
    try:
        return instance_of(model, plain_stem(unpacked))
    except InputError as error:
        raise InputError(str(error), path) from None


def from_pycsp3(name: str = "pycsp3") -> Instance:
    """The instance of what this process has said with pycsp3, which has one model at a time."""
    from pycsp3.compiler import Compilation

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{name}.xml"
        with _one_line(path):
            Compilation.compile(str(path), verbose=0)
        return read(path)


@contextlib.contextmanager
def _one_line(path: Path) -> Iterator[None]:
    """Each reader has its own ways to fail on a damaged file. pycsp3 prints what is wrong, and ends the program."""
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            yield
    except ModuleNotFoundError:
        raise
    except (Exception, SystemExit) as error:
        said = printed.getvalue() if isinstance(error, SystemExit) else str(error)
        reason = " ".join(said.split())[:200] or type(error).__name__
        raise InputError(f"CPMpy cannot read it: {reason}", path) from None
