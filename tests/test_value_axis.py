"""The kernels of a layer give the numbers and gradients of torch; without a GPU they run in Triton's interpreter."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from blogdit.network import value_axis
from blogdit.network.value_axis import add_norm, add_norm_pool, add_relu
from helpers import generator

pytest.importorskip("triton")  # tests/conftest.py turns its interpreter on
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
SHAPE = (2, 3, 21, 64)  # two tiles of variables, the second not full


def numbers(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=generator(seed)).to(DEVICE).requires_grad_()


def both_ways(monkeypatch, function, inputs: list[Tensor]) -> list[list[Tensor]]:
    """Outputs and gradients of a weighted sum of them, from torch's operations and from the kernels."""
    found = []
    for fused in (False, True):
        monkeypatch.setattr(value_axis, "fuses", lambda h, fused=fused: fused)
        outputs = function()
        total = sum((out * torch.sin(torch.arange(out.numel(), device=DEVICE)).view_as(out)).sum() for out in outputs)
        found.append([*outputs, *torch.autograd.grad(total, inputs)])
    return found


def norm() -> nn.LayerNorm:
    made = nn.LayerNorm(64).to(DEVICE)
    with torch.no_grad():
        made.weight.copy_(numbers(64, seed=5))
        made.bias.copy_(numbers(64, seed=6))
    return made


def test_norm_of_a_sum(monkeypatch):
    h, change, made = numbers(*SHAPE), numbers(*SHAPE, seed=1), norm()
    plain, fast = both_ways(monkeypatch, lambda: add_norm(h, change, made), [h, change, made.weight, made.bias])
    for one, other in zip(plain, fast, strict=True):
        torch.testing.assert_close(other, one, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("masked", [False, True])
def test_pools(monkeypatch, masked):
    h, change, made = numbers(*SHAPE), numbers(*SHAPE, seed=1), norm()
    domain = None
    if masked:
        allowed = torch.rand(21, 3, generator=generator(3)).to(DEVICE) < 0.5
        allowed[:, 1] = True  # every variable has a value
        domain = allowed.T[..., None]  # with the strides that it has in the network
    inputs = [h, change, made.weight, made.bias]
    plain, fast = both_ways(monkeypatch, lambda: add_norm_pool(h, change, made, domain), inputs)
    for one, other in zip(plain, fast, strict=True):
        torch.testing.assert_close(other, one, rtol=1e-4, atol=1e-4)


def test_of_equal_values_the_first_has_the_gradient(monkeypatch):
    """Torch would share it, comparing rounded numbers once more in the backward pass."""
    monkeypatch.setattr(value_axis, "fuses", lambda h: True)
    made, h = norm(), numbers(1, 1, 2, 64).expand(1, 3, 2, 64).contiguous().detach().requires_grad_()
    highest = add_norm_pool(h, torch.zeros_like(h), made, None)[2]
    (gradient,) = torch.autograd.grad((highest * numbers(1, 2, 64, seed=2)).sum(), h)
    assert gradient[:, 0].abs().max() > 0
    assert (gradient[:, 1:] == 0).all()


def test_relu_of_a_sum(monkeypatch):
    a, pooled = numbers(2, 3, 21, 128), numbers(2, 21, 128, seed=1)
    plain, fast = both_ways(monkeypatch, lambda: [add_relu(a, pooled)], [a, pooled])
    for one, other in zip(plain, fast, strict=True):
        torch.testing.assert_close(other, one, rtol=1e-5, atol=1e-5)


def test_bfloat16_is_close_to_float32(monkeypatch):
    made = norm()
    monkeypatch.setattr(value_axis, "fuses", lambda h: True)
    whole, change = numbers(*SHAPE), numbers(*SHAPE, seed=1)
    exact = add_norm_pool(whole, change, made, None)
    rounded = add_norm_pool(whole.bfloat16(), change.bfloat16(), made, None)
    for one, other in zip(exact, rounded, strict=True):
        assert other.dtype == torch.bfloat16
        torch.testing.assert_close(other.float(), one, rtol=0.05, atol=0.08)


def test_only_training_on_a_gpu_uses_them():
    h = numbers(*SHAPE)
    assert value_axis.fuses(h) == (DEVICE == "cuda")
    assert not value_axis.fuses(h.detach())
    assert not value_axis.fuses(numbers(2, 3, 4, 48))
