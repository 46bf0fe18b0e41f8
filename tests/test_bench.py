"""From systems to records to tables: what is written, what is reused, what is computed by hand."""

from __future__ import annotations

import gzip
import json
import re
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from blogdit import datasets
from blogdit.api import load
from blogdit.baselines import Budget, System, systems
from blogdit.bench import own, report, runner
from blogdit.bench.own import Blogdit, make, named_models
from blogdit.bench.records import COLUMNS, RecordFile, device_name, read_records
from blogdit.bench.report import fill
from blogdit.bench.runner import Options, run_suite
from blogdit.bench.statistics import mean, worth
from blogdit.bench.suites import SUITES, Case, Entrant, Suite
from blogdit.bench.tables import budgets, published, table, with_raw, write_report
from blogdit.cli import run
from blogdit.csp import Instance
from blogdit.errors import InputError
from blogdit.problems import generate
from blogdit.recipe import recipe
from blogdit.result import Result
from blogdit.runtime import commit


def silent(message, work):
    pass


def record(case, system, instance, objective, valid=True, seconds=1.0, steps=10, run=0, best_known=20.0):
    return {
        **{"suite": "tiny", "case": case, "system": system, "instance": instance, "problem": "maxcut", "run": run},
        **{"verdict": "valid" if valid else "invalid", "status": "feasible", "objective": objective, "violated": 0},
        **{"best_known": best_known, "seconds": seconds, "steps": steps, "seed": 0, "device": "CPU", "workers": 1},
        **{"commit": "abc", "model": None, "batch": 1},
    }


TINY = Suite(
    "tiny",
    "A tiny suite",
    cases=(Case("gaps", "maxcut-50", "gap", seconds=1), Case("shares", "coloring-5-50", "solved", seconds=1, steps=5)),
    quick=(),
    entrants=(Entrant("first", "greedy"), Entrant("second", "gibbs")),
)
LIVE = replace(TINY, cases=(replace(TINY.cases[0], metric="objective"), TINY.cases[1]))
BY_HAND = [
    record("gaps", "first", "a", 18),
    record("gaps", "first", "b", 20),
    record("gaps", "first", "c", 99, valid=False),  # an answer that breaks a constraint counts as objective 0
    record("gaps", "second", "a", 20, seconds=0.5, steps=0),
    *(record("shares", "first", str(i), None, valid=i < 3) for i in range(4)),
]

# -- numbers -------------------------------------------------------------------------------------------------------


def test_a_mean_and_its_interval_by_hand():
    """Of 0 and 100, resampled means are 0, 50 and 100 with chances 1/4, 1/2, 1/4."""
    m = mean([0.0, 100.0])
    assert (m.value, m.low, m.high, m.count) == (50.0, 0.0, 100.0, 2)
    many = mean([0.0, 1.0] * 200)
    assert many.value == 0.5
    assert many.high - many.low == pytest.approx(2 * 1.96 * 0.5 / 20, rel=0.1)  # the normal interval
    assert mean([7.0] * 5).low == mean([7.0] * 5).high == 7.0
    assert mean([1.0, 2.0, 4.0]) == mean([1.0, 2.0, 4.0])
    with pytest.raises(ValueError, match="at least one"):
        mean([])


def test_what_an_answer_is_worth():
    assert worth(record("c", "s", "i", 18), "gap") == 2
    assert worth(record("c", "s", "i", 18), "objective") == 18
    assert worth(record("c", "s", "i", 18, valid=False), "objective") == 0
    assert worth(record("c", "s", "i", 18, valid=False), "gap") == 20
    assert worth(record("c", "s", "i", None), "solved") == 100


# -- records -------------------------------------------------------------------------------------------------------


def test_records_survive_a_kill_in_the_middle_of_a_line(tmp_path):
    file = RecordFile(tmp_path, {"seed": 0})
    file.append(BY_HAND[:2])
    with open(file.path, "a") as stream:
        stream.write('{"suite": "ti')
    again = RecordFile(tmp_path, {"seed": 0})
    assert again.records == BY_HAND[:2]
    again.append(BY_HAND[2:3])
    assert read_records(again.path) == BY_HAND[:3]
    again.write_csv()
    rows = (tmp_path / "records.csv").read_text().splitlines()
    assert len(rows) == 4
    assert rows[0].split(",") == [name for name in COLUMNS if name in BY_HAND[0]]


