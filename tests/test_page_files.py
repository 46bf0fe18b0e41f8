"""What the page opens, in a real browser: traces, exported pages, own problems, training runs, hostile names."""

from __future__ import annotations

import json
import shutil

import pytest

from blogdit.cli.app import run
from blogdit.core.constraints import Function, Linear, NotEqual, Sum
from blogdit.core.instance import Instance, Objective
from blogdit.formats import to_json
from blogdit.web import training_run
from blogdit.web.app import Access
from blogdit.web.server import openers
from page_cases import PUZZLE, SOLVED, chromium, digits, fact, keep, opened, server, wait_for_answer
from web_cases import real_server

PUZZLES = [PUZZLE, SOLVED[:40] + PUZZLE[40:], SOLVED[:60] + "." * 21]
EVIL = "<img src=x onerror=document.title='taken'>"


@pytest.fixture(scope="module")
def browser():
    with chromium() as one:
        yield one


@pytest.fixture(scope="module")
def address():
    with server() as where:
        yield where


@pytest.fixture
def page(browser, address):
    with opened(browser, address) as one:
        yield one


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    """The path of a trace of three puzzles: PUZZLE and two with fewer open cells."""
    folder = tmp_path_factory.mktemp("trace")
    (folder / "puzzles.txt").write_text("\n".join(PUZZLES))
    out, path = folder / "o.jsonl", folder / "t.jsonl"
    assert run(["solve", str(folder / "puzzles.txt"), "--steps", "50", "--out", str(out), "--trace", str(path)]) == 0
    return path


def all_can_be_chosen(page) -> None:
    """Each of the three instances alone, and two of them beside each other."""
    first, second = page.get_by_label("Instance", exact=True), page.get_by_label("beside")
    names = first.locator("option").all_inner_texts()
    assert [name.partition(":")[2].partition(":")[0] for name in names] == ["1", "2", "3"]
    for number, puzzle in enumerate(PUZZLES):
        first.select_option(str(number))
        page.get_by_label("To the question").click()
        assert page.locator(".lane").count() == 1
        assert digits(page) == puzzle
        page.get_by_label("To the end").click()
        assert digits(page)[:60] == SOLVED[:60]
    second.select_option("0")
    assert page.locator(".lane").count() == 2


def test_a_trace_is_opened_and_every_instance_of_it_can_be_chosen(page, trace):
    page.set_input_files("#file", trace)
    page.get_by_text("A trace of 3 instances").wait_for()
    all_can_be_chosen(page)
    page.click("#edit")
    assert page.locator("#chooser").is_hidden()


def test_a_dropped_trace_is_opened(page, trace):
    page.evaluate(
        """(text) => { const dropped = new DataTransfer(); dropped.items.add(new File([text], 't.jsonl'));
        document.dispatchEvent(new DragEvent('drop', { dataTransfer: dropped, cancelable: true })); }""",
        trace.read_text(),
    )
    page.get_by_text("A trace of 3 instances").wait_for()
    assert page.get_by_label("Instance", exact=True).locator("option").count() == 3


def test_a_trace_is_served(browser, trace):
    with real_server(openers=openers(trace)) as (where, _), opened(browser, where) as served:
        served.get_by_text("A trace of 3 instances").wait_for()
        all_can_be_chosen(served)
        assert served.locator("#chooser").is_visible()


def test_a_trace_is_exported(browser, trace, tmp_path):
    out, all_of_it = tmp_path / "demo.html", tmp_path / "all.html"
    assert run(["export", str(trace), str(out)]) == 0
    assert out.stat().st_size < 1_000_000
    with opened(browser, out.as_uri()) as alone:
        alone.get_by_label("To the end").click()
        assert "solved" in alone.inner_text(".verdict.good")
        assert digits(alone) == SOLVED
        assert alone.locator("#chooser").is_hidden()
        keep(alone, "exported")
    assert run(["export", str(trace), str(all_of_it), "--instances", "3"]) == 0
    with opened(browser, all_of_it.as_uri()) as alone:
        alone.get_by_label("Instance", exact=True).wait_for()
        all_can_be_chosen(alone)


def test_a_page_with_a_token_in_its_address(browser):
    with real_server(access=Access((), "secret")) as (where, _):
        with opened(browser, f"{where}/#token=secret&p=sudoku") as page:
            page.click("#solve")
            wait_for_answer(page)
            assert "secret" not in page.url
        with browser.new_context() as context:  # without it the page says what is missing
            page = context.new_page()
            page.goto(where)
            page.wait_for_selector("#message.error")
            assert "Authorization: Bearer" in page.inner_text("#message")


