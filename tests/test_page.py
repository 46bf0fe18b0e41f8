"""The page in a real browser: typed, played, paused, shared, by keyboard and on a phone."""

from __future__ import annotations

import pytest

from blogdit.problems import sudoku
from page_cases import PUZZLE, SOLVED, chromium, digits, fact, keep, opened, server, wait_for_answer

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


def moments(page, read, key: str = "ArrowRight") -> list:
    """What `read` finds at each moment of a run, from the question to the answer, or the other way round."""
    to_the_end = key == "ArrowRight"
    page.get_by_label("To the question" if to_the_end else "To the end").click()
    page.evaluate("document.activeElement.blur()")
    seen, end = [read(page)], page.get_attribute(".time", "max" if to_the_end else "min")
    while page.get_attribute("#transport", "data-moment") != end:
        page.keyboard.press(key)
        seen.append(read(page))
    return seen


def look(page) -> tuple[str, int, str]:
    return digits(page), page.locator(".hidden-cell").count(), page.inner_text(".verdict")


def test_a_run_is_paused_and_stepped_through(page):
    """A block goes grey, is drawn, and settles; back in time everything is as it was."""
    page.fill("#set-from", "60")
    page.fill("#set-to", "60")
    page.fill("#set-steps", "4")
    page.select_option("#set-finish", "none")
    page.click("#solve")
    page.get_by_label("Pause").click()
    page.wait_for_selector("#ask[data-state=done]")
    assert page.get_by_role("button", name="Play", exact=True).is_visible(), "it stays paused when all steps are here"
    there, back = moments(page, look), moments(page, look, "ArrowLeft")
    assert back == there[::-1]
    assert there[0][0].count(".") == 64
    page.get_by_label("To the end").click()
    steps = int(fact(page, "Step").split()[-1])
    assert len(there) == 2 * steps + 2  # the question, each step hidden and drawn, the answer
    for number in range(1, steps + 1):
        (hidden, grey, said), (drawn, none, then) = there[2 * number - 1], there[2 * number]
        assert said == f"Step {number}: a block of {grey} variables is hidden."
        assert 0 < grey <= 64
        assert hidden.count(".") == (64 if number == 1 else grey), "before the first step nothing has a value"
        assert then.startswith(f"Step {number}: the block is drawn anew.")
        assert (drawn.count("."), none) == (0, 0)
    before = page.inner_text(".rate")
    page.get_by_label("Faster").click()
    assert page.inner_text(".rate") != before
    page.get_by_role("button", name="Play", exact=True).click()
    page.locator(".verdict", has_text="exact check").wait_for()


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


@pytest.mark.parametrize(
    ("versus", "titles", "models"),
    [
        ("margin", ["margin blocks", "random blocks"], ["sudoku", "sudoku"]),
        ("untrained", ["trained: sudoku", "untrained"], ["sudoku", "sudoku-untrained"]),
        ("dit", ["blocked: sudoku", "DiT: sudoku-dit"], ["sudoku", "sudoku-dit"]),
    ],
)
def test_two_settings_side_by_side_in_step(page, versus, titles, models):
    page.select_option("#set-vs", versus)
    page.fill("#set-steps", "3")
    page.select_option("#set-finish", "none")
    page.click("#solve")
    page.wait_for_selector("#ask[data-state=done]")
    assert page.locator(".lane-title").all_inner_texts() == titles
    assert [fact(page, "Model", lane) for lane in (0, 1)] == models
    page.get_by_label("To the question").click()
    for number in (1, 2, 3):
        page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowRight")
        assert [fact(page, "Step", lane) for lane in (0, 1)] == [f"{number} of 3"] * 2
    keep(page, f"side-by-side-{versus}")


def test_two_runs_stay_in_step_while_one_of_them_is_slow(page):
    """The position never goes beyond what both have; a run that has ended is not waited for."""
    ends = page.evaluate(
        """async () => {
        const { Player } = await import('/page/player.js');
        const player = new Player(document.createElement('div'));
        const lane = (last, working) => ({ run: { last, hidesAt: () => true }, working,
            element: document.createElement('p'), show(at) { this.at = at; } });
        const [slow, quick] = [lane(2, true), lane(9, true)];
        player.watch([slow, quick]);
        const found = [];
        const note = () => { player.go(99); found.push([player.position, slow.at, quick.at]); };
        note();
        quick.working = false; note();
        slow.run.last = 5; note();
        slow.working = false; note();
        return found;
        }"""
    )
    assert ends == [[2, 2, 2], [2, 2, 2], [5, 5, 5], [9, 5, 9]]


