"""Speed beside its references and beside what the hardware allows, on instances made here.

    python benchmarks/speed.py training maxcut mis sudoku          (all of it: on the GPU if there is one)
    python benchmarks/speed.py sudoku --puzzles hard.txt           (puzzles from a file, one per line)
    python benchmarks/speed.py alone parts                         (one puzzle at a time; what lies outside the network)
    python benchmarks/speed.py collation                           (from instances to tensors)
    python benchmarks/speed.py attention                           (the ways to compute it; needs a GPU)

The physical limit counts, for one pass of the network, multiplications and additions against the peak of the matrix
units, and every activation written and read once in bfloat16 against the memory; the slower of the two is the limit.
A training update counts three passes. Warm-up is left out and the device synchronised; peaks are those of an H200, and
for a CPU they are measured (a matrix product, a copy).
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

import blogdit
from blogdit.core.instance import Instance
from blogdit.method.batch import collate
from blogdit.method.relations import RELATION_FEATURES, relation_list
from blogdit.network.attention import Bias, attend, neighbour_lists, pair_bits, pair_mask
from blogdit.network.checkpoint import Model
from blogdit.network.config import DenoiserConfig
from blogdit.network.denoiser import MASK_LIMIT, Denoiser
from blogdit.problems import generate
from blogdit.problems.graphs import random_graph
from blogdit.problems.maxcut import build as cut
from blogdit.problems.sudoku import build as puzzle
from blogdit.solver.options import SolveOptions
from blogdit.solver.sampler import Sampler
from blogdit.solver.slots import Shape, Slot, shape_of
from blogdit.solver.solver import Solver
from blogdit.training.data import Data
from blogdit.training.recipe import recipe
from blogdit.training.state import Budget
from blogdit.training.trainer import Trainer

H200 = (790e12, 4.8e12)  # bfloat16 operations and bytes per second


def synchronised(device: str) -> float:
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


def rate(work: Callable[[int], None], device: str, seconds: float = 3.0) -> float:
    """How often per second `work(n)` does its thing; n grows until it lasts."""
    count = 1
    while True:
        start = synchronised(device)
        work(count)
        spent = synchronised(device) - start
        if spent >= seconds / 2:
            return count / spent
        count = max(count + 1, int(count * seconds / max(spent, seconds / 50)))


@cache
def peaks(device: str) -> tuple[float, float]:
    if device == "cuda":
        return H200
    a = torch.randn(1024, 1024)
    products = rate(lambda n: [a @ a for _ in range(n)] and None, device, 0.5)
    long, other = torch.randn(1 << 24), torch.empty(1 << 24)
    copies = rate(lambda n: [other.copy_(long) for _ in range(n)] and None, device, 0.5)
    return products * 2 * 1024**3, copies * 8 * (1 << 24)


def limit(config: DenoiserConfig, tokens: int, values: int, degree: float, device: str, passes: int = 1) -> float:
    """Seconds of one pass over `tokens` (variable, value) pairs with `degree` neighbours each."""
    dim, inner, wide = config.dim, config.heads * config.head_dim, config.ffn_factor * config.dim
    products = 4 * dim * inner + 2 * dim * wide + 2 * dim * wide / values + 2 * (degree + 1) * inner
    activations = 4 * dim + 4 * inner + wide
    size = 2 if device == "cuda" else 4
    operations, memory = peaks(device)
    work = passes * tokens * config.layers
    return max(2 * work * products / operations, 2 * size * work * activations / memory)


def show(label: str, value: float, unit: str, reference: float | None, bar: float | None, physical: float) -> None:
    """One row; all numbers in `unit`, larger is better."""
    beside = "" if reference is None else f"  {value / reference:6.1f} x reference {reference:g}"
    passed = "" if bar is None else f"  bar {bar:g} {'reached' if value >= bar else 'MISSED'}"
    print(f"{label:<44} {value:10.1f} {unit:<12} {value / physical:6.1%} of the limit{beside}{passed}", flush=True)


def training(device: str) -> None:
    made = recipe("sudoku")
    boards = generate("sudoku", 600, seed=0, min_givens=30, max_givens=36)
    trainer = Trainer(made, Data(boards, boards[:8]), Budget(updates=10**6), device=device)

    def updates(count: int) -> None:
        """As a run does: the host reads an update while the device works on the next one."""
        pending = trainer._enqueue()
        for _ in range(count - 1):
            previous, pending = pending, trainer._enqueue()
            trainer._read(previous)
        trainer._read(pending)

    updates(4)
    found = rate(updates, device)
    batch = made.training.batch_size
    physical = limit(made.denoiser, batch * 729, 9, 20, device, passes=3 * made.training.unroll)
    label = f"training, 9x9 preset, batch {batch}, T={made.training.unroll}"
    show(label, found, "updates/s", 25, 60, 1 / physical)
    # The reference unrolls five steps per update on one token per cell; here there are `unroll` steps on nine tokens.
    tokens = batch * made.training.unroll * 729
    show("  the same in tokens", found * tokens, "tokens/s", 25 * 512 * 5 * 81, None, tokens / physical)


def model_of(problem: str) -> Model:
    """The bundled model, or an untrained one of the preset's size: speed does not depend on the weights."""
    try:
        return blogdit.load(problem)
    except blogdit.InputError:
        made = recipe(problem)
        return Model(problem, Denoiser(made.denoiser), made.chain, problem, {})


