"""Whether training paid: how answers are compared, and what is said about them."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from blogdit.bench.payoff import EXACT, GIBBS, YOURS, Match, Row, held_out, match, table, verdict
from blogdit.cli.app import run
from blogdit.core.constraints import NotEqual
from blogdit.core.instance import Instance, Objective
from blogdit.core.result import Result
from blogdit.formats import to_json
from blogdit.network.checkpoint import load_model
from blogdit.problems import families

ROOT = Path(__file__).parent.parent
PAIR = Instance(np.array([2, 2]), (NotEqual([[0, 1]]),))
SUM = Instance(np.array([4]), objective=Objective("maximize", linear=[0], linear_weights=[1]))


def good(steps: int = 1) -> Result:
    return Result(PAIR, np.array([0, 1]), steps)


def bad() -> Result:
    return Result(PAIR, np.array([0, 0]), 9)


def test_answers_are_compared_by_violations_then_by_objective_or_steps():
    assert match([good(), bad(), good(2)], [bad(), bad(), good(3)], count_steps=True) == Match(better=2, worse=0)
    assert match([good(5)], [good(4)], count_steps=True) == Match(0, 1)
    assert match([good(5)], [good(4)]) == Match(0, 0)
    values = [Result(SUM, np.array([value])) for value in range(4)]
    assert match([values[3], values[1]], [values[2], values[1]]) == Match(1, 0)


@pytest.mark.parametrize(
    ("better", "worse", "chance", "clear"),
    [(0, 0, 1.0, 0), (5, 0, 0.0625, 0), (6, 0, 0.03125, 1), (0, 6, 0.03125, -1), (9, 7, 0.8036, 0), (2, 2, 1.0, 0)],
)
def test_a_difference_is_clear_by_the_sign_test(better, worse, chance, clear):
    found = Match(better, worse)
    assert found.chance == pytest.approx(chance, abs=1e-4)
    assert found.clear == clear


def rows(own, plain, rival=None, by_time=None):
    made = [Row(YOURS, own, by_time or own), Row(GIBBS, plain, plain), Row(EXACT, None, [good(0)] * len(own))]
    return made if rival is None else [*made, Row("general", rival, rival)]


def test_the_sentence():
    eight, none, slow = ([make() for _ in range(8)] for make in (good, bad, lambda: good(50)))
    once = [good(), *none[1:]]
    assert verdict(rows(none, none), None) == (
        "The model is useless so far: it has no valid answer to any of the 8 held-out instances."
    )
    assert verdict(rows(once, eight, none), "general") == (
        "The model is useless so far: Gibbs sampling without learning is better on 7 of 8 instances with equal steps, "
        "and on 7 with equal time."
    )
    assert verdict(rows(eight, none, slow), "general") == (
        "Training paid: beside general, your model is better on 8 and worse on 0 of 8 instances with equal steps "
        "(p = 0.0078), better on 0 and worse on 0 with equal time (p = 1)."
    )
    assert verdict(rows(slow, none, eight), "general").startswith("Training did not pay: ")
    assert verdict(rows(eight, none, eight), "general").startswith("Training made no clear difference: ")
    assert verdict(rows(eight, slow, by_time=none), None).startswith(
        "Training paid by steps, but not by time: beside Gibbs, no learning, your model is better on 8 and worse on 0"
    )


def test_the_table():
    assert table(rows([good(), bad()], [bad(), bad()]), 200, 1.0).splitlines() == [
        "                    200 steps: valid  violated  taken  1 s each: valid  violated",
        "your model                    1 of 2       0.5      5           1 of 2       0.5",
        "Gibbs, no learning            0 of 2         1      9           0 of 2         1",
        "CP-SAT                             -         -      -           2 of 2         0",
    ]
    answers = [Result(SUM, np.array([value])) for value in (1, 2)]
    assert table([Row(YOURS, answers, answers)], 10, 0.5).splitlines()[1].split() == [
        *("your", "model", "2", "of", "2", "1.5", "0", "2", "of", "2", "1.5"),
    ]  # fmt: skip


def test_the_example_from_a_file_to_an_answer(tmp_path, monkeypatch, capsys):
    """Train on the file, look at the table, solve new instances, which its render shows."""
    known = dict(families())
    monkeypatch.chdir(tmp_path)
    shutil.copy(ROOT / "examples" / "seating.py", "party.py")
    small = [option for pair in ("guests=8", "pool=24", "validation=4") for option in ("--set", pair)]
    small += ["--set", "validation_steps=5", "--set", "tables=3"]
    try:
        command = ["train", "party.py", "--from", "coloring", "--updates", "2", "--compare", "2", "--out", "run"]
        assert run([*command, "--device", "cpu", *small]) == 0
        printed, said = capsys.readouterr()
        lines = printed.splitlines()
        assert lines[0].startswith("run/best.safetensors: seating, 2 updates, score ")
        assert [line.split("  ")[0] for line in lines[2:6]] == [YOURS, "coloring", GIBBS, EXACT]
        assert lines[6].startswith(("Training ", "The model is useless so far: "))
        assert "100%  update 2" in said
        assert {to_json(one)["problem"] for one in held_out(load_model("run/best.safetensors"), 3)} == {"seating"}
        Path("party.py").unlink()
        assert run(["generate", "run/problem.py", "--count", "2", "--set", "guests=6", "--out", "new.jsonl"]) == 0
        assert run(["solve", "new.jsonl", "--model", "run", "--steps", "20", "--device", "cpu"]) == 0
        assert capsys.readouterr().out.count("table 3: guests") == 2
        nameless = Path("new.jsonl").read_text().replace('"problem":"seating"', '"problem":"csp"')
        Path("nameless.jsonl").write_text(nameless)
        assert run(["solve", "nameless.jsonl", "--model", "run", "--steps", "20", "--device", "cpu"]) == 0
        assert capsys.readouterr().out.count("table 3: guests") == 2, "instances without a name are the model's"
        assert run(["train", "party.py", "--updates", "2", "--out", "other"]) == 2
        assert capsys.readouterr().err == "blogdit: party.py: no such file\n"
    finally:
        families().clear()
        families().update(known)
