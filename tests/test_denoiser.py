"""The denoiser: no parameter knows how many values there are; inputs that should matter do, others do not."""

from __future__ import annotations

import copy
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch

from blogdit.core.constraints import Conflict, Linear, NotEqual
from blogdit.core.instance import Instance, Objective
from blogdit.method.batch import collate
from blogdit.network import denoiser as denoiser_module
from blogdit.network.attention import Divided, Mask, MaskBits, NeighbourLists
from blogdit.network.config import LOG_VARIANCE_RANGE
from blogdit.network.denoiser import Denoiser, DenoiserConfig, positional_encoding
from blogdit.problems import coloring, generate
from blogdit.problems.graphs import random_graph
from helpers import generator, small_denoiser

EDGES = [[0, 1], [1, 2], [2, 3], [3, 0], [0, 2]]


def colors(k):
    return collate([coloring.build((4, EDGES), k)])


def state(batch, seed=0):
    logits = torch.randn(batch.rows, batch.groups * batch.variables, batch.values, generator=generator(seed))
    return logits, (logits[..., 0] > 0) & batch.free


def run(model, batch, logits, block):
    return model.on(batch)(logits, block)


def sudokus(count=2, box=2):
    return collate(generate("sudoku", count, seed=0, box=box, min_givens=4, max_givens=6))


def test_one_set_of_weights_serves_any_number_of_values():
    """The weights of a network that ran with 3 values run with 12, and a network never built for K has the same."""
    model = small_denoiser()
    run(model, colors(3), *state(colors(3)))
    twelve = colors(12)
    other = Denoiser(model.config)
    other.load_state_dict(model.state_dict())
    mean, log_variance = run(other, twelve, *state(twelve))
    assert mean.shape == (1, 4, 12)
    assert torch.isfinite(mean).all()
    assert torch.isfinite(log_variance).all()
    assert torch.equal(mean, run(model, twelve, *state(twelve))[0])
    assert not any(12 in p.shape or p.shape[-1] == 3 for p in model.parameters())


@pytest.mark.parametrize("relation", ["learned", "neighbours"])
def test_renaming_values_renames_the_answer(relation):
    """Permuting the values of the logits permutes mean and variance."""
    model, batch = small_denoiser(relation=relation), colors(5)
    logits, block = state(batch)
    order = torch.tensor([3, 0, 4, 2, 1])
    mean, log_variance = run(model, batch, logits, block)
    renamed, same = run(model, batch, logits[..., order], block)
    torch.testing.assert_close(renamed, mean[..., order], rtol=1e-4, atol=1e-5)
    expected = log_variance.expand_as(mean)[..., order]
    torch.testing.assert_close(same.expand_as(mean), expected, rtol=1e-4, atol=1e-5)


def test_renaming_variables_renames_the_answer():
    """Without positions a network knows variables by their relations alone."""
    model, order = small_denoiser(), np.array([2, 0, 3, 1])  # new name of each old vertex
    batch, renamed = colors(3), collate([coloring.build((4, order[np.array(EDGES)]), 3)])
    logits, block = state(batch)
    moved_logits, moved_block = torch.empty_like(logits), torch.empty_like(block)
    moved_logits[:, order], moved_block[:, order] = logits, block
    mean, _ = run(model, batch, logits, block)
    moved, _ = run(model, renamed, moved_logits, moved_block)
    torch.testing.assert_close(moved[:, order], mean, rtol=1e-4, atol=1e-5)


