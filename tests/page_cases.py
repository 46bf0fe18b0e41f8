"""What tests of the page share: a browser, a page in it, and what they read from it."""

from __future__ import annotations

from contextlib import contextmanager

import pytest

from blogdit.web.limits import Limits
from browser import ARGUMENTS, SCREENSHOTS, find_browser
from web_cases import real_server

playwright = pytest.importorskip("playwright.sync_api")

PUZZLE = "53..7....6..195....98....6.8...6...34..8.3..17...2...6.6....28....419..5....8..79"
SOLVED = "534678912672195348198342567859761423426853791713924856961537284287419635345286179"


@contextmanager
def chromium():
    path = find_browser()
    with playwright.sync_playwright() as driver:
        found = driver.chromium.launch(executable_path=path, args=list(ARGUMENTS))
        yield found
        found.close()


@contextmanager
def server():
    """Its address; jobs may take long, as the machine may be slow."""
    with real_server(Limits(seconds=120.0)) as (where, _):
        yield where


@contextmanager
def opened(browser, address: str, **settings):
    """A page that may show no error in its console, and may ask nobody but its server."""
    context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **settings})
    page, errors = context.new_page(), []
    page.set_default_timeout(60_000)  # a state is waited for, however slow the machine is
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


def keep(page, name: str) -> None:
    """A screenshot, as an artefact of the run."""
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=SCREENSHOTS / f"{name}.png")


def fact(page, name: str, lane: int = 0) -> str:
    rows = page.locator(".lane").nth(lane).locator(".facts > div")
    return rows.filter(has=page.locator("dt", has_text=name)).locator("dd").first.inner_text()


def digits(page) -> str:
    return "".join(
        value or "."
        for value in page.eval_on_selector_all(".cell", "cells => cells.map(c => c.value ?? c.textContent)")
    )


def wait_for_answer(page) -> None:
    if page.locator("#ask").count():
        page.wait_for_selector("#ask[data-state=done]")
    page.get_by_label("To the end").click()
    page.wait_for_selector(".verdict.good")
