"""CNF, WCNF and OPB files: what they mean, by enumeration, and that what is written means the same."""

from __future__ import annotations

import itertools
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blogdit import formats
from blogdit.cli.app import run
from blogdit.core.constraints import AllDifferent, Conflict, Count, Function, Linear, NotEqual, Sum
from blogdit.core.errors import InputError
from blogdit.core.instance import Instance, Objective
from blogdit.problems import generate, maxcut, mis


def read(tmp_path, text, name="file.txt"):
    path = tmp_path / name
    path.write_text(text)
    (instance,) = formats.read(path)
    return instance


def meaning(instance, bits=None):
    """The objective of each assignment of the first `bits` variables that can be completed to a valid one."""
    found = {}
    for values in itertools.product((0, 1), repeat=instance.size):
        if any(value >= size for value, size in zip(values, instance.domain_sizes, strict=True)):
            continue
        verdict = instance.verify(values)
        if verdict.satisfied:
            found[values[:bits]] = verdict.objective
    return found


CNF = "c a comment\np cnf 3 4\n1 -2 0\n2\n3 0 -1 -3 0\n3 0\n"


def test_cnf(tmp_path):
    """Clauses may go over lines; one of a single literal is a given."""
    instance = read(tmp_path, CNF)
    assert (instance.problem, instance.name, list(instance.labels)) == ("sat", "file", [1, 2, 3])
    assert dict(instance.givens) == {2: 1}
    assert set(meaning(instance)) == {
        (a, b, c)
        for a, b, c in itertools.product((0, 1), repeat=3)
        if (a or not b) and (b or c) and (not a or not c) and c
    }


@pytest.mark.parametrize(
    ("text", "answers"),
    [
        ("p cnf 1 2\n1 0\n-1 0\n", set()),
        ("p cnf 2 1\n0\n", set()),
        ("p cnf 2 2\n1 1 0\n2 -2 0\n", {(1, 0), (1, 1)}),
        ("p cnf 2 1\n-2 0\n%\n0\n", {(0, 0), (1, 0)}),
        ("c x\n" * 500 + "p cnf 1 1\n1 0\n", {(1,)}),
    ],
    ids=["contradiction", "empty clause", "tautology", "end of SATLIB files", "long preamble"],
)
def test_odd_cnf_files(tmp_path, text, answers):
    assert set(meaning(read(tmp_path, text))) == answers


WCNF = {
    "with a top": "p wcnf 3 4 100\n100 1 2 0\n5 -1 0\n7 -2 3 0\n0 1 0\n",
    "with h": "c new form\n7 -2 3 0\nh 1 2 0\n5 -1 0\n",
    "over lines": "h 1\n2 0 5 -1 0 7\n-2 3 0\n",
}


@pytest.mark.parametrize("form", WCNF)
def test_wcnf(tmp_path, form):
    instance = read(tmp_path, WCNF[form])
    assert instance.problem == "maxsat"
    assert meaning(instance) == {
        (a, b, c): 5 * a + 7 * (b and not c) for a, b, c in itertools.product((0, 1), repeat=3) if a or b
    }


def test_a_wcnf_file_without_hard_clauses_is_known_by_its_name(tmp_path):
    instance = read(tmp_path, "3 -1 0\n2 1 0\n", "x.wcnf")
    assert meaning(instance) == {(0,): 2, (1,): 3}
    all_soft = read(tmp_path, "p wcnf 1 2\n3 -1 0\n2 1 0\n")
    assert meaning(all_soft) == {(0,): 2, (1,): 3}


def test_opb(tmp_path):
    instance = read(tmp_path, "* #variable= 3 #constraint= 3\n* a comment\nmin: +2 x1 -3 x2\n  +1 x3;\n"
                    "+3 x1 +1 ~x2 -2 x3 >= 1 ; +1 x1 +1 x2 <= 1;\n-1 x3 = -1 ;\n")  # fmt: skip
    assert (instance.problem, list(instance.labels), dict(instance.givens)) == (
        "pseudo-boolean",
        ["x1", "x2", "x3"],
        {2: 1},
    )
    assert meaning(instance) == {
        (a, b, c): 2 * a - 3 * b + c
        for a, b, c in itertools.product((0, 1), repeat=3)
        if 3 * a + (1 - b) - 2 * c >= 1 and a + b <= 1 and c == 1
    }


def test_products_in_opb_files(tmp_path):
    """In an objective a product of two is a term; any other is a variable that follows from the others."""
    text = "min: +2 x1 x2 -3 ~x1 x3 +4 x1 x2 x3 +9 x1 ~x1 ;\n+2 x1 ~x2 +1 x3 x3 +1 x2 >= 1 ;\n"
    instance = read(tmp_path, text)
    assert [len(instance.objective.pairwise), instance.size, len(instance.derived)] == [2, 5, 2]
    assert instance.labels[3:] == ("x1 ~x2", "x1 x2 x3")
    assert meaning(instance, 3) == {
        (a, b, c): 2 * a * b - 3 * (1 - a) * c + 4 * a * b * c
        for a, b, c in itertools.product((0, 1), repeat=3)
        if 2 * a * (1 - b) + c + b >= 1
    }


