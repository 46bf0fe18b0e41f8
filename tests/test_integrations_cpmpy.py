"""CPMpy calls blogdit: what it finds holds, what it proves is so, by the enumeration of all values."""

from __future__ import annotations

import itertools
import shutil
import subprocess
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import blogdit
from blogdit.core.constraints import AllDifferent, Conflict, Count, Function, Linear, NotEqual, Sum, Table
from blogdit.finishers.base import Deadline, Task
from blogdit.finishers.exact import Exact
from blogdit.problems import coloring, mis
from installation import ROOT, run_installed

cp = pytest.importorskip("cpmpy")
from cpmpy.exceptions import NotSupportedError  # noqa: E402
from cpmpy.expressions.utils import argval  # noqa: E402
from cpmpy.solvers.solver_interface import ExitStatus  # noqa: E402

from blogdit.integrations.cpmpy import CPM_blogdit, register  # noqa: E402

QUICK = {"steps": 2, "finish": "exact", "device": "cpu"}  # a fixed amount of work, enough for a proof

X = [cp.intvar(-1, 2, name="x0"), cp.intvar(0, 3, name="x1"), cp.intvar(1, 3, name="x2")]
B = [cp.boolvar(name="b0"), cp.boolvar(name="b1")]
VARIABLES = [*X, *B]
x0, x1, x2 = X
b0, b1 = B

# One of each: what is said as it is, and what is made of it by tables and by CPMpy's decompositions.
CONSTRAINTS = [
    x0 != x1, x0 != 1, x1 == x2, x0 < x1, x1 >= 2, x0 + x1 == 3, 2 * x0 - 3 * x1 <= -2, x0 + x1 + x2 != 4,
    cp.AllDifferent(X), cp.AllDifferent([x0, x1 + 1, x2 - 1]), cp.AllDifferent([x0, 1, x2]), cp.AllEqual(x1, x2),
    cp.Table(X, [[0, 1, 2], [1, 1, 1], [2, 3, 3]]), cp.Table([x0, x0], [[1, 1], [0, 2]]),
    cp.NegativeTable([x0, x1], [[0, 0], [1, 1]]), cp.Count(X, 1) >= 2, cp.Count(X, 1) == x0, cp.Count([x0, x0], 1) == 2,
    cp.Count([x0, 1, x2], 1) < 2, cp.Count(X, 9) <= 1, cp.GlobalCardinalityCount(X, [1, 2], [1, x0]),
    cp.Element([3, 1, 2, 0], x1) == x2, cp.Element([x0, x1, x2], x1) >= 1, cp.max(X) == 2, cp.min(X) > 0,
    x0 * x1 == x2, x1 // x2 == 1, x1 % 2 == 1, abs(x0 - x1) == 2, x1**2 == 4, cp.Circuit([x1, x1 + 0, x2]),
    b0, ~b1, b0 | ~b1, b0 & b1, b0 != b1, b0 == b1, cp.Xor([b0, b1, x0 == 1]), b0.implies(b1), ~b0 == (x1 == 2),
    b0.implies(x0 == 1), (x0 > 0).implies(b1), b0 == (x0 + x1 >= 3), b0 == (x0 != x1), b1 == cp.AllDifferent(X),
    cp.AllDifferent(X).implies(b0), (x0 == 1) | (x1 == 2) | b1, (x0 == 1) == (x1 == 2), cp.any([x0 > 1, x1 > 2]),
    cp.sum(B) + x0 >= 2, cp.Increasing(X), cp.LexLess([x0, x1], [x1, x2]), cp.InDomain(x1, [0, 3]),
    cp.IfThenElse(b0, x0 == 1, x1 == 1), cp.Among(X, [1, 2]) == 2, cp.NValue(X) == 2,
    cp.Cumulative([x0, x1], [2, 2], demand=[1, 1], capacity=1), cp.BoolVal(True), cp.BoolVal(False),
]  # fmt: skip
GOALS = [cp.sum(X), x0 - 2 * x1 + 3 * b0, cp.max(X), x0 * x1, ~b0 + ~b1, abs(x0 - x2), x1]


def enumerated(constraints):
    """All values of the variables that fulfil all constraints."""
    for values in itertools.product(*(range(v.lb, v.ub + 1) for v in VARIABLES)):
        for variable, value in zip(VARIABLES, values, strict=True):
            variable._value = bool(value) if variable.is_bool() else value
        if all(argval(one) for one in constraints):
            yield values


def solved(model, **options):
    """The solver after a call, with all variables known to it."""
    solver = CPM_blogdit(model)
    solver.user_vars.update(VARIABLES)
    return solver, solver.solve(**{**QUICK, **options})


