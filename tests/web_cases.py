"""What the tests of the web room share: a server in this process, real servers on a free port, and their events."""

from __future__ import annotations

import json
import socket
import threading
import time
from contextlib import contextmanager

import httpx
from starlette.testclient import TestClient

from blogdit.web.app import Access, Service
from blogdit.web.limits import Limits
from blogdit.web.server import uvicorn_server

# 4x4 puzzles are quick; the bundled model serves every size.
PUZZLE = "1.3..4..2......1"
SMALL = {"text": PUZZLE, "options": {"steps": 20, "finish": "none"}}
# Runs for its whole budget, as nothing is good enough.
CUT = {
    "text": "p edge 8 9\n" + "".join(f"e {i} {i % 8 + 1}\n" for i in range(1, 9)) + "e 1 4\n",
    "name": "cut.col",
    "problem": "maxcut",
}


def long_job(seconds: float = 20.0, seed: int = 0) -> dict:
    return {**CUT, "options": {"time_limit": seconds, "finish": "none", "seed": seed}}


@contextmanager
def client(limits: Limits | None = None, access: Access | None = None, **settings):
    """A client of a server without a network."""
    service = Service(limits or Limits(seconds=20.0), access or Access(), "cpu", **settings)
    with TestClient(service.app(), base_url="http://127.0.0.1") as one:
        one.service = service
        yield one


def parsed(lines) -> list[tuple[str, dict]]:
    """(kind, data) of each event."""
    found, kind = [], ""
    for line in lines:
        if line.startswith("event: "):
            kind = line.removeprefix("event: ")
        elif line.startswith("data: "):
            found.append((kind, json.loads(line.removeprefix("data: "))))
    return found


def events_of(one: httpx.Client, path: str, **headers) -> list[tuple[str, dict]]:
    with one.stream("GET", path, headers=headers) as response:
        assert response.status_code == 200
        return parsed(response.iter_lines())


@contextmanager
def real_server(limits: Limits | None = None, access: Access | None = None, **settings):
    """(address, service) of a server in a thread of its own."""
    service = Service(limits or Limits(seconds=20.0), access or Access(), "cpu", **settings)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = uvicorn_server(service)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            while not server.started:
                time.sleep(0.01)
            yield f"http://127.0.0.1:{listener.getsockname()[1]}", service
        finally:
            server.should_exit = True
            thread.join(30)


def wait_until(holds, seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it did not come to pass"
        time.sleep(0.02)
