"""What a step did, for whoever looks at every one of them."""

from __future__ import annotations

import numpy as np
from torch import Tensor

from blogdit.core.result import Result
from blogdit.solver.ending import Ending
from blogdit.solver.options import Step
from blogdit.solver.sampler import Stepped


def steps_of(ending: Ending, before: Tensor, stepped: Stepped) -> list[Step]:
    """The step of each instance that has no answer yet, from the values `before` on, in its first chain."""
    crew = ending.crew
    batch, rate, total, better = crew.batch, stepped.rate, stepped.energy, stepped.better.tolist()
    chances = batch.allowed(crew.logits).softmax(-1).amax(-1)
    sure = batch.per_instance(chances)[0].cpu().numpy()
    shown = (stepped.block, before != stepped.values, stepped.values)
    inside, changed, now = (batch.per_instance(t)[0].cpu().numpy() for t in shown)
    return [
        Step(
            index=job.index,
            instance=job.instance,
            step=job.steps,
            rate=float(rate[0, place]),
            block=np.flatnonzero(inside[place, : job.instance.size]),
            changed=np.flatnonzero(changed[place, : job.instance.size]),
            values=now[place, : job.instance.size],
            violations=job.instance.verify(now[place, : job.instance.size]).violated,
            energy=float(total[0, place]),
            confidence=float(sure[place, : job.instance.size].mean()) if job.instance.size else 1.0,
            result=_news(ending, place) if better[place] else None,
        )
        for place, job in enumerate(crew.jobs)
        if not job.answered
    ]


def _news(ending: Ending, place: int) -> Result | None:
    """The best answer of the chains, unless it is the one of the last time: a lower energy need not be valid."""
    job, found = ending.crew.jobs[place], ending.of_chains(place)
    if job.told is not None and (job.told == found.values).all():
        return None
    job.told = found.values
    return found
