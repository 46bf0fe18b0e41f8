"""The page in a real browser: typed, played, paused, shared, by keyboard and on a phone."""

from __future__ import annotations

import json
from contextlib import contextmanager

import pytest

from blogdit.cli.app import run
from blogdit.core.constraints import NotEqual
from blogdit.core.instance import Instance
from blogdit.formats import to_json
from blogdit.problems import sudoku
from blogdit.web.app import Access
from blogdit.web.limits import Limits
from blogdit.web.server import openers
from browser import ARGUMENTS, SCREENSHOTS, find_browser
from web_cases import real_server

playwright = pytest.importorskip("playwright.sync_api")

PUZZLE = "53..7....6..195....98....6.8...6...34..8.3..17...2...6.6....28....419..5....8..79"
SOLVED = "534678912672195348198342567859761423426853791713924856961537284287419635345286179"
EVIL = "<img src=x onerror=document.title='taken'>"


@pytest.fixture(scope="module")
def browser():
    path = find_browser()
    with playwright.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=path, args=list(ARGUMENTS))
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def address():
    with real_server(Limits(seconds=20.0)) as (where, _):
        yield where


@contextmanager
def opened(browser, address: str, **settings):
    """A page that may show no error in its console, and may ask nobody but its server."""
    context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **settings})
    page, errors = context.new_page(), []
    page.set_default_timeout(60_000)
    page.on("pageerror", lambda error: errors.append(str(error)))
    # A refused question is answered with 422, of which the console speaks by itself.
    page.on(
        "console", lambda line: errors.append(line.text) if line.type == "error" and "422" not in line.text else None
    )
    own = (address.partition("#")[0], "blob:", "file:")
    page.on("request", lambda sent: errors.append(sent.url) if not sent.url.startswith(own) else None)
    page.goto(address)
    if page.locator("#ask").count():
        page.wait_for_selector("#ask[data-state]", state="attached")
    try:
        yield page
        # A refused question is answered with 422, of which the console speaks by itself.
        assert [error for error in errors if "422" not in error] == []
    finally:
        context.close()


@pytest.fixture
def page(browser, address):
    with opened(browser, address) as one:
        yield one


def keep(page, name: str) -> None:
    """A screenshot, as an artefact of the run."""
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=SCREENSHOTS / f"{name}.png")


def fact(page, name: str, lane: int = 0) -> str:
    rows = page.locator(".lane").nth(lane).locator(".facts > div")
    return rows.filter(has=page.locator("dt", has_text=name)).locator("dd").first.inner_text()


def digits(page) -> str:
    return "".join(value or "." for value in page.eval_on_selector_all(".cell", "cells => cells.map(c => c.value)"))


def wait_for_answer(page) -> None:
    if page.locator("#ask").count():
        page.wait_for_selector("#ask[data-state=done]")
    page.get_by_label("To the end").click()
    page.wait_for_selector(".verdict.good")


def test_a_sudoku_typed_by_key_presses_is_solved(page):
    page.click("#clear")
    for row in range(9):
        page.locator(".cell").nth(9 * row).focus()
        for character in PUZZLE[9 * row : 9 * row + 9]:
            page.keyboard.press("ArrowRight" if character == "." else character)
    assert digits(page) == PUZZLE
    page.click("#solve")
    page.wait_for_selector(".facts")
    wait_for_answer(page)
    assert digits(page) == SOLVED
    assert "exact check: all 27 constraints hold" in page.inner_text(".verdict")
    keep(page, "sudoku")


def test_a_run_is_paused_and_stepped_through(page):
    page.select_option("#puzzle", label="17 givens")
    page.fill("#set-from", "40")
    page.fill("#set-to", "20")
    for _ in range(3):
        page.get_by_label("Slower").click()
    page.click("#solve")
    page.locator(".facts dd", has_text="1 of").wait_for()
    page.get_by_label("Pause").click()
    wait_for_answer(page)
    page.get_by_label("To the question").click()
    seen = [digits(page)]
    last = min(int(page.get_attribute(".time", "max")), 12)
    assert last >= 4
    for _ in range(last):
        page.keyboard.press("ArrowRight") if len(seen) % 2 else page.get_by_label("One step on").click()
        seen.append(digits(page))
    assert seen[0].count(".") == 64
    assert len(set(seen)) >= 4
    for number in range(last - 1, -1, -1):
        page.get_by_label("One step back").click()
        assert digits(page) == seen[number]
    before = page.inner_text(".rate")
    page.get_by_label("Faster").click()
    assert page.inner_text(".rate") != before
    page.get_by_role("button", name="Play", exact=True).click()
    page.wait_for_selector(".verdict.good")


