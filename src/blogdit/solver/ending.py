"""After the last step: the local search that follows, and the answer, checked."""

from __future__ import annotations

import heapq
import math
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from blogdit.core.constraints import IntArray
from blogdit.core.instance import Instance
from blogdit.core.result import Result
from blogdit.finishers.backtracking import Backtracking
from blogdit.finishers.completion import SHORTEST, can_complete, complete, over, turns
from blogdit.finishers.filling import fill
from blogdit.finishers.improvement import improve
from blogdit.finishers.mending import mend
from blogdit.finishers.polish import can_polish, polish
from blogdit.finishers.population import search
from blogdit.finishers.repair import repair
from blogdit.finishers.terms import list_size
from blogdit.method.blocks import decode
from blogdit.network.runtime import runs_kernels
from blogdit.solver.options import SolveOptions
from blogdit.solver.slots import TOLERANCE, Crew, Job

SEARCH_SHARE = 0.5  # of a time limit, for the search after the last step
WALK_SHARE = 0.9  # of what the search has; the rest is for descent
# Terms of an instance that the search also begins from nothing, each counted twice, and its share of the time.
LARGEST_GREEDY, GREEDY_SHARE = 1 << 18, 0.1
# The steps of a tree search before a repair, where steps are counted. Otherwise tree searches have a part of its time,
# as before mending; each takes first steps, for each variable at least two, and may go on if by what is known then the
# rest takes no more than so many times its part. After so many in a row without hope no others of the batch begin one.
TREE_STEPS = 1 << 10
TREE_SHARE, FIRST_STEPS, HOPE, IN_A_ROW = 0.5, 1 << 8, 32, 16
FILL_SHARE = 0.5  # of the time of a repair, to fill variables anew
FILLED = 2048  # variables: where a repair is on a GPU, smaller instances are not filled, as they may be many


def sampling_share(job: Job, options: SolveOptions) -> float:
    """Of a time limit, what is left to the chains: the search at the end gets the rest."""
    return 1 - SEARCH_SHARE if options.polish and job.searches else 1.0


def goal_of(instance: Instance, options: SolveOptions) -> float:
    """The objective, in minimisation form, with which an instance may leave."""
    if instance.objective is None or (options.target is None and not options.first_feasible):
        return -math.inf
    if options.first_feasible:
        return sys.float_info.max
    assert options.target is not None
    return (1.0 if instance.objective.sense == "minimize" else -1.0) * options.target + TOLERANCE


