"""The clock by which instances pay stands still while kernels are compiled."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest

from blogdit.core import clock
from blogdit.finishers.base import Deadline
from blogdit.network import runtime

HOUR = 3600.0  # seconds: no machine is slow enough to mistake it for work


@pytest.fixture(autouse=True)
def restored(monkeypatch):
    monkeypatch.setattr(clock, "_standstill", 0.0)


def test_the_clock_stands_still():
    before = clock.working_time()
    clock.stand_still(HOUR)
    clock.stand_still(-1.0)  # nobody gives time back
    assert -HOUR <= clock.working_time() - before < 0


def test_a_deadline_waits_for_the_compiler(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    deadline = Deadline(10.0)
    now[0] += HOUR
    assert deadline.passed()
    clock.stand_still(HOUR)
    assert not deadline.passed()
    assert deadline.left == 10.0


def test_what_triton_compiles_is_no_work(monkeypatch):
    told = []
    knobs = SimpleNamespace(compilation=SimpleNamespace(listener=lambda **what: told.append(what["src"])))
    monkeypatch.setattr(runtime.importlib, "import_module", lambda name: SimpleNamespace(knobs=knobs))
    runtime.stand_still_while_compiling()
    runtime.stand_still_while_compiling()  # once is enough
    before = clock.working_time()
    knobs.compilation.listener(src="a kernel", times=SimpleNamespace(total=HOUR * 1e6), cache_hit=False)
    assert -HOUR <= clock.working_time() - before < 1 - HOUR / 2
    assert told == ["a kernel"], "whoever listened before still hears of it"


def test_an_old_triton_tells_nothing(monkeypatch):
    for old in (SimpleNamespace(), SimpleNamespace(knobs=SimpleNamespace(compilation=SimpleNamespace()))):
        monkeypatch.setattr(runtime.importlib, "import_module", lambda name, old=old: old)
        runtime.stand_still_while_compiling()
        assert not hasattr(getattr(getattr(old, "knobs", None), "compilation", None), "listener")