def test_soft_constraints_of_wbo_files(tmp_path):
    text = "soft: 9 ;\n[3] +1 x1 >= 1 ;\n[5] +1 x1 +1 x2 = 1 ;\n+1 x1 +1 x2 <= 1 ;\n[0] +1 x1 = 0 ;\n"
    instance = read(tmp_path, text)
    assert meaning(instance) == {(0, 0): 8, (0, 1): 3, (1, 0): 0}
    assert meaning(read(tmp_path, "[3] +1 a >= 1 ;\n-1 b >= 0 ;\n")) == {(0, 0): 3, (1, 0): 0}


LITERALS = st.integers(1, 4).flatmap(lambda v: st.sampled_from([v, -v]))
CLAUSES = st.lists(st.lists(LITERALS, min_size=1, max_size=3), min_size=1, max_size=5)


@settings(max_examples=60, deadline=None)
@given(hard=CLAUSES, soft=CLAUSES, weight=st.integers(1, 9))
def test_every_form_means_the_same(tmp_path_factory, hard, soft, weight):
    """From WCNF to OPB, JSON and back: each assignment costs the same."""
    folder = tmp_path_factory.mktemp("forms")
    rows = [("h", clause) for clause in [*hard, [4, -4]]] + [(weight + k, clause) for k, clause in enumerate(soft)]
    text = "".join(f"{first} {' '.join(map(str, clause))} 0\n" for first, clause in rows)
    instance = read(folder, text)
    for name in ("a.opb", "a.json.gz", "a.wcnf.xz", "a.wbo"):
        formats.write(instance, folder / name)
        (back,) = formats.read(folder / name)
        assert meaning(back) == meaning(instance), name


MIXED = Instance(
    [2, 2, 2, 2],
    (
        Conflict([[0, 1]], [1, 0]),
        NotEqual([[1, 2]]),
        Linear([[0, 1, 2]], [[2, -1, 1]], ["<="], [2]),
        Count([[0, 1, 3]], [1], [1], [3]),
        Sum([[0, 2]], equals=[[1, 0]], low=[1], when=[[3, 1]]),
        Sum([[0, 1]], low=[1], when=[[3, 0]], exactly=True),
    ),
    Objective("maximize", unary=[(0, 1), (3, 0)], unary_weights=[3, -2], linear=[1], linear_weights=[4],
              differ=[(0, 2)], differ_weights=[5], pairwise=[(1, 2, 1, 0), (0, 3, 1, 1)], pairwise_weights=[-7, 6]),
    {},
)  # fmt: skip


@pytest.mark.parametrize("suffix", [".opb", ".wcnf"])
def test_other_problems_on_bits(tmp_path, suffix):
    """To maximise is to minimise the negative."""
    assert len(meaning(MIXED)) > 1
    formats.write(MIXED, tmp_path / f"x{suffix}")
    (back,) = formats.read(tmp_path / f"x{suffix}")
    assert meaning(back) == {values: -objective for values, objective in meaning(MIXED).items()}


@pytest.mark.parametrize(
    ("problem", "suffix"), [("mis", ".opb"), ("mis", ".wcnf"), ("maxcut", ".opb"), ("qubo", ".wcnf")]
)
def test_families_on_bits(tmp_path, problem, suffix):
    size = {"variables": 6} if problem == "qubo" else {"vertices": 6}
    (instance,) = generate("qubo" if problem == "qubo" else "maxcut", 1, seed=3, **size)
    instance = mis.build(maxcut.graph_of(instance)) if problem == "mis" else instance
    formats.write(instance, tmp_path / f"x{suffix}")
    (back,) = formats.read(tmp_path / f"x{suffix}")
    sign = instance.objective.sign
    assert meaning(back) == {values: sign * objective for values, objective in meaning(instance).items()}


def test_products_are_written_and_read(tmp_path):
    instance = read(tmp_path, "+2 x1 ~x2 +1 x3 >= 1 ;\n")
    formats.write(instance, tmp_path / "y.opb")
    (back,) = formats.read(tmp_path / "y.opb")
    assert set(meaning(back)) == set(meaning(instance))
    formats.write(instance, tmp_path / "y.cnf")
    assert set(meaning(formats.read(tmp_path / "y.cnf")[0])) == set(meaning(instance))


