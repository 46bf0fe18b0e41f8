"""What a step did, for whoever looks at every one of them."""

from __future__ import annotations

import numpy as np
from torch import Tensor

from blogdit.core.result import Result
from blogdit.solver.answers import Answers
from blogdit.solver.events import Step, violated_numbers
from blogdit.solver.sampler import Stepped
from blogdit.solver.slots import Slots


def steps_of(answers: Answers, slots: Slots, before: Tensor, stepped: Stepped) -> list[Step]:
    """The step of each instance that has no answer yet, from the values `before` on, in its first chain."""
    batch, rate, total, better = slots.batch, stepped.rate, stepped.energy, stepped.better.tolist()
    chances = batch.allowed(slots.logits).softmax(-1).amax(-1)
    sure = batch.per_instance(chances)[0].cpu().numpy()
    shown = (stepped.block, before != stepped.values, stepped.values)
    inside, changed, now = (batch.per_instance(t).cpu().numpy() for t in shown)  # (chains, B, N)
    steps = []
    for place, slot in enumerate(slots.members):
        if slot.answered:
            continue
        instance, size = slot.instance, slot.instance.size
        values = now[0, place, :size]
        steps.append(
            Step(
                index=slot.index,
                instance=instance,
                step=slot.steps,
                rate=float(rate[0, place]),
                block=np.flatnonzero(inside[0, place, :size]),
                changed=np.flatnonzero(changed[0, place, :size]),
                values=values,
                violated=violated_numbers(instance, values),
                energy=float(total[0, place]),
                sure=sure[place, :size],
                chains=tuple(instance.verify(chain) for chain in now[:, place, :size]),
                seconds=slot.budget.spent,
                result=_news(answers, slots, place) if better[place] else None,
            )
        )
    return steps


def _news(answers: Answers, slots: Slots, place: int) -> Result | None:
    """The best answer of the chains, unless it is the one of the last time: a lower energy need not be valid."""
    slot, found = slots.members[place], answers.of_sampler(slots, place)
    if slot.told is not None and (slot.told == found.values).all():
        return None
    slot.told = found.values
    return found
