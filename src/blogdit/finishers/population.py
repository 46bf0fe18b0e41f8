"""The search after the last step: rounds of walks, each from a mixture of two good states of the same instance.

Independent sets have a search of their own (`swaps`). For all others: what two good states agree on is likely to be
right, so a new start keeps it and draws the rest from either. Large cuts and the like are annealed from there
(`cooling`), and then all walk. What a walk finds replaces the state that it stands for if it is no higher, and not what
a neighbour already has. Chains mix on islands of a few; sooner or later the states of an island are all alike, and then
it begins again at random.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

from blogdit.core.constraints import IntArray
from blogdit.core.instance import Instance
from blogdit.finishers.cooling import Cooling, can_cool
from blogdit.finishers.swaps import Stop, Swaps, can_swap, kind_of, together
from blogdit.finishers.terms import NEVER, list_size
from blogdit.finishers.walk import SIDE_BY_SIDE, Walk, fits_tables, room
from blogdit.method.noise import mix, wrap

ROUNDS = {"cpu": 1, "cuda": 8}  # unless they may take all the time
ROUND = 128  # moves for each variable in a round
SHORT_ROUND = 16  # on a CPU, unless it may take all the time
COOLED_ROUND = {"cpu": 64, "cuda": 1 << 13}  # moves after annealing, at most
SWEEPS = {"cpu": 200, "cuda": 1000}  # of annealing in a round, unless it may take all the time
FEWEST_SWEEPS, GOOD_SWEEPS, MOST_SWEEPS, MANY_ROUNDS = 32, 5000, 1 << 30, 24  # if it may: see `run_until`
TRIALS = {"cpu": 1, "cuda": 2}  # rounds that tell how many sweeps there is time for; on a GPU the first one compiles
ROOM = 0.9  # of the time left, for the sweeps of the last round
ISLAND = 8  # chains
PATIENCE = 3  # rounds that an island goes on without a gain
NOTHING = 1 << 62  # the energy of a state that is to be replaced
MOST_WORK = {"cpu": 10**9, "cuda": 5 * 10**11}  # moves times values that a move looks at: seconds for an instance
SQUARES = 1 << 30  # pairs of variables of all instances on the device
COLUMNS, FEW_CELLS = 32, 1 << 16  # on a CPU: with more chains, or pairs as above, a sweep takes longer
MOVED = 4  # starts of an instance whose table is too large for a GPU; the good ones come last
FEWEST_STARTS, MOST_LOOKUPS = 4, 1 << 25  # on a CPU: of these terms, so many are looked up for all starts together
LARGE_SET = 2048  # variables: on a CPU swaps take too long for more, unless there are too many pairs for annealing
MOST_CELLS = 1 << 27  # (variable, value) pairs of all walkers on the device

Enough = Callable[[Instance, IntArray], bool]


def search(
    instances: Sequence[Instance],
    values: Tensor,
    width: int,
    deadline: float = math.inf,
    stopped: Stop = lambda: False,
    all_the_time: bool = False,
    enough: Enough | None = None,
) -> Tensor:
    """The lowest state that any chain of an instance comes across, (B, N); `values` (chains, B, N) are the starts.
    A number of rounds, or what there is time for; with `all_the_time` it goes on until the deadline, unless all answers
    are good `enough`."""
    began, variables = time.monotonic(), max(values.shape[2], 1)
    found = torch.empty_like(values[0], dtype=torch.long)
    done = 0
    for how, where, number, places in _parts(instances, values, width):
        members = [instances[place] for place in places]
        if all_the_time:
            number = min(number, _most_starts(members, where, len(values)))
        starts = values[-number:, places].to(where)
        population: Swaps | Population
        if how == "swaps":
            population = Swaps(members, starts, all_the_time)
        else:
            more = _walkers(len(members), variables * width, where.type, how == "cools") if all_the_time else 0
            population = Population(members, starts, width, more, how == "cools")
        done += len(members)
        end = began + (deadline - began) * done / len(instances)
        goal = Goal(population, members, stopped, enough)
        if isinstance(population, Swaps):
            population.run(end, goal.may_end)
        elif all_the_time:
            population.run_until(end, stopped, goal.may_end, soon=enough is not None)
        else:
            population.run(end, stopped, goal.may_end)
        found[places] = (population.lowest() if all_the_time else goal.answers()).to(found.device)
    return found


class Goal:
    """The answers that are good enough, as they were when that was first seen: whoever has to go on beside them, they
    are the same."""

    def __init__(
        self, population: Swaps | Population, instances: Sequence[Instance], stopped: Stop, enough: Enough | None
    ):
        self.population, self.instances, self.stopped, self.enough = population, instances, stopped, enough
        self.kept: dict[int, Tensor] = {}  # by place

    def may_end(self) -> bool:
        """Whether it was stopped, or all are good enough."""
        if self.enough is None or self.stopped():
            return self.stopped()
        for place, state in enumerate(self.population.lowest().cpu()):
            instance = self.instances[place]
            if place not in self.kept and self.enough(instance, state[: instance.size].numpy()):
                self.kept[place] = state
        return len(self.kept) == len(self.instances)

    def answers(self) -> Tensor:
        """(B, N), the lowest of those that are not."""
        found = self.population.lowest()
        for place, state in self.kept.items():
            found[place] = state.to(found.device)
        return found


def _parts(
    instances: Sequence[Instance], values: Tensor, width: int
) -> Iterator[tuple[str, torch.device, int, list[int]]]:
    """How and where instances are searched, from how many starts, and their places, as many as there is room for: what
    an instance gets must not depend on those beside it."""
    variables = max(values.shape[2], 1)
    ways = [_way(one, values, width) for one in instances]
    for how, where, number in sorted(set(ways), key=str):
        alike = [place for place, way in enumerate(ways) if way == (how, where, number)]
        kind, members = kind_of(where), [instances[place] for place in alike]
        most = min(room(members, variables, kind == "cuda"), max(SQUARES // variables**2, 1))
        if how == "swaps":
            most = together(len(values), variables, kind)
        for at in range(0, len(alike), most):
            yield how, where, number, alike[at : at + most]


def _way(instance: Instance, values: Tensor, width: int) -> tuple[str, torch.device, int]:
    """How and where an instance is searched: on a GPU, unless its table is too large; and from how many starts."""
    fits = values.device.type == "cpu" or fits_tables(instance, values.shape[2])
    where = values.device if fits else torch.device("cpu")
    number = _most_starts([instance], where, len(values)) if fits else MOVED
    swaps, cools = can_swap(instance), can_cool(instance, where, width)
    if swaps and cools and kind_of(where) == "cpu" and instance.size > LARGE_SET:
        return "cools", where, number
    return "swaps" if swaps else "cools" if cools else "walks", where, number


def _most_starts(instances: Sequence[Instance], where: torch.device, starts: int) -> int:
    """How many starts of these there is time for; on a CPU looking up their terms takes long."""
    if where.type != "cpu":
        return starts
    return min(max(MOST_LOOKUPS // max(sum(map(list_size, instances)), 1), FEWEST_STARTS), starts)


def _walkers(instances: int, cells: int, kind: str, cools: bool) -> int:
    """How many chains of an instance go on side by side, if they may take all the time."""
    if kind == "cuda":  # few instances do not fill the device
        return min(SIDE_BY_SIDE, MOST_CELLS // cells) // instances
    return min(COLUMNS, FEW_CELLS // cells) if cools else 0


class Population:
    """A good state for each chain, (C, B, N), and their energies (C, B)."""

    def __init__(
        self, instances: Sequence[Instance], values: Tensor, width: int, walkers: int = 0, cools: bool = False
    ):
        """`values` are the first states; should there be more walkers, random ones follow."""
        given, missing = len(values), max(walkers - len(values), 0)
        starts = torch.cat([values, values[:1].expand(missing, -1, -1)])
        self.walk = Walk(instances, starts, width)
        drawn = self._drawn(starts)
        self.walk.start(drawn)
        self.chance = self.walk.energy.view(starts.shape[:2]).double().mean(0)  # energies at random, (B,)
        self.free = torch.tensor([not any(map(len, one.constraints)) for one in instances], device=starts.device)
        starts[given:] = drawn[given:]
        self.walk.start(starts)
        self.cooling = Cooling(self.walk) if cools else None
        # Where only the differences of two values count, a state and its mirror image are the same.
        terms = self.walk.terms
        on_values = terms.instance[(terms.own >= 0) & (terms.weight != 0)]
        differences = torch.bincount(on_values, minlength=len(instances)) == 0
        alike = differences & (self.walk.alone == 0).all(2).eq(self.walk.real).all(1)
        self.mirrored = alike & (width == 2)  # (B,)
        self.states, self.energies = self._outcome()
        self.best_energy, self.best = self.energies[0].clone(), self.states[0].clone()  # of all, (B,) and (B, N)
        # A rest of one chain would have nobody to mix with.
        self.island = (torch.arange(len(starts), device=starts.device) // ISLAND).clamp(
            max=max((len(starts) - 2) // ISLAND, 0)
        )
        self.record = torch.full((int(self.island[-1]) + 1, len(instances)), NOTHING, device=starts.device)
        self.since_gain = torch.zeros_like(self.record)  # rounds, by island and instance
        self._keep_best(self.states, self.energies)
        # Where the chains begin the next round, and for which of them that is as good as random.
        self.starts, self.anew = self.states, torch.zeros_like(self.energies, dtype=torch.bool)
        self.anew[given:] = True
        self.annealing = 0.0  # seconds of the last round

    def run(self, deadline: float, stopped: Stop, may_end: Stop) -> None:
        """A number of rounds, unless the time is over."""
        kind, variables = self.states.device.type, self.walk.variables
        length = self._length(ROUND if kind == "cuda" else SHORT_ROUND)
        most = MOST_WORK[kind] // max(len(self.states) * variables * self.walk.width, 1)
        moves, sweeps = min(ROUNDS[kind] * length, most), max(min(SWEEPS[kind], most // 8), 1)
        for number in range(ROUNDS[kind]):
            if moves <= 0 or (number and not self._mix()):
                return
            if not self._round(min(moves, length), sweeps, deadline, stopped, may_end):
                return
            moves -= length

    def run_until(self, deadline: float, stopped: Stop, may_end: Stop, soon: bool = False) -> None:
        """Rounds until the time is over. Short ones tell how many sweeps of annealing there is time for; the others
        have GOOD_SWEEPS or a share of all the time, and the last takes what is left. If it may end `soon`, because
        something was asked for that it may reach, each round takes at most twice as long as the one before."""
        length, sweeps, began = self._length(ROUND), FEWEST_SWEEPS, time.monotonic()
        trials = 0 if self.cooling is None else TRIALS[self.states.device.type]
        while True:
            start, before = time.monotonic(), self.energies
            if not self._round(length, sweeps, deadline, stopped, may_end):
                return
            if trials > 0:  # too short to learn from: the next begins where it did
                self.anew |= self._near_chance(before)
            elif not self._mix():
                return
            trials, now = trials - 1, time.monotonic()
            rate, walking = sweeps / max(self.annealing, 1e-9), now - start - self.annealing
            left, all_of_it = ROOM * rate * (deadline - now - walking), rate * (deadline - began)
            most = min(2 * sweeps, MOST_SWEEPS) if soon else MOST_SWEEPS
            sweeps = int(min(most, max(GOOD_SWEEPS, all_of_it / MANY_ROUNDS)))
            if left < 2 * sweeps:
                sweeps = int(left)
            sweeps = FEWEST_SWEEPS if trials > 0 else max(sweeps, FEWEST_SWEEPS)

    def _near_chance(self, before: Tensor) -> Tensor:
        """Where a trial began nearer to chance than to what it found, (C, B). With constraints, whose violations go at
        any temperature, that says little."""
        return self.free & (2 * before > self.chance + self.energies)

    def _length(self, moves: int) -> int:
        """Of a walk, so many moves for each variable, but few after annealing, which has done most of the work."""
        variables = max(self.walk.variables, 1)
        if self.cooling is None:
            return moves * variables
        return min(SHORT_ROUND * variables, COOLED_ROUND[self.states.device.type])

    def _round(self, moves: int, sweeps: int, deadline: float, stopped: Stop, may_end: Stop) -> bool:
        """Anneal, walk, and see what came out. False if the time was over."""
        began, starts = time.monotonic(), self.starts
        if self.cooling is not None:
            starts = self.cooling.run(starts, self.anew, sweeps, deadline, stopped)
        self.annealing = time.monotonic() - began
        self.walk.start(starts)
        going_on = self.walk.run(moves, deadline, may_end)
        self._accept(*self._outcome())
        return going_on

    def _mix(self) -> bool:
        """Starts for the next round, if there is anything to mix."""
        if len(self.states) > 1:
            self.starts, self.anew = self._children()
        return len(self.states) > 1

    def lowest(self) -> Tensor:
        """(B, N), with what walks under way have found."""
        self._keep_best(*self._outcome())
        return self.best.long()

    def _keep_best(self, states: Tensor, energies: Tensor) -> None:
        lowest, winner = energies.min(0)
        better = lowest < self.best_energy
        self.best_energy = torch.where(better, lowest, self.best_energy)
        states = states[winner, torch.arange(len(winner), device=winner.device)]
        self.best = torch.where(better[:, None], states, self.best)

    def _outcome(self) -> tuple[Tensor, Tensor]:
        """The best of each walk; of two mirror images the one that begins with 0."""
        chains, size = self.walk.chains, self.walk.size
        return self._upright(self.walk.best_x.view(chains, size, -1)), self.walk.best.view(chains, size).clone()

    def _upright(self, states: Tensor) -> Tensor:
        turned = self.mirrored[:, None] & (states[..., :1] == 1) & self.walk.real
        return torch.where(turned, 1 - states, states)

    def _accept(self, states: Tensor, energies: Tensor) -> None:
        """What is no higher and not known on its island; first of the first chain of every island, and so on."""
        first, size, place = self._places()
        islands = self.island[:, None].expand_as(energies)
        for number in range(int(size.max())):
            chosen = first + (size - 1).clamp(max=number)  # of each chain's island
            same = (self.energies == energies[chosen]) & (self.states == states[chosen]).all(2)
            known = torch.zeros_like(self.record).scatter_add(0, islands, same.long()).gather(0, islands)
            taken = (place == number)[:, None] & (energies <= self.energies) & (known == 0)
            self.states = torch.where(taken[..., None], states, self.states)
            self.energies = torch.where(taken, energies, self.energies)
        self._keep_best(self.states, self.energies)
        lowest = self.record.scatter_reduce(0, islands, self.energies, "amin")
        self.since_gain = torch.where(lowest < self.record, 0, self.since_gain + 1)
        self.record = lowest

    def _bits(self, lane: int) -> Tensor:
        """(C, 1, N) random 16-bit numbers, by chain, variable and round: the same whoever else is there."""
        chains, variables = self.walk.chains, self.walk.variables
        count = torch.arange(max(chains, variables), dtype=torch.int32, device=self.walk.real.device)
        key = mix(count[:chains] * 0x3C6EF372 + wrap(self.walk.round * 0x27D4EB2F + lane * 0x165667B1))
        return (mix(key[:, None, None] + count[:variables] * 0x5BD1E995) >> 16) & 0xFFFF

    def _places(self) -> tuple[Tensor, Tensor, Tensor]:
        """Of each chain: the first of its island, the size of its island, its place there; (C,)."""
        first = torch.searchsorted(self.island, self.island)
        size = torch.searchsorted(self.island, self.island, right=True) - first
        return first, size, torch.arange(len(self.island), device=first.device) - first

    def _partners(self) -> Tensor:
        """Another chain of the same island for each chain, (C,)."""
        first, size, place = self._places()
        return first + (place + 1 + self.walk.round % (size - 1).clamp(min=1)) % size

    def _children(self) -> tuple[Tensor, Tensor]:
        """A start for every chain: its own state mixed with that of another chain of its island. If these are nearly
        the same, a tenth of the variables are drawn anew; all of them, if the island has not gained for long: which
        chains these are is the second answer, (C, B)."""
        own, other = self.states, self.states[self._partners()]
        sizes = self.walk.real.sum(1)
        apart = (own != other).sum(2)  # (C, B)
        turned = self.mirrored & (2 * apart > sizes)
        other = torch.where(turned[..., None] & self.walk.real, 1 - other, other)
        apart = torch.where(turned, sizes - apart, apart)
        child = torch.where(self._bits(0) & 1 == 0, own, other)
        shaken = (100 * apart < sizes)[..., None] & (self._bits(2) < 0xFFFF // 10)
        exhausted = self.since_gain >= PATIENCE  # (islands, B)
        anew = exhausted[self.island]
        self.record = self.record.masked_fill(exhausted, NOTHING)
        self.since_gain = self.since_gain.masked_fill(exhausted, 0)
        self.energies = self.energies.masked_fill(anew, NOTHING)
        drawn = self._drawn(child)
        self.states = torch.where(anew[..., None], self._upright(drawn), self.states)  # the old one is no parent
        return torch.where(shaken | anew[..., None], drawn, child), anew

    def _drawn(self, states: Tensor) -> Tensor:
        """Random values, where a variable may have them."""
        drawn = (self._bits(1) % self.walk.width).expand_as(states)
        alone = self.walk.alone.expand(len(states), -1, -1, -1)
        return torch.where(alone.gather(3, drawn[..., None].long())[..., 0] < NEVER, drawn, states)
