"""dimod's models and samplers: energies are dimod's own, and the best sample is the one that enumeration finds."""

from __future__ import annotations

import unittest

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blogdit import api
from helpers import assignments

dimod = pytest.importorskip("dimod")
from dimod import testing  # noqa: E402

from blogdit.integrations.dimod import CQMSampler, DQMSampler, Sampler  # noqa: E402
from blogdit.integrations.dimod_models import instance_of, of_bqm, of_cqm, of_dqm  # noqa: E402

QUICK = {"steps": 2, "finish": "exact"}  # a fixed amount of work, enough for a proof on small models
ALWAYS = {"max_examples": 20, "deadline": None}
weight = st.integers(-12, 12).map(lambda number: number / 4)


class QuickSampler(Sampler):
    def __init__(self):
        super().__init__(device="cpu")

    def sample(self, bqm, **options):
        return super().sample(bqm, **QUICK, **options, num_sweeps=20)


@testing.load_sampler_bqm_tests(QuickSampler)
class TestShippedByDimod(unittest.TestCase):
    def test_api(self):
        testing.assert_sampler_api(Sampler())


@st.composite
def binary_models(draw):
    names = draw(st.sampled_from([["a", ("b", 1), 7, "d"], [0, 1, 2], [3, 1]]))
    model = dimod.BinaryQuadraticModel(draw(st.sampled_from(["SPIN", "BINARY"])), offset=draw(weight))
    for name in names:
        model.add_linear(name, draw(weight))
    for i, name in enumerate(names):
        for other in names[:i]:
            if draw(st.booleans()):
                model.add_quadratic(name, other, draw(weight))
    return model


@st.composite
def discrete_models(draw):
    model = dimod.DiscreteQuadraticModel()
    sizes = draw(st.lists(st.integers(1, 3), min_size=1, max_size=3))
    for place, size in enumerate(sizes):
        model.add_variable(size, f"v{place}")
        model.set_linear(f"v{place}", [draw(weight) for _ in range(size)])
    for i in range(len(sizes)):
        for j in range(i):
            cases = {(a, b): draw(weight) for a in range(sizes[i]) for b in range(sizes[j]) if draw(st.booleans())}
            if cases:
                model.set_quadratic(f"v{i}", f"v{j}", cases)
    model.offset = draw(weight)
    return model


@st.composite
def constrained_models(draw):
    number = dimod.Integer("i", lower_bound=draw(st.integers(-2, 0)), upper_bound=draw(st.integers(1, 3)))
    bit, spin = dimod.Binary("x"), dimod.Spin("s")
    parts = [number, bit, spin]
    model = dimod.ConstrainedQuadraticModel()
    goal = sum(draw(weight) * part for part in parts) + draw(weight) * number * bit + draw(weight) * bit * spin
    model.set_objective(goal + draw(weight) * number * number + draw(weight))
    for _ in range(draw(st.integers(0, 2))):
        left = sum(draw(weight) * part for part in parts) + draw(weight)
        bound, sense = draw(weight), draw(st.sampled_from(["<=", ">=", "=="]))
        model.add_constraint(left, sense=sense, rhs=bound)
    return model


@settings(**ALWAYS)
@given(binary_models())
def test_a_binary_model_and_its_instance_have_the_same_energies(model):
    instance = of_bqm(model)
    values = np.array([x for x in assignments(instance) if x[-1] == 0])
    samples = 2 * values[:, :-1] - 1 if model.vartype is dimod.SPIN else values[:, :-1]
    energies = model.energies((samples, list(model.variables)))
    assert [instance.verify(x).objective for x in values] == pytest.approx(energies)


@settings(**ALWAYS)
@given(discrete_models())
def test_a_discrete_model_and_its_instance_have_the_same_energies(model):
    instance = of_dqm(model)
    values = assignments(instance)
    energies = model.energies((values, list(model.variables)))
    assert [instance.verify(x).objective for x in values] == pytest.approx(energies)


@settings(**ALWAYS)
@given(constrained_models())
def test_a_constrained_model_and_its_instance_agree(model):
    instance = of_cqm(model)
    values = assignments(instance)
    numbers = np.array([instance.domains.numbers(x)[: model.num_variables()] for x in values])
    samples = dimod.SampleSet.from_samples_cqm((numbers, list(model.variables)), model)
    for x, energy, feasible in zip(values, samples.record.energy, samples.record.is_feasible, strict=True):
        verdict = instance.verify(x)
        assert verdict.satisfied == feasible
        assert instance.objective is None or verdict.objective == pytest.approx(energy)


