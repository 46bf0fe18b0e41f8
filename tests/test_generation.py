"""Instances made by several processes are those that one makes."""

from __future__ import annotations

import pytest

from blogdit.formats import to_json
from blogdit.method.batch import collate, same_structure
from blogdit.problems import generation
from blogdit.problems.generation import make_many

SMALL = {"box": 2, "min_givens": 4, "max_givens": 6}


@pytest.mark.parametrize(
    ("problem", "settings"), [("sudoku", SMALL), ("coloring", {"vertices": "5-9", "colors": "2-4"})]
)
def test_who_makes_them_does_not_matter(monkeypatch, problem, settings):
    monkeypatch.setattr(generation, "CHUNK", 10)
    alone = make_many(problem, 35, (3, 0), settings, processes=1)
    monkeypatch.setattr(generation, "WORTH", 0.0)
    together = make_many(problem, 35, (3, 0), settings, processes=2)
    assert len(alone) == 35
    assert [to_json(one) for one in together] == [to_json(one) for one in alone]
    assert len({str(to_json(one)) for one in alone}) > 30
    assert collate(together).shared == collate(alone).shared == (problem == "sudoku")


@pytest.mark.parametrize(("problem", "settings"), [("sudoku", {"box": "2-3"}), ("latin", {"order": "4-6"})])
def test_instances_of_one_size_share_their_structure_whoever_makes_them(monkeypatch, problem, settings):
    monkeypatch.setattr(generation, "CHUNK", 10)
    monkeypatch.setattr(generation, "WORTH", 0.0)
    made = make_many(problem, 30, (5, 0), settings, processes=2)
    sizes = {one.size for one in made}
    assert len(sizes) > 1
    for same_size in sizes:
        assert same_structure([one for one in made if one.size == same_size])
    cuts = make_many("maxcut", 20, (5, 0), {"vertices": 6}, processes=2)
    assert len({str(to_json(one)["objective"]) for one in cuts}) > 10, "graphs without constraints stay their own"


def test_other_seeds_give_other_instances():
    first, second = (make_many("coloring", 3, (3, part), {"vertices": 9, "colors": 3}) for part in (0, 1))
    assert [to_json(one) for one in first] != [to_json(one) for one in second]


def test_a_process_that_fails_says_why():
    with pytest.raises(ValueError, match="p_min must not exceed p_max"):
        generation._in_processes([generation.Order("coloring", 2, (0,), {"p_min": 0.9, "p_max": 0.1})], 1)


@pytest.mark.parametrize(("worth", "lines"), [(0.0, 1), (1e9, 0)])
def test_long_work_is_told_once(worth, lines, monkeypatch):
    monkeypatch.setattr(generation, "CHUNK", 2)
    monkeypatch.setattr(generation, "WORTH", worth)
    told = []
    made = make_many("coloring", 7, (3, 0), {"vertices": 9, "colors": 3}, processes=1, tell=told.append)
    assert len(made) == 7
    assert len(told) == lines
    assert all(line.startswith("making 7 instances of coloring, about ") for line in told)
