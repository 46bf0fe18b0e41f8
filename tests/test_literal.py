"""The denoiser that sees every constraint: its symmetries, its company, what givens rule out."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from blogdit.method.batch import GIVEN_LOGIT, collate
from blogdit.network.config import DenoiserConfig
from blogdit.network.denoiser import Denoiser
from blogdit.problems import generate, latin, sudoku
from helpers import small_denoiser

PUZZLES = generate("sudoku", 3, seed=3, box=2)


def model(**settings):
    return small_denoiser(values="literals", dim=16, layers=2, **settings)


def outputs(network, batch, logits, block):
    with torch.no_grad():
        return network.on(batch)(logits, block)


def drawn(batch, seed=0):
    draws = torch.Generator().manual_seed(seed)
    shape = (batch.rows, batch.groups * batch.variables)
    return torch.randn(*shape, batch.values, generator=draws), (torch.rand(shape, generator=draws) < 0.5) & batch.free


def renamed(puzzle, names):
    values = {cell: int(names[value]) for cell, value in puzzle.givens.items()}
    return sudoku.build([values.get(cell, -1) + 1 for cell in range(puzzle.size)])


def test_renaming_the_digits_renames_the_output():
    names = np.array([2, 0, 3, 1])  # digit v is now called names[v]
    network, batch = model(), collate(PUZZLES[:1])
    other = collate([renamed(PUZZLES[0], names)])
    logits, block = drawn(batch)
    moved = torch.empty_like(logits)
    moved[..., names] = logits
    for one, two in zip(outputs(network, batch, logits, block), outputs(network, other, moved, block), strict=True):
        assert torch.allclose(one, two[..., names], atol=1e-5)


def test_turning_a_square_over_turns_the_output_over():
    """Rows and columns of a Latin square play the same part."""
    square = generate("latin", 1, seed=2, order=5)[0]
    symbols = np.array([square.givens.get(cell, -1) + 1 for cell in range(25)]).reshape(5, 5)
    network, batch, other = model(), collate([square]), collate([latin.build(symbols.T)])
    logits, block = drawn(batch)
    places = np.arange(25).reshape(5, 5).T.ravel()
    turned = outputs(network, other, logits[:, places], block[:, places])
    for one, two in zip(outputs(network, batch, logits, block), turned, strict=True):
        assert torch.allclose(one[:, places], two, atol=1e-5)


def test_company_and_padding_change_nothing():
    network = model()
    batch = collate(PUZZLES, chains=2)
    logits, block = drawn(batch)
    together = outputs(network, batch, logits, block)
    for row in range(batch.rows):
        alone = collate([PUZZLES[row % 3]])
        for one, two in zip(
            outputs(network, alone, logits[row : row + 1], block[row : row + 1]), together, strict=True
        ):
            assert torch.allclose(one[0], two[row], atol=1e-5)


def test_what_a_given_rules_out_is_not_chosen():
    batch = collate(PUZZLES)
    mean, log_variance = outputs(model(), batch, *drawn(batch))
    literals = batch.with_literals().literals
    for b in range(3):
        open_ = set(literals.place[b][literals.real[b]].tolist())
        closed = [place for place in range(16 * 4) if place not in open_]
        assert (mean[b].flatten()[closed] == -GIVEN_LOGIT).all()
        assert (log_variance[b].flatten()[closed] == log_variance.min()).all()


def test_more_loops_are_the_same_weights_again():
    network, batch = model(loops=1), collate(PUZZLES)
    deep = Denoiser(DenoiserConfig(**{**vars(network.config), "loops": 3}))
    deep.load_state_dict(network.state_dict())
    inputs = drawn(batch)
    assert not torch.allclose(outputs(deep, batch, *inputs)[0], outputs(network, batch, *inputs)[0])


@pytest.mark.parametrize("problem", ["sudoku", "coloring"])
def test_every_weight_learns(problem):
    network = model()
    batch = collate(PUZZLES if problem == "sudoku" else generate("coloring", 2, seed=1))
    mean, log_variance = network.on(batch)(*drawn(batch))
    (mean.square().mean() + log_variance.square().mean()).backward()
    used = [name for name, parameter in network.named_parameters() if parameter.grad is not None]
    assert len(used) == len(list(network.parameters()))
