"""CP-SAT's models as instances, compared by all of their solutions, and hints."""

from __future__ import annotations

import time

import networkx as nx
import pytest
from ortools.sat.python import cp_model

import blogdit
from blogdit.core.constraints import AllDifferent, Conflict, NotEqual
from blogdit.core.errors import InputError
from blogdit.finishers.cp_model import Translation
from blogdit.integrations.ortools import Run, from_cp_model, hint
from blogdit.problems import generate

INTEGERS, BITS = 3, 3


def solutions(model, of) -> set:
    """What `of` gives for every solution of a model."""
    found = set()

    class Every(cp_model.CpSolverSolutionCallback):
        def on_solution_callback(self) -> None:
            found.add(of(self))

    solver = cp_model.CpSolver()
    solver.parameters.enumerate_all_solutions = True
    solver.solve(model, Every())
    return found


def both(model) -> tuple[set, set]:
    """The solutions of a model, and those of the instance that it becomes, each of which is checked."""
    variables = [model.get_int_var_from_proto_index(i) for i in range(len(model.proto.variables))]
    instance = from_cp_model(model)
    translation = Translation(instance)

    def numbers(solver):
        values = translation.values(solver)
        assert instance.verify(values).satisfied
        return tuple(instance.domains.numbers(values)[: len(variables)].tolist())

    own = solutions(model, lambda solver: tuple(solver.value(variable) for variable in variables))
    return own, solutions(translation.model, numbers)


def automaton(m, x, b):
    m.add_automaton(x, 0, [2], [(0, 0, 0), (0, 1, 1), (1, 0, 1), (1, 3, 2), (2, 3, 2), (2, 2, 0)])


def intervals(m, x, b):
    first = m.new_interval_var(x[0], 2, x[1], "first")
    m.add_no_overlap([first, m.new_optional_interval_var(x[2], 1, x[2] + 1, b[0], "second")])


def table_twice(m, x, b):
    m.add_allowed_assignments([x[0], x[0], x[1]], [(1, 1, 2), (1, 2, 3), (2, 2, 9)])


CONSTRAINTS = {
    "linear": lambda m, x, b: m.add(2 * x[0] - x[1] + 3 * b[0] <= 4),
    "equal": lambda m, x, b: m.add(x[0] + x[1] == x[2] + 1),
    "fixed": lambda m, x, b: m.add(x[0] == 2),
    "fixed twice": lambda m, x, b: (m.add(x[0] == 2), m.add(x[0] == 1)),
    "not a value": lambda m, x, b: m.add(x[0] != 2),
    "values": lambda m, x, b: m.add_linear_expression_in_domain(x[0], cp_model.Domain.from_values([0, 2, 7])),
    "unequal": lambda m, x, b: (m.add(x[0] != x[1]), m.add(x[1] != x[2] + 1), m.add(x[0] != 2 * x[2])),
    "gaps": lambda m, x, b: m.add_linear_expression_in_domain(
        x[0] + x[1], cp_model.Domain.from_intervals([[1, 1], [4, 5]])
    ),
    "gap under a condition": lambda m, x, b: m.add(x[0] + x[1] != 3).only_enforce_if(b[0], ~b[1]),
    "condition": lambda m, x, b: (
        m.add(x[0] == 2).only_enforce_if(b[0]),
        m.add(x[0] != 2).only_enforce_if(~b[0]),
        m.add(x[1] + x[2] >= 4).only_enforce_if(b[1], ~b[2]),
        m.add(x[1] <= 1).only_enforce_if(b[2]),
    ),
    "or": lambda m, x, b: (m.add_bool_or(b), m.add_bool_or(b[0], ~b[1])),
    "and": lambda m, x, b: (m.add_implication(b[0], ~b[1]), m.add_bool_and(b[1], ~b[2]).only_enforce_if(b[0])),
    "one literal": lambda m, x, b: m.add_bool_or(~b[0]),
    "empty or": lambda m, x, b: m.add_bool_or([]),
    "at most one": lambda m, x, b: m.add_at_most_one(b[0], ~b[1], b[2]),
    "exactly one": lambda m, x, b: m.add_exactly_one(b).only_enforce_if(b[0]),
    "xor": lambda m, x, b: m.add_bool_xor(b[0], ~b[1], b[2]),
    "different": lambda m, x, b: m.add_all_different(x),
    "different with offsets": lambda m, x, b: m.add_all_different(x[0], x[1] + 1, 2 * x[2]),
    "different from itself": lambda m, x, b: m.add_all_different(x[0], x[0] + 1, x[1]),
    "max": lambda m, x, b: m.add_max_equality(x[0], [x[1], x[2] - 1, 1]),
    "min": lambda m, x, b: m.add_min_equality(x[0], [x[1], x[2] + 1]),
    "abs": lambda m, x, b: m.add_abs_equality(x[0], x[1] - x[2]),
    "product": lambda m, x, b: m.add_multiplication_equality(x[0], [x[1], x[2] - 1]),
    "division": lambda m, x, b: m.add_division_equality(x[0], x[1] - 3, x[2] + 2),
    "remainder": lambda m, x, b: m.add_modulo_equality(x[0], x[1] + 4, 3),
    "element of numbers": lambda m, x, b: m.add_element(x[0], [3, 1, 9, 0, 2], x[1]),
    "element": lambda m, x, b: m.add_element(x[0], [x[1], x[2] + 1, 2], x[2]),
    "table": lambda m, x, b: m.add_allowed_assignments(x[:2], [(0, 1), (3, 2), (9, 9)]),
    "table twice": table_twice,
    "no table": lambda m, x, b: m.add_allowed_assignments(x[:2], [(9, 9)]),
    "forbidden": lambda m, x, b: m.add_forbidden_assignments(x[:2], [(0, 1), (3, 2), (9, 9)]),
    "inverse": lambda m, x, b: m.add_inverse(x, [x[1], x[0], x[2]]),
    "automaton": automaton,
    "intervals": intervals,
    "assumptions": lambda m, x, b: m.add_assumptions([b[0], ~b[1]]),
}


