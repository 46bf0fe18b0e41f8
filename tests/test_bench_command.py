"""`blogdit bench`: what it runs, leaves, says and refuses, also when systems fail or it is stopped."""

from __future__ import annotations

import json
import subprocess
import sys
from types import SimpleNamespace

import pytest

from bench_cases import Counting
from blogdit.bench import datasets
from blogdit.bench.records import read_records
from blogdit.bench.suites import SUITES
from blogdit.bench.systems import Budget, systems
from blogdit.cli.app import run
from blogdit.cli.bench import Told
from blogdit.core.instance import Instance
from blogdit.core.result import Result


def test_every_suite_runs_small(tmp_path, capsys, little_work):
    """`quick` with next to no budget: every suite leaves records, a table and a figure."""
    arguments = ["bench", "quick", "--out", str(tmp_path), "--limit", "1", "--seconds", "0.1", "--steps", "2"]
    assert run([*arguments, "--device", "cpu"]) == 0
    shown = capsys.readouterr()
    assert shown.out.splitlines() == [str(tmp_path / name / "table.md") for name in SUITES]
    assert "left" in shown.err
    for name in SUITES:
        settings = json.loads((tmp_path / name / "settings.json").read_text())
        assert settings["suite"] == name
        assert (tmp_path / name / "figure.png").exists()
        records = read_records(tmp_path / name / "records.jsonl")
        assert {row["suite"] for row in records} == {name}
        assert {row["system"] for row in records} >= {one.label for one in SUITES[name].entrants}


def test_who_stops_it_is_told_how_to_go_on(tmp_path, counting, capsys):
    command = ["bench", "mis", "--systems", "counting", "--cases", "RB-small", "--limit", "2", "--device", "cpu"]
    counting.stop_after = 0
    assert run([*command, "--out", str(tmp_path)]) == 130
    began, stopped = capsys.readouterr().err.splitlines()
    assert began == "mis, RB-small, counting: 0 of 2, at most about 00:00:20 left"
    assert stopped == "stopped before a first answer; nothing was kept"
    assert list(tmp_path.iterdir()) == []
    counting.stop_after = 1
    assert run([*command, "--out", str(tmp_path)]) == 130
    expected = f"stopped; what was finished is in {tmp_path}, and the same command goes on from there"
    assert capsys.readouterr().err.splitlines()[-1] == expected
    assert len(read_records(tmp_path / "records.jsonl")) == 1


def test_sigterm_stops_it_as_well(tmp_path):
    program = """if True:
        import os, signal, time
        from blogdit.bench import runner
        from blogdit.cli.app import main

        def perform(*_):
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(60)
            yield []

        runner.perform = perform
        main()"""
    command = ["bench", "mis", "--systems", "greedy", "--cases", "RB-small", "--limit", "1", "--device", "cpu"]
    done = subprocess.run(
        [sys.executable, "-c", program, *command, "--out", str(tmp_path)], capture_output=True, text=True
    )
    assert done.returncode == 143
    assert done.stderr.splitlines() == ["stopped before a first answer; nothing was kept"]


class Failing(Counting):
    """Cannot do the second instance."""

    name = "failing"

    def solve(self, instance: Instance, budget: Budget, seed: int = 0) -> Result:
        if instance.name == "mis-1":
            raise ZeroDivisionError("nothing to divide by")
        return super().solve(instance, budget, seed)


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_system_that_fails_stops_nobody_else(tmp_path, monkeypatch, capsys, jobs):
    monkeypatch.setitem(systems(), "failing", Failing())
    command = ["bench", "mis", "--systems", "failing,greedy", "--cases", "RB-small", "--limit", "3", "--jobs", jobs]
    for _ in range(2 if jobs == "1" else 1):  # the second time it asks again what has no answer
        assert run([*command, "--device", "cpu", "--workers", "1", "--out", str(tmp_path)]) == 2
        shown = capsys.readouterr().err
        assert "mis, RB-small, failing, mis-1: Traceback" in shown
        assert "ZeroDivisionError: nothing to divide by" in shown
        assert shown.splitlines()[-1] == (
            "blogdit: mis: no answer to some instances: failing (1), see above; the same command asks again"
        )
        records = read_records(tmp_path / "records.jsonl")
        assert sorted((record["system"], record["instance"]) for record in records) == [
            *(("failing", name) for name in ("mis-0", "mis-2")),
            *(("greedy", name) for name in ("mis-0", "mis-1", "mis-2")),
        ]


def test_a_system_without_an_answer_for_everybody_is_named(tmp_path, monkeypatch, capsys):
    class Short(Failing):
        name, batched = "short", True

        def solve_many(self, instances, budget, seed=0):
            return [Result(instances[0], instances[0].given_values)]

    monkeypatch.setitem(systems(), "short", Short())
    command = ["bench", "mis", "--systems", "short", "--cases", "RB-small", "--limit", "3", "--device", "cpu"]
    assert run([*command, "--out", str(tmp_path / "new")]) == 2
    assert "ValueError: short has 1 answers, not 3" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(("suite", "option"), [("steps", "steps"), ("steps", "seconds"), ("trajectory", "seconds")])
