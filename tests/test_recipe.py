"""Recipes: every setting by one flat name, checked when it is given."""

from __future__ import annotations

import json
import re

import pytest

from blogdit.core.errors import InputError
from blogdit.method.blocks import Schedule
from blogdit.method.chain import ChainConfig
from blogdit.network.denoiser import DenoiserConfig
from blogdit.problems import families, generate
from blogdit.training.recipe import Recipe, TrainConfig, recipe


def test_every_ablation_is_one_setting_away():
    """What the tables need, from any preset."""
    for problem in families():
        plain = recipe(problem)
        assert recipe(problem, {"entropy": False}).training.entropy is False
        dit = recipe(problem, {"rho_max": 1.0, "rho_min": 1.0}).chain.schedule
        assert (dit.rho_max, dit.rho_min) == (1.0, 1.0)
        assert recipe(problem, {"selector": "all"}).training.selector == "all"
        assert plain.training.selector == "random", "no adaptive blocks in training"
        assert recipe(problem, {"validation_selector": "critical"}).training.validation_selector == "critical"
        assert recipe(problem, {"hide_block": False}).chain.hide_block is False
        sized = recipe(problem, {"values": "table", "max_values": 9}).denoiser
        assert (sized.values, sized.max_values) == ("table", 9)
        assert recipe(problem, {"unroll": 1, "horizon": 1}).training.unroll == 1, "the single-step estimator"
        assert recipe(problem, {"all_different": "counts"}).training.all_different == "counts"
        assert recipe(problem, {"shape": "linear"}).chain.schedule.shape == "linear"
        assert recipe(problem, {"prior_bias": [0.0, -1]}).chain.prior_bias == (0.0, -1.0)


def test_a_setting_changes_itself_and_nothing_else():
    """Compared with the preset of the same instances."""
    for problem in families():
        before = recipe(problem).to_dict()
        after = recipe(problem, {"sigma": 2.5}).to_dict()
        assert after["chain"].pop("sigma") == 2.5
        before["chain"].pop("sigma")
        assert after == before


def test_settings_of_the_generator_reach_the_instances():
    chosen = recipe("coloring", {"vertices": "20-30", "colors": 3})
    assert chosen.generator["vertices"] == "20-30"
    assert chosen.generator["colors"] == 3
    assert recipe("sudoku", {"box": 2}).generator["box"] == 2


def test_sudokus_of_other_sizes_have_presets_of_their_own():
    """`--set box=2` alone asks for puzzles that exist and a network that trains on a CPU; 16x16 ones exist too."""
    assert generate("sudoku", 1, **recipe("sudoku", {"box": 4}).generator)[0].size == 256
    small, large = recipe("sudoku", {"box": 2}), recipe("sudoku")
    assert (small.generator["min_givens"], small.generator["max_givens"]) == (4, 6)
    assert small.denoiser.dim < large.denoiser.dim
    assert recipe("sudoku", {"box": 2, "dim": 32, "max_givens": 5}).generator["max_givens"] == 5


def test_names_mean_one_thing():
    """No setting of a generator hides one of the network, the chain or the training, nor these each other."""
    parts = [
        set(part.__dataclass_fields__) - {"schedule"} for part in (DenoiserConfig, ChainConfig, Schedule, TrainConfig)
    ]
    names = [name for part in parts for name in part]
    assert len(names) == len(set(names))
    for chosen in families().values():
        assert not set(names) & set(chosen.settings)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"leyers": 3}, "unknown setting 'leyers'; known: .*layers"),
        ({"schedule": 1}, "unknown setting 'schedule'"),
        ({"layers": 2.5}, "layers must be of type int, got 2.5"),
        ({"layers": "many"}, "layers must be of type int, got 'many'"),
        ({"layers": True}, "layers must be of type int, got True"),
        ({"entropy": 1}, "entropy must be of type bool, got 1"),
        ({"entropy": "no"}, "entropy must be of type bool, got 'no'"),
        ({"sigma": "wide"}, "sigma must be of type float, got 'wide'"),
        ({"sigma": None}, "sigma must be of type float, got None"),
        ({"relation": 3}, "relation must be of type str, got 3"),
        ({"prior_bias": "a,b"}, "prior_bias must be numbers, got 'a,b'"),
        ({"prior_bias": None}, "prior_bias must be numbers, got None"),
        ({"sigma": -1}, "sigma must be positive"),
        ({"batch_size": 0}, "batch_size must be at least 1"),
        ({"learning_rate": 0}, "learning_rate must be positive"),
        ({"learning_rate": float("nan")}, "learning_rate must be positive"),
        ({"tau_floor": -0.1}, "tau_floor must not be negative"),
        ({"ema": 1.0}, r"ema must be in \[0, 1\)"),
        ({"unroll": 2, "horizon": 5}, "horizon must be a multiple of unroll"),
        ({"selector": "best"}, "selector must be one of"),
        ({"selector": "margin"}, "selector 'margin' draws blocks by the state.*expected all, random, related"),
        ({"selector": "critical"}, "selector 'critical' draws blocks by the state"),
        ({"values": "codes"}, "values must be axis, literals or table, got 'codes'"),
        ({"code_sets": 4}, "unknown setting 'code_sets'"),
        ({"precision": "float16"}, "precision must be one of auto, float32, bfloat16"),
        ({"compile": "maybe"}, "compile must be one of"),
        ({"all_different": "hinge"}, "all_different must be one of"),
        ({"rho_min": 0}, "rho_min must be in"),
        ({"values": "table"}, "max_values must be at least 1"),
    ],
)
def test_bad_settings_are_refused_by_name(settings, message):
    with pytest.raises(ValueError, match=message):
        recipe("coloring", settings)


def test_unknown_problems_are_refused():
    with pytest.raises(ValueError, match=re.escape("unknown problem 'chess'")):
        recipe("chess")


def test_whole_numbers_are_fine_where_fractions_are():
    assert recipe("mis", {"sigma": 3}).chain.sigma == 3.0
    assert isinstance(recipe("mis", {"sigma": 3}).chain.sigma, float)


def test_recipes_survive_json():
    """What a checkpoint stores is what trains when it is resumed."""
    for problem in families():
        chosen = recipe(problem, {"prior_bias": [1.0, 2.0], "rho_min": 0.25, "values": "table", "max_values": 5})
        assert Recipe.from_dict(json.loads(json.dumps(chosen.to_dict()))) == chosen


def test_settings_that_are_gone_are_one_clear_line():
    """A run saved by an older version may have settings that this one does not know, or no longer allows."""
    saved = recipe("sudoku").to_dict()
    older = {**saved, "training": {**saved["training"], "code_sets": 1024}}
    with pytest.raises(InputError, match=r"^has the setting 'code_sets', which this version of blogdit does not know$"):
        Recipe.from_dict(older)
    older = {**saved, "denoiser": {**saved["denoiser"], "values": "codes"}}
    with pytest.raises(InputError, match=r"^values must be axis, literals or table, got 'codes'$"):
        Recipe.from_dict(older)
