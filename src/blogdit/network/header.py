"""What a file of weights says about itself, read without torch."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import safetensors
from safetensors import SafetensorError

from blogdit.core.errors import InputError

MODEL_FORMAT, MODEL_VERSION = "blogdit-model", 1


def read_header(path: Path) -> tuple[dict[str, Any], int]:
    """The header of a model, and how many numbers the file holds; or an InputError that says what is wrong with it."""
    require_file(path)
    try:
        with safetensors.safe_open(str(path), framework="np") as file:
            text = (file.metadata() or {}).get("blogdit")
            numbers = sum(math.prod(file.get_slice(name).get_shape()) for name in file.keys())  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise InputError(f"not a complete safetensors file ({error})", path) from None
    return checked_header(text, path, MODEL_FORMAT, MODEL_VERSION), numbers


def require_file(path: Path) -> None:
    if path.is_dir():
        raise InputError("is a folder, expected a model file (.safetensors)", path)
    if not path.exists():
        raise InputError("no such file", path)


def checked_header(text: str | None, path: Path, format_name: str, version: int) -> dict[str, Any]:
    """The header of a file of our own, of this format and no newer than this version."""
    if text is None:
        raise InputError("a safetensors file, but not one of blogdit's (it has no blogdit header)", path)
    try:
        header = json.loads(text)
    except (ValueError, RecursionError):
        header = None
    if not isinstance(header, dict) or not isinstance(header.get("version"), int):
        raise InputError("a safetensors file with a blogdit header that cannot be read", path)
    if header.get("format") != format_name:
        raise InputError(f"holds {header.get('format')!r}, expected {format_name!r}", path)
    if header["version"] > version:
        raise InputError(
            f"has format version {header['version']}, this blogdit reads up to {version}: upgrade blogdit", path
        )
    return header


def part_of(header: Mapping[str, Any], name: str, default: Any = None) -> dict[str, Any]:
    """An object in the header, or a TypeError."""
    found = header.get(name, default)
    if not isinstance(found, dict):
        raise TypeError(f"{name} must be an object, got {type(found).__name__}")
    return found


def options_for(solving: Mapping[str, Any], device: str) -> dict[str, Any]:
    """What suits a model on a kind of device, of what its header says about solving."""
    common = {name: value for name, value in solving.items() if name != "cuda"}
    return {**common, **(solving.get("cuda", {}) if device == "cuda" else {})}
