"""Records in a folder: what is kept, what is refused, whatever a run before left there."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import pytest

from bench_cases import BY_HAND
from blogdit.bench.records import COLUMNS, RecordFile, device_name, read_records
from blogdit.core.errors import InputError
from blogdit.network.runtime import commit

SETTINGS = {"suite": "tiny", "seed": 0}


def keep(folder, records, settings=SETTINGS):
    with RecordFile(folder, settings) as file:
        file.append(records)
    return file


def test_records_survive_a_kill_in_the_middle_of_a_line(tmp_path):
    path = keep(tmp_path, BY_HAND[:2]).path
    with open(path, "a") as stream:
        stream.write('{"suite": "ti')
    again = keep(tmp_path, BY_HAND[2:3])
    assert again.records == read_records(path) == BY_HAND[:3]
    again.write_csv()
    rows = (tmp_path / "records.csv").read_text().splitlines()
    assert len(rows) == 4
    assert rows[0].split(",") == [name for name in COLUMNS if name in BY_HAND[0]]


def test_a_record_without_the_end_of_its_line_is_kept(tmp_path):
    path = keep(tmp_path, BY_HAND[:2]).path
    path.write_text(path.read_text().rstrip("\n"))
    assert keep(tmp_path, BY_HAND[2:3]).records == read_records(path) == BY_HAND[:3]


def test_records_of_other_settings_are_refused(tmp_path):
    keep(tmp_path, BY_HAND[:1])
    with pytest.raises(InputError, match=r"holds records with another seed \(0, not 1\); expected the same"):
        keep(tmp_path, [], {**SETTINGS, "seed": 1})
    with pytest.raises(InputError, match=r"another suite \(tiny, not mis\)"):
        keep(tmp_path, [], {**SETTINGS, "suite": "mis"})
    for text, expected in (("[]", "not the settings of a run"), ('{"suite": "ti', "not the settings of a run")):
        (tmp_path / "settings.json").write_text(text)
        with pytest.raises(InputError, match=expected):
            keep(tmp_path, [])
    (tmp_path / "settings.json").unlink()
    with pytest.raises(InputError, match=r"holds records but no settings.json; expected both"):
        keep(tmp_path, [])


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("nonsense", "records.jsonl:2: not a record"),
        ("5", "records.jsonl:2: not a record; expected a JSON object with suite, case"),
        ("[]", "records.jsonl:2: not a record"),
        (json.dumps({**BY_HAND[1], "suite": "mis"}), "records.jsonl:2: a record of mis; expected tiny"),
        (json.dumps(BY_HAND[0]), "records.jsonl:2: a second record of first on a; expected one"),
        (json.dumps({k: v for k, v in BY_HAND[1].items() if k != "verdict"}), "expected a JSON object with verdict"),
        ("\udcff", "records.jsonl: cannot be read"),
    ],
)
def test_what_is_no_record_is_refused_and_stays(tmp_path, line, expected):
    path = keep(tmp_path, BY_HAND[:1]).path
    with open(path, "a", errors="surrogateescape") as file:
        file.write(line + "\n")
    before = path.read_bytes()
    with pytest.raises(InputError, match=expected):
        keep(tmp_path, [])
    assert path.read_bytes() == before


def test_a_folder_has_one_run_at_a_time(tmp_path):
    first, second = RecordFile(tmp_path, SETTINGS), RecordFile(tmp_path, SETTINGS)
    with first:
        with pytest.raises(InputError, match="another run is writing here"), second:
            pass
        first.append(BY_HAND[:1])
    with second:  # what the other has done meanwhile counts
        assert second.records == BY_HAND[:1]
    assert read_records(first.path) == BY_HAND[:1]


def test_a_run_without_a_record_leaves_nothing_behind(tmp_path):
    keep(tmp_path / "new", [])
    keep(tmp_path, [])
    assert list(tmp_path.iterdir()) == []
    with RecordFile(tmp_path / "new", SETTINGS) as file:
        (file.folder / "log").touch()  # somebody else's
    assert [path.name for path in file.folder.iterdir()] == ["log"]
    keep(tmp_path / "new", BY_HAND[:1])
    keep(tmp_path / "new", [])
    assert read_records(tmp_path / "new" / "records.jsonl") == BY_HAND[:1]


def test_who_is_stopped_while_it_writes_keeps_what_is_written(tmp_path, monkeypatch):
    def stopped(descriptor):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", stopped)
    with pytest.raises(KeyboardInterrupt):
        keep(tmp_path, BY_HAND[:1])
    assert read_records(tmp_path / "records.jsonl") == BY_HAND[:1]


def test_records_do_not_go_where_nobody_finds_them(tmp_path):
    with RecordFile(tmp_path / "out", SETTINGS) as file:
        file.append(BY_HAND[:1])
        (tmp_path / "out").rename(tmp_path / "moved")
        with pytest.raises(InputError, match="cannot be written: No such file"):
            file.append(BY_HAND[1:2])
        keep(tmp_path / "out", BY_HAND[:2])
        with pytest.raises(InputError, match="has been replaced"):
            file.append(BY_HAND[1:2])
    assert read_records(tmp_path / "moved" / "records.jsonl") == BY_HAND[:1]


def test_a_full_disk_costs_nothing_that_was_there(tmp_path):
    """A limit on the size of files stands for it."""
    program = """if True:
        import json, resource, sys
        from pathlib import Path
        from blogdit.bench.records import RecordFile
        from blogdit.core.errors import InputError

        folder, records = Path(sys.argv[1]), json.loads(sys.argv[2])
        size = (folder / "records.jsonl").stat().st_size
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + 10, size + 10))
        try:
            with RecordFile(folder, {"suite": "tiny", "seed": 0}) as file:
                file.append(records)
        except InputError as error:
            sys.exit(str(error))
    """
    path = keep(tmp_path, BY_HAND[:1]).path
    rows = json.dumps(BY_HAND[1:3])
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path), rows], capture_output=True, text=True)
    assert done.stderr.strip() == f"{path}: cannot be written: File too large"
    assert read_records(path) == BY_HAND[:1], "all of a call or nothing"
    assert keep(tmp_path, BY_HAND[1:3]).records == read_records(path) == BY_HAND[:3]


def test_files_of_others_are_not_overwritten(tmp_path):
    (tmp_path / "table.md").write_text("mine")
    for name in ("table.md", "settings.json"):
        (tmp_path / name).write_text("mine")
        with pytest.raises(InputError, match=f"holds a {name} but no records; expected another --out"):
            keep(tmp_path, [])
        assert (tmp_path / name).read_text() == "mine"
    with pytest.raises(InputError, match="is a file; expected a folder"):
        keep(tmp_path / "table.md", [])
    with pytest.raises(InputError, match="cannot be written: Not a directory"):
        keep(tmp_path / "table.md" / "below", BY_HAND[:1])


def test_machine_and_commit_are_named(monkeypatch):
    monkeypatch.setenv("BLOGDIT_COMMIT", "0123456789ab")
    assert commit() == "0123456789ab"
    monkeypatch.delenv("BLOGDIT_COMMIT")
    assert re.fullmatch(r"[0-9a-f]{12}\+?|v[\d.]+", commit())
    assert device_name("cpu").startswith("CPU ")
