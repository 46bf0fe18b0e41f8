"""Without an objective: when a tree search and a repair are tried, in what time, and what they leave to each other."""

from __future__ import annotations

import math
import sys
import time

import numpy as np
import pytest
import torch

from blogdit.core.constraints import AllDifferent, NotEqual
from blogdit.core.instance import Instance
from blogdit.finishers.backtracking import Backtracking
from blogdit.problems import coloring, generate
from blogdit.solver import ending as module
from blogdit.solver.options import SolveOptions, Step
from blogdit.solver.slots import Job
from blogdit.solver.solver import Solver
from helpers import TRIANGLE, random_model


@pytest.fixture
def model():
    return random_model()


def test_what_chains_leave_violated_is_repaired(model, no_tree):
    """Graphs with a hidden colouring and a network that knows nothing: the search finds colourings, and what the chains
    had is told. Without it nothing is told."""
    graphs = generate("coloring", 3, seed=1, vertices=40, colors=4, p_min=0.15, p_max=0.15, planted=True)
    repaired = [result for _, result in sorted(Solver(model, SolveOptions(steps=2)).results(graphs))]
    plain = [result for _, result in sorted(Solver(model, SolveOptions(steps=2, polish=False)).results(graphs))]
    assert [result.status for result in repaired] == ["solved"] * 3
    assert [result.raw_violations for result in repaired] == [result.verdict.violated for result in plain]
    assert all(result.verdict.violated > 0 and result.raw_violations is None for result in plain)
    assert [result.steps for result in repaired] == [2, 2, 2]


@pytest.mark.parametrize("options", [{"steps": 0}, {"time_limit": 0.0}])
def test_without_pairs_there_is_nothing_to_repair(model, options):
    graphs = [coloring.build((3, np.zeros((0, 2), np.int64)), 2), Instance([], (NotEqual([]),))]
    found = dict(Solver(model, SolveOptions(**options)).results(graphs))
    assert [found[place].status for place in range(2)] == ["solved", "solved"]


def test_a_repair_begins_at_a_good_state(model, no_tree):
    """Two colours for a long path: more than moves from random states find in that time."""
    path = coloring.build((2000, [[i, i + 1] for i in range(1999)]), 2)
    ((_, result),) = Solver(model, SolveOptions(steps=1)).results([path])
    assert result.status == "solved"
    assert result.raw_violations > 0


def test_a_repair_never_makes_an_answer_worse(model, monkeypatch, no_tree):
    (graph,) = generate("coloring", 1, seed=1, vertices=40, colors=4, p_min=0.15, p_max=0.15)
    monkeypatch.setattr(module, "repair", lambda *arguments: torch.zeros(1, 64, dtype=torch.long))  # all of one colour
    (result,) = (result for _, result in Solver(model, SolveOptions(steps=5)).results([graph]))
    assert result.verdict.violated == result.raw_violations < len(graph.constraints[0])


def test_a_repair_has_the_second_half_of_the_time(model, monkeypatch, no_tree):
    """Without constraints there is nothing to search for, and sampling goes on to the end."""
    (graph,) = generate("coloring", 1, seed=1, vertices=100, colors=3, p_min=0.3, p_max=0.3)  # has no colouring
    nothing = Instance(np.array([3, 3]))
    solver = Solver(model, SolveOptions(time_limit=8.0, schedule="budget"))
    assert solver._spent(Job(0, graph, entered=0.0, limit=8.0), 2.0) == pytest.approx(0.5)
    assert solver._spent(Job(0, nothing, entered=0.0, limit=8.0), 2.0) == pytest.approx(0.25)
    asked: list[tuple[float, bool]] = []

    def record_time(instances, starts, width, deadline, stopped, all_the_time):
        asked.append((deadline, all_the_time))
        return starts[0]

    monkeypatch.setattr(module, "repair", record_time)
    for options in (SolveOptions(time_limit=8.0), SolveOptions(time_limit=8.0, steps=3), SolveOptions(steps=3)):
        solver = Solver(model, options)
        crew = solver._enter([Job(0, graph, limit=options.time_limit or np.inf)])
        crew.jobs[0].steps = options.steps or 0  # all that were asked for
        list(solver._finish(crew, [0], done=True))
        end = crew.jobs[0].entered + (options.time_limit or np.inf)
        assert asked.pop() == (end, options.steps is None)


