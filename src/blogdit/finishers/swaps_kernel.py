"""Steps of `swaps_walker.Walker` on a GPU. A program has one walker, its set in registers, and reads its weights."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
import triton
import triton.language as tl

from blogdit.core.constraints import IntArray
from blogdit.finishers.swaps_walker import HEAVIER_EVERY, HEAVIEST, Bools, Graph, first_order

# A key of 63 bits: load (20 bits), the step of the last change (31 bits), the variable (12 bits).
INDEX = tl.constexpr(12)
LOAD = tl.constexpr(43)
FIRST = tl.constexpr(4096)  # steps before the first: orders begin below 0
LATEST = tl.constexpr(0x7FFFFFFF - 4096)
MOST_LOAD = tl.constexpr((1 << 20) - 1)
NOBODY = tl.constexpr(0x7FFFFFFFFFFFFFFF)
MOST = tl.constexpr(HEAVIEST)


@triton.jit
def _key(load, time, i):
    return (tl.minimum(load, MOST_LOAD).to(tl.int64) << LOAD) | (time.to(tl.int64) << INDEX) | i


# No versions of their own for sizes of 1 and multiples of 16.
@triton.jit(do_not_specialize=["now", "steps", "variables", "instances"])
def _swap_kernel(
    weights_ptr, may_enter_ptr, x_ptr, load_ptr, since_ptr, best_x_ptr, best_ptr, last_ptr,
    now, steps, variables, instances, stride, every: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    i = tl.arange(0, block)
    here, at = i < variables, row * variables + i
    weights_ptr += row * variables * stride
    may_enter = tl.load(may_enter_ptr + (row % instances) * variables + i, mask=here, other=0) != 0
    x, load = tl.load(x_ptr + at, mask=here, other=0), tl.load(load_ptr + at, mask=here, other=0)
    since = tl.load(since_ptr + at, mask=here, other=0)
    best_x = tl.load(best_x_ptr + at, mask=here, other=0)
    best, last, count = tl.load(best_ptr + row), tl.load(last_ptr + row), tl.sum(x, 0)
    for _ in range(steps):
        now += 1
        outside = may_enter & (x == 0) & (i != last)
        coming = tl.min(tl.where(outside, _key(load, since + FIRST, i), NOBODY), 0)
        if coming == NOBODY:
            last = -1
        else:
            variable = (coming & 0xFFF).to(tl.int32)
            load += tl.load(weights_ptr + variable.to(tl.int64) * stride + i, mask=here, other=0).to(tl.int32)
            x = tl.where(i == variable, 1, x)
            since = tl.where(i == variable, now, since)
            count += 1
            torn = (x == 1) & (load > 0)
            # The heaviest, and of equals the one that has been there longest; 0 if there is none.
            key = _key(load, -since + LATEST, i)
            leaving = tl.max(tl.where(torn & (i != variable), key, 0), 0)
            if leaving == 0:
                last = -1
                if count > best:
                    best = count
                    best_x = x
            elif count > best + 1:
                last = (leaving & 0xFFF).to(tl.int32)
                load -= tl.load(weights_ptr + last.to(tl.int64) * stride + i, mask=here, other=0).to(tl.int32)
                x = tl.where(i == last, 0, x)
                since = tl.where(i == last, now, since)
                count -= 1
                torn = (x == 1) & (load > 0)
                left = torn.to(tl.int32)
                number = tl.sum(left, 0)
                if number == 0:
                    best = count
                    best_x = x
                number = tl.where(now % every == 0, number, 0)
                while number > 0:  # of these pairs the weight
                    heavier = tl.min(tl.where(left == 1, i, block), 0)
                    place = weights_ptr + heavier.to(tl.int64) * stride + i
                    weight = tl.load(place, mask=here, other=0)
                    more = torn & (weight > 0) & (weight < MOST)
                    tl.store(place, weight + 1, mask=more)
                    load += more.to(tl.int32)
                    left = tl.where(i == heavier, 0, left)
                    number -= 1
                tl.debug_barrier()  # what was written is read again
    tl.store(x_ptr + at, x, mask=here)
    tl.store(load_ptr + at, load, mask=here)
    tl.store(since_ptr + at, since, mask=here)
    tl.store(best_x_ptr + at, best_x, mask=here)
    tl.store(best_ptr + row, best)
    tl.store(last_ptr + row, last)


class KernelWalkers:
    """Walkers of several graphs, all with as many walkers, in rows (C * B); `weights` (rows, N, stride)."""

    def __init__(
        self, graphs: Sequence[Graph], starts: Sequence[Bools], variables: int, device: torch.device, seed: int
    ):
        size, chains = len(graphs), len(starts[0])
        self.graphs, self.size, self.chains, self.variables, self.taken = graphs, size, chains, variables, 0
        x, since = np.zeros((2, chains, size, variables), np.int32)
        may_enter = np.zeros((size, variables), np.int32)
        stride = -(-variables // 16) * 16  # rows begin at multiples of 32 bytes
        weights = torch.zeros(size, variables, stride, dtype=torch.int16, device=device)
        for place, (graph, sets) in enumerate(zip(graphs, starts, strict=True)):
            own = graph.size
            weights[place, :own, :own] = torch.from_numpy(graph.near).to(device)
            may_enter[place, :own] = graph.may_enter
            x[:, place, :own] = sets
            since[:, place, :own] = [first_order(own, number, seed) for number in range(chains)]
        self.may_enter, self.x, self.since = (torch.from_numpy(t).to(device) for t in (may_enter, x, since))
        near = weights[:, :, :variables].float()  # (B, N, N)
        self.load = torch.einsum("cbn,bnm->cbm", self.x.float(), near).int().reshape(-1, variables).contiguous()
        del near
        self.x, self.since = self.x.view(-1, variables), self.since.view(-1, variables)
        self.weights = weights.repeat(self.chains, 1, 1)
        self.best_x, self.best_size = self.x.clone(), self.x.sum(1, dtype=torch.int32)
        self.last = torch.full_like(self.best_size, -1)

    def take(self, steps: int) -> None:
        block = max(triton.next_power_of_2(self.variables), 32)
        _swap_kernel[(len(self.x),)](
            self.weights, self.may_enter, self.x, self.load, self.since, self.best_x, self.best_size, self.last,
            self.taken, steps, self.variables, self.size, self.weights.shape[2],
            every=HEAVIER_EVERY, block=block, num_warps=min(max(block // 256, 1), 16),
        )  # fmt: skip
        self.taken += steps

    def done(self) -> bool:
        """Whether every instance has all of its variables in a set."""
        largest = self.best_size.view(self.chains, self.size).amax(0)
        return bool((largest == self.may_enter.sum(1)).all())

    def answers(self) -> list[IntArray]:
        winner = self.best_size.view(self.chains, self.size).argmax(0)
        rows = self.best_x[winner * self.size + torch.arange(self.size, device=winner.device)].long().cpu().numpy()
        return [row[: graph.size] for row, graph in zip(rows, self.graphs, strict=True)]
