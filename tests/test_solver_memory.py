"""What would not fit the memory is refused in one line with the number, before anything is allocated."""

from __future__ import annotations

import json
import resource

import pytest

import blogdit
from blogdit.cli.app import run
from blogdit.core.instance import Instance
from blogdit.network.checkpoint import save_model
from blogdit.problems import maxcut
from blogdit.solver import memory
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
