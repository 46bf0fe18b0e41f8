"""The files of a training run: its log, and the state from which it can go on."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

import torch
from torch import Tensor, distributed

from blogdit.core.errors import InputError
from blogdit.core.files import replacing
from blogdit.method.noise import GeneratorNoise
from blogdit.network.checkpoint import read_tensors, write_tensors
from blogdit.network.denoiser import Denoiser
from blogdit.training.data import Data
from blogdit.training.recipe import Recipe
from blogdit.training.shelf import Shelf
from blogdit.training.state import Progress

STATE = "state.safetensors"
STATE_FORMAT, STATE_VERSION = "blogdit-training-state", 2


class Run(Protocol):
    """What is saved of a run (a `Trainer`), and what decides whether a state fits it."""

    recipe: Recipe
    data: Data
    seed: int
    device: torch.device
    rank: int
    world: int
    progress: Progress
    denoiser: Denoiser
    average: dict[str, Tensor]  # of the weights
    parameters: list[torch.nn.Parameter]
    optimizer: torch.optim.AdamW
    shelves: list[Shelf]
    host: torch.Generator  # draws instances
    noise: GeneratorNoise


class Log:
    """`log.jsonl`, one record per update. Records after update `keep` are dropped: a run that was killed after its
    last saved state repeats those updates."""

    def __init__(self, out: Path, keep: int, enabled: bool = True):
        self.file = None
        if not enabled:
            return
        out.mkdir(parents=True, exist_ok=True)
        path = out / "log.jsonl"
        kept = []
        if keep and path.exists():
            for line in path.read_text().splitlines():
                try:
                    record = json.loads(line)
                except json.JSONDecodeError:
                    break  # the run was killed while it wrote this line
                if record["update"] <= keep:
                    kept.append(line + "\n")
        with replacing(path) as file:  # a run killed at this moment has its whole log or the part it keeps
            file.write("".join(kept).encode())
        self.file = open(path, "a", buffering=1)  # noqa: SIM115 - closed by __exit__

    def write(self, record: dict[str, Any]) -> None:
        """Numbers that are not finite, which JSON does not know, become null."""
        if self.file is not None:
            finite = {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in record.items()}
            self.file.write(json.dumps(finite) + "\n")

    def __enter__(self) -> Log:
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self.file is not None:
            self.file.close()


def _everywhere(tensor: Tensor, world: int) -> Tensor:
    """The tensor of every process, stacked, (world, ...)."""
    if world == 1:
        return tensor[None]
    parts = [torch.empty_like(tensor) for _ in range(world)]
    distributed.all_gather(parts, tensor.contiguous())
    return torch.stack(parts)


def save_state(path: Path, run: Run) -> None:
    """All that `load_state` needs for the run to go on exactly. Every process takes part, the first one writes."""
    tensors = {
        "generator.host": run.host.get_state(),
        "generator.noise": run.noise.generator.get_state(),
    }
    for place, shelf in enumerate(run.shelves):
        for name, value in vars(shelf.chains).items():
            tensors[f"chains.{place}.{name}"] = _everywhere(value, run.world)
    tensors |= {f"weights.{name}": value for name, value in run.denoiser.state_dict().items()}
    tensors |= {f"average.{name}": value for name, value in run.average.items()}
    for number, parameter in enumerate(run.parameters):
        for name, value in run.optimizer.state[parameter].items():
            tensors[f"optimizer.{number}.{name}"] = value
    header = {
        "format": STATE_FORMAT,
        "version": STATE_VERSION,
        "recipe": run.recipe.to_dict(),
        "progress": asdict(run.progress),
        "seed": run.seed,
        "world": run.world,
        "sources": run.data.sources,
        "instances": run.data.fingerprint(),
    }
    if run.rank == 0:
        write_tensors(path, tensors, header)


def read_header(path: Path) -> dict[str, Any]:
    """Recipe, progress and seed of a saved run."""
    return read_tensors(path, STATE_FORMAT, STATE_VERSION)[1]


def load_state(path: Path, run: Run) -> None:
    """Go on from a saved state. Another number of processes divides the same batch, with the same random numbers."""
    tensors, header = read_tensors(path, STATE_FORMAT, STATE_VERSION)
    known = run.data.fingerprint()
    if header.get("instances", known) != known:  # chains know their instances by number
        raise InputError("was saved with other training instances; expected the same --data", path)

    def part(prefix: str) -> dict[str, Tensor]:
        return {name[len(prefix) :]: t.to(run.device) for name, t in tensors.items() if name.startswith(prefix)}

    try:
        run.denoiser.load_state_dict(part("weights."))
    except RuntimeError as error:
        raise InputError(f"does not fit these settings ({str(error).splitlines()[0]})", path) from None
    run.average = part("average.")
    for number, parameter in enumerate(run.parameters):
        saved = part(f"optimizer.{number}.")
        if "step" in saved and not run.optimizer.defaults["fused"]:
            saved["step"] = saved["step"].cpu()
        if saved:
            run.optimizer.state[parameter] = saved
    for place, shelf in enumerate(run.shelves):
        for name, value in part(f"chains.{place}.").items():
            own = getattr(shelf.chains, name)
            if value.numel() != run.world * own.numel():  # sizes of mixed batches are rounded to the processes
                message = f"was saved by {header['world']} processes, whose chains {run.world} cannot share; expected"
                raise InputError(f"{message} as many as before", path)
            setattr(shelf.chains, name, value.reshape(run.world, *own.shape)[run.rank])
    run.host.set_state(tensors["generator.host"])
    run.noise.generator.set_state(tensors["generator.noise"])
    for name, value in header["progress"].items():
        setattr(run.progress, name, value)
