"""From systems to records: what is run, in which calls, and what is reused."""

from __future__ import annotations

import os
import time
from concurrent.futures import as_completed
from dataclasses import replace
from pathlib import Path
from threading import Lock

import numpy as np
import pytest

from bench_cases import LIVE, TINY, Counting, silent
from blogdit.bench import calls, datasets, runner, variants
from blogdit.bench.options import NothingToRun, Options, Unanswered
from blogdit.bench.records import COLUMNS, read_records
from blogdit.bench.runner import run_suite
from blogdit.bench.suites import SUITES, Case, Entrant
from blogdit.bench.systems import Budget, System, systems
from blogdit.cli.app import run
from blogdit.core.errors import InputError
from blogdit.core.instance import Instance
from blogdit.core.result import Result
from blogdit.problems import generate


def test_an_interrupted_suite_goes_on_where_it_stopped(tmp_path, counting):
    suite = replace(LIVE, entrants=(Entrant("counting", "counting"),))
    counting.stop_after = 4
    with pytest.raises(KeyboardInterrupt):
        run_suite(suite, tmp_path, Options(limit=3), {}, silent)
    assert len(read_records(tmp_path / "records.jsonl")) == 4
    assert all((tmp_path / name).exists() for name in ("records.csv", "table.md", "figure.png"))
    counting.stop_after = 10**6
    records = run_suite(suite, tmp_path, Options(limit=3), {}, silent)
    keys = [(r["case"], r["instance"]) for r in records]
    assert len(keys) == len(set(keys)) == 6
    assert len(counting.seen) == 6
    run_suite(suite, tmp_path, Options(limit=3), {}, silent)
    assert len(counting.seen) == 6
    assert "| counting |" in (tmp_path / "table.md").read_text()


def test_calls_at_the_same_time_have_their_own_budget_and_seconds(tmp_path):
    """The records are those of one call after the other."""
    suite = replace(LIVE, entrants=(Entrant("greedy", "greedy"),))
    alone = run_suite(suite, tmp_path / "alone", Options(limit=3, seconds=5.0), {}, silent)
    together = run_suite(suite, tmp_path / "together", Options(limit=3, seconds=5.0, jobs=2), {}, silent)
    shown = [{(r["case"], r["instance"], r["verdict"], r["batch"]) for r in records} for records in (alone, together)]
    assert shown[0] == shown[1]
    assert len(alone) == len(together) == 6
    assert {r["budget_seconds"] for r in together} == {5.0}
    assert {r["jobs"] for r in together} == {2}
    assert all(r["seconds"] == r["call_seconds"] for r in together)


class Waiting(System):
    """Leaves a file when it begins with an instance; one instance waits for a file that somebody else leaves."""

    name = "waiting"

    def __init__(self, folder: Path, patient: str, signal: str):
        self.folder, self.patient, self.signal = folder, patient, signal

    def solve(self, instance: Instance, budget: Budget, seed: int = 0) -> Result:
        (self.folder / instance.name).touch()
        came = instance.name != self.patient or appears(self.folder / self.signal)
        return Result(instance, np.zeros(instance.size, np.int64), int(came), 0.0, seed)


def appears(path: Path, seconds: float = 60.0) -> bool:
    end = time.monotonic() + seconds
    while not path.exists() and time.monotonic() < end:
        time.sleep(0.01)
    return path.exists()


def test_a_slow_call_holds_nobody_up(tmp_path, monkeypatch):
    """The first instance waits for the last one, which a free place takes."""
    first, _, last = (instance.name for instance in datasets.load("coloring-5-50", None, 3))
    monkeypatch.setitem(systems(), "waiting", Waiting(tmp_path, first, last))
    suite = replace(LIVE, entrants=(Entrant("waiting", "waiting"),), cases=LIVE.cases[1:])
    records = run_suite(suite, tmp_path / "out", Options(limit=3, jobs=2), {}, silent)
    assert [record["steps"] for record in records] == [1, 1, 1]


def test_a_call_that_had_begun_when_it_was_stopped_is_not_lost(tmp_path, monkeypatch):
    first = datasets.load("coloring-5-50", None, 1)[0].name
    monkeypatch.setitem(systems(), "waiting", Waiting(tmp_path, first, "told"))

    once = iter([True])

    def stopped(calls):
        assert appears(tmp_path / first)
        if next(once, False):
            raise KeyboardInterrupt
        return as_completed(calls)

    def tell(text, work):
        if text == "waiting: waiting for calls that have begun":
            (tmp_path / "told").touch()

    monkeypatch.setattr(calls, "as_completed", stopped)
    suite = replace(LIVE, entrants=(Entrant("waiting", "waiting"),), cases=LIVE.cases[1:])
    with pytest.raises(KeyboardInterrupt):
        run_suite(suite, tmp_path / "out", Options(limit=3, jobs=2), {}, tell)
    kept = {record["instance"]: record["steps"] for record in read_records(tmp_path / "out" / "records.jsonl")}
    assert kept[first] == 1
    assert set(kept.values()) == {1}


