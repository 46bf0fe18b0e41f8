"""`convert` between all formats: what a format can hold comes back with the same solutions, and the rest is refused."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from blogdit import formats
from blogdit.cli.app import run
from blogdit.core.constraints import Sum
from blogdit.core.errors import InputError
from blogdit.core.instance import Instance
from blogdit.core.objective import Objective
from blogdit.problems import generate

SMALL = {
    "sudoku": {"box": 2},
    "latin": {"order": 3},
    "coloring": {"vertices": 4, "colors": 2, "p_min": 0.8, "p_max": 0.9},
    "maxcut": {"vertices": 5, "p_min": 0.6, "p_max": 0.9},
    "mis": {},
    "qubo": {"variables": 4},
}
OWN = {
    "sat": Instance([2] * 4, (Sum([[0, 1], [1, 2, 3]], None, [[1, 0], [1, 1, 0]], [1, 1]),), problem="sat"),
    "maxsat": Instance(
        [2] * 3,
        (Sum([[0, 1]], None, [[1, 1]], [1]),),
        Objective("minimize", soft=[(Sum([[0], [1, 2]], None, [[0], [0, 1]], [1, 1]), [3, 2])]),
        problem="maxsat",
    ),
    "pseudo-boolean": Instance(
        [2] * 3,
        (Sum([[0, 1, 2]], [[3, -1, 2]], [[1, 1, 1]], [2]),),
        Objective("minimize", unary=[(0, 1), (2, 1)], unary_weights=[2, -3]),
        problem="pseudo-boolean",
    ),
}
TEXT = [form for form in formats.FORMS if form != "npz"]


def small(problem: str) -> Instance:
    return OWN[problem] if problem in OWN else generate(problem, 1, seed=4, **SMALL[problem])[0]


def objectives(instance: Instance, size: int) -> dict[tuple[int, ...], float | None]:
    """The best objective of each assignment of the first `size` variables that can be completed, as a cost."""
    sign = 1 if instance.objective is None or instance.objective.sense == "minimize" else -1
    found: dict[tuple[int, ...], float | None] = {}
    for values in itertools.product(*map(range, instance.domain_sizes.tolist())):
        verdict = instance.verify(np.array(values))
        if verdict.satisfied and all(values[i] == given for i, given in instance.givens.items()):
            cost = None if verdict.objective is None else sign * verdict.objective
            known = found.get(values[:size], cost)
            found[values[:size]] = cost if known is None or cost is None else min(known, cost)
    return found


@pytest.mark.parametrize("problem", [*SMALL, *OWN])
def test_every_format_that_takes_it_says_the_same(tmp_path, problem):
    """There, and from there to every other format: no pair of formats changes what is asked."""
    first = small(problem)
    options = {"problem": problem} if problem in ("coloring", "maxcut", "mis") else {}
    if problem == "coloring":
        options["colors"] = "2"
    own = first.size - (problem == "qubo")  # behind the bits of a QUBO stands one that is given
    compare = problem not in ("sudoku", "latin", "mis")  # these have too many assignments
    expected = objectives(first, own) if compare else None
    formats.write(first, tmp_path / "a.json")
    kept = []
    for form in TEXT:
        path = tmp_path / f"a.{form}.txt"
        if run(["convert", str(tmp_path / "a.json"), str(path), "--to", form]) != 0:
            continue
        kept.append(form)
        for other in TEXT:
            again = tmp_path / f"{form}-{other}.txt"
            graph = [f"--{key}={value}" for key, value in options.items()] if form in ("gset", "edges", "col") else []
            if run(["convert", str(path), str(again), "--to", other, *graph]) != 0:
                continue
            for read in _readings(again, other, options):
                if expected is not None:
                    assert _rounded(objectives(read, own)) == _rounded(expected), (form, other)
                else:
                    assert (read.size, dict(read.givens)) == (first.size, dict(first.givens)), (form, other)
    assert "json" in kept
    assert len(kept) > 1


def _readings(path, form, options):
    settings = {"problem": options["problem"]} if options and form in ("gset", "edges", "col") else {}
    if "colors" in options and settings:
        settings["colors"] = 2
    try:
        return formats.read(path, **settings)
    except InputError as error:  # nothing that was written may be unreadable
        raise AssertionError(str(error)) from None


def _rounded(found):
    """Costs to 9 digits. No objective is as good as one that is always 0: WCNF has no file without."""
    return {values: round(cost or 0.0, 9) for values, cost in found.items()}
