"""Ray: the answers of one machine, whoever dies on the way."""

from __future__ import annotations

import json
import os
import signal
import sys

import pytest

import blogdit
from blogdit import formats
from blogdit.core.errors import InputError
from blogdit.formats.json_text import to_json
from blogdit.formats.solutions import record
from blogdit.problems import generate

pytest.importorskip("ray.data", reason="Ray cannot be imported here; pip install 'blogdit[ray]'")
import ray

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
