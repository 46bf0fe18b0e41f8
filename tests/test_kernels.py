"""The Triton kernel gives the numbers of the plain computation; without a GPU it runs in Triton's interpreter."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from blogdit.core.constraints import NotEqual
from blogdit.core.instance import Instance
from blogdit.method.batch import collate
from blogdit.method.noise import StreamNoise
from blogdit.method.relations import RELATION_FEATURES
from blogdit.network.attention import (
    Divided,
    NeighbourLists,
    attend,
    lists_or_bits,
    neighbour_bias,
    neighbour_lists,
    pair_bits,
    pair_mask,
)
from blogdit.problems import coloring, generate
from blogdit.problems.graphs import random_graph
from helpers import generator

pytest.importorskip("triton")  # tests/conftest.py turns its interpreter on

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


BATCHES = {
    "weighted graphs": lambda: generate("maxcut", 2, seed=0, vertices="5-16", p_min=0.3, p_max=0.9, weights="mixed"),
    "graphs": lambda: generate("coloring", 2, seed=1, vertices="5-16", colors=3, p_min=0.5, p_max=0.9),
    "boards": lambda: generate("sudoku", 2, seed=2, box=2, min_givens=4, max_givens=6),
    "no relation": lambda: [Instance(np.full(3, 2))],
    "path": lambda: [Instance(np.full(3, 2), (NotEqual([[0, 1], [1, 2]]),))],
}


@pytest.mark.parametrize("name", BATCHES)
@pytest.mark.parametrize("signed", [False, True])
def test_kernel_equals_plain_attention(name, signed):
    """Outputs and gradients, for several rows, groups of different sizes and degrees above and below a chunk."""
    batch, heads, width = collate(BATCHES[name]()).to(DEVICE), 4, 4
    weights = torch.zeros(RELATION_FEATURES, heads, device=DEVICE)
    count = batch.groups * batch.variables
    qkv = torch.randn(2, count, 3, heads, width, generator=generator(7)).to(DEVICE).requires_grad_()
    slopes = torch.randn(2, count, heads, width, generator=generator(8)).to(DEVICE)
    plain = attend(qkv, neighbour_bias(batch, weights, signed))
    kernel = attend(qkv, neighbour_lists(batch, weights, signed))
    torch.testing.assert_close(kernel, plain, rtol=1e-5, atol=2e-6)
    gradients = [torch.autograd.grad(out, qkv, slopes)[0] for out in (plain, kernel)]
    torch.testing.assert_close(gradients[1], gradients[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", BATCHES)
def test_masked_kernel_equals_plain_attention(name):
    """Outputs and gradients; groups of one size with padding."""
    batch, heads, width = collate(BATCHES[name]()).to(DEVICE), 2, 16
    weights = torch.zeros(RELATION_FEATURES, heads, device=DEVICE)
    count = batch.groups * batch.variables
    qkv = torch.randn(2, count, 3, heads, width, generator=generator(7)).to(DEVICE).requires_grad_()
    slopes = torch.randn(2, count, heads, width, generator=generator(8)).to(DEVICE)
    plain, kernel = attend(qkv, neighbour_bias(batch, weights)), attend(qkv, pair_mask(batch))
    torch.testing.assert_close(kernel, plain, rtol=1e-5, atol=2e-6)
    gradients = [torch.autograd.grad(out, qkv, slopes)[0] for out in (plain, kernel)]
    torch.testing.assert_close(gradients[1], gradients[0], rtol=1e-4, atol=1e-5)


LARGER = {
    "several tiles": lambda: generate("coloring", 2, seed=1, vertices="130-150", colors=3, p_min=0.2, p_max=0.3),
    "hardly anything": lambda: [Instance(np.full(140, 2), (NotEqual([[0, 139], [70, 3]]),)), Instance(np.full(9, 2))],
}


@pytest.mark.parametrize("name", [*BATCHES, *LARGER])
def test_tiled_kernel_equals_plain_attention(name):
    """Groups of different sizes, with padding; smaller than a tile and larger than two."""
    batch, heads, width = collate((BATCHES | LARGER)[name]()).to(DEVICE), 2, 16
    weights = torch.zeros(RELATION_FEATURES, heads, device=DEVICE)
    qkv = torch.randn(3, batch.groups * batch.variables, 3, heads, width, generator=generator(7)).to(DEVICE)
    expected = attend(qkv, neighbour_bias(batch, weights))
    torch.testing.assert_close(attend(qkv, pair_bits(batch)), expected, rtol=1e-5, atol=2e-6)


def test_a_group_s_numbers_do_not_depend_on_the_others():
    """Bit for bit: a crowded graph by bits, one with few edges by lists, alone and side by side."""
    draws, weights = np.random.default_rng(3), torch.zeros(RELATION_FEATURES, 2, device=DEVICE)
    graphs = [coloring.build(random_graph(20, share, draws), colors=3) for share in (0.2, 0.9, 0.1)]
    qkv = torch.randn(2, 3 * 20, 3, 2, 16, generator=generator(5)).to(DEVICE)
    together = lists_or_bits(collate(graphs).to(DEVICE), weights)
    assert isinstance(together, Divided)
    assert together.few.tolist() == [0, 2]
    alone = [lists_or_bits(collate([graph]).to(DEVICE), weights) for graph in graphs]
    expected = [attend(part, bias) for part, bias in zip(qkv.split(20, 1), alone, strict=True)]
    assert torch.equal(attend(qkv, together), torch.cat(expected, 1))


def test_bits_say_who_sees_whom():
    """Variable 33 is bit 1 of the second word, and everybody sees himself."""
    batch = collate([Instance(np.full(34, 2), (NotEqual([[0, 33], [0, 31]]),))])
    words = pair_bits(batch).words[0]
    assert words.shape == (34, 2)
    assert words[0].tolist() == [1 - (1 << 31), 2]
    assert words[33].tolist() == [1, 2]
    assert words[5].tolist() == [1 << 5, 0]


def test_unweighted_graphs_need_half_of_the_signed_heads():
    """Without gradients, odd heads of relations that all push apart are left out; the numbers stay."""
    batch = collate(generate("maxcut", 2, seed=4, vertices="5-12")).to(DEVICE)
    weights = torch.zeros(RELATION_FEATURES, 4, device=DEVICE)
    qkv = torch.randn(3, batch.groups * batch.variables, 3, 4, 8, generator=generator(2)).to(DEVICE)
    whole = neighbour_lists(batch, weights, True)
    with torch.no_grad():
        half = neighbour_lists(batch, weights, True)
        weighted = collate(generate("maxcut", 2, seed=4, vertices="5-12", weights="signs")).to(DEVICE)
        assert not neighbour_lists(weighted, weights, True).even_only
    assert half.even_only
    assert half.bias is None
    assert not whole.even_only
    torch.testing.assert_close(attend(qkv, half), attend(qkv, whole), rtol=1e-5, atol=2e-6)


def test_lists_are_those_of_the_batch():
    """Neighbours of each variable, by hand."""
    batch = collate([Instance(np.full(4, 2), (NotEqual([[0, 2], [2, 3]]),))])
    lists = neighbour_lists(batch, torch.zeros(RELATION_FEATURES, 1))
    assert isinstance(lists, NeighbourLists)
    near = [lists.source[0, a:b].tolist() for a, b in zip(lists.starts[0][:-1], lists.starts[0][1:], strict=True)]
    assert near == [[2], [], [0, 3], [2]]


@pytest.mark.skipif(DEVICE == "cpu", reason="needs a GPU")
def test_bfloat16_is_close_to_float32():
    batch = collate(BATCHES["graphs"]()).to(DEVICE)
    qkv = torch.randn(2, batch.groups * batch.variables, 3, 4, 16, device=DEVICE)
    lists = neighbour_lists(batch, torch.zeros(RELATION_FEATURES, 4, device=DEVICE))
    torch.testing.assert_close(attend(qkv.bfloat16(), lists).float(), attend(qkv, lists), rtol=0.02, atol=0.02)


@pytest.mark.parametrize("normal", [True, False])
def test_noise_kernel_equals_plain_streams(normal):
    """Uniform numbers bit for bit, normal ones up to the last bits of logarithm and cosine."""
    from blogdit.network.kernels.noise import KernelNoise

    keys = torch.tensor([5, 0xFFFFFFFF, 0x80000001], device=DEVICE)
    draws = torch.tensor([0, 3, 70_000], device=DEVICE)
    plain = StreamNoise(keys.cpu(), draws.cpu())
    shape = (2, 3, 5, 7) if normal else (2, 3, 35)
    expected = plain.normal(*shape) if normal else plain.uniform(*shape)
    kernel = KernelNoise(keys, draws)
    numbers = (kernel.normal(*shape) if normal else kernel.uniform(*shape)).cpu()
    assert torch.equal(kernel.draws.cpu(), plain.draws)
    torch.testing.assert_close(numbers, expected, rtol=1e-4 if normal else 0, atol=1e-5 if normal else 0)


def test_kernels_compile_for_a_gpu():
    """The interpreter accepts what the compiler refuses. Needs no GPU."""
    environment = {**os.environ, "TRITON_INTERPRET": "0"}
    command = [sys.executable, str(Path(__file__).with_name("compile_kernels.py"))]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert len(done.stdout.splitlines()) == 26
