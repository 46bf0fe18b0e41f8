"""How time and memory of a step grow with the size of a graph (MaxCut, mean degree 10), with fitted exponents.

    python benchmarks/growth.py [--device cuda] [--figure growth.png]
    python benchmarks/growth.py --large            (100,000 vertices and 500,000 edges: a verified cut, and the rate)
    python benchmarks/growth.py --whole maxcut     (from a file to an answer, up to 10^6 vertices and 5 x 10^6 edges)

Each size runs in a process of its own, so that peak memory is its own; what an idle process takes is subtracted.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

import blogdit
from blogdit.api import solver_pool
from blogdit.problems.graphs import random_graph
from blogdit.problems.maxcut import build
from blogdit.solver.events import Finished
from blogdit.solver.options import SolveOptions
from blogdit.solver.sampler import Sampler
from blogdit.solver.slots import Slot
from blogdit.solver.solver import Solver

SIZES = (1250, 2500, 5000, 10_000, 20_000)
WHOLE_SIZES = (62_500, 250_000, 1_000_000)
DEGREE = 10


def peak_megabytes(device: str) -> float:
    if device == "cuda":
        return torch.cuda.max_memory_allocated() / 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10


def measure(vertices: int, device: str, chains: int) -> dict[str, float]:
    """Seconds of a step, and megabytes above those of a process that has done a step on a small graph."""
    model, rng = blogdit.load("maxcut"), np.random.default_rng(0)

    def sampler_of(n: int) -> Sampler:
        solver = Solver(model, SolveOptions(chains=chains, steps=10**6), device)
        slots = solver.occupants.enter([Slot(0, build(random_graph(n, DEGREE / (n - 1), rng)))])
        sampler = solver.occupants.sampler_of(slots)
        sampler.advance(3)
        return sampler

    sampler_of(100)
    idle = peak_megabytes(device)
    sampler = sampler_of(vertices)
    times = []
    for _ in range(5):
        start = time.perf_counter()
        sampler.advance(2)
        if device == "cuda":
            torch.cuda.synchronize()
        times.append((time.perf_counter() - start) / 2)
    return {"vertices": vertices, "seconds": min(times), "megabytes": peak_megabytes(device) - idle}


def slope(xs: list[float], ys: list[float]) -> float:
    return float(np.polyfit(np.log(xs), np.log(ys), 1)[0])


def draw(rows: list[dict[str, float]], slopes: dict[str, float], path: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 3.5), layout="constrained")
    for axes, (key, label) in zip(
        figure.subplots(1, 2), (("seconds", "seconds per step"), ("megabytes", "peak megabytes")), strict=True
    ):
        sizes = [row["vertices"] for row in rows]
        axes.loglog(sizes, [row[key] for row in rows], "o-", label=f"slope {slopes[key]:.2f}")
        axes.set(xlabel="vertices", ylabel=label)
        axes.legend()
        axes.grid(True, which="both", alpha=0.3)
    figure.savefig(path, dpi=150)


def large(device: str, seconds: float) -> None:
    vertices, edges = 100_000, 500_000
    graph = build(random_graph(vertices, 2 * edges / vertices / (vertices - 1), np.random.default_rng(0)))
    start = time.perf_counter()
    (result,) = blogdit.solve(graph, device=device, chains=1, time_limit=seconds)
    spent = time.perf_counter() - start
    count, sampled = len(graph.objective.differ), result.sampler
    alone = "the sampler took no step" if sampled is None else f"sampler alone {sampled.objective:,.0f}"
    print(
        f"{vertices:,} vertices, {count:,} edges: {result.verdict.violated} violations, cut {result.objective:,.0f} "
        f"({result.objective / count:.1%} of the edges; {alone}), "
        f"{result.steps} steps, {spent:.1f} s with the finisher, peak {peak_megabytes(device):,.0f} MB"
    )


def whole(problem: str, vertices: int, device: str, seconds: float) -> dict[str, float | str]:
    """A file with a graph is read and solved: seconds of the CPU for reading and for what one step needs, seconds of
    the clock for solving, megabytes, and what became of it."""
    notes: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "graph.edges"
        ends = np.random.default_rng(0).integers(0, vertices, (vertices * DEGREE // 2, 2))
        np.savetxt(path, ends[ends[:, 0] != ends[:, 1]], "%d")
        del ends
        idle, began = peak_megabytes("cpu"), time.process_time()
        (instance,) = blogdit.read(path, problem=problem, colors=5 if problem == "coloring" else None)
        read = time.process_time() - began
    reading = peak_megabytes("cpu") - idle
    pool = solver_pool(None, device, time_limit=seconds, chains=1)
    pool.session.on_note = notes.append
    began = time.monotonic()
    (event,) = (one for one in pool.run([instance]) if isinstance(one, Finished))
    result, taken = event.result, time.monotonic() - began
    return {
        "vertices": vertices, "seconds": read, "megabytes": reading, "solving": taken, "steps": result.steps,
        "peak": peak_megabytes("cpu"), "found": f"{result.status} by {result.found_by}", "note": " ".join(notes),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--chains", type=int, default=1)
    parser.add_argument("--figure", type=Path)
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--seconds", type=float, default=60.0, help="of --large")
    parser.add_argument("--vertices", type=int, help=argparse.SUPPRESS)  # measure one size, in a process of its own
    parser.add_argument("--whole", choices=("maxcut", "mis", "coloring"))
    arguments = parser.parse_args()
    if arguments.whole and arguments.vertices:
        seconds = min(arguments.seconds, 10.0)
        print(json.dumps(whole(arguments.whole, arguments.vertices, arguments.device, seconds)))
        return
    if arguments.large:
        large(arguments.device, arguments.seconds)
        return
    if arguments.vertices:
        print(json.dumps(measure(arguments.vertices, arguments.device, arguments.chains)))
        return
    rows = []
    for vertices in WHOLE_SIZES if arguments.whole else SIZES:
        command = [sys.executable, __file__, "--vertices", str(vertices)]
        command += ["--device", arguments.device, "--chains", str(arguments.chains)]
        command += ["--whole", arguments.whole] if arguments.whole else []
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        rows.append(json.loads(done.stdout))
        row = rows[-1]
        if arguments.whole:
            print(
                f"{vertices:9,} vertices  read in {row['seconds']:.1f} CPU s with {row['megabytes']:,.0f} MB; "
                f"{row['found']} in {row['solving']:.1f} s, {row['steps']} steps, peak {row['peak']:,.0f} MB. "
                f"{row['note']}",
                flush=True,
            )
            continue
        print(
            f"{vertices:8,} vertices  {row['seconds'] * 1e3:10.2f} ms per step  {row['megabytes']:8.0f} MB", flush=True
        )
    sizes = [row["vertices"] for row in rows]
    slopes = {key: slope(sizes, [row[key] for row in rows]) for key in ("seconds", "megabytes")}
    for key, value in slopes.items():
        print(f"slope of {key}: {value:.2f} ({'within' if value <= 1.15 else 'ABOVE'} 1.15)")
    if arguments.figure is not None:
        draw(rows, slopes, arguments.figure)
    assert all(math.isfinite(value) for value in slopes.values())


if __name__ == "__main__":
    main()
