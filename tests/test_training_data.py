"""What trains and what chooses: given, generated, or set aside; never the same."""

from __future__ import annotations

import json

import numpy as np
import pytest

import blogdit
from blogdit import api
from blogdit.cli.app import run
from blogdit.core.constraints import AllDifferent, Linear
from blogdit.core.errors import InputError
from blogdit.core.instance import Instance, Objective
from blogdit.formats import write
from blogdit.problems import generate
from blogdit.training import data as training_data
from blogdit.training.data import data_for, generated_data
from blogdit.training.recipe import recipe
from runs import TINY, log_of

SMALL = {name: TINY[name] for name in ("dim", "heads", "layers", "batch_size", "validation_steps")}


def row(seed: int, size: int = 4) -> Instance:
    """Different values in a row, some of them given; of a problem that the package does not know."""
    values = np.random.default_rng(seed).permutation(size)
    everyone = (AllDifferent([range(size)]), Linear([[0, 1]], [[1, 1]], ["<="], [int(values[0] + values[1])]))
    goal = Objective("maximize", unary=[[0, value] for value in range(size)], unary_weights=[0.0, 1.0, 2.0, 3.0][:size])
    return Instance([size] * size, everyone, goal, {2: int(values[2])}, problem="row", name=f"row-{seed}")


def silent(line):
    raise AssertionError(line)


def test_validation_puzzles_never_train():
    """There are few 4x4 puzzles, and both seeds make some of them; those are left out of training."""
    chosen = recipe("sudoku", {**TINY, "pool": 3000, "validation": 200})
    data = generated_data(chosen, seed=0)
    puzzles = [{tuple(sorted(i.givens.items())) for i in part} for part in (data.training, data.validation)]
    assert not puzzles[0] & puzzles[1]
    assert len(data.validation) == 200
    assert 2500 < len(data.training) < 3000
    with pytest.raises(ValueError, match="every training instance is also a validation instance"):
        generated_data(
            recipe(
                "coloring",
                {"vertices": 2, "colors": 3, "relative": False, "p_min": 1.0, "p_max": 1.0, "pool": 3, "validation": 2},
            ),
            0,
        )


def test_one_in_ten_of_a_problem_without_a_generator_chooses():
    rows = [replace_name(row(1), size) for size in range(35)]
    data = data_for(recipe("row", own=True), 0, rows, [], silent)
    assert [one.name for one in data.validation] == ["row-0", "row-10", "row-20", "row-30"]
    assert len(data.training) == 31
    assert data.sources == {"training": "instances", "validation": "one in 10 of instances"}
    few = data_for(recipe("row", {"validation": 2}, own=True), 0, rows, [], silent)
    assert (len(few.validation), len(few.training)) == (2, 33)


def replace_name(instance: Instance, number: int) -> Instance:
    """Another instance: its objective is worth more."""
    weights = instance.objective.unary_weights + number
    goal = Objective("maximize", unary=instance.objective.unary, unary_weights=weights)
    return Instance(instance.domain_sizes, instance.constraints, goal, instance.givens, "row", f"row-{number}")


def test_what_is_given_takes_the_place_of_what_is_generated(tmp_path):
    chosen = recipe("sudoku", TINY)
    boards = generate("sudoku", 6, seed=3, box=2, min_givens=4, max_givens=6)
    write(boards[:4], tmp_path / "four.jsonl")
    data = data_for(chosen, 0, [tmp_path / "four.jsonl"], boards[4:], silent)
    assert [len(data.training), len(data.validation)] == [4, 2]
    assert data.sources == {"training": "four.jsonl", "validation": "instances"}
    data = data_for(chosen, 0, [tmp_path / "four.jsonl"], [], silent)
    assert [len(data.training), len(data.validation)] == [4, TINY["validation"]]
    assert data.sources == {"training": "four.jsonl", "validation": "generated"}


def test_instances_are_known_again_wherever_they_come_from(tmp_path):
    """From JSON, in memory of another order, with values for all pairs or for each."""
    graphs = generate("mis", 3, seed=5)
    write(graphs, tmp_path / "graphs.jsonl")
    with pytest.raises(InputError, match="every training instance is also a validation instance"):
        data_for(recipe("mis"), 0, graphs, [tmp_path / "graphs.jsonl"], silent)
    one = Instance([2, 3], (Linear([[0, 1], [1, 0]], [[1, 1]] * 2, ["<=", "<="], [2, 2]),), givens={0: 1, 1: 2})
    same = Instance(np.array([2, 3], order="F"), one.constraints, givens={np.int64(1): 2, 0: np.int64(1)})
    other = Instance([2, 3], (Linear([[0, 1], [1, 0]], [[1, 1]] * 2, ["<=", "="], [2, 2]),), givens=one.givens)
    keys = [training_data._content(instance) for instance in (one, same, other)]
    assert keys[0] == keys[1] != keys[2]


