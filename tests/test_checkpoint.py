"""Models on disk: what is read is what was written, and any other file gives one clear error."""

from __future__ import annotations

import json
import os
from dataclasses import replace

import pytest
import safetensors.torch
import torch

from blogdit.cli.app import run
from blogdit.core import files
from blogdit.core.errors import InputError
from blogdit.core.instance import Instance
from blogdit.method.batch import collate
from blogdit.method.blocks import Schedule
from blogdit.method.chain import ChainConfig
from blogdit.network import checkpoint
from blogdit.network.checkpoint import FORMAT, VERSION, Model, load_model, read_tensors, save_model, write_tensors
from blogdit.problems import coloring
from helpers import generator, small_denoiser

CHAIN = ChainConfig(2.0, 3.0, False, (0.5, -0.5), "gumbel", Schedule(0.8, 0.2, "linear"))


def model(**settings):
    return Model(
        "coloring",
        small_denoiser(**settings),
        CHAIN,
        provenance={"updates": 12, "minutes": 0.5, "commit": "abc", "validation": {"solved": 0.75}},
        solving={"block": "related"},
    )


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "model.safetensors"
    save_model(path, model())
    return path


def refusal(path):
    with pytest.raises(InputError) as caught:
        load_model(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert "\n" not in message
    return message


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"values": "table", "max_values": 7},
        {"relation": "neighbours", "edge_features": True},
        {"position_dims": 2},
    ],
)
def test_a_model_comes_back_as_it_was(tmp_path, settings):
    """Weights bit for bit, configuration, chain, provenance and recommended options."""
    path, written = tmp_path / "deep" / "er" / "best.safetensors", model(**settings)
    save_model(path, written)
    read = load_model(path)
    assert read.denoiser.config == written.denoiser.config
    assert read.chain == CHAIN
    assert read.provenance == written.provenance
    assert read.solving == written.solving
    assert (read.problem, read.name) == ("coloring", "best")
    assert not read.denoiser.training
    for name, weights in written.denoiser.state_dict().items():
        assert torch.equal(read.denoiser.state_dict()[name], weights)


def test_loaded_models_give_the_same_numbers(saved):
    batch = collate([coloring.build((3, [(0, 1), (1, 2)]), 3)])
    logits, block = torch.randn(1, 3, 3, generator=generator(0)), torch.tensor([[True, False, True]])
    outputs = []
    for denoiser in (model().denoiser, load_model(saved).denoiser):
        outputs.append(denoiser.on(batch)(logits, block))
    assert all(torch.equal(a, b) for a, b in zip(*outputs, strict=True))


def test_averaged_weights_replace_the_models_own(tmp_path):
    own = model()
    average = {name: torch.full_like(t, 0.25) for name, t in own.denoiser.state_dict().items()}
    save_model(tmp_path / "a.safetensors", own, average)
    assert all((t == 0.25).all() for t in load_model(tmp_path / "a.safetensors").denoiser.state_dict().values())


def test_half_files_hold_bfloat16(tmp_path, saved):
    """About half the size; loaded weights are float32 with the values of bfloat16."""
    written = model()
    save_model(tmp_path / "half.safetensors", written, half=True)
    stored = safetensors.torch.load_file(tmp_path / "half.safetensors")
    assert {t.dtype for t in stored.values()} == {torch.bfloat16}
    read = load_model(tmp_path / "half.safetensors").denoiser.state_dict()
    for name, weights in written.denoiser.state_dict().items():
        assert read[name].dtype == torch.float32
        assert torch.equal(read[name], weights.bfloat16().float())
    assert os.path.getsize(tmp_path / "half.safetensors") < 0.65 * os.path.getsize(saved)


