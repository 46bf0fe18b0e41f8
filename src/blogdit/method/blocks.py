"""Which variables a step resamples: how many (schedules, Appendix C) and which (selectors, Equation 8, Appendix D).

A block is a mask over the free variables whose expected share is the rate rho, whatever the selector.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor

from blogdit.method.batch import Batch
from blogdit.method.derived import derive
from blogdit.method.energy import move_costs, one_hot, violation_scores
from blogdit.method.noise import Noise

SelectorName = Literal["all", "random", "margin", "critical", "related"]
SELECTORS: tuple[SelectorName, ...] = get_args(SelectorName)
# Blocks that follow the state. They are for solving: the loss has no mask term (Equation 7), which vanishes only where
# the reverse and the forward process draw their blocks alike (Equation 8).
STATE_DEPENDENT: tuple[SelectorName, ...] = ("margin", "critical")


@dataclass(frozen=True)
class Schedule:
    """The rate rho falls from rho_max at the start of a chain to rho_min at its end (Appendix C)."""

    rho_max: float = 0.9
    rho_min: float = 0.3
    shape: Literal["geometric", "linear"] = "geometric"

    def __post_init__(self) -> None:
        for name in ("rho_min", "rho_max"):
            if not 0 < getattr(self, name) <= 1:
                raise ValueError(f"{name} must be in (0, 1], got {getattr(self, name)}")
        if self.rho_min > self.rho_max:
            raise ValueError(f"rho_min must not exceed rho_max, got {self.rho_min} > {self.rho_max}")
        if self.shape not in ("geometric", "linear"):
            raise ValueError(f"shape must be geometric or linear, got {self.shape!r}")

    def rate(self, progress: Tensor) -> Tensor:
        """rho at a share of the chain or of the time budget: progress 0 is its start, 1 its end."""
        left = 1 - progress.clamp(0, 1)  # t / T of the paper, whose time runs backwards
        if self.shape == "linear":
            return self.rho_min + (self.rho_max - self.rho_min) * left
        return self.rho_min * (self.rho_max / self.rho_min) ** left


def fit_budget(weights: Tensor, rate: Tensor, free: Tensor) -> Tensor:
    """Probabilities proportional to `weights`, at most 1, whose mean over the free variables is `rate`.

    What clipping to 1 takes away goes to the other free variables: with the j heaviest at 1, the others share
    rate * n - j in proportion; j is the smallest number for which none of them passes 1. weights, free (..., n),
    rate (..., 1).
    """
    weights = torch.where(free, weights.double().clamp(min=0), 0.0)
    top = weights.amax(-1, keepdim=True).clamp(min=1e-300)
    weights = torch.where(free, weights / top + 1e-6, 0.0)  # a trace for all: the budget can always be spent
    heavy = weights.sort(-1, descending=True).values
    rest = heavy.flip(-1).cumsum(-1).flip(-1).clamp(min=1e-300)  # sum of all but the j heaviest
    clipped = torch.arange(weights.shape[-1], device=weights.device)
    budget = rate * free.sum(-1, keepdim=True)
    scale = (budget - clipped) / rest
    fits = scale * heavy <= 1 + 1e-9
    chosen = fits.int().argmax(-1, keepdim=True)  # the first that fits
    return (scale.gather(-1, chosen) * weights).clamp(0, 1).float()


class Selector:
    """Draws blocks for one batch. `name` is one of SELECTORS; "all" ignores the rate and gives DiT."""

    def __init__(self, name: SelectorName, batch: Batch):
        if name not in SELECTORS:
            raise ValueError(f"block must be one of {', '.join(SELECTORS)}, got {name!r}")
        self.name, self.batch = name, batch
        self.free = batch.per_instance(batch.free)  # (chains, B, N)
        self.incidence = _incidence(batch) if name == "related" else None

    def draw(self, logits: Tensor, rate: Tensor, noise: Noise) -> Tensor:
        """A block (R, M) for logits (R, M, K) and rates (chains, B, 1)."""
        batch, free = self.batch, self.free
        if self.name == "all":
            return batch.free
        if self.name == "related":
            return self._related(rate, noise)
        if self.name == "random":
            chance = rate.expand_as(free)
        else:
            weights = self._uncertainty(logits) if self.name == "margin" else self._criticality(logits)
            chance = fit_budget(batch.per_instance(weights), rate, free)
        return batch.lay((noise.uniform(*free.shape) < chance) & free)

    def _uncertainty(self, logits: Tensor) -> Tensor:
        """1 - (probability of the likeliest value - of the second likeliest)."""
        chances = self.batch.allowed(logits).softmax(-1)
        if chances.shape[-1] == 1:
            return torch.ones_like(chances[..., 0])
        best = chances.topk(2, dim=-1).values
        return 1 - (best[..., 0] - best[..., 1])

    def _criticality(self, logits: Tensor) -> Tensor:
        """Part in violations; with an objective, also what changing the variable alone would gain."""
        values = decode(logits, self.batch)
        scores = violation_scores(values, self.batch)
        if self.batch.optimisation:
            costs = move_costs(values, self.batch).masked_fill(~self.batch.domain, float("inf"))
            now = costs.gather(-1, values[..., None]).squeeze(-1)
            gain = (now - costs.amin(-1)).clamp(min=0)
            scores = scores + gain * self.batch.structure.has_objective.repeat_interleave(self.batch.variables)
        return scores

    def _related(self, rate: Tensor, noise: Noise) -> Tensor:
        """All variables of randomly drawn constraints. Variables without any are drawn on their own."""
        batch, free = self.batch, self.free
        assert self.incidence is not None
        variables, owner, present, counts = self.incidence
        degree = torch.zeros(batch.groups, batch.variables, device=batch.device)
        degree.scatter_add_(1, variables, present.float())
        degree = batch.per_instance(degree.reshape(1, -1).expand(batch.rows, -1))  # (chains, B, N)
        chance = 1 - torch.exp(-_constraint_rate(degree, rate, free & (degree > 0)))  # eta, (chains, B, 1)
        # Kind by kind, so that a constraint has the same number whatever pads the kinds before it.
        numbers = torch.cat([noise.uniform(batch.chains, batch.size, count) for count in counts], -1)
        drawn = (numbers < chance).view(batch.rows, batch.groups, -1)  # (R, G, constraints)
        hit = drawn.gather(2, owner.expand(batch.rows, -1, -1)) & present  # (R, G, entries)
        places = batch.flat(variables).expand(batch.rows, -1)
        touched = torch.zeros(batch.rows, batch.groups * batch.variables, device=batch.device)
        touched.scatter_add_(1, places, hit.reshape(batch.rows, -1).float())
        alone = (noise.uniform(*free.shape) < rate) & (degree == 0)
        return ((touched > 0) | batch.lay(alone)) & batch.free


def _constraint_rate(degree: Tensor, rate: Tensor, counted: Tensor) -> Tensor:
    """s = -log(1 - eta) such that the mean of 1 - exp(-s degree) over the counted variables is `rate`.

    The left side is concave in s and the start is left of the root (Jensen), so Newton climbs to it.
    """
    number = counted.sum(-1, keepdim=True).clamp(min=1)
    degree = torch.where(counted, degree, 0.0).double()
    target = (1 - rate.double()).clamp(min=1e-9)
    s = -target.log() / (degree.sum(-1, keepdim=True) / number).clamp(min=1e-9)
    for _ in range(8):
        kept = torch.where(counted, torch.exp(-s * degree), 0.0)
        slope = (degree * kept).sum(-1, keepdim=True).clamp(min=1e-300)
        s = s + (kept.sum(-1, keepdim=True) - target * number) / slope
    return s


def _incidence(batch: Batch) -> tuple[Tensor, Tensor, Tensor, list[int]]:
    """Every (variable, constraint) pair of a batch: variables, owner and present (G, entries); and how many
    constraints of each kind a group has. Pairwise objective terms count as constraints, as in MaxCut."""
    s = batch.structure
    variables, owners, presents = [], [], []
    counts: list[int] = []
    for pairs in (s.not_equal, s.conflict, s.differ, s.pairwise, s.soft.not_equal, s.soft.conflict):
        number = pairs.weights.shape[1]
        variables.append(pairs.variables.flatten(1).long())
        owner = torch.arange(number, device=batch.device).repeat_interleave(2) + sum(counts)
        owners.append(owner.expand(batch.groups, -1))
        presents.append((pairs.weights != 0).repeat_interleave(2, 1))
        counts.append(number)
    for t in (s, s.soft):
        for terms in (t.all_different, t.linear, t.count, t.sum, t.function, t.table):
            variables.append(terms.members.variables)
            owners.append(terms.members.owner + sum(counts))
            presents.append(terms.members.present)
            counts.append(terms.weights.shape[1])
    return torch.cat(variables, 1), torch.cat(owners, 1), torch.cat(presents, 1), counts


def decode(logits: Tensor, batch: Batch) -> Tensor:
    """The likeliest value of each variable, (R, M); of a derived variable, the one that follows from the others."""
    values = batch.allowed(logits).argmax(-1)
    if not batch.structure.derived.depth:
        return values
    return derive(one_hot(values, batch).double(), batch).argmax(-1)
