"""Training: the loss, resuming exactly, surviving kills and NaNs, several processes, and what is kept."""

from __future__ import annotations

import math

import networkx
import numpy as np
import pytest
import torch

from blogdit.core.constraints import NotEqual
from blogdit.core.errors import InputError
from blogdit.core.instance import Instance
from blogdit.method.blocks import decode
from blogdit.method.chain import ChainConfig
from blogdit.network.checkpoint import load_model
from blogdit.problems import coloring, maxcut, mis
from blogdit.training import recorded
from blogdit.training import trainer as training
from blogdit.training.data import Data
from blogdit.training.loss import learning_rate, temperature
from blogdit.training.recipe import TrainConfig, recipe
from blogdit.training.state import Budget, Chains, Orders
from blogdit.training.trainer import Recorded, Trainer
from blogdit.training.validation import validate
from helpers import small_denoiser
from runs import TINY, assert_same_run, log_of, trainer

CPU = torch.device("cpu")
# -- the loss ----------------------------------------------------------------------------------------------------------


def test_the_loss_falls():
    """4x4 Sudoku, a small network, 150 updates: the expected number of equal pairs nearly halves."""
    small = {"dim": 32, "heads": 2, "head_dim": 16, "layers": 2, "batch_size": 32, "unroll": 1, "horizon": 8}
    run = trainer(150, **small, pool=512, learning_rate=3e-3, warmup=20)
    records = [run.update() for _ in range(150)]
    for name in ("energy", "loss"):
        series = [record[name] for record in records]
        assert np.mean(series[-15:]) < 0.65 * np.mean(series[:15])


@pytest.mark.parametrize("entropy", [True, False])
def test_the_log_has_every_term_and_they_add_up(tmp_path, entropy):
    """loss = energy + tau * (noise matching - entropy), without the entropy where it is switched off."""
    run = trainer(entropy=entropy)
    yielded = list(run.run(tmp_path))
    records = log_of(tmp_path)
    assert records == yielded
    assert [record["update"] for record in records] == list(range(1, 13))
    for record in records:
        extra = record["tau"] * (record["noise_matching"] - (record["entropy"] if entropy else 0))
        assert record["loss"] == pytest.approx(record["energy"] + extra, rel=1e-4)
        assert 0.3 < record["share"] < 0.95
        assert record["gradient_norm"] > 0
        assert {"tau", "learning_rate", "seconds", "bad_steps"} <= set(record)
        assert ("valid_score" in record) == (record["update"] % 4 == 0)
    assert [r["seconds"] for r in records] == sorted(r["seconds"] for r in records)


def test_block_shares_follow_the_schedule():
    """Chains of all ages train together: the share is the mean of the schedule over the horizon."""
    run = trainer(batch_size=64, horizon=6, unroll=1)
    shares = [run.update()["share"] for _ in range(30)]
    rates = run.recipe.chain.schedule.rate(torch.arange(6) / 5)
    assert np.mean(shares) == pytest.approx(rates.mean().item(), abs=0.02)
    every = trainer(selector="all")
    assert [every.update()["share"] for _ in range(2)] == [1.0, 1.0]


def test_chains_persist_and_begin_again():
    """A chain goes on from its logits until its horizon, then gets a new puzzle and a fresh start; its givens are
    always those of its puzzle."""
    run = trainer(unroll=2, horizon=6)
    (shelf,) = run.shelves
    assert set(shelf.chains.age.tolist()) <= {0, 2, 4}
    for _ in range(12):
        age, index, logits = shelf.chains.age.clone(), shelf.chains.index.clone(), shelf.chains.logits.clone()
        run._restart_old_chains(shelf, torch.randint(len(run.data.training), age.shape))
        old = age >= 6
        assert torch.equal(shelf.chains.logits[~old], logits[~old])
        assert torch.equal(shelf.chains.index[~old], index[~old])
        assert (shelf.chains.logits[old] != logits[old]).any() if old.any() else True
        assert (shelf.chains.age[old] == 0).all()
        run.update()
        batch = shelf.take(shelf.chains.index)
        values = decode(shelf.chains.logits, batch)
        assert torch.equal(values[batch.given], batch.given_value[batch.given])
        assert (shelf.chains.age <= 6).all()


