"""Latin square text: what a file means, what it is not taken for, and that what is written is read back."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from blogdit import formats
from blogdit.core.errors import InputError
from blogdit.formats.latin_text import looks_like_latin
from blogdit.problems import latin

TWO = "2\n1 0\n0 0\n"
THREE = "3\n1 2 3\n2 0 0\n0 0 0\n"


@pytest.fixture
def file(tmp_path):
    def make(text: str, name: str = "square.txt"):
        path = tmp_path / name
        path.write_text(text)
        return path

    return make


@pytest.mark.parametrize(
    "text",
    [THREE, THREE.rstrip(), "# a square\n\n" + THREE + "\n\n", THREE.replace("\n", "\r\n"), THREE.replace(" ", "\t")],
)
def test_texts_of_one_square(file, text):
    (instance,) = formats.read(file(text))
    assert (instance.problem, instance.name, instance.size) == ("latin", "square", 9)
    assert dict(instance.givens) == {0: 0, 1: 1, 2: 2, 3: 1}


@pytest.mark.parametrize("between", ["", "\n", "\n# the next\n\n"])
def test_several_squares_in_a_file(file, between):
    path = file(between.join([TWO, THREE, TWO]))
    instances = formats.read(path)
    step = between.count("\n")
    assert [one.name for one in instances] == ["square:1", f"square:{4 + step}", f"square:{8 + 2 * step}"]
    assert [one.size for one in instances] == [4, 9, 4]
    assert formats.count(path) == 3


def test_squares_before_a_mistake_are_read(file):
    stream = formats.stream(file(TWO + "2\n1 0\n0 x\n"))
    assert next(stream).size == 4
    with pytest.raises(InputError, match=r"square.txt:6: expected numbers from 0 to 2, got 'x'"):
        next(stream)


@pytest.mark.parametrize(
    "text",
    [
        "3 2\n1 2 1\n2 3 1\n",  # G-set
        "1 2\n2 3\n",  # edges
        "5\n1 2\n2 3\n",  # vertices, then edges
        "5\n1 2 1\n2 3 1\n",
        "1000\n0200\n0030\n0004\n",  # rows of a Sudoku
        "0000000000000001\n0000000000000002\n",
        "4\n",
        "c\np edge 3 2\n",
        '{"format": "blogdit-csp"}\n1 2 3 4\n',
        "",
    ],
)
def test_what_is_not_a_latin_square(text):
    assert not looks_like_latin(text.splitlines())


def test_the_order_in_front_tells_a_latin_square_from_a_sudoku(file):
    rows = ["1 0 0 0", "0 0 2 0", "0 3 0 0", "0 0 0 4"]
    for grid in (rows, [row.replace(" ", "") for row in rows]):
        assert formats.read(file("\n".join(grid)))[0].problem == "sudoku"
    assert formats.read(file("\n".join(["4", *rows])))[0].problem == "latin"


@given(data=st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_round_trip(tmp_path, data):
    """Any partial filling of a Latin square, and any number of them, of any orders."""
    squares = []
    for order in data.draw(st.lists(st.integers(1, 7), min_size=1, max_size=4)):
        rows, columns, names = (data.draw(st.permutations(range(order))) for _ in range(3))
        full = np.array([[names[(row + column) % order] + 1 for column in columns] for row in rows])
        is_open = data.draw(st.lists(st.booleans(), min_size=order**2, max_size=order**2))
        squares.append(latin.build(np.where(np.reshape(is_open, full.shape), 0, full)))
    path = tmp_path / "squares.latin"
    formats.write(squares, path)
    read = formats.read(path)
    assert [dict(one.givens) for one in read] == [dict(one.givens) for one in squares]
    assert [one.constraints[0] for one in read] == [one.constraints[0] for one in squares]
    assert formats.count(path) == len(squares)


def test_solutions(file):
    instances = [latin.build([[1, 0], [0, 0]], "a"), latin.build([[2, 0], [0, 0]], "b")]
    for text in (
        "2\n1 2\n2 1\n\n2\n2 1\n1 2\n",
        "0 1 1 0\n1 0 0 1\n",
        '{"values": [0, 1, 1, 0]}\n{"values": [1, 0, 0, 1]}',
    ):
        found = formats.read_solutions(file(text), instances)
        assert all(one.verify(values).satisfied for one, values in zip(instances, found, strict=True))
    (values,) = formats.read_solutions(file("2\n1 2\n0 0\n"), instances[:1])
    assert not instances[0].verify(values).satisfied, "an open cell is no answer"
