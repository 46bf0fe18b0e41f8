"""Random Latin squares: every move keeps them Latin, and together the moves reach all of them equally often."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blogdit.problems.cycles import cycle_names, switch_rows
from blogdit.problems.latin_squares import balanced_holes, jacobson_matthews, random_squares, turn

SEEDS = st.integers(0, 2**32 - 1)


def cyclic(order: int, count: int = 1) -> np.ndarray:
    square = np.add.outer(np.arange(order), np.arange(order)) % order
    return np.broadcast_to(square, (count, order, order))


def is_latin(squares: np.ndarray) -> bool:
    symbols = np.arange(squares.shape[1])
    return all((np.sort(squares, axis=axis) == np.expand_dims(symbols, [0, 3 - axis])).all() for axis in (1, 2))


def single_cycles(squares: np.ndarray) -> np.ndarray:
    """Which squares have a single cycle in every pair of rows."""
    first, second = np.triu_indices(squares.shape[1], 1)
    return (cycle_names(squares[:, first], squares[:, second]) == 0).all(axis=(1, 2))


@given(order=st.integers(1, 12), visits=st.integers(0, 12), seed=SEEDS)
def test_moves_lead_to_latin_squares(order, visits, seed):
    rng = np.random.default_rng(seed)
    squares = jacobson_matthews(cyclic(order, 3), visits, rng)
    assert is_latin(squares)
    for _ in range(3):
        squares = turn(switch_rows(squares, order, rng))
        assert is_latin(squares)


@given(order=st.integers(1, 9), seed=SEEDS)
def test_three_turns_give_the_square_back(order, seed):
    squares = jacobson_matthews(cyclic(order, 2), 3, np.random.default_rng(seed))
    assert (turn(turn(turn(squares))) == squares).all()
    row, column = np.indices((order, order))
    assert (turn(squares)[0][column, squares[0]] == row).all()


def test_cycles_by_hand():
    """Above 0 1 2 3 4 below 1 0 3 4 2: cycles (0 1) and (2 3 4)."""
    above, below = np.array([[[0, 1, 2, 3, 4]]]), np.array([[[1, 0, 3, 4, 2]]])
    assert cycle_names(above, below).tolist() == [[[0, 0, 2, 2, 2]]]
    order = np.array([3, 1, 4, 0, 2])  # columns in another order have the same cycles
    assert cycle_names(above[..., order], below[..., order]).tolist() == [[[0, 0, 2, 2, 2]]]


def test_a_switch_keeps_columns_and_bands():
    squares = jacobson_matthews(cyclic(6, 50), 6, np.random.default_rng(0))
    switched = switch_rows(squares, 3, np.random.default_rng(1))
    assert is_latin(switched)
    for band in (slice(0, 3), slice(3, 6)):
        before, after = np.sort(squares[:, band], axis=1), np.sort(switched[:, band], axis=1)
        assert (before == after).all(), "each column of a band holds what it held"
    assert (switched != squares).any(axis=(1, 2)).mean() > 0.8


def test_cycle_switches_alone_cannot_leave_a_cyclic_square_of_prime_order():
    """The reason for the other moves."""
    rng, squares = np.random.default_rng(0), cyclic(5, 200)
    for _ in range(20):
        squares = turn(switch_rows(squares, 5, rng))
    assert single_cycles(squares).all()
    assert not single_cycles(jacobson_matthews(squares, 3, rng)).all()


@pytest.mark.parametrize(("order", "number"), [(2, 2), (3, 12), (4, 576)])
def test_all_squares_are_equally_likely(order, number):
    """Pearson's statistic has the mean number - 1 and the variance 2 (number - 1): five deviations are allowed."""
    count = 20 * number
    squares, counts = np.unique(random_squares(count, order, np.random.default_rng(0)), axis=0, return_counts=True)
    assert len(squares) == number
    statistic = ((counts - 20) ** 2 / 20).sum()
    assert abs(statistic - (number - 1)) < 5 * np.sqrt(2 * (number - 1))


def test_both_kinds_of_order_five_are_as_frequent_as_they_should_be():
    """17,280 of the 161,280 squares of order 5 are cyclic up to names: those with a single cycle everywhere."""
    squares = random_squares(8000, 5, np.random.default_rng(1))
    assert abs(single_cycles(squares).mean() - 17280 / 161280) < 0.015


@pytest.mark.parametrize("order", [7, 12])
def test_no_cell_prefers_a_symbol(order):
    squares = random_squares(3000, order, np.random.default_rng(2))
    shares = [(squares == symbol).mean(axis=0) for symbol in range(order)]
    assert is_latin(squares)
    assert np.abs(np.array(shares) - 1 / order).max() < 6 * np.sqrt(1 / order / 3000)
    assert len(np.unique(squares, axis=0)) == 3000


@given(order=st.integers(1, 9), share=st.floats(0, 1), seed=SEEDS)
def test_balanced_holes(order, share, seed):
    rng, holes = np.random.default_rng(seed), round(share * order**2)
    is_open = balanced_holes(random_squares(4, order, rng), holes, rng)
    assert (is_open.sum(axis=(1, 2)) == holes).all()
    for axis in (1, 2):
        assert set(is_open.sum(axis=axis).ravel().tolist()) <= {holes // order, -(-holes // order)}
