"""What a user calls from Python; the command line calls the same."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from blogdit.core.arrays import whole_number
from blogdit.core.constraints import LARGEST_SEED, IntArray
from blogdit.core.errors import InputError
from blogdit.core.instance import Instance
from blogdit.core.result import Result
from blogdit.core.stopping import Stop, Stopped
from blogdit.finishers import FINISHERS
from blogdit.formats.results import Results
from blogdit.integrations._instances import as_instance as as_instance
from blogdit.integrations._instances import is_one
from blogdit.network.checkpoint import Model, load_model
from blogdit.network.runtime import process_group, resolve_device
from blogdit.problems import families, own, pictures
from blogdit.solver.events import Finished, Step
from blogdit.solver.options import SolveKeywords, SolveOptions
from blogdit.solver.session import Session
from blogdit.solver.solver import Solver
from blogdit.solver.streams import SolverPool

if TYPE_CHECKING:
    from blogdit.training.data import Given

Result.pictures = pictures
DEFAULT_SECONDS = 10.0  # for an instance, where no budget is given

WEIGHTS = Path(__file__).parent / "weights"
GENERAL = "general"  # the bundled model that takes problems of every kind


def bundled_models(folder: Path = WEIGHTS) -> dict[str, Path]:
    """The trained models that come with the package, or those of another folder."""
    return {path.stem: path for path in sorted(folder.glob("*.safetensors"))}


def model_file(model: str | Path) -> Path:
    """The file of a bundled model, a file itself, or that of the best weights (else the last) of a run's folder."""
    found, path = bundled_models(), Path(model)
    if str(model) in found:
        return found[str(model)]
    if not path.exists():
        raise InputError(f"unknown model {str(model)!r}; expected a file or one of {', '.join(found) or 'none'}")
    return next((file for name in ("best", "last") if (file := path / f"{name}.safetensors").exists()), path)


def load(model: str | Path) -> Model:
    """A bundled model by name, one from a file, "hf:OWNER/NAME" from the Hugging Face Hub, or the best of a training
    run by its folder. If that holds the file of a problem of your own, its code is run: answers are then shown as it
    says."""
    if str(model).startswith("hf:"):
        from blogdit.integrations.hub import fetch

        return fetch(str(model))
    loaded = load_model(model_file(model))
    if Path(model).is_dir() and str(model) not in bundled_models():
        loaded.name = Path(model).resolve().name
        own.recall(Path(model), loaded.problem)
    return loaded


def solver_for(
    instance: Instance, model: str | Path | Model | None = None, device: str = "auto", **options: Unpack[SolveKeywords]
) -> Solver:
    """A solver for this instance, and others like it, with the bundled model of its problem unless another is named.
    A family that has no model may name one that stands in for it (`Family.stand_in`); problems of your own have the
    general one.

    `options` are those of `SolveOptions`. What the model's card recommends (block, cycle, chains) fills in what is
    left out; without any budget an instance gets ten seconds.
    """
    if not isinstance(instance, Instance):
        raise InputError(f"expected an instance, got {type(instance).__name__}")
    solver = _solver_for_problem(instance, model, device, **options)
    if misfit := solver.misfit(instance):
        raise solver.model.refusal(instance, misfit)
    return solver


def _solver_for_problem(
    instance: Instance,
    model: str | Path | Model | None,
    device: str,
    session: Session | None = None,
    **options: Unpack[SolveKeywords],
) -> Solver:
    """A solver for the problem of an instance, which need not fit its model itself."""
    if model is None:
        found = bundled_models()
        name = model_name(instance.problem, found)
        if name is None:
            known = ", ".join(found) or "none"
            raise InputError(
                f"no model for {instance.problem!r} comes with blogdit (it has {known}); "
                "expected --model NAME or model=NAME, of one that was trained on similar constraints"
            )
        model = load_model(found[name])
    elif not isinstance(model, Model):
        model = load(model)
    place = resolve_device(device)
    chosen = _options({**model.options_for(place.type), **{k: v for k, v in options.items() if v is not None}})
    if chosen.unlimited:
        chosen = replace(chosen, time_limit=DEFAULT_SECONDS)
    return Solver(model, chosen, place, session)


def model_name(problem: str, found: Mapping[str, Path]) -> str | None:
    """The bundled model of a problem, the one that stands in for it, or the general one."""
    stand_in = families()[problem].stand_in if problem in families() else None
    return next((name for name in (problem, stand_in, GENERAL) if name in found), None)