def test_a_generated_graph_is_coloured(page):
    page.check("input[value=graph]")
    page.fill("#vertices", "40")
    page.fill("#colors", "4")
    page.click("#generate")
    page.fill("#set-chains", "3")
    page.click("#solve")
    page.wait_for_selector("canvas.curve", state="attached")
    wait_for_answer(page)
    assert "40 vertices, 80 edges, no violated edge" in page.get_attribute("canvas.graph", "aria-label")
    colours = page.evaluate(
        """() => { const canvas = document.querySelector('canvas.graph');
        const pixels = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data, seen = new Set();
        for (let i = 0; i < pixels.length; i += 4) if (pixels[i + 3] === 255) seen.add(pixels.slice(i, i + 3).join());
        return ['0,114,178', '230,159,0', '0,158,115'].filter((colour) => seen.has(colour)).length; }"""
    )
    assert colours == 3, "vertices have the colours of their values"
    keep(page, "graph")


def test_a_graph_is_drawn_by_hand_and_cut(page):
    page.check("input[value=graph]")
    page.select_option("#task", "maxcut")
    page.click("#erase")
    page.click("#draw")
    box = page.locator("canvas.graph").bounding_box()
    spots = [(box["x"] + x, box["y"] + y) for x, y in ((100, 80), (300, 80), (200, 250))]
    for (x, y), (to_x, to_y) in zip(spots, [*spots[1:], spots[0]], strict=True):
        page.mouse.move(x, y)
        page.mouse.down()
        page.mouse.up()
        page.mouse.move(to_x, to_y)
        page.mouse.down()
        page.mouse.up()
        page.mouse.move(x, y)
        page.mouse.down()
        page.mouse.move(to_x, to_y)
        page.mouse.up()
    assert page.get_attribute("canvas.graph", "aria-label") == "graph of 3 vertices and 3 edges"
    page.fill("#set-steps", "10")
    page.select_option("#set-finish", "none")
    page.click("#solve")
    wait_for_answer(page)
    assert "objective 2" in page.inner_text(".verdict")


def test_two_settings_side_by_side(page):
    page.select_option("#set-vs", "untrained")
    page.fill("#set-steps", "6")
    page.select_option("#set-finish", "none")
    page.click("#solve")
    page.wait_for_selector("#ask[data-state=done]")
    page.get_by_label("To the question").click()
    page.get_by_label("One step on").click()
    assert page.locator(".lane").count() == 2
    assert [fact(page, "Step", lane)[:4] for lane in (0, 1)] == ["1 of", "1 of"]
    assert fact(page, "Model", 1) == "sudoku-untrained"
    keep(page, "side-by-side")


def test_a_link_gives_the_same_run(page, browser, address):
    page.check("input[value=graph]")
    page.fill("#vertices", "25")
    page.fill("#graph-seed", "7")
    page.click("#generate")
    page.select_option("#task", "mis")
    page.fill("#set-steps", "8")
    page.fill("#set-seed", "5")
    page.select_option("#set-finish", "none")

    def seen(one) -> list:
        wait_for_answer(one)
        one.get_by_label("To the question").click()
        found = []
        for _ in range(8):
            one.get_by_label("One step on").click()
            found.append([fact(one, name) for name in ("Step", "Block", "Changed", "Objective", "Confidence")])
        return found

    page.click("#solve")
    first = seen(page)
    with opened(browser, page.url) as other:  # another browser would open it the same way
        assert seen(other) == first
        assert other.input_value("#set-seed") == "5"


def test_a_trace_is_played_and_exported(browser, page, tmp_path):
    puzzle, trace, out = tmp_path / "puzzle.txt", tmp_path / "t.jsonl", tmp_path / "demo.html"
    puzzle.write_text(PUZZLE)
    assert run(["solve", str(puzzle), "--steps", "50", "--out", str(tmp_path / "o.jsonl"), "--trace", str(trace)]) == 0
    page.set_input_files("#file", trace)
    wait_for_answer(page)
    assert digits(page) == SOLVED
    with real_server(openers=openers(trace)) as (where, _), opened(browser, where) as served:
        wait_for_answer(served)
        assert digits(served) == SOLVED
    assert run(["export", str(trace), str(out)]) == 0
    assert out.stat().st_size < 1_000_000
    with opened(browser, out.as_uri()) as alone:
        alone.wait_for_selector(".verdict.good")
        assert digits(alone) == SOLVED
        keep(alone, "exported")


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


def test_names_cannot_inject_markup(page):
    instance = Instance([2, 2], [NotEqual([[0, 1]])], name=EVIL, labels=[EVIL, "b"], problem="own")
    page.check("input[value=text]")
    page.fill("#text", json.dumps(to_json(instance)))
    page.select_option("#set-model", "coloring")
    page.click("#solve")
    wait_for_answer(page)
    assert page.locator(".named .label").first.inner_text() == EVIL
    assert page.locator("img").count() == 0
    assert page.title() == "blogdit: watch it think"
    page.fill("#text", f"{EVIL}\n")
    page.click("#solve")
    page.wait_for_selector("#message.error")
    assert "not a known format" in page.inner_text("#message")


