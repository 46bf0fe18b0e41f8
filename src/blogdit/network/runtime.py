"""The machine: which device, how many threads, how many processes; and which code it runs."""

from __future__ import annotations

import importlib
import importlib.util
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import distributed

import blogdit
from blogdit.core.clock import stand_still
from blogdit.core.errors import InputError

MOST_THREADS = 1024  # some thousands end in a crash of OpenMP
HAS_TRITON = importlib.util.find_spec("triton") is not None


def resolve_device(name: str = "auto") -> torch.device:
    """`auto` takes a GPU if there is one; `cuda` insists on it."""
    if name not in ("auto", "cpu", "cuda"):
        raise InputError(f"unknown device {name!r}; expected auto, cpu or cuda")
    if name == "cuda" and not torch.cuda.is_available():
        raise InputError("no CUDA device here; expected --device cpu or auto")
    return torch.device("cuda" if name != "cpu" and torch.cuda.is_available() else "cpu")


def runs_kernels(device: torch.device) -> bool:
    """Whether our kernels can be used there. (Called in compiled code: nothing that a compiler cannot see through.)"""
    return device.type == "cuda" and HAS_TRITON


def stand_still_while_compiling() -> None:
    """From now on no instance pays for the compilation of a kernel. Triton before 3.4 cannot tell how long it takes."""
    knobs = getattr(importlib.import_module("triton"), "knobs", None)
    if knobs is None or not hasattr(knobs.compilation, "listener") or isinstance(knobs.compilation.listener, _Listener):
        return
    knobs.compilation.listener = _Listener(knobs.compilation.listener)


class _Listener:
    """Triton calls it after every compilation."""

    def __init__(self, another: Callable[..., None] | None):
        self.another = another  # that was there before

    def __call__(self, **what: Any) -> None:
        stand_still(what["times"].total / 1e6)  # microseconds
        if self.another is not None:
            self.another(**what)


def set_threads(threads: int | None) -> None:
    if threads is not None:
        if not 1 <= threads <= MOST_THREADS:
            raise InputError(f"threads must be from 1 to {MOST_THREADS}, got {threads}")
        torch.set_num_threads(threads)


def by_torchrun() -> bool:
    """Whether torchrun has started this process. Its command is the same at the first start and at a restart, and a
    process cannot tell them apart: on nodes that lost nobody, torchrun counts no restart."""
    return "TORCHELASTIC_RUN_ID" in os.environ


@contextmanager
def process_group(device: torch.device) -> Iterator[torch.device]:
    """Join the processes that `torchrun` started, if it did; yields the device of this one."""
    if int(os.environ.get("WORLD_SIZE", "1")) < 2:
        yield device
        return
    if device.type == "cuda":
        device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
        torch.cuda.set_device(device)
    distributed.init_process_group("nccl" if device.type == "cuda" else "gloo")
    try:
        yield device
        distributed.barrier()  # who leaves first takes the connection away from the others
    finally:
        distributed.destroy_process_group()


def commit() -> str:
    """The commit of the code that runs, marked if files differ from it; the version where there is no repository.
    Whoever copies files elsewhere says so in BLOGDIT_COMMIT."""
    if named := os.environ.get("BLOGDIT_COMMIT"):
        return named
    here = Path(blogdit.__file__).parent

    def git(*arguments: str) -> str:
        done = subprocess.run(["git", *arguments], cwd=here, capture_output=True, text=True, check=True, timeout=5)
        return done.stdout.strip()

    try:
        return git("rev-parse", "--short=12", "HEAD") + ("+" if git("status", "--porcelain", "--", str(here)) else "")
    except (OSError, subprocess.SubprocessError):
        return f"v{blogdit.__version__}"