def test_values_with_a_meaning_are_told_apart():
    """Interchangeable values are equal; costs, conflicts and sizes make a difference."""
    model, two, edges = small_denoiser(), np.array([2, 2, 2]), [[0, 1], [1, 2]]

    def gap(constraints, objective=None):
        batch = collate([Instance(two, constraints, objective)])
        mean, _ = run(model, batch, torch.zeros(1, 3, 2), torch.ones(1, 3, dtype=torch.bool))
        return (mean[..., 0] - mean[..., 1]).abs().amin().item()

    chosen = [[0, 1], [1, 1], [2, 1]]
    assert gap((NotEqual(edges),)) < 1e-6
    assert gap((NotEqual(edges),), Objective("maximize", chosen, [1.0, 2.0, 3.0])) > 1e-3
    assert gap((Conflict(edges, (1, 1)),)) > 1e-3
    assert gap((Linear([[0, 1, 2]], [[1, 1, 1]], ["<="], [1]),)) > 1e-3


def test_costs_reach_the_network_as_input():
    """The soft value of a neighbour matters through its cost."""
    model = small_denoiser()
    goal = Objective("maximize", [[0, 1], [1, 1]], [1.0, 1.0])
    batch = collate([Instance(np.array([2, 2]), (Conflict([[0, 1]], (1, 1)),), goal)])
    block = torch.tensor([[True, False]])
    chosen, left = torch.tensor([[[0.0, 0.0], [-5.0, 5.0]]]), torch.tensor([[[0.0, 0.0], [5.0, -5.0]]])
    one, other = run(model, batch, chosen, block)[0], run(model, batch, left, block)[0]
    assert (one[0, 0] - other[0, 0]).abs().max() > 1e-3


def test_positions_matter_only_with_position_dims():
    """On an empty board of equal logits all cells look alike, unless they are placed on the grid."""
    batch = collate([Instance(p.domain_sizes, p.constraints, positions=p.positions) for p in generate(
        "sudoku", 1, seed=0, box=2, min_givens=4, max_givens=6)])  # fmt: skip
    logits, block = torch.zeros(1, 16, 4), torch.ones(1, 16, dtype=torch.bool)
    alike, _ = run(small_denoiser(), batch, logits, block)
    torch.testing.assert_close(alike, alike[:, :1].expand_as(alike), rtol=1e-4, atol=1e-5)
    placed, _ = run(small_denoiser(position_dims=2), batch, logits, block)
    rows = placed[0]
    different = (rows[:, None] - rows[None]).abs().amax(-1) > 1e-4
    assert (different | torch.eye(16, dtype=torch.bool)).all()
    with pytest.raises(ValueError, match="places variables in 3 dimensions, the instance in 2"):
        run(small_denoiser(position_dims=3, dim=18), batch, logits, block)
    with pytest.raises(ValueError, match="dim must be a multiple of 4"):
        DenoiserConfig(dim=18, position_dims=2)


def test_positional_encoding_by_hand():
    """Each dimension of the grid has its own half: sines, then cosines, at rates from 1 down to 1/10000."""
    encoded = positional_encoding(torch.tensor([[3, 5]]), 8)[0]
    expected = [f(p * rate) for p in (3.0, 5.0) for f in (np.sin, np.cos) for rate in (1.0, 0.01)]
    assert encoded.tolist() == pytest.approx(expected, abs=1e-6)


def test_block_and_givens_are_seen():
    """Whether a variable is in the block, and whether it is given, changes what is predicted."""
    model, batch = small_denoiser(), colors(3)
    logits, _ = state(batch)
    block = torch.zeros(1, 4, dtype=torch.bool)
    other = block.clone()
    other[0, 1] = True
    assert (run(model, batch, logits, block)[0] - run(model, batch, logits, other)[0]).abs().max() > 1e-3
    plain = coloring.build((4, EDGES), 3)
    given = collate([Instance(plain.domain_sizes, plain.constraints, givens={1: 0})])
    assert (run(model, batch, logits, block)[0] - run(model, given, logits, block)[0]).abs().max() > 1e-3


def test_logits_outside_a_domain_never_matter():
    """A variable with 2 of 4 values: whatever the other two logits hold, the answer is the same."""
    model = small_denoiser()
    batch = collate([Instance(np.array([2, 4, 4]), (NotEqual([[0, 1], [1, 2]]),))])
    logits, block = state(batch)
    changed = logits.clone()
    changed[0, 0, 2:] = 1e6
    assert torch.equal(run(model, batch, logits, block)[0], run(model, batch, changed, block)[0])