@pytest.mark.parametrize("name", CONSTRAINTS)
@pytest.mark.parametrize("low", [0, -1])
def test_a_model_and_its_instance_have_the_same_solutions(name, low):
    model = cp_model.CpModel()
    x = [model.new_int_var(low, 3, f"x{i}") for i in range(INTEGERS)]
    b = [model.new_bool_var(f"b{i}") for i in range(BITS)]
    CONSTRAINTS[name](model, x, b)
    if reason := model.validate():
        pytest.skip(f"this version of OR-Tools has no such constraint: {reason[:60]}")
    expected, found = both(model)
    assert found == expected


def test_domains_with_gaps_and_fixed_bits():
    model = cp_model.CpModel()
    x = model.new_int_var_from_domain(cp_model.Domain.from_values([-5, 2, 40]), "x")
    yes, no = model.new_constant(1), model.new_constant(0)
    y = model.new_int_var(0, 4, "y")
    model.add(x + y >= 3).only_enforce_if(yes)
    model.add(x + y == 77).only_enforce_if(no)
    model.add_bool_or(no, ~yes, model.new_bool_var("b"))
    expected, found = both(model)
    assert found == expected


@pytest.mark.parametrize("maximize", [False, True])
def test_objectives(maximize):
    """With constants and factors the objective is that of CP-SAT."""
    model = cp_model.CpModel()
    x, b = model.new_int_var(1, 5, "x"), model.new_bool_var("b")
    (model.maximize if maximize else model.minimize)(3 * x - 4 * b + 7)
    instance = from_cp_model(model)
    assert instance.objective.sense == ("maximize" if maximize else "minimize")
    for number, bit in ((1, 0), (4, 1)):
        values = [instance.values[0].index(number), bit, *[0] * (instance.size - 2)]
        assert instance.verify(values).objective == 3 * number - 4 * bit + 7
    half = cp_model.CpModel()
    x = half.new_int_var(0, 5, "x")
    (half.maximize if maximize else half.minimize)(0.5 * x)
    instance = from_cp_model(half)
    assert (instance.objective.sense, instance.verify([3]).objective) == ("maximize" if maximize else "minimize", 1.5)


def test_families_are_recognised():
    graph = nx.petersen_graph()
    colours = cp_model.CpModel()
    x = [colours.new_int_var(0, 2, "") for _ in graph]
    for u, v in graph.edges:
        colours.add(x[u] != x[v])
    assert (from_cp_model(colours).problem, type(from_cp_model(colours).constraints[0])) == ("coloring", NotEqual)
    chosen = cp_model.CpModel()
    b = [chosen.new_bool_var("") for _ in graph]
    for u, v in graph.edges:
        chosen.add_bool_or(~b[u], ~b[v])
    chosen.maximize(sum(b))
    assert (from_cp_model(chosen).problem, type(from_cp_model(chosen).constraints[0])) == ("mis", Conflict)
    (result,) = blogdit.solve(chosen, time_limit=60, device="cpu")
    assert result.objective == 4
    square = cp_model.CpModel()
    cells = [[square.new_int_var(0, 3, "") for _ in range(4)] for _ in range(4)]
    for line in (*cells, *zip(*cells, strict=True)):
        square.add_all_different(line)
    assert from_cp_model(square).problem == "latin"
    assert isinstance(from_cp_model(square).constraints[0], AllDifferent)


