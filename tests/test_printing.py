"""Whatever a file says, it neither steers the terminal nor ends in a traceback."""

from __future__ import annotations

import ast
import io
import json
import sys
from pathlib import Path

import pytest

import blogdit.cli.app as app
from blogdit.cli.app import run
from blogdit.core.text import harmless

CLI = Path(app.__file__).parent
EVIL = "a\nb: valid\r\x1b[31m\u202e\u2028[/red]\ud800\x85"
DIFFER = {"kind": "not_equal", "pairs": [[0, 1]]}
CSP = {"format": "blogdit-csp", "version": 1, "domain_sizes": [2, 2], "constraints": [DIFFER]}


def test_what_cannot_be_seen_becomes_its_code():
    assert harmless("é [red] 日本 ok") == "é [red] 日本 ok"
    assert harmless("a\nb\x1b[0m\u202e\U000e0001\ud800") == "a\\u000ab\\u001b[0m\\u202e\\U000e0001\\ud800"
    for number in range(0x11000):
        assert harmless(chr(number)).isprintable()


def test_json_stays_json():
    """A line of JSON holds no line ends, and what else is hidden in it reads as the same text afterwards."""
    line = json.dumps({"name": "a\n\x7f\u202e"})
    assert json.loads(harmless(line)) == json.loads(line)


@pytest.mark.parametrize("module", sorted(CLI.glob("*.py")), ids=lambda path: path.stem)
def test_only_one_place_prints(module):
    if module.stem == "printing":
        return
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.Call):
            assert getattr(node.func, "id", None) not in ("print", "Console")
            assert ast.unparse(node.func) not in ("sys.stderr.write", "sys.stdout.write", "typer.echo")


def evil_file(folder: Path) -> Path:
    path = folder / "evil.json"
    names = {"problem": EVIL, "name": EVIL, "labels": [EVIL, "w"], "values": [EVIL, "y"]}
    path.write_text(json.dumps(CSP | names))
    return path


def test_names_of_strangers_steer_nothing(tmp_path, capsys):
    """One line stays one line, in answers, tables, verdicts and errors."""
    path = evil_file(tmp_path)
    assert run(["solve", str(path), "--model", "coloring", "--steps", "50", "--live"]) == 0
    printed = capsys.readouterr()
    answer = [line for line in printed.out.splitlines() if line]
    assert len(answer) == 3, "the verdict and two variables"
    assert all(line.isprintable() for line in (printed.out + printed.err).splitlines())
    solution = tmp_path / "solution.jsonl"
    solution.write_text(json.dumps({"instance": EVIL, "status": EVIL, "violations": EVIL, "values": [0, 0]}))
    assert run(["verify", str(path), str(solution)]) == 3
    printed = capsys.readouterr()
    assert all(line.isprintable() and line.startswith("a\\u000ab") for line in printed.out.splitlines())
    assert len(printed.out.splitlines()) == 3, "one violated constraint, the verdict, one wrong record"
    bad = tmp_path / "x\n\x1b[2J.col"
    bad.write_text("e \x1b[31m\n")
    assert run(["solve", str(bad)]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert err[:-1].isprintable()


def test_a_terminal_without_unicode_gets_codes(tmp_path, monkeypatch):
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", stream)
    app.say("é日")
    assert stream.buffer.getvalue() == b"\\xe9\\u65e5\n"


def test_an_unexpected_error_is_one_line_and_70(monkeypatch, capsys):
    def broken(*arguments: object) -> None:
        raise ZeroDivisionError("in\nthe middle" + "x" * 1000)

    monkeypatch.setattr("blogdit.cli.info.families", broken)
    assert run(["info"]) == 70
    err = capsys.readouterr().err
    assert err.startswith("blogdit: an error of blogdit itself, ZeroDivisionError: in the middlexxx")
    assert err.endswith("; --debug shows where\n")
    assert err.count("\n") == 1
    for order in (["info", "--debug"], ["--debug", "info"]):
        assert run(order) == 70
        err = capsys.readouterr().err
        assert "Traceback (most recent call last):" in err
        assert "in broken" in err


def test_numbers_beyond_64_bits_are_refused(tmp_path, capsys):
    path = tmp_path / "two.json"
    path.write_text(json.dumps(CSP))
    for option in ("cycle", "steps", "chains", "batch-size"):
        assert run(["solve", str(path), "--model", "coloring", f"--{option}", str(10**24)]) == 2
        assert f"{option.replace('-', '_')} must be a whole number from" in capsys.readouterr().err


def test_records_that_are_nested_or_huge_are_one_line(tmp_path, capsys):
    path, records = tmp_path / "two.json", tmp_path / "records.jsonl"
    path.write_text(json.dumps(CSP | {"objective": {"sense": "maximize", "unary": [[0, 1]], "unary_weights": [1]}}))
    records.write_text('{"instance": "two", "values": [1, 0], "more": ' + "[" * 100_000 + "]" * 100_000 + "}\n")
    assert run(["verify", str(path), str(records)]) == 2
    assert "nested too deeply" in capsys.readouterr().err
    assert run(["solve", str(path), "--model", "coloring", "--out", str(records), "--resume"]) == 2
    assert "not a record of blogdit" in capsys.readouterr().err
    records.write_text(json.dumps({"instance": "two", "values": [1, 0], "objective": 10**400}))
    assert run(["verify", str(path), str(records)]) == 3
    assert capsys.readouterr().out.splitlines()[-1].startswith("two: WRONG RECORD, it says objective 1000")
