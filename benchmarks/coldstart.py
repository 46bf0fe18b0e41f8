"""What the first call on a machine costs: kernels are compiled once, and kept on disk for later processes.

    python benchmarks/coldstart.py [--limit 20] [--count 50] [--families mis sudoku ...] [--device cuda]

For each family one batch, three times with the same time limit: in a process that finds no compiled kernels, in a
second process that finds those of the first, and once more in the second process, where everything is warm. Prints a
Markdown table: answers (solved, or the mean objective), and the seconds of the call after the imports. The limit is for
all instances of the batch together; on a GPU they run side by side.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

import numpy as np

FAMILIES = {
    "sudoku": {},
    "latin": {"order": 20},
    "coloring": {"vertices": 100, "colors": 5},
    "maxcut": {"vertices": 800, "p_max": 0.06},
    "mis": {"size": "large"},
    "general": {},
}


def call(family: str, count: int, limit: float, device: str) -> tuple[float, float, float]:
    """Seconds, the share that is solved, and the mean objective of those that have one."""
    import blogdit

    instances = blogdit.generate(family, count, seed=1, **FAMILIES[family])
    began = time.monotonic()
    results = blogdit.solve(instances, time_limit=limit, device=device)
    seconds = time.monotonic() - began
    objectives = [one.objective for one in results if one.objective is not None]
    return seconds, float(np.mean([one.verdict.satisfied for one in results])), float(np.mean(objectives or [np.nan]))


def process(family: str, cache: str, asked: argparse.Namespace) -> list[tuple[float, float, float]]:
    """Two calls, one after the other, in a new process."""
    command = [sys.executable, __file__, "--one", family, "--limit", str(asked.limit), "--count", str(asked.count)]
    done = subprocess.run(
        [*command, "--device", asked.device],
        env={**os.environ, "TRITON_CACHE_DIR": cache}, check=True, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    return [tuple(one) for one in json.loads(done.stdout.splitlines()[-1])]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--limit", type=float, default=20.0)
    parser.add_argument("--count", type=int, default=50)
    parser.add_argument("--families", nargs="+", default=list(FAMILIES), choices=list(FAMILIES))
    parser.add_argument("--device", default="auto")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.one:
        import blogdit.api  # imports are not the call's

        assert blogdit.api
        print(json.dumps([call(asked.one, asked.count, asked.limit, asked.device) for _ in range(2)]))
        return
    print("| family | | first process | second process | warm |")
    print("|---|---|---:|---:|---:|")
    for family in asked.families:
        with tempfile.TemporaryDirectory() as cache:
            first, second = (process(family, cache, asked) for _ in range(2))
        for name, number in (("seconds", 0), ("valid, %", 1), ("objective", 2)):
            scale = 100 if number == 1 else 1
            shown = (scale * calls[number] for calls in (first[0], second[0], second[1]))
            print(f"| {family} | {name} | {' | '.join(f'{one:.2f}' for one in shown)} |", flush=True)


if __name__ == "__main__":
    main()
