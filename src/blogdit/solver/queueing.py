"""Instances that wait for a slot."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator

from blogdit.core.instance import Instance
from blogdit.solver.slots import Shape, Slot

BATCHES_AHEAD = 4  # batches of one shape that may wait, so that a batch fills up although shapes alternate
# To divide a total time among instances one has to know how many there are: so many are read first, in at most a
# sixteenth of the total time.
COUNTED_AHEAD, COUNTING_SHARE = 1024, 1 / 16


class Queue:
    """Reads ahead from a source, by a bounded number of instances."""

    def __init__(self, source: Iterable[tuple[int, Instance]]):
        self.source: Iterator[tuple[int, Instance]] = iter(source)
        self.waiting: deque[Slot] = deque()
        self.counting = 0.0  # seconds that were spent on reading ahead

    def __len__(self) -> int:
        return len(self.waiting)

    def read(
        self,
        shape: Shape | None,
        capacity: Callable[[Shape], int],
        stopped: Callable[[], bool],
        total_time: float | None,
    ) -> None:
        """Fill up for a batch of `shape` (None: that of the first who waits). `total_time` is one that has to be
        divided."""
        while not stopped():
            began = time.monotonic()
            if self.waiting:
                wanted = BATCHES_AHEAD * capacity(shape or self.waiting[0].shape)
                counted = (
                    total_time is None
                    or len(self.waiting) >= COUNTED_AHEAD
                    or self.counting > COUNTING_SHARE * total_time
                )
                if len(self.waiting) >= wanted and counted:
                    return
            if (following := next(self.source, None)) is None:
                return
            self.waiting.append(Slot(*following))
            self.counting += time.monotonic() - began

    def take(self, shape: Shape, count: int) -> list[Slot]:
        """The first of this shape, at most so many. They are no longer waiting."""
        taken = [slot for slot in self.waiting if slot.shape == shape][:count]
        chosen = {slot.index for slot in taken}
        self.waiting = deque(slot for slot in self.waiting if slot.index not in chosen)
        return taken

    def put_back(self, slots: list[Slot]) -> None:
        """They go first."""
        self.waiting.extendleft(reversed(slots))

    def is_exhausted(self) -> bool:
        """Whether nobody waits and nobody will come."""
        if not self.waiting and (following := next(self.source, None)) is not None:
            self.waiting.append(Slot(*following))
        return not self.waiting
