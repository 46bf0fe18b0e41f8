"""Simulated annealing, for variables with two values and an objective on pairs (MaxCut, weighted sets, QUBO, ...).

A sweep visits every variable. Flipping x_i costs drive_i (see `landscape`) or -drive_i. It is done if that is at most
T e, with e from the exponential distribution (Metropolis' rule). T falls linearly and is 0 in the end. Variables of one
colour do not see each other and are visited at the same time. Costs are whole numbers: `annealing_kernel` does the same
on a GPU, and comes to the same states.

Chains begin with the states of the sampler and at random. They are annealed in rounds, each from the best state that it
has found. The best state of all is the answer, after descent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn.functional import embedding_bag

from blogdit.core.clock import working_time
from blogdit.core.constraints import IntArray
from blogdit.core.instance import Instance
from blogdit.finishers.base import Deadline, Task
from blogdit.finishers.descent import descend, supports_descent
from blogdit.finishers.landscape import FINE, LEVELS, STILL, Landscape, landscape_of, levels, steps_of
from blogdit.finishers.pairs import terms_on_pairs
from blogdit.finishers.tasks import LocalSearch, all_enough, best_of, clean_starts, key_of, programs_at_once
from blogdit.method.noise import mix, wrap
from blogdit.network.runtime import runs_kernels

if TYPE_CHECKING:
    from blogdit.finishers.annealing_kernel import KernelSweeps

HOT, WARM, COLD = 0.35, 0.2, 0.044  # temperatures in units of the landscape's field: random starts, good ones, the end
EVERY, HOTTER = 4, 2.0  # one chain in 4 begins at twice HOT: variables with many neighbours freeze early
SWEEPS, ROUNDS = {"cpu": 250, "cuda": 1000}, {"cpu": 4, "cuda": 8}  # without a deadline: some seconds at most
FIRST_SWEEPS = 32  # of the first round under a deadline: enough to tell how long a sweep takes
GOOD_SWEEPS = 5000  # of a round, if there is time: with fewer, one long round finds more than several short ones
MOST_ROUNDS = 24  # of more than GOOD_SWEEPS each: with more time rounds get longer, not more
LAST_SHARE = 0.9  # of the time left, for the last round: sweeps may take a little longer than before
PATIENCE = 3  # rounds without a gain after which a chain begins again at random
ANNEALING_SHARE = 0.9  # of the time; the rest is for descent
CHAINS = 32  # of an instance; on a CPU a sweep of fewer hardly takes less time
CPU_CELLS = 1 << 16  # states times variables on a CPU: with more they leave the cache
FEWEST_CHAINS = 2  # on a CPU
GPU_CELLS = 1 << 27  # states times variables of all instances on a GPU: 128 MiB
GPU_TERMS = 1 << 26  # terms of all instances on a GPU: the table takes 1 GiB at most
EXACT = 1 << 24  # whole numbers that float32 can tell apart
NO_ENERGY = 1 << 62  # above every energy


class Annealing(LocalSearch):
    """Rounds of annealing, then descent."""

    name = "annealing"

    def supports(self, instance: Instance) -> bool:
        return supports_descent(instance) and bool((instance.domain_sizes <= 2).all())

    def share(self, instance: Instance) -> float:
        return max(instance.size * CHAINS / GPU_CELLS, terms_on_pairs(instance) / GPU_TERMS)

    def search(self, tasks: Sequence[Task], deadline: Deadline, seed: int) -> list[IntArray]:
        lands = [landscape_of(task.instance, deadline.passed) for task in tasks]
        device = self.device if self.kernels else torch.device("cpu")
        chains = Chains(lands, [clean_starts(task) for task in tasks], self._number(lands, deadline), device, seed)
        may_stop = self.may_stop(deadline)
        chains.run(deadline.share(ANNEALING_SHARE), lambda: may_stop and all_enough(tasks, chains.answers))
        answers = zip(tasks, chains.answers(), strict=True)
        return [
            best_of(task.instance, [descend(task.instance, values, deadline.share(1 / (len(tasks) - number))), values])
            for number, (task, values) in enumerate(answers)
        ]

    def _number(self, lands: Sequence[Landscape], deadline: Deadline) -> int:
        """Of chains for each instance."""
        variables = max(1, *(land.size for land in lands))
        if not self.kernels:
            return min(max(CPU_CELLS // variables, FEWEST_CHAINS), CHAINS)
        if deadline.unlimited:
            return CHAINS
        room = min(programs_at_once(self.device), GPU_CELLS // variables)  # few instances do not fill a GPU
        return max(room // len(lands), CHAINS)


class Chains:
    """States (C, B, N) of several instances, the best that each chain has found, and the best of all."""

    def __init__(
        self, lands: Sequence[Landscape], starts: Sequence[IntArray], number: int, device: torch.device, seed: int
    ):
        self.lands, self.number, self.device, self.round = lands, number, device, 0
        self.key = key_of(seed)
        self.energy_of = [land.energy_on(device) for land in lands]
        self.field = torch.tensor([land.field for land in lands], dtype=torch.float64, device=device)  # (B,)
        self.free = torch.zeros(len(lands), max(land.size for land in lands), dtype=torch.bool, device=device)
        self.states = torch.zeros(number, *self.free.shape, dtype=torch.int8, device=device)
        self.anew = torch.ones(number, len(lands), dtype=torch.bool, device=device)  # where a chain begins at random
        for place, (land, some) in enumerate(zip(lands, starts, strict=True)):
            self.free[place, np.concatenate([*land.colours, np.zeros(0, np.intp)])] = True
            self.states[:, place, : land.size] = torch.from_numpy(some[:1])
            self.states[: len(some), place, : land.size] = torch.from_numpy(some[:number])
            self.anew[: len(some), place] = False
        self.states = torch.where(self.anew[..., None], self._random_states(), self.states)
        self.energies = self._energies(self.states)  # (C, B)
        self.since_gain = torch.zeros_like(self.energies)  # rounds
        self.best_energy = torch.full_like(self.energies[0], NO_ENERGY)
        self.best = self.states[0].clone()  # (B, N)
        self._keep_best()
        self.sweeps = self._sweeps()

    def _sweeps(self) -> CpuSweeps | KernelSweeps:
        if not runs_kernels(self.device):
            return CpuSweeps(*self.lands)
        from blogdit.finishers.annealing_kernel import KernelSweeps

        return KernelSweeps(self.lands, self.device)

    def run(self, deadline: Deadline, enough: Callable[[], bool]) -> None:
        """A fixed number of rounds or, with a deadline, until then; fewer if the answers are good enough."""
        kind = "cuda" if runs_kernels(self.device) else "cpu"
        if not self.free.any():
            return
        if not deadline.unlimited:
            self._run_until(deadline, enough)
            return
        for _ in range(ROUNDS[kind]):
            self.take_round(SWEEPS[kind], deadline)
            if deadline.passed() or enough():
                return

    def _run_until(self, deadline: Deadline, enough: Callable[[], bool]) -> None:
        """A short round tells how long a sweep takes. The others have GOOD_SWEEPS or a share of all the time. Each is
        at most ten times as long as the one before, and the last takes what is left."""
        total, sweeps = deadline.left, FIRST_SWEEPS
        while not deadline.passed() and not enough():
            began = working_time()
            self.take_round(sweeps, deadline)
            rate = sweeps / max(working_time() - began, 1e-6)  # sweeps a second
            left = LAST_SHARE * rate * deadline.left
            wanted = min(max(GOOD_SWEEPS, rate * total / MOST_ROUNDS), 10 * sweeps)
            sweeps = max(int(left if left < 2 * wanted else wanted), 1)

    def take_round(self, sweeps: int, deadline: Deadline) -> None:
        """Anneal all chains and keep what is no worse than before."""
        self.round += 1
        second = torch.arange(self.number, device=self.device) % EVERY == 1
        hot = HOT * torch.where(second, HOTTER, 1.0).double()[:, None]
        begin = (torch.where(self.anew, hot, WARM) * self.field).long()
        end = (COLD * self.field).long().expand_as(begin)
        chain = torch.arange(self.number, dtype=torch.int32, device=self.device)
        salt = (chain * 0x3C6EF372 + wrap(self.round * 0x2545F491 + self.key))[:, None].expand_as(begin)
        found = self.sweeps.anneal(self.states, begin, end, salt.contiguous(), sweeps, deadline)
        energies = self._energies(found)
        kept = energies <= self.energies
        self.since_gain = torch.where(energies < self.energies, 0, self.since_gain + 1)
        self.states = torch.where(kept[..., None], found, self.states)
        self.energies = torch.where(kept, energies, self.energies)
        self._keep_best()
        self._restart()

    def _restart(self) -> None:
        """Chains that have not gained for long begin again at random."""
        self.anew = self.since_gain >= PATIENCE
        self.states = torch.where(self.anew[..., None], self._random_states(), self.states)
        self.energies = self.energies.masked_fill(self.anew, NO_ENERGY)
        self.since_gain = self.since_gain.masked_fill(self.anew, 0)

    def _keep_best(self) -> None:
        lowest, winner = self.energies.min(0)
        better = lowest < self.best_energy
        states = self.states[winner, torch.arange(len(winner), device=self.device)]
        self.best = torch.where(better[:, None], states, self.best)
        self.best_energy = torch.where(better, lowest, self.best_energy)

    def _energies(self, states: Tensor) -> Tensor:
        parts = zip(self.energy_of, self.lands, strict=True)
        found = [energy(states[:, place, : land.size]) for place, (energy, land) in enumerate(parts)]
        return torch.stack(found, 1)

    def _random_states(self) -> Tensor:
        """(C, B, N): random where a variable can change, by chain, variable and round; the same whatever is beside."""
        count = torch.arange(max(self.number, self.free.shape[1]), dtype=torch.int32, device=self.device)
        key = mix(count[: self.number] * 0x3C6EF372 + wrap(self.round * 0x27D4EB2F + self.key))
        bits = mix(key[:, None, None] + count[: self.free.shape[1]] * 0x5BD1E995) >> 16 & 1
        return torch.where(self.free, bits.to(torch.int8), self.states)

    def answers(self) -> list[IntArray]:
        """The best state of each instance."""
        found = self.best.long().cpu().numpy()
        return [row[: land.size] for row, land in zip(found, self.lands, strict=True)]


class CpuSweeps:
    """One instance on a CPU, its chains in columns (N, C) of spins s = 2 x - 1. What a variable sees of its neighbours
    is then a weighted sum of rows, which torch has as the sum over a bag of embeddings."""

    def __init__(self, land: Landscape):
        moving = np.concatenate([*land.colours, np.zeros(0, np.intp)])
        self.unit, self.order = land.unit, np.concatenate([moving, np.setdiff1d(np.arange(land.size), moving)])
        self.codes = (torch.from_numpy(self.order).int() * 0x5BD1E995)[:, None]
        kind = torch.float32 if 8 * land.reach < EXACT else torch.float64  # so that sums of halves are exact
        self.bags, (starts, others, pulls) = [], land.links
        row, degrees, first = np.argsort(self.order), np.diff(starts), 0
        for members in land.colours:
            degree = degrees[members]
            before = np.cumsum(degree) - degree
            at = np.repeat(starts[members] - before, degree) + np.arange(degree.sum())
            # The cost of a flip is -s_i (h_i + sum_j J_ij (1 + s_j) / 2).
            half = -torch.from_numpy(pulls[at]).to(kind) / 2
            neighbours, offsets = torch.from_numpy(row[others[at]]), torch.from_numpy(before)
            ones = torch.ones(len(self.order), 1, dtype=kind)
            alone = embedding_bag(neighbours, ones, offsets, mode="sum", per_sample_weights=half).numpy()
            alone -= land.drive[members][:, None]
            self.bags.append((slice(first, first + len(members)), alone, neighbours, offsets, half))
            first += len(members)
        self.kind = kind

    def anneal(self, x: Tensor, begin: Tensor, end: Tensor, salt: Tensor, sweeps: int, deadline: Deadline) -> Tensor:
        """States x (C, 1, N) annealed from temperatures `begin` to `end` (C, 1), in so many sweeps, or as many as there
        is time for. `salt` (C, 1) are the keys of the random numbers."""
        rows = np.ascontiguousarray(x[:, 0].numpy().T[self.order])
        spins = torch.from_numpy(2 * rows - 1).to(self.kind)
        steps, still = steps_of(sweeps), max(sweeps - STILL, 0)
        for number in range(sweeps):
            if deadline.passed():
                break
            if number == still or (number % steps == 0 and number < still):
                now = begin - (begin - end) * number // sweeps if number < still else torch.zeros_like(begin)
                table, column = self._table(now[:, 0].numpy())
            key = mix(salt[:, 0] + wrap(number * 0x9E3779B1))
            draws = (mix(self.codes ^ key) >> 20) & (LEVELS - 1)  # (N, C)
            self._sweep(spins, table.take(draws.numpy() + column))
        found = np.empty(spins.shape, np.int8)
        found[self.order] = spins.numpy() > 0
        return torch.from_numpy(np.ascontiguousarray(found.T))[:, None]

    def _table(self, temperature: IntArray) -> tuple[npt.NDArray[np.floating], npt.NDArray[np.int32]]:
        """T e for all values of e, one temperature after the other, and where those of each chain begin."""
        warmth, which = np.unique(temperature, return_inverse=True)
        table = (levels() * warmth[:, None] // (FINE * self.unit)).astype(torch.empty(0, dtype=self.kind).numpy().dtype)
        return table.reshape(-1), (which * LEVELS).astype(np.int32)

    def _sweep(self, spins: Tensor, limits: npt.NDArray[np.floating]) -> None:
        """Visit every variable; `limits` (N, C) is what a flip may cost."""
        values = spins.numpy()
        for members, alone, neighbours, offsets, half in self.bags:
            cost = embedding_bag(neighbours, spins, offsets, mode="sum", per_sample_weights=half).numpy()
            cost += alone
            cost *= values[members]
            np.negative(values[members], out=values[members], where=cost <= limits[members])
