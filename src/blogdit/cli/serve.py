"""`blogdit serve`"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from blogdit.cli.options import Device
from blogdit.core.errors import InputError


def serve(
    path: Annotated[Path | None, typer.Argument(help="A trace to play, or the folder of a training run.")] = None,
    host: Annotated[str, typer.Option(help="Where to listen; beyond this machine with a token.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any that is free.")] = 8017,
    token: Annotated[
        str | None, typer.Option(envvar="BLOGDIT_TOKEN", help="What clients send as Authorization: Bearer.")
    ] = None,
    cors: Annotated[list[str], typer.Option(help="Let pages of this origin call the API; may be repeated.")] = [],  # noqa: B006
    jobs: Annotated[int, typer.Option(min=1, help="Jobs at the same time.")] = 2,
    queue: Annotated[int, typer.Option(min=0, help="Jobs that may wait.")] = 16,
    seconds: Annotated[float, typer.Option(min=0.1, help="Most seconds of a job.")] = 30.0,
    variables: Annotated[int, typer.Option(min=1, help="Most variables of an instance.")] = 5000,
    device: Device = "auto",
    browser: Annotated[bool, typer.Option(help="Open the page in a browser.")] = True,
) -> None:
    """Open a page on which one sees the sampler think: every block, every value, every violated constraint.

    With a trace (blogdit solve X --trace t.jsonl) the page plays it; with the folder of a training run it shows how the
    training goes. The page's API is open to programs, too: GET /openapi.json describes it.

    \b
    Examples:
      blogdit serve
      blogdit serve t.jsonl
      blogdit serve runs/sudoku
      BLOGDIT_TOKEN=secret blogdit serve --host 0.0.0.0
    """
    from blogdit.web.server import Settings, run_server

    if path is not None and not path.exists():
        raise InputError("no such file", path)
    run_server(Settings(path, host, port, token, tuple(cors), jobs, queue, seconds, variables, device, browser))
