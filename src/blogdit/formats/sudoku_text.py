"""Sudoku files: a puzzle per line, `puzzle,solution` lines, or a grid of rows."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import IO

import numpy as np

from blogdit.core.constraints import IntArray
from blogdit.core.instance import Instance
from blogdit.formats.text import Lines, OnError
from blogdit.problems import sudoku

LINE_LENGTHS = (16, 81, 256, 625)
ROW_LENGTHS = (4, 9, 16, 25)
_RULE = re.compile(r"[-+=|\s]*")  # the lines between boxes, or nothing
_HEADER = re.compile(r"[A-Za-z_]+(,[A-Za-z_]+)*")
_DIGITS = re.compile(r"[0-9.]+")
_PUZZLE = re.compile(r"[0-9A-Za-z.]+")


Board = tuple[int, IntArray, IntArray | None]  # line number, digits, digits of the second column; 0 is a blank


def looks_like_sudoku(start: list[str]) -> bool:
    """Whether the first lines of a file, or half of them, are those of a Sudoku file."""
    lines = [line.strip() for line in start if not _skip(line)]
    if lines and _is_header(lines[0]):
        return len(lines) > 1 and (_PUZZLE.match(lines[1]) is not None or _half_puzzles(lines[1:]))
    first = bool(lines) and (_first_column(lines[0]) is not None or _row(lines[0]) is not None)
    return first or _half_puzzles(lines)


def read_sudoku(lines: Lines, stem: str, on_error: OnError | None = None) -> Iterator[Instance]:
    """The puzzles of a file. In one with a puzzle per line `on_error` may hear of bad lines, and the others go on."""
    if _is_grid_file(lines):
        for index, board in enumerate(_grids(lines)):
            yield _build(lines, stem if index == 0 and not lines.peek(1) else f"{stem}:{board[0]}", board)
        return
    puzzles = _PuzzleLines(lines)

    def parse(line: str) -> Instance | None:
        alone = not puzzles.seen and not lines.peek(1)
        board = puzzles.parse(line)
        return None if board is None else _build(lines, stem if alone else f"{stem}:{board[0]}", board)

    yield from lines.parse_each(parse, on_error)
    puzzles.require_some()


def list_boards(lines: Lines) -> Iterator[Board]:
    if _is_grid_file(lines):
        yield from _grids(lines)
        return
    puzzles = _PuzzleLines(lines)
    yield from lines.parse_each(puzzles.parse)
    puzzles.require_some()


def _build(lines: Lines, name: str, board: Board) -> Instance:
    line, question, answer = board
    try:
        instance = sudoku.build(question, name)
    except ValueError as error:
        raise lines.error(str(error), line) from None
    if answer is not None:
        _check_solution(instance, answer, lines, line)
    return instance


def holds_puzzle_lines(lines: Lines) -> bool:
    return looks_like_sudoku(lines.peek(64)) and not _is_grid_file(lines)


def _is_grid_file(lines: Lines) -> bool:
    start = [line.strip() for line in lines.peek(64) if not _skip(line)]
    if start and _is_header(start[0]):
        start = start[1:]
    per_line = bool(start) and (_first_column(start[0]) is not None or any(map(_is_puzzle, start)))
    return bool(start) and (not per_line or _is_large_grid(start))


def write_sudoku(instances: Iterable[Instance], handle: IO[str]) -> None:
    for instance in instances:
        handle.write(sudoku.text(instance) + "\n")


class _PuzzleLines:
    """Parses lines with a puzzle or puzzle,solution. All must be as long as most of the first ones."""

    def __init__(self, lines: Lines):
        self.lines, self.seen = lines, False
        lengths = [(len(line.split(",")[0].strip()), number) for number, line in enumerate(lines.peek(64), 1)
                   if _is_puzzle(line.strip())]  # fmt: skip
        common = Counter(length for length, _ in lengths).most_common(1)
        self.length = common[0][0] if common else 0
        self.example = next((number for length, number in lengths if length == self.length), 0)

    def parse(self, line: str) -> Board | None:
        lines, text = self.lines, line.strip()
        if _skip(text) or (not self.seen and _is_header(text)):
            return None
        self.seen = True
        columns = [column.strip() for column in text.split(",")]
        if len(columns) > 2:
            raise lines.error(f"expected a puzzle or puzzle,solution, got {len(columns)} columns")
        for column in columns:
            if self.length and len(column) != self.length:
                wanted = f"{self.length} characters per puzzle as in line {self.example}"
                raise lines.error(f"expected {wanted}, got {len(column)}")
        try:
            question, *answer = [sudoku.parse(column) for column in columns]
            sudoku.box_size(len(question))
        except ValueError as error:
            raise lines.error(str(error)) from None
        return lines.number, question, answer[0] if answer else None

    def require_some(self) -> None:
        if not self.seen:
            raise self.lines.error("no puzzle in the file")


def _grids(lines: Lines) -> Iterator[Board]:
    """Boards of K rows with K cells each; cells may be apart, with | between boxes and ruled lines."""
    rows: list[IntArray] = []
    first = last = 0
    for line in lines:
        if _skip(line):
            continue
        row = _row(line)
        if row is None or (rows and len(row) != len(rows[0])):
            wanted = f"{len(rows[0])}" if rows else "4, 9, 16 or 25"
            raise lines.error(f"expected a Sudoku row of {wanted} cells, got {line.strip()[:40]!r}")
        try:
            rows.append(sudoku.parse(row))
        except ValueError as error:
            raise lines.error(str(error)) from None
        first, last = first if len(rows) > 1 else lines.number, lines.number
        if len(rows) == len(rows[0]):
            yield first, np.concatenate(rows), None
            rows = []
    if rows or not last:
        wanted = f"{len(rows[0])} rows" if rows else "a Sudoku grid"
        raise lines.error(f"expected {wanted}, the file ends after {len(rows)}")


def _row(line: str) -> str | None:
    """The cells of a grid row ("53.|.7.|...", "53..7....", "5 3 . | . 7 . | . . ."), or None."""
    cells = line.replace("|", " ").split()
    row = "".join(cells)
    apart = len(cells) in (1, len(row)) or "|" in line
    return row if apart and len(row) in ROW_LENGTHS and _PUZZLE.fullmatch(row) else None


def _is_puzzle(line: str) -> bool:
    column = line.split(",")[0].strip()
    return len(column) in LINE_LENGTHS and _PUZZLE.fullmatch(column) is not None


def _half_puzzles(lines: list[str]) -> bool:
    return bool(lines) and 2 * sum(map(_is_puzzle, lines)) >= len(lines)


def _first_column(line: str) -> str | None:
    """The puzzle of a line that holds one (or, too short or too long, clearly should), or None."""
    column = line.split(",")[0].strip()
    wrong = len(column) not in ROW_LENGTHS and len(column) > 4 and _DIGITS.fullmatch(column)
    return column if _is_puzzle(line) or wrong else None


def _is_large_grid(start: list[str]) -> bool:
    """16 lines of 16 characters are a 16x16 grid, unless no digit exceeds 4: then they are 16 puzzles of 4x4."""
    rows = start[:16]
    if len(rows) < 16 or any(len(row) != 16 or not _PUZZLE.fullmatch(row) for row in rows):
        return False
    return not set("".join(rows)) <= set(".01234")


def _is_header(line: str) -> bool:
    return _HEADER.fullmatch(line) is not None and len(line.split(",")[0]) not in LINE_LENGTHS + ROW_LENGTHS


def _skip(line: str) -> bool:
    return line.lstrip().startswith("#") or _RULE.fullmatch(line) is not None


def _check_solution(instance: Instance, answer: IntArray, lines: Lines, line: int) -> None:
    verdict = instance.verify(answer - 1)
    if not verdict.satisfied:
        first = next(verdict.violations()).describe(instance.labels)
        raise lines.error(f"the solution does not solve the puzzle: {first}", line)
