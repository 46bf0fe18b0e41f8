"""Several processes train as one would with the whole batch."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import distributed

from blogdit.core.errors import InputError
from blogdit.network.checkpoint import load_model
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
        process.join(300)
    codes = [process.exitcode for process in processes]
    for process in processes:
        process.kill()
    assert codes == [0, 0]
    return [torch.load(folder / f"rank{rank}.pt") for rank in range(2)]


# A process of torchrun. The first one, which also writes the files, dies once after update 5; the last state is that of
# update 1.
WORKER = """
import os, signal, sys
from pathlib import Path
import torch
import blogdit
from runs import TINY

torch.set_num_threads(1)

def die(record, spent):
    if record["update"] == 5 and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
        os.kill(os.getpid(), signal.SIGKILL)

blogdit.train("sudoku", sys.argv[1], updates=10, settings=TINY | {"batch_size": 16}, resume=True, device="cpu",
              on_record=die)
Path(sys.argv[1], "ended" + os.environ["RANK"]).touch()
os._exit(0)  # gloo's threads may outlive the interpreter, which then aborts
"""


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    """The folder of two processes that were to do 10 updates and stopped after 4."""
    folder = tmp_path_factory.mktemp("stopped") / "two"
    two_processes(folder, updates=10, stop=4)
    return folder


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


def test_two_processes_resume_together(tmp_path, single, stopped):
    """Stopped after 4 updates and resumed: the chains of both processes go on."""
    run, records = single
    shutil.copytree(stopped, tmp_path / "two")
    ranks = two_processes(tmp_path / "two", updates=10)
    logged = log_of(tmp_path / "two" / "run")
    assert [record["loss"] for record in logged] == pytest.approx([r["loss"] for r in records], rel=1e-3, abs=1e-3)
    for name, p in run.denoiser.state_dict().items():
        torch.testing.assert_close(ranks[0][0][name], p, rtol=1e-3, atol=1e-4)


def test_torchrun_restarts_a_run_whose_process_was_killed(tmp_path, single):
    """The first process is killed outright. The elastic agent starts both again with the same command, and they go on
    from the last state: the log and the weights are those of a run that nobody killed."""
    run, records = single
    (tmp_path / "worker.py").write_text(WORKER)
    out = tmp_path / "run"
    elastic = ["--standalone", "--nproc-per-node", "2", "--max-restarts", "1", "--monitor-interval", "0.1"]
    modules = os.pathsep.join([os.environ.get("PYTHONPATH", ""), str(Path(__file__).parent)])
    here = os.environ | {"PYTHONPATH": modules, "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
    command = [sys.executable, "-m", "torch.distributed.run", *elastic, str(tmp_path / "worker.py"), str(out)]
    done = subprocess.run(command, env=here, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert "SIGKILL" in done.stderr or "exitcode: -9" in done.stderr
    assert {path.name for path in out.glob("ended*")} == {"ended0", "ended1"}
    logged = log_of(out)
    assert [record["update"] for record in logged] == list(range(1, 11))
    assert [record["loss"] for record in logged] == pytest.approx([r["loss"] for r in records], rel=1e-3, abs=1e-3)
    for name, weights in load_model(out / "last.safetensors").denoiser.state_dict().items():
        torch.testing.assert_close(weights, run.average[name], rtol=1e-3, atol=1e-4)


def test_a_run_of_two_processes_goes_on_with_one(tmp_path, single, stopped):
    """The batch, its chains and its random numbers are divided anew; here into four parts, one after the other."""
    _, records = single
    shutil.copytree(stopped / "run", tmp_path / "run")
    alone = trainer(10, batch_size=16, accumulate=4)
    alone.load(tmp_path / "run")
    rest = [record["loss"] for record in alone.run(tmp_path / "run")]
    assert len(rest) < 10
    assert rest == pytest.approx([r["loss"] for r in records][-len(rest) :], rel=1e-3, abs=1e-3)


def test_two_processes_agree_on_the_clock(tmp_path):
    """With a budget in minutes both do the same number of updates, save at the same moments and hold equal weights."""
    first, second = two_processes(tmp_path / "two", minutes=0.7 / 60)
    assert first[2] == second[2] > 0
    assert first[3] == second[3] >= 0.7
    assert all(torch.equal(first[0][name], second[0][name]) for name in first[0])


def test_a_batch_must_split_evenly(monkeypatch):
    with pytest.raises(InputError, match=r"a multiple of 3 \(1 processes times accumulate=3\), got 8"):
        trainer(accumulate=3)
    monkeypatch.setattr(training.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(training.distributed, "get_rank", lambda: 0)
    monkeypatch.setattr(training.distributed, "get_world_size", lambda: 3)
    with pytest.raises(InputError, match=r"a multiple of 3 \(3 processes times accumulate=1\), got 8"):
        trainer()
