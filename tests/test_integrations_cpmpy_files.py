"""Files through CPMpy, models of pycsp3, and models as instances: the numbers are those of the model."""

from __future__ import annotations

import gzip
import json
import lzma

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import blogdit
from blogdit import formats
from blogdit.cli.app import run
from blogdit.core.errors import InputError
from installation import run_installed

cp = pytest.importorskip("cpmpy")
from cpmpy.expressions.utils import argval  # noqa: E402

from blogdit.integrations.cpmpy_files import read  # noqa: E402
from test_integrations_cpmpy import CONSTRAINTS, GOALS, VARIABLES, enumerated  # noqa: E402

QUICK = {"steps": 1, "finish": "exact", "device": "cpu"}


@settings(max_examples=12, deadline=None)
@given(st.lists(st.sampled_from(CONSTRAINTS), max_size=3), st.sampled_from(GOALS), st.booleans())
def test_numbers_and_objective_of_an_instance_are_those_of_the_model(constraints, goal, minimize):
    worth = [argval(goal) for _ in enumerated(constraints)]
    model = cp.Model(constraints)
    (model.minimize if minimize else model.maximize)(goal)
    (result,) = blogdit.solve(model, **QUICK)
    assert result.status == ("optimal" if worth else "infeasible")
    if not worth:
        return
    instance = result.instance
    numbers = dict(zip(instance.labels, instance.domains.numbers(result.values).tolist(), strict=True))
    for variable in VARIABLES:
        variable._value = numbers.get(variable.name, variable.lb)
    assert all(argval(one) for one in constraints)
    assert result.objective == argval(goal) == (min(worth) if minimize else max(worth))


def test_what_cannot_be_an_instance():
    with pytest.raises(InputError, match="1073741821 values, and not all count from 0; expected at most 4194304"):
        blogdit.as_instance(cp.Model(cp.intvar(0, 2**30) > 3))
    with pytest.raises(InputError, match=r"domain_sizes must lie in 1..2147483648, got 1099511627777"):
        blogdit.as_instance(cp.Model(cp.intvar(0, 2**40) != 3))
    with pytest.raises(InputError, match="blogdit cannot say"):
        blogdit.solve(cp.Model(cp.DirectConstraint("AddBoolOr", [cp.boolvar()])))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.cnf", "p cnf 3 4\n1 -2 0\n2 3 0\n-1 -3 0\n1 2 3 0\n"),
        ("a.wcnf", "h 1 2 0\n5 -1 0\n7 -2 3 0\n2 -3 0\n"),
        (
            "a.opb",
            "* #variable= 2 #constraint= 1\nmin: +2 x1 -3 x2 ;\n+3 x1 +1 ~x2 >= 1 ;\n",
        ),
    ],
)
def test_files_mean_to_cpmpy_what_they_mean_to_us(tmp_path, name, text):
    """Read by CPMpy and by our own reader, and solved by CP-SAT: the same status, and the same objective."""
    (tmp_path / name).write_text(text)
    (own,) = blogdit.solve(formats.read(tmp_path / name), finish="exact", steps=2, device="cpu")
    theirs = read(tmp_path / name)
    (other,) = blogdit.solve(theirs, finish="exact", steps=2, device="cpu")
    assert theirs.name == "a"
    assert own.verdict.satisfied
    assert other.verdict.satisfied
    assert own.objective == other.objective


@pytest.mark.parametrize(
    ("name", "form", "message"),
    [
        ("none.opb", None, "none.opb: no such file"),
        ("a.opb", "tsp", "unknown format 'tsp'; expected one of mps, lp"),
        ("a.what", None, "a.what: CPMpy cannot read it: No file format"),
        ("a.opb", None, "a.opb: CPMpy cannot read it: "),
    ],
)
def test_files_that_cannot_be_read(tmp_path, name, form, message):
    for one in ("a.opb", "a.what"):
        (tmp_path / one).write_text("* #variable= 1 #constraint= 1\nthis is nothing\n")
    with pytest.raises(InputError, match=message):
        read(tmp_path / name, form)


