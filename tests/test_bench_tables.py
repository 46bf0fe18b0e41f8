"""From records to tables and pages: what is computed by hand."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path

import pytest

from bench_cases import BY_HAND, TINY, record
from blogdit.bench import datasets, report, variants
from blogdit.bench.measures import Mean, Records, mean, with_raw, worth
from blogdit.bench.records import COLUMNS
from blogdit.bench.report import fill
from blogdit.bench.suites import SUITES
from blogdit.bench.systems import systems
from blogdit.bench.tables import budgets, footer, published, table, write_report

DOCS = Path(__file__).parent.parent / "docs"

# -- numbers ------------------------------------------------------------------------------------------------------


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


# -- tables -------------------------------------------------------------------------------------------------------


def test_table_from_hand_made_records(tmp_path, monkeypatch):
    """gaps of `first`: 2, 0 and 20, mean 7.33; of `second`: 0, on one instance. Published numbers stand apart."""
    monkeypatch.setattr(
        "blogdit.bench.tables.published", lambda: {"tiny": {"first": {"gaps": 3.5}, "Old": {"gaps": 9}}}
    )
    text = table(TINY, BY_HAND)
    lines = text.splitlines()
    assert lines[0] == "| system | gaps ↓ | shares ↑ | gaps, published |"
    low, high = mean([2.0, 0.0, 20.0]).low, mean([2.0, 0.0, 20.0]).high
    assert lines[2].startswith(f"| first | **7.33** [{low:.0f}, {high:.2f}] | **75.00** [")
    assert lines[2].endswith("| 3.5 |")
    assert lines[3] == "| second | 0 [0, 0] (1) | - | - |"
    assert lines[4] == "| Old | - | - | 9 |"
    assert "| first | 1.00 | 1.00 |" in lines
    write_report(TINY, BY_HAND, tmp_path)
    report = (tmp_path / "table.md").read_text()
    assert "gaps: 100 generated, seed (9, 2): vertices 50. 3 instances. 1 s each." in report
    assert "(N): on N instances" in report
    assert "device CPU; commit abc; seed 0.\n" in report
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")


def test_differences_are_over_the_instances_that_both_ran_on():
    """On a, b and c `first` has gaps 2, 0 and 20; `second` on a and b 0 and 3: -2 and +3."""
    records = [*BY_HAND[:4], record("gaps", "second", "b", 17)]
    lines = table(TINY, records).splitlines()
    where = lines.index("| less first, on the same instances | gaps | shares |")
    assert lines[where + 2] == "| second | +0.5 [-2.00, +3.00] (2) | - |"
    assert table(TINY, BY_HAND[:3]).count("less first") == 0, "nobody to compare with"


def test_differences_before_the_search_are_between_those_rows():
    """After it both are at 20; before it `first` was at 15, `second` at 12."""
    records = [{**record("gaps", name, "a", 20), "raw_objective": raw} for name, raw in (("first", 15), ("second", 12))]
    lines = table(TINY, records).splitlines()
    assert "| second | 0 [0, 0] (1) | - |" in lines
    assert "| second, before the search | +3.00 [+3.00, +3.00] (1) | - |" in lines


def test_who_found_nothing_before_the_search_had_0_and_who_needed_none_had_all():
    """A record says that a search followed, also where nothing is left to tell from before it."""
    worse = {**record("gaps", "first", "a", 20), "searches": True, "raw_objective": None}
    solved = {**record("shares", "first", "b", None), "searches": True, "raw_violated": None}
    raw = with_raw([worse, solved])[2:]
    assert [(one["case"], one["verdict"]) for one in raw] == [("gaps", "invalid"), ("shares", "valid")]
    assert with_raw([{**worse, "searches": False}]) == [{**worse, "searches": False}]


def test_who_shows_that_there_is_no_answer_has_a_row():
    """Of four instances one was shown to have none; who never did so has no row, and without any no table."""
    shown = [{**one, "exhausted": one["case"] == "shares" and one["instance"] == "3"} for one in BY_HAND]
    text = table(TINY, shown)
    assert "| shown to have no valid answer, % | gaps | shares |" in text
    assert "| first | 0 [0, 0] | 25.00 [" in text
    assert text.count("| second |") == table(TINY, BY_HAND).count("| second |")
    assert "shown to have" not in table(TINY, BY_HAND)
    some = table(TINY, [*BY_HAND[:-1], shown[-1]])  # old records do not say
    assert "| first | - | 100.00 [100.00, 100.00] (1) |" in some
    assert "| second | - | - |" in some.split("shown to have")[1]


def test_intervals_do_not_depend_on_the_order():
    assert mean([1.0, 5.0, 2.0, 7.0]) == mean([7.0, 2.0, 5.0, 1.0])


def test_weights_are_named():
    """Of every problem."""
    records = [
        {**record("gaps", "first", "a", 20), "weights": f"{name}.safetensors 01"} for name in ("mis", "mis", "cut")
    ]
    assert "- Weights: first mis.safetensors 01, first cut.safetensors 01.\n" in footer(TINY, [*records, BY_HAND[3]])


def test_workers_are_stated_for_systems_that_use_them():
    records = [{**record("gaps", name, "a", 20), "workers": n} for name, n in (("cp-sat", 8), ("greedy", 16))]
    assert "seed 0; cp-sat with 8 workers.\n" in footer(TINY, records)


def test_a_network_that_did_nothing_is_named():
    """Of a solver like CP-SAT steps say nothing."""
    records = [
        record("gaps", name, "a", 20, steps=steps) for name, steps in (("blogdit", 0), ("dit", 3), ("cp-sat", 0))
    ]
    text = footer(TINY, records)
    assert "- blogdit took no step of its network on gaps: the search had all the time.\n" in text
    assert text.count("took no step") == 1


def test_runs_of_an_instance_count_once():
    records = [record("gaps", "first", "a", value, run=i) for i, value in enumerate((10, 20))]
    records += [record("gaps", "first", "b", value, run=i) for i, value in enumerate((20, 20))]
    line = table(TINY, records).splitlines()[2]
    assert line.startswith("| first | **2.50** [0, 5.00] |")
    by_graph = table(replace(TINY, table="instances"), records).splitlines()
    assert by_graph[2] == "| a | 20 | 15.0 ± 5.0 [10.0, 20.0], 20 |"
    assert by_graph[3] == "| b | 20 | 20.0 ± 0.0 [20.0, 20.0], 20 |"


def test_cost_table_by_hand():
    """`first` took 10 steps a second on each of three instances."""
    seconds, rates = table(replace(TINY, table="cost"), BY_HAND).split("\n\n")
    assert seconds.splitlines()[2:] == ["| first | 1.00 | 1.00 |", "| second | 0.5 | - |"]
    assert rates.splitlines()[2:] == ["| first | 10 | 10 |", "| second | - | - |"]


def test_published_cost_has_columns_of_its_own():
    records = [record("RB-small", "blogdit", "a", 20)]
    *_, shown = table(SUITES["cost"], records).split("\n\n")
    columns = "one instance | blogdit: seconds, published | blogdit: steps, published | cp-sat: seconds, published"
    assert shown.splitlines()[0] == f"| {columns} |"
    assert "| RB-small | 0.44 | 1000 | 0.39 |" in shown.splitlines()


def test_a_call_of_many_instances_is_one_measurement():
    """Two calls, of one and of three instances, 4 and 1 s each: their mean is 7 / 4, and lies between them."""
    records = [{**record("gaps", "first", "a", 20, seconds=4.0), "call_seconds": 4.0}]
    call = {"call_seconds": 3.0, "batch": 3}
    records += [{**record("gaps", "first", name, 20, seconds=1.0), **call} for name in "bcd"]
    assert Records(records).timed(TINY.cases[0], "first") == Mean(1.75, 1.0, 4.0, 4)
    alone = Records(records[1:]).timed(TINY.cases[0], "first")
    assert alone == Mean(1.0, 1.0, 1.0, 3)
    # 10 steps each: 40 in 7 s; the calls by themselves 10 in 4 and 30 in 3.
    assert Records(records).steps_per_second(TINY.cases[0], "first") == Mean(40 / 7, 2.5, 10.0, 4)
    _, rates = table(replace(TINY, table="cost"), records).split("\n\n")
    assert rates.splitlines()[2] == "| first | 6 [2, 10] | - |"
    assert Records([{**r, "seconds": 0.0} for r in records]).steps_per_second(TINY.cases[0], "first") is None
    slow = [{**r, "seconds": 100 * r["seconds"]} for r in records]
    assert "| first | 0.0571 [0.025, 0.1] | - |" in table(replace(TINY, table="cost"), slow)


def test_footers_say_what_their_tables_show():
    assert "Brackets" not in footer(replace(TINY, cases=(), table="trajectory"), [])
    assert "best known less found" in footer(TINY, BY_HAND)
    assert "best known less found" not in footer(replace(TINY, table="instances"), BY_HAND)


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
    lines = table(TINY, [*records, record("gaps", "second", "0", 20)]).splitlines()
    assert lines[2].startswith("| first | **0.667** [")
    assert lines[3].startswith("| first, before the search | 8.67 [")
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
        ("first, before the search", verdict) for verdict in ("valid", "invalid", "invalid")
    ]


def test_what_a_finisher_found_is_not_counted_for_a_sampler_without_a_step():
    """Such a record has nothing of the sampler, neither an objective nor violations."""
    solved = {**record("shares", "first", "a", None), "searches": True, "raw_violated": None}
    for found_by, verdict in (("exact", "invalid"), ("sampler", "valid"), (None, "valid")):
        assert with_raw([{**solved, "found_by": found_by}])[1]["verdict"] == verdict


def test_budgets_are_those_of_the_records():
    """Seconds of a call are those of its instances together, but for a stretch that all graphs of a size share."""
    together = {"budget_seconds": 60.0, "budget_steps": None, "batch": 200}
    alone = {"budget_seconds": 10.0, "budget_steps": None, "batch": 1}
    records = [{**record("gaps", "first", "a", 20), **together}, {**record("gaps", "second", "a", 20), **alone}]
    assert budgets(TINY.cases[0], Records(records)) == [
        "0.3 s for each of a batch, together: first",
        "10 s each: second",
    ]
    assert budgets(replace(TINY.cases[0], stretch=True), Records(records[:1])) == [
        "60 s for graphs of one size together"
    ]
    steps = [{**one, "budget_seconds": None, "budget_steps": 1000} for one in records]
    assert budgets(TINY.cases[0], Records(steps)) == ["1,000 steps each"]


# -- a page of results --------------------------------------------------------------------------------------------


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


def test_a_part_may_keep_the_figure_alone(tmp_path, monkeypatch):
    monkeypatch.setitem(SUITES, "tiny", TINY)
    (tmp_path / "tiny").mkdir()
    (tmp_path / "tiny" / "all.jsonl").write_text("".join(json.dumps(one) + "\n" for one in BY_HAND))
    document = tmp_path / "results.md"
    text = "before\n<!-- begin tiny figure -->\n![tiny](figures/tiny.png)\n<!-- end tiny -->\nafter\n"
    for old in (text, text.replace("![tiny](figures/tiny.png)\n", ""), text.replace("![", "| a table |\n\n![")):
        document.write_text(old)
        assert fill(tmp_path, document) == ["tiny"]
        assert document.read_text() == text
    assert (tmp_path / "figures" / "tiny.png").exists()


def test_the_page_of_results_has_parts_in_the_order_of_the_suites():
    """Suites with the largest tables show their figure alone."""
    parts = report.PART.findall((DOCS / "results.md").read_text())
    shown = [name for _, name, _, _ in parts]
    assert shown == [name for name in SUITES if name in shown]
    assert shown[0] == "worth"
    figures_alone = {name for _, name, figure_only, _ in parts if figure_only}
    assert figures_alone == {"ablations", "block-rates"}


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


def test_a_page_is_not_touched_if_the_records_are_wrong(tmp_path, capsys):
    for suite, text, expected in (
        ("mis", "5\n", "records.jsonl:1: not a record"),
        ("mis", json.dumps({**BY_HAND[0], "case": "800"}) + "\n", "records of a case '800'; expected some of RB-small"),
        ("cuts", "", "page.md: a table of 'cuts'; expected one of worth, sudoku"),
    ):
        (tmp_path / suite).mkdir(exist_ok=True)
        (tmp_path / suite / "records.jsonl").write_text(text)
        page = tmp_path / "page.md"
        page.write_text(f"<!-- begin {suite} -->\nas it was\n<!-- end {suite} -->\n")
        assert report.main([str(tmp_path), str(page)]) == 2
        error = capsys.readouterr().err
        assert error.startswith("blogdit: ")
        assert expected in error
        assert "as it was" in page.read_text()


def test_notes_on_published_numbers_go_with_them():
    suite = replace(TINY, notes="one thing", published_notes="another")
    assert footer(suite, BY_HAND).endswith("- one thing\n- another\n")
    assert footer(replace(suite, published=False), BY_HAND).endswith("- one thing\n")


def test_the_page_of_benchmarks_names_every_suite_system_and_column():
    text = (DOCS / "benchmarks.md").read_text()
    for name in (*SUITES, *variants.VARIANTS, *systems(), *COLUMNS):
        assert f"`{name}`" in text
