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
from blogdit.network.header import options_for, read_header
from blogdit.web.limits import Refused

UNTRAINED, DIT = "untrained", "dit"  # of the problem that is asked for, whatever it is
KINDS = {
    "bundled": "trained, comes with blogdit",
    DIT: "DiT: trained to draw all variables at once",
    "consformer": "ConsFormer: sees the block, Gumbel noise",
    "brief": "trained as briefly as the variants",
    "no-entropy": "trained without the entropy term",
    UNTRAINED: "the same network with random weights",
}
ALIASES = (DIT, UNTRAINED)


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
        """The model that is named, or that of the problem; `untrained` is the problem's own network, `dit` its DiT."""
        own = model_name(instance.problem, bundled_models())
        if name is None and own is None:
            known = ", ".join(bundled_models())
            raise Refused(422, f"no model for {instance.problem!r}; expected model with one of {known}")
        if name == DIT and f"{own}-{DIT}" not in self.paths:
            known = ", ".join(one.removesuffix(f"-{DIT}") for one in self.paths if one.endswith(f"-{DIT}"))
            raise Refused(422, f"no DiT was trained for {instance.problem!r}; there is one for {known}")
        if name in ALIASES:
            name = f"{own or 'coloring'}-{name}"
        return self.named(name or str(own))

    def _load(self, name: str) -> Model:
        trained = name.removesuffix(f"-{UNTRAINED}")
        if trained not in self.paths:
            raise Refused(422, f"unknown model {name[:60]!r}; expected one of {', '.join((*self.paths, *ALIASES))}")
        if trained == name:
            model = load_model(self.paths[name])
            # A DiT hides everything in training, so that it can do nothing else.
            return replace(model, solving={**model.solving, "block": "all"}) if name.endswith(f"-{DIT}") else model
        model = load(trained)
        with torch.random.fork_rng(devices=[]):  # the same weights every time
            torch.manual_seed(0)
            denoiser = Denoiser(model.denoiser.config)
        return replace(model, denoiser=denoiser.eval(), name=name, provenance={})

    def listing(self) -> list[dict[str, Any]]:
        """What a client may choose from, as the headers of the files have it: no weights are loaded."""
        rows = []
        for name, path in {**self.paths, **self.own}.items():
            if not path.exists():  # a run that has no best weights yet
                continue
            header, _ = read_header(path)
            problem, schedule = str(header["problem"]), header["chain"]["schedule"]
            kind = name.removeprefix(f"{problem}-") if name != problem else "bundled"
            options = options_for(header.get("solving", {}), "cpu") | ({"block": "all"} if kind == DIT else {})
            rows.append(
                {
                    "name": name,
                    "problem": problem,
                    "summary": "weights of the training run" if name in self.own else KINDS.get(kind, kind),
                    "options": options,
                    "share": [schedule["rho_max"], schedule["rho_min"]],
                }
            )
        anybody: dict[str, Any] = {"problem": None, "options": {}, "share": None}
        return [*rows, *({"name": name, "summary": f"{KINDS[name]}; of your problem", **anybody} for name in ALIASES)]