def test_a_recorded_update_is_the_same_update(monkeypatch):
    """It finds its orders and leaves its chains in fixed tensors. A graph that calls the work again stands for CUDA's,
    which runs it with the tensors, not with the names, that it saw first."""
    plain, run = trainer(unroll=2, horizon=6), trainer(unroll=2, horizon=6)
    (shelf,) = run.shelves
    fixed = Chains(*vars(shelf.chains).values())

    class Graph:
        def __init__(self, work, *_):
            self.work = work

        def replay(self):
            shelf.chains = Chains(*vars(fixed).values())
            self.work()
            shelf.chains = fixed

    monkeypatch.setattr(recorded, "record", Graph)
    nothing = torch.zeros(8, dtype=torch.long)
    run.recorded[shelf] = Recorded(run._work, shelf, Orders(nothing, torch.zeros(3)), run.noise)
    told = [(plain._read(plain._enqueue()), run._enqueue()) for _ in range(5)]
    assert [numbers for numbers, _ in told] == [run._read(enqueued) for _, enqueued in told], "read after all were done"
    assert_same_run(plain, run)
    assert shelf.launched == 0
    assert all(mine is place for mine, place in zip(vars(shelf.chains).values(), vars(fixed).values(), strict=True))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_recorded_updates_are_those_launched_one_by_one(monkeypatch):
    runs = [trainer(device="cuda", compile="no", precision="float32") for _ in range(2)]
    for run, warm in zip(runs, (3, 10**9), strict=True):
        monkeypatch.setattr(training, "WARM_UPDATES", warm)
        numbers = [run.update() for _ in range(8)]
        assert bool(run.recorded) == (warm == 3)
        assert all(math.isfinite(value) for record in numbers for value in record.values())
    assert all(one.graph is not None for one in runs[0].recorded.values())
    for one, other in zip(runs[0].parameters, runs[1].parameters, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-5)
    for name, average in runs[0].average.items():
        torch.testing.assert_close(average, runs[1].average[name], rtol=1e-3, atol=1e-5)


def test_randomness_comes_from_the_seed_alone():
    """Torch's global generator plays no role; another seed gives another run."""
    torch.manual_seed(1)
    one = trainer(seed=5)
    losses = [one.update()["loss"] for _ in range(4)]
    state = torch.get_rng_state()
    torch.manual_seed(2)
    torch.randn(7)
    other = trainer(seed=5)
    assert [other.update()["loss"] for _ in range(4)] == losses
    assert_same_run(one, other)
    assert torch.equal(state, one.noise.generator.get_state()) is False
    different = trainer(seed=6)
    assert [different.update()["loss"] for _ in range(4)] != losses


# -- schedules ---------------------------------------------------------------------------------------------------------


def test_learning_rate_by_hand():
    """Linear warm-up over `warmup` updates, then a cosine over the budget down to final_rate."""
    chosen = recipe("sudoku", {**TINY, "learning_rate": 0.01, "warmup": 10, "final_rate": 0.1})
    assert learning_rate(chosen, 0, 0.0) == pytest.approx(0.001)
    assert learning_rate(chosen, 4, 0.0) == pytest.approx(0.005)
    assert learning_rate(chosen, 50, 0.0) == pytest.approx(0.01)
    assert learning_rate(chosen, 50, 0.5) == pytest.approx(0.01 * (0.1 + 0.9 * 0.5))
    assert learning_rate(chosen, 50, 1.0) == pytest.approx(0.001)
    assert learning_rate(chosen, 50, 1.7) == pytest.approx(0.001)
    assert (
        learning_rate(recipe("sudoku", {**TINY, "warmup": 0}), 0, 0.0) == recipe("sudoku", TINY).training.learning_rate
    )


def test_tau_falls_to_its_floor():
    chosen = recipe("sudoku", {**TINY, "tau_start": 0.5, "tau_floor": 0.1, "tau_share": 0.4})
    shares = [0.0, 0.1, 0.2, 0.4, 0.8, 1.0]
    assert [temperature(chosen, share) for share in shares] == pytest.approx([0.5, 0.4, 0.3, 0.1, 0.1, 0.1])
    fixed = recipe("sudoku", {**TINY, "tau_start": 0.1, "tau_floor": 0.1})
    assert {temperature(fixed, share) for share in shares} == {0.1}
    below = recipe("sudoku", {**TINY, "tau_start": 0.01, "tau_floor": 0.1})
    assert {temperature(below, share) for share in shares} == {0.1}, "never below the floor"


def test_schedules_reach_the_log(tmp_path):
    run = trainer(10, warmup=0, tau_start=0.5, tau_floor=0.1, tau_share=0.5, learning_rate=0.01, final_rate=0.0)
    records = list(run.run(tmp_path))
    assert [r["tau"] for r in records] == pytest.approx([0.5 - 0.08 * u if u < 5 else 0.1 for u in range(10)])
    cosine = [0.005 * (1 + math.cos(math.pi * u / 10)) for u in range(10)]
    assert [r["learning_rate"] for r in records] == pytest.approx(cosine)


