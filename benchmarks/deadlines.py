"""How late answers are: time limits against the clock, after start-up.

    python benchmarks/deadlines.py [--limits 1 3 10] [--repeats 3] [--cases NAME ...] [--finish auto none]

Prints a Markdown table: for each case and limit the overrun in seconds, as median and worst of the repeats, by the wall
clock and by the CPU time of this process divided by its threads. On a machine that others use, the second is the one
to look at.
"""

from __future__ import annotations

import argparse
import statistics
import time
import warnings
from collections.abc import Callable

import numpy as np
import torch

from blogdit import api, generate
from blogdit.core.constraints import Sum
from blogdit.core.instance import Instance
from blogdit.problems import coloring, maxcut, mis


def complete(n: int) -> tuple[int, np.ndarray]:
    return n, np.argwhere(np.triu(np.ones((n, n), np.bool_), 1))


def sparse(n: int, degree: int) -> tuple[int, np.ndarray]:
    ends = np.random.default_rng(0).integers(0, n, (n * degree // 2, 2))
    return n, ends[ends[:, 0] != ends[:, 1]]


def clauses(variables: int, count: int) -> Instance:
    """Random 3-clauses, around the ratio where they are hard."""
    rng = np.random.default_rng(0)
    scopes = np.stack([rng.choice(variables, 3, replace=False) for _ in range(count)])
    signs = rng.choice([-1, 1], (count, 3))
    low = 1 - (signs < 0).sum(1)
    return Instance(
        [2] * variables, (Sum(scopes, signs, np.ones((count, 3), int), low.tolist(), None),), name="clauses"
    )


FAMILIES = ("sudoku", "coloring", "maxcut", "mis", "latin")
CASES: dict[str, Callable[[], list[Instance]]] = {
    "one hard colouring": lambda: generate("coloring", 1, vertices=200, colors=8, p_min=0.25, p_max=0.25),
    "50 mixed": lambda: [one for name in FAMILIES for one in generate(name, 10)],
    "set, complete graph of 1,500": lambda: [mis.build(complete(1500))],
    "set, complete graph of 3,000": lambda: [mis.build(complete(3000))],
    "cut, complete graph of 1,500": lambda: [maxcut.build(complete(1500))],
    "cut, complete graph of 3,000": lambda: [maxcut.build(complete(3000))],
    "cut, 100,000 vertices, degree 10": lambda: [maxcut.build(sparse(100_000, 10))],
    "set, 100,000 vertices, degree 10": lambda: [mis.build(sparse(100_000, 10))],
    "colouring, 100,000 vertices, degree 10": lambda: [coloring.build(sparse(100_000, 10), 5)],
    "Sudoku 16": lambda: generate("sudoku", 1, box=4),
    "Sudoku 25": lambda: generate("sudoku", 1, box=5, unique=False, min_givens=0.45, max_givens=0.45),
    "Latin 30": lambda: generate("latin", 1, order=30),
    "5,000 clauses": lambda: [clauses(1200, 5000)],
}


def overrun(instances: list[Instance], limit: float, finish: str) -> tuple[float, float]:
    """Seconds beyond limit * instances, by the clock and by the CPU. On a CPU instances share the core."""
    pool = api.solver_pool(None, "auto", time_limit=limit, finish=finish)
    for one in instances:  # loading weights is start-up
        pool._solver(one)
    began, cpu = time.monotonic(), time.process_time()
    for _ in pool.run(instances):
        pass
    allowed = limit * len(instances)
    return time.monotonic() - began - allowed, (time.process_time() - cpu) / torch.get_num_threads() - allowed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--limits", nargs="+", type=float, default=[1.0, 3.0, 10.0])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--cases", nargs="+", default=list(CASES), choices=list(CASES))
    parser.add_argument("--finish", nargs="+", default=["auto", "none"])
    asked = parser.parse_args()
    warnings.simplefilter("ignore")  # "not sampled": what this is about
    api.solve(generate("sudoku", 1), time_limit=0.5, finish="exact")  # imports belong to the start
    print("| case | limit | finisher | overrun by the clock: median, worst | by the CPU: median, worst |")
    print("|---|---:|---|---:|---:|")
    for case in asked.cases:
        instances = CASES[case]()
        for limit in asked.limits:
            for finish in asked.finish:
                found = [overrun(instances, limit, finish) for _ in range(asked.repeats)]
                shown = (f"{statistics.median(one):+.2f}, {max(one):+.2f}" for one in zip(*found, strict=True))
                print(f"| {case} | {limit:g} | {finish} | {' | '.join(shown)} |", flush=True)


if __name__ == "__main__":
    main()
