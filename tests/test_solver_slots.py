"""Who is on the device: joining and leaving change nobody's numbers."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from blogdit.core.instance import Instance, Objective
from blogdit.method.chain import ChainConfig
from blogdit.network.checkpoint import Model
from blogdit.problems import generate, maxcut, sudoku
from blogdit.solver.budget import Budget
from blogdit.solver.options import SolveOptions
from blogdit.solver.slots import Slot, Slots, goal_of, instance_key, shape_of
from blogdit.solver.solver import Solver
from helpers import small_denoiser

CPU = torch.device("cpu")
TENSORS = ("logits", *Slots.OF_CHAINS, *Slots.OF_INSTANCES)


def per_instance(slots: Slots, place: int) -> list[np.ndarray]:
    """Everything that belongs to one instance."""
    state = [slots.batch.per_instance(slots.logits)[:, place], slots.noise.keys[place], slots.noise.draws[place]]
    state += [getattr(slots, name)[:, place] for name in Slots.OF_CHAINS]
    state += [getattr(slots, name)[place] for name in Slots.OF_INSTANCES]
    return [tensor.numpy() for tensor in state]


@pytest.fixture
def model():
    return Model("any", small_denoiser(dim=32, head_dim=16), ChainConfig(), "random weights")


@pytest.fixture(params=["sudoku", "coloring"])
def group(request):
    """Five instances of one shape: Sudokus share their structure, graphs do not."""
    if request.param == "sudoku":
        return generate("sudoku", 5, seed=1, box=2, min_givens=6, max_givens=9)
    return generate("coloring", 5, seed=1, vertices="20-30", colors=4)


def test_joining_and_leaving_change_nobody(model, group):
    """Two slotss that join after two steps, and lose members, go on like one that began alone."""
    options = SolveOptions(chains=3, steps=99)

    def after(steps: int, slots: Slots) -> Slots:
        for _ in range(steps):
            Solver(model, options)._advance(slots)
        return slots

    def enter(*places: int) -> Slots:
        return Solver(model, options).occupants.enter([Slot(place, group[place]) for place in places])

    mixed = after(3, after(2, enter(0, 1)).join(after(2, enter(2, 3, 4))))
    mixed = after(2, mixed.keep([4, 1]))
    assert [slot.index for slot in mixed.members] == [4, 1]
    for place, slot in enumerate(mixed.members):
        alone = after(7, enter(slot.index))
        for here, there in zip(per_instance(mixed, place), per_instance(alone, 0), strict=True):
            assert np.array_equal(here, there)
        assert slot.steps == 7


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
    assert shape_of(Instance([5] * 129 + [2])) == (192, 6, False, False), "where domains differ, shapes are few"
    assert shape_of(Instance([])) == (1, 1, True, False)
    path = (3, [[0, 1], [1, 2]])
    unweighted = [maxcut.build(path), maxcut.build((*path, [2, 2]))]
    weighted = [maxcut.build((*path, weights)) for weights in ([1, 2], [-1, -1])]
    assert [shape_of(one)[3] for one in unweighted + weighted] == [False, False, True, True]


def test_a_slot_that_starts_again_keeps_what_it_has_spent(model, group):
    slot = Slot(0, group[0], Budget(sampled=3.0))
    slot.steps = 5
    Slots.enter([slot], model, 1, 0, CPU, [-math.inf])
    assert (slot.budget.spent, slot.steps) == (3.0, 0)


def test_the_values_of_the_chains_are_whole_assignments(model, group):
    slots = Slots.enter([Slot(place, one) for place, one in enumerate(group)], model, 3, 0, CPU, [-math.inf] * 5)
    for one, values in zip(group, slots.chain_values(range(5)), strict=True):
        assert values.shape == (3, one.size)
        assert (values[:, one.is_given] == one.given_values[one.is_given]).all()
        assert ((values >= 0) & (values < one.domain_sizes)).all()


def test_the_goal_is_in_minimisation_form():
    cut, least = maxcut.build((2, [[0, 1]])), Instance([2], objective=Objective("minimize"))
    graph = generate("coloring", 1, seed=0)[0]
    assert goal_of(cut, SolveOptions()) == -math.inf
    assert goal_of(cut, SolveOptions(target=5)) == pytest.approx(-5)
    assert goal_of(least, SolveOptions(target=5)) == pytest.approx(5)
    assert goal_of(cut, SolveOptions(first_feasible=True)) > 1e300
    assert goal_of(graph, SolveOptions(target=5)) == -math.inf
