"""A mixture of small problems of random structure: what a general model is trained on, without labels.

All kinds of constraints, soft ones and objectives occur. An instance has one theme (`mixture_themes.py`) or two, which
some rules join. Every instance has an answer: its constraints were drawn around a hidden one, which nobody keeps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from blogdit.core.arrays import share_range, whole_number, whole_range
from blogdit.core.constraints import IntArray
from blogdit.core.instance import Instance
from blogdit.core.problem import Problem
from blogdit.problems.answers import table_of
from blogdit.problems.base import Family
from blogdit.problems.mixture_draft import Draft, Limits
from blogdit.problems.mixture_themes import THEMES, mixed


def build(data: Any, name: str = "") -> Instance:
    """`data` is a `Problem` or an `Instance` of any kind."""
    made = data.instance() if isinstance(data, Problem) else data
    if not isinstance(made, Instance):
        raise ValueError(f"a general problem must be a Problem or an Instance, got {type(data).__name__}")
    return recognise(replace(made, problem="general", name=name or made.name))


def recognise(instance: Instance) -> Instance:
    """The instance, or a ValueError if there is nothing to do."""
    if not instance.groups and instance.objective is None:
        raise ValueError("general needs constraints or an objective, got neither")
    return instance


def generate(
    count: int,
    rng: np.random.Generator,
    literals: Any = "100-800",
    variables: Any = "10-400",
    domain: Any = "2-12",
    entries: int = 8,
    longest: int = 100,
    themes: str = "all",
    mixed: Any = 0.35,
) -> list[Instance]:
    """Random problems, each with an answer.

    `literals` is the number of all values of all variables, which the size of a batch follows: a narrow range pads
    little. `variables` and `domain` (the values of one) bound the rest of the shape. Constraints come on top of what a
    theme needs only while a literal is in fewer than `entries` of them, on average. `longest` bounds the variables of
    a constraint. `themes` are names with commas between them; the share `mixed` of the instances has two themes.
    """
    drafts = (draft(rng, literals, variables, domain, entries, longest, themes, mixed) for _ in range(count))
    return [one.instance("general", f"general-{place}", _given(one)) for place, one in enumerate(drafts)]


def draft(
    rng: np.random.Generator,
    literals: Any = "100-800",
    variables: Any = "10-400",
    domain: Any = "2-12",
    entries: int = 8,
    longest: int = 100,
    themes: str = "all",
    mixed: Any = 0.35,
) -> Draft:
    """One problem, together with the hidden assignment that shows that it has an answer."""
    fewest, most = whole_range(variables, "variables", 2)
    sizes = whole_range(domain, "domain", 2)
    low, high = whole_range(literals, "literals", fewest * sizes[0])
    names = list(THEMES) if themes == "all" else [name.strip() for name in str(themes).split(",")]
    if unknown := [name for name in names if name not in THEMES]:
        raise ValueError(f"themes has no {unknown[0]!r}; expected all, or some of {', '.join(THEMES)}")
    each = whole_number(entries, "entries", 1)
    size = round(float(np.exp(rng.uniform(np.log(low), np.log(high)))))  # as many below the middle as above it
    limits = Limits(size, (fewest, most), sizes, each * size, whole_number(longest, "longest", 2))
    made, share = Draft(rng, limits), share_range(mixed, "mixed")
    _fill(made, names, rng.random() < rng.uniform(*share))
    return made


def _fill(made: Draft, names: list[str], two: bool) -> None:
    """One theme, or two and rules that join them; more rules where all of them came out empty."""
    parts = made.rng.choice(names, size=2 if two else 1).tolist()
    for number, name in enumerate(parts, 1):
        made.share = 0.85 * number / len(parts) if two else 1.0
        THEMES[name](made)
    made.share = 1.0
    if missing := max(made.limits.variables[0] - len(made), 0):
        made.variables(missing, made.limits.values[0])
    everyone = np.flatnonzero(~made.is_derived)
    if two or made.chance(0.2):
        mixed(made, everyone, made.whole(1, 2))
    while made.is_empty:
        mixed(made, everyone, 1)


def _given(made: Draft) -> float:
    """A share of the variables that is given, of some instances."""
    return made.between(0.05, 0.5) if made.chance(0.2) else 0.0


def render(instance: Instance, values: IntArray | None = None) -> str:
    """What there is to do; the answer as a table."""
    kinds = Counter({group.kind: len(group) for group in instance.constraints})
    lines = [f"{instance.size} variables; " + ", ".join(f"{number} {kind}" for kind, number in kinds.items())]
    if instance.objective is not None:
        lines[0] += f"; {instance.objective.sense}"
    if values is not None:
        lines += [table_of(instance, values), instance.verify(values).in_words]
    return "\n".join(lines)


def preset(settings: Mapping[str, Any]) -> dict[str, Any]:
    """For a GPU. The energies of instances count in units of their objectives, which have all sizes."""
    network = {"values": "literals", "sees": "every", "dim": 64, "layers": 4, "loops": 6}
    chains = {"unroll": 1, "horizon": 32, "tau_start": 0.02, "learning_rate": 1e-3, "batch_size": 256}
    return {**network, **chains, "unit_energy": True, "validation_steps": 50}


FAMILY = Family(
    name="general",
    summary="a mixture of small problems of random structure, with every kind of constraint",
    build=build,
    generate=generate,
    render=render,
    preset=preset,
    recognise=recognise,
    takes_all=True,
)