def test_a_cpmpy_model_as_text(page):
    page.check("input[value=text]")
    page.fill("#set-steps", "5")
    page.click("#solve")
    wait_for_answer(page)
    found = page.locator(".named .value").all_inner_texts()
    assert sorted(int(value) for value in found) == [0, 1, 2, 5, 6, 7, 8, 9]  # SEND + MORE = MONEY


def test_the_training_view_shows_a_run(browser, sudoku4_path):
    with real_server(openers=openers(sudoku4_path.parent)) as (where, _), opened(browser, where) as page:
        page.get_by_text("Update 50 after").wait_for()
        page.wait_for_selector(".scores tbody tr:nth-child(8)")
        assert "a model for sudoku" in page.inner_text("#train h2")
        assert "of 8 valid" in page.inner_text(".scores caption")
        keep(page, "training")
        page.click("#show-play")
        assert page.locator(".cell").count() == 81


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_serious_finding_about_accessibility(browser, address, scheme):
    from axe_playwright_python.sync_playwright import Axe

    with opened(browser, address, color_scheme=scheme) as page:
        for view in ("sudoku", "graph", "text", "run"):
            if view == "run":
                page.check("input[value=sudoku]")
                page.fill("#set-chains", "2")
                page.click("#solve")
                wait_for_answer(page)
                page.get_by_label("One step back").click()
                page.get_by_label("One step back").click()
            else:
                page.check(f"input[value={view}]")
            found = Axe().run(page).response["violations"]
            grave = [one for one in found if one["impact"] in ("serious", "critical")]
            serious = [(one["id"], one["nodes"][0]["html"]) for one in grave]
            assert serious == [], view
        keep(page, f"run-{scheme}")


def test_a_phone_shows_everything_in_its_width(browser, address):
    with opened(browser, address, viewport={"width": 375, "height": 740}, is_mobile=True, has_touch=True) as page:
        for view in ("graph", "text", "sudoku"):
            page.check(f"input[value={view}]")
            assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), view
        page.click("#solve")
        wait_for_answer(page)
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        keep(page, "phone")


def test_everything_by_keyboard(page):
    """From the grid to the answer and back, with the focus always somewhere to be seen."""
    page.keyboard.press("Tab")
    reached = set()
    for _ in range(40):
        reached.add(page.evaluate("document.activeElement.id || document.activeElement.ariaLabel"))
        style = (
            "document.activeElement === document.body ? 'auto' : getComputedStyle(document.activeElement).outlineStyle"
        )
        assert page.evaluate(style) != "none"
        page.keyboard.press("Tab")
    assert {"puzzle", "solve", "set-block", "set-vs", "row 1 column 1", "Play", "Step", "Faster"} <= reached
    page.focus("#solve")
    page.keyboard.press("Enter")
    page.wait_for_selector("#ask[data-state=done]")
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("End")
    page.wait_for_selector(".verdict.good")
    page.keyboard.press("Home")
    assert fact(page, "Step").startswith("0 of")


def test_frames_are_drawn_in_time(page):
    """60 a second for a 9x9 puzzle and 5 for 2,000 vertices leave 16 and 200 ms for a frame."""
    milliseconds = page.evaluate(
        """async () => {
        const { GraphView } = await import('/page/graphview.js'), { GridView } = await import('/page/gridview.js');
        const { randomEdges } = await import('/page/problems.js');
        const measure = (view, size, colours, given) => {
          document.getElementById('lanes').replaceChildren(view.element);
          const spent = [];
          for (let frame = 0; frame < 25; frame++) {
            const values = Int32Array.from({ length: size }, (_, v) => (v * 7 + frame) % colours);
            const block = new Set(values.keys().filter((v) => (v + frame) % 3 === 0));
            const state = { values, sure: new Float32Array(size).fill(0.5), block, changed: block, clashing: block,
                            violated: [1, 2, 3], hides: frame % 2 === 0 };
            const began = performance.now();
            view.show(state, given);
            view.element.getContext?.('2d').getImageData(0, 0, 1, 1);  // waits until it is drawn
            view.element.getBoundingClientRect();
            spent.push(performance.now() - began);
          }
          return Math.min(...spent);  // a busy machine makes the others longer
        };
        return [measure(new GridView(9), 81, 9, new Map()),
                measure(new GraphView(2000, randomEdges(2000, 4, 1), 'coloring'), 2000, 12, new Map())];
        }"""
    )
    assert milliseconds[0] < 16
    assert milliseconds[1] < 200


def test_the_puzzles_of_the_list_have_answers(page):
    """Checked by CP-SAT, and each list entry says its number of givens."""
    import blogdit

    listed = page.eval_on_selector_all("#puzzle option", "options => options.map(o => [o.textContent, o.value])")
    assert len(listed) == 7
    for name, text in listed[:-2]:
        puzzle = sudoku.build(text, name)
        assert f"{81 - text.count('.')} givens" in name
        assert blogdit.solve(puzzle, steps=0, finish="exact")[0].status == "solved"