@pytest.mark.parametrize(
    ("instance", "name", "message"),
    [
        (Instance([3], ()), "x.cnf", "variable 0 has 3 values; a cnf file holds variables of two"),
        (mis.build((2, [[0, 1]])), "x.cnf", "a cnf file has no objective; use .wcnf"),
        (Instance([2] * 4, (Sum([[0, 1, 2, 3]], low=[2]),)), "x.cnf", r"a constraint \(sum\) is none; use .opb"),
        (Instance([2] * 3, (Function("max", [0], [[1, 2]]),)), "x.opb", "an? opb file cannot say function; use .json"),
        (Instance([2], (), Objective("minimize", [(0, 1)], [0.5])), "x.opb", "holds whole coefficients, got 0.5"),
        (Instance([2], (), Objective("minimize", [(0, 1)], [0.5])), "x.wcnf", "holds whole weights, got 0.5"),
        (
            Instance([2] * 3, (), Objective("minimize", soft=[(Sum([[0, 1, 2]], low=[1], high=[2]), 1)])),
            "x.opb",
            "cannot say a soft sum with two bounds",
        ),
        (
            Instance([2] * 2, (), Objective("minimize", soft=[(NotEqual([[0, 1]]), 1)])),
            "x.wcnf",
            "holds soft clauses, and a soft constraint is none",
        ),
        (
            Instance([2] * 2, (Sum([[0]], low=[1], high=[1], when=[[1, 1]], exactly=True),)), "x.cnf", None
        ),
        (Instance([2] * 3, (AllDifferent([[0, 1, 2]]),)), "x.cnf", None),
    ],
)  # fmt: skip
def test_what_can_be_written(tmp_path, instance, name, message):
    if message is None:
        formats.write(instance, tmp_path / name)
        assert set(meaning(formats.read(tmp_path / name)[0])) == set(meaning(instance))
        return
    with pytest.raises(InputError, match=message):
        formats.write(instance, tmp_path / name)
    assert not (tmp_path / name).exists()


def test_convert_and_solve(tmp_path, capsys, monkeypatch):
    """Through pipes and the command line: a file with nothing to minimise, then a planted problem."""
    (tmp_path / "n.wcnf").write_text("h 1 -2 0\n1 2 -2 0\n")
    assert run(["solve", str(tmp_path / "n.wcnf"), "--steps", "20", "--device", "cpu"]) == 0
    assert "objective 0" in capsys.readouterr().out
    rng = np.random.default_rng(0)
    planted = rng.integers(0, 2, 60)
    lines = ["p cnf 60 200"]
    for variables in (rng.choice(60, 3, replace=False) for _ in range(200)):
        signs = rng.integers(0, 2, 3)
        signs[0] = planted[variables[0]]
        lines.append(
            " ".join(str(int(v + 1) if s else int(-v - 1)) for v, s in zip(variables, signs, strict=True)) + " 0"
        )
    (tmp_path / "p.cnf").write_text("\n".join(lines))
    monkeypatch.setattr(sys, "stdin", (tmp_path / "p.cnf").open())
    assert run(["convert", "-", str(tmp_path / "p.opb.gz")]) == 0
    assert run(["solve", str(tmp_path / "p.opb.gz"), "--steps", "20", "--json", "--device", "cpu"]) == 0
    assert '"status": "solved"' in capsys.readouterr().out


def test_a_large_file_is_read_quickly(tmp_path):
    """200,000 clauses go through compact arrays, not through an object each."""
    rng = np.random.default_rng(1)
    rows = rng.integers(1, 50_001, (200_000, 3)) * rng.choice([-1, 1], (200_000, 3))
    text = "\n".join(" ".join(map(str, row)) + " 0" for row in rows.tolist())
    instance = read(tmp_path, f"p cnf 50000 200000\n{text}\n")
    (group,) = instance.constraints
    assert (np.abs(rows) - 1 == group.scopes.variables.reshape(-1, 3)).all()
    assert ((rows > 0) == group.equals.reshape(-1, 3)).all()


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("s SATISFIABLE\nv 1 -2\nv 3 0\n", [1, 0, 1]),
        ("c found\no 3\nv -3 1 0\n", [1, 0, 0]),
        ("s OPTIMUM FOUND\no 0\nv 011\n", [0, 1, 1]),
        ("1 0 1\n", [1, 0, 1]),
    ],
)
def test_answers_of_other_solvers(tmp_path, text, values):
    (tmp_path / "s.txt").write_text(text)
    instance = read(tmp_path, "p cnf 3 1\n1 2 3 0\n")
    assert formats.read_solutions(tmp_path / "s.txt", [instance])[0].tolist() == values


def test_answers_by_names_and_products(tmp_path):
    """Variables that only the instance has follow from the others."""
    instance = read(tmp_path, "+2 x1 ~x2 +1 x3 >= 2 ;\n")
    for text, holds in (("v x1 -x2 -x3\n", True), ("v x1 x2 x3\n", False)):
        (tmp_path / "s.txt").write_text(text)
        (values,) = formats.read_solutions(tmp_path / "s.txt", [instance])
        assert instance.verify(values).satisfied == holds
    (tmp_path / "s.txt").write_text("v x1 -x9\n")
    with pytest.raises(InputError, match=r"s.txt:1: expected variables like x1 or -.*, got '-x9'"):
        formats.read_solutions(tmp_path / "s.txt", [instance])
