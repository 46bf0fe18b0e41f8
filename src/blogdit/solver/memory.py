"""What the chains of an instance need in memory, estimated before anything is allocated."""

from __future__ import annotations

import os
from pathlib import Path
from weakref import WeakKeyDictionary

from blogdit.core.constraints import AllDifferent, Conflict, Constraint, Function, NotEqual, Sum, Table
from blogdit.core.domains import Domains
from blogdit.core.instance import Instance
from blogdit.method.batch import padded_size
from blogdit.method.relations import count_pairs
from blogdit.network.config import DenoiserConfig

# Numbers of 4 bytes that a step keeps for each value of a variable, in widths of the network's parts, and for each
# related pair. Measured on a CPU: 5.6 to 6.8 KB for a value with 64-wide layers, where this says 6.1.
BYTES_OF_PAIR = 256
BYTES_OF_MEMBERSHIP = 256  # of a literal in a rule: in lists both ways, and while they are built
CONTAINER = Path("/sys/fs/cgroup")


def bytes_of_chain(instance: Instance, config: DenoiserConfig) -> int:
    """Of one chain: the instance's own tensors and what a step of the network needs, about."""
    if not config.relates:
        return _bytes_of_literals(instance, config)
    widths = 8 * config.dim + 8 * config.heads * config.head_dim + 4 * config.ffn_factor * config.dim
    values = int(instance.domain_sizes.max(initial=1))
    return padded_size(instance) * values * 4 * widths + BYTES_OF_PAIR * count_pairs(instance)


def _bytes_of_literals(instance: Instance, config: DenoiserConfig) -> int:
    """For a network of literals: what it keeps for each literal and each rule, and the lists of both."""
    size, most = padded_size(instance), int(instance.domain_sizes.max(initial=1))
    literals = int(instance.domain_sizes[~instance.is_given].sum())
    rules, memberships = instance.size, literals  # each variable takes one of its values
    for group in instance.groups:
        own = _rules_of(group, instance.domains, most)
        rules, memberships = rules + own[0], memberships + own[1]
    if (goal := instance.objective) is not None:
        memberships += 2 * most * len(goal.differ) + 2 * len(goal.pairwise)
    per_literal = (8 + 4 * config.ffn_factor) * config.dim
    per_rule = (8 + config.layers) * config.dim  # every layer keeps what it knows of a rule beforehand
    states = 16 * size * most  # logits, noise, what they decode to
    return 4 * (per_literal * literals + per_rule * rules + states) + BYTES_OF_MEMBERSHIP * memberships


_counted: WeakKeyDictionary[Constraint, tuple[Domains, tuple[int, int]]] = WeakKeyDictionary()  # Sudokus share theirs


def _rules_of(group: Constraint, domains: Domains, most: int) -> tuple[int, int]:
    """How many rules a group of constraints becomes, and how many literals they have together; givens left aside."""
    known = _counted.get(group)
    if known is None or known[0].sizes is not domains.sizes:
        known = _counted[group] = domains, _count_rules(group, domains, most)
    return known[1]


def _count_rules(group: Constraint, domains: Domains, most: int) -> tuple[int, int]:
    if isinstance(group, NotEqual | Conflict):  # pairs of literals, from both ends
        return 0, 2 * len(group) * (1 if isinstance(group, Conflict) else most)
    if isinstance(group, Table):
        tuples = len(group) * len(group.tuples)
        return tuples, tuples * group.scopes.shape[1]
    literals = int(domains.sizes[group.members.variables].sum())
    if isinstance(group, AllDifferent):
        return len(group) * most, literals
    if isinstance(group, Function) and group.which == "element":  # each choice is a rule, with the result
        choices = len(group.scopes.variables)
        return choices, literals + choices * (int(domains.sizes[group.results].max(initial=1)) + 1)
    passes = 1 if not isinstance(group, Sum) or group.when is None else 2 + 2 * group.exactly
    return passes * len(group), passes * literals


def free_bytes() -> int | None:
    """What the machine, or the container that we are in, has left; None where it does not say."""
    left = []
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                left.append(1024 * int(line.split()[1]))
    except (OSError, ValueError):
        if "SC_PHYS_PAGES" in os.sysconf_names:
            left.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    try:
        most, used = ((CONTAINER / name).read_text() for name in ("memory.max", "memory.current"))
        left.append(int(most) - int(used))
    except (OSError, ValueError):  # no container, or one without a limit
        pass
    return min(left, default=None)


def gigabytes(number: int) -> str:
    return f"{number / 1e9:,.1f} GB"
