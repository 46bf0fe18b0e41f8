"""Who is on the device: joining and leaving change nobody's numbers."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from blogdit.core.instance import Instance
from blogdit.method.chain import ChainConfig
from blogdit.network.checkpoint import Model
from blogdit.problems import generate, maxcut, sudoku
from blogdit.solver.options import SolveOptions
from blogdit.solver.slots import Crew, Job, instance_key, shape_of
from blogdit.solver.solver import Solver
from helpers import small_denoiser

CPU = torch.device("cpu")
TENSORS = ("logits", *Crew.OF_CHAINS, *Crew.OF_INSTANCES)


def per_instance(crew: Crew, place: int) -> list[np.ndarray]:
    """Everything that belongs to one instance."""
    state = [crew.batch.per_instance(crew.logits)[:, place], crew.noise.keys[place], crew.noise.draws[place]]
    state += [getattr(crew, name)[:, place] for name in Crew.OF_CHAINS]
    state += [getattr(crew, name)[place] for name in Crew.OF_INSTANCES]
    return [tensor.numpy() for tensor in state]


@pytest.fixture(params=["axis", "table"])
def model(request):
    denoiser = small_denoiser(dim=32, head_dim=16, values=request.param, max_values=4)
    return Model("any", denoiser, ChainConfig(), "random weights")


@pytest.fixture(params=["sudoku", "coloring"])
def group(request):
    """Five instances of one shape: Sudokus share their structure, graphs do not."""
    if request.param == "sudoku":
        return generate("sudoku", 5, seed=1, box=2, min_givens=6, max_givens=9)
    return generate("coloring", 5, seed=1, vertices="20-30", colors=4)


def test_joining_and_leaving_change_nobody(model, group):
    """Two crews that join after two steps, and lose members, go on like one that began alone."""
    options = SolveOptions(chains=3, steps=99)

    def after(steps: int, crew: Crew) -> Crew:
        for _ in range(steps):
            Solver(model, options)._take_steps(crew)
        return crew

    def enter(*places: int) -> Crew:
        return Solver(model, options)._enter([Job(place, group[place]) for place in places])

    mixed = after(3, after(2, enter(0, 1)).join(after(2, enter(2, 3, 4))))
    mixed = after(2, mixed.keep([4, 1]))
    assert [job.index for job in mixed.jobs] == [4, 1]
    for place, job in enumerate(mixed.jobs):
        alone = after(7, enter(job.index))
        for here, there in zip(per_instance(mixed, place), per_instance(alone, 0), strict=True):
            assert np.array_equal(here, there)
        assert job.steps == 7


def test_the_key_depends_on_the_content_alone():
    one, other = generate("coloring", 2, seed=0)
    renamed = Instance(one.domain_sizes, one.constraints, problem="csp", name="another")
    assert instance_key(one, 0) == instance_key(renamed, 0)
    assert len({instance_key(one, 0), instance_key(other, 0), instance_key(one, 1)}) == 3
    puzzle = "1..." + "." * 12
    assert instance_key(sudoku.build(puzzle), 0) != instance_key(sudoku.build(puzzle.replace("1", "2")), 0)
    signs, real = (generate("maxcut", 1, seed=0, weights=weights)[0] for weights in ("signs", "normal"))
    assert instance_key(signs, 0) != instance_key(real, 0)


def test_the_shape_depends_on_the_instance_alone():
    assert shape_of(sudoku.build("." * 81)) == (81, 9, True, False)  # on a grid: no padding
    assert shape_of(Instance([3] * 33)) == (64, 3, True, False)
    assert shape_of(Instance([3] * 64)) == (64, 3, True, False)
    assert shape_of(Instance([3] * 63 + [2])) == (64, 3, False, False), "domains that differ run another network code"
    assert shape_of(Instance([])) == (1, 1, True, False)
    path = (3, [[0, 1], [1, 2]])
    unweighted = [maxcut.build(path), maxcut.build((*path, [2, 2]))]
    weighted = [maxcut.build((*path, weights)) for weights in ([1, 2], [-1, -1])]
    assert [shape_of(one)[3] for one in unweighted + weighted] == [False, False, True, True]


def test_who_starts_again_keeps_the_time_that_is_left(model, group):
    job = Job(0, group[0])
    Crew.enter([job], model, 1, 0, CPU)
    entered, job.steps = job.entered, 5
    Crew.enter([job], model, 1, 0, CPU)
    assert (job.entered, job.steps) == (entered, 0)
