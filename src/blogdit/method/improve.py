"""A short search over the block alone, with the rest of the state as it is: what a step could have done better.

From the block that the network sampled, heat-bath moves at a falling temperature change some of its variables at a
time, each given all the others. The best assignment on the way agrees with the visible state, and lies near what the
network meant. So it is a target that the network can learn (`training/loss.py`).
"""

from __future__ import annotations

import torch
from torch import Tensor

from blogdit.method.batch import Batch
from blogdit.method.energy import discrete_energy, move_costs
from blogdit.method.noise import Noise

MOVED = 0.25  # share of the block that moves at a time: neighbours that move together do not see each other's move


@torch.no_grad()
def improved(
    values: Tensor, block: Tensor, batch: Batch, sweeps: int, heat: float, noise: Noise
) -> tuple[Tensor, Tensor]:
    """Values (R, M) whose block was searched in so many moves, from the temperature `heat` (in units of the energy)
    down, and for which chains (R, G) they have a lower energy than before."""
    start = discrete_energy(values, batch)[0]
    best, lowest = values, start
    shape = (batch.chains, batch.size, batch.variables)
    for sweep in range(sweeps):
        temperature = heat * (1 - (sweep + 1) / sweeps)
        costs = move_costs(values, batch).masked_fill(~batch.domain, float("inf"))
        uniform = noise.uniform(batch.chains, batch.size, batch.variables * batch.values).clamp(1e-7, 1 - 1e-7)
        luck = -torch.log(-torch.log(batch.lay(uniform.view(*shape, -1))))  # Gumbel: the argmax is a heat-bath draw
        chosen = (luck * temperature - costs).argmax(-1)
        moving = block & (batch.lay(noise.uniform(*shape)) < MOVED)
        values = torch.where(moving, chosen, values)
        total = discrete_energy(values, batch)[0]
        better = total < lowest - 1e-6
        lowest = torch.where(better, total, lowest)
        best = torch.where(better.repeat_interleave(batch.variables, 1), values, best)
    return best, lowest < start - 1e-6
