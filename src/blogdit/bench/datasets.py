"""Named sets of instances for benchmarks: files that are published elsewhere, and sets made from a fixed seed.

Files are looked for in a data folder, `--data DIR` or BLOGDIT_DATA, and checked against `checksums.txt` (which
`sha256sum -c` reads too). They are not part of this project.
"""

from __future__ import annotations

import csv
import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from blogdit import formats
from blogdit.bench import own
from blogdit.core.errors import InputError
from blogdit.core.instance import Instance
from blogdit.formats.text import plain_stem
from blogdit.problems import family

ENVIRONMENT = "BLOGDIT_DATA"
TEST = 2  # training draws from the seeds (s, 0) and (s, 1), the sets here from (s, 2): they never meet
SATNET = "SATNet (Wang et al. 2019), https://github.com/locuslab/SATNet"
RRN = "RRN (Palm et al. 2018), https://github.com/rasmusbergpalm/recurrent-relational-networks"
GSET = "the G-set (Helmberg and Rendl), https://web.stanford.edu/~yyye/yyye/Gset/"
# The 35 unweighted graphs of the paper by size, and six with weights +1 and -1.
GSET_GRAPHS = {
    "800": (1, 2, 3, 4, 5, 14, 15, 16, 17),
    "1k": (43, 44, 45, 46, 47, 51, 52, 53, 54),
    "2k": (22, 23, 24, 25, 26, 35, 36, 37, 38),
    "3k": (48, 49, 50, 55, 58, 60, 63, 70),
    "signs": (6, 11, 18, 27, 32, 39),
}


@dataclass(frozen=True)
class Split:
    """A set of instances of one problem: `files` of a data folder, `count` made from `seed` by the problem's family or
    by a `generator` of `own`, or `instances` of the user's, which are from `source`."""

    name: str
    problem: str
    source: str = "generated"
    files: tuple[str, ...] = ()
    best_known: str = ""  # a CSV file with the best known objective of each file
    count: int = 0
    seed: int = 0
    settings: Mapping[str, Any] = field(default_factory=dict, hash=False)
    generator: str = ""
    one_by_one: bool = False  # each has a seed of its own: for a few, only these few are made
    instances: tuple[Instance, ...] = field(default=(), compare=False)

    @property
    def summary(self) -> str:
        if self.instances:
            return self.source
        if self.files:
            return f"{len(self.files)} file{'s' * (len(self.files) > 1)} of {self.source}"
        settings = ", ".join(f"{key} {value}" for key, value in self.settings.items())
        return f"{self.count} generated, seed ({self.seed}, {TEST}){': ' * bool(settings)}{settings}"


def _coloring(seed: int, vertices: int, colors: int, p_min: float, p_max: float) -> Split:
    settings = {"vertices": vertices, "colors": colors, "p_min": p_min, "p_max": p_max}
    return Split(f"coloring-{colors}-{vertices}", "coloring", count=1200, seed=seed, settings=settings)


def _own(seed: int, problem: str, generator: str) -> Split:
    return Split(generator.replace(" ", "-"), problem, count=50, seed=seed, generator=generator, one_by_one=True)


def _gset(name: str) -> Split:
    files = tuple(f"gset/G{number}.txt" for number in GSET_GRAPHS[name])
    return Split(f"gset-{name}", "maxcut", GSET, files, "gset/best_known.csv")


