"""Sudoku: modelling, text, and generated puzzles checked by an independent solver."""

from __future__ import annotations

import numpy as np
import pytest

from blogdit.problems import generate, sudoku
from blogdit.problems.grids import clashing
from blogdit.problems.sudoku_boards import layout, may_have_solution, random_grids

FOUR = "1...............", "1234341221434321"
NINE = (
    "53..7....6..195....98....6.8...6...34..8.3..17...2...6.6....28....419..5....8..79",
    "534678912672195348198342567859761423426853791713924856961537284287419635345286179",
)
PINNED = [
    "..324.96....67..4.6...537..42..69..11....5.27.3.4...9.3615.42....21.76.9987..6.14",
    ".4.7839..859...7.63.....4.846.....5.13856.2..975....6....1...92.9...5.845249.8...",
]


def count_solutions(puzzle: str, most: int = 2) -> int:
    """Plain backtracking on strings: shares nothing with the generator."""
    digits = round(len(puzzle) ** 0.5)
    box = round(digits**0.5)
    symbols = "123456789ABCDEFG"[:digits]

    def peers(cell):
        row, column = divmod(cell, digits)
        for other in range(len(puzzle)):
            r, c = divmod(other, digits)
            if other != cell and (r == row or c == column or (r // box == row // box and c // box == column // box)):
                yield other

    neighbours = [list(peers(cell)) for cell in range(len(puzzle))]
    cells = list(puzzle)

    def options(cell):
        return [s for s in symbols if all(cells[other] != s for other in neighbours[cell])]

    def search() -> int:
        blanks = [(len(choice), cell, choice) for cell, s in enumerate(cells) if s == "." for choice in [options(cell)]]
        if not blanks:
            return 1
        _, cell, choice = min(blanks)
        found = 0
        for symbol in choice:
            cells[cell] = symbol
            found += search()
            if found >= most:
                break
        cells[cell] = "."
        return found

    return search()


@pytest.mark.parametrize(("puzzle", "solution"), [FOUR, NINE])
def test_known_solutions(puzzle, solution):
    instance = sudoku.build(puzzle)
    assert instance.verify(sudoku.parse(solution) - 1).satisfied
    swapped = solution[1] + solution[0] + solution[2:]
    assert not instance.verify(sudoku.parse(swapped) - 1).satisfied
    assert sudoku.text(instance) == puzzle
    assert sudoku.text(instance, sudoku.parse(solution) - 1) == solution


def test_one_wrong_cell_breaks_its_row_column_and_box():
    values = sudoku.parse(NINE[1]) - 1
    values[2] = values[3]  # r1c3 takes the digit of r1c4; its column and box hold that digit too
    kinds = [violation.kind for violation in sudoku.build("." * 81).verify(values).violations()]
    assert kinds == ["all_different"] * 3


def test_the_same_puzzle_from_every_kind_of_data():
    rows = [[int(s) if s != "." else 0 for s in NINE[0][9 * r : 9 * r + 9]] for r in range(9)]
    for data in (rows, np.array(rows), np.array(rows).reshape(-1), NINE[0].replace(".", "0")):
        assert sudoku.text(sudoku.build(data)) == NINE[0]


@pytest.mark.parametrize("box", [2, 3, 4, 5, 6])
def test_any_box_size(box):
    """K x K cells with K values, and each row, column and box once."""
    instance = sudoku.build(np.zeros((box**2, box**2), int))
    (houses,) = instance.constraints
    assert (instance.size, set(instance.domain_sizes.tolist())) == (box**4, {box**2})
    assert len({tuple(sorted(houses.scope(j).tolist())) for j in range(len(houses))}) == 3 * box**2
    row, column = np.divmod(np.arange(box**4), box**2)
    shifted = (row * box + row // box + column) % box**2  # the standard full grid
    assert instance.verify(shifted).satisfied
    assert len(sudoku.render(instance, shifted).splitlines()) == box**2 + box + 1


def test_puzzles_share_what_they_have_in_common():
    first, second = generate("sudoku", 2)
    assert first.domain_sizes is second.domain_sizes
    assert first.positions is second.positions
    assert first.constraints[0] is second.constraints[0]
    assert first.positions[10].tolist() == [1, 1]


@pytest.mark.parametrize(
    ("puzzle", "message"),
    [
        ("11" + "." * 14, "the givens conflict: 1 in both r1c1 and r1c2"),
        ("1...1" + "." * 11, "the givens conflict: 1 in both r1c1 and r2c1"),
        ("5" + "." * 15, "digits of a 4x4 Sudoku go up to 4, got 5 in r1c1"),
        ("?" + "." * 15, "'\\?' is not a digit"),
        ("." * 80, "16, 81, 256, ... cells, got 80"),
        ([[1, 2], [3]], "rows of a Sudoku must have equal lengths"),
        (np.zeros((2, 8), int), "as many rows as columns, got 2 x 8"),
        (np.full((4, 4), -1), "got -1"),
        (np.zeros((4, 4)), "puzzle must hold integers"),
    ],
)
def test_bad_puzzles(puzzle, message):
    with pytest.raises(ValueError, match=message):
        sudoku.build(puzzle)


def test_render_plain_and_with_marked_givens():
    instance = sudoku.build("12..............")
    rule, blank = "+-----+-----+", "| . . | . . |"
    assert sudoku.render(instance).splitlines() == [rule, "| 1 2 | . . |", blank, rule, blank, blank, rule]
    marked = sudoku.render(instance, sudoku.parse(FOUR[1]) - 1, ansi=True)
    assert "\x1b[1m1\x1b[0m \x1b[1m2\x1b[0m | 3 4" in marked


def test_render_marks_what_clashes_and_what_has_changed():
    instance, wrong = sudoku.build("12.............."), sudoku.parse(FOUR[1]) - 1
    wrong[2] = 1  # a second 2 in its row (cell 1), its column (cell 14) and its box (cell 7)
    assert clashing(instance, wrong) == {1, 2, 7, 14}
    marked = sudoku.render(instance, wrong, ansi=True, changed=[2, 3])
    assert "\x1b[1m1\x1b[0m \x1b[1;31m2\x1b[0m | \x1b[31;4m2\x1b[0m \x1b[4m4\x1b[0m" in marked


@pytest.mark.parametrize(
    ("box", "low", "high", "count"), [(3, 31, 42, 60), (3, 24, 26, 12), (2, 4, 8, 60), (4, 150, 160, 3)]
)
def test_generated_puzzles_have_one_solution(box, low, high, count):
    instances = generate("sudoku", count, seed=7, box=box, min_givens=low, max_givens=high)
    givens = [len(instance.givens) for instance in instances]
    assert len(instances) == count
    assert low <= min(givens) <= max(givens) <= high
    assert len({sudoku.text(instance) for instance in instances}) == count
    for instance in instances:
        assert count_solutions(sudoku.text(instance)) == 1


@pytest.mark.parametrize(("box", "low", "high"), [(2, 5, 8), (3, 31, 42), (4, 102, 160), (5, 313, 390)])
def test_usual_numbers_of_givens_follow_the_box_size(box, low, high):
    assert all(low <= len(instance.givens) <= high for instance in generate("sudoku", 4, seed=0, box=box))
    (full,) = generate("sudoku", 1, box=box, min_givens=high)
    assert len(full.givens) == high
    with pytest.raises(ValueError, match=f"max_givens must be a whole number from {high + 1} to {box**4}, got {high}"):
        generate("sudoku", 1, box=box, min_givens=high + 1)


def test_puzzles_without_the_promise_of_one_solution():
    instances = generate("sudoku", 50, seed=1, min_givens=17, max_givens=17, unique=False)
    assert {len(instance.givens) for instance in instances} == {17}
    assert count_solutions(sudoku.text(instances[0])) > 1


def test_seeds():
    """A seed means the same puzzles on every machine: these were generated once and stay."""
    first, second = generate("sudoku", 2, seed=0)
    assert [sudoku.text(first), sudoku.text(second)] == PINNED
    assert sudoku.text(generate("sudoku", 1, seed=1)[0]) != PINNED[0]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"box": 1}, "box must be a whole number from 2 to 5, got 1"),
        ({"box": 4, "min_givens": 31}, "min_givens of a 16x16 puzzle must be a whole number from 100 to 256"),
        ({"min_givens": 10}, "min_givens of a 9x9 puzzle must be a whole number from 22 to 81"),
        ({"min_givens": 40, "max_givens": 39}, "max_givens must be a whole number from 40 to 81"),
        ({"clues": 30}, "sudoku has no setting 'clues'"),
    ],
)
def test_bad_settings(settings, message):
    with pytest.raises(ValueError, match=message):
        generate("sudoku", 1, **settings)


@pytest.mark.parametrize("box", [2, 3, 4])
def test_random_grids_are_valid_and_different(box):
    rules = layout(box)
    grids = random_grids(20, rules, np.random.default_rng(0))
    for house in rules.houses:
        assert (np.sort(grids[:, house], axis=1) == np.arange(box**2)).all()
    assert len(np.unique(grids, axis=0)) > 15


def test_search_refutes_exactly_the_boards_without_solution():
    """Against backtracking on random 4x4 boards with random, often contradictory, givens."""
    rng, rules = np.random.default_rng(3), layout(2)
    digits = rng.integers(1, 5, size=(16, 200)) * (rng.random((16, 200)) < 0.3)
    boards = np.where(digits > 0, 1 << np.maximum(digits - 1, 0), 15).astype(np.uint32)
    found = may_have_solution(boards, rules)
    for column in range(200):
        text = "".join(".1234"[d] for d in digits[:, column])
        try:
            sudoku.build(text)
            expected = count_solutions(text, most=1) > 0
        except ValueError:
            expected = False
        assert found[column] == expected, text
    assert 20 < found.sum() < 180