def test_a_repair_is_tried_early(clock, monkeypatch):
    """After a quarter of a second (or a sixteenth of the time for sampling, if that is sooner), then after four times
    that, and so on, each time for as long as the instance has been there; what it finds ends the instance. Not if steps
    are counted, and not without polish."""
    (graph,) = generate("coloring", 1, seed=1, vertices=40, colors=4, p_min=0.15, p_max=0.15, planted=True)
    clock.tick, asked = 0.125, []

    def in_vain(instances, starts, width, deadline, stopped, all_the_time):
        asked.append((round(clock.now - 100, 2), round(deadline - 100, 2)))
        clock.now = deadline
        return starts[0]

    with monkeypatch.context() as patch:
        patch.setattr(module, "repair", in_vain)
        patch.setattr(module, "fill", lambda instance, start, *others: (start, True))
        ((_, result),) = clock.solver(time_limit=16.0).results([graph])
        assert asked == [(0.25, 0.5), (1.0, 2.0), (4.0, 8.0), (8.0, 16.0)]
        assert result.status == "infeasible"
        list(clock.solver(time_limit=16.0, polish=False).results([graph]))
        assert len(asked) == 4
        list(clock.solver(time_limit=16.0, steps=60).results([graph]))
        assert len(asked) == 5
    ((_, result),) = clock.solver(time_limit=16.0).results([graph])
    assert result.status == "solved"
    assert result.steps == 2
    assert result.raw_violations > 0


def test_if_time_ends_the_steps_a_repair_has_the_rest(clock, monkeypatch):
    (graph,) = generate("coloring", 1, seed=1, vertices=100, colors=3, p_min=0.3, p_max=0.3)  # has no colouring
    asked = []
    monkeypatch.setattr(module, "repair", lambda *arguments: asked.append(arguments[3:]) or arguments[1][0])
    list(clock.solver(time_limit=8.0, steps=10**6).results([graph]))
    ((deadline, _, all_the_time),) = asked
    assert deadline == pytest.approx(108.0)
    assert all_the_time


def test_who_cannot_be_solved_does_not_keep_others_out(clock):
    """One place is taken by a triangle of two colours; all others get their turn in the total time."""
    easy = generate("coloring", 30, seed=1, vertices=3, colors=2, p_min=0.0, p_max=0.0)
    found = dict(clock.solver(total_time=6.0, batch_size=2).results([TRIANGLE, *easy]))
    assert len(found) == 31
    assert sum(result.status == "solved" for result in found.values()) == 30


def test_who_is_solved_does_not_wait_for_a_search(clock, monkeypatch):
    """Two graphs in one batch: one is coloured by any assignment, the other is searched for the rest of the time."""
    free = generate("coloring", 1, seed=1, vertices=3, colors=2, p_min=0.0, p_max=0.0)[0]

    def slow(instances, starts, *others):
        clock.now += 5
        return starts[0]

    monkeypatch.setattr(module, "repair", slow)
    results = clock.solver(time_limit=8.0, batch_size=2).results([TRIANGLE, free])
    index, result = next(results)
    assert (index, result.status) == (1, "solved")
    assert result.seconds == pytest.approx(0.1)


def test_repairs_and_walks_of_one_batch_share_the_time(model, monkeypatch, no_tree):
    (cut,) = generate("maxcut", 1, seed=0, vertices=3)
    solver, ends = Solver(model, SolveOptions(time_limit=8.0)), {}

    def noted(name):
        return lambda instances, starts, width, end, *others: ends.setdefault(name, end) and starts[0]

    for name in ("repair", "search"):
        monkeypatch.setattr(module, name, noted(name))
    crew = solver._enter([Job(0, TRIANGLE), Job(1, cut)])
    now = time.monotonic()
    module.Ending(crew, solver.options, "", now + 100).search([0, 1])
    assert ends["repair"] - now == pytest.approx(50, abs=1)
    assert ends["search"] > ends["repair"]


def test_a_step_that_would_take_too_long_is_not_taken(clock):
    """Of a graph whose terms a slow core samples in a sixteenth of five seconds, there is time for steps; of a larger
    one, or of many chains, there is not, and the repair has all of it. If steps are asked for, by their number or to
    look at them, they are taken."""
    sizes = (100, 500)
    small, large = (generate("coloring", 1, seed=1, vertices=n, colors=8, p_min=0.2, p_max=0.2)[0] for n in sizes)
    assert Job(0, small).terms == 8 * (len(small.constraints[0]) + 6 * 100) < 350_000 * 5 / 16 < Job(0, large).terms
    ((_, result),) = clock.solver(time_limit=5.0).results([small])
    assert result.steps > 0
    for solver, one in ((clock.solver(time_limit=5.0), large), (clock.solver(time_limit=5.0, chains=64), small)):
        ((_, result),) = solver.results([one])
        assert result.steps == 0
        assert result.verdict.violated < result.raw_violations
    ((_, result),) = clock.solver(time_limit=5.0, steps=1).results([large])
    assert result.steps == 1
    looked_at = clock.solver(time_limit=5.0)
    looked_at.trace = True
    assert isinstance(next(looked_at.events([large])), Step)