@dataclass
class Ending:
    """Of a crew, some instances of which are to be answered by the deadline."""

    crew: Crew
    options: SolveOptions
    model: str
    deadline: float = math.inf
    stopped: Callable[[], bool] = lambda: False

    def searching(self, places: Sequence[int]) -> list[int]:
        """Those for which a search follows: it can, it was asked for, and there is something left to find."""
        if not self.options.polish:
            return []
        jobs, reached = self.crew.jobs, self.crew.reached.tolist()
        return [p for p in places if jobs[p].searches and not jobs[p].exhausted and not reached[p]]

    def search(self, places: Sequence[int], trees_alone: bool = False) -> dict[int, IntArray]:
        """What a search finds for instances, none if it is asked to stop or short of memory."""
        jobs, steps = self.crew.jobs, self.options.steps
        # It takes all the time only if it was time that ended the sampling.
        goes_on = self.deadline < math.inf and (steps is None or all(jobs[place].steps < steps for place in places))
        found = self._backtrack([place for place in places if jobs[place].backtracks], goes_on)
        places = [place for place in places if place not in found and (jobs[place].completes or not trees_alone)]
        kinds = (
            ([place for place in places if jobs[place].repairs], self._repair),
            ([place for place in places if jobs[place].completes], self._complete),
            ([place for place in places if jobs[place].improves], self._improve),
            ([place for place in places if jobs[place].walks], self._walk),
        )
        left = len(places)
        for chosen, method in kinds:
            now = time.monotonic()
            if not chosen or self.stopped() or now >= self.deadline:
                continue
            end = now + (self.deadline - now) * len(chosen) / left
            left -= len(chosen)
            index = torch.tensor(chosen, device=self.crew.logits.device)
            try:
                states = method([jobs[place].instance for place in chosen], index, end, goes_on)
            except torch.cuda.OutOfMemoryError:  # then descent alone has to do
                torch.cuda.empty_cache()
                continue
            rows = zip(chosen, states.cpu().numpy(), strict=True)
            found |= {place: row[: jobs[place].instance.size] for place, row in rows}
        return found

    def _backtrack(self, places: Sequence[int], goes_on: bool) -> dict[int, IntArray]:
        """What tree searches decide in a part of the time: first steps of all, then whoever is done soonest."""
        found, now = dict[int, IntArray](), time.monotonic()
        soon, in_a_row = now + TREE_SHARE * (self.deadline - now), 0
        hope = HOPE * (soon - now) / max(len(places), 1)
        waiting: list[tuple[float, int, Backtracking]] = []  # what comes first is done soonest
        for turn, is_over in turns(len(places), soon if goes_on else self.deadline, self.stopped):
            place, job = places[turn], self.crew.jobs[places[turn]]
            if job.tree is None and in_a_row >= IN_A_ROW:
                continue
            tree = job.tree = job.tree or Backtracking(job.instance)
            first = max(FIRST_STEPS, 2 * job.instance.size) if goes_on else TREE_STEPS
            values = self._grow(place, tree, first - tree.steps, is_over)
            if values is not None:
                found[place], in_a_row = values, 0
            elif goes_on and (left := tree.seconds_left()) <= hope:
                in_a_row = 0
                waiting.append((left, place, tree))
            elif goes_on and tree.steps >= first:
                in_a_row += 1
        heapq.heapify(waiting)
        while waiting and not over(soon, self.stopped):
            left, place, tree = heapq.heappop(waiting)
            end = time.monotonic() + max(2 * left, SHORTEST)
            values = self._grow(place, tree, sys.maxsize, partial(over, min(end, soon), self.stopped))
            if values is not None:
                found[place] = values
            else:
                heapq.heappush(waiting, (tree.seconds_left(), place, tree))
        return found

    def _grow(self, place: int, tree: Backtracking, steps: int, is_over: Callable[[], bool]) -> IntArray | None:
        """What so many more steps of a tree decide: a valid state or, where there is none, the one that comes closest;
        None if it is not done."""
        job, values = self.crew.jobs[place], tree.run(steps, is_over)
        job.exhausted = tree.exhausted
        return self.crew.best_values[place, : job.instance.size].cpu().numpy() if job.exhausted else values

    def _chains(self, index: Tensor) -> Tensor:
        """Where the chains of instances are, (chains, B, N)."""
        return self.crew.batch.per_instance(decode(self.crew.logits, self.crew.batch))[:, index]

    def _repair(self, instances: Sequence[Instance], index: Tensor, end: float, goes_on: bool) -> Tensor:
        """Tabu search on what is violated, from the best states; on a GPU also from where the chains are."""
        starts = self.crew.best_values[None, index]
        began = time.monotonic()
        soon = began + FILL_SHARE * (end - began)  # who is not reached may be at the next try
        for start, place in zip(starts[0], index.tolist(), strict=True):
            job = self.crew.jobs[place]
            if not index.is_cuda or job.instance.size >= FILLED:
                start[: job.instance.size] = torch.from_numpy(self._filled(job, start, soon))
        if runs_kernels(index.device):
            starts = torch.cat([starts, self._chains(index)])
        return repair(instances, starts, self.crew.batch.values, end, self.stopped, goes_on)

    def _filled(self, job: Job, start: Tensor, end: float) -> IntArray:
        """What violates less: a start, or its variables filled anew."""
        closest = start[: job.instance.size].cpu().numpy()
        if job.filled is None:
            values, complete = fill(job.instance, closest, end, self.stopped)
            job.filled = values if complete else None
        else:
            values = job.filled
        return min(closest, values, key=lambda one: job.instance.verify(one).violated)

    def _complete(self, instances: Sequence[Instance], index: Tensor, end: float, goes_on: bool) -> Tensor:
        """Tree search that tries first what the best states and the chains say; what it leaves open is mended."""
        starts, now = torch.cat([self.crew.best_values[None, index], self._chains(index)]), time.monotonic()
        jobs, states = [self.crew.jobs[place] for place in index.tolist()], starts[0].clone()
        small = [number for number, instance in enumerate(instances) if can_complete(instance)]
        soon = now + TREE_SHARE * (end - now) if goes_on else end
        found = complete([instances[number] for number in small], starts[:, small], soon, self.stopped, goes_on)
        states[small] = found.states
        for number, in_vain in zip(small, found.exhausted, strict=True):
            jobs[number].exhausted = in_vain
        rows = zip(jobs, states.cpu().numpy(), strict=True)
        valid = [job.instance.verify(row[: job.instance.size]).satisfied for job, row in rows]
        left = [number for number, job in enumerate(jobs) if not job.exhausted and not valid[number]]
        states[left] = mend([instances[number] for number in left], states[left], end, self.stopped, goes_on)
        return states

    def _improve(self, instances: Sequence[Instance], index: Tensor, end: float, goes_on: bool) -> Tensor:
        """Blocks solved anew, from the best states; where none is valid, a tree search that tries them first."""
        crew, jobs, first = self.crew, [self.crew.jobs[place] for place in index.tolist()], self.crew.best_values[index]
        for job, state in zip(jobs, first, strict=True):
            if job.improved is not None:
                state[: job.instance.size] = torch.from_numpy(job.improved)
        starts = torch.cat([first[None], crew.best_valid[None, index], self._chains(index)])
        found = improve(instances, starts, end, self.stopped, goes_on, self.is_enough)
        for job, state, in_full in zip(jobs, found.states.cpu().numpy(), found.exhausted, strict=True):
            job.improved, job.exhausted = state[: job.instance.size], in_full
        return found.states

    def _walk(self, instances: Sequence[Instance], index: Tensor, end: float, goes_on: bool) -> Tensor:
        """A walk from where the chains are and from the best they have seen, in most of the time left."""
        crew, now = self.crew, time.monotonic()
        starts = torch.cat([self._chains(index), crew.best_valid[None, index], crew.best_values[None, index]])
        # Where chains take few steps, greedy descent from nothing may be ahead of them.
        if not index.is_cuda:
            greedy, soon = torch.zeros_like(starts[:1]), now + GREEDY_SHARE * (end - now)
            for start, one in zip(greedy[0], instances, strict=True):
                small = list_size(one) <= LARGEST_GREEDY
                answer = polish(one, one.given_values, soon, exchanges=False) if small else one.given_values
                start[: one.size] = torch.tensor(answer)
            starts = torch.cat([starts, greedy])
        soon = now + WALK_SHARE * (end - now)
        enough = None if self.options.target is None and not self.options.first_feasible else self.is_enough
        return search(instances, starts, crew.batch.values, soon, self.stopped, goes_on, enough)

    def is_enough(self, instance: Instance, values: IntArray) -> bool:
        """Whether an answer is what was asked for: without an objective any that is valid."""
        verdict, goal = instance.verify(values), instance.objective
        if not verdict.satisfied or goal is None:
            return verdict.satisfied
        return (1.0 if goal.sense == "minimize" else -1.0) * (verdict.objective or 0.0) <= goal_of(
            instance, self.options
        )

    def of_chains(self, place: int) -> Result:
        """The best answer that the chains have, checked."""
        closest, valid = self._best(place)
        if self.crew.jobs[place].instance.objective is not None:
            raw = self._checked(place, valid)
            if raw.verdict.satisfied:
                return raw
        return self._checked(place, closest)

    def _best(self, place: int) -> tuple[IntArray, IntArray]:
        """What the chains have: of the lowest energy, and valid with the best objective."""
        size = self.crew.jobs[place].instance.size
        return self.crew.best_values[place, :size].cpu().numpy(), self.crew.best_valid[place, :size].cpu().numpy()

    def result(self, place: int, searched: IntArray | None = None) -> Result:
        """The best answer of an instance, checked; `searched` is what a local search has found."""
        instance = self.crew.jobs[place].instance
        closest, valid = self._best(place)
        if instance.objective is None:
            if searched is None:
                return self.of_chains(place)
            before = instance.verify(closest).violated
            found = [self._checked(place, values, raw_violations=before) for values in (closest, searched)]
            return min(found, key=lambda one: one.verdict.violated)
        polishes = self.options.polish and can_polish(instance)
        searched = self.crew.jobs[place].improved if searched is None else searched
        if not polishes and searched is None:
            return self.of_chains(place)
        raw = self._checked(place, valid)
        raw_objective = raw.objective if raw.verdict.satisfied else None
        # A walk begins at the other two as well, and ends no higher.
        starts = [searched] if searched is not None else [valid] if (closest == valid).all() else [closest, valid]
        ends = [*(polish(instance, start, self.deadline) if polishes else start for start in starts), valid]
        found = [self._checked(place, values, raw_objective) for values in ends]
        satisfied = [one for one in found if one.verdict.satisfied]
        sign = -1.0 if instance.objective.sense == "minimize" else 1.0
        return max(satisfied, key=lambda one: sign * (one.objective or 0.0), default=found[0])

    def _checked(
        self, place: int, values: IntArray, raw_objective: float | None = None, raw_violations: int | None = None
    ) -> Result:
        job, steps = self.crew.jobs[place], int(self.crew.steps[place])
        seconds, seed = time.monotonic() - job.entered, self.options.seed
        facts = (steps, seconds, seed, self.model, raw_objective, raw_violations, job.exhausted)
        return Result(job.instance, values, *facts)