def test_averaged_weights_by_hand():
    """average <- keep * average + (1 - keep) * weights, with keep = min(ema, (1 + u) / (10 + u))."""
    run = trainer(ema=0.3, learning_rate=0.05)
    expected = {name: p.clone() for name, p in run.denoiser.state_dict().items()}
    for done in range(8):
        run.update()
        keep = min(0.3, (1 + done) / (10 + done))
        for name, weights in run.denoiser.state_dict().items():
            expected[name] = keep * expected[name] + (1 - keep) * weights
    for name, average in run.average.items():
        torch.testing.assert_close(average, expected[name], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "arguments", [{}, {"updates": 3, "minutes": 1.0}, {"updates": 0}, {"minutes": -1.0}, {"minutes": float("nan")}]
)
def test_a_budget_is_updates_or_minutes(arguments):
    with pytest.raises(ValueError, match=r"either updates or minutes|must be a positive"):
        Budget(**arguments)


# -- steps that are not finite -----------------------------------------------------------------------------------------


def poison(run, bad, kind):
    """Make the loss (or only its gradient) NaN at the given updates."""
    real = run.loss.forward

    def forward(*arguments):
        loss, logits, terms = real(*arguments)
        if run.progress.updates in bad:
            if kind == "loss":
                loss = loss * math.nan
                terms["loss"] = loss.detach()
                logits = logits * math.nan
            else:
                weight = run.denoiser.in_block
                loss = loss + torch.sqrt((weight - weight.detach()).abs().sum())
        return loss, logits, terms

    run.loss.forward = forward


@pytest.mark.parametrize("kind", ["loss", "gradient"])
def test_a_nan_step_is_skipped_and_counted(tmp_path, kind):
    """Weights, averages and optimiser are as before; training goes on with fresh chains, and the log tells."""
    run = trainer(8)
    poison(run, {3}, kind)
    seen, records = {}, []
    for record in run.run(tmp_path):
        seen[record["update"]] = (
            [p.clone() for p in run.parameters],
            [p.clone() for p in run.average.values()],
            [value.clone() for p in run.parameters for value in run.optimizer.state[p].values()],
        )
        records.append(record)
    for before, after in zip(seen[3], seen[4], strict=True):
        assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))
    assert any((a != b).any() for a, b in zip(seen[4][0], seen[5][0], strict=True))
    assert [record["bad_steps"] for record in records] == [0, 0, 0, 1, 1, 1, 1, 1]
    assert all(math.isfinite(record["loss"]) for record in records if record["update"] != 4)
    assert torch.isfinite(run.shelves[0].chains.logits).all()
    logged = log_of(tmp_path)[3]
    assert logged["loss" if kind == "loss" else "gradient_norm"] is None


def test_training_stops_when_nans_persist(tmp_path):
    """After 20 in a row, with what to do about it; 19 in a row are survived."""
    survivor = trainer(45, validate_every=1000)
    poison(survivor, set(range(2, 21)) | set(range(22, 41)), "loss")
    list(survivor.run(tmp_path / "a"))
    assert survivor.progress.bad_steps == 38
    doomed = trainer(45, validate_every=1000)
    poison(doomed, set(range(2, 45)), "loss")
    with pytest.raises(InputError, match=r"training diverged: 20 updates in a row .* lower learning_rate or clip"):
        list(doomed.run(tmp_path / "b"))
    assert doomed.progress.bad_steps == 20


def test_gradients_are_clipped():
    """The logged norm is the one before clipping; the optimiser sees at most `clip`."""
    run = trainer(clip=1e-3)
    record = run.update()
    assert record["gradient_norm"] > 0.01
    total = torch.stack([p.grad.norm() for p in run.parameters if p.grad is not None]).norm()
    assert total.item() == pytest.approx(1e-3, rel=1e-3)


def test_energies_in_units_do_not_depend_on_the_unit_of_the_objective():
    """Costs in cents instead of euros are the same problem."""
    edges = [(0, 1), (1, 2), (2, 3), (3, 0), (0, 2)]
    losses = {}
    for unit_energy in (True, False):
        small = {name: value for name, value in TINY.items() if name not in ("box", "position_dims")}
        chosen = recipe("maxcut", {**small, "unit_energy": unit_energy})
        for scale in (1, 100):
            graph = maxcut.build((4, edges, [scale * weight for weight in (1, 2, 3, 4, 5)]))
            losses[unit_energy, scale] = Trainer(chosen, Data([graph], [graph]), Budget(updates=1)).update()["loss"]
    assert losses[True, 100] == pytest.approx(losses[True, 1], rel=1e-4)
    assert losses[False, 100] != pytest.approx(losses[False, 1], rel=0.5)


# -- validation --------------------------------------------------------------------------------------------------------


