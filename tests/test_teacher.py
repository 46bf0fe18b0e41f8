"""Own answers: what is kept of them, when they are asked for, and that a run with them resumes exactly."""

from __future__ import annotations

import math

import pytest
import torch

import blogdit
from blogdit.core.result import Result
from blogdit.method.batch import collate
from blogdit.method.noise import GeneratorNoise
from blogdit.problems import generate, mis
from blogdit.training.answers import Answers, cost_of, load_answers, save_answers
from blogdit.training.recipe import recipe
from blogdit.training.shelf import by_structure
from blogdit.training.teacher import Teacher, best_states
from runs import assert_same_run, trainer

SQUARE = mis.build((4, [[0, 1], [1, 2], [2, 3], [3, 0]]))
CPU = torch.device("cpu")
TAUGHT = {
    "values": "literals",
    "own_answers": 0.9,
    "relaxed": 0.1,
    "teacher_start": 0.0,
    "teacher_every": 0.25,
    "teacher_steps": 6,
}


def test_the_best_answers_are_kept_each_once():
    answers = Answers([SQUARE], kept=2, device=CPU)
    assert not answers.answered.any()

    def offer(*values):
        return answers.add([0], [Result(SQUARE, torch.tensor(values).numpy())])

    assert offer(1, 1, 0, 0) == 0, "neighbours: no answer"
    assert offer(1, 0, 0, 0) == 1
    assert offer(1, 0, 0, 0) == 0, "known"
    assert offer(1, 0, 1, 0) == 1
    assert answers.costs.tolist() == [[-2, -1]]
    assert offer(0, 1, 0, 1) == 1, "as good as the best: the worst goes"
    assert answers.costs.tolist() == [[-2, -2]]
    assert sorted(answers.values[0].tolist()) == [[0, 1, 0, 1], [1, 0, 1, 0]]
    assert offer(0, 1, 0, 0) == 0, "worse than all"
    targets = answers.take(torch.tensor([0, 0]))
    assert targets.values.shape == (2, 2, 4)
    assert targets.known.all()


def test_costs_order_answers():
    assert cost_of(Result(SQUARE, torch.tensor([1, 0, 1, 0]).numpy())) == -2
    assert cost_of(Result(SQUARE, torch.tensor([1, 1, 0, 0]).numpy())) == math.inf
    puzzle = generate("sudoku", 1, seed=1, box=2)[0]
    assert cost_of(Result(puzzle, puzzle.given_values)) == math.inf


def test_rounds_follow_the_budget_and_the_paper_has_none():
    teacher = Teacher(recipe("sudoku", {"box": 2, **TAUGHT, "teacher_start": 0.2}), 0, CPU)
    assert [teacher.due(None, spent) for spent in (0.1, 0.2)] == [False, True]
    assert [teacher.due(0.5, spent) for spent in (0.7, 0.75)] == [False, True], "from the end of the last round"
    assert not Teacher(recipe("sudoku", {"box": 2, "own_answers": 0.0}), 0, CPU).due(None, 1.0)


def test_who_is_asked():
    """Where one answer is enough, those that have none; where answers can get better, everybody."""
    puzzles = generate("sudoku", 4, seed=2, box=2)
    teacher = Teacher(recipe("sudoku", {"box": 2, **TAUGHT}), 0, CPU)
    answers = Answers(puzzles, 1, CPU)
    answers.costs[1] = 0
    assert teacher.wanted(puzzles, answers).tolist() == [0, 2, 3]
    graphs = [SQUARE] * 3
    assert teacher.wanted(graphs, Answers(graphs, 1, CPU)).tolist() == [0, 1, 2]


def test_a_round_keeps_only_what_the_exact_check_accepts():
    run = trainer(updates=4, **TAUGHT)
    record = run._ask()
    assert record["teacher_asked"] == len(run.data.training)
    (shelf,) = run.shelves
    known = shelf.answers.answered.nonzero().flatten().tolist()
    assert len(known) == record["teacher_answered"] > 0
    for place in known:
        assert shelf.instances[place].verify(shelf.answers.values[place, 0].numpy()).satisfied