@pytest.mark.parametrize("values", ["axis", "table"])
def test_log_variance_stays_in_its_range(values):
    """Whatever the weights, so that the chain neither freezes for good nor explodes."""
    model, batch = small_denoiser(values=values, max_values=3), colors(3)
    last = model.body.out if values == "axis" else model.body.log_variance
    for offset, expected in ((1e4, LOG_VARIANCE_RANGE[1]), (-1e4, LOG_VARIANCE_RANGE[0])):
        torch.nn.init.constant_(last.bias, offset)
        assert (run(model, batch, *state(batch))[1] == expected).all()


def test_a_table_gives_the_paper_s_layers_of_size_k():
    """Each value has its own parameters, one log-variance per value, K is limited."""
    model = small_denoiser(values="table", max_values=5)
    batch = colors(4)
    logits, block = state(batch)
    mean, log_variance = run(model, batch, logits, block)
    assert log_variance.shape == mean.shape == (1, 4, 4)
    order = torch.tensor([1, 0, 2, 3])
    renamed, _ = run(model, batch, logits[..., order], block)
    assert (renamed - mean[..., order]).abs().max() > 1e-2, "values are no longer interchangeable"
    with pytest.raises(ValueError, match="this model knows 5 values, the instance has 6"):
        run(model, colors(6), *state(colors(6)))
    with pytest.raises(ValueError, match="max_values must be at least 1 with a table"):
        DenoiserConfig(values="table")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"dim": 0}, "dim must be a whole number of at least 1"),
        ({"layers": 0}, "layers must be a whole number from 1"),
        ({"relation": "dense"}, "relation must be learned, fixed or neighbours"),
        ({"values": "codes"}, "values must be axis, literals or table"),
    ],
)
def test_bad_configurations_are_refused_by_name(settings, message):
    with pytest.raises(ValueError, match=message):
        DenoiserConfig(**settings)


@pytest.mark.parametrize("relation", ["learned", "neighbours"])
@pytest.mark.parametrize("limit", [512, 0])
@pytest.mark.filterwarnings("ignore:mkldnn_matmul")
def test_bfloat16_agrees_roughly(relation, limit, monkeypatch):
    """Outputs come back in float32, and within a few per cent of those of float32, gradients included."""
    monkeypatch.setattr("blogdit.network.denoiser.DENSE_LIMIT", limit)
    batch = sudokus()
    logits, block = state(batch)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = Denoiser(DenoiserConfig(dim=32, heads=2, head_dim=16, layers=3, relation=relation, edge_features=True))
    results = []
    for enabled in (False, True):
        with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            mean, log_variance = run(model, batch, logits, block)
        assert mean.dtype == log_variance.dtype == torch.float32
        gradients = torch.autograd.grad((mean**2).mean() + log_variance.mean(), model.in_block)
        results.append((mean, log_variance, *gradients))
    for exact, rough in zip(*results, strict=True):
        assert (exact - rough).norm() < 0.05 * exact.norm()


@pytest.mark.parametrize(
    ("vertices", "shares", "solving", "chosen"),
    [
        (100, (0.02, 0.02), False, Mask),
        (100, (0.3, 0.3), True, Mask),
        (140, (0.3, 0.3), True, MaskBits),
        (140, (0.3, 0.3), False, NeighbourLists),  # no gradients from bits
        (140, (0.02, 0.02), True, NeighbourLists),
        (140, (0.02, 0.3), True, Divided),
    ],
)
def test_the_kernel_fits_the_graph(vertices, shares, solving, chosen, monkeypatch):
    """Small groups and groups with many pairs look at all of them, others at lists."""
    monkeypatch.setattr(denoiser_module, "has_kernel", lambda *_: True)
    draws = np.random.default_rng(0)
    batch = collate([coloring.build(random_graph(vertices, share, draws), colors=3) for share in shares])
    model = Denoiser(DenoiserConfig(dim=32, heads=2, head_dim=16, layers=1, relation="neighbours"))
    with torch.set_grad_enabled(not solving):
        assert isinstance(model.relation(batch), chosen)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.skipif(shutil.which("c++") is None and shutil.which("g++") is None, reason="needs a C++ compiler")
