"""QUBO and Ising models as coordinate files.

Two forms are recognised: that of qbsolv, with a line `p qubo 0 VARIABLES LINEAR COUPLINGS`, and that of dimod, with a
first line `# vartype=BINARY` or `# vartype=SPIN`. In both, `i i w` is a linear term and `i j w` a coupling. Terms that
occur twice add up.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import IO

import numpy as np

from blogdit.core.arrays import FloatArray
from blogdit.core.errors import InputError
from blogdit.core.instance import Instance
from blogdit.formats.graph_text import Edges, number_text, refuse_absurd
from blogdit.formats.text import Lines, hinted_offset
from blogdit.problems import qubo
from blogdit.problems.qubo import Quadratic

VARTYPE = re.compile(r"#.*vartype\s*[:=]\s*(\w+)", re.IGNORECASE)
MAKE = {"BINARY": qubo.from_bits, "SPIN": qubo.from_spins}


def looks_like_qubo(start: list[str]) -> bool:
    """A header of one of the two forms, before anything that is no comment."""
    for line in start:
        fields = line.split()
        if VARTYPE.match(line.strip()) or fields[:2] == ["p", "qubo"]:
            return True
        if fields and fields[0][0] not in "c#":
            return False
    return False


def read_qubo(lines: Lines, name: str) -> Instance:
    """Either form; without a header the terms are of bits."""
    try:
        return qubo.build(_read(lines), name)
    except InputError:
        raise
    except ValueError as error:  # weights that add up to infinity
        raise InputError(str(error), lines.path) from None


def _read(lines: Lines) -> Quadratic:
    vartype, offset, header = "BINARY", 0.0, None
    while start := lines.peek(1):
        line = start[0].strip()
        if line and line[0] not in "cp#":
            break
        next(lines)
        if (said := hinted_offset(line, lines)) is not None:
            offset = said
        elif found := VARTYPE.match(line):
            vartype = found[1].upper()
            if vartype not in MAKE:
                raise lines.error(f"expected vartype=BINARY or vartype=SPIN, got {found[1]!r}")
        elif line.startswith("p"):
            if header is not None:
                raise lines.error("a second 'p' line; expected one")
            header = _header(line, lines)
    rows = Edges(lines)
    rows.add_rows(3, "'VARIABLE VARIABLE WEIGHT'", comments="#c")
    weights, pairs = np.array(rows.weights), rows.pairs()
    rows.require(np.isfinite(weights), "the weight of {edge} is not a finite number")
    rows.require((pairs >= 0).all(axis=1), "expected variables from 0, got {edge}")
    alone = pairs[:, 0] == pairs[:, 1]
    if header is not None:
        size, diagonal, couplings = header
        refuse_absurd(size, len(rows), lines.path)
        rows.require((pairs < size).all(axis=1), f"expected variables 0..{size - 1}, got {{edge}}")
        if (found_terms := (int(alone.sum()), int((~alone).sum()))) != (diagonal, couplings):
            expected = f"{diagonal} linear terms and {couplings} couplings as in the 'p' line"
            raise lines.error(f"expected {expected}, got {found_terms[0]} and {found_terms[1]}")
        names, places = np.arange(size), pairs
    else:
        names, index = np.unique(pairs, return_inverse=True)
        places = index.reshape(-1, 2)
    if not len(names):
        raise lines.error("no variable in the file; expected 'VARIABLE VARIABLE WEIGHT'")
    linear = np.bincount(places[alone, 0], weights[alone], len(names)).astype(np.float64)
    numbered = bool((names == np.arange(len(names))).all())
    labels = None if numbered else names.tolist()
    return MAKE[vartype](linear, places[~alone], weights[~alone], offset, labels)


def _header(line: str, lines: Lines) -> tuple[int, int, int]:
    """Variables, linear terms and couplings."""
    fields = line.split()
    if len(fields) != 6 or fields[1] != "qubo" or not all(f.isdecimal() and len(f) < 19 for f in fields[2:]):
        raise lines.error(f"expected 'p qubo 0 VARIABLES LINEAR COUPLINGS', got {line[:60]!r}")
    size, linear, couplings = (int(field) for field in fields[3:])
    lines.limits.require("vertices", size, lines.path, lines.number)
    return size, linear, couplings


def write_qubo(form: Quadratic, handle: IO[str]) -> None:
    """The form of qbsolv: variables 0 .. n - 1, all of their linear terms, then the couplings."""
    linear, couplings, offset = form.bits()
    if offset:
        handle.write(f"c blogdit offset={number_text(offset)}\n")
    handle.write(f"p qubo 0 {form.size} {form.size} {len(form.pairs)}\n")
    _write_terms(form, linear, couplings, range(form.size), handle)


def write_ising(form: Quadratic, handle: IO[str]) -> None:
    """The form of dimod, with spins; variables by their labels where these are whole numbers from 0."""
    linear, couplings, offset = form.spins()
    handle.write("# vartype=SPIN\n")
    if offset:
        handle.write(f"# blogdit offset={number_text(offset)}\n")
    labels = form.labels
    whole = labels is not None and all(type(label) is int and label >= 0 for label in labels)
    _write_terms(form, linear, couplings, labels if labels is not None and whole else range(form.size), handle)


def _write_terms(
    form: Quadratic, linear: FloatArray, couplings: FloatArray, names: Sequence[int], handle: IO[str]
) -> None:
    alone = [(place, place) for place in range(form.size)]
    for (i, j), weight in zip(alone + form.pairs.tolist(), [*linear.tolist(), *couplings.tolist()], strict=True):
        handle.write(f"{names[i]} {names[j]} {number_text(weight)}\n")
