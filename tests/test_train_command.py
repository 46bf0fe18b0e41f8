"""`blogdit train` as a person meets it."""

from __future__ import annotations

import pytest

from blogdit import api
from blogdit.cli.app import run
from blogdit.cli.progress import TrainingProgress
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
