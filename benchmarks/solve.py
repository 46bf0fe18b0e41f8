"""Figures of the solver: a cold start, the times of hard puzzles, and 10,000 puzzles through two kills.

Run: python benchmarks/solve.py [--hard N] [--puzzles N]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import blogdit
from blogdit import formats

TINY = {
    "box": 2, "min_givens": 10, "max_givens": 12, "pool": 512, "validation": 32, "validation_steps": 40, "dim": 32,
    "heads": 2, "head_dim": 16, "layers": 1, "position_dims": 2, "relation": "neighbours", "unroll": 1, "horizon": 8,
    "batch_size": 32, "tau_start": 0.02, "warmup": 10, "learning_rate": 0.005, "ema": 0.8,
}  # fmt: skip


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "blogdit", *map(str, arguments)]


def cold_start(folder: Path) -> None:
    """From typing the command to the answer of one easy puzzle."""
    puzzle = folder / "easy.txt"
    formats.write(blogdit.generate("sudoku", 1, seed=1, min_givens=40, max_givens=42), puzzle)
    seconds = []
    for _ in range(3):
        start = time.perf_counter()
        done = subprocess.run(command("solve", puzzle, "--json", "--time-limit", 60), capture_output=True, check=True)
        seconds.append(time.perf_counter() - start)
        assert json.loads(done.stdout)["status"] == "solved"
    print(f"cold start to answer, one easy 9x9 Sudoku: {min(seconds):.2f} s, best of 3 (target 6 s)", flush=True)


def hard_puzzles(count: int, limit: float) -> None:
    """Each alone on the device, so that seconds are those of one puzzle."""
    puzzles = blogdit.generate("sudoku", count, seed=2, min_givens=24, max_givens=30)
    results = list(blogdit.solve_each(puzzles, batch_size=1, time_limit=limit))
    times = sorted(result.seconds for result in results if result.status == "solved")
    print(f"hard 9x9 Sudokus (24 to 30 givens), {limit:g} s each: {len(times)} of {count} solved", flush=True)
    if times:
        quantiles = np.quantile(times, [0.1, 0.25, 0.5, 0.75, 0.9])
        shown = ", ".join(f"{q}% {s:.2f}" for q, s in zip((10, 25, 50, 75, 90), quantiles, strict=True))
        print(f"  seconds of those solved: {shown}, longest {times[-1]:.2f}", flush=True)


def killed_twice(folder: Path, count: int) -> None:
    """Easy 4x4 puzzles with a model trained for this: kill -9 after a third and after two thirds, then resume."""
    blogdit.train("sudoku", out=folder / "run", updates=100, settings=TINY, device="cpu")
    puzzles, out = folder / "easy4.txt", folder / "out.jsonl"
    formats.write(blogdit.generate("sudoku", count, seed=3, box=2, min_givens=10, max_givens=12), puzzles)
    solve = command(
        "solve", puzzles, "--out", out, "--resume", "--steps", 1000, "--model", folder / "run/last.safetensors"
    )
    start = time.perf_counter()
    for third in (1, 2):
        process = subprocess.Popen(solve, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while not out.exists() or out.read_bytes().count(b"\n") < third * count // 3:
            assert process.poll() is None
            time.sleep(0.05)
        process.kill()
        process.wait()
    code = subprocess.run(solve, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode
    seconds = time.perf_counter() - start
    records = [json.loads(line) for line in out.read_text().splitlines()]
    names = {record["instance"] for record in records}
    solved = sum(record["status"] == "solved" for record in records)
    print(
        f"{count} easy 4x4 Sudokus, killed twice: {seconds:.1f} s, exit code {code}, "
        f"{len(records)} records of {len(names)} puzzles, {solved} solved",
        flush=True,
    )
    assert len(records) == len(names) == count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hard", type=int, default=50)
    parser.add_argument("--limit", type=float, default=30.0)
    parser.add_argument("--puzzles", type=int, default=10_000)
    options = parser.parse_args()
    print(f"Python {platform.python_version()}, {platform.machine()}, {os.cpu_count()} cores, CPU")
    with tempfile.TemporaryDirectory() as name:
        cold_start(Path(name))
        killed_twice(Path(name), options.puzzles)
    hard_puzzles(options.hard, options.limit)


if __name__ == "__main__":
    main()
