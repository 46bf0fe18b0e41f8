"""Files and folders of instances, with names of their own."""

from __future__ import annotations

import pytest

from blogdit import formats
from blogdit.core.errors import InputError
from blogdit.formats.files import find_files, name_files, read_all
from blogdit.problems import maxcut

FOUR = "1..." + "." * 12


def write(folder, **files: str):
    folder.mkdir(exist_ok=True, parents=True)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text)
    return folder


def test_folders_stand_for_their_files(tmp_path):
    folder = write(tmp_path / "f", b__txt=FOUR, a__txt=FOUR, out__jsonl="")
    write(folder / "deeper", c__txt=FOUR)
    (folder / ".hidden").write_text(FOUR)
    found = find_files([folder, folder / "a.txt", tmp_path / "missing"], leave_out=[folder / "out.jsonl"])
    assert found == [folder / "a.txt", folder / "b.txt", tmp_path / "missing"]
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="a folder without files"):
        find_files([tmp_path / "empty"])


def test_files_get_names_of_their_own(tmp_path):
    files = [tmp_path / name for name in ("x/a.txt", "x/b.txt", "y/a.txt", "z/c.col", "z/c.gset", "z/d.txt.gz")]
    assert name_files(files) == ["x/a", "b", "y/a", "z/c.col", "z/c.gset", "d"]


def test_instances_get_names_of_their_own(tmp_path):
    one = formats.to_json(maxcut.build((2, [[0, 1]]), name="same"))
    formats.write([formats.from_json(one)] * 3, tmp_path / "a.jsonl")
    write(tmp_path, b__txt=f"{FOUR}\n{FOUR}\n")
    instances = list(read_all([tmp_path / "a.jsonl", tmp_path / "b.txt"]))
    assert [instance.name for instance in instances] == ["same", "same#2", "same#3", "b:1", "b:2"]


def test_broken_lines_and_files_are_reported_and_the_others_go_on(tmp_path):
    write(tmp_path, a__txt=f"junk\n{FOUR}\n{FOUR[1:]}\n\0\n{FOUR}\n", b__gset="3 2\n1 2 1\n2 2 1\n", c__txt=FOUR)
    (tmp_path / "a.txt").write_bytes((tmp_path / "a.txt").read_bytes() + b"\xff\xfe\n" + FOUR.encode())
    errors = []
    files = [tmp_path / name for name in ("a.txt", "missing.txt", "b.gset", "c.txt")]
    names = [instance.name for instance in read_all(files, on_error=errors.append)]
    assert names == ["a:2", "a:5", "a:7", "c"]
    assert [(error.path.name, error.line) for error in errors] == [
        ("a.txt", 1), ("a.txt", 3), ("a.txt", 4), ("a.txt", 6), ("missing.txt", None), ("b.gset", 3),
    ]  # fmt: skip
    with pytest.raises(InputError, match=r"a.txt:1: expected 16 characters per puzzle as in line 2"):
        list(read_all(files))


def test_broken_lines_of_json(tmp_path):
    lines = [f'{{"format": "blogdit-csp", "version": 1, "domain_sizes": [{k}]}}' for k in range(1, 5)]
    lines[0], lines[2] = lines[0][:20], "[]"
    (tmp_path / "a.jsonl").write_text("\n".join([*lines, '{"format": 3}']))
    errors = []
    names = [instance.name for instance in read_all([tmp_path / "a.jsonl"], on_error=errors.append)]
    assert names == ["a:2", "a:4"]
    assert [error.line for error in errors] == [1, 3, 5]


def test_counting_looks_at_lines_alone(tmp_path):
    write(tmp_path, a__txt=f"{FOUR}\n\n{FOUR}\njunk\n", b__gset="3 1\n1 2 1\n")
    assert [formats.count(tmp_path / name) for name in ("a.txt", "b.gset")] == [3, 1]
