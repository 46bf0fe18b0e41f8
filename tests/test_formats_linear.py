"""MPS and LP files mean what they say, by the enumeration of all values and by what OR-Tools writes."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ortools.linear_solver.python import model_builder

from blogdit import formats
from blogdit.core.errors import InputError

LP = """\\ small
Maximize
 profit: 3 x + 2 y
  - z + 1.5
Subject To
 space: x + y + z <= 10
 -2 <= x - y <= 4
 0.5 x + 0.25 y >= 1 c4: 3 >= z
Bounds
 x <= 6
 -1 <= y <= 7
General
 x y
Binaries
 z
End
"""
MPS = """* small
NAME example
OBJSENSE
    MAX
ROWS
 N profit
 L space
 G between
 G half
COLUMNS
 M1 'MARKER' 'INTORG'
 x profit 3 space 1
 x between 1 half 0.5
 y profit 2 space 1
 y between -1 half 0.25
 z profit -1 space 1
 M2 'MARKER' 'INTEND'
RHS
 rhs profit -1.5 space 10
 rhs between -2 half 1
RANGES
 rng between 6
BOUNDS
 UP bnd x 6
 LO bnd y -1
 UP bnd y 7
ENDATA
"""


def read(tmp_path, text: str, name: str = "p.txt"):
    (tmp_path / name).write_text(text)
    (instance,) = formats.read(tmp_path / name)
    return instance


def answers(instance) -> dict[tuple[int, ...], float | None]:
    """All valid assignments in the numbers of the file, by the names of variables, each with its objective. OR-Tools
    writes a constant as a variable with one value, which is left out."""
    found, order = {}, sorted(range(instance.size), key=instance.labels.__getitem__)
    own = [i for i in order if instance.labels[i] != "Constant"]
    for values in itertools.product(*map(range, instance.domain_sizes.tolist())):
        verdict = instance.verify(np.array(values))
        if verdict.satisfied:
            found[tuple(instance.domains.numbers(np.array(values))[own].tolist())] = verdict.objective
    return found


@pytest.mark.parametrize(("text", "name"), [(LP, "a.lp"), (LP, "a.txt"), (MPS, "a.mps"), (MPS, "a.txt")])
def test_a_small_file(tmp_path, text, name):
    instance = read(tmp_path, text, name)
    assert instance.labels == ("x", "y", "z")
    assert answers(instance) == {
        (x, y, z): 3 * x + 2 * y - z + 1.5
        for x, y, z in itertools.product(range(7), range(-1, 8), range(2))
        if x + y + z <= 10 and -2 <= x - y <= 4 and 0.5 * x + 0.25 * y >= 1
    }


NUMBERS = st.integers(-6, 6).map(lambda n: n / 2)


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.tuples(st.integers(-3, 1), st.integers(0, 3)), min_size=1, max_size=4),
    st.lists(st.tuples(st.lists(NUMBERS, min_size=4, max_size=4), NUMBERS, st.integers(0, 5)), max_size=4),
    st.lists(NUMBERS, min_size=4, max_size=4),
    st.booleans(),
)
def test_what_ortools_writes(tmp_path_factory, bounds, rows, goal, maximize):
    """Both formats have the solutions of the model that they were written from."""
    model = model_builder.Model()
    x = [model.new_int_var(low, low + width, f"x{i}") for i, (low, width) in enumerate(bounds)]
    model.add_linear_constraint(sum(x), -100, 100)  # a variable that occurs nowhere is not written
    for weights, low, width in rows:
        total = sum(w * v for w, v in zip(weights, x, strict=False))
        if any(weights[: len(x)]):
            model.add_linear_constraint(total, low, low + width if width else math.inf)
    (model.maximize if maximize else model.minimize)(sum(w * v for w, v in zip(goal, x, strict=False)) + 2.0)
    expected = {}
    for numbers in itertools.product(*(range(low, low + width + 1) for low, width in bounds)):
        sums = [(sum(w * n for w, n in zip(weights, numbers, strict=False)), weights) for weights, _, _ in rows]
        if all(
            not any(weights[: len(x)]) or low <= total <= (low + width if width else math.inf)
            for (total, weights), (_, low, width) in zip(sums, rows, strict=True)
        ):
            expected[numbers] = sum(w * n for w, n in zip(goal, numbers, strict=False)) + 2.0
    folder = tmp_path_factory.mktemp("files")
    for text in (model.export_to_lp_string(), model.export_to_mps_string()):
        assert answers(read(folder, text)) == expected


def test_bounds_that_follow_from_rows(tmp_path):
    """x + y <= 4 and x >= y: neither needs an upper bound. Nothing bounds w from above."""
    text = "max\n x + y\nst\n x + y <= 4\n x - y >= 0\n{}\ngeneral\n x y w\nend\n"
    instance = read(tmp_path, text.format("w - x <= 1"))
    assert instance.domain_sizes.tolist() == [5, 5, 6]
    with pytest.raises(InputError, match=r"p.txt:6: variable 'w' has no upper bound, and none follows"):
        read(tmp_path, text.format("w - x >= 1"))
    impossible = read(tmp_path, "min\n x\nst\n x <= -1\ngeneral\n x\nend\n")
    assert answers(impossible) == {}


def test_bounds_of_mps_files(tmp_path):
    head = "ROWS\n N cost\nCOLUMNS\n M 'MARKER' 'INTORG'\n x cost 1\n M 'MARKER' 'INTEND'\n"
    for bound, numbers in {
        "": range(2),
        " UP b x 3\n": range(4),
        " UP x 3\n": range(4),
        " LO b x 2\n UP b x 3\n": range(2, 4),
        " MI b x\n UP b x 1\n LO b x -1\n": range(-1, 2),
        " FX b x 2\n": [2],
        " BV b x\n": range(2),
        " FR b x\n LI b x -2\n UI b x 0\n": range(-2, 1),
    }.items():
        found = answers(read(tmp_path, f"{head}BOUNDS\n{bound}ENDATA\n"))
        assert [x for (x,) in found] == list(numbers), bound


def test_ranges_of_mps_files(tmp_path):
    """L goes down, G goes up, and E to the side of the sign."""
    text = "ROWS\n N cost\n {} row\nCOLUMNS\n M 'MARKER' 'INTORG'\n x cost 1 row 1\n M 'MARKER' 'INTEND'\n"
    text += "RHS\n rhs row 5\nRANGES\n rng row {}\nBOUNDS\n UP b x 9\nENDATA\n"
    for kind, width, low, high in (("L", 2, 3, 5), ("G", 2, 5, 7), ("E", 2, 5, 7), ("E", -2, 3, 5)):
        assert [x for (x,) in answers(read(tmp_path, text.format(kind, width)))] == list(range(low, high + 1))


BAD = {
    "lp continuous": ("min\n x\nst\n x >= 1\nend\n", 2, "variable 'x' is continuous; expected an integer"),
    "lp end": ("min\n x\nst\n x >= 1\ngeneral\n x\n", 6, "no 'End'"),
    "lp relation": ("min\n x\nst\n x + y\nend\n", 4, "expected '<=', '>=' or '=' and a number, got 'the end"),
    "lp right": ("min\n x\nst\n x >= y\nend\n", 4, "expected a number, got 'y'"),
    "lp right term": ("min\n x\nst\n x >= 3 y\nend\n", 4, "expected a row to end behind the number"),
    "lp square": ("min\n [ x ^ 2 ] / 2\nst\n x >= 3\nend\n", 2, "expected terms like '3 x'.*, got '\\['"),
    "lp indicator": ("min\n x\nst\n b = 1 -> x >= 3\nend\n", 4, "expected a row to end behind .*, got '->'"),
    "lp section": ("min\n x\nst\n x >= 3\nsos\nend\n", 5, "section 'sos'; expected rows"),
    "lp bound": ("min\n x\nst\n x >= 3\nbounds\n x\nend\n", 6, "expected '<=', '>=', '=' or 'free' behind"),
    "lp infinite": ("min\n x\nst\n x >= 3\nbounds\n x free\ngeneral\n x\nend\n", 2, "'x' has no lower bound"),
    "lp none": ("min\n\nst\nend\n", None, "no variable in the file"),
    "lp exact": ("min\n x\nst\n 0.1234567890123 x + 1e15 y <= 3\nbinary\n x y\nend\n", 4, "row '1' cannot be exact"),
    "lp wide": ("min\n x\nst\n x <= 1e12\ngeneral\n x\nend\n", 2, "variable 'x' has 1000000000001 values"),
    "mps end": ("ROWS\n N c\n", 2, "no ENDATA"),
    "mps section": ("NAME x\nROWS\n N c\nQUADOBJ\n", 4, "section 'QUADOBJ'; expected one of NAME"),
    "mps row": ("ROWS\n X c\n", 2, "expected N, L, G or E"),
    "mps twice": ("ROWS\n N c\n L c\n", 3, "a second row 'c'"),
    "mps no row": ("ROWS\n N c\nCOLUMNS\n x d 1\n", 4, "no row 'd'"),
    "mps number": ("ROWS\n N c\nCOLUMNS\n x c one\n", 4, "expected a number, got 'one'"),
    "mps nan": ("ROWS\n N c\nCOLUMNS\n x c nan\n", 4, "expected a number, got 'nan'"),
    "mps pairs": ("ROWS\n N c\nCOLUMNS\n x c\n", 4, "expected names of rows, each with a number"),
    "mps continuous": ("ROWS\n N c\nCOLUMNS\n x c 1\nENDATA\n", 4, "variable 'x' is continuous"),
    "mps semi": ("ROWS\n N c\nCOLUMNS\n x c 1\nBOUNDS\n SC b x 4\n", 6, "bound 'SC'; expected one of UP"),
    "mps column": ("ROWS\n N c\nCOLUMNS\n x c 1\nBOUNDS\n UP b y 4\n", 6, "a bound of 'y'; expected a column"),
    "mps crossed": ("ROWS\n N c\nCOLUMNS\n x c 1\nBOUNDS\n LI b x 4\n UI b x 3\nENDATA\n", 4, "without an integer"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_files(tmp_path, name):
    text, line, message = BAD[name]
    with pytest.raises(InputError, match=message) as caught:
        read(tmp_path, text)
    place = tmp_path / "p.txt"
    assert str(caught.value).startswith(f"{place}:{line}: " if line else f"{place}: ")
