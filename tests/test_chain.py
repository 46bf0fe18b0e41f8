"""The chain: what a step may change, and the distribution of its trajectories."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch

from blogdit.core.constraints import NotEqual
from blogdit.core.instance import Instance
from blogdit.method.batch import GIVEN_LOGIT, collate
from blogdit.method.blocks import SELECTORS, Schedule, Selector, decode, fit_budget
from blogdit.method.chain import ChainConfig, prior, reverse_step, sample
from blogdit.method.energy import violation_scores
from blogdit.method.gumbel import assigned
from blogdit.method.noise import StreamNoise
from blogdit.problems import generate
from chain_cases import batches, rates, start
from helpers import generator, noise, small_denoiser, zoo

CONFIGS = {
    "hidden": ChainConfig(),
    "visible": ChainConfig(hide_block=False),
    "gumbel": ChainConfig(hide_block=False, kernel="gumbel"),
}


def end_of(steps):
    """The last logits."""
    return list(steps)[-1].logits


# -- what a step may change --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", ["shared", "union"])
@pytest.mark.parametrize("kind", CONFIGS)
@pytest.mark.filterwarnings("ignore:mkldnn_matmul")
def test_variables_outside_the_block_are_bit_identical(kind, layout):
    """Whatever the block, in float32 and under autocast; inside the block every logit changes."""
    batch, config = batches()[layout], CONFIGS[kind]
    denoise, logits = start(batch)
    logits = logits * math.pi + 1e-30  # bits that rounding would lose
    before = assigned(logits, batch) if config.kernel == "gumbel" else logits
    for seed in range(5):
        block = (torch.rand(logits.shape[:2], generator=generator(seed)) < 0.5) & batch.free
        for half in (False, True):
            with torch.autocast("cpu", torch.bfloat16, enabled=half):
                step = reverse_step(denoise, batch, logits, block, config, noise(seed))
            assert torch.equal(step.logits[~block], before[~block])
            assert torch.equal(step.corrupted[~block], before[~block])
            assert (step.logits[block] != logits[block]).all()
            assert step.logits.dtype == torch.float32


@pytest.mark.parametrize("name", SELECTORS)
def test_givens_never_change(name):
    """Over 40 steps of any selector the logits of given variables keep their bits, and decode to the given value."""
    for batch in batches().values():
        denoise, logits = start(batch)
        first, selector, draws = logits, Selector(name, batch), noise(1)
        done = torch.linspace(0, 1, 40)[:, None, None].expand(40, batch.chains, batch.size)
        with torch.no_grad():
            logits = end_of(sample(denoise, batch, logits, rates(ChainConfig(), done), ChainConfig(), selector, draws))
        assert torch.equal(logits[batch.given], first[batch.given])
        assert torch.equal(decode(logits, batch)[batch.given], batch.given_value[batch.given])
        assert torch.isfinite(logits).all()
        assert not torch.equal(logits[batch.free], first[batch.free])


def test_a_hidden_block_is_unknown_to_the_network():
    """With the same random numbers, other logits inside the block give the same prediction: a Gibbs move."""
    for batch in batches().values():
        denoise, logits = start(batch)
        block = (torch.rand(logits.shape[:2], generator=generator(3)) < 0.5) & batch.free
        changed = torch.where(block[..., None], torch.randn_like(logits) * 5, logits)
        for kind, config in CONFIGS.items():
            one = reverse_step(denoise, batch, logits, block, config, noise(7))
            other = reverse_step(denoise, batch, changed, block, config, noise(7))
            same = torch.equal(one.mean, other.mean) and torch.equal(one.logits[block], other.logits[block])
            assert same == (kind == "hidden")


def test_hidden_blocks_hold_fresh_prior_noise():
    """N(bias, s^2), independent of the old logits and new at each step."""
    batch = collate([Instance(np.array([3] * 50))], chains=40)
    config = ChainConfig(prior_scale=2.0, prior_bias=(1.0, 0.0, -1.0))
    denoise = small_denoiser().on(batch)
    logits, block, draws = torch.full((40, 50, 3), 7.0), torch.ones(40, 50, dtype=torch.bool), noise()
    first = reverse_step(denoise, batch, logits, block, config, draws).corrupted
    second = reverse_step(denoise, batch, logits, block, config, draws).corrupted
    assert first.mean((0, 1)).tolist() == pytest.approx([1, 0, -1], abs=4 * 2 / 2000**0.5)
    assert first.std((0, 1)).tolist() == pytest.approx([2, 2, 2], rel=0.07)
    assert not (first == second).any()


def test_steps_sample_the_predicted_gaussian():
    """Standardised samples of the block are standard normal, and the noise is not that of the corruption."""
    batch = collate([Instance(np.array([3] * 50))], chains=100)
    denoise, logits = start(batch)
    block = torch.ones(100, 50, dtype=torch.bool)
    with torch.no_grad():
        step = reverse_step(denoise, batch, logits, block, ChainConfig(), noise(5))
    standard = (step.logits - step.mean) / torch.exp(0.5 * step.log_variance)
    assert abs(standard.mean()) < 4 / 15_000**0.5
    assert abs(standard.var() - 1) < 4 * (2 / 15_000) ** 0.5
    assert abs((standard * step.corrupted).mean()) < 4 / 15_000**0.5


def test_the_prior_is_gaussian_with_clamped_givens():
    """N(0, s^2) on free variables, a bias where one is set, and certainty on givens."""
    instance = Instance(np.array([2] * 100), givens={3: 1, 8: 0})
    batch = collate([instance], chains=100)
    for scale, bias in ((1.0, ()), (0.5, (0.0, 2.0)), (1.0, (3.0,))):
        logits = prior(batch, ChainConfig(prior_scale=scale, prior_bias=bias), noise())
        assert logits[:, 3].unique(dim=0).tolist() == [[-GIVEN_LOGIT, GIVEN_LOGIT]]
        assert logits[:, 8].unique(dim=0).tolist() == [[GIVEN_LOGIT, -GIVEN_LOGIT]]
        loose = logits[batch.free]
        expected = [*bias, 0.0, 0.0][:2]
        assert loose.mean(0).tolist() == pytest.approx(expected, abs=4 * scale / 9800**0.5)
        assert loose.std(0).tolist() == pytest.approx([scale] * 2, rel=0.03)


@pytest.mark.parametrize("name", ["prior_scale", "sigma"])
def test_scales_must_be_positive(name):
    with pytest.raises(ValueError, match=f"{name} must be positive, got 0"):
        ChainConfig(**{name: 0.0})


# -- a stretch of the chain --------------------------------------------------------------------------------------------


def test_a_chain_is_its_steps_one_after_the_other():
    """Three steps at once or one at a time: the same states, bit for bit."""
    batch, config = batches()["union"], ChainConfig(schedule=Schedule(0.9, 0.2))
    denoise, logits = start(batch)
    selector = Selector("random", batch)
    shares = rates(config, torch.rand(3, batch.chains, batch.size, generator=generator(1)))
    whole = list(sample(denoise, batch, logits, shares, config, selector, noise(2)))
    draws = noise(2)
    for step, rate in zip(whole, shares, strict=True):
        (alone,) = sample(denoise, batch, logits, [rate], config, selector, draws)
        assert torch.equal(alone.logits, step.logits)
        assert torch.equal(alone.block, step.block)
        logits = alone.logits


def test_the_next_rate_is_asked_for_when_the_next_step_is_taken():
    """So that it may follow a clock, and an endless chain can be left at any step."""
    batch, asked = batches()["union"], []
    denoise, logits = start(batch)

    def endless():
        for step in itertools.count():
            asked.append(step)
            yield torch.full((batch.chains, batch.size, 1), 0.5)

    steps = sample(denoise, batch, logits, endless(), ChainConfig(), Selector("random", batch), noise())
    assert asked == []
    for taken in range(1, 4):
        next(steps)
        assert asked == list(range(taken))


def test_the_schedule_drives_the_share():
    """rho_max at the start of a chain, rho_min at its end, for each chain by its own progress."""
    batch = collate([Instance(np.array([2] * 500))], chains=2)
    denoise, logits = start(batch)
    config = ChainConfig(schedule=Schedule(0.8, 0.1, "linear"))
    done = torch.tensor([[[0.0], [1.0]]])
    with torch.no_grad():
        after = end_of(sample(denoise, batch, logits, rates(config, done), config, Selector("random", batch), noise()))
    changed = (after != logits).any(-1).float().mean(1)
    assert changed.tolist() == pytest.approx([0.8, 0.1], abs=0.08)


def test_same_key_same_trajectory_in_any_batch():
    """With streams, the chain of an instance is the same alone, beside others, and under padding."""
    members = [*zoo(), *generate("sudoku", 1, seed=0, box=2, min_givens=4, max_givens=6)]
    keys = torch.arange(len(members)) * 7 + 1
    model = small_denoiser(layers=1)

    def run(batch, draws, name):
        logits = prior(batch, ChainConfig(), draws)
        done = torch.linspace(0, 1, 6)[:, None, None].expand(6, batch.chains, batch.size)
        shares, selector = rates(ChainConfig(), done), Selector(name, batch)
        with torch.no_grad():
            return end_of(sample(model.on(batch), batch, logits, shares, ChainConfig(), selector, draws))

    for name in SELECTORS:
        together = collate(members, chains=2, variables=20)
        whole = together.per_instance(run(together, StreamNoise(keys), name))
        for b, instance in enumerate(members):
            alone = collate([instance], chains=2)
            own = alone.per_instance(run(alone, StreamNoise(keys[b : b + 1]), name))[:, 0]
            beside = whole[:, b, : instance.size, : own.shape[-1]]
            torch.testing.assert_close(beside, own, rtol=1e-3, atol=1e-3, msg=f"{name}, instance {b}")


# -- Proposition 3.1 ---------------------------------------------------------------------------------------------------

EDGE = Instance(np.array([2, 2]), (NotEqual([[0, 1]]),))
STATES = list(itertools.product((0, 1), repeat=2))
MASKS = list(itertools.product((False, True), repeat=2))
STEPS, PULL, SPREAD = 3, 0.8, 1.0


def toy_denoiser(logits, block):
    """Each variable wants the value that the other one does not seem to have."""
    seen = logits.argmax(-1).flip(1)  # (R, 2)
    mean = torch.where(seen[..., None] == torch.arange(2), -PULL, PULL)
    return mean, torch.full((*mean.shape[:2], 1), 2 * math.log(SPREAD))


def chance_of(value, seen):
    """P(argmax of the sampled logits = value | what the other one seemed to have): a difference of two Gaussians."""
    differs = 0.5 * (1 + math.erf(2 * PULL / (SPREAD * math.sqrt(2)) / math.sqrt(2)))
    return differs if value != seen else 1 - differs


def masked_kernel(new, old, mask, hidden):
    """q(X_{t-1} | X_t, m_t) of decoded values."""
    total = 1.0
    for i in range(2):
        if not mask[i]:
            total *= float(new[i] == old[i])
        elif mask[1 - i] and hidden:  # the other one shows noise, either value half the time
            total *= 0.5 * (chance_of(new[i], 0) + chance_of(new[i], 1))
        else:
            total *= chance_of(new[i], old[1 - i])
    return total


def mask_chance(mask, old, rate, name):
    """pi(m_t | X_t)."""
    if name == "random":
        chances = [rate, rate]
    else:
        batch = collate([EDGE])
        scores = violation_scores(torch.tensor([old]), batch)
        chances = fit_budget(scores, torch.tensor([[rate]]), batch.free)[0].tolist()
    return math.prod(p if m else 1 - p for p, m in zip(chances, mask, strict=True))


@pytest.mark.parametrize("kind", ["hidden", "visible"])
@pytest.mark.parametrize("name", ["random", "critical"])
def test_discarding_the_masks_leaves_the_trajectories_unchanged(name, kind):
    """Proposition 3.1, exactly and by simulation.

    Exactly: the joint with masks, summed over all mask sequences, is the chain of mixture kernels (Equation 3), for
    all 256 trajectories. By simulation: trajectories of the package's own chain have that distribution.
    """
    config, falling = CONFIGS[kind], [0.9, 0.6, 0.3]
    hidden = config.hide_block
    kernel = {
        (new, old, mask): masked_kernel(new, old, mask, hidden) for new in STATES for old in STATES for mask in MASKS
    }
    weight = {(m, x, t): mask_chance(m, x, falling[t], name) for m in MASKS for x in STATES for t in range(STEPS)}
    exact = {}
    for path in itertools.product(STATES, repeat=STEPS + 1):  # X_3, X_2, X_1, X_0
        joint = sum(
            0.25 * math.prod(weight[m[t], path[t], t] * kernel[path[t + 1], path[t], m[t]] for t in range(STEPS))
            for m in itertools.product(MASKS, repeat=STEPS)
        )
        mixture = 0.25 * math.prod(
            sum(weight[m, path[t], t] * kernel[path[t + 1], path[t], m] for m in MASKS) for t in range(STEPS)
        )
        assert joint == pytest.approx(mixture, abs=1e-12)
        exact[path] = mixture
    assert sum(exact.values()) == pytest.approx(1)

    chains = 60_000
    batch, draws = collate([EDGE], chains), noise(11)
    logits, selector = prior(batch, config, draws), Selector(name, batch)
    shares = [torch.full((chains, 1, 1), rate) for rate in falling]
    steps = sample(toy_denoiser, batch, logits, shares, config, selector, draws)
    seen = [decode(z, batch) for z in (logits, *(step.logits for step in steps))]
    digits = torch.stack([2 * x[:, 0] + x[:, 1] for x in seen])  # (T + 1, chains)
    counts = torch.bincount((digits * torch.tensor([[64], [16], [4], [1]])).sum(0), minlength=256)
    expected = torch.tensor([exact[path] for path in itertools.product(STATES, repeat=STEPS + 1)])
    distance = 0.5 * (counts / chains - expected).abs().sum()
    # The expected distance of exact draws is about sum_i sqrt(p_i / (2 pi n)).
    error = (expected / (2 * math.pi * chains)).sqrt().sum()
    assert distance < 1.4 * error
