"""Several processes train as one would with the whole batch."""

from __future__ import annotations

import multiprocessing
import os

import pytest
import torch
from torch import distributed

from blogdit import api
from blogdit.core.errors import InputError
from blogdit.core.stopping import Stop, Stopped
from blogdit.training import runlog
from blogdit.training import trainer as training
from blogdit.training.data import generated_data
from blogdit.training.recipe import recipe
from blogdit.training.state import Budget
from blogdit.training.trainer import Trainer
from runs import TINY, log_of, trainer

spawn = multiprocessing.get_context("spawn")


# -- several processes -------------------------------------------------------------------------------------------------


def train_shard(rank, folder, updates, minutes, stop):
    """One of two processes."""
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=f"file://{folder}/store{stop}", rank=rank, world_size=2)
    chosen = recipe("sudoku", {**TINY, "batch_size": 16})
    run = Trainer(chosen, generated_data(chosen, 0), Budget(updates=updates, minutes=minutes), 0)
    out = folder / "run"
    if (out / runlog.STATE).exists():
        run.load(out)
    for record in run.run(out, save_every=0.0 if updates else 0.05):
        if record["update"] == stop:
            break
    weights = {name: p.clone() for name, p in run.denoiser.state_dict().items()}
    torch.save((weights, run.average, run.progress.updates, run.progress.seconds), folder / f"rank{rank}.pt")
    distributed.barrier()  # who leaves first takes the connection away from the other
    os._exit(0)  # gloo's threads may outlive the interpreter, which then aborts


def two_processes(folder, updates=None, minutes=None, stop=None):
    folder.mkdir(exist_ok=True)
    # Not forked: what the threads of this process hold at that moment could make gloo hang.
    processes = [spawn.Process(target=train_shard, args=(rank, folder, updates, minutes, stop)) for rank in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    codes = [process.exitcode for process in processes]
    for process in processes:
        process.kill()
    assert codes == [0, 0]
    return [torch.load(folder / f"rank{rank}.pt") for rank in range(2)]


@pytest.fixture(scope="module")
def single(tmp_path_factory):
    """One process with the whole batch."""
    out = tmp_path_factory.mktemp("single")
    run = trainer(10, batch_size=16)
    return run, list(run.run(out))


def test_two_processes_equal_one_with_the_whole_batch(tmp_path, single):
    """The same losses, gradient norms and block shares in the log, the same weights and averages in both processes."""
    run, records = single
    ranks = two_processes(tmp_path / "two", updates=10)
    logged = log_of(tmp_path / "two" / "run")
    assert [record["update"] for record in logged] == list(range(1, 11))
    for one, two in zip(records, logged, strict=True):
        for name in ("loss", "energy", "entropy", "noise_matching", "gradient_norm"):
            assert two[name] == pytest.approx(one[name], rel=1e-3, abs=1e-3), name
        assert two["share"] == pytest.approx(one["share"], abs=0.05), "a mean of shares over different free variables"
        assert two.get("valid_score") == one.get("valid_score")
    for weights, average, updates, _ in ranks:
        assert updates == 10
        for name, p in run.denoiser.state_dict().items():
            torch.testing.assert_close(weights[name], p, rtol=1e-3, atol=1e-4)
            torch.testing.assert_close(average[name], run.average[name], rtol=1e-3, atol=1e-4)
    assert all(torch.equal(ranks[0][0][name], ranks[1][0][name]) for name in ranks[0][0])


def test_two_processes_resume_together(tmp_path, single):
    """Stopped after 4 updates and resumed: the chains of both processes go on."""
    run, records = single
    two_processes(tmp_path / "two", updates=10, stop=4)
    ranks = two_processes(tmp_path / "two", updates=10)
    logged = log_of(tmp_path / "two" / "run")
    assert [record["loss"] for record in logged] == pytest.approx([r["loss"] for r in records], rel=1e-3, abs=1e-3)
    for name, p in run.denoiser.state_dict().items():
        torch.testing.assert_close(ranks[0][0][name], p, rtol=1e-3, atol=1e-4)


def test_two_processes_agree_on_the_clock(tmp_path):
    """With a budget in minutes both do the same number of updates, save at the same moments and hold equal weights."""
    first, second = two_processes(tmp_path / "two", minutes=0.7 / 60)
    assert first[2] == second[2] > 0
    assert first[3] == second[3] >= 0.7
    assert all(torch.equal(first[0][name], second[0][name]) for name in first[0])


def test_a_batch_must_split_evenly(monkeypatch):
    monkeypatch.setattr(training.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(training.distributed, "get_rank", lambda: 0)
    monkeypatch.setattr(training.distributed, "get_world_size", lambda: 3)
    with pytest.raises(ValueError, match="batch_size must be a multiple of 3 processes, got 8"):
        trainer()


def test_who_is_started_anew_by_torchrun_goes_on(tmp_path, monkeypatch):
    """The same command without --resume: torchrun says that it is not the first time."""
    settings, stop = TINY | {"validate_every": 10**6}, Stop()

    def on_record(record, spent):
        if record["update"] == 3:
            stop.ask()

    with pytest.raises(Stopped):
        api.train("sudoku", tmp_path, updates=8, settings=settings, on_record=on_record, stop=stop, device="cpu")
    with pytest.raises(InputError, match="holds a training run already"):
        api.train("sudoku", tmp_path, updates=8, settings=settings, device="cpu")
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "1")
    api.train("sudoku", tmp_path, updates=8, settings=settings, device="cpu")
    assert [record["update"] for record in log_of(tmp_path)] == list(range(1, 9))