def test_records_of_other_settings_are_refused(tmp_path):
    RecordFile(tmp_path, {"seed": 0, "limit": 3}).append(BY_HAND[:1])
    with pytest.raises(InputError, match="holds records with another seed; expected the same, or another --out"):
        RecordFile(tmp_path, {"seed": 1, "limit": 3})
    (tmp_path / "records.jsonl").write_text("{}\nnonsense\n{}\n")
    with pytest.raises(InputError, match=r"records.jsonl:2: not a record"):
        RecordFile(tmp_path, {"seed": 0, "limit": 3})


def test_machine_and_commit_are_named(monkeypatch):
    monkeypatch.setenv("BLOGDIT_COMMIT", "0123456789ab")
    assert commit() == "0123456789ab"
    monkeypatch.delenv("BLOGDIT_COMMIT")
    assert re.fullmatch(r"[0-9a-f]{12}\+?|v[\d.]+", commit())
    assert device_name("cpu").startswith("CPU ")


# -- tables --------------------------------------------------------------------------------------------------------


def test_table_from_hand_made_records(tmp_path, monkeypatch):
    """gaps of `first`: 2, 0 and 20, mean 7.33; of `second`: 0, on one instance. Published numbers stand apart."""
    monkeypatch.setattr(
        "blogdit.bench.tables.published", lambda: {"tiny": {"first": {"gaps": 3.5}, "Old": {"gaps": 9}}}
    )
    text = table(TINY, TINY.entrants, BY_HAND)
    lines = text.splitlines()
    assert lines[0] == "| system | gaps ↓ | shares ↑ | gaps, published |"
    low, high = mean([2.0, 0.0, 20.0]).low, mean([2.0, 0.0, 20.0]).high
    assert lines[2].startswith(f"| first | **7.33** [{low:.0f}, {high:.2f}] | **75.00** [")
    assert lines[2].endswith("| 3.5 |")
    assert lines[3] == "| second | 0 [0, 0] (1) | - | - |"
    assert lines[4] == "| Old | - | - | 9 |"
    assert "| first | 1.00 [1.00, 1.00] | 1.00 [1.00, 1.00] |" in lines
    write_report(TINY, TINY.entrants, BY_HAND, tmp_path)
    report = (tmp_path / "table.md").read_text()
    assert "gaps: 100 generated, seed (9, 2): vertices 50; 3 instances; 1 s each" in report
    assert "(N): on N of these instances only" in report
    assert "device CPU; workers 1; commit abc; seed 0" in report
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")


def test_runs_of_an_instance_count_once():
    records = [record("gaps", "first", "a", value, run=i) for i, value in enumerate((10, 20))]
    records += [record("gaps", "first", "b", value, run=i) for i, value in enumerate((20, 20))]
    line = table(TINY, TINY.entrants[:1], records).splitlines()[2]
    assert line.startswith("| first | **2.50** [0, 5.00] |")
    by_graph = table(replace(TINY, table="instances"), TINY.entrants[:1], records).splitlines()
    assert by_graph[2] == "| a | 20 | 15.0 ± 5.0 [10.0, 20.0], 20 |"
    assert by_graph[3] == "| b | 20 | 20.0 ± 0.0 [20.0, 20.0], 20 |"


def test_cost_table_by_hand():
    """`first` took 10 steps a second on each of three instances."""
    lines = table(replace(TINY, table="cost"), TINY.entrants, BY_HAND).splitlines()
    assert lines[2].startswith("| first | 1.00 [1.00, 1.00] | 10 |")
    assert lines[3].startswith("| second | 0.5 [0.5, 0.5] | - |")


def test_published_numbers_name_cases_that_exist():
    for name, rows in published().items():
        cases = {case.name for case in SUITES[name].cases}
        graphs = {f"G{number}" for numbers in datasets.GSET_GRAPHS.values() for number in numbers}
        for row in rows.values():
            assert set(row) <= (graphs if name == "per-instance" else cases)
    assert published()["sudoku"]["blogdit"] == {"easy": 100, "hard": 94.1}
    assert len(published()["block-rates"]) == 10


