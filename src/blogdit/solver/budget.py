"""What an instance may spend, and on what.

Seconds are spent in turns. In every turn the sampler comes first and a finisher follows. Each turn is four times as
long as the one before: an easy instance does not wait for long, and a hard one spends most of its time in the last
turn.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

GROWTH = 4  # a finisher begins anew in every turn, so that many short turns would cost more than they gain
FIRST_TURN = 0.5  # seconds: long enough for some steps on a CPU, short enough that an easy instance is not kept waiting
LEAST_TURNS = 3  # of a short time limit, in which the first turn is shorter: 1/21 of it


@dataclass
class Budget:
    """The seconds of one instance. They are its own: see `Clock.own_seconds`."""

    limit: float = math.inf
    finish_share: float = 0.0  # of every turn, for the finisher
    sampled: float = 0.0  # seconds that the sampler has taken
    finished: float = 0.0  # seconds that finishers have taken
    turn: int = 0
    too_large: bool = False  # for the sampler: one step would take longer than all its seconds

    @property
    def spent(self) -> float:
        return self.sampled + self.finished

    @property
    def over(self) -> bool:
        return self.spent >= self.limit

    @property
    def samples(self) -> bool:
        """Whether the sampler has any seconds."""
        return not self.too_large and self.limit > 0 and self.finish_share < 1

    @property
    def turn_end(self) -> float:
        """The seconds after which this turn is over."""
        first = min(FIRST_TURN, self.limit / _turns_together(LEAST_TURNS))
        return min(first * _turns_together(self.turn + 1), self.limit)

    @property
    def is_first_turn(self) -> bool:
        """Of several, in which the sampler comes first."""
        return self.turn == 0 and self.samples and not self.is_last_turn

    @property
    def is_last_turn(self) -> bool:
        return self.turn_end >= self.limit

    @property
    def sampling_left(self) -> float:
        """Seconds that the sampler still has in this turn."""
        if self.too_large:
            return 0.0
        return (1 - self.finish_share) * self.turn_end - self.sampled

    @property
    def finishing_left(self) -> float:
        """Seconds that a finisher has in this turn, with what earlier ones did not use. A step that took too long does
        not take away the finisher's share."""
        return max(self.turn_end - self.spent, self.finish_share * self.turn_end - self.finished)

    @property
    def progress(self) -> float:
        """The share of the sampler's seconds that is used up, 0 to 1."""
        available = (1 - self.finish_share) * self.limit
        return 0.0 if math.isinf(available) else min(self.sampled / available, 1.0) if available > 0 else 1.0

    def is_due(self) -> bool:
        """Whether the finisher's turn has come. A turn that a slow step has used up altogether is skipped."""
        while self.spent >= self.turn_end and self.turn_end < self.limit:
            self.turn += 1
        return self.sampling_left <= 0

    def next_turn(self) -> None:
        self.turn += 1


def _turns_together(number: int) -> int:
    """How long so many turns are together, in units of the first: 1 + 4 + 16 + ..."""
    return sum(GROWTH**turn for turn in range(number))
