"""What a step did, for whoever looks at every one of them."""

from __future__ import annotations

import numpy as np
from torch import Tensor

from blogdit.core.result import Result
from blogdit.solver.answers import Answers
from blogdit.solver.events import Step
from blogdit.solver.sampler import Stepped
from blogdit.solver.slots import Slots


def steps_of(answers: Answers, slots: Slots, before: Tensor, stepped: Stepped) -> list[Step]:
    """The step of each instance that has no answer yet, from the values `before` on, in its first chain."""
    batch, rate, total, better = slots.batch, stepped.rate, stepped.energy, stepped.better.tolist()
    chances = batch.allowed(slots.logits).softmax(-1).amax(-1)
    sure = batch.per_instance(chances)[0].cpu().numpy()
    shown = (stepped.block, before != stepped.values, stepped.values)
    inside, changed, now = (batch.per_instance(t)[0].cpu().numpy() for t in shown)
    return [
        Step(
            index=slot.index,
            instance=slot.instance,
            step=slot.steps,
            rate=float(rate[0, place]),
            block=np.flatnonzero(inside[place, : slot.instance.size]),
            changed=np.flatnonzero(changed[place, : slot.instance.size]),
            values=now[place, : slot.instance.size],
            violations=slot.instance.verify(now[place, : slot.instance.size]).violated,
            energy=float(total[0, place]),
            confidence=float(sure[place, : slot.instance.size].mean()) if slot.instance.size else 1.0,
            result=_news(answers, slots, place) if better[place] else None,
        )
        for place, slot in enumerate(slots.members)
        if not slot.answered
    ]


def _news(answers: Answers, slots: Slots, place: int) -> Result | None:
    """The best answer of the chains, unless it is the one of the last time: a lower energy need not be valid."""
    slot, found = slots.members[place], answers.of_sampler(slots, place)
    if slot.told is not None and (slot.told == found.values).all():
        return None
    slot.told = found.values
    return found