def test_what_was_there_before_the_local_search_has_a_row():
    """Raw 15 and 19 of 20; where the chains had nothing valid it counts 0. Other systems have no such row."""
    searched = [(18, 15), (20, 19), (20, None)]
    records = [{**record("gaps", "first", str(i), end), "raw_objective": raw} for i, (end, raw) in enumerate(searched)]
    lines = table(TINY, TINY.entrants, [*records, record("gaps", "second", "0", 20)]).splitlines()
    assert lines[2].startswith("| first | **0.667** [")
    assert lines[3].startswith("| first, before the local search | 8.67 [")
    assert lines[4].startswith("| second | 0 [")


def test_without_an_objective_the_row_before_the_search_counts_what_was_valid_then():
    """Solved at once, repaired, and neither; a system that has repaired nothing has no such row."""
    repaired = [(True, None), (True, 2), (False, 3)]
    records = [
        {**record("solved", "first", str(i), None, valid=valid), "raw_violated": raw}
        for i, (valid, raw) in enumerate(repaired)
    ]
    others = [{**record("solved", "second", "0", None), "raw_violated": None}, record("solved", "third", "0", None)]
    raw = with_raw([*records, *others])[len(records) + len(others) :]
    assert [(one["system"], one["verdict"]) for one in raw] == [
        ("first, before the local search", verdict) for verdict in ("valid", "invalid", "invalid")
    ]


def test_budgets_are_those_of_the_records():
    """Seconds of a call are those of its instances together, but for a stretch that all graphs of a size share."""
    together = {"budget_seconds": 60.0, "budget_steps": None, "batch": 200}
    alone = {"budget_seconds": 10.0, "budget_steps": None, "batch": 1}
    records = [{**record("gaps", "first", "a", 20), **together}, {**record("gaps", "second", "a", 20), **alone}]
    assert budgets(TINY.cases[0], records) == "first 0.3 s, second 10 s"
    assert budgets(replace(TINY.cases[0], stretch=True), records[:1]) == "60 s for graphs of one size together"
    steps = [{**one, "budget_seconds": None, "budget_steps": 1000} for one in records]
    assert budgets(TINY.cases[0], steps) == "1,000 steps each"


BACKBONE = ("layers", "dim", "heads", "head_dim", "values", "relation")
DIFFERENCES = {  # of the recipe that a variant was trained with
    "blogdit-brief": {},
    "blogdit-no-entropy": {"entropy": False},
    "dit": {"rho_max": 1.0, "rho_min": 1.0},
    "consformer": {"kernel": "gumbel", "hide_block": False},
}


@pytest.mark.parametrize("problem", ["sudoku", "coloring", "maxcut", "mis"])
@pytest.mark.parametrize("name", DIFFERENCES)
def test_variants_have_weights_and_differ_as_they_say(name, problem):
    """The same network for the same problem; of what an ablation may change, nothing else is changed."""
    model = load(own.make(name, {}).weights[problem])
    preset, trained = recipe(problem).to_dict(), model.provenance["recipe"]
    assert {key: trained["denoiser"][key] for key in BACKBONE} == {key: preset["denoiser"][key] for key in BACKBONE}
    flat = [{**one["chain"]["schedule"], **one["chain"], **one["training"]} for one in (preset, trained)]
    names = ("entropy", "rho_max", "rho_min", "kernel", "hide_block", "batch_size", "learning_rate")
    assert {key: flat[1][key] for key in names} == {key: flat[0][key] for key in names} | DIFFERENCES[name]


def test_report_fills_a_document(tmp_path, monkeypatch):
    monkeypatch.setitem(SUITES, "tiny", TINY)
    document = tmp_path / "docs" / "results.md"
    document.parent.mkdir()
    document.write_text(
        "before\n<!-- begin tiny -->\nold\n<!-- end tiny -->\nafter\n<!-- begin other -->\n<!-- end other -->\n"
    )
    (tmp_path / "tiny").mkdir()
    halves = ["".join(json.dumps(one) + "\n" for one in half) for half in (BY_HAND[:3], BY_HAND[3:])]
    (tmp_path / "tiny" / "first.jsonl").write_text(halves[0])
    (tmp_path / "tiny" / "second.jsonl.gz").write_bytes(gzip.compress(halves[1].encode()))
    assert fill(tmp_path, document) == ["tiny"]
    text = document.read_text()
    assert "| first | **7.33**" in text
    assert "old" not in text
    assert text.startswith("before\n<!-- begin tiny -->\n| system")
    assert text.endswith("<!-- end tiny -->\nafter\n<!-- begin other -->\n<!-- end other -->\n")
    assert (document.parent / "figures" / "tiny.png").exists()
    fill(tmp_path, document)
    assert document.read_text() == text


