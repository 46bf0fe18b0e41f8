"""Problems in a Python file: what the file may look like, and what is said about mistakes in it."""

from __future__ import annotations

import numpy as np
import pytest

from blogdit.core.errors import InputError
from blogdit.formats import to_json
from blogdit.problems import families, own
from blogdit.problems.generation import make_many
from blogdit.training.recipe import OWN_PRESET, recipe

PLAIN = """\
import blogdit

def generate(rng, size=4, low=0):
    problem = blogdit.Problem()
    cells = [problem.variable(i, range(size)) for i in range(size)]
    problem.different(cells)
    problem.sum([(1, cells[0]), (1, cells[1])], low=int(rng.integers(low, 3)))
    return problem
"""


@pytest.fixture
def write(tmp_path):
    """Writes a file; families that are made of it are forgotten after the test."""
    known = dict(families())

    def write(text: str, name: str = "mine.py") -> str:
        path = tmp_path / name
        path.write_text(text)
        return str(path)

    yield write
    families().clear()
    families().update(known)


def test_a_file_is_a_family(write):
    family = own.adopt(write(PLAIN))
    assert family is families()["mine"]
    assert family.settings == {"size": 4, "low": 0}
    first, second = family.make(2, 5, size=6)
    assert (first.problem, first.name, first.size, second.name) == ("mine", "mine-0", 6, "mine-1")
    assert [to_json(one) for one in family.make(2, 5, size=6)] == [to_json(first), to_json(second)]
    assert family.render(first, np.arange(6)).splitlines()[0] == "0 = 0"
    with pytest.raises(ValueError, match="mine has no setting 'foo'; it takes size, low"):
        family.make(1, 0, foo=1)


def test_processes_make_the_same_instances(write, monkeypatch):
    """They do not know the family, but its file."""
    own.adopt(write(PLAIN))
    alone = make_many("mine", 600, (1, 0), {}, processes=1)
    monkeypatch.setattr("blogdit.problems.generation.WORTH", 0.0)
    assert [to_json(one) for one in make_many("mine", 600, (1, 0), {}, processes=2)] == [to_json(one) for one in alone]


@pytest.mark.parametrize(
    ("problem", "name"), [("csp", "mine"), ("roster", "roster"), ("sudoku", "mine")], ids=("none", "own", "taken")
)
def test_the_name_is_that_of_the_instances_if_they_have_one(write, problem, name):
    assert own.own_family(write(PLAIN.replace("Problem()", f"Problem({problem!r})"))).name == name


def test_a_file_that_changes_is_read_again(write):
    own.own_family(write(PLAIN))
    import os

    path = write(PLAIN.replace("size=4", "size=5"))
    os.utime(path, ns=(1, 1))
    assert own.own_family(path).settings["size"] == 5


def test_helpers_beside_the_file_can_be_imported(write):
    write("SIZE = 3\n", "helper_of_mine.py")
    family = own.own_family(write(f"from helper_of_mine import SIZE\n{PLAIN}"))
    assert family.name == "mine"


def test_it_has_the_preset_of_own_problems(write):
    own.adopt(write(PLAIN))
    chosen = recipe("mine", {"size": 7, "layers": 2})
    assert chosen.generator == {"size": 7, "low": 0}
    assert chosen.training.batch_size == OWN_PRESET["batch_size"]
    assert chosen.denoiser.layers == 2


def test_its_settings_are_not_those_of_training(write):
    own.adopt(write(PLAIN.replace("size", "layers")))
    with pytest.raises(ValueError, match="mine and training both have a setting 'layers'; expected another name"):
        recipe("mine")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1\n", ": has no function `generate(rng)`; expected one that returns an Instance"),
        ("def generate(rng:\n", ":1: SyntaxError: '(' was never closed"),
        ("\nimport nothing_like_this\n", ":2: ModuleNotFoundError: No module named 'nothing_like_this'"),
        ("import sys\nsys.exit('no')\n", ":2: SystemExit: no"),
        ("def generate(rng):\n    return 3\n", ":1: generate(rng) returned int; expected an Instance"),
        ("def generate():\n    return 3\n", ": TypeError: generate() takes 0 positional arguments but 1 was given"),
        ("def generate(rng):\n    x = 0\n    return 1 / x\n", ":3: ZeroDivisionError: division by zero"),
        (
            "import blogdit\ndef generate(rng):\n    return blogdit.Instance([])\n",
            ":2: generate(rng) returned an instance without variables",
        ),
        (
            "import blogdit\ndef generate(rng):\n    return blogdit.Instance([2, 2], (blogdit.NotEqual([[0, 5]]),))\n",
            ":3: ValueError: not_equal pairs must lie in 0..1, got 5",
        ),
    ],
)
def test_mistakes_are_one_line_with_their_place(write, text, message):
    path = write(text)
    with pytest.raises(InputError) as caught:
        own.own_family(path)
    assert str(caught.value) == path + message


def test_a_mistake_in_render_has_its_place(write):
    path = write(PLAIN + "\ndef render(instance, values):\n    return values[100]\n")
    family = own.own_family(path)
    (one,) = family.make(1, 0)
    with pytest.raises(InputError, match=r"mine.py:11: IndexError: index 100 is out of bounds"):
        family.render(one, np.arange(4))


def test_names_of_the_package_are_taken(write):
    path = write(PLAIN, "latin.py")
    with pytest.raises(InputError, match=r"latin.py: is called like the problem 'latin' of blogdit; expected another"):
        own.own_family(path)
    with pytest.raises(InputError, match="no such file"):
        own.own_family("nothing.py")
