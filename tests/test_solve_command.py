"""`blogdit solve`: what it writes, how it ends, and what it does about broken input, signals and full disks."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections import Counter

import pytest

import blogdit
from blogdit import formats
from blogdit.cli.app import run
from blogdit.problems import coloring, generate, sudoku
from helpers import records, write

PUZZLE = "1...............".replace(".", "0")


# -- results --------------------------------------------------------------------------------------------------------


def test_a_person_gets_the_grid_and_a_summary(solve, tmp_path, lines):
    path = write(tmp_path / "p.txt", lines[:1])
    code, out, err = solve(path, "--steps", 300)
    assert code == 0
    verdict, *grid = out.splitlines()
    assert verdict.startswith("p: solved (found by the sampler in ")
    assert grid[0] == grid[3] == grid[6] == "+-----+-----+"
    digits = "".join(symbol for row in grid for symbol in row if symbol.isdigit())
    assert formats.read(path)[0].verify(sudoku.parse(digits) - 1).satisfied
    assert "problem" in err
    assert "1 instance in" in err
    assert "steps/s" in err


def test_many_instances_get_a_line_each(solve, tmp_path, lines):
    code, out, _ = solve(write(tmp_path / "p.txt", lines[:8]), "--steps", 300)
    header, *rows = out.splitlines()
    assert code == 0
    assert header.split() == ["instance", "status", "objective", "violations", "steps", "seconds"]
    assert {row.split()[0] for row in rows} == {f"p:{number}" for number in range(1, 9)}


def test_a_table_of_few(solve, tmp_path, lines):
    """Also beside a file of results."""
    code, out, _ = solve(write(tmp_path / "p.txt", lines[:2]), "--steps", 300, "--table", "--out", tmp_path / "o.jsonl")
    assert code == 0
    assert [row.split()[0] for row in out.splitlines()] == ["instance", "p:1", "p:2"]
    assert len((tmp_path / "o.jsonl").read_text().splitlines()) == 2


def test_json_gives_a_record_per_instance(solve, tmp_path, lines):
    path = write(tmp_path / "p.txt", lines[:20])
    code, out, _ = solve(path, "--json", "--steps", 300, "--seed", 7)
    found = records(out)
    assert code == 0
    assert len(found) == 20
    instances = {instance.name: instance for instance in formats.read(path)}
    for record in found:
        assert list(record) == [
            "instance", "problem", "status", "objective", "violations", "values", "found_by", "proved_by", "sampler",
            "steps", "seconds", "seed", "model",
        ]  # fmt: skip
        assert (record["status"], record["violations"], record["seed"]) == ("solved", 0, 7)
        assert instances[record["instance"]].verify(sudoku.parse(record["values"]) - 1).satisfied
    (tmp_path / "answers.jsonl").write_text(out)
    assert run(["verify", str(path), str(tmp_path / "answers.jsonl")]) == 0


def test_graphs_and_exit_code_3(solve, tmp_path, any_model):
    """A triangle cannot be 2-coloured; a cut always has an answer."""
    write(tmp_path / "triangle.col", ["p edge 3 3", "e 1 2", "e 2 3", "e 1 3"])
    write(tmp_path / "cut.gset", ["3 2", "1 2 1.5", "2 3 1"])
    code, out, _ = solve(tmp_path / "triangle.col", "--colors", 2, "--steps", 5, model=any_model)
    assert code == 3
    assert out.startswith("triangle: infeasible: proved by exact, 1 constraint violated; the closest:\n")
    code, out, _ = solve(tmp_path / "triangle.col", "--colors", 2, "--steps", 5, "--finish", "none", model=any_model)
    assert code == 3
    assert out.startswith("triangle: unknown: no valid answer found, 1 constraint violated; the closest:\n")
    code, out, _ = solve(tmp_path / "cut.gset", "--steps", 5, model=any_model)
    assert code == 0
    assert out.startswith("cut: optimal, objective 2.5 (found by ")
    code, out, _ = solve(tmp_path / "cut.gset", "--steps", 5, "--finish", "none", "--json", model=any_model)
    (record,) = records(out)
    assert (record["found_by"], record["proved_by"]) == ("sampler", None)
    assert record["sampler"] == {"objective": record["objective"], "violations": 0}


def test_a_sudoku_that_cannot_be_solved_is_told_from_one_that_was_not(solve, tmp_path):
    puzzle = "516849732307605000809700065135060907472591006968370050253186074684207500791050608"
    code, out, _ = solve(write(tmp_path / "p.txt", [puzzle]), "--steps", 2)
    assert (code, out.split(",")[0]) == (3, "p: infeasible: proved by exact")
    code, out, _ = solve(tmp_path / "p.txt", "--steps", 2, "--finish", "none")
    assert (code, out.split(",")[0]) == (3, "p: unknown: no valid answer found")


def test_a_folder_of_several_problems(solve, tmp_path, any_model):
    folder = tmp_path / "mixed"
    for problem in ("coloring", "maxcut", "mis"):
        settings = {} if problem == "mis" else {"vertices": 10}
        for number, instance in enumerate(generate(problem, 2, seed=0, **settings)):
            folder.mkdir(exist_ok=True)
            formats.write([instance], folder / f"{number}-{problem}{formats.native_suffix(problem)}")
    code, out, err = solve(folder, "--json", "--steps", 3, model=any_model)
    assert code in (0, 3)
    assert Counter(record["problem"] for record in records(out)) == {"coloring": 2, "maxcut": 2, "mis": 2}
    assert [row.split()[0] for row in err.splitlines()[1:4]] == ["coloring", "maxcut", "mis"]


def test_a_problem_without_a_family_shows_its_values(solve, tmp_path, any_model):
    (tmp_path / "own.json").write_text('{"format": "blogdit-csp", "version": 1, "domain_sizes": [1, 1]}')
    code, out, _ = solve(tmp_path / "own.json", "--steps", 1, model=any_model)
    assert (code, out) == (0, "own: solved (found by the sampler in 1 step)\n[0, 0]\n")


def test_an_own_problem_is_shown_by_its_names(solve, tmp_path, any_model):
    """Rows, columns, value names, who found it, and what the objective counts; records have the names, too."""
    shifts = blogdit.Problem("shifts", "week")
    cells = {(who, day): shifts.variable((who, day), ["off", "on"]) for who in ("Ann", "Ben") for day in ("Mon", "Tue")}
    for day in ("Mon", "Tue"):
        shifts.different([cells["Ann", day], cells["Ben", day]])
    shifts.total("days of Ann", [(1, cells["Ann", day], "on") for day in ("Mon", "Tue")])
    shifts.clause([(cells["Ann", "Mon"], "on")], weight=2)
    shifts.clause([(cells["Ben", "Mon"], "on")], weight=1)
    shifts.clause([(cells["Ann", "Tue"], "off")], weight=5)
    formats.write(shifts.instance(), tmp_path / "own.json")
    code, out, _ = solve(tmp_path / "own.json", "--steps", 4, model=any_model)
    assert code == 0
    assert out.startswith("week: optimal, objective 1 (found by ")
    assert out.splitlines()[1:] == [
        "     Mon  Tue", "Ann  on   off", "Ben  off  on", "days of Ann = 1",
        "1 soft constraint violated, which the objective counts",
    ]  # fmt: skip
    code, out, _ = solve(tmp_path / "own.json", "--steps", 4, "--json", model=any_model)
    (record,) = records(out)
    assert record["labels"][0] == ["Ann", "Mon"]
    assert record["answer"] == ["on", "off", "off", "on", 1]
    (tmp_path / "answers.jsonl").write_text(out)
    assert run(["verify", str(tmp_path / "own.json"), str(tmp_path / "answers.jsonl")]) == 0


def test_variables_with_names_are_shown_by_them(solve, tmp_path, any_model):
    text = '{"format": "blogdit-csp", "version": 1, "domain_sizes": [1, 1], "labels": ["shift", "nurse"]}'
    (tmp_path / "own.json").write_text(text)
    code, out, _ = solve(tmp_path / "own.json", "--steps", 1, model=any_model)
    assert (code, out) == (0, "own: solved (found by the sampler in 1 step)\nshift = 0\nnurse = 0\n")


@pytest.mark.parametrize("limit", ["0", "0.01"])
def test_tiny_time_limits(solve, tmp_path, any_model, limit):
    formats.write(generate("maxcut", 3, seed=0), tmp_path / "cuts.jsonl")
    code, out, _ = solve(tmp_path / "cuts.jsonl", "--json", "--time-limit", limit, model=any_model)
    assert code == 0
    assert [record["status"] for record in records(out)] == ["feasible"] * 3
    assert limit != "0" or not any(record["steps"] for record in records(out))


def test_total_time_of_nothing(solve, tmp_path, lines):
    code, out, err = solve(write(tmp_path / "p.txt", lines[:3]), "--json", "--total-time", 0)
    assert (code, out) == (3, "")
    assert "the total time is over, and not every instance was reached" in err


def test_the_same_seed_gives_the_same_records(solve, tmp_path, lines):
    def answers(*options):
        _, out, _ = solve(write(tmp_path / "p.txt", lines[:40]), "--json", "--steps", 20, *options)
        return {r["instance"]: (r["values"], r["steps"]) for r in records(out)}

    one = answers("--seed", 1)
    assert one == answers("--seed", 1, "--batch-size", 7)
    assert one != answers("--seed", 2)


def test_a_cold_start_takes_little_more_than_importing_torch(tmp_path):
    """In processor time, from the command to the answer of an easy puzzle: 1.4 times as much when this was written."""
    formats.write(generate("sudoku", 1, seed=1, min_givens=40, max_givens=42), tmp_path / "easy.txt")

    def seconds(*arguments):
        with open(tmp_path / "printed", "w") as out:
            process = subprocess.Popen([sys.executable, *arguments], stdout=out, stderr=subprocess.DEVNULL)
            _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        assert process.returncode == 0
        return used.ru_utime + used.ru_stime

    least = seconds("-c", "import torch")
    assert seconds("-m", "blogdit", "solve", tmp_path / "easy.txt", "--json", "--threads", "1") < 3 * least
    assert records(tmp_path / "printed")[0]["status"] == "solved"


# -- files of results -----------------------------------------------------------------------------------------------


def test_out_and_resume(solve, tmp_path, lines):
    """What the file holds is skipped; a last line that was cut off is dropped; new puzzles are added."""
    out, path = tmp_path / "o.jsonl", tmp_path / "p.txt"
    code, printed, _ = solve(write(path, lines[:10]), "--steps", 300, "--out", out)
    assert (code, printed) == (0, "")
    whole = out.read_text()
    assert len(records(out)) == 10
    out.write_text(whole[:-30])
    code, _, err = solve(write(path, lines[:12]), "--steps", 300, "--out", out, "--resume")
    assert code == 0
    assert out.read_text().startswith(whole[: whole[:-30].rindex("\n") + 1])
    assert sorted(record["instance"] for record in records(out)) == sorted(f"p:{n}" for n in range(1, 13))
    assert "9 answered before" in err
    code, _, err = solve(path, "--steps", 300, "--out", out, "--resume")
    assert (code, len(records(out))) == (0, 12)
    assert "0 instances in" in err
    assert "12 answered before" in err


def test_resume_does_not_forget_what_has_no_answer(tmp_path, capsys):
    """A triangle in two colours: 3 when it is tried, and 3 when it is found in the file."""
    path, out = write(tmp_path / "t.col", ["p edge 3 3", "e 1 2", "e 2 3", "e 1 3"]), tmp_path / "o.jsonl"
    command = ["solve", str(path), "--colors", "2", "--steps", "2", "--device", "cpu", "--out", str(out)]
    assert run(command) == 3
    assert run([*command, "--resume"]) == 3
    assert "1 answered before, 1 of them without a valid answer" in capsys.readouterr().err


def test_resume_with_another_question_is_an_error(tmp_path, capsys):
    path, out = write(tmp_path / "t.col", ["p edge 3 1", "e 1 2"]), tmp_path / "o.jsonl"
    command = ["solve", str(path), "--steps", "2", "--device", "cpu", "--out", str(out)]
    assert run([*command, "--problem", "mis"]) == 0
    assert run([*command, "--problem", "maxcut", "--resume"]) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.endswith("o.jsonl:1: holds the answer to another instance 't'; expected the same, or another --out")
    assert len(records(out)) == 1


def test_resume_with_fewer_colors_is_an_error(tmp_path, capsys):
    """A triangle in three colours answers nothing about two."""
    path, out = write(tmp_path / "t.col", ["p edge 3 3", "e 1 2", "e 2 3", "e 1 3"]), tmp_path / "o.jsonl"
    command = ["solve", str(path), "--device", "cpu", "--out", str(out), "--colors"]
    assert run([*command, "3"]) == 0
    assert run([*command, "2", "--resume"]) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.endswith("o.jsonl:1: holds the answer to another instance 't'; expected the same, or another --out")


def test_resume_with_other_instances_of_the_same_names_is_an_error(solve, tmp_path, lines):
    out = tmp_path / "o.jsonl"
    (tmp_path / "other").mkdir()
    path, other = write(tmp_path / "p.txt", lines[:3]), write(tmp_path / "other" / "p.txt", lines[3:6])
    assert solve(path, "--steps", 300, "--out", out)[0] == 0
    before = out.read_text()
    code, _, err = solve(other, "--steps", 300, "--out", out, "--resume")
    assert code == 2
    assert "holds the answer to another instance 'p:1'; expected the same, or another --out" in err
    assert out.read_text() == before


def test_a_run_that_fails_at_once_leaves_no_file(solve, tmp_path):
    code, _, _ = solve(tmp_path / "missing.txt", "--strict", "--out", tmp_path / "o.jsonl")
    assert code == 2
    assert not (tmp_path / "o.jsonl").exists()
    code, _, _ = solve(write(tmp_path / "p.txt", ["12"]), "--out", tmp_path / "o.jsonl")  # and nothing else in it
    assert code == 2
    assert not (tmp_path / "o.jsonl").exists()


def test_an_existing_file_is_not_overwritten(solve, tmp_path, lines):
    path, out = write(tmp_path / "p.txt", lines[:2]), write(tmp_path / "o.jsonl", ["precious"])
    code, _, err = solve(path, "--out", out)
    assert code == 2
    assert err == f"blogdit: {out}: exists already; expected --resume to go on with it, or another file\n"
    code, _, err = solve(path, "--trace", out)
    assert code == 2
    assert err == f"blogdit: {out}: exists already; expected another file\n"
    code, _, err = solve(path, "--out", out, "--resume")
    assert code == 2
    assert err == f"blogdit: {out}:1: not a record of blogdit; expected a file that --out has written\n"
    assert out.read_text() == "precious\n"


@pytest.mark.parametrize(
    ("out", "message"),
    [
        ("/nonexistent/o.jsonl", "/nonexistent/o.jsonl: cannot be written: No such file or directory"),
        ("/", "/: cannot be written: Is a directory"),
        ("/dev/full", "/dev/full: cannot be written: No space left on device"),
        ("o.jsonl.gz", "o.jsonl.gz: grows line by line and cannot be compressed; expected .jsonl"),
    ],
)
@pytest.mark.parametrize("option", ["--out", "--trace"])
def test_files_that_cannot_be_written(solve, tmp_path, monkeypatch, lines, option, out, message):
    monkeypatch.chdir(tmp_path)
    code, printed, err = solve(write(tmp_path / "p.txt", lines[:2]), "--steps", 50, option, out)
    assert (code, printed, err) == (2, "", f"blogdit: {message}\n")


def test_a_disk_that_fills_up_keeps_whole_lines(solve, tmp_path, lines, monkeypatch):
    """The third record is written in part before the disk is full: two whole ones remain, and --resume goes on."""
    from blogdit.formats import records as module

    real_open, path, out = open, write(tmp_path / "p.txt", lines[:6]), tmp_path / "o.jsonl"

    class Full(io.FileIO):
        writes = 0

        def write(self, data):
            Full.writes += 1
            if Full.writes == 3:
                return super().write(data[:10])
            if Full.writes > 3:
                raise OSError(28, "No space left on device")
            return super().write(data)

    def full_disk(name, mode="r", **options):
        return Full(name, "a+") if mode == "ab" else real_open(name, mode, **options)

    monkeypatch.setattr(module, "open", full_disk, raising=False)
    code, _, err = solve(path, "--steps", 300, "--out", out)
    assert (code, err) == (2, f"blogdit: {out}: cannot be written: No space left on device\n")
    assert len(records(out)) == 2
    monkeypatch.undo()
    assert solve(path, "--steps", 300, "--out", out, "--resume")[0] == 0
    assert len({record["instance"] for record in records(out)}) == len(records(out)) == 6


def test_stdout_on_a_full_disk(tmp_path, lines, sudoku4_path):
    command = [sys.executable, "-m", "blogdit", "solve", write(tmp_path / "p.txt", lines[:2]), "--json"]
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*command, "--model", sudoku4_path], stdout=full, stderr=subprocess.PIPE, text=True, timeout=120
        )
    assert (done.returncode, done.stderr) == (2, "blogdit: stdout cannot be written: No space left on device\n")


def test_resume_needs_a_file(solve, tmp_path):
    code, _, err = solve(tmp_path / "p.txt", "--resume")
    assert (code, err) == (2, "blogdit: --resume goes on with a file of results; expected --out FILE\n")


# -- broken input ---------------------------------------------------------------------------------------------------


def test_500_malformed_lines_among_good_ones(solve, tmp_path, lines):
    """Each is reported in one line, all others are solved, and the exit code tells."""
    junk = ["", "junk", "123", "0" * 17, "12,34,56", "\0" * 16, "ééé", "1" * 16, "{", "99" + "0" * 14, "x" * 16]
    bad = [junk[number % len(junk)] or "-" * 7 + "?" for number in range(500)]
    mixed = [line for pair in zip(bad, lines[:500], strict=True) for line in pair]
    path = tmp_path / "p.txt"
    path.write_bytes(b"".join(line.encode("latin-1") + b"\n" for line in mixed))
    code, out, err = solve(path, "--json", "--steps", 300)
    assert code == 2
    assert sorted(record["instance"] for record in records(out)) == sorted(f"p:{2 * n}" for n in range(1, 501))
    reported = [line for line in err.splitlines() if line.startswith("blogdit: ")]
    assert [line.split(": ")[1] for line in reported] == [f"{path}:{2 * n + 1}" for n in range(500)]
    assert "500 inputs could not be used" in err


def test_strict_stops_at_the_first(solve, tmp_path, lines):
    path = write(tmp_path / "p.txt", [*lines[:3], "junk", *lines[3:6], "junk"])
    code, _, err = solve(path, "--json", "--steps", 300, "--strict")
    assert (code, err) == (2, f"blogdit: {path}:4: expected 16 characters per puzzle as in line 1, got 4\n")


def test_an_invalid_answer_weighs_more_than_broken_input(solve, tmp_path, lines):
    code, _, _ = solve(write(tmp_path / "p.txt", [*lines[:2], "junk"]), "--steps", 0, "--finish", "none")
    assert code == 3


def test_a_missing_file_beside_a_good_one(solve, tmp_path, lines):
    code, out, err = solve(tmp_path / "no.txt", write(tmp_path / "p.txt", lines[:1]), "--json", "--steps", 300)
    assert (code, len(records(out))) == (2, 1)
    assert err.startswith(f"blogdit: {tmp_path / 'no.txt'}: no such file\n")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--device", "cuda"], "no CUDA device here; expected --device cpu or auto"),
        (["--device", "tpu"], "unknown device 'tpu'"),
        (["--model", "nothing"], "unknown model 'nothing'; expected a file or one of "),
        (["--problem", "tsp"], "unknown problem 'tsp'"),
        (["--block", "best"], "block must be one of"),
        (["--schedule", "x"], "schedule must be cycle or budget"),
        (["--time-limit", "-1"], "time-limit"),
        (["--threads", "0"], "threads"),
        (["--threads", "100000"], "threads must be from 1 to 1024, got 100000"),
        (["--seed", str(1 << 63)], "seed"),
        (["--steps", "many"], "steps"),
        (["--json", "--table"], "--json and --table both go to stdout; expected one of them"),
        (["--total-time", "nan"], "total-time"),
    ],
)
def test_usage_errors_are_one_line(tmp_path, capsys, monkeypatch, options, message):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    puzzle = write(tmp_path / "p.txt", [PUZZLE])
    assert run(["solve", str(puzzle), *options]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("blogdit: ")
    assert message in err
    assert err.count("\n") == 1


def test_a_model_that_does_not_fit_is_one_line(solve, tmp_path, capsys):
    formats.write([coloring.build((2, [[0, 1]]), 2)], tmp_path / "g.col")
    code, out, err = solve(tmp_path / "g.col")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "does not fit g: its variables need 2 coordinates, the instance gives 0" in err


def test_a_problem_without_a_family_has_the_general_model(tmp_path, capsys):
    (tmp_path / "own.json").write_text('{"format": "blogdit-csp", "version": 1, "domain_sizes": [2]}')
    assert run(["solve", str(tmp_path / "own.json"), "--steps", "1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["model"] == "general"
