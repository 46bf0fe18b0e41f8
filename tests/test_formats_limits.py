"""A small or endless file neither takes all memory nor all day, and reading ends when somebody says so."""

from __future__ import annotations

import gzip
import io
import lzma
import os
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import numpy as np
import pytest

from blogdit import formats
from blogdit.cli.app import run
from blogdit.cli.interrupts import Interrupts, Reading
from blogdit.core.errors import InputError
from blogdit.formats import limits as module
from blogdit.formats.limits import Limits
from web_cases import wait_until

COMMENT = b"c nothing to see here\n"
GRAPH = b"p edge 3 2\ne 1 2\ne 2 3\n"


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress])
def test_a_bomb_is_not_unpacked(tmp_path, monkeypatch, pack):
    monkeypatch.setattr(module, "UNPACKED_FREELY", 1 << 16)
    path = tmp_path / "bomb.col"
    path.write_bytes(pack(GRAPH[:11] + COMMENT * 20_000 + GRAPH[11:]))
    with pytest.raises(InputError, match="unpacks to more than 200 times its size; expected less, or --allow"):
        formats.read(path, colors=3)
    (instance,) = formats.read(path, colors=3, limits=Limits(expansion=10**6))
    assert instance.size == 3


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.col", GRAPH + COMMENT * 100, "takes more than 1,000 bytes to read"),
        ("a.edges", b"1 2\n2 3\n" + b"# no\n" * 1000, "takes more than 1,000 bytes to read"),
        ("a.gml", b"graph [\n" + b" node [ id 1 ]\n" * 10, "takes more than 1,000 bytes to read"),
        ("a.col", b"p edge 11 1\ne 1 2\n", "a.col:1: has more than 10 vertices"),
        ("a.col", b"p edge 3 21\ne 1 2\n", "a.col:1: has more than 20 edges"),
        ("a.gset", b"11 1\n1 2 1\n", "a.gset:1: has more than 10 vertices"),
        ("a.qubo", b"p qubo 0 11 0 1\n0 1 1\n", "a.qubo:1: has more than 10 vertices"),
        ("a.g6", b"J" + b"?" * 10 + b"\n", "a.g6:1: has more than 10 vertices"),
    ],
)
def test_what_a_file_may_ask_for(tmp_path, name, content, words):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(InputError, match=words):
        formats.read(path, "qubo" if name == "a.qubo" else "mis", limits=Limits(1000, 10, 20))


def test_edges_are_counted_as_they_come(tmp_path, monkeypatch):
    monkeypatch.setattr("blogdit.formats.graph_text.BLOCK", 8)
    path = tmp_path / "a.edges"
    path.write_text("".join(f"{i} {i + 1}\n" for i in range(100)))
    with pytest.raises(InputError, match="has more than 20 edges"):
        formats.read(path, "mis", limits=Limits(edges=20))


def test_limits_are_those_of_an_instance_and_not_of_a_file(tmp_path, monkeypatch):
    monkeypatch.setattr("blogdit.formats.text.READ_AT_ONCE", 1 << 10)
    path = tmp_path / "many.txt"
    path.write_text("1...............\n" * 2000)
    assert sum(1 for _ in formats.stream(path, limits=Limits(bytes=1 << 14))) == 2000


def test_an_archive_that_claims_to_be_large(tmp_path):
    path = tmp_path / "a.npz"
    array = io.BytesIO()
    np.save(array, np.zeros(1 << 20))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("data.npy", array.getvalue())
    with pytest.raises(InputError, match="takes more than 1,000,000 bytes to read"):
        formats.read(path, "mis", limits=Limits(bytes=10**6))


def test_options_raise_limits(tmp_path, capsys):
    path = tmp_path / "a.col"
    path.write_bytes(GRAPH)
    solution = tmp_path / "a.sol"
    solution.write_text("0 1 0")
    verify = ["verify", str(path), str(solution), "--colors", "2"]
    assert run([*verify, "--allow", "vertices=2"]) == 2
    assert "a.col:1: has more than 2 vertices" in capsys.readouterr().err
    assert run([*verify, "--allow", "vertices=3", "--allow", "edges=1e9"]) == 0
    for wrong in ("chairs=2", "vertices=many", "vertices=0", "vertices"):
        assert run([*verify, "--allow", wrong]) == 2


def endless(*options: str, begun: Path | None = None) -> subprocess.Popen[bytes]:
    """`blogdit solve` on a graph whose comments never end. A megabyte is more than a pipe holds: when that much is
    written, reading has `begun`."""
    say = "sys.stdout.write('c nothing\\n' * 100_000)"
    feed = f"import sys, pathlib\n{say}\n"
    feed += f"pathlib.Path({str(begun)!r}).touch()\n" if begun else ""
    feed += f"while True: {say}"
    source = subprocess.Popen([sys.executable, "-c", feed], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    command = [sys.executable, "-m", "blogdit", "solve", "-", "--allow", "bytes=1e15", *options]
    process = subprocess.Popen(command, stdin=source.stdout, stderr=subprocess.PIPE)
    assert source.stdout is not None
    source.stdout.close()  # it ends with its reader
    return process


def test_reading_counts_against_the_total_time():
    process = endless("--total-time", "1")
    _, told = process.communicate(timeout=120)
    assert process.returncode == 3
    assert b"the total time is over, and not every instance was reached" in told


def test_a_signal_ends_reading(tmp_path):
    process = endless(begun=tmp_path / "begun")
    wait_until((tmp_path / "begun").exists, seconds=120)
    process.send_signal(signal.SIGTERM)
    _, told = process.communicate(timeout=120)
    assert process.returncode == 143
    assert b"stopped by SIGTERM" in told


def test_reading_ends_in_the_middle_of_whatever_the_source_does():
    def source():
        yield 1
        while True:
            try:
                time.sleep(10)
            except Exception:
                continue  # as parsers do that hide what goes wrong

    with Interrupts() as interrupts:
        began = time.monotonic()
        reading = Reading(source(), interrupts, began + 0.3)
        assert list(reading) == [1]
        assert reading.cut_short
        assert 0.2 < time.monotonic() - began < 9
        done = Reading(iter([1, 2]), interrupts, began)  # the time is over, and so is the source
        assert list(done) == [1, 2]
        assert not done.cut_short
        interrupts.on_signal = lambda: None
        signalled = Reading(source(), interrupts)
        assert next(signalled) == 1
        os.kill(os.getpid(), signal.SIGTERM)
        assert list(signalled) == []
        assert interrupts.exit_code == 143
