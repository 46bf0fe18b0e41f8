"""What a run leaves on disk: resuming exactly, surviving kills, a log that is never lost."""

from __future__ import annotations

import itertools
import math
import multiprocessing
import os
import random
import signal

import pytest
import safetensors.torch
import torch

from blogdit.core.errors import InputError
from blogdit.core.stopping import Stop, Stopped
from blogdit.network.checkpoint import load_model
from blogdit.training import runlog
from blogdit.training.data import generated_data
from blogdit.training.recipe import recipe
from blogdit.training.state import Budget
from blogdit.training.trainer import Trainer
from runs import TINY, assert_same_run, log_of, numbers, trainer

fork = multiprocessing.get_context("fork")


# -- resuming ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("settings", [{}, {"unroll": 1, "horizon": 4}, {"values": "table", "max_values": 4}])
def test_a_resumed_run_equals_an_uninterrupted_one(tmp_path, settings):
    """Interrupted after 5 and 9 of 12 updates: the same log, weights, averages, chains and models, bit for bit."""
    whole = trainer(**settings)
    straight = list(whole.run(tmp_path / "whole"))
    out = tmp_path / "parts"
    for stop in (5, 9, None):
        part = trainer(**settings)
        if stop != 5:
            part.load(out)
        for record in part.run(out, save_every=0.0):
            if record["update"] == stop:
                break
    assert numbers(log_of(out)) == numbers(straight)
    assert_same_run(whole, part)
    assert part.progress.best_update == whole.progress.best_update
    for name in ("best.safetensors", "last.safetensors"):
        one, other = (safetensors.torch.load_file(folder / name) for folder in (tmp_path / "whole", out))
        assert all(torch.equal(one[key], other[key]) for key in one)


def train_until_killed(out, updates, last, delay):
    """What a process does: a timer of the kernel's kills it outright, some time after its `last` update."""
    run = trainer(updates)
    if (out / runlog.STATE).exists():
        run.load(out)
    for done, _ in enumerate(run.run(out, save_every=0.0), 1):
        if done == last:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.setitimer(signal.ITIMER_REAL, delay)


def test_a_run_killed_at_any_moment_can_be_resumed(tmp_path):
    """Killed at random moments until a process gets through: each update is logged once, in order, with the numbers
    of a run that was never killed."""
    updates, rng, ends = 60, random.Random(0), []
    straight = list(trainer(updates).run(tmp_path / "whole"))
    out = tmp_path / "killed"
    while not ends or ends[-1] != 0:
        last = rng.randint(1, 6) if len(ends) < 8 else None
        process = fork.Process(target=train_until_killed, args=(out, updates, last, rng.uniform(0.0001, 0.02)))
        process.start()
        process.join()
        ends.append(process.exitcode)
    assert set(ends) == {-signal.SIGALRM, 0}
    assert len(ends) > 3
    records = log_of(out)
    assert [record["update"] for record in records] == list(range(1, updates + 1))
    assert numbers(records) == numbers(straight)
    assert load_model(out / "last.safetensors").provenance["updates"] == updates
    left = {path.name for path in out.iterdir()}
    assert {"state.safetensors", "best.safetensors", "last.safetensors", "log.jsonl"} <= left


def test_the_state_is_saved_early_and_often(tmp_path, monkeypatch):
    """At the first update, then every 20 s for two minutes, then every two minutes; and before what takes long."""
    run, now, saved = trainer(10_000, validate_every=10_000), [0.0], []
    monkeypatch.setattr("blogdit.training.trainer.time.monotonic", lambda: now[0])
    monkeypatch.setattr(run, "save", lambda out: saved.append(now[0]))
    stop = Stop()
    for _ in run.run(tmp_path, stop=stop):
        now[0] += 5.0
        if now[0] > 500:
            stop.ask()
    assert saved[0] == 0
    early = [time for time in saved if time <= 120]
    assert max(later - earlier for earlier, later in itertools.pairwise(early)) <= 30
    late = [time for time in saved if time > 120]
    assert 2 <= len(late) <= 5
    assert late[-1] > 500, "whoever asks to stop finds the last update in the state"