def test_names_cannot_inject_markup(page, tmp_path):
    """Names of instances, variables and values; from a text, a file and its name, a trace, and a link."""
    names = {"name": EVIL, "labels": [EVIL, f"{EVIL}[0,1]"], "values": [EVIL, "b"]}
    instance = to_json(Instance([2, 2], [NotEqual([[0, 1]])], problem=EVIL, **names))

    def harmless() -> None:
        assert page.locator("img").count() == 0
        assert page.title() == "blogdit: watch it think"

    page.check("input[value=text]")
    page.fill("#text", json.dumps(instance))
    page.click("#solve")
    wait_for_answer(page)
    assert EVIL in page.locator(".named .label").first.inner_text()
    assert EVIL in page.locator(".named .value").all_inner_texts()
    harmless()
    page.fill("#text", f"{EVIL}\n")
    page.click("#solve")
    page.wait_for_selector("#message.error")
    assert "not a known format" in page.inner_text("#message")
    harmless()
    steps = [{"instance": name, "question": instance} for name in (EVIL, f"{EVIL}2")]
    trace = tmp_path / "evil.jsonl"
    trace.write_text("".join(json.dumps(step) + "\n" for step in steps))
    page.set_input_files("#file", trace)
    page.get_by_text("A trace of 2 instances").wait_for()
    assert page.locator(".lane-title").all_inner_texts() == [EVIL, f"{EVIL}2"]
    harmless()
    page.set_input_files("#file", {"name": f"{EVIL}.txt", "mimeType": "text/plain", "buffer": b"hello"})
    page.locator("#message", has_text="is ready to be solved").wait_for()
    harmless()
    page.evaluate(
        f"location.hash = new URLSearchParams({{p: 'text', t: {json.dumps(EVIL)}, block: {json.dumps(EVIL)}}})"
    )
    page.wait_for_function("document.getElementById('text').value.startsWith('<img')")
    harmless()


def own_problem(page, instance: Instance, **settings) -> None:
    page.check("input[value=text]")
    page.fill("#text", json.dumps(to_json(instance)))
    for name, value in {"steps": "3", **settings}.items():
        page.fill(f"#set-{name}", value)
    page.select_option("#set-finish", "none")
    page.click("#solve")
    page.wait_for_selector("#ask[data-state=done]")
    page.get_by_label("To the end").click()


def test_a_problem_of_ones_own_by_name(page):
    """Values are names, and violated constraints of every kind are red: those that must hold, and soft ones."""
    names = {"labels": ["a", "b", "c", "t[0,0]", "t[0,1]", "t[1,1]"], "values": [["no", "yes"]] * 3 + [[10, 20]] * 3}
    impossible = [
        Sum([[0, 1]], equals=[[1, 1]], low=[3]),
        Function("max", [5], [[3, 4]]),
        Linear([[5]], [[1]], [">="], [30]),
    ]
    wish = (NotEqual([[2, 2 - 1]]), 4)
    never = (Sum([[2]], equals=[[1]], low=[2]), 2.5)
    instance = Instance([2] * 6, impossible, Objective("minimize", soft=[wish, never]), **names)
    own_problem(page, instance)
    assert fact(page, "Model") == "general"
    found = dict(zip(page.locator(".named").evaluate_all("all => all.map(cell => cell.title)"),
                     page.locator(".named .value").all_inner_texts(), strict=True))  # fmt: skip
    assert set(found) == set(names["labels"])
    assert {found[name] for name in "abc"} <= {"no", "yes"}
    assert {found[name] for name in names["labels"][3:]} <= {"10", "20"}
    assert page.locator(".table .named").count() == 3, "what has two indices is a table"
    red = set(page.locator(".named.clash").evaluate_all("all => all.map(cell => cell.title)"))
    assert {"a", "b", "t[1,1]"} <= red, "both of the sum, and the one of the linear constraint"
    assert "c" in page.locator(".named.unmet").evaluate_all("all => all.map(cell => cell.title)")
    lines = page.locator(".broken li").all_inner_texts()
    assert any(line.startswith("sum: a = ") for line in lines)
    assert any(line.startswith("linear: t[1,1] = ") for line in lines)
    assert any(line.startswith("sum, costs 2.5: c = ") for line in lines)
    assert "of 3 constraints violated" in page.inner_text(".verdict.bad")
    keep(page, "own-problem")


def test_a_cpmpy_model_as_text(page):
    """With the numbers of the model, which need not begin at 0."""
    page.check("input[value=text]")
    page.select_option("#example", label="a magic square")
    page.fill("#set-steps", "2")
    page.click("#solve")
    page.wait_for_selector("#ask[data-state=done]")
    page.get_by_label("To the end").click()
    page.wait_for_selector(".verdict.good")
    square = [int(value) for value in page.locator(".table .named .value").all_inner_texts()]
    assert sorted(square) == list(range(1, 10))
    assert {sum(square[row : row + 3]) for row in (0, 3, 6)} == {sum(square[column::3]) for column in range(3)} == {15}


def test_the_training_view_follows_a_run(browser, sudoku4_path, tmp_path, monkeypatch):
    """The log grows as that of a running `blogdit train` does, and the page with it."""
    monkeypatch.setattr(training_run, "EVERY", 0.1)
    monkeypatch.setattr(training_run, "REFERENCE_SECONDS", 0.2)
    folder = tmp_path / "sudoku4"
    shutil.copytree(sudoku4_path.parent, folder)
    log = folder / "log.jsonl"
    lines = log.read_text().splitlines(keepends=True)
    log.write_text("".join(lines[:20]))
    with real_server(openers=openers(folder)) as (where, _), opened(browser, where) as page:
        page.get_by_text("Update 20 after").wait_for()
        with log.open("a") as file:
            file.write("".join(lines[20:]))
        page.get_by_text("Update 50 after").wait_for()
        page.get_by_text("It is running.").wait_for()
        page.wait_for_selector(".scores tbody tr:nth-child(8)")
        assert "a model for sudoku" in page.inner_text("#train h2")
        assert "of 8 valid" in page.inner_text(".scores caption")
        shown = set(page.locator("#train section:visible h2").all_inner_texts())
        assert {"Validation score", "Loss", "Energy", "Temperature tau"} <= shown
        keep(page, "training")
        page.click("#show-play")
        assert page.locator(".cell").count() == 81
