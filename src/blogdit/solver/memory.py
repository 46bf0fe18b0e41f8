"""What the chains of an instance need in memory, estimated before anything is allocated."""

from __future__ import annotations

import os
from pathlib import Path

from blogdit.core.instance import Instance
from blogdit.method.batch import padded_size
from blogdit.method.relations import count_pairs
from blogdit.network.config import DenoiserConfig

# Numbers of 4 bytes that a step keeps for each value of a variable, in widths of the network's parts, and for each
# related pair. Measured on a CPU: 5.6 to 6.8 KB for a value with 64-wide layers, where this says 6.1.
BYTES_OF_PAIR = 256
CONTAINER = Path("/sys/fs/cgroup")


def bytes_of_chain(instance: Instance, config: DenoiserConfig) -> int:
    """Of one chain: the instance's own tensors and what a step of the network needs, about."""
    widths = 8 * config.dim + 8 * config.heads * config.head_dim + 4 * config.ffn_factor * config.dim
    values = int(instance.domain_sizes.max(initial=1))
    return padded_size(instance) * values * 4 * widths + BYTES_OF_PAIR * count_pairs(instance)


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