@pytest.mark.parametrize(("limit", "seconds"), [(20.0, 0.25), (0.4, 40 * 360 / 350_000), (0.1, 0.025)])
def test_trees_come_first_in_the_time_of_the_step_that_they_may_save(clock, monkeypatch, limit, seconds):
    """A quarter of a second where there is much time, and half of the time for sampling where there is little."""
    puzzles = generate("sudoku", 40, seed=1, box=2, min_givens=4, max_givens=6)
    monkeypatch.setattr(Job, "terms", 360)
    given = []

    def search(ending, places, trees_alone=False):
        if trees_alone:
            given.append((len(places), ending.deadline - clock.now))
        return {}

    monkeypatch.setattr(module.Ending, "search", search)
    assert len(list(clock.solver(time_limit=limit, batch_size=40).results(puzzles))) == 40
    assert given == [(40, pytest.approx(seconds))]


def test_a_tree_search_comes_before_the_repair(model, monkeypatch):
    """It decides what is small; the repair has what it leaves."""
    hard = generate("coloring", 1, seed=1, vertices=90, colors=5, relative=False, p_min=0.15, p_max=0.15)[0]
    monkeypatch.setattr(module, "TREE_STEPS", 10)
    monkeypatch.setattr(module, "HOPE", 0)
    left = []
    monkeypatch.setattr(module, "repair", lambda instances, starts, *others: left.append(instances) or starts[0])
    for budget in ({"steps": 2}, {"time_limit": 3.0}):
        left.clear()
        found = dict(Solver(model, SolveOptions(**budget)).results([TRIANGLE, hard]))
        assert found[0].exhausted
        assert not found[1].exhausted
        assert {one.name for instances in left for one in instances} == {hard.name}


def test_a_tree_search_goes_on_if_it_may_end_in_time(model, monkeypatch):
    """Where time counts, by what is known after its first steps; where steps count, those are all."""
    (graph,) = generate("coloring", 1, seed=1, vertices=90, colors=5, relative=False, p_min=0.15, p_max=0.15)
    tree = Backtracking(graph)
    tree.run(1 << 40)
    assert tree.exhausted
    assert tree.steps > 2 * module.TREE_STEPS > 2 * module.FIRST_STEPS
    monkeypatch.setattr(module, "repair", lambda instances, starts, *others: starts[0])
    solver = Solver(model, SolveOptions(steps=1))
    for deadline, hope, exhausted, steps in (
        (math.inf, 32, False, module.TREE_STEPS),  # steps count
        (100.0, 0, False, module.FIRST_STEPS),
        (100.0, 32, True, tree.steps),
    ):
        monkeypatch.setattr(module, "HOPE", hope)
        crew = solver._enter([Job(0, graph)])
        module.Ending(crew, solver.options, "", time.monotonic() + deadline).search([0])
        assert (crew.jobs[0].exhausted, crew.jobs[0].tree.steps) == (exhausted, steps)
        # A tree without hope is left alone at the next try.
        module.Ending(crew, solver.options, "", time.monotonic() + deadline).search([0])
        assert crew.jobs[0].tree.steps == steps


class Forest:
    """Graphs whose trees take all the time they get: what is foreseen of each is told, and what each gets is kept."""

    now = 100.0

    def __init__(self, model, left, vertices=90):
        self.left, self.first, self.went_on, self.decided = dict(enumerate(left)), [], [], set()
        graphs = [coloring.build((vertices, [[0, 1]]), 2) for _ in left]
        self.place = {id(graph): place for place, graph in enumerate(graphs)}
        self.solver = Solver(model, SolveOptions(steps=1))
        self.crew = self.solver._enter([Job(place, graph) for place, graph in enumerate(graphs)])

    def run(self, tree, most, stopped):
        place, began = self.place[id(tree.instance)], self.now
        tree.exhausted, tree.steps = place in self.decided, max(tree.steps, most)
        if most < sys.maxsize:
            self.first.append((place, most))
            return
        while not stopped():
            self.now += 0.25
        self.went_on.append((place, self.now - began))
        self.left[place] += 5.0

    def search(self, places, seconds, stopped=lambda: False):
        self.first, self.went_on = [], []
        return module.Ending(self.crew, self.solver.options, "", self.now + seconds, stopped)._backtrack(places, True)


