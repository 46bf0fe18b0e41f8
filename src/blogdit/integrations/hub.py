"""Models on the Hugging Face Hub: `blogdit.load("hf:OWNER/NAME")` and `blogdit.push(model, "OWNER/NAME")`.

A repository holds the weights as `model.safetensors` and our card as its model card, `README.md`.
"""

from __future__ import annotations

import logging
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from blogdit import api
from blogdit.core.errors import InputError
from blogdit.network.checkpoint import Model, load_model, save_model

PREFIX = "hf:"
WEIGHTS, CARD = "model.safetensors", "README.md"
NAME = re.compile(r"[\w.-]+/[\w.-]+", re.ASCII)


def fetch(name: str) -> Model:
    """The model of "hf:OWNER/NAME", or of a branch, tag or commit of it: "hf:OWNER/NAME@REVISION".

    It is downloaded once; then it comes from the cache of huggingface_hub.
    """
    repository, _, revision = name.removeprefix(PREFIX).partition("@")
    with _one_line(f"{name} cannot be loaded", f"a repository with {WEIGHTS}"):
        path = _hub().hf_hub_download(_checked(repository), WEIGHTS, revision=revision or None)
    return replace(load_model(path), name=name)


def export(model: str | Path | Model, folder: str | Path, card: str | None = None) -> Path:
    """Write what a repository holds into a folder: the weights and the card, which is that of a bundled model if no
    `card` (Markdown) is given."""
    folder = Path(folder)
    if card is None:
        card = _card_of(model)
    loaded = model if isinstance(model, Model) else api.load(model)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        source = None if isinstance(model, Model) else api.bundled_models().get(str(model), Path(model))
        if source is not None and source.is_file():
            shutil.copyfile(source, folder / WEIGHTS)
        else:
            save_model(folder / WEIGHTS, loaded)
        (folder / CARD).write_text(_front_matter(loaded.problem) + card.strip() + "\n", encoding="utf-8")
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror or error}", folder) from None
    return folder


def push(
    model: str | Path | Model,
    repository: str,
    card: str | None = None,
    private: bool = False,
    message: str = "Model for blogdit",
) -> str:
    """Upload a model, and its card, to the repository OWNER/NAME, which is made if it is not there. Returns what
    `load` takes. huggingface_hub knows the token of `hf auth login` or of the environment."""
    repository = _checked(repository.removeprefix(PREFIX))
    hub = _hub()
    with tempfile.TemporaryDirectory() as folder:
        export(model, folder, card)
        with _one_line(f"{repository} cannot be written", "a repository of yours"):
            hub.create_repo(repository, private=private, exist_ok=True)
            hub.upload_folder(repo_id=repository, folder_path=folder, commit_message=message)
    return PREFIX + repository


@contextmanager
def _one_line(what: str, expected: str) -> Iterator[None]:
    """No network, no such repository, no access: each has a class of its own, and lines of its own on stderr."""
    logger = logging.getLogger("huggingface_hub")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    except (InputError, ModuleNotFoundError):
        raise
    except Exception as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0][:120]
        raise InputError(f"{what} ({reason}); expected {expected}") from None
    finally:
        logger.setLevel(level)


def _hub() -> Any:
    try:
        import huggingface_hub
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("no module 'huggingface_hub'; expected pip install 'blogdit[hub]'") from error
    return huggingface_hub


def _checked(repository: str) -> str:
    if not NAME.fullmatch(repository):
        raise InputError(f"{repository!r} is no repository; expected OWNER/NAME")
    return repository


def _card_of(model: str | Path | Model) -> str:
    path = None if isinstance(model, Model) else api.bundled_models().get(str(model))
    if path is not None and path.with_suffix(".md").is_file():
        return path.with_suffix(".md").read_text(encoding="utf-8")
    raise InputError("a model of your own has no card yet; expected card= with a text in Markdown")


def _front_matter(problem: str) -> str:
    """What the Hub knows a model by."""
    return f"---\nlibrary_name: blogdit\ntags:\n- blogdit\n- combinatorial-optimization\n- {problem}\n---\n\n"
