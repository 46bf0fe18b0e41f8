"""What is the sampler's answer worth as a hint for CP-SAT? Run: python benchmarks/hints.py [--count N] [--seconds S]

For each kind of problem: CP-SAT's seconds to its first solution and to a target, without a hint and with one. The
target is the best objective that CP-SAT finds without the hint in its time limit. Seconds of the hint itself stand in a
column of their own, and are not counted in those of CP-SAT. Medians are over the instances where both runs have a time;
`reached` counts the instances whose target is reached within the limit, without and with the hint.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from statistics import median

import numpy as np

import blogdit
from blogdit import Instance
from blogdit.integrations.ortools import Gain, Hint, hint

SHIFTS = ("early", "late", "night", "off")


def roster(rng: np.random.Generator, nurses: int = 20, days: int = 28) -> Instance:
    """As examples/roster.py, larger and with random wishes: shifts to fill, rest after nights, fair nights."""
    problem = blogdit.Problem("roster", "month")
    works = {(n, d): problem.variable((n, d), SHIFTS) for n in range(nurses) for d in range(days)}
    needed = {"early": nurses // 4, "late": nurses // 5, "night": nurses // 7}
    for day in range(days):
        for shift, number in needed.items():
            problem.sum([(1, works[nurse, day], shift) for nurse in range(nurses)], low=number, high=number)
    for nurse in range(nurses):
        for week in range(0, days, 7):
            problem.sum([(1, works[nurse, day], "off") for day in range(week, week + 7)], low=2, high=4)
        for today, tomorrow in pairwise(range(days)):
            night = (works[nurse, today], "night", False)
            problem.clause([night, (works[nurse, tomorrow], "early", False)])
            problem.clause([night, (works[nurse, tomorrow], "late", False)], weight=1)
        for day in rng.choice(days, 4, replace=False).tolist():
            problem.clause([(works[nurse, day], "off")], weight=int(rng.integers(1, 4)))
    nights = [
        problem.total(f"nights {nurse}", [(1, works[nurse, day], "night") for day in range(days)], range(days + 1))
        for nurse in range(nurses)
    ]
    problem.minimize([(2, problem.maximum("most nights", nights))])
    return problem.instance()


def sets(rng: np.random.Generator) -> Instance:
    return blogdit.generate("mis", 1, seed=int(rng.integers(1 << 30)), size="large")[0]


def colourings(rng: np.random.Generator) -> Instance:
    """200 vertices in 10 colours, below the threshold, where CP-SAT needs seconds."""
    settings = {"vertices": 200, "colors": 10, "p_min": 0.16, "p_max": 0.19, "planted": True}
    return blogdit.generate("coloring", 1, seed=int(rng.integers(1 << 30)), **settings)[0]


PROBLEMS: dict[str, Callable[[np.random.Generator], Instance]] = {
    "RB-large": sets,
    "roster": roster,
    "colouring k=10": colourings,
}


def measure(instance: Instance, arguments: argparse.Namespace) -> tuple[Hint, Gain]:
    options = {"time_limit": arguments.hint_seconds, "finish": arguments.finish, "chains": arguments.chains}
    found = hint(instance, device=arguments.device, **options)
    return found, found.gain(arguments.seconds, workers=arguments.workers)


def record(name: str, found: Hint, gain: Gain) -> dict[str, object]:
    return {
        "problem": name,
        "hint": {"status": found.result.status, "objective": found.result.objective, "seconds": found.seconds,
                 "found_by": found.result.found_by, "violations": found.result.verdict.violated},
        "target": gain.target,
        "first": [gain.without.first, gain.hinted.first],
        "to_target": list(gain.to_target),
        "objective": [gain.without.objective, gain.hinted.objective],
        "status": [gain.without.status, gain.hinted.status],
    }  # fmt: skip


def row(name: str, rows: list[tuple[Hint, Gain]]) -> str:
    def pair(times: list[tuple[float | None, float | None]]) -> str:
        both = [(a, b) for a, b in times if a is not None and b is not None]
        return f"{median(a for a, _ in both):.2f} / {median(b for _, b in both):.2f}" if both else "-"

    valid = sum(found.result.verdict.satisfied for found, _ in rows)
    cells = [
        name,
        f"{valid} of {len(rows)}",
        f"{median(found.seconds for found, _ in rows):.2f}",
        pair([(gain.without.first, gain.hinted.first) for _, gain in rows]),
        pair([gain.to_target for _, gain in rows]),
        " / ".join(str(sum(gain.to_target[which] is not None for _, gain in rows)) for which in (0, 1))
        + f" of {len(rows)}",
    ]
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=10, help="instances of each kind")
    parser.add_argument("--seconds", type=float, default=30.0, help="CP-SAT's time limit for each run")
    parser.add_argument("--hint-seconds", type=float, default=5.0, help="the sampler's time limit")
    parser.add_argument("--finish", default="none", help="what follows the sampler before its answer is the hint")
    parser.add_argument("--chains", type=int, default=1, help="the sampler's chains; on a CPU a step of many is slow")
    parser.add_argument("--workers", type=int, default=1, help="CP-SAT's threads")
    parser.add_argument("--problems", default=",".join(PROBLEMS), help="names, with commas between them")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="a JSON line for each instance")
    parser.add_argument("--device", default="cpu", help="the sampler's device")
    arguments = parser.parse_args()
    if unknown := [name for name in arguments.problems.split(",") if name not in PROBLEMS]:
        parser.error(f"unknown problem {unknown[0]!r}; expected {', '.join(PROBLEMS)}")
    print("| problem | valid hints | seconds of a hint | first: without / with | target: without / with | reached |")
    print("|---|---|---|---|---|---|")
    for name in arguments.problems.split(","):
        rng = np.random.default_rng(arguments.seed)
        rows = [measure(PROBLEMS[name](rng), arguments) for _ in range(arguments.count)]
        print(row(name, rows), flush=True)
        if arguments.out is not None:
            with arguments.out.open("a") as file:
                file.writelines(json.dumps(record(name, *one)) + "\n" for one in rows)


if __name__ == "__main__":
    main()