def test_runs_under_other_conditions_have_a_table_of_their_own(tmp_path, monkeypatch):
    monkeypatch.setitem(SUITES, "tiny", TINY)
    for folder, records in (("tiny", BY_HAND), ("tiny/shared", [{**BY_HAND[0], "objective": 5.0}])):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "all.jsonl").write_text("".join(json.dumps(one) + "\n" for one in records))
    document = tmp_path / "results.md"
    document.write_text("".join(f"<!-- begin {name} -->\n<!-- end {name} -->\n" for name in ("tiny", "tiny/shared")))
    assert fill(tmp_path, document) == ["tiny", "tiny/shared"]
    whole, shared = document.read_text().split("<!-- begin tiny/shared -->")
    assert "| second |" in whole
    assert "| second |" not in shared
    assert "![tiny/shared](figures/tiny-shared.png)" in shared
    assert (tmp_path / "figures" / "tiny-shared.png").exists()


def test_report_says_what_it_needs(tmp_path, capsys):
    assert report.main([]) == 2
    assert "RESULTS DOCUMENT" in capsys.readouterr().err
    assert report.main([str(tmp_path / "none"), str(tmp_path / "page.md")]) == 2
    assert capsys.readouterr().err.endswith("none: no such folder\n")
    assert report.main([str(tmp_path), str(tmp_path / "page.md")]) == 2
    assert capsys.readouterr().err.endswith("page.md: no such file\n")


def test_the_page_of_results_has_a_place_for_every_suite_and_names_every_system():
    text = (Path(__file__).parent.parent / "docs" / "results.md").read_text()
    assert re.findall(r"<!-- begin ([\w-]+) -->\n.*?<!-- end \1 -->", text, re.DOTALL) == list(SUITES)
    for name in own.known():
        assert f"`{name}`" in text


# -- the runner ----------------------------------------------------------------------------------------------------


class Counting(System):
    """Answers with zeros, counts its calls and stops the run when it is told to."""

    name = "counting"
    counts = "steps"

    def __init__(self):
        self.seen: list[tuple[str, Budget]] = []
        self.stop_after = 10**6

    def solve(self, instance: Instance, budget: Budget, seed: int = 0) -> Result:
        if len(self.seen) == self.stop_after:
            raise KeyboardInterrupt
        self.seen.append((instance.name, budget))
        return Result(instance, np.zeros(instance.size, np.int64), 3, 0.0, seed)


@pytest.fixture
def counting(monkeypatch):
    one = Counting()
    monkeypatch.setitem(systems(), "counting", one)
    return one


def test_an_interrupted_suite_goes_on_where_it_stopped(tmp_path, counting):
    suite = replace(LIVE, entrants=(Entrant("counting", "counting"),))
    counting.stop_after = 4
    with pytest.raises(KeyboardInterrupt):
        run_suite(suite, tmp_path, Options(limit=3), {}, silent)
    assert len(read_records(tmp_path / "records.jsonl")) == 4
    assert (tmp_path / "records.csv").exists()
    counting.stop_after = 10**6
    records = run_suite(suite, tmp_path, Options(limit=3), {}, silent)
    keys = [(r["case"], r["instance"]) for r in records]
    assert len(keys) == len(set(keys)) == 6
    assert len(counting.seen) == 6
    run_suite(suite, tmp_path, Options(limit=3), {}, silent)
    assert len(counting.seen) == 6
    assert "| counting |" in (tmp_path / "table.md").read_text()


def test_calls_at_the_same_time_have_their_own_budget_and_seconds(tmp_path, counting):
    """Only of systems that do not slow each other down; the records are those of one call after the other."""
    suite = replace(LIVE, entrants=(Entrant("counting", "counting"),))
    alone = run_suite(suite, tmp_path / "alone", Options(limit=3, seconds=5.0), {}, silent)
    counting.parallel = True
    together = run_suite(suite, tmp_path / "together", Options(limit=3, seconds=5.0, jobs=2), {}, silent)
    assert {budget.seconds for _, budget in counting.seen} == {5.0}
    shown = [[(r["case"], r["instance"], r["verdict"], r["batch"]) for r in records] for records in (alone, together)]
    assert shown[0] == shown[1]
    assert {r["jobs"] for r in together} == {2}
    assert together[0]["seconds"] == 0.0, "what the call took by its own clock"


