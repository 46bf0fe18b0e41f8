"""Instances of the user's as a suite: how answers are compared, what is refused, what a run of the command leaves."""

from __future__ import annotations

import numpy as np
import pytest

import blogdit
from bench_cases import record
from blogdit.bench.measures import Records, distance
from blogdit.bench.records import RECORDS, TABLE, read_records
from blogdit.bench.suites import Case
from blogdit.bench.user_suite import for_problem, suite_of
from blogdit.bench.variants import make, named_models
from blogdit.cli.app import run
from blogdit.core.constraints import Linear
from blogdit.core.errors import InputError
from blogdit.core.instance import Instance, Objective
from blogdit.problems import generate
from helpers import assignments


def cover(seed: int, sense: str = "minimize") -> Instance:
    """Which of eight parts weigh 30 or more together and cost least; or 30 at most, and are worth most."""
    draws = np.random.default_rng(seed)
    weights, costs = draws.integers(1, 20, 8), draws.integers(5, 30, 8).astype(float)
    side = ">=" if sense == "minimize" else "<="
    return Instance(
        [2] * 8,
        (Linear([range(8)], [weights], [side], [30]),),
        Objective(sense, unary=[[part, 1] for part in range(8)], unary_weights=costs),
        name=f"cover-{seed}",
        problem="cover",
    )


@pytest.mark.parametrize(
    ("found", "best", "apart"),
    [(5, 5, 0), (0, 0, 0), (9, 10, 10), (10, 9, 10), (-9, -10, 10), (0, 7, 100), (-1, 1, 100), (0.5, 2, 75)],
)
def test_distances(found, best, apart):
    assert distance(found, best) == pytest.approx(apart)


@pytest.mark.parametrize(("sense", "first", "second"), [("maximize", [50, 0, 100], [0, 100, 100]),
                                                        ("minimize", [0, 0, 100], [50, 100, 100])])  # fmt: skip
def test_the_best_answer_of_all_rows_counts(sense, first, second):
    """Of three instances: both have an answer, one has, nobody has."""
    rows = [record("c", "first", "a", 10), record("c", "first", "b", -3), record("c", "first", "c", 1, valid=False)]
    rows += [record("c", "second", "a", 20), *(record("c", "second", name, 99, valid=False) for name in "bc")]
    case = Case("c", "", "distance", seconds=1, sense=sense)
    assert list(Records(rows).by_instance(case, "first").values()) == first
    assert list(Records(rows).by_instance(case, "second").values()) == second


@pytest.mark.parametrize("sense", ["minimize", "maximize"])
def test_a_run_on_instances_of_ones_own(sense, tmp_path, capsys):
    """With a model that was trained on something else; CP-SAT's answers are the best of all assignments."""
    pytest.importorskip("ortools")
    mine = [cover(seed, sense) for seed in range(3)]
    blogdit.write(mine, tmp_path / "parts.jsonl")
    systems = ["--systems", "cp-sat,blogdit,greedy", "--model", "blogdit=coloring", "--steps", "3"]
    command = ["bench", str(tmp_path / "parts.jsonl"), *systems, "--device", "cpu", "--out", str(tmp_path / "out")]
    assert run(command) == 0
    assert "greedy does not solve cover; left out: greedy on parts.jsonl" in capsys.readouterr().err
    rows = read_records(tmp_path / "out" / RECORDS)
    assert {row["model"] for row in rows if row["system"] == "blogdit"} == {"coloring"}
    best = max if sense == "maximize" else min
    for one in mine:
        verdicts = [verdict for verdict in map(one.verify, assignments(one)) if verdict.satisfied]
        (exact,) = (row for row in rows if row["system"] == "cp-sat" and row["instance"] == one.name)
        assert exact["objective"] == best(verdict.objective for verdict in verdicts)
    table = (tmp_path / "out" / TABLE).read_text()
    assert "## parts.jsonl: distance from the best answer, per cent" in table
    assert "| cp-sat | **0** [0, 0] |" in table
    assert "3 instances" in table
    blogdit.write(mine[:2], tmp_path / "parts.jsonl")
    assert run(command) == 2
    assert "holds records with another instances" in capsys.readouterr().err


def test_graphs_need_to_be_told_what_they_are_for(tmp_path, capsys):
    folder = tmp_path / "graphs"
    folder.mkdir()
    for number, graph in enumerate(generate("maxcut", 2, seed=0, vertices=8, p_min=0.9, p_max=0.9)):
        blogdit.write(graph, folder / f"g{number}.edges")
    command = ["bench", str(folder), "--systems", "greedy", "--out", str(tmp_path / "out")]
    assert run(command) == 2
    assert "expected --problem" in capsys.readouterr().err
    assert run([*command, "--problem", "coloring", "--colors", "8"]) == 0
    table = (tmp_path / "out" / TABLE).read_text()
    assert "| greedy | **100.00** [100.00, 100.00] |" in table
    assert [row["instance"] for row in read_records(tmp_path / "out" / RECORDS)] == ["g0", "g1"]
    assert run(["bench", "mis", "--problem", "mis", "--out", str(tmp_path / "other")]) == 2
    assert "are for instances of your own" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("others", "message"),
    [
        (lambda: generate("mis", 1, seed=0), "cover and mis; expected one kind"),
        (lambda: [cover(1, "maximize")], "maximize and minimize"),
        (lambda: [Instance([2, 2], name="any", problem="cover")], "no objective and minimize"),
    ],
)
def test_all_must_be_of_one_kind(others, message, tmp_path):
    blogdit.write([cover(0), *others()], tmp_path / "mixed.jsonl")
    with pytest.raises(InputError, match=f"mixed.jsonl: has instances of different kinds: .*{message}"):
        suite_of(tmp_path / "mixed.jsonl")


def test_named_models_are_for_the_problem_of_the_instances(tmp_path):
    blogdit.write([cover(0)], tmp_path / "one.json")
    models = for_problem(named_models(["blogdit=coloring", "mine=mis"]), suite_of(tmp_path / "one.json"))
    assert set(models) == {("blogdit", "cover"), ("mine", "cover")}
    assert all(make(name, models).supports(cover(1)) for name in ("blogdit", "mine"))
