"""Ray: the answers of one machine, whoever dies on the way."""

from __future__ import annotations

import itertools
import json
import os
import pickle
import signal
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

import blogdit
from blogdit import formats
from blogdit.core.errors import InputError
from blogdit.formats.json_text import to_json
from blogdit.formats.solutions import record
from blogdit.problems import generate

pytest.importorskip("ray.data", reason="Ray cannot be imported here; pip install 'blogdit[ray]'")
import ray
import ray.data

from blogdit.integrations import ray as cluster

OPTIONS = {"steps": 3, "finish": "none", "chains": 1}
PUZZLES = [
    blogdit.Instance(one.domain_sizes, one.constraints, givens=one.givens, problem="sudoku", name=f"p{number}")
    for number, one in enumerate(generate("sudoku", 12, seed=1, box=2))
]


@pytest.fixture(scope="module")
def two_cores():
    """A Ray of two workers, on this machine."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    ray.init("local", num_cpus=2, include_dashboard=False, log_to_driver=False, object_store_memory=100 << 20)
    yield
    ray.shutdown()


def lines_of(folder):
    return [json.loads(line) for shard in sorted(folder.glob("*.jsonl")) for line in shard.read_text().splitlines()]


def answers_of(records):
    return {one["instance"]: (one["status"], one["values"], one["steps"], one["found_by"]) for one in records}


def test_a_killed_worker_changes_nothing(tmp_path, two_cores):
    """Two instances are answered already. kill -9 of a worker in the middle: every other instance gets one record, with
    the values that one machine finds. Then there is nothing left to do."""
    alone = {result.instance.name: record(result) for result in blogdit.solve(PUZZLES, device="cpu", **OPTIONS)}
    before = cluster.Folder(tmp_path, resume=False)
    before.write([alone["p3"], alone["p8"]])
    before.close()
    workers = []

    def kill_the_first(shard):
        if not workers:
            os.kill(shard.worker, signal.SIGKILL)
        workers.append(shard.worker)

    done = cluster.solve(PUZZLES, tmp_path, device="cpu", per_shard=2, on_shard=kill_the_first, **OPTIONS)
    assert (done.solved, done.skipped) == (10, 2)
    assert len(workers) == 5
    assert {*workers} - {workers[0]}, "somebody else has finished"
    records = lines_of(tmp_path)
    assert sorted(one["instance"] for one in records) == sorted(alone)
    assert answers_of(records) == answers_of(alone.values())
    rows = ray.data.from_items([{"instance": json.dumps(to_json(one))} for one in PUZZLES])
    done = cluster.solve(rows, tmp_path, device="cpu", **OPTIONS)
    assert (done.solved, done.skipped) == (0, 12)


def test_instances_are_read_while_others_are_solved(tmp_path, two_cores, monkeypatch):
    """Of a stream without end no more is read than two workers have in work and next to it. Told to stop, they keep
    what is done, and their processes end; the next run does the rest."""
    monkeypatch.setattr(cluster, "LARGEST_SHARD", 1)  # each instance is a shard
    read, workers = [], set()

    def endless():
        for number, one in enumerate(itertools.cycle(PUZZLES)):
            read.append(number)
            yield replace(one, name=f"e{number}")

    def look(shard):
        workers.add(shard.worker)
        seen.append(len(read))

    seen: list[int] = []
    done = cluster.solve(
        endless(), tmp_path, device="cpu", on_shard=look, stopped=lambda: len(seen) >= 6, **OPTIONS
    )  # fmt: skip
    ahead = 2 * cluster.AHEAD
    assert all(number <= shards + ahead for shards, number in enumerate(seen))
    records = lines_of(tmp_path)
    assert done.solved == len(records) == len({one["instance"] for one in records})
    assert 6 <= len(records) <= len(read) <= 6 + ahead
    for worker in workers:
        wait_for_the_end_of(worker)
    again = [replace(one, name=f"e{number}") for number, one in enumerate(PUZZLES)]
    more = cluster.solve(again, tmp_path, device="cpu", workers=1, **OPTIONS)
    assert more.skipped + more.solved == 12
    assert sorted(int(one["instance"][1:]) for one in lines_of(tmp_path)) == list(range(12))


def test_a_signal_ends_the_command_with_what_is_done(tmp_path, two_cores, monkeypatch, solve):
    path, folder = tmp_path / "p.jsonl", tmp_path / "answers"
    formats.write(PUZZLES, path, "json")
    monkeypatch.setattr(cluster, "LARGEST_SHARD", 1)
    write = cluster.Folder.write

    def write_and_stop(self, records):
        write(self, records)
        if len([*folder.glob("*.jsonl")]) == 1:
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(cluster.Folder, "write", write_and_stop)
    command = (path, "--ray", "local", "--out", folder, "--steps", 3, "--chains", 1, "--finish", "none", "--threads", 2)
    code, _, err = solve(*command)
    assert code == 143
    assert "stopped by SIGTERM" in err
    assert 1 <= len(lines_of(folder)) <= 1 + cluster.AHEAD
    code, _, err = solve(*command, "--resume")
    assert code in (0, 3)
    assert sorted(one["instance"] for one in lines_of(folder)) == sorted(one.name for one in PUZZLES)


def test_what_kills_its_workers_is_named_and_the_rest_is_solved(two_cores, monkeypatch):
    monkeypatch.setattr(cluster, "ATTEMPTS", 1)
    monkeypatch.setattr(cluster, "_described", lambda shard: f"a shard of {len(shard)}")
    crew = cluster.Crew(ray, (None, "cpu"), 1, 1, OPTIONS)
    fine, deadly = pickle.dumps(PUZZLES[0]), pickle.dumps(Deadly())
    outcomes = list(crew.run(iter([[deadly, fine], [fine], [fine]]), lambda: False))
    crew.dismiss()
    assert [len(one.records) for one in outcomes if not one.errors] == [1, 1]
    assert [one.errors for one in outcomes if one.errors] == [
        ["a shard of 2: not solved; 2 workers died while they had it"]
    ]


class Deadly:
    """Ends the process that unpickles it."""

    def __reduce__(self):
        return os._exit, (1,)


def wait_for_the_end_of(process):
    """Ray ends it in its own time."""
    end = time.monotonic() + 120
    while time.monotonic() < end:
        try:
            state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return
        if state == "Z":
            return
        threading.Event().wait(0.05)
    raise AssertionError(f"{process} goes on")


def test_a_folder_of_answers_is_gone_on_with_only_if_asked(tmp_path):
    folder = cluster.Folder(tmp_path, resume=False)
    folder.write([blogdit.Result(PUZZLES[0], PUZZLES[0].given_values).record()])
    with pytest.raises(InputError, match="another run is writing here"):
        cluster.Folder(tmp_path, resume=True)
    folder.close()
    with pytest.raises(InputError, match="holds answers already; expected --resume"):
        cluster.Folder(tmp_path, resume=False)
    again = cluster.Folder(tmp_path, resume=True)
    assert list(again.unanswered(PUZZLES)) == PUZZLES[1:]
    assert (again.skipped, again.skipped_invalid) == (1, 1)
    other = blogdit.Instance(PUZZLES[0].domain_sizes, name="p0", problem="another")
    with pytest.raises(InputError, match=r"shard-000000.jsonl:1: holds the answer to another instance 'p0'"):
        list(again.unanswered([other]))
    again.write([blogdit.Result(other, other.given_values).record()])
    assert {path.name for path in tmp_path.glob("*.jsonl")} == {"shard-000000.jsonl", "shard-000001.jsonl"}
    again.close()


def test_what_a_cluster_cannot_do_is_one_line(tmp_path):
    with pytest.raises(InputError, match="a total time cannot be divided among machines"):
        cluster.solve(PUZZLES, tmp_path, total_time=3)
    with pytest.raises(InputError, match="unknown option colour"):
        cluster.solve(PUZZLES, tmp_path, colour=3)


def test_the_command_skips_what_is_answered(tmp_path, two_cores, solve):
    """A broken line is named, and the rest counts as it does on one machine."""
    path, folder = tmp_path / "p.jsonl", cluster.Folder(tmp_path / "answers", resume=False)
    formats.write(PUZZLES, path, "json")
    path.write_text(path.read_text() + "{broken}\n")
    folder.write([record(result) for result in blogdit.solve(PUZZLES, device="cpu", steps=200)])
    folder.close()
    code, out, err = solve(path, "--ray", "local", "--out", folder.path, "--resume", "--steps", 3)
    assert (code, out) == (2, "")
    assert "p.jsonl:13: not valid JSON" in err
    assert "12 answered before; 1 input could not be used" in err
    code, _, err = solve(path, "--ray", "local", "--out", folder.path)
    assert (code, "expected --resume" in err) == (2, True)
    code, _, err = solve(path, "--ray", "local")
    assert (code, err) == (2, "blogdit: --ray writes files of results and prints none; expected --out FOLDER alone\n")


def test_without_ray_the_extra_is_named(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(InputError, match=r"Ray is not installed; expected pip install 'blogdit\[ray\]'"):
        cluster.solve(PUZZLES, tmp_path)