def _options(given: Mapping[str, Any]) -> SolveOptions:
    finish = given.get("finish")
    if finish is not None and finish not in (names := ("auto", "none", *FINISHERS)):
        raise InputError(f"unknown finisher {finish!r}; expected {', '.join(names)}")
    try:
        return SolveOptions(**{name: value for name, value in given.items() if value is not None})
    except ValueError as error:
        raise InputError(str(error)) from None
    except TypeError as error:
        known = [item.name for item in fields(SolveOptions)]
        if unknown := sorted(set(given) - set(known)):
            raise InputError(f"unknown option {', '.join(unknown)}; expected {', '.join(known)}") from None
        raise InputError(f"an option has a value of the wrong type: {error}; got {dict(given)}") from None


def solver_pool(
    model: str | Path | Model | None = None,
    device: str = "auto",
    on_error: Callable[[InputError], None] | None = None,
    **options: Unpack[SolveKeywords],
) -> SolverPool:
    """What `solve` and the command line run streams of instances with; wrong options are found out right here."""
    _options(options)
    resolve_device(device)
    named = model if model is None or isinstance(model, Model) else load(model)
    return SolverPool(lambda one, session: _solver_for_problem(one, named, device, session, **options), on_error)


def solve(
    instances: Any,
    model: str | Path | Model | None = None,
    device: str = "auto",
    *,
    time_limit: float | None = None,
    total_time: float | None = None,
    steps: int | None = None,
    target: float | None = None,
    first_feasible: bool | None = None,
    chains: int | None = None,
    block: str | None = None,
    schedule: str | None = None,
    cycle: int | None = None,
    finish: str | None = None,
    finish_share: float | None = None,
    batch_size: int | None = None,
    seed: int = 0,
    problem: str | None = None,
    colors: int | None = None,
) -> Results:
    """A checked Result for each instance, in the order of the input.

    `instances` is an Instance, or anything that `as_instance` takes, or several of them. Graphs need the `problem` to
    solve on them: coloring (with the number of `colors`), maxcut or mis.
    `time_limit` is in seconds for an instance, `total_time` for all of them, `steps` are the sampler's. `target` and
    `first_feasible` stop early. `chains`, `block`, `schedule` and `cycle` say how to sample; what the model recommends
    holds where they are None. `finish` names what follows the sampler: auto, none, exact, annealing, swaps, tabu or
    descent; `finish_share` is its part of a time limit. docs/solving.md has the details.
    """
    everyone = list(_checked(instances, problem, colors))
    pool = solver_pool(
        model, device, time_limit=time_limit, total_time=total_time, steps=steps, target=target,
        first_feasible=first_feasible, chains=chains, block=block, schedule=schedule, cycle=cycle, finish=finish,
        finish_share=finish_share, batch_size=batch_size, seed=seed,
    )  # fmt: skip
    pool.require_fit(everyone)
    events = pool.run(everyone)
    found = {event.index: event.result for event in events if isinstance(event, Finished)}
    # Those that the total time did not suffice for have no better answer than their givens.
    return Results(found.get(place) or Result(i, i.given_values, seed=seed) for place, i in enumerate(everyone))


def _checked(instances: Any, problem: str | None, colors: int | None) -> Iterator[Instance]:
    """One by one, each an Instance."""
    if isinstance(instances, str | Path):
        raise InputError(f"expected instances, got {str(instances)!r}; read a file with blogdit.read")
    if not is_one(instances) and not isinstance(instances, Iterable):
        raise InputError(f"expected instances, graphs or models, got {type(instances).__name__}")
    for one in [instances] if is_one(instances) else instances:
        yield as_instance(one, problem, colors)


def solve_each(
    instances: Any,
    model: str | Path | Model | None = None,
    device: str = "auto",
    *,
    problem: str | None = None,
    colors: int | None = None,
    **options: Unpack[SolveKeywords],
) -> Iterator[Result]:
    """Like `solve`, for as many instances as you like: reads them as it goes and yields each Result when it is there.

    Results come in the order of completion; `result.instance` is the instance.
    """
    for event in solver_pool(model, device, **options).run(_checked(instances, problem, colors)):
        if isinstance(event, Finished):
            yield event.result


def stream(
    instance: Instance, model: str | Path | Model | None = None, device: str = "auto", **options: Unpack[SolveKeywords]
) -> Iterator[Step]:
    """Every step of solving one instance as it happens. `step.result` is set when a better answer was found; with the
    last step also by the finisher that follows it."""
    solver = solver_for(instance, model, device, **options)
    solver.session.trace = True
    step, best = None, None
    for event in solver.events([instance]):
        if isinstance(event, Step):
            if step is not None:
                yield step
            step, best = event, event.result or best
        elif step is not None:
            last = event.result
            news = best is None or last.status != best.status or last.values.tolist() != best.values.tolist()
            yield replace(step, result=last) if news else step