def test_truncated_files_are_refused_at_any_length(saved, tmp_path):
    """Cut in the length field, the header or the tensors, down to nothing."""
    whole = saved.read_bytes()
    cut = tmp_path / "cut.safetensors"
    lengths = {0, 1, 7, 8, 9, 100, len(whole) - 1, len(whole) - 2, *range(200, len(whole), len(whole) // 25)}
    for length in sorted(lengths):
        cut.write_bytes(whole[:length])
        assert "not a complete safetensors file" in refusal(cut)


def test_files_of_others_are_refused(tmp_path):
    """Text, zeros, another program's safetensors, another kind of file of ours."""
    path = tmp_path / "x.safetensors"
    for data in (b"hello, world", bytes(1000), b"\xff" * 1000, b"PK\x03\x04" + bytes(100)):
        path.write_bytes(data)
        assert "not a complete safetensors file" in refusal(path)
    safetensors.torch.save_file({"w": torch.zeros(2)}, path)
    assert "not one of blogdit's" in refusal(path)
    safetensors.torch.save_file({"w": torch.zeros(2)}, path, {"format": "pt"})
    assert "not one of blogdit's" in refusal(path)
    write_tensors(path, {}, {"format": "blogdit-training-state", "version": 1})
    assert "holds 'blogdit-training-state', expected 'blogdit-model'" in refusal(path)


HEADERS = ["", "{", "[]", "3", "null", "{}", '{"format": "blogdit-model"}', '{"version": "1"}', "[" * 100_000]


@pytest.mark.parametrize("text", HEADERS, ids=lambda text: text[:30])
def test_unreadable_headers_are_refused(tmp_path, text):
    path = tmp_path / "x.safetensors"
    safetensors.torch.save_file({"w": torch.zeros(2)}, path, {"blogdit": text})
    assert "a blogdit header that cannot be read" in refusal(path)


def test_newer_files_say_so(saved):
    tensors, header = read_tensors(saved, FORMAT, VERSION)
    write_tensors(saved, tensors, header | {"version": VERSION + 1})
    assert f"has format version {VERSION + 1}, this blogdit reads up to {VERSION}: upgrade" in refusal(saved)


def test_folders_and_missing_files(tmp_path):
    assert "is a folder" in refusal(tmp_path)
    assert "no such file" in refusal(tmp_path / "nothing.safetensors")


@pytest.mark.parametrize(
    "change",
    [
        lambda tensors, header: header["denoiser"].update(dim=32),
        lambda tensors, header: header["denoiser"].update(layers=3),
        lambda tensors, header: header["denoiser"].update(layers=0),
        lambda tensors, header: header["denoiser"].update(wings=2),
        lambda tensors, header: header["denoiser"].update(dim="many"),
        lambda tensors, header: header["denoiser"].update(values="codes"),  # older versions knew it
        lambda tensors, header: header.pop("denoiser"),
        lambda tensors, header: header["chain"].update(sigma=-1),
        lambda tensors, header: header["chain"].pop("schedule"),
        lambda tensors, header: header["chain"].update(schedule={"rho_max": 2.0}),
        lambda tensors, header: header.pop("problem"),
        # What a header asks for is not allocated before the weights are seen to fit.
        lambda tensors, header: header["denoiser"].update(layers=10**5),
        lambda tensors, header: header["denoiser"].update(loops=10**9),
        lambda tensors, header: header["denoiser"].update(dim=10**7),
        lambda tensors, header: header["denoiser"].update(dim=10**30),
        lambda tensors, header: header.update(denoiser=[]),
        lambda tensors, header: header.update(chain=[]),
        lambda tensors, header: header.update(provenance=[1]),
        lambda tensors, header: header.update(solving="fast"),
        lambda tensors, header: header.update(solving={"cuda": [1]}),
        lambda tensors, header: tensors.pop("in_block"),
        lambda tensors, header: tensors.update(extra=torch.zeros(1)),
        lambda tensors, header: tensors.update(in_block=torch.zeros(3)),
    ],
)
def test_weights_and_configuration_must_fit(saved, change):
    tensors, header = read_tensors(saved, FORMAT, VERSION)
    header = json.loads(json.dumps(header))
    change(tensors, header)
    write_tensors(saved, tensors, header)
    assert "weights and configuration do not fit each other" in refusal(saved)


@pytest.mark.parametrize("stage", ["serialise", "write", "fsync", "replace"])
def test_a_failed_write_leaves_the_old_file(saved, monkeypatch, stage):
    """A full disk or a crash in the middle: the old model is still there, whole, and nothing else is."""
    before = saved.read_bytes()

    def fail(*arguments, **options):
        raise OSError(28, "No space left on device")

    if stage == "serialise":
        monkeypatch.setattr(checkpoint.safetensors.torch, "save", fail)
    elif stage == "write":
        real_open = open

        def open_and_fail(path, mode="r"):
            file = real_open(path, mode)
            if "x" in mode:
                file.write(b"half of it")
                file.close()
                fail()
            return file

        monkeypatch.setattr("builtins.open", open_and_fail)
    else:
        monkeypatch.setattr(files.os, stage, fail)
    with pytest.raises(OSError, match="No space left"):
        save_model(saved, model(seed=9))
    monkeypatch.undo()
    assert saved.read_bytes() == before
    assert [p.name for p in saved.parent.iterdir()] == [saved.name]


def test_misfits_are_explained():
    """A network with positions or a table of values says which instances it cannot work on."""
    graph = coloring.build((3, [(0, 1)]), 9)
    assert model().misfit(graph) is None
    assert "need 2 coordinates, the instance gives 0" in model(position_dims=2).misfit(graph)
    assert "knows 4 values, the instance has 9" in model(values="table", max_values=4).misfit(graph)
    most = checkpoint.MOST_CHOICES // 32
    assert model().misfit(Instance([3, most])) is None
    too_many = f"its variables have up to {most + 1:,} values; expected {most:,} at most where there are 2"
    assert model().misfit(Instance([3, most + 1])) == too_many
    assert model().misfit(Instance([2] * 33 + [most])) is not None


def test_info_shows_a_model_whose_provenance_lacks_everything(tmp_path, capsys):
    path = tmp_path / "model.safetensors"
    save_model(path, replace(model(), provenance={"minutes": "\x1b[31m"}))
    assert run(["info", str(path)]) == 0
    assert "trained \\u001b[31m minutes, ? updates on ?, seed ?, commit ?" in capsys.readouterr().out
