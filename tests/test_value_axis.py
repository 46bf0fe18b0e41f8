"""The maximum over values and its gradient."""

from __future__ import annotations

import torch

from blogdit.value_axis import highest_value
from helpers import generator


def test_the_highest_value_and_its_gradient():
    """Those of torch where no two are equal; of equals the first has it all."""
    u, weights = torch.randn(3, 5, 4, 2, generator=generator()), torch.randn(3, 4, 2, generator=generator(1))
    gradients = []
    for function in (highest_value, lambda x: x.amax(1)):
        x = u.clone().requires_grad_()
        found = function(x)
        assert torch.equal(found, u.amax(1))
        (found * weights).sum().backward()
        gradients.append(x.grad)
    assert torch.equal(*gradients)
    equal = torch.ones(1, 3, 1, 1, requires_grad=True)
    highest_value(equal).sum().backward()
    assert equal.grad.flatten().tolist() == [1.0, 0.0, 0.0]
    assert torch.equal(highest_value(u), u.amax(1))
