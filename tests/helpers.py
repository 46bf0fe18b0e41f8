"""What the tests share: small instances, every assignment of them, small networks, files of records."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import numpy as np
import torch
from hypothesis import strategies as st

from blogdit.core.constraints import AllDifferent, Conflict, Count, Linear, NotEqual, Table
from blogdit.core.instance import Instance, Objective
from blogdit.method.batch import Batch, collate
from blogdit.method.chain import ChainConfig
from blogdit.method.noise import GeneratorNoise
from blogdit.network.checkpoint import Model
from blogdit.network.denoiser import Denoiser, DenoiserConfig
from blogdit.problems import coloring
from blogdit.solver.options import SolveOptions
from blogdit.solver.solver import Solver
from test_constraints import all_different, conflict, count, linear, not_equal, table

torch.set_num_threads(1)  # tests run side by side

KINDS = {
    "all_different": all_different,
    "not_equal": not_equal,
    "conflict": conflict,
    "linear": linear,
    "count": count,
    "table": table,
}
DOMAINS = st.lists(st.integers(1, 3), min_size=2, max_size=4)


@st.composite
def objectives(draw, domains):
    """Terms of all three kinds with whole weights, so that sums are exact."""
    n = len(domains)
    variables = st.integers(0, n - 1)
    pairs = st.permutations(range(n)).map(lambda order: order[:2])
    weights = st.integers(-4, 4)
    unary, differ, pairwise = [], [], []
    for _ in range(draw(st.integers(0, 3))):
        i = draw(variables)
        unary.append((i, draw(st.integers(0, domains[i] - 1)), draw(weights)))
    for _ in range(draw(st.integers(0, 3))):
        differ.append((*draw(pairs), draw(weights)))
    for _ in range(draw(st.integers(0, 3))):
        i, j = draw(pairs)
        values = [draw(st.integers(0, domains[v] - 1)) for v in (i, j)]
        pairwise.append((i, j, *values, draw(weights)))
    return Objective(
        draw(st.sampled_from(["minimize", "maximize"])),
        [row[:-1] for row in unary],
        [row[-1] for row in unary],
        [row[:-1] for row in differ],
        [row[-1] for row in differ],
        [row[:-1] for row in pairwise],
        [row[-1] for row in pairwise],
    )


@st.composite
def instances(draw, kinds=tuple(KINDS), objective=None, sizes=DOMAINS):
    """Small instances with one group of some of the kinds; `objective` True, False or None for either."""
    domains = draw(sizes)
    chosen = draw(st.lists(st.sampled_from(list(kinds)), min_size=1, max_size=3, unique=True))
    groups = tuple(draw(KINDS[kind](domains))[0] for kind in chosen)
    wanted = draw(st.booleans()) if objective is None else objective
    goal = draw(objectives(domains)) if wanted else None
    givens = {i: draw(st.integers(0, size - 1)) for i, size in enumerate(domains) if draw(st.integers(0, 4)) == 0}
    return Instance(np.array(domains), groups, goal, givens)


def zoo() -> list[Instance]:
    """Hand-made instances of different sizes, domains and kinds; two have an objective, the last no constraints."""
    return [
        Instance(
            np.array([3, 3, 3, 2]),
            (AllDifferent([[0, 1, 2]]), NotEqual([[2, 3]]), Count([[0, 1, 3]], [1], [1], [2])),
            givens={1: 2},
        ),
        Instance(
            np.array([2, 2]),
            (Conflict([[0, 1]], (1, 1)),),
            Objective("maximize", unary=[[0, 1], [1, 1]], unary_weights=[2.0, 3.0]),
        ),
        Instance(
            np.array([5, 1, 4, 3, 2]),
            (Linear([[0, 2, 3]], [[1, -2, 3]], ["<="], [2]), Table([[3, 4]], [[0, 1], [2, 0]]), NotEqual([[0, 4]])),
        ),
        Instance(
            np.array([2, 3, 2]),
            (Table([[0, 1, 2]], [[0, 2, 1], [1, 1, 1]]), AllDifferent([[0, 2], [1]])),
            Objective(
                "minimize", differ=[[0, 1]], differ_weights=[1.5], pairwise=[[1, 2, 0, 1]], pairwise_weights=[-2]
            ),
        ),
        Instance(np.array([4, 4, 4])),
    ]


def assignments(instance: Instance) -> np.ndarray:
    """Every assignment within the domains, (number, n)."""
    return np.array(list(itertools.product(*(range(size) for size in instance.domain_sizes))), np.int64)


def solvable(instance: Instance) -> bool:
    """By trying everything."""
    return any(instance.verify(values).satisfied for values in assignments(instance))


def enumerated(instance: Instance) -> tuple[Batch, torch.Tensor, np.ndarray]:
    """A batch with one chain for each assignment, those assignments (R, M), and the same as an array."""
    every = assignments(instance)
    batch = collate([instance], chains=len(every))
    return batch, batch.lay(torch.from_numpy(every)[:, None]), every


def random_simplex(batch: Batch, seed: int = 0) -> torch.Tensor:
    """Random rows on the simplex within the domains, (R, M, K)."""
    logits = torch.randn(batch.rows, batch.groups * batch.variables, batch.values, generator=generator(seed))
    return (2 * logits).masked_fill(~batch.domain, float("-inf")).softmax(-1)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def noise(seed: int = 0) -> GeneratorNoise:
    return GeneratorNoise(generator(seed))


def small_denoiser(seed: int = 0, **settings) -> Denoiser:
    """A network with large random weights wherever it learns, so that every input matters to the output."""
    model = Denoiser(DenoiserConfig(**{"dim": 16, "heads": 2, "head_dim": 8, "layers": 2, **settings}))
    draws = generator(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            weights = torch.randn(parameter.shape, generator=draws) * 0.4
            parameter.copy_(weights if parameter.requires_grad else parameter)
    return model.eval()


TRIANGLE = coloring.build((3, [[0, 1], [1, 2], [0, 2]]), colors=2)  # has no solution


def random_model(**settings) -> Model:
    """Random weights: it solves nothing on purpose, but every number matters."""
    return Model("any", small_denoiser(dim=32, head_dim=16, layers=1, **settings), ChainConfig(), "random weights")


def answers(model, instances, order=None, **options):
    """What each instance got, by its place in `instances`."""
    order = range(len(instances)) if order is None else order
    found = Solver(model, SolveOptions(**options)).results(instances[place] for place in order)
    results = {order[index]: result for index, result in found}
    return [
        (r.values.tolist(), r.steps, r.status, r.objective, r.sampler) for _, r in sorted(results.items())
    ]  # fmt: skip


def records(source: str | Path) -> list[dict]:
    text = source.read_text() if isinstance(source, Path) else source
    return [json.loads(line) for line in text.splitlines()]


def write(path: Path, lines: list[str]) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines))
    return path
