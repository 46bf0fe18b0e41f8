"""Models on disk: safetensors with the configuration and the provenance in the header. Data, never pickles."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
from safetensors import SafetensorError
from torch import Tensor

from blogdit.core.constraints import AllDifferent
from blogdit.core.errors import InputError
from blogdit.core.files import replacing
from blogdit.core.instance import Instance
from blogdit.method.batch import padded_size
from blogdit.method.blocks import Schedule
from blogdit.method.chain import ChainConfig
from blogdit.network.config import DenoiserConfig
from blogdit.network.denoiser import Denoiser
from blogdit.network.header import MODEL_FORMAT, MODEL_VERSION, checked_header, options_for, part_of, require_file

FORMAT, VERSION = MODEL_FORMAT, MODEL_VERSION
MOST_CHOICES = 1 << 27  # of a variable and a value: a chain is a table of them


@dataclass
class Model:
    """A trained denoiser, the chain it was trained for, and where it comes from."""

    problem: str
    denoiser: Denoiser
    chain: ChainConfig
    name: str = ""
    provenance: Mapping[str, Any] = field(default_factory=dict)
    # Options of the solver that suit the model; under "cuda" those that differ on a GPU (more chains, say).
    solving: Mapping[str, Any] = field(default_factory=dict)

    def options_for(self, device: str) -> dict[str, Any]:
        """What suits the model on a kind of device."""
        return options_for(self.solving, device)

    def misfit(self, instance: Instance) -> str | None:
        """Why the network cannot work on an instance, or None if it can."""
        config = self.denoiser.config
        dims = 0 if instance.positions is None else instance.positions.shape[1]
        if config.position_dims and dims != config.position_dims:
            return f"its variables need {config.position_dims} coordinates, the instance gives {dims}"
        if config.values == "literals" and config.sees == "different":
            unseen = {group.kind for group in instance.constraints if not isinstance(group, AllDifferent)}
            unseen |= set() if instance.objective is None else {"an objective"}
            if unseen:
                return f"its network does not see {' or '.join(sorted(unseen))}"
        values = int(instance.domain_sizes.max(initial=1))
        if config.values == "table" and values > config.max_values:
            return f"it knows {config.max_values} values, the instance has {values}"
        size = padded_size(instance)
        if size * values > MOST_CHOICES:
            most = f"{MOST_CHOICES // size:,} at most where there are {instance.size:,}"
            return f"its variables have up to {values:,} values; expected {most}"
        return None

    def refusal(self, instance: Instance, misfit: str) -> InputError:
        return InputError(f"model {self.name!r} does not fit {instance.name or 'the instance'}: {misfit}")


def write_tensors(path: Path, tensors: Mapping[str, Tensor], header: Mapping[str, Any]) -> None:
    """Write atomically: whoever reads `path`, at any moment, finds the old file or the whole new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    data = safetensors.torch.save(
        {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()},
        metadata={"blogdit": json.dumps(header)},
    )
    with replacing(path) as file:
        file.write(data)


def read_tensors(path: Path, format_name: str, version: int) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Tensors and header of a file that `write_tensors` wrote, or an InputError that says what is wrong with it."""
    require_file(path)
    try:
        with safetensors.safe_open(str(path), framework="pt") as file:
            text = (file.metadata() or {}).get("blogdit")
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise InputError(f"not a complete safetensors file ({error})", path) from None
    return tensors, checked_header(text, path, format_name, version)


def chain_from_dict(data: Mapping[str, Any]) -> ChainConfig:
    given = dict(data)
    return ChainConfig(schedule=Schedule(**given.pop("schedule")), prior_bias=tuple(given.pop("prior_bias")), **given)


def save_model(path: str | Path, model: Model, weights: Mapping[str, Tensor] | None = None, half: bool = False) -> None:
    """`weights` replaces the denoiser's own (the averaged ones, say); `half` stores bfloat16."""
    tensors = dict(model.denoiser.state_dict() if weights is None else weights)
    if half:
        tensors = {name: t.bfloat16() if t.is_floating_point() else t for name, t in tensors.items()}
    header = {
        "format": FORMAT,
        "version": VERSION,
        "problem": model.problem,
        "denoiser": asdict(model.denoiser.config),
        "chain": asdict(model.chain),
        "provenance": dict(model.provenance),
        "solving": dict(model.solving),
    }
    write_tensors(Path(path), tensors, header)


def load_model(path: str | Path) -> Model:
    path = Path(path)
    tensors, header = read_tensors(path, FORMAT, VERSION)
    try:
        config, held = DenoiserConfig(**part_of(header, "denoiser")), sum(tensor.numel() for tensor in tensors.values())
        if config.least_weights > held:  # not built: that would take the memory that the header asks for
            raise ValueError(f"the header asks for {config.least_weights:,} weights, the file holds {held:,}")
        denoiser = Denoiser(config)
        denoiser.load_state_dict({name: tensor.float() for name, tensor in tensors.items()})
        chain = chain_from_dict(part_of(header, "chain"))
        provenance, solving = part_of(header, "provenance"), part_of(header, "solving", {})
        part_of(solving, "cuda", {})
        problem = str(header["problem"])
    except (KeyError, TypeError, ValueError, OverflowError, RuntimeError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise InputError(f"weights and configuration do not fit each other ({reason})", path) from None
    return Model(problem, denoiser.eval(), chain, path.stem, provenance, solving)
