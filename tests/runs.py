"""Small training runs that several files of tests make."""

from __future__ import annotations

import json

import torch

from blogdit.training.data import generated_data
from blogdit.training.recipe import recipe
from blogdit.training.state import Budget
from blogdit.training.trainer import Trainer

TINY = {
    "values": "axis", "own_answers": 0.0, "position_dims": 2, "relation": "neighbours",
    "box": 2, "dim": 16, "heads": 1, "head_dim": 16, "layers": 1, "batch_size": 8, "unroll": 2, "horizon": 6,
    "pool": 64, "validation": 8, "validation_steps": 3, "validate_every": 4, "warmup": 3,
}  # fmt: skip


def trainer(updates=12, seed=0, device="cpu", **settings) -> Trainer:
    chosen = recipe("sudoku", {**TINY, **settings})
    return Trainer(chosen, generated_data(chosen, seed), Budget(updates=updates), seed, device)


def log_of(out):
    return [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]


def numbers(records):
    """Everything of the log but the clock."""
    return [{name: value for name, value in record.items() if "second" not in name} for record in records]


def assert_same_run(one: Trainer, other: Trainer):
    for name, weights in one.denoiser.state_dict().items():
        assert torch.equal(weights, other.denoiser.state_dict()[name]), name
        assert torch.equal(one.average[name], other.average[name]), name
    for mine, yours in zip(one.shelves, other.shelves, strict=True):
        assert torch.equal(mine.chains.logits, yours.chains.logits)
        assert torch.equal(mine.chains.index, yours.chains.index)