def possible(solver, values) -> bool:
    """Whether CP-SAT completes values of the variables to an answer."""
    built = solver._build()
    instance, givens = built.instance, dict(built.instance.givens)
    for variable, number in zip(VARIABLES, values, strict=True):
        index = solver.poster.index[variable.name]
        place, value = int(built.place[index]), int(number - built.base[index])
        if givens.setdefault(place, value) != value or not 0 <= value < instance.domain_sizes[place]:
            return False
    (finish,) = Exact(threads=1).finish([Task(replace(instance, givens=givens), np.zeros((0, 0)))], Deadline(), 0)
    assert finish.values is not None or finish.proof == "infeasible"
    return finish.values is not None


@pytest.mark.parametrize("constraint", CONSTRAINTS, ids=str)
def test_every_constraint_is_said_exactly(constraint):
    """The instance, with its auxiliary variables free, allows the values that the constraint allows, and no others."""
    solver = CPM_blogdit(cp.Model(constraint))
    solver.user_vars.update(VARIABLES)
    allowed = set(enumerated([constraint]))
    for some in (allowed, set(enumerated([])) - allowed):
        for values in sorted(some)[:: max(len(some) // 5, 1)]:
            assert possible(solver, values) == (values in allowed), values


@settings(max_examples=12, deadline=None)
@given(st.lists(st.sampled_from(CONSTRAINTS), max_size=4), st.sampled_from(GOALS), st.booleans())
def test_the_optimum_is_the_one_of_enumeration(constraints, goal, minimize):
    worth = [argval(goal) for _ in enumerated(constraints)]
    model = cp.Model(constraints)
    (model.minimize if minimize else model.maximize)(goal)
    solver, found = solved(model)
    assert found == bool(worth)
    if not worth:
        assert solver.status().exitstatus == ExitStatus.UNSATISFIABLE
        return
    assert solver.status().exitstatus == ExitStatus.OPTIMAL
    assert all(argval(one) for one in constraints)
    assert solver.objective_value() == argval(goal) == (min(worth) if minimize else max(worth))


@pytest.mark.parametrize(
    ("constraint", "kinds"),
    [
        (cp.AllDifferent(X), {AllDifferent, Linear}),  # bounds of different variables are linear
        (cp.AllDifferent(cp.intvar(1, 4, shape=3)), {AllDifferent}),
        (x1 != x2, {NotEqual, Linear}),
        (cp.Table(X, [[0, 1, 2]]), {Table}),
        (cp.Count(cp.intvar(1, 4, shape=5), 2) >= 2, {Count}),
        (cp.GlobalCardinalityCount(cp.intvar(1, 4, shape=5), [1, 2], [2, 1]), {Count, Linear, Table}),
        (b0 == (x0 == 1), {Table}),
        (cp.Element([3, 1, 2, 0], x1) == x2, {Table}),
        (x0 * x1 == x2, {Table}),
        (b0 | ~b1, {Conflict}),
        (cp.any([b0, b1, cp.boolvar()]), {Linear}),
        (x0 + 2 * x1 <= 3, {Linear}),
        (x1 <= 2, set()),
    ],
)
def test_what_kind_of_constraint_says_it(constraint, kinds):
    assert {type(group) for group in CPM_blogdit(cp.Model(constraint)).native_model.constraints} <= kinds
    assert kinds <= {Linear, Table} | {type(g) for g in CPM_blogdit(cp.Model(constraint)).native_model.constraints}


LARGE = cp.intvar(-3, 40, shape=4, name="large")
INDEX = cp.intvar(1, 3, name="index")
NEWER = [
    (b0.implies(LARGE[0] + 2 * LARGE[1] >= 30), {Sum}),
    ((~b0).implies(LARGE[0] - LARGE[1] == 4), {Sum}),
    (b0 == (cp.sum(LARGE) <= 60), {Sum}),
    (b0 == (LARGE[0] + LARGE[1] != 30), {Sum}),
    ((LARGE[0] > 20).implies(LARGE[1] + LARGE[2] <= 10), {Sum}),
    (cp.max(LARGE) == LARGE[0], {Function}),
    (cp.min([LARGE[1], LARGE[2], 7]) == LARGE[3], {Function}),
    (cp.max(LARGE) >= 35, {Function}),
    (cp.Element(list(LARGE), INDEX) == LARGE[0], {Function}),
    (cp.AllDifferent([LARGE[i] + i for i in range(4)]), {AllDifferent}),
    (cp.AllDifferent([LARGE[0] - 5, LARGE[1], INDEX]), {AllDifferent}),
]


@pytest.mark.parametrize(("constraint", "kinds"), NEWER, ids=str)
def test_newer_kinds_say_it_exactly(constraint, kinds):
    """Where a table would be too large: random values are possible in the instance where they fulfil the constraint."""
    assert kinds <= {type(group) for group in CPM_blogdit(cp.Model(constraint)).native_model.constraints}
    rng, variables = np.random.default_rng(0), [*LARGE, INDEX, b0]
    tried: dict[bool, int] = {False: 0, True: 0}
    for _ in range(500):
        # Near values make equalities likely.
        near = rng.integers(-3, 38) + rng.integers(0, 3, 4) if rng.random() < 0.5 else rng.integers(-3, 41, 4)
        values = [*near.tolist(), int(rng.integers(1, 4)), int(rng.integers(0, 2))]
        for variable, value in zip(variables, values, strict=True):
            variable._value = value
        holds = bool(argval(constraint))
        if tried[holds] < 3:
            tried[holds] += 1
            fixed = [variable == value for variable, value in zip(variables, values, strict=True)]
            assert CPM_blogdit(cp.Model(constraint, fixed)).solve(**QUICK) == holds, values
    assert min(tried.values()) > 0


def test_a_variable_with_many_values_in_the_objective():
    far = cp.intvar(-5, 1000, name="far")
    model = cp.Model(far % 7 == 3, far != 997, maximize=3 * far - x0)
    solver = CPM_blogdit(model)
    assert solver.solve(finish="exact", device="cpu", time_limit=20)
    assert (far.value(), x0.value(), solver.objective_value()) == (990, -1, 2971)
    assert solver.native_model.domain_sizes.max() <= 1006


def test_families_are_recognised():
    """And have their own models: what a model says twice, or in another order, does not matter."""
    grid = cp.intvar(1, 4, shape=(4, 4), name="cell")
    boxes = [cp.AllDifferent(grid[i : i + 2, j : j + 2].flatten()) for i in (0, 2) for j in (0, 2)]
    lines = [cp.AllDifferent(line) for line in (*grid.T, *grid)]
    model = cp.Model(boxes, lines, grid[0, 1] == 3, grid[2, 2] == 1)
    puzzle = CPM_blogdit(model).native_model
    assert (puzzle.problem, dict(puzzle.givens)) == ("sudoku", {1: 2, 10: 0})
    ends = np.array([(0, 1), (1, 2), (0, 2), (2, 3)])
    color = cp.intvar(0, 2, shape=4, name="color")
    graph = CPM_blogdit(cp.Model([color[i] != color[j] for i, j in ends])).native_model
    assert (graph.problem, coloring.graph_of(graph).edges.tolist()) == ("coloring", ends.tolist())
    chosen = cp.boolvar(shape=4, name="chosen")
    for apart in ([chosen[i] + chosen[j] <= 1 for i, j in ends], [~chosen[i] | ~chosen[j] for i, j in ends]):
        best = CPM_blogdit(cp.Model(apart, maximize=cp.sum(chosen))).native_model
        assert (best.problem, mis.graph_of(best).edges.tolist()) == ("mis", ends.tolist())
    assert CPM_blogdit(cp.Model(x0 + x1 > 2)).native_model.problem == "cpmpy"


def test_names_of_solvers_name_models(tmp_path, sudoku4_path):
    """A bundled one, a file, or the folder of a training run."""
    assert {"blogdit", "blogdit:sudoku"} <= set(cp.SolverLookup.supported())
    register()
    assert [name for name, _ in cp.SolverLookup.base_solvers()].count("blogdit") == 1
    assert {"name": "blogdit", "installed": True, "version": blogdit.__version__} in cp.SolverLookup.version()
    (tmp_path / "best.safetensors").write_bytes(sudoku4_path.read_bytes())
    grid = cp.intvar(1, 4, shape=(4, 4), name="cell")
    model = cp.Model([cp.AllDifferent(line) for line in (*grid, *grid.T)])
    model += [cp.AllDifferent(grid[i : i + 2, j : j + 2].flatten()) for i in (0, 2) for j in (0, 2)]
    for name, used in (("sudoku", "sudoku"), (str(sudoku4_path), "last"), (str(tmp_path), "best")):
        solver = cp.SolverLookup.get(f"blogdit:{name}", model)
        assert solver.solve(**QUICK)
        assert solver.result.model == used
    assert model.solve(solver="blogdit", **QUICK)
    with pytest.raises(ValueError, match="unknown model 'nothing'"):
        cp.SolverLookup.get("blogdit:nothing", model).solve(**QUICK)


def test_unknown_is_not_unsatisfiable():
    model = cp.Model(cp.AllDifferent(X), x0 + x1 + x2 == 6, x0 > x1)
    solver, found = solved(model, finish="none", steps=0)
    assert (found, solver.status().exitstatus) == (False, ExitStatus.UNKNOWN)
    assert x0.value() is None
    solver, found = solved(cp.Model(x1 > x2, x2 > x1), finish="none")
    assert (found, solver.status().exitstatus) == (False, ExitStatus.UNKNOWN), "only CP-SAT proves that"


def test_without_a_budget_it_ends_with_a_proof():
    model = cp.Model(x0 < x1, x1 < x2, minimize=x2)
    assert model.solve(solver="blogdit")
    assert (x2.value(), model.status().exitstatus) == (1 + 1, ExitStatus.OPTIMAL) or x2.value() == 1
    assert not cp.Model(x0 < x1, x1 < x0).solve(solver="blogdit")


def test_all_solutions_and_a_display(capsys):
    assert cp.Model(x0 + x1 == 3).solveAll(solver="blogdit", display=[x0, x1], **QUICK) == 3
    shown = [eval(line) for line in capsys.readouterr().out.splitlines()]
    assert sorted(shown) == [[0, 3], [1, 2], [2, 1]]
    seen = []
    model = cp.Model(x0 != x1, maximize=x0 + x1)
    assert model.solve(solver="blogdit", display=lambda: seen.append(x0.value() + x1.value()), **QUICK)
    assert seen[-1] == model.objective_value() == 5
    assert seen == sorted(set(seen)), "each better than the one before"


def test_a_hint_is_followed_where_it_leads_to_an_answer():
    solver = CPM_blogdit(cp.Model(x0 != x1, x1 != x2))
    solver.solution_hint([x0, x2], [2, 1])
    assert solver.solve(**QUICK)
    assert (x0.value(), x2.value()) == (2, 1)
    solver.solution_hint([x0, x1], [2, 2])
    assert solver.solve(**QUICK)
    assert x0.value() != x1.value()
    with pytest.raises(ValueError, match="a hint has a value for each variable, got 2 for 1"):
        solver.solution_hint([x0], [1, 2])


def test_constraints_may_follow_a_solve():
    solver = CPM_blogdit(cp.Model(x0 < x1))
    assert solver.solve(**QUICK)
    solver += x1 < x0
    assert not solver.solve(**QUICK)
    assert CPM_blogdit(cp.Model()).solve(**QUICK)


def test_a_model_is_an_instance():
    (result,) = blogdit.solve(cp.Model(x1 + x2 == 6), steps=2, finish="exact", device="cpu")
    assert (result.status, result.model) == ("solved", "general")
    assert blogdit.as_instance(cp.Model(x1 != x2), name="two").name == "two"


def test_bad_input_says_what_was_expected():
    with pytest.raises(NotSupportedError, match=r"domain_sizes must lie in 1..2147483648"):
        cp.Model(cp.intvar(0, 2**40) > 3).solve(solver="blogdit")
    with pytest.raises(ValueError, match="time_limit must be positive"):
        cp.Model(b0).solve(solver="blogdit", time_limit=0)
    with pytest.raises(ValueError, match="unknown option speed"):
        cp.Model(b0).solve(solver="blogdit", speed=3)
    with pytest.raises(NotSupportedError, match="blogdit cannot say"):
        cp.Model(cp.DirectConstraint("AddBoolOr", B)).solve(solver="blogdit")


UPSTREAM = """
import cpmpy as cp
x = cp.boolvar()
assert "blogdit" in cp.SolverLookup.supported()
print(cp.Model(x).solve(solver="blogdit", time_limit=60), x.value())
"""


def test_the_patch_lets_cpmpy_find_the_solver_by_itself(tmp_path):
    """On a copy of the version that it was written for."""
    if version("cpmpy") != "1.1.1" or shutil.which("patch") is None:
        pytest.skip("the patch is for CPMpy 1.1.1")
    shutil.copytree(Path(cp.__file__).parent, tmp_path / "cpmpy", ignore=shutil.ignore_patterns("__pycache__"))
    diff = (ROOT / "docs" / "cpmpy-upstream.patch").read_bytes()
    subprocess.run(["patch", "-p1", "-s"], input=diff, cwd=tmp_path, check=True)
    assert run_installed(tmp_path, "-c", UPSTREAM) == "True True\n"