XCSP3 = """<instance format="XCSP3" type="COP">
  <variables>
    <array id="x" size="[4]"> 0..3 </array>
    <var id="y"> 0 1 5 </var>
  </variables>
  <constraints>
    <allDifferent> x[] </allDifferent>
    <intension> le(add(x[0],x[1]),y) </intension>
    <extension> <list> x[0] x[1] </list> <supports> (0,1)(1,2)(2,3)(3,1) </supports> </extension>
    <element> <list> x[] </list> <index> x[3] </index> <condition> (ge,2) </condition> </element>
  </constraints>
  <objectives> <maximize> sub(mul(3,x[0]),x[2]) </maximize> </objectives>
</instance>
"""


def test_xcsp3(tmp_path):
    """By hand: x[0] = 3 and x[1] = 1 leave (2, 0) for x[2] and x[3], as x[x[3]] is at least 2."""
    (tmp_path / "a.xml").write_text(XCSP3)
    (tmp_path / "b.xml.lzma").write_bytes(lzma.compress(XCSP3.encode(), lzma.FORMAT_ALONE))
    (tmp_path / "c.xml.gz").write_bytes(gzip.compress(XCSP3.encode()))
    for name in ("a.xml", "b.xml.lzma", "c.xml.gz"):
        instance = read(tmp_path / name)
        (result,) = blogdit.solve(instance, **QUICK)
        numbers = dict(zip(instance.labels, instance.domains.numbers(result.values).tolist(), strict=True))
        assert (instance.name, result.status, result.objective) == (name[0], "optimal", 7.0)
        assert [numbers[f"x[{i}]"] for i in range(4)] == [3, 1, 2, 0]
        assert numbers["y"] == 5


def test_xcsp3_becomes_json_that_every_command_reads(tmp_path):
    (tmp_path / "a.xml").write_text(XCSP3)
    assert run(["convert", str(tmp_path / "a.xml"), str(tmp_path / "b.json")]) == 0
    assert json.loads((tmp_path / "b.json").read_text())["problem"] == "cpmpy"
    (result,) = blogdit.solve(formats.read(tmp_path / "b.json"), **QUICK)
    assert result.objective == 7.0


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("</instance>", "", "no element found: line 14"),
        ("x[1] </list>", "z </list>", "."),
        ("allDifferent", "magic", "."),
        ("0..3", "0..99999999999", "."),
    ],
)
def test_damaged_xcsp3(tmp_path, capsys, old, new, message):
    (tmp_path / "a.xml").write_text(XCSP3.replace(old, new))
    with pytest.raises(InputError, match=f"a.xml: .*{message}") as caught:
        read(tmp_path / "a.xml")
    assert "\n" not in str(caught.value)
    assert capsys.readouterr().out == ""


PYCSP3 = """
from pycsp3 import *
import blogdit
from blogdit.integrations.cpmpy_files import from_pycsp3

x = VarArray(size=4, dom=range(4))
y = Var(dom={1, 3, 7})
satisfy(AllDifferent(x), x[0] < x[1], x[1] + x[2] == 5, Count(x, value=2) == 1, Maximum(x[0], x[3]) <= y)
maximize(x[0] * 2 + x[3] - y)
(result,) = blogdit.solve(from_pycsp3("mine"), steps=1, finish="exact", device="cpu")
print(result.instance.name, result.status, result.objective, result.values[:4].tolist())
"""


def test_a_model_of_pycsp3(tmp_path):
    """In a process of its own: pycsp3 has one model, and changes what operators of Python mean."""
    (tmp_path / "model.py").write_text(PYCSP3)
    assert run_installed(tmp_path, "model.py").splitlines()[0] == "mine optimal 1.0 [1, 3, 2, 0]"
