"""The Hugging Face Hub: what is pushed into a local folder is what is loaded from there, through the real package."""

from __future__ import annotations

import shutil
import sys

import pytest

import blogdit
from blogdit.cli.app import run
from blogdit.core.errors import InputError
from blogdit.integrations import hub

huggingface_hub = pytest.importorskip("huggingface_hub")
COMMIT = "0123456789" * 4


@pytest.fixture
def local_hub(tmp_path, monkeypatch):
    """Uploads go into the cache of huggingface_hub, from which it reads without a network."""
    cache = tmp_path / "cache"
    made = []

    def create_repo(name, private, exist_ok):
        made.append((name, private))

    def upload_folder(repo_id, folder_path, commit_message):
        folder = cache / f"models--{repo_id.replace('/', '--')}"
        shutil.copytree(folder_path, folder / "snapshots" / COMMIT)
        (folder / "refs").mkdir()
        (folder / "refs" / "main").write_text(COMMIT)

    monkeypatch.setattr(huggingface_hub, "create_repo", create_repo)
    monkeypatch.setattr(huggingface_hub, "upload_folder", upload_folder)
    download = huggingface_hub.hf_hub_download
    monkeypatch.setattr(
        huggingface_hub,
        "hf_hub_download",
        lambda *names, **options: download(*names, **options, cache_dir=cache, local_files_only=True),
    )
    return made


def test_there_and_back_again(local_hub, any_model, tmp_path):
    name = blogdit.push(any_model, "me/first-model", card="# Mine\n\nFor colourings.", private=True)
    assert name == "hf:me/first-model"
    assert local_hub == [("me/first-model", True)]
    back, own = blogdit.load(name), blogdit.load(any_model)
    assert (back.name, back.problem) == ("hf:me/first-model", own.problem)
    weights = own.denoiser.state_dict()
    assert all((tensor == weights[key]).all() for key, tensor in back.denoiser.state_dict().items())
    graph = tmp_path / "g.col"
    graph.write_text("p edge 3 1\ne 1 2\n")
    assert run(["solve", str(graph), "--colors", "2", "--model", name, "--steps", "3", "--device", "cpu"]) == 0
    assert blogdit.load(f"{name}@main").name == f"{name}@main"


def test_cards_are_model_cards(tmp_path):
    """Of a bundled model the card is its own, below what the Hub reads."""
    folder = hub.export("mis", tmp_path / "mis")
    text = (folder / "README.md").read_text()
    loaded = huggingface_hub.ModelCard(text)
    assert loaded.data.library_name == "blogdit"
    assert "mis" in loaded.data.tags
    bundled = blogdit.api.bundled_models()["mis"]
    assert loaded.text.strip() == bundled.with_suffix(".md").read_text().strip()
    assert (folder / "model.safetensors").read_bytes() == bundled.read_bytes()


def test_a_model_in_memory_is_written_as_it_is(any_model, tmp_path):
    model = blogdit.load(any_model)
    folder = hub.export(model, tmp_path / "x", card="mine")
    back = blogdit.load(folder / "model.safetensors").denoiser.state_dict()
    assert all((tensor == back[key]).all() for key, tensor in model.denoiser.state_dict().items())


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: blogdit.load("hf:nobody/nothing"),
            "hf:nobody/nothing cannot be loaded .*; expected a repository with",
        ),
        (lambda: blogdit.load("hf:alone"), "'alone' is no repository; expected OWNER/NAME"),
        (lambda: blogdit.push("sudoku", "a/b/c"), "'a/b/c' is no repository; expected OWNER/NAME"),
        (lambda: blogdit.push("nothing", "me/x", card="x"), "unknown model 'nothing'; expected a file or one of"),
    ],
)
def test_bad_names(local_hub, call, message):
    with pytest.raises(InputError, match=message):
        call()
    assert local_hub == []


def test_a_model_of_ones_own_needs_a_card(local_hub, any_model):
    with pytest.raises(InputError, match="has no card yet; expected card= with a text in Markdown"):
        blogdit.push(any_model, "me/x")


def test_a_failed_upload_is_one_line(local_hub, any_model, monkeypatch):
    def refuse(*_, **__):
        raise RuntimeError("401 Client Error\nmore lines")

    monkeypatch.setattr(huggingface_hub, "create_repo", refuse)
    with pytest.raises(
        InputError, match=r"me/x cannot be written \(401 Client Error\); expected a repository of yours"
    ):
        blogdit.push(any_model, "me/x", card="x")


def test_a_missing_package_is_named_with_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(ModuleNotFoundError, match=r"expected pip install 'blogdit\[hub\]'"):
        blogdit.load("hf:me/x")