SPLITS = {
    split.name: split
    for split in (
        Split("satnet-test", "sudoku", SATNET, ("sudoku/satnet-test.csv.xz",)),
        Split("rrn-valid", "sudoku", RRN, ("sudoku/rrn-valid.csv.xz",)),
        *(_gset(name) for name in GSET_GRAPHS),
        # The authors' colouring instances are not published; these ranges come close to their solvers' rates.
        _coloring(1, 50, 5, 0.11, 0.257),
        _coloring(2, 100, 5, 0.10, 0.144),
        _coloring(3, 100, 10, 0.25, 0.42),
        _coloring(4, 200, 10, 0.15, 0.30),
        Split("rb-small", "mis", count=500, seed=5, settings={"size": "small"}),
        Split("rb-large", "mis", count=500, seed=6, settings={"size": "large"}),
        Split("sudoku-31-42", "sudoku", count=20, seed=7, settings={"min_givens": 31, "max_givens": 42}),
        Split("sudoku-24-27", "sudoku", count=20, seed=8, settings={"min_givens": 24, "max_givens": 27}),
        Split("maxcut-50", "maxcut", count=100, seed=9, settings={"vertices": 50}),
        Split("maxcut-200", "maxcut", count=100, seed=10, settings={"vertices": 200, "p_min": 0.05, "p_max": 0.1}),
        _own(11, "roster", "roster loose"),
        _own(12, "roster", "roster tight"),
        _own(13, "exams", "exams"),
        _own(14, "latin", "latin 20"),
        _own(15, "latin", "latin 30"),
        _own(16, "sat", "3-sat 200"),
        _own(17, "sat", "3-sat 250"),
        _own(18, "assignment", "assignment"),
        _own(19, "queens", "queens"),
        _own(20, "cover", "cover"),
        _own(21, "qubo", "qubo"),
        _own(22, "packing", "packing"),
        Split("sudoku-minimal", "sudoku", count=50, seed=23, settings={"minimal": True}),
        Split(
            "sudoku-16x16",
            "sudoku",
            count=50,
            seed=24,
            settings={"box": 4, "min_givens": 0.4, "max_givens": 0.45},
            one_by_one=True,
        ),
        Split("maxcut-800", "maxcut", count=50, seed=25, settings={"vertices": 800, "p_min": 0.06, "p_max": 0.06}),
    )
}


def split_named(name: str | Split) -> Split:
    if isinstance(name, Split):
        return name
    try:
        return SPLITS[name]
    except KeyError:
        raise InputError(f"unknown data set {name!r}; expected one of {', '.join(SPLITS)}") from None


def load(name: str | Split, data: str | Path | None = None, limit: int | None = None) -> list[Instance]:
    """The instances of a set (the first `limit` of them), under names that are unique within it."""
    split = split_named(name)
    if split.instances:
        return list(split.instances[:limit])
    if split.files:
        return _from_files(split, data, limit)
    if split.one_by_one:
        return [_made(split, number) for number in range(split.count if limit is None else min(limit, split.count))]
    # Sudoku draws the numbers of givens of all puzzles first: the first puzzles depend on how many there are.
    fewer = split.count if limit is None or split.problem == "sudoku" else min(limit, split.count)
    return _made_together(split, fewer)[:limit]


@cache  # several cases of a suite may have the same instances
def _made(split: Split, number: int) -> Instance:
    rng = np.random.default_rng([split.seed, TEST, number])
    if split.generator:
        one = own.generate(split.generator, rng)
    else:
        (one,) = family(split.problem).make(1, rng, **split.settings)
    return replace(one, name=f"{split.name}-{number}")


@cache
def _made_together(split: Split, count: int) -> list[Instance]:
    return family(split.problem).make(count, np.random.default_rng([split.seed, TEST]), **split.settings)


def best_known(name: str | Split, data: str | Path | None = None) -> dict[str, float]:
    """The best known number for each instance of a set, by name; none for generated sets."""
    split = split_named(name)
    if not split.best_known:
        return {}
    with open(find(split.best_known, split.source, data)) as file:
        rows = list(csv.DictReader(file))
    return {row["graph"]: float(list(row.values())[-1]) for row in rows}


def _from_files(split: Split, data: str | Path | None, limit: int | None) -> list[Instance]:
    instances: list[Instance] = []
    for file in split.files:
        if limit is not None and len(instances) >= limit:
            break
        path = find(file, split.source, data)
        wanted = None if limit is None else limit - len(instances)
        found = islice(formats.stream(path, split.problem), wanted)
        instances += [one if len(split.files) == 1 else replace(one, name=plain_stem(file)) for one in found]
    return instances


@cache
def checksums() -> dict[str, str]:
    lines = (Path(__file__).parent / "checksums.txt").read_text().splitlines()
    return {name: digest for digest, name in (line.split() for line in lines)}


def find(file: str, source: str, data: str | Path | None = None) -> Path:
    """The path of a published file, if it is there and unchanged; else an error that says how to get it."""
    folder, digest = data or os.environ.get(ENVIRONMENT), checksums()[file]
    origin = f"it is published as {source}; sha256 {digest}"
    if not folder:
        raise InputError(
            f"{file} is needed and no data folder is named; expected --data DIR or {ENVIRONMENT}; {origin}"
        )
    path = Path(folder) / file
    if not path.is_file():
        raise InputError(f"missing; {origin}", path)
    if hashlib.sha256(path.read_bytes()).hexdigest() != digest:
        raise InputError(f"is not the published file: its checksum differs; {origin}", path)
    return path
