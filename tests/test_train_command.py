"""`blogdit train` as a person meets it."""

from __future__ import annotations

import pytest

from blogdit import api
from blogdit.cli.app import run
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


def test_one_budget_is_needed(tmp_path, capsys):
    for budgets in ([], ["--minutes", "1", "--updates", "5"]):
        assert run(["train", "sudoku", *budgets, "--out", str(tmp_path / "run")]) == 2
        assert capsys.readouterr().err == "blogdit: expected either --minutes or --updates\n"
    assert not (tmp_path / "run").exists()