def steps_per_second(model: Model, instances: Sequence[Instance], device: str, **options: int | str) -> float:
    """Steps of all instances together."""
    solver = Solver(model, SolveOptions(**options), device)  # type: ignore[arg-type]
    sampler = sampler_of(solver, instances)
    return rate(sampler.advance, device) * len(instances)


def sampler_of(solver: Solver, instances: Sequence[Instance]) -> Sampler:
    """All instances on the device, after three steps."""
    slots = solver.occupants.enter([Slot(place, one) for place, one in enumerate(instances)])
    sampler = solver.occupants.sampler_of(slots)
    sampler.advance(3)
    return sampler


def degree(instances: Sequence[Instance]) -> float:
    return sum(len(relation_list(one)[0]) for one in instances) / sum(one.size for one in instances)


# Vertices and edges of the graphs of a size in the paper's table, and its steps per second.
SIZES = {
    "800": ([(800, 19176)] * 5 + [(800, 4694)] * 4, 471),
    "1K": ([(1000, 9990)] * 5 + [(1000, 5909)] * 4, 422),
    "2K": ([(2000, 19990)] * 5 + [(2000, 11785)] * 4, 131),
    ">=3K": ([(3000, 6000)] * 3 + [(5000, 12498), (5000, 29570), (7000, 17148), (7000, 41459), (10000, 9999)], 38),
}


def maxcut(device: str) -> None:
    model = model_of("maxcut")
    draws = np.random.default_rng(0)
    for name, (graphs, reference) in SIZES.items():
        instances = [cut(random_graph(n, 2 * m / n / (n - 1), draws)) for n, m in graphs]
        shapes: dict[int, list[Instance]] = {}
        for instance in instances:
            shapes.setdefault(instance.size, []).append(instance)
        alone, together, physical = [], [], []
        for members in shapes.values():
            sizes = [degree([one]) for one in members]
            kinds = {round(size): place for place, size in enumerate(sizes)}  # graphs of one density take equally long
            rates = {kind: steps_per_second(model, [members[at]], device, chains=20) for kind, at in kinds.items()}
            alone += [rates[round(size)] for size in sizes]
            together += [steps_per_second(model, members, device, chains=20)] * len(members)
            tokens = 20 * members[0].size * 2
            physical += [1 / limit(model.denoiser.config, tokens, 2, size, device) for size in sizes]
        mean = statistics.mean(physical)
        show(f"MaxCut {name}, 20 chains, one graph at a time", statistics.mean(alone), "steps/s", reference,
             10 * reference, mean)  # fmt: skip
        show(f"MaxCut {name}, graphs of one size together", statistics.mean(together), "steps/s", reference,
             10 * reference, mean)  # fmt: skip


