"""Gradients that accumulate: a batch in parts makes the update of the whole batch."""

from __future__ import annotations

import pytest
import torch

from blogdit.core.errors import InputError
from blogdit.problems import generate
from blogdit.training.data import Data
from blogdit.training.recipe import recipe
from blogdit.training.state import Budget
from blogdit.training.trainer import Trainer
from runs import TINY, trainer

GRAPHS = {name: value for name, value in TINY.items() if name not in ("box", "position_dims")}


def on_graphs(accumulate: int) -> Trainer:
    """Each instance has its own structure: chains lie side by side in one row."""
    chosen = recipe("coloring", {**GRAPHS, "accumulate": accumulate})
    pool = generate("coloring", 24, seed=3, vertices="6-9", colors=3)
    return Trainer(chosen, Data(pool[4:], pool[:4]), Budget(updates=8), 0)


TAUGHT = {"own_answers": 0.5, "show_answer": 0.5, "teacher_start": 0.3, "teacher_every": 1.0, "teacher_steps": 10}
MAKERS = {
    "puzzles": lambda parts: trainer(8, accumulate=parts),
    "own answers": lambda parts: trainer(8, accumulate=parts, teacher_instances=16, **TAUGHT),
    "graphs": on_graphs,
}


@pytest.mark.parametrize("kind", MAKERS)
def test_parts_of_a_batch_make_the_update_of_the_whole(kind, tmp_path):
    """Eight chains at once, or one after the other: the same losses, gradient norms, chains and weights up to rounding.
    Validation and the teacher, which come in between, draw from other generators."""
    whole, parts = MAKERS[kind](1), MAKERS[kind](8)
    expected, found = (list(run.run(tmp_path / str(n))) for n, run in enumerate((whole, parts)))
    for one, other in zip(expected, found, strict=True):
        for name in ("loss", "energy", "entropy", "noise_matching", "gradient_norm"):
            assert other[name] == pytest.approx(one[name], rel=1e-3, abs=1e-4), name
    for name, weights in whole.denoiser.state_dict().items():
        torch.testing.assert_close(parts.denoiser.state_dict()[name], weights, rtol=1e-3, atol=1e-4)
    for mine, yours in zip(whole.shelves, parts.shelves, strict=True):
        torch.testing.assert_close(mine.chains.logits, yours.chains.logits, rtol=1e-3, atol=1e-3)
        assert torch.equal(mine.chains.index, yours.chains.index)
        assert torch.equal(mine.chains.age, yours.chains.age)
    assert torch.equal(whole.noise.generator.get_state(), parts.noise.generator.get_state())


def test_a_part_has_less_to_keep():
    """The network sees an eighth of the chains at a time: that is what saves memory."""
    run, seen = trainer(8, accumulate=8), []
    run.denoiser.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0].shape[0]))
    run.update()
    assert seen == [1] * 8 * run.recipe.training.unroll


def test_the_log_says_how_fast_a_process_is(tmp_path):
    """Reverse steps of its chains in a second: 8 chains, 2 steps each."""
    records = list(trainer(6).run(tmp_path))
    rates = [record["chain_steps_per_second"] for record in records]
    assert all(rate > 0 for rate in rates)
    assert sum(16 / rate for rate in rates) <= records[-1]["seconds"] + 0.01


def test_a_resumed_run_may_have_other_parts():
    """Everything else stays as it is."""
    before = recipe("sudoku", TINY)
    again = before.resumed({"accumulate": 4, "dim": 16})
    assert (again.training.accumulate, again.denoiser) == (4, before.denoiser)
    assert again.resumed({}).training.accumulate == 4
    with pytest.raises(InputError, match="expected batch_size=8, got 4"):
        before.resumed({"batch_size": 4})
    with pytest.raises(ValueError, match="accumulate must be at least 1, got 0"):
        recipe("sudoku", {**TINY, "accumulate": 0})