def test_compiled_numbers_are_the_same(monkeypatch):
    """`torch.compile` changes the speed alone. Slow the first time: it runs a C++ compiler."""
    # Without processes that wait for more to compile, and without programs that try what the processor can do.
    monkeypatch.setattr(torch._inductor.config, "compile_threads", 1)
    monkeypatch.setattr(torch._inductor.config.cpp, "vec_isa_ok", True)
    model, batch = small_denoiser(layers=1, position_dims=2), sudokus()
    logits, block = state(batch)
    bound = model.on(batch)
    with torch.no_grad():
        plain = bound(logits, block)
        compiled = replace(bound, network=torch.compile(model, dynamic=False))(logits, block)
    torch.testing.assert_close(plain, compiled, rtol=1e-4, atol=1e-5)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_traced_gradients_are_the_same():
    """The graph that `torch.compile` takes from the network has the same gradients, without a break."""
    model, batch = small_denoiser(position_dims=2), sudokus()
    logits, block = state(batch)
    bound, gradients = model.on(batch), []
    for network in (model, torch.compile(model, dynamic=False, backend="aot_eager", fullgraph=True)):
        mean, log_variance = replace(bound, network=network)(logits, block)
        total = (mean**2).sum() + log_variance.sum()
        gradients.append(torch.autograd.grad(total, [model.in_block, model.unrelated], retain_graph=True))
    for plain, traced in zip(*gradients, strict=True):
        torch.testing.assert_close(plain, traced, rtol=1e-3, atol=1e-3)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("relation", ["learned", "fixed", "neighbours"])
def test_cuda_gives_the_numbers_of_the_cpu(relation):
    """Float32 to rounding, bfloat16 roughly, compiled or not."""
    batch = sudokus()
    logits, block = state(batch)
    model = small_denoiser(relation=relation, position_dims=2)
    exact, exact_variance = run(model, batch, logits, block)
    model, batch = model.cuda(), batch.to("cuda")
    mean, log_variance = run(model, batch, logits.cuda(), block.cuda())
    torch.testing.assert_close(mean.cpu(), exact, rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(log_variance.cpu(), exact_variance, rtol=1e-3, atol=1e-3)
    bound = model.on(batch)
    for network in (model, torch.compile(model, dynamic=False)):
        with torch.autocast("cuda", torch.bfloat16):
            rough, _ = replace(bound, network=network)(logits.cuda(), block.cuda())
        assert (rough.cpu() - exact).norm() < 0.05 * exact.norm()


@pytest.mark.parametrize("relation", ["learned", "fixed", "neighbours"])
@pytest.mark.parametrize("values", ["axis", "table"])
def test_a_copy_in_bfloat16_is_close(relation, values):
    """What solving on a GPU runs; not autocast but weights in bfloat16."""
    batch = collate(generate("coloring", 2, seed=0, vertices=9, colors=3))
    config = DenoiserConfig(dim=16, heads=2, head_dim=8, layers=1, relation=relation, values=values, max_values=3)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = Denoiser(config)
    half = copy.deepcopy(model).to(torch.bfloat16)
    logits = torch.randn(batch.rows, batch.groups * batch.variables, 3, generator=generator(0))
    block = torch.rand(logits.shape[:2], generator=generator(1)) < 0.5
    with torch.no_grad():
        plain, low = (one.on(batch)(logits, block) for one in (model, half))
    for one, other in zip(low, plain, strict=True):
        assert one.dtype == torch.float32
        torch.testing.assert_close(one, other, rtol=0.1, atol=0.1)
