"""`blogdit serve` as a command: where it listens, whom it lets in, and the training run that it shows."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import httpx
import pytest
from starlette.testclient import TestClient

from blogdit.cli.app import run
from blogdit.core.errors import InputError
from blogdit.web import training_run
from blogdit.web.server import Settings, make_service, openers
from browser import find_browser
from web_cases import SMALL, events_of, long_job, parsed, real_server, wait_until


def test_beyond_this_machine_a_token_is_needed():
    local, token = make_service(Settings())
    assert token is None
    assert local.access.hosts == ("127.0.0.1", "localhost", "::1")
    for host in ("127.0.0.1", "::1", "localhost", "127.0.0.5"):
        assert make_service(Settings(host=host))[1] is None
    for host in ("0.0.0.0", "::", "192.0.2.1", "example.org"):
        service, token = make_service(Settings(host=host))
        assert len(token) >= 32
        assert service.access.token == token
        assert make_service(Settings(host=host))[1] != token
        assert make_service(Settings(host=host, token="own"))[1] == "own"
        assert make_service(Settings(host=host, token=""))[1], "an empty token is none"
    assert make_service(Settings(token="own"))[1] == "own"


def test_the_command_serves_until_it_is_told_to_stop():
    command = [sys.executable, "-m", "blogdit", "serve", "--port", "0", "--no-browser", "--device", "cpu"]
    environment = {name: value for name, value in os.environ.items() if name != "BLOGDIT_TOKEN"}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    try:
        address = process.stdout.readline().strip()
        assert address.startswith("http://127.0.0.1:")
        wait_until(lambda: _answers(address))
        assert "<title>blogdit" in httpx.get(address, timeout=60).text
        path = httpx.post(f"{address}solve", json=long_job(30.0), timeout=60).json()["events"]
        with httpx.stream("GET", address + path[1:], timeout=60) as watched:
            next(watched.iter_lines())
            process.send_signal(signal.SIGTERM)
            _, err = process.communicate(timeout=120)
    finally:
        process.kill()
    assert process.returncode == 143
    assert "Traceback" not in err


def _answers(address: str) -> bool:
    try:
        return httpx.get(f"{address}health", timeout=60).status_code == 200
    except httpx.ConnectError:
        return False


def test_what_cannot_be_served(tmp_path, capsys):
    for arguments, words in (
        ([str(tmp_path / "nothing")], "nothing: no such file"),
        ([str(tmp_path)], "holds no training run; expected the folder that blogdit train --out has written"),
        (["--host", "192.0.2.1", "--port", "0"], "cannot listen at 192.0.2.1:0"),
        (["--jobs", "0"], "--jobs"),
        (["--device", "tpu"], "unknown device"),
    ):
        assert run(["serve", "--no-browser", *arguments]) == 2
        err = capsys.readouterr().err
        assert words in err
        assert len(err.splitlines()) == 1


def test_without_the_extra_one_line_says_what_to_install(tmp_path):
    """In a process in which Starlette cannot be imported."""
    code = (
        "import sys; sys.modules['starlette'] = sys.modules['starlette.applications'] = None\n"
        "from blogdit.cli.app import run; sys.exit(run(['serve', '--no-browser']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (
        2,
        "blogdit: the page needs a server; expected pip install 'blogdit[web]'\n",
    )


def test_without_a_browser_tests_are_skipped_but_not_in_ci(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match=r"no browser: none of chromium, .*make browser"):
        find_browser()
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="make browser installs it"):
        find_browser()


# -- training --------------------------------------------------------------------------------------------------------


def watched(folder, enough, monkeypatch) -> list[tuple[str, dict]]:
    """The events of a training run, until there are enough, which is asked after each."""
    monkeypatch.setattr(training_run, "EVERY", 0.05)
    monkeypatch.setattr(training_run, "REFERENCE_SECONDS", 0.2)
    with real_server(openers=openers(folder)) as (address, _):
        assert httpx.get(f"{address}/health", timeout=60).json()["open"] == ["run"]
        lines: list[str] = []
        with httpx.stream("GET", f"{address}/events/run", timeout=60) as response:
            for line in response.iter_lines():
                lines.append(line)
                if not line and enough(parsed(lines)):
                    break
        return parsed(lines)


def test_a_training_run_tells_its_log_and_the_score_of_its_weights(sudoku4_path, monkeypatch):
    def enough(found) -> bool:
        return {"records", "score"} <= {kind for kind, _ in found}

    found = watched(sudoku4_path.parent, enough, monkeypatch)
    told = dict(found)
    assert found[0][0] == "run"
    assert told["run"]["problem"] == "sudoku"
    logged = [json.loads(line) for line in (sudoku4_path.parent / "log.jsonl").read_text().splitlines()]
    assert told["records"]["records"] == logged
    score = told["score"]
    assert score["update"] == 50
    assert score["valid"] == sum(row["violations"] == 0 for row in score["instances"])
    assert len(score["instances"]) == training_run.INSTANCES


def test_the_weights_of_a_run_can_be_played_with(sudoku4_path):
    service, _ = make_service(Settings(sudoku4_path.parent, device="cpu"))
    with TestClient(service.app(), base_url="http://127.0.0.1") as api:
        assert "sudoku4/last" in [model["name"] for model in api.get("/models").json()]
        asked = {**SMALL, "model": "sudoku4/last"}
        found = events_of(api, api.post("/solve", json=asked).json()["events"])
        assert found[-1][1]["result"]["model"] == "sudoku4/last"
        assert api.post("/solve", json={**SMALL, "model": "sudoku4/state"}).status_code == 422


def test_a_log_that_grows_is_told_line_by_line_and_one_that_shrinks_anew(sudoku4_path, tmp_path, monkeypatch):
    for name in ("state.safetensors", "log.jsonl"):
        (tmp_path / name).write_bytes((sudoku4_path.parent / name).read_bytes())
    log = tmp_path / "log.jsonl"
    whole = log.read_text().splitlines(keepends=True)
    log.write_text("".join(whole[:10]) + whole[10][:20])  # the last line is still being written

    def grow() -> None:
        with log.open("a") as file:
            file.write(whole[10][20:] + whole[11])

    def shrink() -> None:
        (tmp_path / "new.jsonl").write_text("".join(whole[:5]))
        (tmp_path / "new.jsonl").replace(log)

    steps = {10: grow, 12: shrink}  # by the number of lines that were told

    def enough(found) -> bool:
        told = sum(len(data["records"]) for kind, data in found if kind == "records")
        if told in steps:
            steps.pop(told)()
        return told == 12 + 5

    updates: list[int] = []
    for kind, data in watched(tmp_path, enough, monkeypatch):
        if kind == "again":
            assert updates == list(range(1, 13))
            updates = []
        elif kind == "records":
            updates += [record["update"] for record in data["records"]]
    assert updates == list(range(1, 6))


def test_a_long_log_is_thinned_but_keeps_its_scores(sudoku4_path, tmp_path, monkeypatch):
    (tmp_path / "state.safetensors").write_bytes((sudoku4_path.parent / "state.safetensors").read_bytes())
    records = [
        {"update": n, "loss": 1.0, "seconds": n, **({"valid_score": 0.5} if n == 777 else {})} for n in range(1, 9001)
    ]
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    found = watched(tmp_path, lambda found: found[-1][0] == "records", monkeypatch)
    updates = [record["update"] for record in dict(found)["records"]["records"]]
    assert 777 in updates
    assert len(updates) == 9000 // 6 + 1


def test_a_folder_without_a_run_is_found_out_at_once(tmp_path):
    (tmp_path / "log.jsonl").write_text("")
    with pytest.raises(InputError, match="no such file"):
        openers(tmp_path)


def test_a_trace_is_a_channel_like_a_job(tmp_path):
    question = {"format": "blogdit-csp", "version": 1, "domain_sizes": [2]}
    records = [{"instance": "a", "question": question}, {"instance": "a", "step": 1}, {"instance": "a", "result": {}}]
    path = tmp_path / "t.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    with real_server(openers=openers(path)) as (address, _), httpx.Client(base_url=address) as one:
        found = events_of(one, "/events/trace")
    assert [kind for kind, _ in found] == ["question", "step", "result"]
    assert [data for _, data in found] == records


def test_a_trace_of_many_instances_is_served_completely(tmp_path):
    question = {"format": "blogdit-csp", "version": 1, "domain_sizes": [2]}
    records = [{"instance": str(n), **more} for n in range(30) for more in ({"question": question}, {"step": 1})]
    path = tmp_path / "t.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    with real_server(openers=openers(path)) as (address, _), httpx.Client(base_url=address) as one:
        assert [data for _, data in events_of(one, "/events/trace")] == records
