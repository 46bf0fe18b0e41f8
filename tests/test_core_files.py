"""Files are there as a whole or not at all, whatever happens, and one process at a time writes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from blogdit import formats
from blogdit.cli.app import run
from blogdit.core.errors import InputError
from blogdit.core.files import replacing
from blogdit.formats.records import RecordFile
from blogdit.problems import generate, maxcut


def test_a_file_is_replaced_as_a_whole(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    os.chmod(path, 0o600)
    with replacing(path) as file:
        file.write(b"new and longer")
        assert path.read_bytes() == b"old"
        (hidden,) = [one for one in tmp_path.iterdir() if one != path]
        assert hidden.name.startswith(".file.")
    assert path.read_bytes() == b"new and longer"
    with pytest.raises(TypeError), replacing(path) as file:
        file.writelines([b"half of", "it"])
    assert path.read_bytes() == b"new and longer"
    assert [one.name for one in tmp_path.iterdir()] == ["file"]


def test_temporary_names_differ_and_follow_no_link(tmp_path, monkeypatch):
    seen = []
    for _ in range(2):
        with replacing(tmp_path / "file"):
            seen += [one.name for one in tmp_path.iterdir() if one.name.startswith(".")]
    assert len(set(seen)) == 2
    monkeypatch.setattr("blogdit.core.files.secrets.token_hex", lambda count: "guessed")
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (tmp_path / ".file.guessed.partial").symlink_to(victim)
    with pytest.raises(FileExistsError), replacing(tmp_path / "file"):
        pass
    assert victim.read_text() == "mine"


def test_a_device_is_written_as_it_is():
    with pytest.raises(OSError, match="No space left"), replacing(Path("/dev/full")) as file:
        file.write(b"x" * 100_000)


@pytest.mark.parametrize("name", ["out.txt", "out.txt.gz", "out.txt.xz", "out.npz", "out.json"])
def test_a_full_disk_leaves_no_file(tmp_path, monkeypatch, capsys, name):
    """Neither an empty one nor half of one."""

    def full(number: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("blogdit.core.files.os.fsync", full)
    problem = "maxcut" if name == "out.npz" else "sudoku"
    with pytest.raises(InputError, match="cannot be written: No space left on device"):
        formats.write(generate(problem), tmp_path / name)
    assert run(["generate", problem, "--out", str(tmp_path / name)]) == 2
    assert "No space left" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_the_second_writer_is_told_so(tmp_path, capsys):
    """Whether it means to go on or to begin, in this process or in another; and it changes nothing."""
    instance, out = tmp_path / "cut.json", tmp_path / "out.jsonl"
    formats.write(maxcut.build((2, [[0, 1]]), name="cut"), instance)
    with RecordFile(out) as file:
        file.write({"instance": "a", "status": "feasible"})
        with open(out, "ab") as torn:
            torn.write(b'{"instance": "b')  # what the first one is just writing
        before = out.read_bytes()
        command = ["solve", str(instance), "--out", str(out)]
        for more in ([], ["--resume"]):
            assert run([*command, *more]) == 2
            assert capsys.readouterr().err == (
                f"blogdit: {out}: another run is writing here; expected another --out, or to wait for it\n"
            )
        other = subprocess.run([sys.executable, "-m", "blogdit", *command, "--resume"], capture_output=True, text=True)
        assert other.returncode == 2
        assert "another run is writing here" in other.stderr
        assert out.read_bytes() == before
    with RecordFile(out, resume=True) as file:
        assert list(file.held) == ["a"]