def mis(device: str) -> None:
    model = model_of("mis")
    for size, count, reference in (("small", 500, 0.44), ("large", 500, 4.81)):
        made = generate("mis", 4, seed=0, size=size)  # few, and often: every shape is compiled and timed on its own
        instances = [made[place % len(made)] for place in range(count if device == "cuda" else 8)]
        shapes: dict[Shape, list[Instance]] = {}
        for instance in instances:
            shapes.setdefault(shape_of(instance), []).append(instance)
        options = {**model.options_for(device), "chains": 1}
        seconds = sum(len(one) * 1000 / steps_per_second(model, one, device, **options) for one in shapes.values())
        tokens = 2 * statistics.mean(one.size for one in made)
        physical = 1000 * limit(model.denoiser.config, int(tokens), 2, degree(made), device)
        show(f"MIS {size}, 1,000 steps, batch of {len(instances)}", len(instances) / seconds, "instances/s",
             1 / reference, 5 / reference, 1 / physical)  # fmt: skip


def sudoku(device: str, puzzles: Sequence[Instance], model: str | None) -> None:
    """All puzzles in a stream, as `blogdit solve FILE --steps 2000` runs them."""
    blogdit.solve(puzzles[:8], model=model, device=device, steps=20)  # loads the model and compiles kernels
    start, solved, steps = synchronised(device), 0, 0
    for result in blogdit.solve_each(puzzles, model=model, device=device, steps=2000):
        solved += result.verdict.satisfied
        steps += result.steps
    seconds = synchronised(device) - start
    config = (blogdit.load(model) if model else model_of("sudoku")).denoiser.config
    physical = len(puzzles) / (steps * limit(config, 729, 9, 20, device))
    print(
        f"{len(puzzles)} puzzles: {solved / len(puzzles):.2%} solved, {steps / len(puzzles):.0f} steps each on average"
    )
    show("Sudoku, seconds of all / puzzles", len(puzzles) / seconds, "puzzles/s", 1 / 0.15, 1 / 0.005, physical)


def parts(device: str) -> None:
    """What a step spends outside the network: noise, blocks, energy, keeping the best."""
    many = 64 if device == "cuda" else 4
    for problem, settings, chains in (
        ("sudoku", {"min_givens": 24, "max_givens": 30}, 1),
        ("coloring", {"vertices": 100, "colors": 5, "p_min": 0.1, "p_max": 0.144}, 1),
        ("maxcut", {"vertices": 800, "p_min": 0.06, "p_max": 0.06}, 4),
        ("mis", {}, 1),
    ):
        model = model_of(problem)
        options = {**model.options_for(device), "chains": chains}
        solver = Solver(model, SolveOptions(**options), device)
        first, *others = generate(problem, many, seed=0, **settings)
        alike = [first, *(one for one in others if shape_of(one) == shape_of(first))]
        sampler = sampler_of(solver, alike)
        step = 1 / rate(sampler.advance, device, 1.0)
        block = torch.ones(sampler.slots.logits.shape[:2], dtype=torch.bool, device=device)

        def network(count: int, sampler: Sampler = sampler, block: torch.Tensor = block) -> None:
            with torch.no_grad():
                for _ in range(count):
                    sampler.denoise(sampler.slots.logits, block)

        network(2)
        inside = 1 / rate(network, device, 1.0)
        print(
            f"{problem:<9} {len(alike):3d} instances x {chains} chains, blocks {solver.options.block:<9} "
            f"{step * 1e3:8.2f} ms per step, network {inside * 1e3:8.2f} ms launched alone: "
            f"{max(1 - inside / step, 0):5.1%} outside it (bar 25 %, aim 10 %)",
            flush=True,
        )


def collation(device: str) -> None:
    """From instances to tensors, with literals where the network wants them; all on the CPU."""
    for problem, count, settings in (
        ("mis", 50, {"size": "large"}), ("maxcut", 50, {"vertices": 800, "p_min": 0.06, "p_max": 0.06}),
        ("coloring", 50, {"vertices": 200, "colors": 10, "p_min": 0.24, "p_max": 0.24}),
        ("sudoku", 1024, {}), ("latin", 20, {"order": 30}), ("general", 64, {}),
    ):  # fmt: skip
        instances, relates = generate(problem, count, seed=0, **settings), model_of(problem).denoiser.config.relates
        start = time.process_time()
        batch = collate(instances, related=relates)
        if not relates:
            batch.with_literals()
        spent = time.process_time() - start
        print(
            f"{problem:<9} {count:5d} instances {spent:8.3f} CPU seconds, {1e3 * spent / count:8.2f} ms each",
            flush=True,
        )