def test_a_link_gives_the_same_run(page, browser, address):
    page.check("input[value=graph]")
    page.fill("#vertices", "25")
    page.fill("#graph-seed", "7")
    page.click("#generate")
    page.select_option("#task", "mis")
    page.fill("#set-steps", "4")
    page.fill("#set-seed", "5")
    page.select_option("#set-finish", "none")

    def seen(one) -> list:
        wait_for_answer(one)
        return moments(one, lambda page: page.inner_text(".facts").partition("Speed")[0])

    page.click("#solve")
    first = seen(page)
    with opened(browser, page.url) as other:  # another browser would open it the same way
        assert seen(other) == first
        assert other.input_value("#set-seed") == "5"


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
                page.get_by_label("One moment back").click()
                page.get_by_label("One moment back").click()
            else:
                page.check(f"input[value={view}]")
            found = Axe().run(page).response["violations"]
            grave = [one for one in found if one["impact"] in ("serious", "critical")]
            serious = [(one["id"], one["nodes"][0]["html"]) for one in grave]
            assert serious == [], view
        keep(page, f"run-{scheme}")


def test_a_phone_shows_everything_in_its_width(browser, address):
    with opened(browser, address, viewport={"width": 390, "height": 844}, is_mobile=True, has_touch=True) as page:
        for view in ("graph", "text", "sudoku"):
            page.check(f"input[value={view}]")
            assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), view
        page.click("#solve")
        wait_for_answer(page)
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        keep(page, "phone")


def test_everything_by_keyboard(page):
    """From the grid to the answer and back, with the focus always somewhere to be seen."""
    page.focus("#solve")
    page.keyboard.press("Enter")
    page.wait_for_selector("#ask[data-state=done]")
    page.evaluate("document.activeElement.blur()")
    reached = set()
    for _ in range(42):
        page.keyboard.press("Tab")
        name, outline = page.evaluate(
            "(({ id, ariaLabel, tagName }, style) => [id || ariaLabel || tagName, style.outlineStyle])"
            "(document.activeElement, getComputedStyle(document.activeElement))"
        )
        reached.add(name)
        assert name == "BODY" or outline != "none", name
    controls = {"puzzle", "solve", "share", "file", "set-block", "set-vs", "One moment on", "Step", "Faster"}
    assert controls <= reached
    assert reached & {"Play", "Pause"}
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("End")
    page.wait_for_selector(".verdict.good")
    page.keyboard.press("Home")
    assert fact(page, "Step").startswith("0 of")
    page.keyboard.press("+")
    assert page.inner_text(".rate") == "4 steps/s"
    page.keyboard.press(" ")
    page.get_by_label("Pause").wait_for()


def test_a_frame_touches_little(page):
    """However quick the machine is: a step of a puzzle changes only cells that look different, and 2,000 vertices are
    one canvas with a few strokes. benchmarks/page.py measures the frames a second."""
    cells, nodes, calls = page.evaluate(
        """async () => {
        const { GraphView } = await import('/page/graphview.js'), { GridView } = await import('/page/gridview.js');
        const { randomEdges } = await import('/page/problems.js');
        const lanes = document.getElementById('lanes'), none = new Set();
        const state = (size, colours, shift) => ({
          values: Int32Array.from({ length: size }, (_, v) => (v * 7 + shift) % colours), violated: [1, 2, 3],
          sure: new Float32Array(size).fill(0.5), block: new Set([0, 1, 2]), changed: none, clashing: none,
          unmet: none, hides: false });
        const grid = new GridView(9);
        lanes.replaceChildren(grid.element);
        grid.show(state(81, 9, 0), new Map());
        const seen = new Set(), watcher = new MutationObserver((all) => all.forEach((one) => seen.add(one.target)));
        watcher.observe(grid.element, { subtree: true, attributes: true, childList: true });
        const next = state(81, 9, 0);
        next.values[40] = 3; next.block = new Set([0, 1, 2, 40]);
        grid.show(next, new Map());
        watcher.takeRecords().forEach((one) => seen.add(one.target));
        const graph = new GraphView(2000, randomEdges(2000, 4, 1), 'coloring');
        lanes.replaceChildren(graph.element);
        graph.show(state(2000, 12, 0));
        const frame = () => new Promise((resolve) => requestAnimationFrame(resolve));
        while (!graph.background) await frame();  // it has a size, and is drawn
        let calls = 0;
        for (const name of ['fill', 'stroke', 'drawImage']) {
          const old = CanvasRenderingContext2D.prototype[name];
          CanvasRenderingContext2D.prototype[name] = function (...given) { calls++; return old.apply(this, given); };
        }
        graph.show(state(2000, 12, 1));
        return [seen.size, lanes.querySelectorAll('*').length, calls];
        }"""
    )
    assert cells == 1
    assert nodes == 1
    assert 0 < calls < 100, "one path for all vertices of a colour"


def test_the_puzzles_of_the_list_have_answers(page):
    """Checked by CP-SAT, and each list entry says its number of givens."""
    import blogdit

    listed = page.eval_on_selector_all("#puzzle option", "options => options.map(o => [o.textContent, o.value])")
    assert len(listed) == 7
    for name, text in listed[:-2]:
        puzzle = sudoku.build(text, name)
        assert f"{81 - text.count('.')} givens" in name
        assert blogdit.solve(puzzle, steps=0, finish="exact")[0].status == "solved"
