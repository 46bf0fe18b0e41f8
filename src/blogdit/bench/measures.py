"""Numbers from records: means with bootstrap intervals of what a system reached, and in what time. No formatting."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean

import numpy as np

from blogdit.bench.records import Record
from blogdit.bench.suites import Case, Entrant, Metric, Suite

RESAMPLES = 2000
COVERED = 95  # per cent
BEFORE = "before the search"  # the sampler alone, before its finisher


@dataclass(frozen=True)
class Mean:
    """A mean over instances with the interval that covers 95 % of the means of resampled instances."""

    value: float
    low: float
    high: float
    count: int


def mean(numbers: Sequence[float]) -> Mean:
    return mean_of_groups([[number] for number in numbers])


def mean_of_groups(groups: Sequence[Sequence[float]]) -> Mean:
    """The mean of all numbers. Those of a group were measured together, so it is groups that are resampled."""
    return quotient([(sum(group), len(group)) for group in groups], sum(map(len, groups)))


def quotient(pairs: Sequence[tuple[float, float]], count: int) -> Mean:
    """The sum of the first numbers over that of the second, which are about so many instances. The same pairs always
    get the same interval, in whatever order they come."""
    if not pairs:
        raise ValueError("a mean needs at least one number")
    above, below = np.array(sorted(pairs), np.float64).T
    draws = np.random.default_rng(0).integers(0, len(above), (RESAMPLES, len(above)))
    tail = (100 - COVERED) / 2
    sums = len(below) if (below == 1).all() else below[draws].sum(1)  # the usual case saves half of the time
    low, high = np.percentile(above[draws].sum(1) / sums, [tail, 100 - tail])
    return Mean(float(above.sum() / below.sum()), float(low), float(high), count)


def worth(record: Record, metric: Metric) -> float:
    """What an instance adds to the mean: 100 or 0 for solved or not, the objective, the gap to the best known, or the
    distance from it.

    An answer that breaks a constraint counts as objective 0, or as a distance of 100.
    """
    valid = record["verdict"] == "valid"
    if metric == "solved":
        return 100.0 if valid else 0.0
    if metric == "distance":
        return distance(float(record["objective"]), float(record["best_known"])) if valid else 100.0
    objective = float(record["objective"]) if valid else 0.0
    return objective if metric == "objective" else float(record["best_known"]) - objective


def distance(found: float, best: float) -> float:
    """How far an objective is from the best one, in per cent of the larger of the two; 100 if their signs differ. (In
    mixed-integer programming it is called the primal gap.)"""
    if found == best:
        return 0.0
    return 100.0 if found * best < 0 else 100 * abs(found - best) / max(abs(found), abs(best))


def best_answers(records: Iterable[Record], case: Case) -> dict[str, float]:
    """The best objective of all valid answers to each instance."""
    best, found = max if case.sense == "maximize" else min, dict[str, float]()
    for record in records:
        if record["verdict"] == "valid":
            name, objective = record["instance"], float(record["objective"])
            found[name] = best(found.get(name, objective), objective)
    return found


class Records(list[Record]):
    """Records that are asked for by case and system."""

    @cached_property
    def cells(self) -> dict[tuple[str, str], list[Record]]:
        found: dict[tuple[str, str], list[Record]] = {}
        for record in self:
            found.setdefault((record["case"], record["system"]), []).append(record)
        return found

    def cell(self, case: Case, label: str) -> list[Record]:
        return self.cells.get((case.name, label), [])

    def best_found(self, case: Case) -> dict[str, float]:
        """The best objective of a valid answer that any system has, by instance."""
        return best_answers((record for record in self if record["case"] == case.name), case)

    def by_instance(self, case: Case, label: str) -> dict[str, float]:
        """The metric of a case for a system on each instance it ran on, a mean over runs."""
        found: dict[str, list[float]] = {}
        best = self.best_found(case) if case.metric == "distance" else None
        for record in self.cell(case, label):
            if best is not None:
                record = {**record, "best_known": best.get(record["instance"])}
            found.setdefault(record["instance"], []).append(worth(record, case.metric))
        return {name: fmean(runs) for name, runs in found.items()}

    def measured(self, case: Case, label: str) -> Mean | None:
        values = self.by_instance(case, label)
        return mean(list(values.values())) if values else None

    def difference(self, case: Case, label: str, other: str) -> Mean | None:
        """The metric of a system less that of another, over the instances that both ran on."""
        left, right = self.by_instance(case, label), self.by_instance(case, other)
        paired = [value - right[name] for name, value in left.items() if name in right]
        return mean(paired) if paired else None

    def refuted(self, case: Case, label: str) -> Mean | None:
        """Of how many instances a system has shown that they have no valid answer, in per cent."""
        said = [record for record in self.cell(case, label) if "exhausted" in record]  # old records do not
        found = dict.fromkeys((record["instance"] for record in said), 0.0)
        found |= {record["instance"]: 100.0 for record in said if record["exhausted"]}
        return mean(list(found.values())) if found else None

    def counted(self, case: Case, label: str) -> int:
        """On how many instances of a case a system ran."""
        return len({record["instance"] for record in self.cell(case, label)})

    def timed(self, case: Case, label: str) -> Mean | None:
        """Seconds per instance."""
        calls = self._calls(case, label)
        return mean_of_groups([[record["seconds"] for record in call] for call in calls]) if calls else None

    def steps_per_second(self, case: Case, label: str) -> Mean | None:
        """Steps of all instances together in a second of wall-clock."""
        calls = self._calls(case, label)
        if any(record["steps"] is None for call in calls for record in call):
            return None
        spent = [(sum(r["steps"] for r in call), sum(r["seconds"] for r in call)) for call in calls]
        spent = [(steps, seconds) for steps, seconds in spent if seconds]  # some calls are over before the clock ticks
        return quotient(spent, sum(map(len, calls))) if any(steps for steps, _ in spent) else None

    def _calls(self, case: Case, label: str) -> list[list[Record]]:
        """The records of each call: one that had many instances is one measurement."""
        calls: dict[object, list[Record]] = {}
        for number, record in enumerate(self.cell(case, label)):
            if not record["run"]:
                together = record.get("batch", 1) > 1
                call = (record["commit"], record["call_seconds"], record["batch"]) if together else number
                calls.setdefault(call, []).append(record)
        return list(calls.values())


class Group(Records):
    """Records of the cases of one group: the best answer is the best within any budget."""

    def best_found(self, case: Case) -> dict[str, float]:
        return best_answers(self, case)


def groups(suite: Suite, records: Sequence[Record]) -> dict[str, tuple[list[Case], Group]]:
    """The cases of each group and their records, by the name of the group."""
    group_of = {case.name: case.group for case in suite.cases}
    found = {name: Group() for name in group_of.values()}
    for record in records:
        found[group_of[record["case"]]].append(record)
    return {name: ([case for case in suite.cases if case.group == name], of) for name, of in found.items()}


def names_of(records: Sequence[Record], entrants: Sequence[Entrant] = ()) -> list[str]:
    """The systems: in the order of the entrants, then as they appear."""
    present = dict.fromkeys(str(record["system"]) for record in records)
    known = [entrant.label for entrant in entrants if entrant.label in present]
    return list(dict.fromkeys([*known, *present]))


def before(label: str) -> str:
    """The name of what a system had before its search."""
    return f"{label}, {BEFORE}"


def with_raw(records: Sequence[Record]) -> Records:
    """The records, and for systems with a search at the end also what they had before it, as another system."""
    columns = ("raw_objective", "raw_violated")  # the oldest records lack the column "searches"
    searched = {r["system"] for r in records if r.get("searches") or any(r.get(name) is not None for name in columns)}
    raw = [
        {**record, **_before_search(record), "system": before(record["system"])}
        for record in records
        if record["system"] in searched
    ]
    return Records([*records, *raw])


def _before_search(record: Record) -> Record:
    """The verdict and the objective that an answer had then."""
    if record["objective"] is None:  # nothing to optimise: no search follows a valid answer of the sampler
        by_search = record.get("raw_violated") or record.get("found_by") not in (None, "sampler")
        return {"verdict": "invalid" if by_search else record["verdict"]}
    found = record["raw_objective"]
    return {"objective": found, "verdict": record["verdict"] if found is not None else "invalid"}
