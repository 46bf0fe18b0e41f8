"""Batches, networks and rates, for the tests of the chain and of its loss."""

from __future__ import annotations

from blogdit.method.batch import collate
from blogdit.method.chain import ChainConfig, prior
from blogdit.problems import generate
from helpers import noise, small_denoiser, zoo


def batches():
    puzzles = generate("sudoku", 3, seed=0, box=2, min_givens=4, max_givens=6)
    return {"shared": collate(puzzles, chains=2), "union": collate(zoo(), chains=3)}


def start(batch, config=ChainConfig(), seed=0):  # noqa: B008
    return small_denoiser().on(batch), prior(batch, config, noise(seed))


def rates(config, progress):
    """Of the blocks, for each row of progress (steps, chains, B)."""
    return config.schedule.rate(progress[..., None])