def test_a_suite_may_have_budgets_of_its_own(suite, option, tmp_path, capsys):
    """The columns of `steps` are numbers of steps; with others they would say something false."""
    assert run(["bench", suite, f"--{option}", "5", "--out", str(tmp_path / "new")]) == 2
    assert capsys.readouterr().err == f"blogdit: {suite} has its own {option}; expected no --{option}\n"


def test_time_left_may_be_days(capsys):
    Told()("far", SimpleNamespace(done=0, total=1, time_left=lambda: 240_005.4))
    assert capsys.readouterr().err == "far: 0 of 1, at most about 66:40:05 left\n"


def test_a_table_keeps_the_cases_of_earlier_runs(tmp_path):
    command = ["bench", "mis", "--systems", "greedy", "--limit", "1", "--device", "cpu", "--out", str(tmp_path)]
    for case in ("RB-large", "RB-small"):
        assert run([*command, "--cases", case]) == 0
    header = (tmp_path / "table.md").read_text().splitlines()[2]
    assert header.startswith("| system | RB-small ↑ | RB-large ↑ |")


def test_quick_leaves_out_suites_that_have_nothing_of_what_was_asked(tmp_path, capsys):
    command = ["bench", "quick", "--limit", "1", "--device", "cpu", "--out", str(tmp_path)]
    assert run([*command, "--systems", "greedy", "--cases", "RB-small"]) == 0
    suites = ("mis", "ablations", "block-rates", "cost")
    assert capsys.readouterr().out.splitlines() == [str(tmp_path / name / "table.md") for name in suites]
    assert {path.name for path in tmp_path.iterdir()} == set(suites)
    assert run([*command, "--systems", "greedy", "--cases", "RB-small,RB-tiny"]) == 2
    assert "worth has no case 'RB-tiny'; expected some of" in capsys.readouterr().err
    assert run([*command, "--systems", "greedy", "--cases", "31-42 givens"]) == 2
    shown = capsys.readouterr().err.splitlines()
    assert "sudoku: greedy does not solve sudoku; left out: greedy on 31-42 givens" in shown
    assert "left out: mis has none of these cases; it has RB-small" in shown
    assert "trajectory: paths are those of rlsa, blogdit and its variants; left out: greedy" in shown
    assert shown[-1] == "blogdit: no suite has these systems and cases; nothing was done"


def test_failures_in_one_suite_do_not_stop_the_others(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(systems(), "failing", Failing())
    command = ["bench", "quick", "--systems", "failing", "--cases", "RB-small", "--limit", "2", "--device", "cpu"]
    assert run([*command, "--out", str(tmp_path)]) == 2
    shown = capsys.readouterr()
    suites = ("mis", "ablations", "block-rates", "cost")
    assert shown.out.splitlines() == [str(tmp_path / name / "table.md") for name in suites]
    assert shown.err.splitlines()[-1].startswith("blogdit: mis: no answer to some instances: failing (1)")


def test_who_cannot_draw_is_told_before_the_work(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert run(["bench", "mis", "--systems", "greedy", "--limit", "1", "--out", str(tmp_path / "new")]) == 2
    assert capsys.readouterr().err == "blogdit: figures need matplotlib; expected pip install 'blogdit[bench]'\n"
    assert not (tmp_path / "new").exists()


def test_systems_that_cannot_run_are_an_error(tmp_path, capsys):
    command = ["bench", "mis", "--systems", "greedy-dsatur", "--limit", "1", "--device", "cpu", "--out", str(tmp_path)]
    assert run(command) == 2
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("mis: greedy-dsatur does not solve mis; left out:")
    assert lines[1] == "blogdit: none of these systems can run on mis here; nothing was done"


def test_the_command_refuses_what_it_does_not_know(tmp_path, capsys, monkeypatch):
    monkeypatch.delenv(datasets.ENVIRONMENT, raising=False)
    assert run(["bench", "nothing", "--out", str(tmp_path)]) == 2
    assert run(["bench", "mis", "--cases", "RB-tiny", "--out", str(tmp_path)]) == 2
    assert run(["bench", "sudoku", "--out", str(tmp_path)]) == 2
    assert run(["bench", "mis", "--cases", "", "--out", str(tmp_path)]) == 2
    assert run(["bench", "mis", "--data", str(tmp_path / "nowhere"), "--out", str(tmp_path)]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("blogdit: unknown suite 'nothing'; expected quick, one of worth, sudoku")
    assert lines[1] == "blogdit: mis has no case 'RB-tiny'; expected some of RB-small, RB-large"
    assert lines[2].startswith("blogdit: sudoku/satnet-test.csv.xz is needed")
    assert lines[3] == "blogdit: expected --cases a,b,c, got none"
    assert lines[4] == f"blogdit: {tmp_path / 'nowhere'}: no such folder"