@pytest.fixture
def forest(model, monkeypatch):
    def plant(*left, vertices=90):
        grown = Forest(model, left, vertices)
        monkeypatch.setattr(time, "monotonic", lambda: grown.now)
        monkeypatch.setattr(Backtracking, "run", lambda tree, most, stopped: grown.run(tree, most, stopped))
        monkeypatch.setattr(Backtracking, "seconds_left", lambda tree: grown.left[grown.place[id(tree.instance)]])
        return grown

    return plant


def test_whoever_is_done_soonest_goes_on_first(forest):
    """Who is not done in twice the time that was foreseen waits again; half of the time is for the repair."""
    trees = forest(3.0, 1.0, 2.0, 0.0)
    trees.search(range(4), 40.0)
    assert trees.went_on == [(3, 0.25), (1, 2.0), (2, 4.0), (0, 6.0), (3, 20.0 - 12.25)]
    assert trees.first == [(place, module.FIRST_STEPS) for place in range(4)]


def test_trees_end_when_they_are_told_to(forest):
    trees = forest(1.0, 2.0, 3.0)
    trees.search(range(3), 40.0, lambda: trees.now >= 101.0)
    assert trees.went_on == [(0, 1.0)]


def test_large_instances_take_more_first_steps(forest):
    trees = forest(1.0, vertices=300)
    trees.search([0], 4.0)
    assert trees.first == [(0, 600)]


def test_hope_does_not_depend_on_the_place(forest):
    """20 s are 5 for each of four: what takes no more than 32 times that may go on."""
    trees = forest(*[module.HOPE * 5.0] * 4)
    trees.search(range(4), 40.0)
    assert trees.went_on == [(0, 20.0)]
    for place in range(4):
        trees.left[place] = module.HOPE * 5.0 + 0.1
    trees.search(range(4), 40.0)
    assert not trees.went_on


def test_after_many_trees_without_hope_no_others_of_the_batch_begin(forest, monkeypatch):
    """Graphs of a batch are alike. What a tree decides, or a tree with hope, begins the count anew."""
    monkeypatch.setattr(module, "IN_A_ROW", 3)
    for third in ("decided", "hopeful"):
        trees = forest(1e9, 1e9, 1.0, 1e9, 1e9, 1e9, 1e9, 1e9)
        trees.decided = {2} if third == "decided" else set()
        for _ in range(2):
            trees.search(range(8), 40.0)
            assert [job.tree is not None for job in trees.crew.jobs] == [True] * 6 + [False] * 2


def test_a_tree_that_has_begun_goes_on_after_others_have_left(forest, monkeypatch):
    """Three without hope stand in a row once the one between them is decided; who comes after them has hope still."""
    monkeypatch.setattr(module, "IN_A_ROW", 3)
    trees = forest(1e9, 1e9, 1.0, 1e9, 2.0)
    trees.decided = {2}
    assert list(trees.search(range(5), 4.0)) == [2]
    trees.search([0, 1, 3, 4], 40.0)
    assert trees.went_on == [(4, 14.0), (4, 6.0)]


@pytest.mark.parametrize("instance", [TRIANGLE, Instance([3] * 3, (AllDifferent([[0, 1, 2]]),))])
def test_on_a_cpu_a_tree_search_comes_before_the_first_step(model, instance):
    """Unless steps are counted or looked at, or there shall be no search."""
    ((_, result),) = Solver(model, SolveOptions(time_limit=20.0)).results([instance])
    assert result.steps == 0
    assert result.exhausted == (instance is TRIANGLE)
    for options in (SolveOptions(time_limit=20.0, steps=2), SolveOptions(time_limit=0.1, polish=False)):
        ((_, result),) = Solver(model, options).results([instance])
        assert result.steps > 0
    looked_at = Solver(model, SolveOptions(time_limit=20.0))
    looked_at.trace = True
    assert isinstance(next(looked_at.events([instance])), Step)


def test_who_is_not_decided_at_once_goes_on_as_others_do(model, monkeypatch):
    """A hard graph is looked at once, by the tree alone; then it has steps and the repair."""
    (hard,) = generate("coloring", 1, seed=1, vertices=150, colors=5, relative=False, p_min=0.11, p_max=0.11)
    asked = []
    search = module.Ending.search

    def noted(ending, places, trees_alone=False):
        asked.extend((trees_alone, ending.crew.jobs[place].steps > 0) for place in places)
        return search(ending, places, trees_alone)

    monkeypatch.setattr(module.Ending, "search", noted)
    ((_, result),) = Solver(model, SolveOptions(time_limit=1.0)).results([hard])
    assert result.steps > 0
    assert asked[0] == (True, False)
    assert asked[1:]
    assert set(asked[1:]) == {(False, True)}
