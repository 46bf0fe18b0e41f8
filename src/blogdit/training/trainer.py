"""Training without labels: unroll the chain, minimise energy - tau * entropy + tau * noise matching (Equation 7).

`Trainer` holds everything that a run is made of; `run` is the loop. Its state goes to disk atomically every few
minutes, and a resumed run continues as if it had not been interrupted (bit for bit on a CPU).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, distributed, nn
from torch.nn.parallel import DistributedDataParallel

from blogdit.core.errors import InputError
from blogdit.core.stopping import Stop, Stopped
from blogdit.method.batch import Batch
from blogdit.method.chain import prior
from blogdit.method.noise import GeneratorNoise
from blogdit.network.checkpoint import Model, save_model
from blogdit.network.denoiser import Denoiser
from blogdit.network.runtime import commit
from blogdit.training import runlog
from blogdit.training.answers import load_answers, save_answers
from blogdit.training.data import Data
from blogdit.training.gradient import add_gradient
from blogdit.training.loss import TrainingLoss, learning_rate, temperature
from blogdit.training.recipe import Recipe
from blogdit.training.recorded import Recorded
from blogdit.training.shelf import Shelf, by_structure, shelves_for
from blogdit.training.state import Budget, Chains, Enqueued, Orders, Progress
from blogdit.training.teacher import Teacher
from blogdit.training.validation import averaged, validate_all

MAX_BAD_STEPS = 20  # NaN updates in a row before training gives up
EARLY, EARLY_GAP = 120.0, 20.0  # seconds of a stretch in which its state is saved more often, and how often
WARM_UPDATES = 3  # on a GPU, before an update is recorded


class Trainer:
    """A training run. Build it, `load` a state or not, then `run`."""

    def __init__(
        self,
        recipe: Recipe,
        data: Data,
        budget: Budget,
        seed: int = 0,
        device: str = "cpu",
        tell: Callable[[str], None] = lambda line: None,
        start: Model | None = None,
    ):
        self.recipe, self.data, self.budget, self.seed, self.tell = recipe, data, budget, seed, tell
        self.device, self.progress = torch.device(device), Progress()
        self.rank, self.world = (
            (distributed.get_rank(), distributed.get_world_size()) if distributed.is_initialized() else (0, 1)
        )
        config, cuda = recipe.training, self.device.type == "cuda"
        parts = self.world * config.accumulate
        if config.batch_size % parts:
            wanted = f"{parts} ({self.world} processes times accumulate={config.accumulate})"
            raise InputError(f"batch_size must be a multiple of {wanted}, got {config.batch_size}")
        with torch.random.fork_rng(devices=[]):  # the initialisation of torch's layers takes no generator
            torch.manual_seed(seed)
            self.denoiser = Denoiser(recipe.denoiser)
        if start is not None:
            self.denoiser.load_state_dict(start.denoiser.state_dict())
        self.denoiser.to(self.device)
        self.average = {name: p.detach().clone() for name, p in self.denoiser.state_dict().items()}
        compiled = config.compile == "yes" or (config.compile == "auto" and cuda)
        bfloat16 = config.precision == "bfloat16" or (config.precision == "auto" and cuda)
        self.loss: nn.Module = TrainingLoss(self.denoiser, recipe, compiled, bfloat16)
        if self.world > 1:
            self.loss = DistributedDataParallel(self.loss)
        self.parameters = [p for p in self.denoiser.parameters() if p.requires_grad]
        self.optimizer = torch.optim.AdamW(
            self.parameters, lr=config.learning_rate, weight_decay=config.weight_decay, betas=(0.9, 0.98), fused=cuda,
            capturable=cuda,
        )  # fmt: skip
        self.host = torch.Generator().manual_seed(seed + 1)  # draws instances, the same in every process
        self.noise = GeneratorNoise(torch.Generator(self.device).manual_seed(seed + 2), (self.rank, self.world))
        self.teacher = Teacher(recipe, seed, self.device)
        self.shelves = shelves_for(data.training, recipe, self.device, parts)
        for shelf in self.shelves:
            shelf.chains = self._first_chains(shelf)
        self.recorded: dict[Shelf, Recorded] = {}
        self.consecutive_bad = 0
        self.terms: tuple[str, ...] = ()  # names of the numbers of an update

    # -- one update ------------------------------------------------------------------------------------------------

    def _draw(self, shelf: Shelf, limit: int) -> Tensor:
        """A number below `limit` for each chain of this process, out of a draw that all processes share."""
        whole = torch.randint(limit, (shelf.batch_size,), generator=self.host)
        return whole.view(self.world, -1)[self.rank].to(self.device, non_blocking=True)

    def _first_chains(self, shelf: Shelf) -> Chains:
        index = self._draw(shelf, len(shelf.instances))
        # Chains start with different ages, so that an update sees all parts of a horizon.
        unroll = self.recipe.training.unroll
        age = self._draw(shelf, self.recipe.training.horizon // unroll) * unroll
        return Chains(index, age, prior(shelf.take(index), self.recipe.chain, self.noise))

    def _restart_old_chains(self, shelf: Shelf, index: Tensor) -> Batch:
        """Chains at the end of their horizon get a new instance and begin from the prior."""
        chains = shelf.chains
        old = chains.age >= self.recipe.training.horizon
        chains.index = torch.where(old, index, chains.index)
        chains.age = torch.where(old, 0, chains.age)
        batch = shelf.take(chains.index)
        start = batch.per_instance(prior(batch, self.recipe.chain, self.noise))
        chains.logits = batch.lay(torch.where(old[:, None, None], start, batch.per_instance(chains.logits)))
        return batch

    def update(self) -> dict[str, float]:
        """One gradient step; returns the log record's numbers."""
        return self._read(self._enqueue())

    def _enqueue(self) -> Enqueued:
        """Give the device the work of one update. Whether the step is finite, the device decides by itself."""
        recipe, config, done = self.recipe, self.recipe.training, self.progress
        spent = self.budget.spent(done.updates, done.seconds)
        rate, tau = learning_rate(recipe, done.updates, spent), temperature(recipe, spent)
        keep = min(config.ema, (1 + done.updates) / (10 + done.updates))  # a shorter memory at the start
        numbers = torch.tensor([rate, tau, keep])
        if self.device.type == "cuda":
            numbers = numbers.pin_memory().to(self.device, non_blocking=True)
        shelf = self.shelves[done.updates % len(self.shelves)]
        orders = Orders(self._draw(shelf, len(shelf.instances)), numbers)
        # Parts of a batch set the generator back, which a recording cannot.
        records = self.device.type == "cuda" and self.world * config.accumulate == 1 and shelf not in self.recorded
        if records and shelf.launched >= WARM_UPDATES:
            self.recorded[shelf] = Recorded(self._work, shelf, orders, self.noise)
        if shelf in self.recorded and self.recorded[shelf].graph is not None:
            outcome = self.recorded[shelf].replay(orders)
        else:
            outcome = self._work(shelf, orders)
            shelf.launched += 1
        done.updates += 1
        steps = shelf.batch_size // self.world * config.unroll
        return Enqueued(done.updates, self.terms, outcome, {"tau": tau, "learning_rate": rate}, steps)

    def _work(self, shelf: Shelf, orders: Orders) -> Tensor:
        """What the device does for an update; all that the host can know of it comes with the orders."""
        config, (rate, tau, keep) = self.recipe.training, orders.numbers
        batch = self._restart_old_chains(shelf, orders.index)
        chains = shelf.chains
        self.optimizer.zero_grad(set_to_none=True)
        logits, terms = add_gradient(self.loss, shelf, batch, self.noise, tau, config)
        norm = nn.utils.clip_grad_norm_(self.parameters, config.clip, foreach=True)
        numbers = torch.stack([*terms.values(), norm])
        self.terms = (*terms, "gradient_norm")
        if self.world > 1:  # means over the whole batch, and one decision for all about a step that is not finite
            distributed.all_reduce(numbers)
            numbers = numbers / self.world
        finite = torch.isfinite(numbers[0] + numbers[-1])  # loss and norm
        self._step(finite, rate, keep)
        # After a step that is not finite, all chains begin again: their logits may hold the NaN.
        chains.age = torch.where(finite, chains.age + config.unroll, config.horizon)
        chains.logits = logits
        return numbers

    @torch.no_grad()
    def _step(self, finite: Tensor, rate: Tensor, keep: Tensor) -> None:
        """Change the weights, unless the step is not finite, and their exponential moving average."""
        cuda = self.device.type == "cuda"
        for group in self.optimizer.param_groups:
            group["lr"] = rate if cuda else rate.item()
        if cuda:  # the fused optimiser skips the step without asking the host
            self.optimizer.found_inf = (~finite).float()  # type: ignore[attr-defined]
        elif not finite:
            return
        self.optimizer.step()
        names, weights = zip(*self.denoiser.state_dict().items(), strict=True)
        averages = [self.average[name] for name in names]
        apart = torch._foreach_sub(list(weights), averages)
        torch._foreach_mul_(apart, 1 - keep)
        torch._foreach_add_(averages, apart)

    def _read(self, enqueued: Enqueued) -> dict[str, float]:
        """Wait for an update; returns the log record's numbers."""
        record = dict(zip(enqueued.names, enqueued.numbers.tolist(), strict=True)) | enqueued.known
        if math.isfinite(record["loss"]) and math.isfinite(record["gradient_norm"]):
            self.consecutive_bad = 0
            return record
        self.progress.bad_steps += 1
        self.consecutive_bad += 1
        if self.consecutive_bad >= MAX_BAD_STEPS:
            raise InputError(
                f"training diverged: {MAX_BAD_STEPS} updates in a row without a finite loss "
                f"(last loss {record['loss']}, gradient norm {record['gradient_norm']}); lower learning_rate or clip"
            )
        return record

    # -- the loop --------------------------------------------------------------------------------------------------

    def run(
        self, out: Path, pause_after: float | None = None, save_every: float = 120.0, stop: Stop | None = None
    ) -> Iterator[dict[str, Any]]:
        """Train until the budget is spent, for `pause_after` minutes, or until asked to `stop`; yields each log record.
        Files in `out`: `state.safetensors` (to resume), `best.safetensors` and `last.safetensors` (models with the
        averaged weights), `log.jsonl`.
        """
        began, before, saved, stop = time.monotonic(), self.progress.seconds, 0.0, stop or Stop()
        lap = 0.0  # when the update began
        with runlog.Log(out, self.progress.updates, enabled=self.rank == 0) as log:
            pending: Enqueued | None = None  # the host reads an update while the device works on the next
            try:
                while self._spent() < 1:
                    previous, pending = pending, self._enqueue()
                    elapsed, stopped = self._agreed(time.monotonic() - began, stop.asked)
                    self.progress.seconds = before + elapsed
                    pending.known["seconds"] = round(self.progress.seconds, 3)
                    pending.known["chain_steps_per_second"] = round(pending.chain_steps / max(elapsed - lap, 1e-9), 1)
                    lap = elapsed
                    if previous is not None:
                        record = self._record(previous)
                        log.write(record)
                        yield record
                    paused = pause_after is not None and elapsed > 60 * pause_after
                    ending = self._spent() >= 1 or paused
                    validating = ending or self.progress.updates % self.recipe.training.validate_every == 0
                    asking = self.teacher.due(self.progress.round_end, self._spent()) and not ending
                    gap = min(save_every, EARLY_GAP) if elapsed < EARLY else save_every
                    saving = ending or stopped or elapsed - saved > gap or self.progress.updates == 1
                    if validating or saving or asking:  # nothing may be under way then
                        record, pending = self._record(pending), None
                        rounds = self.progress.rounds
                        self._look(record, out, stop, validating, asking)
                        stopped = stopped or (stop.asked and self.world == 1)
                        if self.progress.rounds > rounds:
                            elapsed, _ = self._agreed(time.monotonic() - began)
                            self.progress.seconds = before + elapsed
                            self.progress.round_end = self._spent()
                        log.write(record)
                        if saving or asking or stopped:
                            self.save(out)
                            saved = elapsed
                        lap = self._agreed(time.monotonic() - began)[0]
                        yield record
                    if paused or stopped:
                        return
            except GeneratorExit:  # who stops listening still finds every update in the log
                if pending is not None:
                    log.write(self._record(pending))
                raise

    def _look(self, record: dict[str, Any], out: Path, stop: Stop, validating: bool, asking: bool) -> None:
        """What may take minutes, and is given up if somebody asks to stop. Several processes have to do it together."""
        try:
            with stop.at_once() if self.world == 1 else nullcontext():
                record |= self._validate(out) if validating else {}
                record |= self._ask() if asking else {}
        except Stopped:
            if self._spent() >= 1:  # the last scores belong to the run: resumed, it comes here once more
                raise

    def _record(self, enqueued: Enqueued) -> dict[str, Any]:
        numbers = self._read(enqueued)
        return {"update": enqueued.update, **numbers, "bad_steps": self.progress.bad_steps}

    def _spent(self) -> float:
        return self.budget.spent(self.progress.updates, self.progress.seconds)

    def _agreed(self, seconds: float, stopped: bool = False) -> tuple[float, bool]:
        """The time by the clock of the first process, and whether it was asked to stop: all processes follow it. They
        wait here for the update that was just enqueued."""
        if self.world == 1:
            return seconds, stopped
        shared = torch.tensor([seconds, stopped], dtype=torch.float64, device=self.device)
        distributed.broadcast(shared, 0)
        return shared[0].item(), bool(shared[1])

    def _validate(self, out: Path) -> dict[str, float]:
        """Score the averaged weights; keep them if they are the best so far."""
        config = self.recipe.training
        if self.rank:
            return {}
        if self.progress.best_score == -math.inf:  # the first time may come long after the last line
            self.tell(f"scoring on {len(self.data.validation)} instances, {config.validation_steps} steps each")
        by_energy = any(one.objective is not None for one in self.data.validation)  # in every group, to be comparable
        groups = by_structure(self.data.validation, by_size=self.recipe.denoiser.values == "literals")
        with averaged(self.denoiser, self.average):
            scores = validate_all(self.denoiser, groups, self.recipe.chain, config, self.device, by_energy)
        if scores["score"] >= self.progress.best_score:  # of equals the later: it has learnt more
            self.progress.best_score, self.progress.best_update = scores["score"], self.progress.updates
            save_model(out / "best.safetensors", self.model(scores), self.average)
        save_model(out / "last.safetensors", self.model(scores), self.average)
        return {f"valid_{name}": value for name, value in scores.items()}

    def _ask(self) -> dict[str, float]:
        """A round of the teacher, with the averaged weights."""
        number = self.progress.rounds + 1
        with averaged(self.denoiser, self.average):
            counts = self.teacher.round(self.model(), self.shelves, number, self.rank == 0)
        self.progress.rounds = number
        if counts["teacher_asked"]:
            asked, new = counts["teacher_asked"], counts["teacher_new"]
            self.tell(f"round {number}: {asked:,} instances asked, {new:,} new answers")
        return counts

    def model(self, scores: dict[str, float] | None = None) -> Model:
        """The network with its provenance."""
        device = torch.cuda.get_device_name() if self.device.type == "cuda" else "CPU"
        provenance = {
            "recipe": self.recipe.to_dict(),
            "data": self.data.sources,
            "updates": self.progress.updates,
            "teacher_rounds": self.progress.rounds,
            "minutes": round(self.progress.seconds / 60, 2),
            "device": device,
            "seed": self.seed,
            "commit": commit(),
            "validation": scores or {},
        }
        return Model(self.recipe.problem, self.denoiser, self.recipe.chain, self.recipe.problem, provenance)

    # -- state on disk ---------------------------------------------------------------------------------------------

    def save(self, out: Path) -> None:
        if self.progress.rounds and self.rank == 0:  # before the state, which counts their rounds
            save_answers(out, [shelf.answers for shelf in self.shelves if shelf.answers is not None])
        runlog.save_state(out / runlog.STATE, self)

    def load(self, out: Path) -> None:
        runlog.load_state(out / runlog.STATE, self)
        if self.progress.rounds:
            load_answers(out, [shelf.answers for shelf in self.shelves if shelf.answers is not None])
        for shelf in self.shelves:
            shelf.launched = 0
        self.recorded.clear()  # what was recorded works on other tensors
