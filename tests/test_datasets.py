"""Named data sets: fixed, found by checksum, and an error that says how to get what is missing."""

from __future__ import annotations

import hashlib
import json
import shutil

import pytest

from blogdit.bench import datasets
from blogdit.core.errors import InputError
from blogdit.formats import to_json

# Of the first two instances of each generated set: the sets never change.
PINNED = {
    "coloring-5-50": "ccce39e1d78e14b6",
    "coloring-5-100": "b375af1cce8bbb7e",
    "coloring-10-100": "37f7323f63d05fe9",
    "coloring-10-200": "5a578d3c369c96cd",
    "rb-small": "3aa51f3e3a4d2fba",
    "maxcut-50": "e280abf730e1d026",
    "maxcut-200": "b01db891e7f0e1ee",
    "sudoku-31-42": "a3d1df68636a1e92",
    "roster-loose": "1408eee6f5340b54",
    "roster-tight": "325a82d965216199",
    "exams": "537f4a0f9f4f2864",
    "latin-20": "6d370602fd7a3b9e",
    "latin-30": "e88f962bb2459fbc",
    "3-sat-200": "1324d5b213ec2ed1",
    "3-sat-250": "25d346e3a5641bcf",
    "assignment": "b158d132fc437ac2",
    "queens": "b4c79abe9a45b9cb",
    "cover": "2fcf0ed046525931",
    "qubo": "b8c4e9d11961f6a9",
    "packing": "959eb3d1c2f7f3b5",
}


@pytest.mark.parametrize("name", PINNED)
def test_generated_sets_are_fixed(name):
    data = [to_json(instance) for instance in datasets.load(name, limit=2)]
    assert hashlib.sha256(json.dumps(data).encode()).hexdigest()[:16] == PINNED[name]


def test_a_limit_takes_the_first_instances():
    two, three = datasets.load("coloring-5-50", limit=2), datasets.load("coloring-5-50", limit=3)
    assert [to_json(i) for i in two] == [to_json(i) for i in three[:2]]
    assert len({instance.name for instance in three}) == 3


def test_every_published_file_has_a_checksum():
    for split in datasets.SPLITS.values():
        for file in (*split.files, *([split.best_known] if split.best_known else [])):
            assert len(datasets.checksums()[file]) == 64
    assert sum(len(datasets.GSET_GRAPHS[size]) for size in ("800", "1k", "2k", "3k")) == 35


def test_missing_files_are_named_with_source_and_checksum(tmp_path, monkeypatch):
    monkeypatch.delenv(datasets.ENVIRONMENT, raising=False)
    with pytest.raises(InputError, match=r"gset/G1.txt is needed.*--data DIR or BLOGDIT_DATA.*Gset/.*sha256 e29951b"):
        datasets.load("gset-800")
    monkeypatch.setenv(datasets.ENVIRONMENT, str(tmp_path))
    with pytest.raises(InputError, match=r"satnet-test.csv.xz: missing; it is published as SATNet.*sha256 390818"):
        datasets.load("satnet-test")
    (tmp_path / "sudoku").mkdir()
    (tmp_path / "sudoku" / "satnet-test.csv.xz").write_text("something else")
    with pytest.raises(InputError, match="is not the published file: its checksum differs"):
        datasets.load("satnet-test")
    with pytest.raises(InputError, match="unknown data set 'nothing'; expected one of satnet-test"):
        datasets.load("nothing")


def test_files_are_read_with_their_best_known_numbers(tmp_path, monkeypatch):
    """Two graphs of a made-up set: names are those of the files."""
    files = {
        "cut/A.txt": "3 2\n1 2 1\n2 3 1\n",
        "cut/B.txt": "2 1\n1 2 1\n",
        "cut/best.csv": "graph,edges,best_known_cut\nA,2,2\nB,1,1\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    sums = {name: hashlib.sha256(text.encode()).hexdigest() for name, text in files.items()}
    monkeypatch.setattr(datasets, "checksums", lambda: sums)
    cut = datasets.Split("cut", "maxcut", "nowhere", ("cut/A.txt", "cut/B.txt"), "cut/best.csv")
    monkeypatch.setattr(datasets, "SPLITS", {"cut": cut})
    assert [(i.name, i.size) for i in datasets.load("cut", tmp_path)] == [("A", 3), ("B", 2)]
    assert [i.name for i in datasets.load("cut", tmp_path, limit=1)] == ["A"]
    assert datasets.best_known("cut", tmp_path) == {"A": 2.0, "B": 1.0}
    assert cut.summary == "2 files of nowhere"
    shutil.rmtree(tmp_path / "cut")
    with pytest.raises(InputError, match="missing"):
        datasets.load("cut", tmp_path)
