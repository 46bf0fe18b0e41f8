"""Instances of different sizes as tensors.

A batch runs `chains` chains on each of B instances. Variables are padded to N and domains to K, and masked, so the
numbers of an instance do not depend on its neighbours. The state of all chains is one tensor (R, M, ...) of R rows
and M variables, in one of two layouts with R * M = chains * B * N:

- shared: all instances have the same structure (Sudoku). R = chains * B rows over G = 1 group of M = N variables.
- union: each instance has its own (graphs). R = chains rows over G = B groups, side by side: M = B * N variables.

Either way a (chains, B, N, ...) tensor is the same memory: `x.view(chains, B, N, ...)`. Structure tensors lead
with G; constraint lists name variables by their number within a group, and `flat` turns that into 0 .. M - 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from blogdit.core.instance import Instance
from blogdit.method.literals import Literals, build_literals
from blogdit.method.structure import Relations, Structure, build_structure
from blogdit.method.tensors import pad
from blogdit.method.terms import map_tensors

GIVEN_LOGIT = 10.0  # a given value has this logit, the others its negative


@dataclass(frozen=True)
class Batch:
    """See the module's text. Built by `collate`."""

    structure: Structure
    is_given: Tensor  # (B, N)
    given_values: Tensor  # (B, N)
    shared: bool
    chains: int = 1
    optimisation: bool = False  # some instance has an objective
    full: bool = False  # every variable may take all K values
    literals: Literals | None = None  # for networks that want them, where they were built beforehand

    @property
    def size(self) -> int:
        """B, the number of instances."""
        return self.is_given.shape[0]

    @property
    def groups(self) -> int:
        return 1 if self.shared else self.size

    @property
    def rows(self) -> int:
        return self.chains * self.size // self.groups

    @property
    def variables(self) -> int:
        """N, variables per instance with padding."""
        return self.is_given.shape[1]

    @property
    def values(self) -> int:
        """K, values per variable with padding."""
        return self.structure.domain.shape[2]

    @property
    def device(self) -> torch.device:
        return self.is_given.device

    def lay(self, x: Tensor) -> Tensor:
        """(chains, B, N, ...) -> (R, M, ...)."""
        return x.reshape(self.rows, self.groups * self.variables, *x.shape[3:])

    def per_instance(self, x: Tensor) -> Tensor:
        """(R, M, ...) -> (chains, B, N, ...)."""
        return x.reshape(self.chains, self.size, self.variables, *x.shape[2:])

    def flat(self, local: Tensor) -> Tensor:
        """Variables named within their group (G, ...) -> one list of places in 0 .. M - 1."""
        offsets = torch.arange(self.groups, device=local.device) * self.variables
        return (local + offsets.view(-1, *[1] * (local.dim() - 1))).reshape(-1)

    @property
    def real(self) -> Tensor:
        """(R, M): false in padding."""
        return self.structure.real.reshape(1, -1).expand(self.rows, -1)

    @property
    def domain(self) -> Tensor:
        """(M, K): values that a variable may take."""
        return self.structure.domain.reshape(-1, self.values)

    @property
    def given(self) -> Tensor:
        """(R, M): variables clamped to their given value."""
        return self.lay(self.is_given.expand(self.chains, -1, -1))

    @property
    def given_value(self) -> Tensor:
        """(R, M): the given value, 0 elsewhere."""
        return self.lay(self.given_values.expand(self.chains, -1, -1))

    @property
    def free(self) -> Tensor:
        """(R, M): variables that a block may hold: neither given nor derived from others."""
        return self.real & ~self.given & ~self.derived

    @property
    def derived(self) -> Tensor:
        """(R, M): variables whose values follow from others; not those that are given."""
        return self.structure.derived.is_derived.reshape(1, -1) & ~self.given

    @property
    def relations(self) -> Relations:
        """Who is related to whom."""
        assert self.structure.relations is not None, "a network over pairs needs collate(..., related=True)"
        return self.structure.relations

    def allowed(self, logits: Tensor) -> Tensor:
        """Logits (R, M, K) with minus infinity at values outside the domains."""
        return logits if self.full else logits.masked_fill(~self.domain, float("-inf"))

    def certain(self, values: Tensor) -> Tensor:
        """Logits (R, M, K) that leave no doubt about the values (R, M)."""
        chosen = torch.arange(self.values, device=values.device) == values[..., None]
        return torch.where(chosen, GIVEN_LOGIT, -GIVEN_LOGIT)

    def to(self, device: torch.device | str) -> Batch:
        return map_tensors(self, lambda tensor: tensor.to(device, non_blocking=True))

    def take(self, index: Tensor) -> Batch:
        """The instances at `index`, without leaving the device."""
        structure = self.structure if self.shared else map_tensors(self.structure, lambda t: t[index])
        literals = None if self.literals is None else map_tensors(self.literals, lambda t: t[index])
        return replace(
            self, structure=structure, is_given=self.is_given[index], given_values=self.given_values[index],
            literals=literals,
        )  # fmt: skip

    def with_literals(self) -> Batch:
        """The same with its literals, which are built unless it has them."""
        if self.literals is not None:
            return self
        return replace(self, literals=build_literals(self.structure, self.is_given, self.given_values))

    def with_chains(self, chains: int) -> Batch:
        return replace(self, chains=chains)


def collate(
    instances: Sequence[Instance],
    chains: int = 1,
    variables: int | None = None,
    values: int | None = None,
    related: bool = True,
) -> Batch:
    """Pad instances into one batch on the CPU; `variables` and `values` ask for more padding than they need. A network
    of literals does without relations, and a batch that is not `related` without their memory."""
    if not instances:
        raise ValueError("a batch needs at least one instance")
    count = max(max(i.size for i in instances), variables or 0, 1)
    width = max(max(int(i.domain_sizes.max(initial=1)) for i in instances), values or 0)
    shared = same_structure(instances)
    members = instances[:1] if shared else instances
    return Batch(
        structure=build_structure(members, count, width, related),
        is_given=pad([i.is_given for i in instances], count),
        given_values=pad([i.given_values for i in instances], count),
        shared=shared,
        chains=chains,
        optimisation=any(i.objective is not None for i in instances),
        full=all(bool((i.domain_sizes == width).all()) for i in members),
    )


def same_structure(instances: Sequence[Instance]) -> bool:
    """True if the instances differ in their givens alone (they hold the very same objects)."""
    first = instances[0]
    return all(
        other.domain_sizes is first.domain_sizes
        and other.objective is first.objective
        and other.positions is first.positions
        and other.values == first.values
        and other.derived == first.derived
        and len(other.constraints) == len(first.constraints)
        and all(a is b for a, b in zip(other.constraints, first.constraints, strict=True))
        for other in instances
    )


def padded_size(instance: Instance) -> int:
    """Variables that an instance has in a batch: a multiple of 32 makes shapes few; where positions count, its own."""
    return instance.size if instance.positions is not None else -(-instance.size // 32) * 32