def test_who_stops_a_validation_finds_its_state_on_disk(tmp_path, monkeypatch):
    """A validation may take minutes. It is given up at once, and what was learnt before it is kept."""
    run, stop = trainer(12, validate_every=4), Stop()
    monkeypatch.setattr(run, "_validate", lambda out: stop.ask())
    assert [record["update"] for record in run.run(tmp_path, stop=stop)] == [1, 2, 3, 4]
    assert runlog.read_header(tmp_path / runlog.STATE)["progress"]["updates"] == 4
    run, stop = trainer(2), Stop()
    monkeypatch.setattr(run, "_validate", lambda out: stop.ask())
    with pytest.raises(Stopped):  # the last one belongs to the run, which is not over without it
        list(run.run(tmp_path / "short", stop=stop))
    assert runlog.read_header(tmp_path / "short" / runlog.STATE)["progress"]["updates"] < 2


def test_the_log_is_never_lost(tmp_path, monkeypatch):
    """A process that dies while it opens the log again leaves the old one; half a line at the end is dropped."""
    list(trainer(4).run(tmp_path))
    before = (tmp_path / "log.jsonl").read_text()

    def die(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr("blogdit.core.files.os.replace", die)
    with pytest.raises(KeyboardInterrupt):
        runlog.Log(tmp_path, 3)
    monkeypatch.undo()
    assert (tmp_path / "log.jsonl").read_text() == before
    (tmp_path / "log.jsonl").write_text(before + '{"update": 5, "lo')
    with runlog.Log(tmp_path, 3) as log:
        log.write({"update": 4, "loss": math.nan})
    assert [record["update"] for record in log_of(tmp_path)] == [1, 2, 3, 4]
    assert log_of(tmp_path)[3]["loss"] is None


def test_who_stops_listening_finds_every_update_in_the_log(tmp_path):
    """The loop is one update ahead of what it tells; a caller that goes away loses none of them."""
    run = trainer(20)
    told = []
    for record in (records := run.run(tmp_path)):
        told.append(record["update"])
        if len(told) == 5:
            break
    records.close()
    assert told == [1, 2, 3, 4, 5]
    assert [record["update"] for record in log_of(tmp_path)] == list(range(1, run.progress.updates + 1))


def test_a_run_can_pause(tmp_path, ticking):
    """`pause_after` ends a stretch early with everything saved; the next one finishes the budget."""
    chosen = recipe("sudoku", TINY)
    run = Trainer(chosen, generated_data(chosen, 0), Budget(updates=10**6), 0)
    records = list(run.run(tmp_path, pause_after=0.3 / 60))
    assert 5 < len(records) < 50
    saved = runlog.read_header(tmp_path / runlog.STATE)
    assert saved["progress"]["updates"] == len(records)
    assert saved["progress"]["seconds"] >= 0.3
    assert (tmp_path / "last.safetensors").exists()


def test_minutes_count_over_all_stretches(tmp_path, ticking):
    """A budget in minutes is spent by the clock, and a resumed run has the rest of it."""
    chosen = recipe("sudoku", TINY)

    def stretch():
        return Trainer(chosen, generated_data(chosen, 0), Budget(minutes=0.8 / 60), 0)

    list(stretch().run(tmp_path, pause_after=0.3 / 60))
    second = stretch()
    second.load(tmp_path)
    spent = second.progress.seconds
    assert spent == pytest.approx(0.3, abs=0.1)
    records = list(second.run(tmp_path))
    assert second.progress.seconds == pytest.approx(0.8, abs=0.1)
    assert records[-1]["learning_rate"] < 0.2 * chosen.training.learning_rate, "the schedule followed the clock"


def test_states_of_other_runs_are_refused(tmp_path):
    """Another network, another number of processes, a model instead of a state: one clear error each."""
    list(trainer(2).run(tmp_path))
    with pytest.raises(InputError, match=r"state.safetensors: does not fit these settings"):
        trainer(2, dim=32, head_dim=32).load(tmp_path)
    double = trainer(2)
    double.world = 2
    with pytest.raises(InputError, match="was saved by 1 processes, whose chains 2 cannot share"):
        double.load(tmp_path)
    os.replace(tmp_path / "last.safetensors", tmp_path / runlog.STATE)
    with pytest.raises(InputError, match="holds 'blogdit-model', expected 'blogdit-training-state'"):
        trainer(2).load(tmp_path)
    with pytest.raises(InputError, match="no such file"):
        trainer(2).load(tmp_path / "nowhere")
