"""What would not fit the memory is refused in one line with the number, before anything is allocated."""

from __future__ import annotations

import json
import resource

import pytest

import blogdit
from blogdit.cli.app import run
from blogdit.core.constraints import NotEqual, Sum
from blogdit.core.instance import Instance
from blogdit.network.checkpoint import save_model
from blogdit.network.config import DenoiserConfig
from blogdit.problems import maxcut
from blogdit.solver import memory
from blogdit.solver.options import SolveOptions
from blogdit.solver.slots import Slot
from blogdit.solver.solver import Solver
from helpers import random_model

GIB = 1 << 30


def peak() -> int:
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def test_two_variables_with_millions_of_values(tmp_path, capsys):
    path = tmp_path / "big.json"
    path.write_text(json.dumps({"format": "blogdit-csp", "version": 1, "domain_sizes": [1 << 22, 1 << 22]}))
    before = peak()
    assert run(["solve", str(path), "--model", "coloring", "--time-limit", "1"]) == 2
    assert "model 'coloring' does not fit big: one chain needs about 8" in capsys.readouterr().err
    assert peak() - before < GIB


def test_a_billion_chains(tmp_path, capsys):
    """Asked for by an option, by a model file, or from Python."""
    path, model = tmp_path / "cut.json", tmp_path / "greedy.safetensors"
    blogdit.write(maxcut.build((3, [[0, 1], [1, 2]]), name="cut"), path)
    greedy = random_model()
    greedy.solving = {"chains": 10**9}
    save_model(model, greedy)
    before = peak()
    for options in (["--chains", "1000000000"], ["--model", str(model)]):
        assert run(["solve", str(path), "--steps", "3", *options]) == 2
        err = capsys.readouterr().err
        assert err.startswith("blogdit: 1,000,000,000 chains of cut need about ")
        assert err.count("\n") == 1
    with pytest.raises(blogdit.InputError, match="1,000,000,000 chains of cut need about"):
        blogdit.sample(maxcut.build((3, [[0, 1]]), name="cut"), 10**9, model=random_model())
    assert peak() - before < GIB


def test_the_estimate_grows_with_what_a_step_needs():
    config = random_model().denoiser.config
    small, more_values, more_variables = (Instance([k] * n) for n, k in ((64, 2), (64, 20), (640, 2)))
    assert memory.bytes_of_chain(more_values, config) == 10 * memory.bytes_of_chain(small, config)
    assert memory.bytes_of_chain(more_variables, config) == 10 * memory.bytes_of_chain(small, config)


def test_a_container_has_its_own_limit(tmp_path, monkeypatch):
    whole = memory.free_bytes()
    assert whole is not None
    monkeypatch.setattr(memory, "CONTAINER", tmp_path)
    (tmp_path / "memory.max").write_text("3000000\n")
    (tmp_path / "memory.current").write_text("1000000\n")
    assert memory.free_bytes() == 2_000_000
    (tmp_path / "memory.max").write_text("max\n")
    assert memory.free_bytes() > 2_000_000


LITERALS = DenoiserConfig(values="literals", sees="every", dim=16, layers=1)


def test_a_network_of_literals_counts_their_lists():
    """A sum over all variables has a literal for each of their values; a pair of literals stands in two lists."""
    sizes, each = [3] * 1_000, memory.BYTES_OF_MEMBERSHIP
    alone = memory.bytes_of_chain(Instance(sizes), LITERALS)
    with_sum = memory.bytes_of_chain(Instance(sizes, [Sum([list(range(1_000))], low=[500])]), LITERALS)
    with_pairs = memory.bytes_of_chain(Instance(sizes, [NotEqual([[0, 1], [1, 2]])]), LITERALS)
    assert 0 <= with_sum - alone - 3_000 * each < 3_000
    assert with_pairs - alone == 2 * 2 * 3 * each


def test_a_batch_that_does_not_fit_is_split(monkeypatch):
    model = random_model(values="literals", sees="every")
    instances = [Instance([2] * 8, [Sum([list(range(8))], low=[number])]) for number in (1, 2, 3)]
    solver = Solver(model, SolveOptions(steps=2, finish="none", batch_size=8, chains=1))
    need = memory.bytes_of_chain(instances[0], model.denoiser.config)
    monkeypatch.setattr("blogdit.solver.occupants.free_bytes", lambda: 2 * need)
    assert len(solver.occupants._within_memory([Slot(n, one) for n, one in enumerate(instances)])) == 2
    assert sorted(index for index, _ in solver.results(instances)) == [0, 1, 2]
    monkeypatch.setattr("blogdit.solver.occupants.free_bytes", lambda: need - 1)
    assert "of memory" in Solver(model, SolveOptions(steps=2)).misfit(instances[0])
