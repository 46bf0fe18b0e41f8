"""What learning is worth: equal seconds for the program and its parts, and what the table makes of their records."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from bench_cases import TINY, record
from blogdit.bench import calls, datasets, runner
from blogdit.bench.measures import Records, groups
from blogdit.bench.options import NothingToRun, Options
from blogdit.bench.plots import DRAWERS
from blogdit.bench.suites import BATCH, FINISHER, SUITES, WHOLE, Case, Entrant
from blogdit.bench.systems import Budget, system
from blogdit.bench.tables import footer, table
from blogdit.bench.variants import Blogdit, make
from blogdit.problems import generate

WORTH = SUITES["worth"]
CUTS = tuple(Case(f"cuts {s} s", "maxcut-50", "distance", seconds=s, group="cuts") for s in (1, 10))
SMALL = replace(
    TINY,
    cases=(*CUTS, Case("grids 1 s", "sudoku-31-42", "solved", seconds=1, group="grids")),
    entrants=WORTH.entrants,
    table="worth",
    figure="worth",
)


def row(case, system, instance, objective, valid=True, steps=5, seconds=1.0, weights="w"):
    whole = record(case, system, instance, objective, valid=valid, steps=steps, best_known=None)
    return {**whole, "budget_seconds": seconds, "call_seconds": seconds * 1.5, "weights": weights}


CUT_ROWS = [
    *(row("cuts 1 s", WHOLE, name, found) for name, found in zip("abc", (80, 90, 70), strict=True)),
    *(row("cuts 1 s", FINISHER, name, found, steps=0) for name, found in zip("abc", (60, 70, 50), strict=True)),
    *(row("cuts 10 s", WHOLE, name, 90, seconds=10.0) for name in "abc"),
    *(row("cuts 10 s", FINISHER, name, 100, steps=0, seconds=10.0) for name in "abc"),
    *(row("cuts 10 s", "sampler alone", name, 50, steps=0, seconds=10.0) for name in "abc"),
    *(row("cuts 10 s", "cp-sat", name, 50, steps=0, seconds=10.0, weights=None) for name in "abc"),
]
GRID_ROWS = [
    *(row("grids 1 s", WHOLE, name, None, valid=name == "a") for name in "ab"),
    *(row("grids 1 s", FINISHER, name, None, valid=name == "b", steps=0) for name in "ab"),
]


def rows_of(text):
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in (lines[0], *lines[2:])]


def test_the_difference_is_paired_and_the_best_answer_is_of_all_budgets():
    """All cuts are compared with 100, which only ten seconds found: 20, 10 and 30 % against 40, 30 and 50 %."""
    text = table(SMALL, [*CUT_ROWS, *GRID_ROWS])
    assert text.startswith("Sampler + finisher against the finisher alone, in 3 rows: 1 ahead, 1 level, 1 behind.\n")
    header, *found = rows_of(text)
    shown = [dict(zip(header, cells, strict=True)) for cells in found]
    difference = "sampler + finisher less finisher alone"
    assert [one["problem"] for one in shown] == ["cuts, distance, % ↓"] * 2 + ["grids, solved, % ↑"]
    assert [one[WHOLE] for one in shown] == ["**20.00**", "10.00", "50.00"]
    assert [one[FINISHER] for one in shown] == ["40.00", "**0**", "50.00"]
    assert [one[difference] for one in shown[:2]] == ["-20.00 [-20.00, -20.00]", "+10.00 [+10.00, +10.00]"]
    assert shown[2][difference].startswith("0 [")
    assert [one["verdict"] for one in shown] == ["ahead", "behind", "level"]
    assert [one["seconds"] for one in shown] == ["1 each", "10 each", "1 each"]
    assert [one["instances"] for one in shown] == ["3", "3", "2"]


def test_a_network_that_took_no_step_is_marked():
    header, _, ten = rows_of(table(replace(SMALL, cases=CUTS), CUT_ROWS))
    shown = dict(zip(header, ten, strict=True))
    assert shown["sampler alone"] == "50.00 (no step)"
    assert shown["cp-sat"] == "50.00"


def test_the_notes_say_how_long_calls_took():
    text = footer(replace(SMALL, cases=CUTS), CUT_ROWS)
    assert "sampler + finisher 1.50, finisher alone 1.50" in text
    assert "- cuts: 100 generated" in text
    assert text.count("- cuts: ") == 1


def test_a_panel_for_each_problem():
    from matplotlib.figure import Figure

    figure = Figure()
    DRAWERS["worth"](figure, SMALL, Records([*CUT_ROWS, *GRID_ROWS]))
    cuts, grids = figure.axes
    assert (cuts.get_title(), grids.get_title()) == ("cuts", "grids")
    assert cuts.lines[0].get_xydata().tolist() == [[1, 20], [10, 10]]
    assert grids.get_ylabel() == "solved, %"


def test_cases_of_a_problem_differ_in_their_budgets_alone():
    assert len({case.name for case in WORTH.cases}) == len(WORTH.cases)
    for _, (cases, _) in groups(WORTH, []).items():
        shared = {(case.split, case.metric, case.sense, case.count) for case in cases}
        assert len(shared) == 1
        seconds = [case.seconds * BATCH for case in cases if case.device == "cuda"]
        assert seconds == pytest.approx([0.1, 1, 10, 30])
        assert [case.seconds for case in cases if case.device == "cpu"] == [1, 10]


def test_the_device_chooses_the_budgets():
    on_cpu, on_gpu = (runner._cases(WORTH, Options(device=device)) for device in ("cpu", "cuda:0"))
    assert {case.device for case in on_cpu} == {"cpu"}
    assert {case.device for case in on_gpu} == {"cuda"}
    chosen = runner._cases(WORTH, Options(device="cpu", cases=("mis*", "* 1 s each")))
    assert {case.name for case in chosen} >= {"mis 1 s each", "mis 10 s each", "exams 1 s each"}
    assert "exams 10 s each" not in {case.name for case in chosen}
    with pytest.raises(NothingToRun, match="worth has none of these cases; it has sudoku hard 1 s each"):
        runner._cases(WORTH, Options(device="cpu", cases=("mis 30 s",)))


def test_every_system_gets_the_same_seconds_for_the_same_instances():
    many = generate("coloring", 5, vertices=6, colors=3)
    gpu, cpu = Options(device="cuda"), Options(device="cpu")
    for case in (next(case for case in WORTH.cases if case.device == device) for device in ("cuda", "cpu")):
        for entrant in WORTH.entrants:
            cell = calls.Cell(case, entrant, make(entrant.system, {}, entrant.options), many)
            options = gpu if case.device == "cuda" else cpu
            together = calls.batches(cell, options)
            given = [(len(some), calls.budget(cell, some, options).seconds) for some in together]
            assert given == ([(5, pytest.approx(5 * 0.1 / BATCH))] if case.device == "cuda" else [(1, 1.0)] * 5)


def test_cp_sat_shares_the_seconds_of_a_batch():
    puzzles = datasets.load("sudoku-31-42", limit=6)
    found = system("cp-sat").solve_many(puzzles, Budget(seconds=20, workers=2))
    assert [result.instance.name for result in found] == [puzzle.name for puzzle in puzzles]
    assert {result.status for result in found} == {"solved"}
    nothing = system("cp-sat").solve_many(puzzles, Budget(seconds=0, workers=2))
    assert {result.status for result in nothing} == {"unknown"}


def test_the_untrained_sampler_differs_in_its_weights_alone():
    (puzzle,) = datasets.load("sudoku-31-42", limit=1)
    systems = {one.label: make(one.system, {}, one.options) for one in WORTH.entrants}
    alone, untrained = systems["sampler alone"], systems["untrained sampler"]
    assert isinstance(alone, Blogdit)
    assert isinstance(untrained, Blogdit)
    one, other = (system.solver(puzzle, Budget(seconds=1.0), 0) for system in (alone, untrained))
    assert one.options == other.options
    assert one.model.chain == other.model.chain
    assert one.model.denoiser.config == other.model.denoiser.config
    pairs = zip(one.model.denoiser.parameters(), other.model.denoiser.parameters(), strict=True)
    assert not all(torch.equal(a, b) for a, b in pairs)
    assert untrained.provenance(puzzle) == f"{alone.provenance(puzzle)}, untrained"


def test_the_finisher_alone_takes_no_step():
    (cut,) = datasets.load("maxcut-50", limit=1)
    (result,) = make("blogdit", {}, {"finish_share": 1.0}).solve_many([cut], Budget(seconds=0.3))
    assert result.steps == 0
    assert result.found_by in {"annealing", "exact"}  # which of them is first depends on the machine
    assert Entrant(FINISHER, "blogdit", {"finish_share": 1.0}) in WORTH.entrants
