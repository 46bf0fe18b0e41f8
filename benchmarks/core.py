"""Figures of the core: reading, verifying and generating, on data made here. Run: python benchmarks/core.py"""

from __future__ import annotations

import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from blogdit import formats
from blogdit.problems import coloring, generate, sudoku
from blogdit.problems.sudoku_boards import layout, random_grids


def timed(label: str, work: Callable[[], Any], target: str) -> Any:
    start = time.perf_counter()
    result = work()
    print(f"{label:<58} {time.perf_counter() - start:8.3f} s   (target {target})", flush=True)
    return result


def random_edges(vertices: int, edges: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    first = rng.integers(0, vertices, edges)
    return np.stack([first, (first + rng.integers(1, vertices, edges)) % vertices], axis=1)


def read_graph(label: str, vertices: int, edges: int, target: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "graph.txt"
        rows = np.column_stack([random_edges(vertices, edges) + 1, np.ones(edges, np.int64)])
        np.savetxt(path, rows, "%d", header=f"{vertices} {edges}", comments="")
        timed(label, lambda: formats.read(path), target)


def million_edges() -> None:
    vertices, edges = 200_000, random_edges(200_000, 1_000_000)
    values = np.random.default_rng(1).integers(0, 10, vertices)

    def build_and_verify() -> None:
        instance = coloring.build((vertices, edges), 10)
        verdict = instance.verify(values)
        for _ in zip(range(1000), verdict.violations(), strict=False):
            pass

    timed("build and verify 1,000,000 edges", build_and_verify, "5 s")
    print(f"{'peak memory of this process so far':<58} {peak_megabytes():8.0f} MB  (target 1000 MB)", flush=True)


def peak_megabytes() -> float:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1 << 20 if sys.platform == "darwin" else 1 << 10)


def verify_sudokus() -> None:
    grids = random_grids(18_000, layout(3), np.random.default_rng(0))
    blank = sudoku.build("." * 81)
    valid = timed("verify 18,000 Sudoku solutions", lambda: sum(blank.verify(grid).satisfied for grid in grids), "2 s")
    assert valid == len(grids)


def import_seconds() -> float:
    code = "import time; start = time.perf_counter(); import blogdit; print(time.perf_counter() - start)"
    runs = [subprocess.run([sys.executable, "-c", code], capture_output=True, check=True) for _ in range(5)]
    return min(float(run.stdout) for run in runs)


def main() -> None:
    print(f"Python {platform.python_version()}, numpy {np.__version__}, {platform.machine()}, one process")
    print(f"{'import blogdit (best of 5)':<58} {import_seconds():8.3f} s   (target 0.3 s)", flush=True)
    million_edges()
    read_graph("read a G-set file of 10,000 vertices, 9,999 edges (G70)", 10_000, 9_999, "0.5 s")
    read_graph("read a G-set file of 1,000,000 edges", 200_000, 1_000_000, "5 s")
    print(f"{'peak memory of this process so far':<58} {peak_megabytes():8.0f} MB  (target 1000 MB)", flush=True)
    verify_sudokus()
    timed("generate 10,000 Sudoku puzzles, 31-42 givens", lambda: generate("sudoku", 10_000, seed=0), "60 s")
    timed(
        "generate 1,000 Sudoku puzzles, 24-26 givens",
        lambda: generate("sudoku", 1_000, seed=0, min_givens=24, max_givens=26),
        "none",
    )


if __name__ == "__main__":
    main()
