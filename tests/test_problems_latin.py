"""Latin squares: modelling, and generated squares with holes."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from blogdit.formats import to_json
from blogdit.method.batch import collate, same_structure
from blogdit.problems import families, generate, latin

THREE = [[1, 2, 3], [2, 3, 1], [3, 1, 2]]
PINNED = [[0, 2, 1, 4, 0], [4, 0, 0, 2, 5], [3, 0, 0, 1, 2], [2, 3, 4, 0, 0], [0, 5, 2, 0, 4]]


def symbols(instance) -> np.ndarray:
    order = math.isqrt(instance.size)
    return np.where(instance.is_given, instance.given_values + 1, 0).reshape(order, order)


def completions(square: np.ndarray) -> int:
    """Plain backtracking: shares nothing with the generator."""
    order = len(square)
    blanks = np.argwhere(square == 0)
    if not len(blanks):
        return 1
    choices = [set(range(1, order + 1)) - {*square[row]} - {*square[:, column]} for row, column in blanks]
    at = min(range(len(blanks)), key=lambda place: len(choices[place]))
    found = 0
    for symbol in choices[at]:
        square[tuple(blanks[at])] = symbol
        found += completions(square)
    square[tuple(blanks[at])] = 0
    return found


def test_the_model_is_that_of_a_latin_square():
    """All assignments of order 2 and 3: those without a violation are the 2 and the 12 Latin squares."""
    for order, expected in ((2, 2), (3, 12)):
        instance, found = latin.build(np.zeros((order, order), int)), 0
        for values in itertools.product(range(order), repeat=order**2):
            square = np.array(values).reshape(order, order)
            lines = [*square, *square.T]
            violated = sum(len({*line.tolist()}) < order for line in lines)
            assert instance.verify(values).violated == violated
            found += violated == 0
        assert found == expected


def test_the_same_square_from_every_kind_of_data():
    for data in (THREE, np.array(THREE), np.array(THREE).reshape(-1), tuple(map(tuple, THREE))):
        instance = latin.build(data, "three")
        assert symbols(instance).tolist() == THREE
        assert (instance.problem, instance.name, instance.labels[5]) == ("latin", "three", "r2c3")
    assert instance.positions[5].tolist() == [1, 2]


@pytest.mark.parametrize(
    ("square", "message"),
    [
        ([[1, 1], [0, 0]], "the givens conflict: 1 in both r1c1 and r1c2"),
        ([[2, 0], [2, 0]], "the givens conflict: 2 in both r1c1 and r2c1"),
        ([[3, 0], [0, 0]], "symbols of a Latin square of order 2 go up to 2, got 3 in r1c1"),
        ([[0, 0], [0, -1]], "go up to 2, got -1 in r2c2"),
        ([0] * 8, "a Latin square has 1, 4, 9, ... cells, got 8"),
        ([], "a Latin square has 1, 4, 9, ... cells, got 0"),
        ([[1, 2], [3]], "the rows of a Latin square must have equal lengths"),
        (np.zeros((2, 8), int), "as many rows as columns, got 2 x 8"),
        (np.zeros((2, 2)), "square must hold integers"),
    ],
)
def test_bad_squares(square, message):
    with pytest.raises(ValueError, match=message):
        latin.build(square)


@pytest.mark.parametrize(("holes", "number"), [(0.42, 27), (0.5, 32), (0, 0), (1, 64), (0.3, 19)])
@pytest.mark.parametrize("balanced", [True, False])
def test_holes(holes, number, balanced):
    """The share of open cells; balanced, no row or column has two holes more than another."""
    uneven = 0
    for instance in generate("latin", 20, seed=1, order=8, holes=holes, balanced=balanced):
        is_open = symbols(instance) == 0
        assert is_open.sum() == number
        for axis in (0, 1):
            in_lines = is_open.sum(axis=axis)
            uneven += int(in_lines.max() - in_lines.min() > 1)
    assert (uneven == 0) == (balanced or number in (0, 64))


def test_generated_squares_have_a_solution():
    found = [completions(symbols(one)) for one in generate("latin", 20, seed=2, order="4-8", holes=0.5)]
    assert min(found) >= 1
    assert max(found) > 1, "which need not be the only one"


def test_holes_do_not_tell_what_was_there():
    """Each symbol is opened about as often as any other, also in one and the same cell."""
    made = generate("latin", 2000, seed=3, order=4, holes=0.5)
    shown = np.stack([symbols(one) for one in made])
    for symbol in range(1, 5):
        assert abs((shown == symbol).mean() - 0.125) < 0.01
        assert np.abs((shown == symbol).mean(axis=0) - 0.125).max() < 0.04


def test_squares_of_one_order_share_what_they_have_in_common():
    made = generate("latin", 60, seed=4, order="3-5")
    by_order = {size: [one for one in made if one.size == size] for size in (9, 16, 25)}
    assert all(len(some) > 5 for some in by_order.values())
    assert sum(map(len, by_order.values())) == 60
    for some in by_order.values():
        assert same_structure(some)
        assert collate(some).shared
    assert [one.name for one in made] == [f"latin-{i}" for i in range(60)]
    copy = families()["latin"].adopt(latin.build(symbols(made[0])))
    assert same_structure([copy, made[0]])


def test_seeds():
    """A seed means the same squares on every machine: this one was generated once and stays."""
    (first,) = generate("latin", 1, seed=0, order=5)
    assert symbols(first).tolist() == PINNED
    assert to_json(generate("latin", 1, seed=1, order=5)[0]) != to_json(first)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"order": 1}, "order must be a whole number of at least 2, got 1"),
        ({"order": "9-5"}, "order must be a whole number of at least 9, got 5"),
        ({"order": "five"}, "order must be"),
        ({"holes": 1.5}, "holes must be a number from 0 to 1 or a range like 0.3-0.42, got 1.5"),
        ({"holes": float("nan")}, "holes must be a number from 0 to 1"),
        ({"holes": True}, "holes must be a number from 0 to 1"),
    ],
)
def test_bad_settings(settings, message):
    with pytest.raises(ValueError, match=message):
        generate("latin", 1, **settings)


def test_recognise_refuses_other_squares():
    (puzzle,) = generate("sudoku", 1, box=2, min_givens=5)
    with pytest.raises(ValueError, match="latin has one all_different group, its rows and columns, and no objective"):
        latin.recognise(puzzle)


def test_render():
    instance = latin.build([[1, 0], [0, 0]])
    assert latin.render(instance) == "1 .\n. ."
    assert latin.render(instance, np.array([0, 1, 1, 0])) == "1 2\n2 1"
    assert latin.render(instance, np.array([0, 0, 1, 0]), ansi=True, changed=[2]) == (
        "\x1b[1;31m1\x1b[0m \x1b[31m1\x1b[0m\n\x1b[4m2\x1b[0m \x1b[31m1\x1b[0m"
    )
    wide = latin.render(latin.build(np.zeros((10, 10), int)), np.arange(100) % 10)
    assert wide.splitlines()[0] == " 1  2  3  4  5  6  7  8  9 10"
