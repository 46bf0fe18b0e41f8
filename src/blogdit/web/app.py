"""The server: a page, and the API that the page uses and nothing else."""

from __future__ import annotations

import hmac
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from blogdit.core.errors import InputError

try:
    from starlette.applications import Starlette
except ModuleNotFoundError:
    raise InputError("the page needs a server; expected pip install 'blogdit[web]'") from None
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

import blogdit
from blogdit.web.channel import Channel
from blogdit.web.cpmpy_process import CpmpyProcess
from blogdit.web.jobs import Board
from blogdit.web.limits import Limits, Refused
from blogdit.web.models import Models
from blogdit.web.openapi import description
from blogdit.web.questions import parse

PAGE = Path(__file__).parent / "page"
TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}
OPEN_TO_ALL = ("/", "/health")  # and the files of the page: they say nothing about anybody's jobs
LOOPBACK = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True)
class Access:
    """Who may use the server: hosts by which it is called (none: any), a token, and pages of other origins."""

    hosts: tuple[str, ...] = LOOPBACK
    token: str | None = None
    origins: tuple[str, ...] = ()

    def check(self, headers: Headers, path: str) -> None:
        host = headers.get("host", "")
        name = host.rpartition("]")[0].lstrip("[") if host.startswith("[") else host.rpartition(":")[0] or host
        if self.hosts and name not in self.hosts:  # another site may give its name to this address
            raise Refused(421, f"called as {name[:60]!r}; expected {', '.join(self.hosts)}")
        origin = headers.get("origin")
        if origin is not None and origin not in self.origins and origin.partition("://")[2] != host:
            raise Refused(403, "a page of another origin; expected --cors with it")
        if self.token is None or path in OPEN_TO_ALL or path.startswith("/page/"):
            return
        given = headers.get("authorization", "").removeprefix("Bearer ")
        if not hmac.compare_digest(given.encode(), self.token.encode()):
            raise Refused(401, "expected the header Authorization: Bearer TOKEN")


class Guard:
    """Refuses who has no access, and puts the headers that protect the page on every answer."""

    def __init__(self, app: ASGIApp, access: Access):
        self.app, self.access = app, access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                added = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    added[name] = value
                if (origin := headers.get("origin")) in self.access.origins:
                    added["Access-Control-Allow-Origin"] = str(origin)
                    added["Access-Control-Allow-Headers"] = "Authorization, Content-Type"
                    added["Access-Control-Allow-Methods"] = "GET, POST, DELETE"
                    added["Vary"] = "Origin"
            await send(message)

        if scope["method"] == "OPTIONS" and headers.get("origin") in self.access.origins:
            await Response(status_code=204)(scope, receive, guarded)
            return
        try:
            self.access.check(headers, scope["path"])
        except Refused as refused:
            await _refusal(refused)(scope, receive, guarded)
            return
        await self.app(scope, receive, guarded)


def _refusal(refused: Refused) -> Response:
    headers = {"Retry-After": "2"} if refused.status == 503 else {}
    if refused.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return JSONResponse({"error": refused.message}, refused.status, headers)


@dataclass
class Service:
    """What the routes work with. `openers` make the channels of what `blogdit serve PATH` shows."""

    limits: Limits = field(default_factory=Limits)
    access: Access = field(default_factory=Access)
    device: str = "auto"
    openers: dict[str, Callable[[], Channel]] = field(default_factory=dict)
    models: Models = field(default_factory=Models)

    def __post_init__(self) -> None:
        self.board = Board(self.limits, self.models, self.device)
        self.cpmpy = CpmpyProcess(self.limits.translation)
        self.files = {path.name: path for path in PAGE.iterdir() if path.suffix in TYPES}

    @asynccontextmanager
    async def lifespan(self, app: Starlette) -> AsyncIterator[None]:
        self.board.open = {name: opener() for name, opener in self.openers.items()}
        yield
        self.close()

    def close(self) -> None:
        """End all jobs, and the answers to all who follow something: a server waits for them when it ends."""
        self.board.close()
        self.cpmpy.close()
        for channel in self.board.open.values():
            channel.close()

    def app(self) -> Starlette:
        routes = [
            Route("/", partial(self.page, "index.html")),
            Route("/page/{name}", self.page_file),
            Route("/health", self.health),
            Route("/models", self.list_models),
            Route("/openapi.json", self.describe),
            Route("/solve", self.solve, methods=["POST"]),
            Route("/events/{name}", self.events),
            Route("/events/{name}", self.stop, methods=["DELETE"]),
        ]
        app = Starlette(routes=routes, lifespan=self.lifespan, exception_handlers={Refused: self._refuse})
        app.add_middleware(Guard, access=self.access)
        return app

    async def _refuse(self, request: Request, error: Exception) -> Response:
        assert isinstance(error, Refused)
        return _refusal(error)

    async def page(self, name: str, request: Request) -> Response:
        path = self.files.get(name)
        if path is None:
            raise Refused(404, "no such file")
        # Read each time: whoever edits the page sees it at once.
        return Response(path.read_bytes(), media_type=TYPES[path.suffix], headers={"Cache-Control": "no-cache"})

    async def page_file(self, request: Request) -> Response:
        return await self.page(request.path_params["name"], request)

    async def health(self, request: Request) -> Response:
        board = self.board
        counts = {"unfinished": board.unfinished, "started": board.started}
        limits = {name: getattr(self.limits, name) for name in ("variables", "seconds", "steps", "chains", "body")}
        answer: dict[str, Any] = {"status": "ok", "version": blogdit.__version__, **counts, "limits": limits}
        return JSONResponse({**answer, "open": list(board.open), "token": self.access.token is not None})

    async def list_models(self, request: Request) -> Response:
        return JSONResponse(await run_in_threadpool(self.models.listing))

    async def describe(self, request: Request) -> Response:
        return JSONResponse(description(self.limits))

    async def solve(self, request: Request) -> Response:
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json":  # a form of another site cannot send this
            raise Refused(415, "expected Content-Type: application/json")
        self.board.require_room()
        body = await self._body(request)
        question = await run_in_threadpool(parse, body, self.limits, self.cpmpy.read)
        solver = await run_in_threadpool(self.board.prepare, question)
        job = self.board.start(question, solver)
        return JSONResponse({"id": job.id, "events": f"/events/{job.id}"}, 202)

    async def _body(self, request: Request) -> bytes:
        parts, size = [], 0
        async for part in request.stream():
            size += len(part)
            if size > self.limits.body:
                raise Refused(413, f"more than {self.limits.body:,} bytes")
            parts.append(part)
        return b"".join(parts)

    async def events(self, request: Request) -> Response:
        channel = self.board.channel(request.path_params["name"])
        last = request.headers.get("last-event-id", "")
        start = int(last) + 1 if last.isdecimal() and len(last) < 12 else 0
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        return StreamingResponse(channel.follow(start), media_type="text/event-stream", headers=headers)

    async def stop(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name not in self.board.jobs:
            raise Refused(404, "no such job; expected the id that POST /solve has given, not long ago")
        self.board.jobs[name].stop()
        return Response(status_code=204)
