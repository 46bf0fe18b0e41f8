"""The `blogdit` command: wiring only. Each command is a function in its own file under `blogdit/cli/`.

To add one, write `cli/NAME.py` with a function `NAME` and add its name to `COMMANDS`. Only the module of the command
that is called is imported. Modules that load torch are imported inside the function, so that `blogdit --help` and the
light commands stay fast. Results go to stdout, all else to stderr. Exit codes: 0 done, 2 bad input or usage (one line
on stderr), 3 an instance without a valid answer, 70 an error of blogdit itself (one line; --debug shows where), 130 and
143 stopped by Ctrl-C and by SIGTERM.
"""

from __future__ import annotations

import gc
import os
import sys
import traceback
from contextlib import suppress
from importlib import import_module
from typing import Annotated, NoReturn

import typer

import blogdit
from blogdit.cli.interrupts import Interrupts
from blogdit.cli.printing import say, tell, warn
from blogdit.core.errors import InputError

DEBUG = "--debug"
EX_SOFTWARE = 70  # as sysexits.h calls it
MOST_SHOWN = 300  # characters of an unexpected error
COMMANDS = ("solve", "train", "generate", "convert", "verify", "bench", "serve", "export", "info")
# New objects between two searches for unreachable ones; Python's own number is 700. While torch is imported nearly all
# objects stay, and the searches take longer than our own modules do.
NEW_OBJECTS = 50_000


def app_for(arguments: list[str]) -> typer.Typer:
    """An app with the command of a command line; with all of them where it names none."""
    app = typer.Typer(name="blogdit", pretty_exceptions_enable=False, rich_markup_mode=None)
    app.callback()(_group)
    named = next((one for one in arguments if not one.startswith("-")), None)
    for name in (named,) if named in COMMANDS else COMMANDS:
        app.command(name)(getattr(import_module(f"blogdit.cli.{name}"), name))
    return app


def _show_version(asked: bool) -> None:
    if asked:
        say(f"blogdit {blogdit.__version__}")
        raise typer.Exit


def _group(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
    debug: Annotated[bool, typer.Option(DEBUG, help="Show where an unexpected error comes from.")] = False,
) -> None:
    """A learned, reusable heuristic for constraint problems."""


def run(arguments: list[str] | None = None) -> int:
    """Run a command line and return its exit code."""
    given = sys.argv[1:] if arguments is None else arguments
    debug = DEBUG in given  # before the command or behind it
    try:
        # Non-standalone: usage errors come here as exceptions instead of as several printed lines.
        code = app_for(given)(args=[one for one in given if one != DEBUG], prog_name="blogdit", standalone_mode=False)
        sys.stdout.flush()
    except InputError as error:
        return _fail(str(error))
    except BrokenPipeError:  # the reader of our output has gone, as in `blogdit ... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        if isinstance(error, MemoryError) or "allocate memory" in str(error) or "out of memory" in str(error):
            return _fail("not enough memory; expected less at a time (--chains, --batch-size) or smaller instances")
        describe = getattr(error, "format_message", None)  # what typer's usage errors have in common
        if describe is not None:
            return _fail(f"{describe().rstrip('. ')}. See blogdit --help")
        if debug:
            for line in traceback.format_exc().splitlines():
                tell(line)
        shown = f"{type(error).__name__}: {error}"[:MOST_SHOWN]
        return _fail(f"an error of blogdit itself, {shown}; {DEBUG} shows where", EX_SOFTWARE)
    return code if isinstance(code, int) else 0


def main() -> None:
    gc.set_threshold(NEW_OBJECTS, *gc.get_threshold()[1:])
    with Interrupts() as interrupts:  # a command without its own is stopped by SIGTERM as by Ctrl-C
        interrupts.on_signal = _stop
        code = run()
    sys.exit(interrupts.exit_code or code)


def _stop() -> NoReturn:
    raise KeyboardInterrupt


def _fail(message: str, code: int = 2) -> int:
    with suppress(OSError):  # nobody may be there to read it
        warn(message)
    return code