def test_budgets_follow_the_protocol_unless_others_are_asked_for(tmp_path, counting):
    suite = replace(LIVE, entrants=(Entrant("counting", "counting"),))
    for index, (options, expected) in enumerate(
        (
            (Options(limit=1), [(1.0, None), (None, 5)]),
            (Options(limit=1, seconds=0.5), [(0.5, None), (0.5, None)]),
            (Options(limit=1, steps=7), [(None, 7), (None, 7)]),
        )
    ):
        counting.seen.clear()
        run_suite(suite, tmp_path / str(index), options, {}, silent)
        assert [(budget.seconds, budget.steps) for _, budget in counting.seen] == expected


def test_published_numbers_of_steps_hold_unless_others_are_asked_for():
    case = Case("sets", "rb-small", "objective", seconds=9, steps=1000)
    for name, options, expected in (
        ("rlsa", Options(), (None, None)),
        ("rlsa", Options(quick=True), (None, 1000)),
        ("rlsa", Options(steps=1000), (None, 1000)),
        ("gibbs", Options(), (None, 1000)),
        ("cp-sat", Options(), (9, None)),
    ):
        cell = runner.Cell(case, TINY.entrants[0], systems()[name], [])
        budget = runner._budget(cell, [None], options)
        assert (budget.seconds, budget.steps) == expected


def test_records_say_how_they_came_about(tmp_path):
    suite = replace(LIVE, entrants=(Entrant("second", "gibbs"), Entrant("greedy", "greedy")))
    records = run_suite(suite, tmp_path, Options(limit=2, steps=3, seed=4), {}, silent)
    assert len(records) == 8
    for row in records:
        assert set(COLUMNS) == set(row)
        assert row["seed"] == 4
        assert row["batch"] == (2 if row["system"] == "second" else 1)
        assert row["seconds"] == pytest.approx(row["call_seconds"] / row["batch"], abs=1e-5)


def test_time_left_comes_from_what_was_measured():
    cell = runner.Cell(TINY.cases[0], TINY.entrants[0], systems()["greedy"], waiting=[None] * 4)
    assert runner.Work([cell], 4).time_left() == 4.0
    cell.done, cell.seconds = 2, 0.5
    assert runner.Work([cell], 4).time_left() == 1.0


def test_graphs_of_one_size_share_a_stretch_on_a_gpu():
    many = [*generate("maxcut", 2, vertices=5), *generate("maxcut", 1, vertices=6), *generate("maxcut", 1, vertices=5)]
    case = Case("cuts", "maxcut-50", "gap", seconds=180, stretch=True, chains=20)
    cell = runner.Cell(case, TINY.entrants[0], systems()["rlsa"], list(many))
    together = runner._next_call(cell, Options(device="cuda"))
    assert [one.size for one in together] == [5, 5, 5]
    assert runner._budget(cell, together, Options(device="cuda")).seconds == 180
    assert len(runner._next_call(cell, Options(device="cpu"))) == 1
    pooled = replace(cell, case=replace(case, stretch=False))
    assert runner._budget(pooled, together, Options()).seconds == 540


# -- blogdit as a system -------------------------------------------------------------------------------------------


def test_blogdit_solves_by_steps_and_by_time():
    (easy,) = generate("sudoku", 1, seed=2, min_givens=60, max_givens=60)
    for name in ("blogdit", "blogdit-last-step", "blogdit-random-blocks"):
        (result,) = make(name, {}).solve_many([easy], Budget(steps=8))
        assert result.status == "solved"
        assert result.steps <= 8
    timed = make("blogdit", {}).solve_many(generate("coloring", 2, seed=1, vertices=30), Budget(seconds=0.6))
    assert [result.instance.name for result in timed] == ["coloring-0", "coloring-1"]


def test_each_chain_of_blogdit_is_a_run_of_its_own():
    many = generate("maxcut", 2, seed=3, vertices=12)
    runs = make("blogdit", {}).solve_runs(many, Budget(steps=4), seed=1, runs=3)
    assert [[result.instance for result in row] for row in runs] == [[one] * 3 for one in many]
    assert all(result.steps == 4 for row in runs for result in row)