def test_who_is_stopped_twice_does_not_wait(tmp_path, monkeypatch):
    """The second time while it waits for calls that have begun."""
    first = datasets.load("coloring-5-50", None, 1)[0].name
    monkeypatch.setitem(systems(), "waiting", Waiting(tmp_path, first, "never"))

    def stopped(calls):
        assert appears(tmp_path / first)
        raise KeyboardInterrupt

    monkeypatch.setattr(calls, "as_completed", stopped)
    suite = replace(LIVE, entrants=(Entrant("waiting", "waiting"),), cases=LIVE.cases[1:])
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        run_suite(suite, tmp_path / "out", Options(limit=1, jobs=2), {}, silent)
    assert time.monotonic() - began < 50, "it waits for a minute"


def test_budgets_follow_the_protocol_unless_others_are_asked_for(tmp_path, counting):
    suite = replace(LIVE, entrants=(Entrant("counting", "counting"),))
    for index, (options, expected) in enumerate(
        (
            (Options(limit=1), [(1.0, None), (None, 5)]),
            (Options(limit=1, seconds=0.5), [(0.5, None), (0.5, None)]),
            (Options(limit=1, steps=7), [(None, 7), (None, 7)]),
        )
    ):
        counting.seen.clear()
        run_suite(suite, tmp_path / str(index), options, {}, silent)
        assert [(budget.seconds, budget.steps) for _, budget in counting.seen] == expected


def test_published_numbers_of_steps_hold_unless_others_are_asked_for():
    case = Case("sets", "rb-small", "objective", seconds=9, steps=1000)
    for name, options, expected in (
        ("rlsa", Options(), (None, None)),
        ("rlsa", Options(quick=True), (None, 1000)),
        ("rlsa", Options(steps=1000), (None, 1000)),
        ("gibbs", Options(), (None, 1000)),
        ("cp-sat", Options(), (9, None)),
    ):
        cell = calls.Cell(case, TINY.entrants[0], systems()[name], [])
        budget = calls.budget(cell, [None], options)
        assert (budget.seconds, budget.steps) == expected


def test_records_say_how_they_came_about(tmp_path):
    suite = replace(LIVE, entrants=(Entrant("second", "gibbs"), Entrant("greedy", "greedy")))
    records = run_suite(suite, tmp_path, Options(limit=2, steps=3, seed=4), {}, silent)
    assert len(records) == 8
    for row in records:
        assert set(COLUMNS) == set(row)
        assert row["seed"] == 4
        assert row["batch"] == (2 if row["system"] == "second" else 1)
        assert row["seconds"] == pytest.approx(row["call_seconds"] / row["batch"], abs=1e-5)


def test_time_left_is_what_is_allowed_and_then_what_was_measured():
    cell = calls.Cell(TINY.cases[0], TINY.entrants[0], systems()["greedy"], waiting=[None] * 4)
    cell.allowed = calls.allowance(cell, Options())
    assert runner.Work([cell], 4).time_left() == 4.0
    cell.done, cell.seconds = 2, 0.5
    assert runner.Work([cell], 4).time_left() == 0.5
    cell.jobs = 2
    assert runner.Work([cell], 4).time_left() == 0.25


def test_who_counts_steps_is_expected_to_take_as_long_as_the_one_before():
    case = Case("sets", "rb-small", "objective", seconds=10, steps=100)
    first, second = (calls.Cell(case, entrant, systems()["gibbs"], [None] * 4, allowed=40) for entrant in TINY.entrants)
    work = runner.Work([first, second], 8)
    assert work.time_left() == 80
    first.done, first.seconds = 4, 2.0
    assert work.time_left() == 2
    second.case = replace(case, name="others")
    assert work.time_left() == 40


def test_graphs_of_one_size_share_a_stretch_on_a_gpu():
    many = [*generate("maxcut", 2, vertices=5), *generate("maxcut", 1, vertices=6), *generate("maxcut", 1, vertices=5)]
    case = Case("cuts", "maxcut-50", "gap", seconds=180, stretch=True, chains=20)
    cell = calls.Cell(case, TINY.entrants[0], systems()["rlsa"], list(many))
    batches = calls.batches(cell, Options(device="cuda"))
    assert [[one.size for one in together] for together in batches] == [[5, 5, 5], [6]]
    together = batches[0]
    assert calls.budget(cell, together, Options(device="cuda")).seconds == 180
    assert calls.allowance(cell, Options(device="cuda")) == 2 * 180
    assert [len(alone) for alone in calls.batches(cell, Options(device="cpu"))] == [1] * 4
    assert calls.allowance(cell, Options(device="cpu")) == 4 * 180
    pooled = replace(cell, case=replace(case, stretch=False))
    assert calls.budget(pooled, together, Options()).seconds == 540
    counting = replace(cell, system=systems()["gibbs"], case=replace(case, stretch=False, steps=7))
    assert calls.allowance(counting, Options(device="cuda")) == 4 * 180