def test_a_taught_run_resumes_exactly(tmp_path):
    whole, first = trainer(updates=8, **TAUGHT), trainer(updates=8, **TAUGHT)
    for _ in whole.run(tmp_path / "whole"):
        pass
    for record in first.run(tmp_path / "parts", save_every=0.0):
        if record["update"] == 5:
            break
    second = trainer(updates=8, **TAUGHT)
    second.load(tmp_path / "parts")
    for _ in second.run(tmp_path / "parts"):
        pass
    assert_same_run(whole, second)
    assert whole.progress.rounds == second.progress.rounds > 1
    assert torch.equal(whole.shelves[0].answers.values, second.shelves[0].answers.values)


def test_answers_go_to_disk_and_back(tmp_path):
    answers, other = Answers([SQUARE], 2, CPU), Answers([SQUARE], 2, CPU)
    answers.add([0], [Result(SQUARE, torch.tensor([1, 0, 1, 0]).numpy())])
    save_answers(tmp_path, [answers])
    load_answers(tmp_path, [other])
    assert torch.equal(answers.values, other.values)
    assert torch.equal(answers.costs, other.costs)


def test_sizes_have_shelves_of_their_own_and_graphs_share_one():
    puzzles = [*generate("sudoku", 2, seed=1, box=2), *generate("sudoku", 2, seed=1, box=3)]
    assert [[one.size for one in group] for group in by_structure(puzzles)] == [[16, 16], [81, 81]]
    assert len(by_structure(generate("coloring", 3, seed=1))) == 1
    graphs = [generate("coloring", 1, seed=1, vertices=n, colors=4)[0] for n in (20, 30, 100)]
    assert [[one.size for one in group] for group in by_structure(graphs, by_size=True)] == [[20, 30], [100]]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"teacher_finish": "exact"}, "teacher_finish must be one of none, annealing"),
        ({"show_answer": 1.5}, "show_answer must be in"),
        ({"answers_kept": 0}, "answers_kept must be at least 1"),
        ({"teacher_every": 0.0}, "teacher_every must be positive"),
    ],
)
def test_bad_settings_of_the_teacher(settings, message):
    with pytest.raises(ValueError, match=message):
        recipe("sudoku", settings)


def test_solved_instances_leave_and_the_best_state_is_kept():
    """Two chains on Latin squares of order 4: every answer that the sampler finds is among the best states."""
    squares = generate("latin", 12, seed=3, order=4, holes=0.4)
    model = blogdit.load("latin")
    noise = GeneratorNoise(torch.Generator().manual_seed(0))
    batch = collate(squares).with_chains(2)
    states = best_states(model.denoiser.eval(), batch, model.chain, 40, noise).numpy()
    assert sum(one.verify(state).satisfied for one, state in zip(squares, states, strict=True)) >= 11
    assert all(
        (state[one.is_given] == one.given_values[one.is_given]).all()
        for one, state in zip(squares, states, strict=True)
    )


def test_a_valid_state_is_better_than_a_cheap_one():
    """One heavy item that is worth much and does not fit beside the others."""
    bag = blogdit.Problem("bag")
    items = [bag.variable(name, (0, 1)) for name in "abc"]
    bag.sum([(weight, item) for weight, item in zip((5, 3, 2), items, strict=True)], high=5)
    bag.maximize([(worth, item) for worth, item in zip((4, 3, 3), items, strict=True)])
    instance = bag.instance()
    model = blogdit.load("general")
    noise = GeneratorNoise(torch.Generator().manual_seed(0))
    (state,) = best_states(model.denoiser.eval(), collate([instance]).with_chains(4), model.chain, 20, noise).numpy()
    assert instance.verify(state).objective == 6


def test_graphs_that_are_all_solved_end_a_round():
    graphs = [generate("coloring", 1, seed=seed, vertices=6, colors=5, p_min=0.1, p_max=0.3)[0] for seed in range(3)]
    model = blogdit.load("coloring")
    noise = GeneratorNoise(torch.Generator().manual_seed(0))
    states = best_states(model.denoiser.eval(), collate(graphs), model.chain, 200, noise).numpy()
    assert all(one.verify(state[: one.size]).satisfied for one, state in zip(graphs, states, strict=True))
