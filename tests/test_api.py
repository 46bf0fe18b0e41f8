"""What a user calls from Python: solve, solve_each, stream, sample, load."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import networkx as nx
import numpy as np
import pytest

import blogdit
from blogdit.api import bundled_models, follow, model_name, solver_for
from blogdit.core.constraints import Linear
from blogdit.core.errors import InputError
from blogdit.method.chain import ChainConfig
from blogdit.network.checkpoint import Model, save_model
from blogdit.problems import coloring, generate, maxcut
from blogdit.solver.solver import Solver
from helpers import small_denoiser


@pytest.fixture(scope="module")
def model():
    return Model("any", small_denoiser(), ChainConfig(), "random weights")


def test_results_come_in_the_order_of_the_instances(model):
    """Problems may be mixed, and sizes too."""
    mixed = generate("coloring", 4, seed=0, vertices="5-40") + generate("maxcut", 4, seed=0, vertices="5-40")
    mixed = [mixed[place] for place in np.random.default_rng(0).permutation(8)]
    results = blogdit.solve(iter(mixed), model=model, steps=3)
    assert [result.instance for result in results] == mixed
    assert all(result.model == "random weights" and result.steps <= 3 for result in results)


def test_one_instance_needs_no_list(model):
    (result,) = blogdit.solve(maxcut.build((3, [[0, 1], [1, 2]])), model=model, steps=2)
    assert (result.status, result.objective, result.proved_by) == ("optimal", 2, "exact")
    assert blogdit.solve([], model=model) == []


def test_answers_are_checked_ones(sudoku4_path, puzzles):
    results = blogdit.solve(puzzles, model=sudoku4_path, steps=100)
    assert sum(result.status == "solved" for result in results) >= 90
    for result in results:
        verdict = result.instance.verify(result.values)
        assert verdict.satisfied == (result.status == "solved")


def test_whom_the_total_time_does_not_reach_has_its_givens(model):
    graphs = [coloring.build((2, [[0, 1]]), 2), maxcut.build((2, [[0, 1]]))]
    first, second = blogdit.solve(graphs, model=model, total_time=0, seed=4)
    assert (first.status, first.steps, first.seed, first.values.tolist()) == ("unknown", 0, 4, [0, 0])
    assert (second.status, second.objective) == ("feasible", 0)


def test_without_a_budget_there_is_a_default_one(model):
    assert solver_for(generate("coloring", 1)[0], model).options.time_limit == 10
    assert solver_for(generate("coloring", 1)[0], model, steps=5).options.time_limit is None


def test_the_model_recommends_and_the_caller_decides(model):
    careful = dataclasses.replace(model, solving={"block": "margin", "chains": 4, "cuda": {"chains": 64}})
    assert careful.options_for("cpu") == {"block": "margin", "chains": 4}
    assert careful.options_for("cuda") == {"block": "margin", "chains": 64}
    instance = generate("coloring", 1)[0]
    assert solver_for(instance, careful).options.block == "margin"
    chosen = solver_for(instance, careful, block="all", seed=None).options
    assert (chosen.block, chosen.chains, chosen.seed) == ("all", 4, 0)


def test_solve_each_reads_as_it_goes(model):
    read = 0

    def source():
        nonlocal read
        while True:
            read += 1
            yield generate("coloring", 1, seed=read, vertices=6)[0]

    results = blogdit.solve_each(source(), model=model, steps=2, batch_size=2)
    found = [next(results) for _ in range(30)]
    assert len({result.instance.name for result in found}) == 1
    assert len({id(result.instance) for result in found}) == 30
    assert read < 45


def test_stream_yields_every_step(model):
    graph = generate("maxcut", 1, seed=0, vertices=20)[0]
    steps = list(blogdit.stream(graph, model=model, steps=10))
    assert [step.step for step in steps] == list(range(1, 11))
    best = [step.result for step in steps if step.result is not None]
    assert best
    assert all(result.verdict.satisfied for result in best)
    last = blogdit.solve(graph, model=model, steps=10)[0]
    assert best[-1].values.tolist() == last.values.tolist()


def test_a_path_is_not_an_instance(model):
    with pytest.raises(InputError, match=r"expected instances, got 'graph.col'; read a file with blogdit.read"):
        blogdit.solve("graph.col", model=model)
    with pytest.raises(InputError, match=r"^expected instances, graphs or models, got dict$"):
        blogdit.solve([{}], model=model)
    with pytest.raises(InputError, match=r"^expected an instance, got list$"):
        next(blogdit.stream(generate("coloring", 1), model=model))


def test_an_option_of_the_wrong_type(model):
    graph = generate("coloring", 1, seed=0, vertices=6)[0]
    with pytest.raises(InputError, match=r"an option has a value of the wrong type: .*'time_limit': '5'"):
        blogdit.solve(graph, model=model, time_limit="5")


def test_sample_gives_the_last_state_of_each_chain(model):
    graph = generate("coloring", 1, seed=0, vertices=12)[0]
    samples = blogdit.sample(graph, count=20, steps=5, model=model, seed=1)
    assert len(samples) == 20
    assert len({tuple(sample.values) for sample in samples}) > 10
    again = blogdit.sample(graph, count=20, steps=5, model=model, seed=1)
    assert [s.values.tolist() for s in samples] == [s.values.tolist() for s in again]
    fewer = blogdit.sample(graph, count=3, steps=5, model=model, seed=1)
    assert [s.values.tolist() for s in fewer] == [s.values.tolist() for s in samples[:3]]
    for count, steps in ((0, 5), (5, 0)):
        with pytest.raises(InputError, match=r"(count|steps) must be a whole number of at least 1"):
            blogdit.sample(graph, count=count, steps=steps, model=model)


def test_models_by_name_and_by_path(model, tmp_path):
    save_model(tmp_path / "mine.safetensors", model)
    assert blogdit.load(tmp_path / "mine.safetensors").name == "mine"
    for name, path in bundled_models().items():
        assert path.stem == name
        assert blogdit.load(name).problem == name
    with pytest.raises(InputError, match="unknown model 'nothing'; expected a file or one of coloring, general, latin"):
        blogdit.load("nothing")
    with pytest.raises(InputError, match="unknown model 'nothing'"):
        blogdit.solve(generate("coloring", 1), model="nothing")


def test_a_model_that_does_not_fit(sudoku4):
    with pytest.raises(InputError, match=r"does not fit coloring-0: its variables need 2 coordinates, .* gives 0"):
        blogdit.solve(generate("coloring", 1), model=sudoku4)
    few = Model("coloring", small_denoiser(values="table", max_values=3), ChainConfig(), "three")
    with pytest.raises(InputError, match="it knows 3 values, the instance has 5"):
        blogdit.solve(generate("coloring", 1, colors=3) + generate("coloring", 1, colors=5), model=few, steps=1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"device": "tpu"}, "unknown device 'tpu'; expected auto, cpu or cuda"),
        ({"chains": 0}, "chains must be a whole number from 1 to .*, got 0"),
        ({"seed": 1 << 70}, "seed must be a whole number from 0 to"),
        ({"seed": "x"}, "seed must be a whole number from 0 to 4611686018427387904, got 'x'"),
        ({"steps": 1.5}, r"steps must be a whole number from 0 to .*, got 1\.5"),
        ({"time": 3}, "unknown option time; expected steps, time_limit"),
    ],
)
def test_wrong_options_are_found_out_at_once(model, options, message):
    """Before the first instance is read."""

    def never():
        raise AssertionError
        yield

    with pytest.raises(InputError, match=message):
        blogdit.solve_each(never(), model=model, **options).__next__()


def test_what_stream_reports_gets_better(model):
    graph = generate("maxcut", 1, seed=3, vertices=120)[0]
    found = [step.result for step in blogdit.stream(graph, model=model, steps=12) if step.result is not None]
    cuts = [result.objective for result in found]
    assert len(cuts) > 2
    assert cuts == sorted(set(cuts))


def test_a_misfit_is_found_before_the_first_step(monkeypatch):
    puzzles = generate("sudoku", 2, seed=0)
    puzzles.append(dataclasses.replace(puzzles[0], constraints=(Linear([[0]], [[1]], ["<="], [8]),)))
    monkeypatch.setattr(Solver, "run", lambda *arguments: pytest.fail("a step was taken"))
    with pytest.raises(InputError, match="its network does not see linear"):
        blogdit.solve(puzzles, steps=1)


def test_solve_each_takes_one_instance_too(model):
    graph = generate("coloring", 1, seed=0, vertices=6)[0]
    assert [result.instance for result in blogdit.solve_each(graph, model=model, steps=2)] == [graph]


def test_a_family_without_a_model_of_its_own_has_a_stand_in():
    both = {name: Path(name) for name in ("maxcut", "qubo")}
    assert model_name("qubo", both) == "qubo"
    assert model_name("qubo", {"maxcut": both["maxcut"]}) == "maxcut"
    assert model_name("maxcut", {"qubo": both["qubo"]}) is None
    assert model_name("csp", both) is None


@pytest.mark.parametrize("problem", ["mis", "maxcut"])
def test_graphs_of_networkx_are_instances(model, problem):
    """One graph, or several: a graph can be iterated over, but it is one problem."""
    graph = nx.path_graph(["ann", "bob", "cyd"])
    instance = blogdit.as_instance(graph, problem=problem)
    assert (instance.problem, instance.labels) == (problem, ("ann", "bob", "cyd"))
    results = blogdit.solve([graph, (2, [[0, 1]])], model=model, steps=2, problem=problem)
    assert [result.instance.size for result in results] == [3, 2]
    (result,) = blogdit.solve(graph, model=model, steps=2, problem=problem)
    assert result.verdict.satisfied
    assert [one.instance.size for one in blogdit.solve_each(graph, model=model, steps=2, problem=problem)] == [3]


def test_models_of_dimod_are_instances():
    dimod = pytest.importorskip("dimod")
    bqm = dimod.BQM({"a": 1.0}, {("a", "b"): -2.0}, 0.5, "SPIN")
    (result,) = blogdit.solve(bqm, steps=2, device="cpu")
    assert result.objective == -2.5
    assert dict(zip(result.instance.labels, result.values, strict=True)) == {"a": 0, "b": 0, "reference": 0}


@pytest.mark.parametrize(
    ("data", "options", "message"),
    [
        (nx.path_graph(2), {}, "a graph without a problem; expected problem= with one of coloring, maxcut, mis"),
        (nx.path_graph(2), {"problem": "sudoku"}, "expected problem= with one of coloring, maxcut, mis"),
        (nx.path_graph(2), {"problem": "coloring"}, "coloring needs the number of colours; expected colors=K"),
        (nx.path_graph(2), {"problem": "tsp"}, "unknown problem 'tsp'"),
        (nx.Graph([(0, 0)]), {"problem": "mis"}, "self-loop"),
        (5, {"problem": "mis"}, "expected instances, graphs or models, got int"),
    ],
)
def test_what_is_no_instance(data, options, message):
    for call in (blogdit.as_instance, blogdit.solve):
        with pytest.raises(InputError, match=message):
            call(data, **options)


def test_following_an_instance():
    """Looks see what there is so far; an answer that is known is where finishers begin, and is never lost."""
    graph = generate("maxcut", 1, seed=0, vertices=30)[0]
    (best,) = blogdit.solve(graph, steps=5, device="cpu", finish="annealing")
    looks = []

    def look(found, chains):
        looks.append((found().objective, chains().shape))

    result = follow(graph, look, device="cpu", steps=3, finish="descent", chains=2)
    assert [shape for _, shape in looks] == [(2, 30)] * 3
    assert all(objective <= result.objective for objective, _ in looks)
    looks.clear()
    result = follow(graph, look, device="cpu", steps=3, finish="descent", start=best.values)
    assert result.objective >= best.objective
    assert looks[0][0] == best.objective
