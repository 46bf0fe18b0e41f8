"""The models that a job may name: those that come with blogdit, their variants, and networks without training."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from blogdit.api import WEIGHTS, bundled_models, load, model_name
from blogdit.core.instance import Instance
from blogdit.network.checkpoint import Model, load_model
from blogdit.network.denoiser import Denoiser
from blogdit.web.limits import Refused

UNTRAINED = "untrained"
KINDS = {
    "bundled": "trained, comes with blogdit",
    "dit": "DiT: trained to draw all variables at once",
    "consformer": "ConsFormer: sees the block, Gumbel noise",
    "brief": "trained as briefly as the variants",
    "no-entropy": "trained without the entropy term",
    UNTRAINED: "the same network with random weights",
}


class Models:
    """Loads each model once, when it is first asked for; those of a training run, `own`, each time anew. Nothing else
    can be named."""

    def __init__(self, own: Mapping[str, Path] | None = None) -> None:
        self.paths = bundled_models() | bundled_models(WEIGHTS / "variants")
        self.own = dict(own or {})
        self.loaded: dict[str, Model] = {}
        self.lock = threading.Lock()

    def named(self, name: str) -> Model:
        if name in self.own:
            return replace(load_model(self.own[name]), name=name)
        with self.lock:
            if name not in self.loaded:
                self.loaded[name] = self._load(name)
            return self.loaded[name]

    def of(self, instance: Instance, name: str | None) -> Model:
        """The model that is named, or that of the problem; `untrained` is the problem's own network."""
        own = model_name(instance.problem, bundled_models())
        if name is None and own is None:
            known = ", ".join(bundled_models())
            raise Refused(422, f"no model for {instance.problem!r}; expected model with one of {known}")
        if name == UNTRAINED:
            name = f"{own or 'coloring'}-{UNTRAINED}"
        return self.named(name or str(own))

    def _load(self, name: str) -> Model:
        trained = name.removesuffix(f"-{UNTRAINED}")
        if trained not in self.paths:
            raise Refused(422, f"unknown model {name[:60]!r}; expected one of {', '.join(self.paths)}, {UNTRAINED}")
        if trained == name:
            return load_model(self.paths[name])
        model = load(trained)
        with torch.random.fork_rng(devices=[]):  # the same weights every time
            torch.manual_seed(0)
            denoiser = Denoiser(model.denoiser.config)
        return replace(model, denoiser=denoiser.eval(), name=name, provenance={})

    def listing(self) -> list[dict[str, Any]]:
        """What a client may choose from."""
        rows = []
        for name in (*self.paths, *(name for name, path in self.own.items() if path.exists())):
            model = self.named(name)
            suffix = name.removeprefix(f"{model.problem}-") if name != model.problem else "bundled"
            options, schedule = model.options_for("cpu"), model.chain.schedule
            if suffix == "dit":
                options = {**options, "block": "all"}
            summary = "weights of the training run" if name in self.own else KINDS.get(suffix, suffix)
            rows.append(
                {
                    "name": name,
                    "problem": model.problem,
                    "summary": summary,
                    "options": options,
                    "share": [schedule.rho_max, schedule.rho_min],
                }
            )
        return [*rows, {"name": UNTRAINED, "problem": None, "summary": KINDS[UNTRAINED], "options": {}, "share": None}]
