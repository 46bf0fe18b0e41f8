"""Functions in other processes answer as they would here."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from blogdit.core.constraints import NotEqual
from blogdit.core.errors import InputError
from blogdit.core.instance import Instance
from blogdit.core.processes import Process, Processes


@pytest.fixture
def process():
    one = Process()
    yield one
    one.close()


def test_a_process_answers_call_after_call_and_ends(process):
    assert process.call(math.gcd, 12, 18) == 6
    assert process.call(os.getpid) == process.process.pid
    process.close()
    assert process.process.poll() is not None


def test_what_it_raises_is_raised_here_and_it_goes_on(process):
    with pytest.raises(ValueError, match=r"math domain error|nonnegative"):
        process.call(math.sqrt, -1)
    assert process.call(math.sqrt, 4) == 2.0


def test_input_errors_keep_their_line(process):
    with pytest.raises(InputError, match=r"^a.col:3: expected something else$"):
        process.call(_refuse)


def _refuse():
    raise InputError("expected something else", "a.col", 3)


def test_what_cannot_be_sent_back_is_named(process):
    with pytest.raises(RuntimeError, match="lock"):
        process.call(threading.Lock)


class Stubborn(Exception):
    """Cannot be made again from its text."""

    def __init__(self, one, other):
        super().__init__(f"{one} and {other}")


def _be_stubborn():
    raise Stubborn(1, 2)


def test_an_error_that_cannot_be_made_again_is_named(process):
    with pytest.raises(RuntimeError, match="1 and 2"):
        process.call(_be_stubborn)
    assert process.call(math.gcd, 4, 6) == 2


def test_answers_that_are_not_valid_can_be_sent(process):
    """With a value outside its domain and a given that is not kept."""
    instance = Instance([2, 2], (NotEqual([[0, 1]]),), givens={0: 1})
    verdict = process.call(instance.verify, [0, 5])
    assert verdict == instance.verify([0, 5])
    assert list(verdict.violations()) == list(instance.verify([0, 5]).violations())


def test_modules_do_not_come_from_where_we_are(tmp_path, monkeypatch):
    (tmp_path / "queue.py").write_text("raise ImportError")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    one = Process()
    assert one.call(math.gcd, 4, 6) == 2
    one.close()


def test_who_asks_after_the_end_is_told():
    with Processes() as processes:
        assert processes.call(math.gcd, 4, 6) == 2
    with pytest.raises(InputError, match="a process was asked after the last one had ended"):
        processes.call(math.gcd, 4, 6)


def test_what_it_prints_is_no_answer(process):
    assert process.call(print, "hello") is None
    assert process.call(os.system, "echo hello") == 0


def test_a_process_that_dies_is_reported(process):
    with pytest.raises(InputError, match=r"a process ended before it answered \(exit code 7\)"):
        process.call(os._exit, 7)


def test_a_signal_of_the_terminal_does_not_reach_it(process):
    """Ctrl-C goes to everybody of our session."""
    process.call(os.getpid)  # it is there
    assert process.call(os.getsid, 0) != os.getsid(0)


@pytest.mark.parametrize("waits", ["sys.stdin.read()", "p.call(time.sleep, 1)"])
def test_it_ends_without_a_word_when_nobody_can_ask_it_any_more(waits):
    """Also if we are killed, and while it works."""
    code = f"import sys, time; from blogdit.core.processes import Process; p = Process(); print(flush=True); {waits}"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with subprocess.Popen([sys.executable, "-c", code], env=environment, **pipes) as owner:
        assert owner.stdout is not None
        owner.stdout.readline()
        time.sleep(0.3)  # by then the child has its call, or never will
        owner.kill()
        _, told = owner.communicate(timeout=120)  # its stderr, which it shares with its child, is closed by both
    assert told == b""


def test_several_are_used_again():
    with Processes() as processes, ThreadPoolExecutor(2) as pool:
        assert list(pool.map(lambda n: processes.call(math.factorial, n), range(9))) == [*map(math.factorial, range(9))]
        assert 1 <= len(processes.everyone) <= 2
        with pytest.raises(InputError):
            processes.call(os._exit, 3)
        assert processes.call(math.gcd, 4, 6) == 2
    assert all(one.process.poll() is not None for one in processes.everyone)