@settings(**ALWAYS)
@given(binary_models(), st.integers(1, 4))
def test_the_best_sample_is_the_best_that_there_is(model, reads):
    samples = QuickSampler().sample(model, num_reads=reads)
    assert len(samples) == reads
    assert samples.vartype is model.vartype
    testing.assert_sampleset_energies(samples, model)
    assert samples.first.energy == pytest.approx(dimod.ExactSolver().sample(model).first.energy)


@settings(**ALWAYS)
@given(discrete_models(), st.integers(1, 4))
def test_the_best_sample_of_a_discrete_model(model, reads):
    samples = DQMSampler(device="cpu").sample_dqm(model, num_reads=reads, **QUICK)
    assert len(samples) == reads
    assert samples.record.energy == pytest.approx(model.energies(samples))
    assert samples.first.energy == pytest.approx(dimod.ExactDQMSolver().sample_dqm(model).first.energy)


@settings(**ALWAYS)
@given(constrained_models())
def test_the_best_sample_of_a_constrained_model(model):
    samples = CQMSampler(device="cpu").sample_cqm(model, **QUICK)
    feasible = dimod.ExactCQMSolver().sample_cqm(model).filter(lambda row: row.is_feasible)
    assert samples.info["status"] == ("infeasible" if not len(feasible) else samples.info["status"])
    assert bool(samples.first.is_feasible) == bool(len(feasible))
    if len(feasible):
        assert samples.first.energy == pytest.approx(feasible.first.energy)


def test_reads_differ_and_repeat():
    """A ring of spins that want to differ has two ground states; with nothing to say, all states are as good."""
    ring = dimod.BQM.from_ising({}, {(i, (i + 1) % 8): 1.0 for i in range(8)})
    samples, again = (QuickSampler().sample(ring, num_reads=12, seed=3) for _ in range(2))
    assert (samples.record.sample == again.record.sample).all()
    assert samples.first.energy == -8.0
    assert len(samples.aggregate()) > 1
    free = dimod.BQM.from_ising(dict.fromkeys(range(6), 0.0), {})
    assert len(QuickSampler().sample(free, num_reads=12).aggregate()) > 2


def test_reads_are_local_minima():
    model = dimod.generators.gnp_random_bqm(30, 0.3, "SPIN", random_state=2)
    samples = QuickSampler().sample(model, num_reads=6)
    for row in samples.samples(sorted_by=None):
        state = dict(row)
        for variable in state:
            flipped = {**state, variable: -state[variable]}
            assert model.energy(flipped) >= model.energy(state) - 1e-9


def test_a_time_limit_is_kept_and_what_is_known_is_told():
    model = dimod.generators.gnp_random_bqm(60, 0.5, "BINARY", random_state=1)
    samples = Sampler(device="cpu").sample(model, num_reads=5, time_limit=0.3)
    assert len(samples) == 5
    assert samples.info["seconds"] < 9, "without a limit it has ten"
    assert samples.info["model"] == "maxcut"
    assert samples.info["status"] in ("feasible", "optimal")


def test_empty_models():
    assert len(Sampler().sample(dimod.BQM("SPIN"))) == 0
    assert len(DQMSampler().sample_dqm(dimod.DQM())) == 0
    assert len(CQMSampler().sample_cqm(dimod.CQM())) == 0


def test_bad_input_says_what_was_expected():
    model = dimod.BQM({"a": 1.0}, {}, "SPIN")
    with pytest.raises(ValueError, match="num_reads must be a whole number of at least 1"):
        Sampler().sample(model, num_reads=0)
    with pytest.raises(ValueError, match="linear must be finite"):
        Sampler().sample(dimod.BQM({"a": float("nan")}, {}, "SPIN"))
    with pytest.warns(dimod.exceptions.SamplerUnknownArgWarning, match="anneal"):
        Sampler(device="cpu").sample(model, anneal=1, **QUICK)
    with pytest.raises(
        ValueError, match="expected a binary, discrete or constrained quadratic model, got QuadraticModel"
    ):
        instance_of(dimod.QuadraticModel())
    with pytest.raises(ValueError, match="unknown option sweeps"):
        DQMSampler(device="cpu").sample_dqm(_discrete(), sweeps=3)


def _discrete():
    model = dimod.DQM()
    model.add_variable(2)
    return model


