"""Files that CPMpy reads, as instances: XCSP3, MPS and LP, FlatZinc, job shops (JSPLIB), rosters, ..."""

from __future__ import annotations

import gzip
import lzma
from dataclasses import replace
from pathlib import Path
from typing import Any

from cpmpy.exceptions import NotSupportedError
from cpmpy.tools import io

from blogdit.core.errors import InputError
from blogdit.core.instance import Instance
from blogdit.formats.text import plain_stem
from blogdit.integrations.cpmpy import CPM_blogdit

OPENERS: dict[str, Any] = {".gz": gzip.open, ".xz": lzma.open, ".lzma": lzma.open}


def read(path: str | Path, form: str | None = None) -> Instance:
    """The instance of a file. `form` names one of CPMpy's formats (`cpmpy.tools.io.load_formats()`), if no suffix tells
    it. CPMpy needs more packages for some: pycsp3 for XCSP3, pyscipopt for MPS, LP and FlatZinc."""
    path = Path(path)
    if not path.is_file():
        raise InputError("no such file", path)
    if form is not None and form not in io.load_formats():
        raise InputError(f"unknown format {form!r}; expected one of {', '.join(io.load_formats())}")
    opener = OPENERS.get(path.suffix, open)
    try:
        model = io.load(path, format=form, open=lambda name, mode="rt", **options: opener(name, "rt", **options))
        instance = CPM_blogdit(model).native_model
    except NotSupportedError as error:
        raise InputError(str(error), path) from None
    except Exception as error:  # each of CPMpy's readers has its own ways to fail on a damaged file
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise InputError(f"CPMpy cannot read it: {reason}", path) from None
    return replace(instance, name=plain_stem(path))
