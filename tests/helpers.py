"""What the tests share: small instances, every assignment of them, small networks, files of records."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import torch

from blogdit.core.instance import Instance
from blogdit.method.batch import Batch, collate
from blogdit.method.chain import ChainConfig
from blogdit.method.noise import GeneratorNoise
from blogdit.network.checkpoint import Model
from blogdit.network.denoiser import Denoiser, DenoiserConfig
from blogdit.problems import coloring
from blogdit.solver.options import SolveOptions
from blogdit.solver.solver import Solver
from small_instances import DOMAINS, KINDS, assignments, instances, objectives, solvable, zoo  # noqa: F401, for tests

torch.set_num_threads(1)  # tests run side by side


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


def answers(model, chosen, order=None, **options):
    """What each instance got, by its place in `chosen`."""
    order = range(len(chosen)) if order is None else order
    found = Solver(model, SolveOptions(**options)).results(chosen[place] for place in order)
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
