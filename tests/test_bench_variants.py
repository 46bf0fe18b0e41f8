"""blogdit and its variants as systems."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

from blogdit.api import load
from blogdit.bench import variants
from blogdit.bench.systems import Budget
from blogdit.bench.variants import Blogdit, make, named_models
from blogdit.core.errors import InputError
from blogdit.core.instance import Instance
from blogdit.problems import generate
from blogdit.training.recipe import recipe


def test_blogdit_solves_by_steps_and_by_time():
    (easy,) = generate("sudoku", 1, seed=2, min_givens=60, max_givens=60)
    for name in ("blogdit", "blogdit-last-step", "blogdit-random-blocks"):
        (result,) = make(name, {}).solve_many([easy], Budget(steps=8))
        assert result.status == "solved"
        assert result.steps <= 8
    timed = make("blogdit", {}).solve_many(generate("coloring", 2, seed=1, vertices=30), Budget(seconds=0.6))
    assert [result.instance.name for result in timed] == ["coloring-0", "coloring-1"]


def test_each_chain_of_blogdit_is_a_run_of_its_own():
    many = generate("maxcut", 2, seed=3, vertices=12)
    runs = make("blogdit", {}).solve_runs(many, Budget(steps=4), seed=1, runs=3)
    assert [[result.instance for result in row] for row in runs] == [[one] * 3 for one in many]
    assert all(result.steps == 4 for row in runs for result in row)


def test_the_best_state_of_a_chain_is_the_lowest_of_its_steps():
    """Compared with a list of all states; also for puzzles, which leave one after the other as they are solved."""
    for problem, settings in (("maxcut", {"vertices": 12}), ("sudoku", {"box": 2, "min_givens": 4, "max_givens": 8})):
        many = generate(problem, 3, seed=3, **settings)
        seen = defaultdict(list)

        def list_all(slots, stepped, seen=seen):
            states = slots.batch.per_instance(stepped.values).numpy()
            for place, slot in enumerate(slots.members):
                for chain in range(slots.batch.chains):
                    seen[slot.index, chain].append(slot.instance.verify(states[chain, place, : slot.instance.size]))

        solver = make("blogdit", {}).solver(many[0], Budget(steps=6, chains=3), 1, finish="none")
        solver.session.watch = list_all
        list(solver.results(many))
        solver.session.watch = None
        runs = variants.best_of_chains(solver, many)
        assert len(seen) == 9
        for (index, chain), verdicts in seen.items():
            worths = [(v.objective or 0.0) - 100 * v.violated for v in [*verdicts, runs[index][chain].verdict]]
            assert worths[-1] == max(worths)


def test_chains_that_took_no_step_have_what_was_given():
    many = generate("maxcut", 2, seed=3, vertices=12)
    runs = make("blogdit", {}).solve_runs(many, Budget(seconds=0.0), seed=1, runs=3)
    assert [[list(result.values) for result in row] for row in runs] == [[list(one.given_values)] * 3 for one in many]


def test_models_are_named_by_system(tmp_path):
    path = str(variants.bundled_models()["sudoku"])
    models = named_models([f"dit={path}"])
    assert list(models) == [("dit", "sudoku")]
    dit = make("dit", models)
    assert isinstance(dit, Blogdit)
    assert dit.weights["sudoku"] == Path(path)
    assert dit.weights["mis"] == variants.VARIANT_WEIGHTS / "mis-dit.safetensors"
    assert not dit.supports(Instance(np.array([2])))
    rates = make("blogdit", {}, {"rho_max": 0.5, "rho_min": 0.1})
    assert rates.solver(generate("sudoku", 1, seed=0)[0], Budget(steps=1), 0).model.chain.schedule.rho_max == 0.5
    for wrong in ("dit", "greedy=x"):
        with pytest.raises(InputError, match="expected --model NAME=PATH"):
            named_models([wrong])
    with pytest.raises(InputError, match="unknown system 'nothing'; expected some of blogdit"):
        make("nothing", {})


def test_a_model_may_be_a_row_of_its_own():
    models = named_models([f"mine={variants.bundled_models()['mis']}"])
    assert models == named_models(["mine=mis"])
    mine = make("mine", models)
    assert isinstance(mine, Blogdit)
    assert variants.misfit(mine, generate("coloring", 1, seed=1)[0]) == "mine is a model for mis, not for coloring"
    assert list(mine.weights) == ["mis"]
    assert mine.searches
    assert not make("blogdit-last-step", {}).searches
    many = generate("mis", 1, seed=1)
    assert mine.provenance(many[0]).startswith("mis.safetensors ")
    assert mine.solve_many(many, Budget(steps=1))[0].verdict.satisfied


def test_a_family_without_a_model_has_the_one_that_stands_in_for_it():
    weights = variants.make("blogdit", {}).weights
    assert weights["qubo"] == weights["maxcut"]


BACKBONE = ("layers", "dim", "heads", "head_dim", "values", "relation")
# Sudoku's variants have the pair network, as its model had when they were trained.
EARLIER = {"sudoku": {"values": "axis", "layers": 8, "heads": 4, "head_dim": 16, "relation": "neighbours"}}
DIFFERENCES = {  # of the recipe that a variant was trained with
    "blogdit-brief": {},
    "blogdit-no-entropy": {"entropy": False},
    "dit": {"rho_max": 1.0, "rho_min": 1.0},
    "consformer": {"kernel": "gumbel", "hide_block": False},
}


@pytest.mark.parametrize("problem", ["sudoku", "coloring", "maxcut", "mis"])
@pytest.mark.parametrize("name", DIFFERENCES)
def test_variants_have_weights_and_differ_as_they_say(name, problem):
    """The same network for the same problem; of what an ablation may change, nothing else is changed."""
    model = load(variants.make(name, {}).weights[problem])
    preset, trained = recipe(problem, EARLIER.get(problem)).to_dict(), model.provenance["recipe"]
    assert {key: trained["denoiser"][key] for key in BACKBONE} == {key: preset["denoiser"][key] for key in BACKBONE}
    flat = [{**one["chain"]["schedule"], **one["chain"], **one["training"]} for one in (preset, trained)]
    names = ("entropy", "rho_max", "rho_min", "kernel", "hide_block", "batch_size", "learning_rate")
    assert {key: flat[1][key] for key in names} == {key: flat[0][key] for key in names} | DIFFERENCES[name]