def alike(problem: str, count: int, most: int, **settings: Any) -> list[Instance]:
    """Generated instances with `most` variables, or up to a twentieth less."""
    made = generate(problem, 8 * count, seed=0, **settings)
    return [one for one in made if 0.95 * most <= one.size <= most][:count]


def attention(device: str) -> None:
    """One forward pass of four heads of 16 in bfloat16: lists of neighbours, and all pairs in one or in many tiles."""
    plain: dict[str, Any] = {"colors": 2, "relative": False}
    for name, instances, rows in (
        ("Sudoku", generate("sudoku", 1, seed=0), 512 * 9),
        ("colouring, 100 vertices", alike("coloring", 64, 100, vertices=100, p_min=0.45, p_max=0.45, **plain), 40),
        ("colouring, 200 vertices", alike("coloring", 64, 200, vertices=200, p_min=0.24, p_max=0.24, **plain), 40),
        ("RB-small", alike("mis", 120, 240), 8),
        ("RB-large", alike("mis", 48, 1000, size="large"), 8),
        ("colouring, 800 vertices", alike("coloring", 9, 800, vertices=800, p_min=0.06, p_max=0.06, **plain), 40),
    ):
        batch = collate(instances).to(device)
        qkv = torch.randn(rows, batch.groups * batch.variables, 3, 4, 16, dtype=torch.bfloat16, device=device)

        def milliseconds(bias: Bias, qkv: torch.Tensor = qkv) -> float:
            def work(count: int) -> None:
                for _ in range(count):
                    attend(qkv, bias)

            work(2)
            return 1000 / rate(work, device, 0.3)

        with torch.no_grad():
            lists = milliseconds(neighbour_lists(batch, torch.zeros(RELATION_FEATURES, 4, device=device)))
            tiles = milliseconds(pair_bits(batch))
            small = f", on the chip {milliseconds(pair_mask(batch)):.3f}" if batch.variables <= MASK_LIMIT else ""
        share = degree(instances) / batch.variables
        print(
            f"{name}: {batch.groups} graphs x {rows} rows, {share:.1%} of pairs: ms by lists {lists:.3f}, in tiles "
            f"{tiles:.3f} (x {lists / tiles:.2f}){small}; crowded {batch.relations.crowded.float().mean():.0%}",
            flush=True,
        )


def median_alone(puzzles: Sequence[Instance], device: str, model: str | None) -> None:
    """One puzzle after the other: what a user waits."""
    times = []
    for one in puzzles:
        start = synchronised(device)
        (result,) = blogdit.solve(one, model=model, device=device, time_limit=60)
        times.append(synchronised(device) - start if result.verdict.satisfied else float("inf"))
    print(
        f"hard Sudoku one at a time, {len(puzzles)} puzzles: median {statistics.median(times):.2f} s (bar 5 s, aim 1 s)"
    )


TABLES = {
    "training": training, "maxcut": maxcut, "mis": mis, "parts": parts, "collation": collation, "attention": attention,
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="+", choices=[*TABLES, "sudoku", "alone"])
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--puzzles", type=Path, help="a file of puzzles, one per line")
    parser.add_argument("--limit", type=int, default=None, help="puzzles to take from it")
    parser.add_argument("--model", help="for puzzles; else the bundled one")
    arguments = parser.parse_args()
    device = arguments.device
    print(torch.cuda.get_device_name() if device == "cuda" else f"CPU, {torch.get_num_threads()} threads")
    if arguments.puzzles is not None:
        lines = [line.split(",")[0].strip() for line in arguments.puzzles.read_text().splitlines() if line.strip()]
        puzzles = [puzzle(line) for line in lines[: arguments.limit]]
    else:
        puzzles = generate("sudoku", arguments.limit or 200, seed=1, min_givens=24, max_givens=30)
    for table in arguments.tables:
        if table == "sudoku":
            sudoku(device, puzzles, arguments.model)
        elif table == "alone":
            median_alone(puzzles, device, arguments.model)
        else:
            TABLES[table](device)


if __name__ == "__main__":
    main()
