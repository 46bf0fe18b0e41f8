"""Targets that agree with the state: the nearest answer, its values renamed, and a search over the block."""

from __future__ import annotations

import itertools

import pytest
import torch

from blogdit.method.answers import Targets, nearest, surprise
from blogdit.method.batch import collate
from blogdit.method.energy import discrete_energy
from blogdit.method.improve import improved
from blogdit.problems import coloring, generate, mis
from helpers import noise

PATH = coloring.build((4, [[0, 1], [1, 2], [2, 3]]), colors=3)
EDGES = mis.build((4, [[0, 1], [2, 3]]))


def tensor(*rows):
    return torch.tensor(rows)


def test_the_answer_that_agrees_most_where_it_is_visible():
    batch = collate([EDGES])
    targets = Targets(tensor([[0, 1, 0, 1], [1, 0, 1, 0]]), torch.tensor([[True, True]]))
    state = tensor([[1, 0, 0, 1]])
    visible = torch.tensor([[[True, True, False, False]]])
    assert nearest(targets, state, visible, batch, rename=False).tolist() == [[[1, 0, 1, 0]]]
    assert nearest(targets, state, ~visible, batch, rename=False).tolist() == [[[0, 1, 0, 1]]]
    unknown = Targets(targets.values, torch.tensor([[True, False]]))
    assert nearest(unknown, state, visible, batch, rename=False).tolist() == [[[0, 1, 0, 1]]], "only what is known"


def test_renamed_answers_are_answers_and_agree_best():
    """Against all ways to rename three colours; greedy renaming finds the best where one agrees everywhere."""
    batch = collate([PATH])
    answer = torch.tensor([0, 1, 2, 0])
    targets = Targets(answer[None, None], torch.tensor([[True]]))
    everything = torch.ones(1, 1, 4, dtype=torch.bool)
    for names in itertools.permutations(range(3)):
        state = torch.tensor(names)[answer]
        found = nearest(targets, state[None, None], everything, batch, rename=True)
        assert found[0, 0].tolist() == state.tolist()
        assert PATH.verify(found[0, 0].numpy()).satisfied


def test_surprise_is_the_log_probability_of_the_block():
    batch = collate([PATH])
    logits = torch.randn(1, 4, 3, generator=torch.Generator().manual_seed(0))
    answers, block = tensor([0, 1, 2, 0]), torch.tensor([[True, False, True, False]])
    expected = -sum(logits[0, i].log_softmax(-1)[answers[0, i]] for i in (0, 2))
    assert surprise(logits, answers, block, batch).item() == pytest.approx(expected.item())


def test_a_search_changes_the_block_alone_and_only_for_the_better():
    batch = collate(generate("mis", 3, seed=1))
    values = torch.zeros(1, batch.size * batch.variables, dtype=torch.long)
    block = (torch.rand(values.shape, generator=torch.Generator().manual_seed(1)) < 0.5) & batch.free
    found, gained = improved(values, block, batch, 24, 0.3, noise(2))
    assert torch.equal(found[~block], values[~block])
    before, after = discrete_energy(values, batch)[0], discrete_energy(found, batch)[0]
    assert gained.all(), "an empty set can only get better"
    assert (after < before).all()


def test_a_search_leaves_what_is_best():
    """Both edges of the graph have one vertex in the set: no change of the block is better."""
    batch = collate([EDGES])
    values = tensor([1, 0, 1, 0])
    found, gained = improved(values, batch.free, batch, 16, 0.3, noise(0))
    assert not gained.any()
    assert torch.equal(found, values)
