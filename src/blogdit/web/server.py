"""`blogdit serve`: the server with what it shows, where it listens, and whom it lets in."""

from __future__ import annotations

import asyncio
import ipaddress
import secrets
import socket
import sys
import webbrowser
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from blogdit.core.errors import InputError
from blogdit.network.runtime import resolve_device, set_threads
from blogdit.problems.generation import cores
from blogdit.web.app import LOOPBACK, Access, Service
from blogdit.web.channel import Channel, kind_of
from blogdit.web.limits import Limits
from blogdit.web.models import Models
from blogdit.web.traces import read_trace
from blogdit.web.training_run import TrainingRun, require_run


@dataclass(frozen=True)
class Settings:
    """What the command line asks for."""

    path: Path | None = None
    host: str = "127.0.0.1"
    port: int = 8017
    token: str | None = None
    cors: tuple[str, ...] = ()
    jobs: int = 2
    queue: int = 16
    seconds: float = 30.0
    variables: int = 5000
    device: str = "auto"
    browser: bool = False


def run_server(settings: Settings) -> None:
    """Until Ctrl-C. The address of the page goes to stdout."""
    service, token = make_service(settings)
    if resolve_device(settings.device).type == "cpu":
        set_threads(max(cores() // settings.jobs, 1))
    with _listen(settings.host, settings.port) as listener:
        port = listener.getsockname()[1]
        name = f"[{settings.host}]" if ":" in settings.host else settings.host
        name = {"0.0.0.0": socket.gethostname(), "::": socket.gethostname()}.get(settings.host, name)
        page = f"http://{name}:{port}/" + (f"#token={token}" if token else "")
        print(page, flush=True)
        print("blogdit: Ctrl-C ends the server", file=sys.stderr)
        if settings.browser:
            webbrowser.open(page)
        uvicorn_server(service).run(sockets=[listener])


def uvicorn_server(service: Service) -> Any:
    """A `uvicorn.Server` that sends its followers home before it ends."""
    import uvicorn

    class Server(uvicorn.Server):
        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            service.close()
            await super().shutdown(sockets)

    return Server(uvicorn.Config(service.app(), log_level="warning", access_log=False, timeout_graceful_shutdown=5))


def make_service(settings: Settings) -> tuple[Service, str | None]:
    """The service, and the token that its clients need."""
    local = _is_loopback(settings.host)
    token = settings.token if settings.token or local else secrets.token_urlsafe(24)
    limits = Limits(jobs=settings.jobs, queue=settings.queue, seconds=settings.seconds, variables=settings.variables)
    access = Access(LOOPBACK if local else (), token or None, settings.cors)
    models = Models(_run_models(settings.path))
    return Service(limits, access, settings.device, openers(settings.path), models), access.token


def _run_models(path: Path | None) -> dict[str, Path]:
    """The weights of a training run under the name of its folder."""
    if path is None or not path.is_dir():
        return {}
    return {f"{path.resolve().name}/{kind}": path / f"{kind}.safetensors" for kind in ("best", "last")}


def openers(path: Path | None) -> dict[str, Callable[[], Channel]]:
    """What the page finds open: a training run or a trace. What cannot be shown is found out here."""
    if path is None:
        return {}
    if path.is_dir():
        require_run(path)
        return {"run": lambda: TrainingRun(path, asyncio.get_running_loop())}
    records = read_trace(path)

    def channel() -> Channel:
        played = Channel(asyncio.get_running_loop())
        for record in records:
            played.tell(kind_of(record), record)
        played.close()
        return played

    return {"trace": channel}


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _listen(host: str, port: int) -> socket.socket:
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        raise InputError(f"cannot listen at {host}:{port}: {error.strerror or error}") from None
