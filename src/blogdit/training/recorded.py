"""An update that a GPU records once and replays."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from blogdit.method.noise import GeneratorNoise
from blogdit.network.kernels.recording import record
from blogdit.training.shelf import Shelf
from blogdit.training.state import Chains, Orders

Work = Callable[[Shelf, Orders], Tensor]


class Recorded:
    """An update of a shelf as a CUDA graph. It reads orders from tensors of its own, and chains come back to where they
    were."""

    def __init__(self, work: Work, shelf: Shelf, orders: Orders, noise: GeneratorNoise):
        self.orders = Orders(*(tensor.clone() for tensor in vars(orders).values()))
        chains = Chains(*vars(shelf.chains).values())

        def whole() -> None:
            self.outcome = work(shelf, self.orders)
            for place, tensor in zip(vars(chains).values(), vars(shelf.chains).values(), strict=True):
                place.copy_(tensor)

        state = noise.generator.get_state()
        self.graph = record(whole, "updates", [noise.generator])
        shelf.chains = chains  # where it finds them and leaves them
        if self.graph is None:  # the generator may still believe that it is being recorded
            device = noise.generator.device
            noise.generator = torch.Generator(device)
            noise.generator.set_state(state)

    def replay(self, orders: Orders) -> Tensor:
        assert self.graph is not None
        for place, tensor in zip(vars(self.orders).values(), vars(orders).values(), strict=True):
            place.copy_(tensor)
        self.graph.replay()
        return self.outcome.clone()  # the next one writes there again
