"""CPMpy models as text: what a model needs is understood, and nothing else is run."""

from __future__ import annotations

import itertools
import re

import pytest

import blogdit
from blogdit.core.errors import InputError
from blogdit.core.result import Result
from blogdit.web.cpmpy_process import CpmpyProcess
from blogdit.web.cpmpy_text import translated

QUEENS = """
import cpmpy as cp
n = 5
queens = cp.intvar(1, n, shape=n, name="q")
model = cp.Model()
model += cp.AllDifferent(queens)
model += [cp.AllDifferent([queens[i] + i for i in range(n)]), cp.AllDifferent([queens[i] - i for i in range(n)])]
for i in range(1, n):
    if i == 4 and n > 2:
        model += queens[i] != queens[0]
"""
STARRED = """
from cpmpy import *
x, y = intvar(0, 3, shape=2)
b = boolvar()
m = Model(b.implies(x + 2 * y == 5), (x < y) | b, ~b == (x > 2))
m.maximize(x + y - b)
"""


def answer(text: str) -> tuple[dict, Result]:
    """The proved answer of a model, by the names of its variables."""
    result = blogdit.solve(translated(text, "model").instance, steps=0, finish="exact")[0]
    return {str(name): value for name, value in result.answer.items()}, result


def test_a_model_means_what_it_says():
    found, result = answer(QUEENS)
    columns = [found[f"q[{i}]"] for i in range(5)]
    assert result.status == "solved"
    assert len(set(columns)) == 5
    assert all(abs(columns[i] - columns[j]) != j - i for i, j in itertools.combinations(range(5), 2))
    _, without = answer(QUEENS.replace("n = 5", "n = 3"))
    assert without.status == "infeasible"


def test_variables_are_called_as_the_text_calls_them():
    arrays = "from cpmpy import *\na, b = intvar(0, 2, shape=2)\nx = intvar(0, 2, shape=2)\n"
    assert sorted(answer(f"{arrays}m = Model(a != b, x[0] < x[1])")[0]) == ["a", "b", "x[0]", "x[1]"]
    loop = "from cpmpy import *\nm = Model()\nfor i in range(3):\n    y = boolvar()\n    m += y == (i > 0)"
    assert sorted(answer(loop)[0].values()) == [0, 1, 1]


def test_operators_and_an_objective():
    """Against all values of the three variables."""
    _, result = answer(STARRED)
    valid = [
        x + y - b for x, y, b in itertools.product(range(4), range(4), range(2))
        if (not b or x + 2 * y == 5) and (x < y or b) and (not b) == (x > 2)
    ]  # fmt: skip
    assert (result.status, result.objective) == ("optimal", max(valid))


def test_values_and_objectives_can_be_said_in_the_numbers_of_the_model():
    """Value 0 of a variable is its lowest number; an objective may have a constant."""
    text = "from cpmpy import *\nx = intvar(3, 6, shape=3, name='x')\nm = Model(AllDifferent(x), x[0] + x[1] <= 9)\n"
    for goal, best in (("sum(x)", 15), ("100 - 2 * x[0] + x[2]", 100)):
        model = translated(f"{text}m.maximize({goal})", "model")
        result = blogdit.solve(model.instance, steps=0, finish="exact")[0]
        labels = list(model.instance.labels)
        numbers = [int(result.values[at]) + model.bases[at] for at in map(labels.index, ("x[0]", "x[1]", "x[2]"))]
        assert sorted(set(numbers)) == sorted(numbers)
        assert numbers[0] + numbers[1] <= 9
        assert set(numbers) <= {3, 4, 5, 6}
        assert result.status == "optimal"
        assert result.objective + model.constant == best
    largest = translated(f"{text}m.maximize(max(x))", "model")
    result = blogdit.solve(largest.instance, steps=0, finish="exact")[0]
    assert result.objective + largest.constant == 6


def test_a_model_that_takes_too_long_is_given_up_and_the_next_one_is_read():
    slow = "from cpmpy import *\nx = intvar(0, 100, shape=50)\nm = Model([a * b > a for a in x for b in x])"
    reader = CpmpyProcess(seconds=0.5)
    try:
        with pytest.raises(InputError, match=r"takes more than 0\.5 seconds to translate"):
            reader.read(slow, "slow")
        reader.seconds = 60.0
        assert reader.read("from cpmpy import *\nx = intvar(0, 2)\nm = Model(x > 1)", "quick").instance.size >= 1
        with pytest.raises(InputError, match="unknown name 'y'") as caught:
            reader.read("x = 1\nx = y", "wrong")
        assert caught.value.line == 2
    finally:
        reader.close()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("import os", "'import os' is not understood here"),
        ("from os import path", "not understood"),
        ("import cpmpy, os", "not understood"),
        ("x = ().__class__", "not understood"),
        ("import cpmpy as cp\nx = cp.intvar(0, 1)\ny = x.__init__", "not understood"),
        ("import cpmpy as cp\ncp.SolverLookup", "not understood"),
        ("x = open('/etc/passwd')", "unknown name 'open'"),
        ("x = __import__('os')", "unknown name '__import__'"),
        ("x = (lambda: 1)()", "not understood"),
        ("def f():\n    pass", "not understood"),
        ("while True:\n    pass", "not understood"),
        ("x = f'{1}'", "not understood"),
        ("x = 2 ** 99", "Pow is not understood"),
        ("x = [0] * 99999999999", "operations"),
        ("x = 'a' * 99999999", "operations"),
        ("x = range(9999999999999)", "operations"),
        ("x = [i for i in range(500) for j in range(500)]", "operations"),
        ("x = 9 * 99999999999999999999", "not understood"),
        ("x = [1]\nfor i in range(99):\n    x = x + x", "operations"),
        ("from cpmpy import *\nx = intvar(0, 999999999)", "values of all variables"),
        ("from cpmpy import *\nx = boolvar(shape=(9999, 9999))", "values of all variables"),
        ("from cpmpy import *\nx = boolvar(shape=-1)", "expected at least one"),
        ("from cpmpy import *\nx = intvar(0, 2)\nif x:\n    y = 1", "a condition must be known"),
        ("x = 1", "expected one variable that holds a cpmpy.Model"),
        ("x = (", "not Python"),
        ("x = 1 / 0", "Div is not understood"),
        ("x = 1 // 0", "ZeroDivisionError"),
        ("x = [1][5]", "IndexError"),
    ],
)
def test_what_is_no_model_is_refused_with_its_line(text, words):
    with pytest.raises(InputError, match=re.escape(words)) as caught:
        translated(text, "model")
    assert caught.value.line is not None
