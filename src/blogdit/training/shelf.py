"""Training instances of one structure, and the chains that work on them.

Puzzles of several sizes do not fit one batch without much padding, so each size has a shelf of its own, and updates go
from shelf to shelf. Graphs, each with a structure of its own, are one shelf. For a network of literals, whose work
grows with the instance, they have a shelf for each size between two powers of 2.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from blogdit.core.instance import Instance
from blogdit.method.batch import Batch, collate
from blogdit.training.answers import Answers
from blogdit.training.recipe import Recipe
from blogdit.training.state import Chains


class Shelf:
    """Instances on the device, with their answers and the chains of this process."""

    def __init__(self, instances: Sequence[Instance], recipe: Recipe, device: torch.device):
        config = recipe.training
        self.instances = instances
        self.pool = collate(instances, related=recipe.denoiser.relates).to(device)
        if not recipe.denoiser.relates:
            self.pool = self.pool.with_literals()
        taught = config.own_answers > 0 and not config.improve
        self.answers = Answers(instances, config.answers_kept, device) if taught else None
        self.batch_size = config.batch_size  # chains of an update, in all processes together
        self.chains: Chains  # set by the trainer
        self.launched = 0  # updates, kernel by kernel

    @property
    def work(self) -> int:
        """Tokens of the network for a chain."""
        literals = self.pool.literals
        return self.pool.variables * self.pool.values if literals is None else literals.place.shape[1]

    def take(self, index: torch.Tensor) -> Batch:
        return self.pool.take(index)


def shelves_for(instances: Sequence[Instance], recipe: Recipe, device: torch.device, parts: int) -> list[Shelf]:
    """A shelf for each structure. An update on any of them costs about as much: where a chain is more work, there are
    fewer. `batch_size` is for the shelf with the least work. A batch has so many equal `parts`, for processes and for
    gradients that accumulate."""
    literals = recipe.denoiser.values == "literals"
    shelves = [Shelf(group, recipe, device) for group in by_structure(instances, by_size=literals)]
    least = min(shelf.work for shelf in shelves)
    for shelf in shelves:
        chains = recipe.training.batch_size * least // shelf.work
        shelf.batch_size = max(chains // parts, 1) * parts
    return shelves


def by_structure(instances: Sequence[Instance], by_size: bool = False) -> list[list[Instance]]:
    """Instances that share their structure, group by group. If some are on their own, all of them together, or
    `by_size`: those whose numbers of literals have as many binary digits."""
    groups: dict[tuple[int, ...], list[Instance]] = {}
    for one in instances:
        groups.setdefault((id(one.domain_sizes), *map(id, one.constraints)), []).append(one)
    if not any(len(group) == 1 for group in groups.values()):
        return list(groups.values())
    if not by_size:
        return [list(instances)]
    sizes: dict[int, list[Instance]] = {}
    for one in instances:
        sizes.setdefault(int(one.domain_sizes.sum()).bit_length(), []).append(one)
    return [sizes[digits] for digits in sorted(sizes)]
