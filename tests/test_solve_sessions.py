"""`blogdit solve` while it runs: signals, kills, traces, and what a terminal shows."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from blogdit import formats
from blogdit.problems import generate
from helpers import records, write

# -- signals --------------------------------------------------------------------------------------------------------


def start(path: Path, out: Path, model: Path, *options: str) -> subprocess.Popen:
    command = [sys.executable, "-m", "blogdit", "solve", str(path), "--out", str(out), "--model", str(model)]
    command += ["--threads", "1", "--batch-size", "4", "--resume", *options]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_for(process: subprocess.Popen, out: Path, more: int) -> None:
    """Until the process has written so many more lines."""
    before = out.read_bytes().count(b"\n") if out.exists() else 0
    deadline = time.monotonic() + 120
    while not out.exists() or out.read_bytes().count(b"\n") < before + more:
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_properly(tmp_path, lines, sudoku4_path, number):
    """Whole records of what is finished, a summary, and the exit code of the signal."""
    path, out = write(tmp_path / "p.txt", lines), tmp_path / "o.jsonl"
    process = start(path, out, sudoku4_path)
    wait_for(process, out, 30)
    process.send_signal(number)
    printed, err = process.communicate(timeout=120)
    assert process.returncode == 128 + number
    assert printed == ""
    found = records(out)
    assert 30 <= len(found) < len(lines)
    assert all(record["status"] == "solved" for record in found), "nothing that was still in work"
    assert f"stopped by {number.name}" in err
    assert f"{len(found)} instances in" in err
    assert "Traceback" not in err


def test_killed_twice_and_resumed_every_puzzle_is_answered_once(solve, sudoku4_path, tmp_path, lines):
    """benchmarks/solve.py does the same with 10,000."""
    lines = lines[:600]
    path, out = write(tmp_path / "p.txt", lines), tmp_path / "o.jsonl"
    for _ in range(2):
        process = start(path, out, sudoku4_path)
        wait_for(process, out, 100)
        process.kill()
        process.communicate()
    code, _, err = solve(path, "--steps", 500, "--out", out, "--resume")
    found = records(out)
    assert code == 0
    assert "answered before" in err
    assert len(found) == len({record["instance"] for record in found}) == len(lines)
    assert all(record["status"] == "solved" for record in found)


def test_an_interrupted_person_gets_the_best_so_far(tmp_path, any_model):
    """Without --out there is nothing to resume, so what is there is shown."""
    formats.write(generate("maxcut", 1, seed=0), tmp_path / "cut.gset")
    command = [sys.executable, "-m", "blogdit", "solve", str(tmp_path / "cut.gset"), "--model", str(any_model)]
    trace = tmp_path / "trace.jsonl"
    process = subprocess.Popen(
        [*command, "--time-limit", "600", "--trace", str(trace)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    wait_for(process, trace, 3)
    process.send_signal(signal.SIGINT)
    printed, err = process.communicate(timeout=120)
    assert process.returncode == 130
    assert printed.startswith("cut: feasible, objective ")
    assert "1 unfinished; stopped by SIGINT" in err


# -- a person watching ----------------------------------------------------------------------------------------------


def test_a_trace_of_every_step(solve, tmp_path, lines):
    trace = tmp_path / "t.jsonl"
    path = write(tmp_path / "p.txt", lines[:3])
    code, out, _ = solve(path, "--json", "--steps", 300, "--trace", trace)
    assert code == 0
    found, results = records(trace), {record["instance"]: record for record in records(out)}
    for name, result in results.items():
        first, *steps, last = (record for record in found if record["instance"] == name)
        assert first["question"]["name"] == name
        assert last["result"]["status"] == "solved"
        assert [record["step"] for record in steps] == list(range(1, result["steps"] + 1))
        values = steps[0]["values"]
        for step in steps[1:]:
            for variable, value in zip(step["changed"], step["to"], strict=True):
                values[variable] = value
        assert "".join(str(value + 1) for value in values) == result["values"]
        assert steps[-1]["violations"] == 0
        assert steps[-1]["best"]["status"] == "solved"
        assert set(steps[-1]) >= {"rate", "block", "changed", "violations", "energy", "confidence"}


def test_nothing_but_the_summary_where_stderr_is_no_terminal(solve, tmp_path, lines):
    _, _, err = solve(write(tmp_path / "p.txt", lines[:10]), "--json", "--steps", 300)
    assert "\x1b" not in err
    assert len(err.splitlines()) == 3


def test_live_prints_a_line_for_every_step_where_stderr_is_no_terminal(solve, tmp_path, lines):
    code, out, err = solve(write(tmp_path / "p.txt", lines[:1]), "--json", "--steps", 300, "--live")
    *steps, _, _, _ = err.splitlines()
    (record,) = records(out)
    assert code == 0
    assert len(steps) == record["steps"]
    assert all(line.startswith(f"p: step {number}, block of ") for number, line in enumerate(steps, 1))
    assert steps[-1].endswith(", 0 violated")


def in_a_terminal(command: list[str]) -> tuple[int, str]:
    """Exit code and everything that a terminal of 100 x 40 would be sent."""
    import fcntl
    import pty
    import struct
    import termios

    child, screen = pty.fork()
    if child == 0:
        os.environ["TERM"] = "xterm"
        os.execv(command[0], command)
    fcntl.ioctl(screen, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
    shown = b""
    while True:
        try:
            part = os.read(screen, 65536)
        except OSError:
            break
        if not part:
            break
        shown += part
    _, status = os.waitpid(child, 0)
    os.close(screen)
    return os.waitstatus_to_exitcode(status), shown.decode()


def test_a_terminal_shows_progress_and_the_grid_as_it_changes(tmp_path, lines, sudoku4_path):
    path = write(tmp_path / "p.txt", ["." * 16, *lines[:2]])
    command = [sys.executable, "-m", "blogdit", "solve", str(path), "--model", str(sudoku4_path)]
    code, shown = in_a_terminal([*command, "--time-limit", "1.5", "--live"])
    assert code in (0, 3)
    assert "/3 done" in shown
    assert "steps/s" in shown
    assert "left" in shown or "1 with an answer" not in shown
    assert "p:1: step " in shown
    assert "confidence" in shown
    assert "mean steps" in shown
    assert "\x1b[2K" in shown, "the picture is redrawn in place"