def unsupported(which):
    model = cp_model.CpModel()
    x = [model.new_int_var(0, 200, "x") for _ in range(3)]
    b = [model.new_bool_var("") for _ in range(2)]
    if which == "circuit":
        model.add_circuit([(0, 1, b[0]), (1, 0, b[1])])
    elif which == "product":
        model.add_multiplication_equality(x[0], x[1:]).with_name("area")
    elif which == "wide":
        model.new_int_var(0, 1 << 30, "huge")
    elif which == "condition":
        model.add_max_equality(x[0], x[1:]).proto.enforcement_literal.append(3)
    elif which == "expression":
        model.add_max_equality(x[0], [100_000 * x[1], x[2]])
    return model


@pytest.mark.parametrize(
    ("which", "message"),
    [
        ("circuit", "constraint 0 is circuit, which an instance cannot say; expected one of linear, bool_or"),
        ("product", r"constraint 0 \(area\) is int_prod of 40401 combinations of values; expected at most 4096"),
        ("wide", "variable 'huge' has 1073741825 values"),
        ("condition", "constraint 0 is lin_max with a condition, which an instance cannot say; expected none"),
        ("expression", "an expression may have 20000001 values; expected at most 16777216"),
    ],
)
def test_what_an_instance_cannot_say_is_named(which, message):
    with pytest.raises(InputError, match=message):
        from_cp_model(unsupported(which))


@pytest.mark.parametrize("wrong", [3, "model", None])
def test_what_is_no_model_is_refused(wrong):
    for call in (from_cp_model, hint):
        with pytest.raises(InputError, match="expected a CpModel of OR-Tools"):
            call(wrong)


def test_a_hint_is_the_answer_of_the_sampler():
    model = cp_model.CpModel()
    b = [model.new_bool_var("") for _ in range(10)]
    for u, v in nx.petersen_graph().edges:
        model.add_at_most_one(b[u], b[v])
    model.maximize(sum(b))
    model.add_hint(b[0], 1)
    found = blogdit.hint(model, steps=20, device="cpu")
    assert found.model is model
    hinted = dict(zip(model.proto.solution_hint.vars, model.proto.solution_hint.values, strict=True))
    assert [hinted[i] for i in range(10)] == found.result.values[:10].tolist(), "the earlier hint is replaced"
    assert found.result.found_by == "sampler"
    gain = found.gain(time_limit=60)
    assert gain.without.status == gain.hinted.status == "OPTIMAL" or gain.hinted.objective == 4
    assert gain.target == 4
    assert None not in gain.to_target


def test_a_hint_for_an_instance():
    (instance,) = generate("coloring", 1, seed=1, vertices=30, colors=5)
    found = blogdit.hint(instance, steps=50, device="cpu")
    assert len(found.model.proto.solution_hint.vars) >= instance.size
    gain = found.gain(time_limit=60)
    assert (gain.without.status, gain.hinted.status, gain.target) == ("OPTIMAL", "OPTIMAL", None)
    assert gain.to_target == (gain.without.first, gain.hinted.first)


def test_times_of_a_run():
    run = Run("FEASIBLE", 3.0, ((0.5, 10.0), (1.0, 12.0), (2.0, 15.0)))
    assert (run.first, run.objective, run.reached(12, True), run.reached(16, True)) == (0.5, 15.0, 1.0, None)
    assert (Run("UNKNOWN", 3.0, ()).first, Run("UNKNOWN", 3.0, ()).objective) == (None, None)


def test_reading_a_model_is_quick():
    """A model with 500 variables and 3,000 constraints takes well below a second of processor time."""
    graph = nx.gnm_random_graph(500, 3000, seed=1)
    model = cp_model.CpModel()
    x = [model.new_int_var(0, 9, "") for _ in graph]
    for u, v in graph.edges:
        model.add(x[u] != x[v])
    began = time.process_time()
    instance = from_cp_model(model)
    assert time.process_time() - began < 5
    assert (instance.size, len(instance.constraints[0]), instance.problem) == (500, 3000, "coloring")