def test_instances_that_share_their_time_share_ten_minutes_at_most():
    graphs = generate("coloring", 130, vertices=6, colors=3)
    case = Case("colours", "coloring-5-50", "solved", seconds=10)
    cell = calls.Cell(case, TINY.entrants[0], systems()["gibbs"], graphs)
    on_gpu = Options(device="cuda")
    assert [len(together) for together in calls.batches(cell, on_gpu)] == [60, 60, 10]
    for changed, expected in (({"seconds": 0.05}, [130]), ({"seconds": 700}, [1] * 130), ({"steps": 5}, [130])):
        other = replace(cell, case=replace(case, **changed))
        assert [len(together) for together in calls.batches(other, on_gpu)] == expected
    slow = replace(cell, case=replace(case, seconds=300))
    assert {len(together) for together in calls.batches(slow, Options(device="cpu"))} == {2}


class Killed(Counting):
    """Its process ends before it answers; or it cannot even be sent there."""

    name = "killed"

    def __init__(self, locked: bool):
        super().__init__()
        self.lock = Lock() if locked else None

    def solve(self, instance: Instance, budget: Budget, seed: int = 0) -> Result:
        os._exit(9)


def test_a_process_that_dies_or_cannot_be_asked_stops_nobody_else(tmp_path, monkeypatch):
    monkeypatch.setitem(systems(), "killed", Killed(locked=False))
    monkeypatch.setitem(systems(), "locked", Killed(locked=True))
    entrants = tuple(Entrant(name, name) for name in ("killed", "locked", "greedy"))
    told = []
    with pytest.raises(Unanswered, match=r"killed \(2\), locked \(2\)"):
        run_suite(
            replace(LIVE, entrants=entrants, cases=LIVE.cases[1:]), tmp_path, Options(limit=2, jobs=2), {},
            lambda text, work: told.append(text),
        )  # fmt: skip
    assert {record["system"] for record in read_records(tmp_path / "records.jsonl")} == {"greedy"}
    for expected in ("a process ended before it answered (exit code 9)", "TypeError: cannot pickle"):
        assert sum(expected in text for text in told) == 2


def test_a_path_is_made_of_steps(tmp_path, capsys):
    command = ["bench", "quick", "--cases", "31-42 givens", "--device", "cpu", "--limit", "1"]
    command += ["--systems", "blogdit", "--seconds", "0.1", "--out", str(tmp_path)]
    assert run(command) == 0
    shown = read_records(tmp_path / "trajectory" / "records.jsonl")
    assert {record["budget_steps"] for record in shown} == {200}
    assert "200 steps each" in (tmp_path / "trajectory" / "table.md").read_text()
    with pytest.raises(NothingToRun, match="none of these systems can run on trajectory"):
        run_suite(SUITES["trajectory"], tmp_path / "new", Options(systems=("greedy",), quick=True), {}, silent)
    assert not (tmp_path / "new").exists()


def test_weights_are_told_apart_by_content_and_must_fit(tmp_path):
    """All training runs call their files best.safetensors; a model that nobody would run is a mistake."""
    first, second = tmp_path / "a" / "best.safetensors", tmp_path / "b" / "best.safetensors"
    for path, name in ((first, "mis"), (second, "mis-brief")):
        path.parent.mkdir()
        folder = variants.VARIANT_WEIGHTS if "-" in name else variants.WEIGHTS
        path.write_bytes((folder / f"{name}.safetensors").read_bytes())
    suite, options = SUITES["mis"], Options(limit=1, systems=("mine",), steps=1, quick=True)
    records = run_suite(suite, tmp_path / "out", options, {("mine", "mis"): first}, silent)
    assert [(record["system"], record["searches"]) for record in records] == [("mine", True)]
    assert records[0]["weights"].startswith("best.safetensors ")
    with pytest.raises(InputError, match="holds records with another models"):
        run_suite(suite, tmp_path / "out", options, {("mine", "mis"): second}, silent)
    wrong = {("blogdit", "sudoku"): variants.WEIGHTS / "sudoku.safetensors"}
    with pytest.raises(InputError, match="is a model for sudoku; expected one for mis"):
        run_suite(suite, tmp_path / "other", Options(limit=1, systems=("greedy",)), wrong, silent)
    assert not (tmp_path / "other").exists()


def test_a_run_goes_on_with_more_instances(tmp_path):
    suite = SUITES["mis"]
    few = run_suite(suite, tmp_path, Options(limit=2, systems=("greedy",), quick=True), {}, silent)
    more = run_suite(suite, tmp_path, Options(limit=4, systems=("greedy",), quick=True), {}, silent)
    assert more[:2] == few
    assert len(more) == 4
