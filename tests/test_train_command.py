"""`blogdit train` as a person meets it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from blogdit import api
from blogdit.cli.app import run
from blogdit.cli.progress import TrainingProgress
from blogdit.training import runlog
from blogdit.training.runlog import STATE


@pytest.mark.parametrize("saved", [False, True])
def test_who_stops_it_is_told_what_there_is_to_go_on_with(saved, tmp_path, monkeypatch, capsys):
    def stopped(*arguments, **options):
        if saved:
            (tmp_path / STATE).touch()
        raise KeyboardInterrupt

    monkeypatch.setattr(api, "train", stopped)
    assert run(["train", "sudoku", "--minutes", "1", "--out", str(tmp_path)]) == 130
    going_on = f"the same command with --resume goes on with what is in {tmp_path}"
    told = f"stopped; {going_on if saved else 'there was nothing to keep yet'}"
    assert capsys.readouterr().err.splitlines() == [told]


def test_without_a_terminal_there_is_a_line_now_and_then(monkeypatch, capsys):
    now = [100.0]
    monkeypatch.setattr("blogdit.cli.progress.time.monotonic", lambda: now[0])
    with TrainingProgress() as progress:
        for update in range(1, 100):  # one a second
            now[0] += 1
            record = {"update": update, "loss": 2.0, "tau": 0.1, "bad_steps": 0}
            progress.show(record | ({"valid_score": 0.5} if update == 40 else {}), update / 100)
    lines = capsys.readouterr().err.splitlines()
    assert [line.split("  update ")[0].strip() for line in lines] == ["30%", "40%", "70%"]
    assert lines[1] == " 40%  update 40  1.0/s  loss 2  tau 0.1  valid_score 0.5"


def test_one_budget_is_needed(tmp_path, capsys):
    for budgets in ([], ["--minutes", "1", "--updates", "5"]):
        assert run(["train", "sudoku", *budgets, "--out", str(tmp_path / "run")]) == 2
        assert capsys.readouterr().err == "blogdit: expected either --minutes or --updates\n"
    assert not (tmp_path / "run").exists()


TINY = ["--set", "box=2", "--set", "values=axis", "--set", "own_answers=0", "--set", "dim=16", "--set", "layers=1"]
SMALL = ["--set", "pool=64", "--set", "validation=8", "--set", "validate_every=100000", "--set", "batch_size=8"]


def test_sigterm_saves_the_update_in_work_and_resume_takes_the_same_settings(tmp_path, capsys):
    """Every update of the log is in the state. The command goes on as it was typed, with --resume."""
    command = ["train", "sudoku", "--updates", "100000", *TINY, *SMALL, "--out", str(tmp_path / "run")]
    process = subprocess.Popen(
        [sys.executable, "-m", "blogdit", *command], stderr=subprocess.PIPE, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    log = tmp_path / "run" / "log.jsonl"
    deadline = time.monotonic() + 120
    while (not log.exists() or log.read_text().count("\n") < 20) and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    _, told = process.communicate(timeout=120)
    assert process.returncode == 143
    assert "with --resume goes on" in told.decode()
    done = len(log.read_text().splitlines())
    assert runlog.read_header(tmp_path / "run" / STATE)["progress"]["updates"] == done >= 20
    going_on = [*command, "--resume"]
    going_on[going_on.index("100000")] = str(done + 2)
    assert run([*going_on, "--set", "dim=32"]) == 2
    assert "a resumed run keeps its settings; expected dim=16, got 32" in capsys.readouterr().err
    assert run(going_on) == 0
    assert len(log.read_text().splitlines()) == done + 2