def _constrained(left, sense, bound, **options):
    model = dimod.CQM()
    model.add_constraint(left, sense=sense, rhs=bound, label="c", **options)
    return model


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (
            _constrained(dimod.Integer("i", upper_bound=99) * dimod.Integer("j", upper_bound=99), "<=", 1),
            "'.' times '.' has 10000 cases; expected at most 4096",
        ),
        (_constrained(dimod.Binary("x") / 3, "<=", 1), "constraint 'c' cannot be exact; expected .* 6 decimals"),
        (
            _constrained(dimod.Integer("i", upper_bound=9999) + 0, "<=", 0, weight=2),
            "soft constraint 'c' adds up to more than 4096 numbers; expected fewer",
        ),
        (_constrained(dimod.Real("r") + 0, "<=", 1), "variable 'r' is REAL; expected BINARY, SPIN or INTEGER"),
        (_constrained(dimod.Integer("i") + 0, "<=", 1), "variable 'i' has 9007199254740992 values; expected bounds"),
    ],
)
def test_constraints_that_cannot_be_said(model, message):
    with pytest.raises(ValueError, match=message):
        CQMSampler().sample_cqm(model)


@st.composite
def extended_models(draw):
    """With quadratic and soft constraints."""
    model = dimod.ConstrainedQuadraticModel()
    parts = [dimod.Binary("a"), dimod.Spin("s"), dimod.Integer("i", lower_bound=-1, upper_bound=2)]
    model.set_objective(sum(draw(weight) * part for part in parts) + draw(weight) * parts[0] * parts[2])
    for number in range(draw(st.integers(1, 3))):
        left = sum(draw(weight) * part for part in parts)
        if draw(st.booleans()):
            left += draw(weight) * parts[0] * parts[1] + draw(weight) * parts[2] * parts[2]
        options = {"weight": draw(st.integers(1, 8)) / 2} if draw(st.booleans()) else {}
        sense = draw(st.sampled_from(["<=", ">=", "=="]))
        model.add_constraint(left + 0 * parts[0], sense=sense, rhs=draw(weight), label=f"c{number}", **options)
    return model


@settings(**ALWAYS)
@given(extended_models())
def test_quadratic_and_soft_constraints(model):
    """Each sample has dimod's energy and feasibility; variables behind the model's own follow from these."""
    samples = dimod.ExactCQMSolver().sample_cqm(model)
    instance, labels = of_cqm(model), list(model.variables)
    for row in samples.data(["sample", "energy", "is_feasible"], sorted_by=None):
        values = [_index(instance, labels, label, row.sample[label]) for label in labels]
        verdict = _completed(instance, values)
        assert verdict.satisfied == row.is_feasible
        if verdict.satisfied:
            assert (verdict.objective or 0) == pytest.approx(row.energy)
    best = CQMSampler(device="cpu").sample_cqm(model, **QUICK)
    feasible = samples.filter(lambda row: row.is_feasible)
    assert bool(best.first.is_feasible) == bool(len(feasible))
    if len(feasible):
        assert best.first.energy == pytest.approx(feasible.first.energy)


def _index(instance, labels, label, number) -> int:
    place = labels.index(label)
    start = {"a": 0, "s": -1, "i": -1}[label]
    return (
        instance.values[place].index(number) if instance.values else int(number - start) // (2 if label == "s" else 1)
    )


def _completed(instance, values):
    """The check of an assignment with the variables that follow; what has no value there cannot hold."""
    known = list(values) + [0] * (instance.size - len(values))
    for variable, group, row in instance.derived:
        scope, fits = instance.constraints[group].scope(row).tolist(), []
        for value in range(instance.domain_sizes[variable]):
            known[variable] = value
            numbers = instance.domains.numbers(np.array(known))
            if not instance.constraints[group].violations(np.array(known), numbers)[row]:
                fits.append(value)
        assert len(fits) <= 1, scope
        known[variable] = fits[0] if fits else 0
    return instance.verify(known)


def test_penalties_are_linear_or_quadratic():
    """Three of four bits where at most one is allowed: 2 too many, at weight 3."""
    for penalty, expected in (("linear", 6.0), ("quadratic", 12.0)):
        model = dimod.ConstrainedQuadraticModel()
        bits = [dimod.Binary(f"b{i}") for i in range(3)]
        model.add_constraint(sum(bits), "<=", 1, label="few", weight=3, penalty=penalty)
        instance = of_cqm(model)
        assert instance.verify([1, 1, 1, instance.values[3].index(3)]).objective == expected


def test_a_constant_constraint_holds_or_not():
    model = dimod.CQM()
    model.add_variable("BINARY", "x")
    model.add_constraint(0 * dimod.Binary("x") + 1, sense=">=", rhs=2)
    assert not of_cqm(model).verify([0]).satisfied


def test_solvers_take_instances_of_dimod_models_with_a_model_of_their_own():
    """A BQM is solved with the model for cuts, the others with the general one."""
    for model, name in ((dimod.BQM({"a": 1.0}, {}, "SPIN"), "maxcut"), (_discrete(), "general")):
        (result,) = api.solve(instance_of(model), steps=1, finish="none", device="cpu")
        assert result.model == name