def test_what_chooses_does_not_train_even_if_it_is_given_twice():
    rows = [replace_name(row(1), size) for size in range(6)]
    data = data_for(recipe("row", own=True), 0, rows, rows[4:], silent)
    assert [one.name for one in data.training] == ["row-0", "row-1", "row-2", "row-3"]
    few = data_for(recipe("row", {"validation": 1}, own=True), 0, rows, rows[4:], silent)
    assert [one.name for one in few.training] == ["row-0", "row-1", "row-2", "row-3"]
    assert [one.name for one in few.validation] == ["row-4"]
    with pytest.raises(InputError, match="every training instance is also a validation instance"):
        data_for(recipe("row", {"validation": 1}, own=True), 0, rows, rows, silent)


def test_mistakes_in_what_is_given(tmp_path, capsys):
    chosen = recipe("row", own=True)
    with pytest.raises(InputError, match="one instance cannot both train and choose; expected more"):
        data_for(chosen, 0, [row(0)], [], silent)
    with pytest.raises(InputError, match="expected instances of row, got sudoku-0 of sudoku"):
        data_for(chosen, 0, [row(0), *generate("sudoku", 1, box=2, min_givens=4, max_givens=6)], [], silent)
    write([row(0), row(1)], tmp_path / "rows.jsonl")
    with pytest.raises(InputError, match=r"rows.jsonl: expected instances of column, got row-0 of row"):
        data_for(recipe("column", own=True), 0, [tmp_path / "rows.jsonl"], [], silent)
    (tmp_path / "g.col").write_text("p edge 2 1\ne 1 2\n")
    with pytest.raises(InputError, match=r"g.col: expected instances of row, got g of coloring"):
        data_for(chosen, 0, [tmp_path / "g.col"], [], silent)
    with pytest.raises(InputError, match=r"g.col: coloring needs the number of colours; expected --set colors=K"):
        data_for(recipe("coloring"), 0, [tmp_path / "g.col"], [], silent)
    with pytest.raises(InputError, match="nothing has no variables; nothing can be learnt from it"):
        data_for(chosen, 0, [row(0), Instance([], problem="row", name="nothing")], [], silent)
    out = tmp_path / "run"
    assert run(["train", "chess", "--updates", "1", "--out", str(out)]) == 2
    expected = "unknown problem 'chess'; known: coloring, maxcut, mis, qubo, sudoku; one of your own needs --data"
    assert capsys.readouterr().err == f"blogdit: {expected}\n"
    assert run(["train", "chess", "--data", str(tmp_path / "no.jsonl"), "--updates", "1", "--out", str(out)]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
    assert not out.exists()


def test_a_problem_of_ones_own_is_trained_resumed_and_solved(tmp_path):
    """From a file on the command line, and from instances in Python."""
    write([row(seed) for seed in range(12)], tmp_path / "rows.jsonl")
    write([row(99)], tmp_path / "new.json")
    settings = [f"--set={name}={value}" for name, value in SMALL.items()]
    out = tmp_path / "run"
    command = ["train", "row", "--data", str(tmp_path / "rows.jsonl"), "--updates", "4", "--out", str(out)]
    assert run([*command, *settings, "--pause-after", "1e-9"]) == 0
    assert len(log_of(out)) == 1
    assert run([*command, "--resume"]) == 0
    assert len(log_of(out)) == 4
    best = str(out / "best.safetensors")
    answer = tmp_path / "answer.jsonl"
    assert run(["solve", str(tmp_path / "new.json"), "--model", best, "--steps", "5", "--out", str(answer)]) == 0
    assert json.loads(answer.read_text())["problem"] == "row"
    rows, told = [row(seed) for seed in range(12)], list[str]()
    model = api.train("row", tmp_path / "python", updates=2, settings=SMALL, data=rows, tell=told.append)
    assert told == [f"scoring on 2 instances, {SMALL['validation_steps']} steps each"]
    assert model.problem == "row"
    assert model.provenance["data"] == {"training": "instances", "validation": "one in 10 of instances"}
    (result,) = blogdit.solve(row(99), model=model, steps=5)
    assert result.verdict.satisfied


def test_a_resumed_run_needs_the_same_instances(tmp_path):
    rows = [replace_name(row(1), size) for size in range(20)]
    api.train("row", tmp_path, updates=2, settings=SMALL, data=rows, pause_after=1e-9)
    with pytest.raises(InputError, match="was saved with other training instances; expected the same --data"):
        api.train("row", tmp_path, updates=2, data=rows[:10], resume=True)
    with pytest.raises(InputError, match="was saved with other training instances; expected the same --data"):
        api.train("row", tmp_path, updates=2, data=rows[::-1], resume=True)