def test_the_best_state_of_a_chain_is_the_lowest_of_its_steps():
    """Compared with a list of all states; also for puzzles, which leave one after the other as they are solved."""
    for problem, settings in (("maxcut", {"vertices": 12}), ("sudoku", {"box": 2, "min_givens": 4, "max_givens": 8})):
        many = generate(problem, 3, seed=3, **settings)
        seen = defaultdict(list)

        def list_all(crew, stepped, seen=seen):
            states = crew.batch.per_instance(stepped.values).numpy()
            for place, job in enumerate(crew.jobs):
                for chain in range(crew.batch.chains):
                    seen[job.index, chain].append(job.instance.verify(states[chain, place, : job.instance.size]))

        solver = make("blogdit", {})._solver(many[0], Budget(steps=6, chains=3), 1, polish=False)
        solver.watch = list_all
        list(solver.results(many))
        solver.watch = None
        runs = own.best_of_chains(solver, many)
        assert len(seen) == 9
        for (index, chain), verdicts in seen.items():
            worths = [(v.objective or 0.0) - 100 * v.violated for v in [*verdicts, runs[index][chain].verdict]]
            assert worths[-1] == max(worths)


def test_chains_that_took_no_step_have_what_was_given():
    many = generate("maxcut", 2, seed=3, vertices=12)
    runs = make("blogdit", {}).solve_runs(many, Budget(seconds=0.0), seed=1, runs=3)
    assert [[list(result.values) for result in row] for row in runs] == [[list(one.given_values)] * 3 for one in many]


def test_models_are_named_by_system(tmp_path):
    path = str(own.bundled_models()["sudoku"])
    models = named_models([f"dit={path}"])
    assert list(models) == [("dit", "sudoku")]
    dit = make("dit", models)
    assert isinstance(dit, Blogdit)
    assert dit.weights["sudoku"] == Path(path)
    assert dit.weights["mis"] == own.VARIANT_WEIGHTS / "mis-dit.safetensors"
    assert not dit.supports(Instance(np.array([2])))
    rates = make("blogdit", {}, {"rho_max": 0.5, "rho_min": 0.1})
    assert rates._solver(generate("sudoku", 1, seed=0)[0], Budget(steps=1), 0).model.chain.schedule.rho_max == 0.5
    for wrong in ("dit", "greedy=x"):
        with pytest.raises(InputError, match="expected --model NAME=PATH"):
            named_models([wrong])
    with pytest.raises(InputError, match="unknown system 'nothing'; expected some of blogdit"):
        make("nothing", {})


# -- the command ---------------------------------------------------------------------------------------------------


def test_every_suite_runs_small(tmp_path, capsys):
    """`quick` with next to no budget: every suite leaves records, a table and a figure."""
    arguments = ["bench", "quick", "--out", str(tmp_path), "--limit", "1", "--seconds", "0.1", "--steps", "2"]
    assert run([*arguments, "--device", "cpu"]) == 0
    shown = capsys.readouterr()
    assert shown.out.splitlines() == [str(tmp_path / name / "table.md") for name in SUITES]
    assert "left" in shown.err
    for name in SUITES:
        settings = json.loads((tmp_path / name / "settings.json").read_text())
        assert settings["suite"] == name
        assert (tmp_path / name / "figure.png").exists()
        records = read_records(tmp_path / name / "records.jsonl")
        assert {row["suite"] for row in records} == {name}
        assert {row["system"] for row in records} >= {one.label for one in SUITES[name].entrants}


def test_the_command_refuses_what_it_does_not_know(tmp_path, capsys, monkeypatch):
    monkeypatch.delenv(datasets.ENVIRONMENT, raising=False)
    assert run(["bench", "nothing", "--out", str(tmp_path)]) == 2
    assert run(["bench", "mis", "--cases", "RB-tiny", "--out", str(tmp_path)]) == 2
    assert run(["bench", "sudoku", "--out", str(tmp_path)]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("blogdit: unknown suite 'nothing'; expected quick or one of sudoku")
    assert lines[1] == "blogdit: mis has no case 'RB-tiny'; expected some of RB-small, RB-large"
    assert lines[2].startswith("blogdit: sudoku/satnet-test.csv.xz is needed")
