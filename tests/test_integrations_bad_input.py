"""What an adapter cannot use raises the exception of its package, in one line that says what was expected."""

from __future__ import annotations

import math

import networkx as nx
import pytest
from ortools.sat.python import cp_model

import blogdit
from blogdit.core.errors import InputError
from blogdit.integrations import networkx as backend

QUICK = {"steps": 1, "finish": "none", "device": "cpu"}


def weighted(weight, node_weight=1):
    graph = nx.Graph()
    graph.add_edge(0, 1, weight=weight)
    graph.add_edge(1, 2, weight=1)
    nx.set_node_attributes(graph, node_weight, "weight")
    return graph


@pytest.mark.parametrize("weight", [math.nan, math.inf, "heavy", "3", 1j])
def test_weights_that_are_no_numbers(weight):
    """Also "3": networkx' own functions do not take a text for a number."""
    with pytest.raises(nx.NetworkXError, match=r"weights must (hold numbers|be finite)"):
        backend.one_exchange(weighted(weight), weight="weight", seed=1, **QUICK)
    with pytest.raises(nx.NetworkXError, match=r"vertex weights must (hold numbers|be finite)"):
        backend.maximum_independent_set(weighted(1, weight), weight="weight", **QUICK)
    with pytest.raises(InputError, match=r"weights must (hold numbers|be finite)"):
        blogdit.solve(weighted(weight), problem="maxcut", **QUICK)


def test_options_of_the_backend():
    for options, message in (
        ({"speed": 3}, "unknown option speed; expected steps"),
        ({"time_limit": -1}, "time_limit must not be negative"),
        ({"time_limit": "long"}, "an option has a value of the wrong type"),
        ({"device": "tpu"}, "device"),
        ({"model": "nothing"}, "unknown model 'nothing'"),
    ):
        with pytest.raises(nx.NetworkXError, match=message) as caught:
            backend.maximum_independent_set(nx.path_graph(3), **options)
        assert "\n" not in str(caught.value)


def test_samplers_of_dimod():
    dimod = pytest.importorskip("dimod")
    from blogdit.integrations.dimod import CQMSampler, DQMSampler, Sampler

    model = dimod.BinaryQuadraticModel({"a": math.nan}, {}, 0.0, "BINARY")
    cases = dimod.DiscreteQuadraticModel()
    cases.set_linear(cases.add_variable(2), [math.inf, 1])
    wide = dimod.ConstrainedQuadraticModel()
    wide.add_constraint(dimod.Integer("i") + dimod.Binary("x") <= 3, label="c")
    calls = [
        (Sampler().sample, {}, "expected a BinaryQuadraticModel, got dict"),
        (DQMSampler().sample_dqm, model, "expected a DiscreteQuadraticModel, got BinaryQuadraticModel"),
        (CQMSampler().sample_cqm, None, "expected a ConstrainedQuadraticModel, got NoneType"),
        (Sampler().sample, model, "linear must be finite, got nan"),
        (DQMSampler().sample_dqm, cases, "must be finite, got inf"),
        (CQMSampler().sample_cqm, wide, "variable 'i' has 9007199254740992 values; expected bounds at most"),
    ]
    for call, given, message in calls:
        with pytest.raises(ValueError, match=message):
            call(given, steps=1, finish="none")


def test_an_integer_between_halves():
    """The bounds of dimod may be any numbers: 0.5 <= i <= 2.5 leaves 1 and 2."""
    dimod = pytest.importorskip("dimod")
    model = dimod.ConstrainedQuadraticModel()
    model.add_variable("INTEGER", "i", lower_bound=0.5, upper_bound=2.5)
    model.set_objective(dimod.Integer("i", lower_bound=0.5, upper_bound=2.5))
    instance = blogdit.as_instance(model)
    assert instance.domains.of(0).tolist() == [1, 2]
    assert instance.verify([0]).objective == 1


def test_solver_of_cpmpy():
    cp = pytest.importorskip("cpmpy")
    from cpmpy.exceptions import NotSupportedError

    from blogdit.integrations.cpmpy import CPM_blogdit

    x, y = cp.intvar(0, 10**6, shape=2, name="far")
    for constraint in (x * y == 36, x // y == 3, x % y == 5):
        with pytest.raises(
            NotSupportedError, match=r"(mul|div|mod) of variables with 100000\d values; expected at most"
        ):
            CPM_blogdit(cp.Model(constraint))
    for value in (None, "one"):
        with pytest.raises(ValueError, match="a hint has whole numbers, got"):
            CPM_blogdit(cp.Model(x > 1)).solution_hint([x], [value])


def test_models_of_ortools():
    model = cp_model.CpModel()
    start = model.new_int_var(0, 3, "start")
    model.add_cumulative([model.new_fixed_size_interval_var(start, 2, "task")], [1], 1).with_name("machine")
    for call in (blogdit.from_cp_model, blogdit.hint, blogdit.solve):
        with pytest.raises(InputError, match=r"constraint 1 \(machine\) is cumulative.*; expected one of linear"):
            call(model)
    for call in (blogdit.from_cp_model, blogdit.hint):
        with pytest.raises(InputError, match="expected a CpModel of OR-Tools"):
            call("model")
