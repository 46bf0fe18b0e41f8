"""What do adapters cost? Run: python benchmarks/adapters.py [--repeats N]

The first table: milliseconds that each adapter adds to a solve of a small model (40 variables, 80 constraints or
couplings), the median over repeats. It is the call of the adapter less the same call of `blogdit.solve` on the instance
that the adapter makes, both without a step and with nothing behind it, in turns in one process. Milliseconds are those
of this thread on a core, so that others on the machine count little. The second table: what a program that never names
the backend pays for it in networkx, with the entry points of blogdit and without them.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import cpmpy as cp
import dimod
import networkx as nx
import numpy as np
from ortools.sat.python import cp_model

import blogdit
from blogdit.integrations import networkx as backend
from blogdit.integrations.cpmpy import CPM_blogdit
from blogdit.integrations.dimod import CQMSampler, DQMSampler, Sampler

SIZE, PAIRS = 40, 80
QUICK: dict[str, Any] = {"steps": 0, "finish": "none", "seed": 0}
GRAPH = nx.gnm_random_graph(SIZE, PAIRS, seed=1)
DISPATCH = """
import importlib.metadata as metadata, sys, time
if sys.argv[1] == "without":
    every = metadata.entry_points
    metadata.entry_points = lambda **which: metadata.EntryPoints(e for e in every(**which) if e.name != "blogdit")
began = time.thread_time()
import networkx as nx
loaded = time.thread_time() - began
graph = nx.path_graph(10)
times = []
for _ in range(3000):
    began = time.thread_time()
    nx.greedy_color(graph)
    times.append(time.thread_time() - began)
print(int("blogdit" in nx.utils.backends.backends), loaded, sorted(times)[len(times) // 2])
"""


def models() -> dict[str, tuple[Any, Callable[[], Any]]]:
    """Name -> what becomes an instance, and the adapter's own call."""
    rng = np.random.default_rng(0)
    ends = list(GRAPH.edges)
    bqm = dimod.BinaryQuadraticModel({}, {pair: float(rng.choice([-1, 1])) for pair in ends}, 0.0, "SPIN")
    dqm = dimod.DiscreteQuadraticModel()
    for _ in range(SIZE):
        dqm.add_variable(3)
    for i, j in ends:
        dqm.set_quadratic(i, j, {(case, case): 1.0 for case in range(3)})
    cqm = dimod.ConstrainedQuadraticModel()
    bits = [dimod.Binary(i) for i in range(SIZE)]
    cqm.set_objective(-dimod.quicksum(bits))
    for i, j in ends:
        cqm.add_constraint(bits[i] + bits[j] <= 1)
    numbers = cp.intvar(0, 5, shape=SIZE)
    model = cp.Model([numbers[i] + 2 * numbers[j] <= 9 for i, j in ends], maximize=cp.sum(numbers))
    proto = cp_model.CpModel()
    own = [proto.new_int_var(0, 5, f"v{i}") for i in range(SIZE)]
    for i, j in ends:
        proto.add(own[i] + 2 * own[j] <= 9)
    proto.maximize(sum(own))
    sampling = {key: QUICK[key] for key in ("steps", "finish", "seed")}
    return {
        "CPMpy": (model, lambda: CPM_blogdit(model).solve(**QUICK, device="cpu")),
        "networkx": (
            blogdit.as_instance(GRAPH, "mis"),
            lambda: backend.maximum_independent_set(GRAPH, **QUICK, device="cpu"),
        ),
        "dimod BQM": (bqm, lambda: Sampler(device="cpu").sample(bqm, **sampling)),
        "dimod DQM": (dqm, lambda: DQMSampler(device="cpu").sample_dqm(dqm, **sampling)),
        "dimod CQM": (cqm, lambda: CQMSampler(device="cpu").sample_cqm(cqm, **sampling)),
        "OR-Tools": (proto, lambda: blogdit.solve(proto, **QUICK, device="cpu")),
    }


def milliseconds(call: Callable[[], Any]) -> float:
    began = time.thread_time()
    call()
    return 1e3 * (time.thread_time() - began)


def dispatch(repeats: int) -> None:
    """Import networkx and call a function of it, in processes of their own."""
    print("\n| networkx | import in ms | a call of greedy_color in microseconds |\n|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        metadata = Path(folder) / "blogdit-0.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: blogdit\nVersion: 0\n")
        (metadata / "entry_points.txt").write_text(
            "[networkx.backends]\nblogdit = blogdit.integrations.networkx\n"
            "[networkx.backend_info]\nblogdit = blogdit.integrations.networkx_info:info\n"
        )
        found: dict[str, list[list[float]]] = {"without": [], "with": []}
        for _ in range(repeats):
            for name, rows in found.items():
                code = (
                    f"import sys; sys.path[:0] = [{folder!r}, {str(Path(blogdit.__file__).parent.parent)!r}]\n"
                    + DISPATCH
                )
                out = subprocess.run([sys.executable, "-c", code, name], check=True, capture_output=True, text=True)
                rows.append([float(number) for number in out.stdout.split()])
                assert rows[-1][0] == (name == "with"), "the entry points are there, or not"
    for name, rows in found.items():
        loaded, call = (median(row[column] for row in rows) for column in (1, 2))
        print(f"| {name} blogdit | {1e3 * loaded:.0f} | {1e6 * call:.1f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=20)
    repeats = parser.parse_args().repeats
    warnings.simplefilter("ignore")
    print("| adapter | becomes an instance in ms | adds to a solve in ms | that solve in ms |\n|---|---|---|---|")
    for name, (data, call) in models().items():
        instance = blogdit.as_instance(data)

        def plain(instance: Any = instance) -> Any:
            return blogdit.solve(instance, **QUICK, device="cpu")

        call(), plain()  # what is loaded once
        made = median(milliseconds(lambda data=data: blogdit.as_instance(data)) for _ in range(repeats))
        pairs = [(milliseconds(call), milliseconds(plain)) for _ in range(repeats)]
        added, alone = median(a - b for a, b in pairs), median(b for _, b in pairs)
        print(f"| {name} | {made:.1f} | {added:.1f} | {alone:.1f} |", flush=True)
    dispatch(min(repeats, 10))


if __name__ == "__main__":
    main()
