"""Coordinate files of QUBO and Ising models: what they mean, and that dimod reads what we write."""

from __future__ import annotations

import io

import numpy as np
import pytest

from blogdit import formats
from blogdit.core.errors import InputError
from blogdit.problems import generate, mis, qubo
from blogdit.problems.qubo import quadratic_of


def read(tmp_path, text, **options):
    path = tmp_path / "file.txt"
    path.write_text(text)
    (instance,) = formats.read(path, **options)
    return instance


def energies(instance):
    """By the values of its first two variables."""
    return [instance.verify([a, b, 0]).objective for a, b in ((0, 0), (0, 1), (1, 0), (1, 1))]


@pytest.mark.parametrize(
    "text",
    [
        "p qubo 0 2 2 1\n0 0 1\n1 1 -2\n0 1 4\n",
        "c two bits\np qubo 0 2 2 1\n0 0 1\nc in between\n1 1 -2\n1 0 4\n",
        "# vartype=BINARY\n0 0 1\n1 1 -2\n0 1 3\n1 0 1\n",
        "# a model, vartype: binary\n\n0 0 1\n1 1 -2\n0 1 4\n",
    ],
)
def test_terms_of_bits(tmp_path, text):
    instance = read(tmp_path, text)
    assert (instance.problem, instance.name) == ("qubo", "file")
    assert energies(instance) == [0, -2, 1, 3]


def test_terms_of_spins(tmp_path):
    """E = s_0 - 2 s_1 + 4 s_0 s_1, and the offset of a comment of our own."""
    assert energies(read(tmp_path, "# vartype=SPIN\n0 0 1\n1 1 -2\n0 1 4\n")) == [5, -7, -1, 3]
    assert energies(read(tmp_path, "# vartype=SPIN\n# blogdit offset=10\n0 0 1\n1 1 -2\n0 1 4\n")) == [15, 3, 9, 13]


def test_without_a_header_the_problem_tells(tmp_path):
    text = "0 0 1\n1 1 -2\n0 1 4\n"
    assert energies(read(tmp_path, text, problem="qubo")) == [0, -2, 1, 3]
    with pytest.raises(InputError, match=r"file.txt: a graph without a problem|self-loop 0 0"):
        read(tmp_path, text)


def test_variables_keep_their_numbers(tmp_path):
    instance = read(tmp_path, "# vartype=BINARY\n3 7 1\n")
    assert instance.labels == (3, 7, "reference")
    assert read(tmp_path, "p qubo 0 3 1 0\n1 1 5\n").size == 4, "all variables of the header are there"


@pytest.mark.parametrize("form", ["qubo", "ising"])
@pytest.mark.parametrize(
    "instance", [*generate("maxcut", 1, seed=1, vertices=6, weights="signs"), *generate("qubo", 1, variables=6)]
)
def test_what_is_written_has_the_same_energies(tmp_path, instance, form):
    """A cut may be written as a QUBO: to maximise it is to minimise its negative."""
    path = tmp_path / f"x.{form}"
    formats.write(instance, path)
    (back,) = formats.read(path)
    sign = -1 if instance.objective.sense == "maximize" else 1
    rng = np.random.default_rng(0)
    for values in rng.integers(0, 2, size=(20, back.size - 1)):
        own = [*values, *instance.given_values[back.size - 1 :]]
        assert back.verify([*values, 0]).objective == pytest.approx(sign * instance.verify(own).objective)


def test_dimod_reads_what_we_write(tmp_path):
    dimod = pytest.importorskip("dimod")
    from dimod.serialization import coo

    (instance,) = generate("qubo", 1, variables=6)
    formats.write(instance, tmp_path / "x.ising")
    model = coo.loads((tmp_path / "x.ising").read_text())
    _, _, offset = quadratic_of(instance).spins()
    for values in np.random.default_rng(0).integers(0, 2, size=(20, 6)):
        spins = dict(enumerate((2 * values - 1).tolist()))
        assert model.energy(spins) + offset == pytest.approx(instance.verify([*values, 0]).objective)
    bqm = dimod.BQM({0: 1.5, 3: -1}, {(0, 3): 0.5}, "SPIN")
    handle = io.StringIO()
    coo.dump(bqm, handle, vartype_header=True)
    again = read(tmp_path, handle.getvalue())
    assert again.verify([1, 0, 0]).objective == pytest.approx(bqm.energy({0: 1, 3: -1}))


def test_what_is_no_quadratic_function_is_not_written_as_one(tmp_path):
    with pytest.raises(InputError, match="a quadratic function needs domains of size 2 at most, no constraints"):
        formats.write(mis.build((2, [[0, 1]])), tmp_path / "x.qubo")
    with pytest.raises(InputError, match="a gset file holds a graph and nothing else"):
        formats.write(qubo.build(([1.0], [], [])), tmp_path / "x.gset")
    assert formats.native_suffix("qubo") == ".qubo"
