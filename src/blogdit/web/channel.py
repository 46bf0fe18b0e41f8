"""Events that any number of clients follow, each from the first event on: nobody who comes late misses one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from typing import Any

KEEP_ALIVE = 15.0  # seconds without an event after which a comment is sent: a client that has gone is noticed
AT_ONCE = 1 << 18  # bytes that are sent together


class Channel:
    """Its events come from any thread; it is followed in the thread of the event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop):
        self.loop = loop
        self.events: list[bytes] = []  # as they are sent
        self.size = 0  # bytes of all events
        self.done = False
        self.followers: set[asyncio.Event] = set()
        self.on_left: Callable[[], None] = lambda: None  # called when the last follower has gone

    def tell(self, kind: str, data: Mapping[str, Any]) -> None:
        number, text = len(self.events), json.dumps(data, separators=(",", ":"), allow_nan=False)
        event = f"id: {number}\nevent: {kind}\ndata: {text}\n\n".encode()
        self.size += len(event)
        self.events.append(event)
        self._wake()

    def close(self) -> None:
        """There will be no more events."""
        self.done = True
        self._wake()

    def _wake(self) -> None:
        with suppress(RuntimeError):  # the server has ended, and nobody follows any more
            self.loop.call_soon_threadsafe(self._wake_followers)

    def _wake_followers(self) -> None:
        for follower in self.followers:
            follower.set()

    async def follow(self, start: int = 0) -> AsyncIterator[bytes]:
        """Events from number `start` on, several at a time where they wait."""
        news, number = asyncio.Event(), start
        self.followers.add(news)
        try:
            while True:
                news.clear()
                while number < len(self.events):
                    part, size = [], 0
                    while number < len(self.events) and size < AT_ONCE:
                        part.append(self.events[number])
                        size += len(part[-1])
                        number += 1
                    yield b"".join(part)
                if self.done and number >= len(self.events):
                    return
                try:
                    await asyncio.wait_for(news.wait(), KEEP_ALIVE)
                except TimeoutError:
                    yield b": still here\n\n"
        finally:
            self.followers.discard(news)
            if not self.followers:
                self.on_left()


def kind_of(record: Mapping[str, Any]) -> str:
    """The kind of a line of a trace: question, step or result."""
    return next((kind for kind in ("question", "result") if kind in record), "step")
