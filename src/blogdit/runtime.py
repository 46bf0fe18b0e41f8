"""The machine: which device, how many threads, how many processes."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import distributed

from blogdit.errors import InputError

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


def set_threads(threads: int | None) -> None:
    if threads is not None:
        if threads < 1:
            raise InputError(f"threads must be at least 1, got {threads}")
        torch.set_num_threads(threads)


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
