"""The fused network gives the numbers of the plain one; without a GPU its kernels run in Triton's interpreter."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from blogdit.core.instance import Instance
from blogdit.method.batch import collate
from blogdit.network.attention import Divided, lists_or_bits, neighbour_bias, neighbour_lists, pair_bits
from blogdit.network.config import DenoiserConfig
from blogdit.network.denoiser import Denoiser
from blogdit.problems import coloring, generate
from blogdit.problems.graphs import random_graph
from helpers import generator

pytest.importorskip("triton")  # tests/conftest.py turns its interpreter on
from blogdit.network.kernels.fused import FusedDenoiser

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
BATCHES = {
    "boards": (lambda: generate("sudoku", 1, seed=2, box=2, min_givens=4, max_givens=6), {"position_dims": 2}),
    "weighted graphs": (lambda: generate("maxcut", 2, seed=0, vertices="5-12", weights="mixed"), {"signed": True}),
}


def network(**settings):
    config = DenoiserConfig(**{"dim": 16, "heads": 2, "head_dim": 8, "layers": 2, "relation": "neighbours"} | settings)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        model = Denoiser(config).to(DEVICE)
        for parameter in model.body.parameters():  # biases and norms too
            parameter.data += 0.2 * torch.randn_like(parameter)
    return model


@pytest.mark.parametrize("name", BATCHES)
@pytest.mark.parametrize("chains", [1, 2])
def test_fused_equals_plain(name, chains):
    make, settings = BATCHES[name]
    batch, model = collate(make(), chains=chains).to(DEVICE), network(**settings)
    logits = torch.randn(batch.rows, batch.groups * batch.variables, batch.values, generator=generator(3)).to(DEVICE)
    block = (torch.rand(logits.shape[:2], generator=generator(4)) < 0.5).to(DEVICE)
    context = model.context(batch)
    plain = model(logits, block, context)
    context = context._replace(bias=neighbour_lists(batch, model.relation_weights, model.config.signed))
    assert FusedDenoiser.fits(model, context)
    fused = FusedDenoiser(model, tile=16)(logits, block, context)
    for one, other in zip(fused, plain, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("divided", [False, True])
def test_fused_with_all_pairs_equals_plain(divided):
    """Of all graphs, or of one of two."""
    draws, model = np.random.default_rng(1), network(head_dim=16)
    batch = collate([coloring.build(random_graph(20, share, draws), colors=2) for share in (0.9, 0.2)]).to(DEVICE)
    logits = torch.randn(batch.rows, batch.groups * batch.variables, batch.values, generator=generator(3)).to(DEVICE)
    block = (torch.rand(logits.shape[:2], generator=generator(4)) < 0.5).to(DEVICE)
    bias = lists_or_bits(batch, model.relation_weights) if divided else pair_bits(batch)
    assert isinstance(bias, Divided) == divided
    context = model.context(batch)._replace(bias=bias)
    assert FusedDenoiser.fits(model, context)
    with torch.no_grad():
        plain = model(logits, block, context._replace(bias=neighbour_bias(batch, model.relation_weights)))
    for one, other in zip(FusedDenoiser(model, tile=16)(logits, block, context), plain, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


def test_what_it_does_not_fit():
    """Other ways to treat values, domains that differ, sizes that are no powers of two."""
    batch = collate(generate("coloring", 1, seed=0, vertices=6, colors=3)).to(DEVICE)
    mixed = collate([Instance(np.array([2, 3]))]).to(DEVICE)
    model = network()

    def context(batch, model):
        lists = neighbour_lists(batch, model.relation_weights)
        return model.context(batch)._replace(bias=lists)

    assert FusedDenoiser.fits(model, context(batch, model))
    plain = model.context(batch)._replace(bias=neighbour_bias(batch, model.relation_weights))
    assert not FusedDenoiser.fits(model, plain)
    assert not FusedDenoiser.fits(model, context(mixed, model))
    assert not FusedDenoiser.fits(Denoiser(DenoiserConfig(dim=48, heads=2, head_dim=8)), context(batch, model))
    assert not FusedDenoiser.fits(Denoiser(DenoiserConfig(dim=16, values="table", max_values=3)), context(batch, model))
