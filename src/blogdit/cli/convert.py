"""`blogdit convert`"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from blogdit import formats
from blogdit.cli.options import Allow, Colors, Problem, parse_limits
from blogdit.core.errors import InputError
from blogdit.formats.files import find_files, read_all, write_files
from blogdit.formats.text import STANDARD, plain_suffix


def convert(
    source: Annotated[Path, typer.Argument(metavar="A", help="File with instances, a folder of them, or - for stdin.")],
    out: Annotated[Path, typer.Argument(metavar="B", help="A new file, a folder, or - for stdout.")],
    problem: Problem = None,
    colors: Colors = None,
    of: Annotated[str | None, typer.Option(help="A format of A that CPMpy reads: xcsp3, fzn, jsplib, ...")] = None,
    to: Annotated[str | None, typer.Option(help=f"The format, if no suffix tells: {', '.join(formats.FORMS)}.")] = None,
    allow: Allow = [],  # noqa: B006 (typer copies it)
) -> None:
    """Write the instances of A to B in another format, if that can say the same.

    The suffix of B tells the format, or --to does. Without either it is the one that people use for the problem. A
    folder gets one file for each instance. Nothing is overwritten. With CPMpy installed A may be XCSP3 (.xml, with
    pycsp3) and what --of names.

    \b
    Examples:
      blogdit convert graph.col graph.json --colors 5
      blogdit convert cut.gset cut.qubo
      blogdit convert formula.cnf formula.opb
      blogdit convert - - --problem mis --to col < graph.edges
      blogdit convert puzzles.txt puzzles/
    """
    if to is not None and to not in formats.FORMS:
        raise InputError(f"unknown format {to!r}; expected one of {', '.join(formats.FORMS)}")
    if of is not None or plain_suffix(source) == ".xml":
        from blogdit.integrations.cpmpy_files import read

        instances = [read(source, of)]
    else:
        instances = list(read_all(find_files([source]), problem, colors, limits=parse_limits(allow)))
    suffix, usual = plain_suffix(out), {formats.native_suffix(one.problem) for one in instances}
    if to is None and suffix not in formats.WRITERS and suffix not in usual and suffix and not out.is_dir():
        raise InputError(f"no format is written as {suffix}; expected --to, or {', '.join(formats.WRITERS)}", out)
    if out == STANDARD and to == "npz":
        raise InputError("a sparse matrix is no text; expected a file instead of standard output")
    names = [one.name.replace("/", "-").replace(":", "-") for one in instances]
    write_files(instances, names, out, to)
