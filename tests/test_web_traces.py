"""Traces that are shown again: read from files, exported as one page, drawn as an animation."""

from __future__ import annotations

import base64
import gzip
import hashlib
import html.parser
import json
import re
from xml.etree import ElementTree

import pytest

from blogdit.cli.app import run
from blogdit.core.errors import InputError
from blogdit.core.instance import Instance
from blogdit.formats import to_json
from blogdit.web.export import PAGE, export_html, modules, script
from blogdit.web.traces import read_trace
from helpers import write


@pytest.fixture
def trace(solve, tmp_path, lines):
    """The path of a trace of two puzzles."""
    path = tmp_path / "t.jsonl"
    code, _, _ = solve(write(tmp_path / "p.txt", lines[:2]), "--steps", 50, "--trace", path)
    assert code == 0
    return path


def test_a_trace_is_read_as_it_was_written(trace):
    everything = [json.loads(line) for line in trace.read_text().splitlines()]
    read = read_trace(trace)
    assert sorted(map(json.dumps, read)) == sorted(map(json.dumps, everything))
    assert {record["instance"] for record in read_trace(trace, most=1)} == {"p:1"}


def test_a_line_that_was_cut_off_at_the_end_is_left_out(trace):
    whole = read_trace(trace)
    trace.write_text(trace.read_text() + '{"instance": "p:1", "st')
    assert read_trace(trace) == whole


def test_an_instance_that_was_begun_again_is_shown_once(trace):
    whole = read_trace(trace)
    trace.write_text(trace.read_text() * 2)
    assert sorted(map(json.dumps, read_trace(trace))) == sorted(map(json.dumps, whole))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "holds no trace"),
        ("hello\n", "t.jsonl:1: not a line of a trace"),
        ('{"instance": "a", "step": 1}\n', "a step of 'a' without its question"),
        ('{"step": 1}\n', "not a line of a trace"),
    ],
)
def test_files_that_are_no_traces(tmp_path, capsys, text, words):
    (tmp_path / "t.jsonl").write_text(text)
    for command in (
        ["export", str(tmp_path / "t.jsonl"), str(tmp_path / "o.html")],
        ["serve", str(tmp_path / "t.jsonl")],
    ):
        assert run(command) == 2
        assert words in capsys.readouterr().err
    assert not (tmp_path / "o.html").exists()


class Scripts(html.parser.HTMLParser):
    """The contents of scripts and styles, and every address that a page asks for."""

    def __init__(self, text: str):
        super().__init__()
        self.parts: dict[str, str] = {}
        self.addresses: list[str] = []
        self.inside = ""
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.addresses += [value for name, value in attributes if name in ("src", "href")]
        self.inside = given.get("id") or tag if tag in ("script", "style") else ""

    def handle_endtag(self, tag):
        self.inside = ""

    def handle_data(self, data):
        if self.inside:
            self.parts[self.inside] = self.parts.get(self.inside, "") + data


def test_an_exported_page_needs_nothing_else(trace, tmp_path, capsys):
    out = tmp_path / "demo.html"
    assert run(["export", str(trace), str(out), "--instances", "2"]) == 0
    text = out.read_text()
    assert capsys.readouterr().out == f"{out}: {len(text.encode()) / 1000:.0f} kB\n"
    assert len(text) < 1_000_000
    page = Scripts(text)
    assert page.addresses == []
    assert not re.search(r"^\s*(import|export)\b", page.parts["script"], re.MULTILINE)
    records = gzip.decompress(base64.b64decode(page.parts["trace"])).decode().splitlines()
    assert [json.loads(line) for line in records] == read_trace(trace)
    for part in ("script", "style"):
        digest = base64.b64encode(hashlib.sha256(page.parts[part].encode()).digest()).decode()
        assert f"'sha256-{digest}'" in text, "the page's own policy lets exactly this run"
    assert run(["export", str(trace), str(out)]) == 2
    assert "exists already" in capsys.readouterr().err


def test_names_in_an_exported_page_are_no_markup():
    evil = "</script><script>alert(1)</script>"
    instance = Instance([2], name=evil, labels=[evil])
    text = export_html([{"instance": evil, "question": to_json(instance)}], "<b>&amp;")
    assert evil not in text
    assert "<title>&lt;b>&amp;amp;</title>" in text


def test_modules_come_after_those_that_they_need():
    order = modules()
    assert order[-1] == "replay.js"
    assert order.index("trace.js") < order.index("gridview.js") < order.index("lane.js")
    assert "main.js" not in order
    assert "</script" not in script()


def test_names_at_the_top_of_modules_differ():
    """They become one script in an exported page."""
    names = [
        name
        for module in modules()
        for name in re.findall(
            r"^(?:export )?(?:async )?(?:function\*?|class|const|let) (\w+)", (PAGE / module).read_text(), re.M
        )
    ]
    assert len(names) == len(set(names))


def test_files_of_the_page_stay_readable():
    assert {path.name: n for path in PAGE.iterdir() if (n := len(path.read_text().splitlines())) > 350} == {}


def test_an_animation_has_a_picture_for_each_moment(trace, tmp_path):
    out = tmp_path / "demo.svg"
    assert run(["export", str(trace), str(out)]) == 0
    steps = sum("step" in record for record in read_trace(trace, 1))
    root = ElementTree.parse(out).getroot()
    frames = [group for group in root if group.tag.endswith("}g")]
    assert len(frames) == 2 * steps + 1  # the question, each block hidden (but the first) and drawn, the answer
    last = "".join(text.text for text in frames[-1] if text.tag.endswith("}text"))
    assert last.endswith("solved, found by sampler")
    assert out.stat().st_size < 100_000


def test_an_animation_shows_grids_alone():
    from blogdit.web.animation import svg

    with pytest.raises(InputError, match="a trace of csp; an animation shows sudoku or latin"):
        svg([{"instance": "a", "question": to_json(Instance([2]))}])
