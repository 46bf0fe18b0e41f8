"""Sudoku: modelling, text, and generated puzzles checked by an independent solver."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from ortools.sat.python import cp_model

from blogdit.method.batch import same_structure
from blogdit.problems import generate, sudoku, sudoku_boards
from blogdit.problems.grids import clashing
from blogdit.problems.sudoku_boards import MOST_BRANCHES, _mixed_grids, layout, may_have_solution, random_grids

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


def solutions_by_cp_sat(instance, most: int = 2) -> int:
    """Another solver that shares nothing with the generator, for boards that are too large for plain backtracking."""
    model = cp_model.CpModel()
    cells = [model.new_int_var(0, int(size) - 1, "") for size in instance.domain_sizes]
    (houses,) = instance.constraints
    for house in range(len(houses)):
        model.add_all_different([cells[cell] for cell in houses.scope(house)])
    for cell, value in instance.givens.items():
        model.add(cells[cell] == value)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    for found in range(most):
        status = solver.solve(model)
        assert status in (cp_model.OPTIMAL, cp_model.INFEASIBLE)
        if status == cp_model.INFEASIBLE:
            return found
        values = [solver.value(cell) for cell in cells]
        assert instance.verify(values).satisfied
        same = [model.new_bool_var("") for _ in cells]
        for cell, value, flag in zip(cells, values, same, strict=True):
            model.add(cell != value).only_enforce_if(~flag)
        model.add(sum(same) < len(cells))
    return most


@pytest.mark.parametrize(("box", "low", "high"), [(4, 0.40, 0.45), (5, 330, 340)])
def test_large_puzzles_have_one_solution(box, low, high):
    for instance in generate("sudoku", 2, seed=3, box=box, min_givens=low, max_givens=high):
        least, most = (round(end * box**4) if end < 1 else end for end in (low, high))
        assert least <= len(instance.givens) <= most
        assert solutions_by_cp_sat(instance) == 1


def test_minimal_puzzles_need_each_of_their_givens():
    for instance in [*generate("sudoku", 3, seed=4, box=2, minimal=True), *generate("sudoku", 2, seed=4, minimal=True)]:
        assert solutions_by_cp_sat(instance) == 1
        for cell in instance.givens:
            fewer = {other: value for other, value in instance.givens.items() if other != cell}
            assert solutions_by_cp_sat(replace(instance, givens=fewer)) == 2


def test_the_givens_of_minimal_puzzles_can_be_chosen():
    usual = [len(one.givens) for one in generate("sudoku", 40, seed=5, minimal=True)]
    assert 21 <= min(usual) <= 23
    assert 24 <= np.mean(usual) <= 25
    chosen = generate("sudoku", 5, seed=5, minimal=True, min_givens=23, max_givens=24)
    assert {len(one.givens) for one in chosen} == {23, 24}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"minimal": True, "max_givens": 16}, "found no minimal puzzle with 0 to 16 givens; expected other bounds"),
        ({"minimal": True, "min_givens": 60}, "found no minimal puzzle with 60 to 81 givens; expected other bounds"),
        ({"min_givens": 22, "max_givens": 22}, "found no puzzle with 22 givens and one solution; ask for more"),
    ],
)
def test_digging_ends_where_nothing_is_found(monkeypatch, settings, message):
    monkeypatch.setattr(sudoku_boards, "MOST_FRUITLESS", 1)
    with pytest.raises(ValueError, match=message):
        generate("sudoku", 1, **settings)


def test_puzzles_of_several_sizes():
    puzzles = generate("sudoku", 40, seed=6, box="2-4", min_givens=0.5, max_givens=0.5)
    assert {one.size: len(one.givens) for one in puzzles} == {16: 8, 81: 40, 256: 128}
    assert [one.name for one in puzzles] == [f"sudoku-{i}" for i in range(40)]
    for size in (16, 81, 256):
        assert same_structure([one for one in puzzles if one.size == size])


@pytest.mark.parametrize(("box", "low", "high"), [(2, 5, 8), (3, 31, 42), (4, 102, 160), (5, 300, 360)])
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
        ({"box": 6}, "box must be a whole number from 2 to 5, got 6"),
        ({"box": "3-9"}, "box must be a whole number from 3 to 5, got 9"),
        ({"box": "2-3", "min_givens": 25}, "min_givens of a 4x4 puzzle must be a whole number from 4 to 16, got 25"),
        ({"min_givens": 0.1}, "min_givens of a 9x9 puzzle must be a whole number from 22 to 81, got 8"),
        ({"min_givens": 30.5}, "min_givens of a 9x9 puzzle must be a whole number from 22 to 81, got 30.5"),
        ({"box": 4, "minimal": True}, "minimal puzzles cannot be made with a box of 4; boxes go up to 3"),
        ({"minimal": True, "unique": False}, "minimal puzzles cannot be made with unique=false"),
        ({"clues": 30}, "sudoku has no setting 'clues'"),
    ],
)
def test_bad_settings(settings, message):
    with pytest.raises(ValueError, match=message):
        generate("sudoku", 1, **settings)


@pytest.mark.parametrize("box", [2, 3, 4, 5])
def test_random_grids_are_valid_and_different(box):
    rules = layout(box)
    grids = random_grids(20, rules, np.random.default_rng(0))
    for house in rules.houses:
        assert (np.sort(grids[:, house], axis=1) == np.arange(box**2)).all()
    assert len(np.unique(grids, axis=0)) > 15


def test_mixed_grids_are_equally_likely():
    """There are 288 grids of 4x4. Pearson's statistic has the mean 287: five standard deviations are allowed."""
    grids, counts = np.unique(_mixed_grids(288 * 20, layout(2), np.random.default_rng(0)), axis=0, return_counts=True)
    assert len(grids) == 288
    assert abs(((counts - 20) ** 2 / 20).sum() - 287) < 5 * np.sqrt(2 * 287)


def test_mixed_grids_have_as_many_pure_bands_as_all_grids():
    """A band is pure if its three boxes have the same digits in their rows, in some order. Of the 56 ways to place the
    digits of the first box's rows in the others, 2 are pure. (Guessed grids have twice as many.)"""
    rows = np.sort(_mixed_grids(1500, layout(3), np.random.default_rng(0)).reshape(-1, 3, 3, 3), axis=3)
    boxes = rows[:, :, :, 0] * 100 + rows[:, :, :, 1] * 10 + rows[:, :, :, 2]  # (bands, rows, boxes)
    pure = (np.sort(boxes, axis=1) == np.sort(boxes[:, :, :1], axis=1)).all(axis=(1, 2))
    assert abs(pure.mean() - 2 / 56) < 5 * np.sqrt(2 / 56 / 4500)


def test_search_refutes_exactly_the_boards_without_solution():
    """Against backtracking on random 4x4 boards with random, often contradictory, givens."""
    rng, rules = np.random.default_rng(3), layout(2)
    digits = rng.integers(1, 5, size=(16, 200)) * (rng.random((16, 200)) < 0.3)
    boards = np.where(digits > 0, 1 << np.maximum(digits - 1, 0), 15).astype(np.uint32)
    found = may_have_solution(boards, rules, MOST_BRANCHES[2])
    for column in range(200):
        text = "".join(".1234"[d] for d in digits[:, column])
        try:
            sudoku.build(text)
            expected = count_solutions(text, most=1) > 0
        except ValueError:
            expected = False
        assert found[column] == expected, text
    assert 20 < found.sum() < 180