def follow(
    instance: Instance,
    on_look: Callable[[Callable[[], Result], Callable[[], IntArray]], None],
    model: str | Path | Model | None = None,
    device: str = "auto",
    start: IntArray | None = None,
    **options: Unpack[SolveKeywords],
) -> Result:
    """Like `solve`, for one instance, with a look at it every few steps: `on_look` gets two functions, for the best
    answer so far (by a finisher, too) and for where the chains are, (chains, n). `start` is an answer that is known:
    finishers begin with it, and nothing worse comes back (`found_by` is then "start")."""
    solver = solver_for(instance, model, device, **options)

    def look() -> None:
        slots = solver.occupants.slots
        assert slots is not None
        if start is not None and slots.members[0].found is None:
            slots.members[0].found, slots.members[0].found_by = start, "start"
        on_look(lambda: solver.answers.result(slots, 0), lambda: slots.chain_values([0])[0])

    solver.session.on_step = look
    ((_, result),) = solver.results([instance])
    return result


def sample(
    instance: Instance,
    count: int,
    steps: int = 100,
    model: str | Path | Model | None = None,
    device: str = "auto",
    seed: int = 0,
) -> Results:
    """Where `count` independent chains are after `steps` steps: a spread of assignments, valid or not."""
    try:
        count, steps = whole_number(count, "count", 1), whole_number(steps, "steps", 1)
    except ValueError as error:
        raise InputError(str(error)) from None
    return Results(solver_for(instance, model, device, seed=seed).sample(instance, count, steps))


def train(
    problem: str,
    out: str | Path,
    minutes: float | None = None,
    updates: int | None = None,
    settings: Mapping[str, Any] | None = None,
    data: Iterable[Given] = (),
    valid: Given | Iterable[Given] | None = None,
    resume: bool = False,
    pause_after: float | None = None,
    seed: int = 0,
    device: str = "auto",
    on_record: Callable[[dict[str, Any], float], None] | None = None,
    tell: Callable[[str], None] = lambda line: None,
    start: str | Path | Model | None = None,
    stop: Stop | None = None,
) -> Model:
    """Train a model for a problem family without labels; returns the best model so far, also in `out`.

    `problem` may also be a Python file with a function `generate(rng)`: docs/training.md.
    Instances come from the family's generator, or from `data` and `valid`: files, or instances. A problem of your own,
    the `problem` of these instances, has no generator: it needs `data`, and without `valid` one in ten of them chooses
    instead of training. `resume` goes on from the state in `out`, with its settings and seed; where torchrun has
    started this process, it also begins a run that has no state yet. `pause_after` stops after that many minutes of
    this call, to be resumed. `on_record` gets each log record and the share of the budget that is spent; `tell` a line
    before what takes long and leaves no record. `start` is a model whose weights training begins with: it keeps their
    network and chain. Who calls `stop.ask()` ends it with `Stopped` after the update in work, to be resumed.
    """
    from blogdit.training.data import data_for  # not needed, and not loaded, for solving
    from blogdit.training.runs import chosen_recipe
    from blogdit.training.state import Budget
    from blogdit.training.trainer import Trainer

    out, data = Path(out), _listed(data)
    begin = start if start is None or isinstance(start, Model) else load(start)
    mine = own.adopt(problem)
    problem = problem if mine is None else mine.name
    try:
        if problem not in families() and not data:
            known = ", ".join(sorted(families()))
            raise InputError(f"unknown problem {problem!r}; known: {known}; one of your own needs --data")
        budget = Budget(updates, minutes)
        whole_number(seed, "seed", 0, LARGEST_SEED)
        if pause_after is not None and not pause_after >= 0:
            raise InputError(f"expected minutes to pause after, got {pause_after}")
        chosen, seed, resume = chosen_recipe(problem, out, settings, resume, seed, begin)
    except InputError:
        raise
    except ValueError as error:
        raise InputError(str(error)) from None
    with process_group(resolve_device(device)) as here:
        stop = stop or Stop()
        with stop.at_once():
            instances = data_for(chosen, seed, data, _listed(valid), tell)
        trainer = Trainer(chosen, instances, budget, seed, str(here), tell, None if resume else begin)
        instances.require_fit(trainer.model() if begin is None else begin)
        if resume:
            trainer.load(out)
        if mine is not None and trainer.rank == 0:
            own.keep(mine, out)
        for record in trainer.run(out, pause_after, stop=stop):
            if on_record is not None and trainer.rank == 0:
                on_record(record, budget.spent(trainer.progress.updates, trainer.progress.seconds))
    if stop.asked:
        raise Stopped
    return load_model(model_file(out))


def _listed(given: Given | Iterable[Given] | None) -> list[Given]:
    if given is None:
        return []
    return [given] if isinstance(given, str | Path | Instance) else list(given)