def test_validation_measures_what_it_says():
    """Impossible problems are never solved, trivial ones always; cuts count with their best energy."""
    model = small_denoiser()
    triangle = coloring.build((3, [(0, 1), (1, 2), (0, 2)]), 2)
    loose = Instance(np.array([2, 2, 2]), (NotEqual([[0, 1]]),))
    scores = validate(model, [triangle] * 4, ChainConfig(), TrainConfig(validation_steps=20), CPU)
    assert scores == {"score": 0.0, "solved": 0.0, "solved_at_last": 0.0}
    scores = validate(model, [loose] * 3 + [triangle], ChainConfig(), TrainConfig(validation_steps=40), CPU)
    assert scores["solved"] == scores["score"] == 0.75
    assert scores["solved_at_last"] <= 0.75
    square = maxcut.build((4, [(0, 1), (1, 2), (2, 3), (3, 0)]))
    scores = validate(model, [square] * 4, ChainConfig(), TrainConfig(validation_steps=60), CPU)
    assert scores["energy"] == -4.0
    assert scores["score"] == 4.0
    assert scores["last_energy"] >= -4.0
    in_units = TrainConfig(validation_steps=60, unit_energy=True)
    scores = validate(model, [square] * 4, ChainConfig(), in_units, CPU)
    assert scores["energy"] == pytest.approx(-4.0 / (1.01 * 2)), "a vertex changes the cut by 2 at most"
    scores = validate(model, [triangle] * 4, ChainConfig(), in_units, CPU, by_energy=True)
    assert scores["energy"] == 1.0, "one edge of a triangle joins equal colours"


@pytest.mark.parametrize("training", [True, False])
def test_validation_leaves_the_network_in_its_mode(training):
    model = small_denoiser().train(training)
    validate(model, [Instance(np.array([2, 2]))], ChainConfig(), TrainConfig(validation_steps=2), CPU)
    assert all(part.training == training for part in model.modules())


def test_validation_picks_the_best_weights(tmp_path, monkeypatch):
    """Scores 0.2, 0.7, 0.5: best.safetensors holds the averaged weights of the second validation, last those of the
    third, each with its provenance; training itself is not disturbed."""
    undisturbed = trainer(12, validate_every=1000)
    list(undisturbed.run(tmp_path / "quiet"))
    run = trainer(12)
    seen = []

    def scripted(model, instances, *rest):
        assert instances == run.data.validation
        seen.append({name: p.clone() for name, p in model.state_dict().items()})
        score = [0.2, 0.7, 0.5][len(seen) - 1]
        assert all(torch.equal(seen[-1][name], p) for name, p in run.average.items()), "averaged weights are scored"
        return {"score": score, "solved": score}

    monkeypatch.setattr("blogdit.training.validation.validate", scripted)
    list(run.run(tmp_path))
    best, last = (load_model(tmp_path / f"{name}.safetensors") for name in ("best", "last"))
    for model, at in ((best, 1), (last, 2)):
        assert all(torch.equal(seen[at][name], p) for name, p in model.denoiser.state_dict().items())
    assert best.provenance["updates"] == 8
    assert best.provenance["validation"] == {"score": 0.7, "solved": 0.7}
    assert best.provenance["data"] == {"training": "generated", "validation": "generated"}
    assert {"minutes", "device", "commit", "seed", "recipe"} <= set(best.provenance)
    assert last.provenance["updates"] == 12
    assert (run.progress.best_score, run.progress.best_update) == (0.7, 8)
    assert_same_run(run, undisturbed)


def test_of_equal_scores_the_later_weights_are_kept(tmp_path, monkeypatch):
    """A small problem is soon solved in full; training beyond that is not thrown away."""
    scores = iter([0.3, 1.0, 1.0])
    monkeypatch.setattr("blogdit.training.validation.validate", lambda *arguments: {"score": next(scores)})
    list(trainer(12).run(tmp_path))
    assert load_model(tmp_path / "best.safetensors").provenance["updates"] == 12


def test_optimisation_problems_train_too(tmp_path):
    """Weighted independent sets of different sizes from the user's own data: the energy falls, the log adds up."""
    rng = np.random.default_rng(0)
    graphs = [networkx.gnp_random_graph(int(rng.integers(5, 9)), 0.4, seed=i) for i in range(24)]
    members = [mis.build(graph, rng.integers(1, 4, len(graph))) for graph in graphs]
    chosen = recipe("mis", {
        "dim": 16, "heads": 2, "head_dim": 8, "layers": 1, "batch_size": 16, "unroll": 1, "horizon": 4,
        "validation_steps": 10, "validate_every": 40, "warmup": 10, "learning_rate": 5e-3,
    })  # fmt: skip
    run = Trainer(chosen, Data(members[:16], members[16:]), Budget(updates=80))
    records = list(run.run(tmp_path))
    assert np.mean([r["energy"] for r in records[-10:]]) < np.mean([r["energy"] for r in records[:10]]) - 0.5
    for record in records:
        extra = record["tau"] * (record["noise_matching"] - record["entropy"])
        assert record["loss"] == pytest.approx(record["energy"] + extra, rel=1e-4, abs=1e-4)
    assert records[-1]["valid_score"] == -records[-1]["valid_energy"]
