"""What a client asks: an instance, a model and options, each within the limits of the server."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from blogdit import formats
from blogdit.core.errors import InputError
from blogdit.core.instance import Instance
from blogdit.formats.graph_text import is_gset
from blogdit.formats.limits import Limits as FileLimits
from blogdit.solver.solver import Solver
from blogdit.web.cpmpy_text import Translated
from blogdit.web.limits import Limits, Refused

KEYS = {"text", "instance", "name", "problem", "colors", "model", "options", "share"}
OPTIONS = {
    "steps", "time_limit", "target", "first_feasible", "chains", "block", "schedule", "cycle", "finish", "finish_share",
    "seed",
}  # fmt: skip
KINDS: dict[str, tuple[tuple[type, ...], str]] = {
    "first_feasible": ((bool,), "true or false"),
    **dict.fromkeys(("block", "schedule", "finish"), ((str,), "a string")),
}  # of options that are no numbers
# Others are binary, or let a few bytes ask for any amount of memory.
SUFFIXES = {
    "", ".txt", ".csv", ".col", ".gset", ".edges", ".latin", ".qubo", ".ising", ".json", ".jsonl", ".gml", ".graphml",
    ".cnf", ".wcnf", ".opb", ".wbo",
}  # fmt: skip
CPMPY = ".py"
ReadModel = Callable[[str, str], Translated]


@dataclass(frozen=True)
class Question:
    instance: Instance
    translated: Translated | None = None  # of a CPMpy model
    more: bool = False  # the text holds more instances than this first one
    model: str | None = None
    share: tuple[float, float] | None = None  # of the variables in a block, at the start of a cycle and at its end
    options: Mapping[str, Any] = field(default_factory=dict)

    def settings(self, solver: Solver) -> dict[str, Any]:
        """What a client may want to know of its run: what it has asked for, and what was taken where it did not ask."""
        schedule = solver.model.chain.schedule
        taken = {"model": solver.model.name, "block": solver.options.block, "chains": solver.options.chains}
        share = [schedule.rho_max, schedule.rho_min]
        settings = {**taken, "share": share, "options": dict(self.options), "more": self.more}
        if self.translated is None:
            return settings
        return {**settings, "shown": {"bases": self.translated.bases, "constant": self.translated.constant}}


def parse(body: bytes, limits: Limits, read_cpmpy: ReadModel) -> Question:
    """The question of a request's body, or a refusal that says what was expected. `read_cpmpy` makes an instance of the
    text and the name of a CPMpy model."""
    data = _decode(body)
    _refuse_unknown(data, KEYS, "the request")
    if ("text" in data) == ("instance" in data):
        raise Refused(422, "expected either text or instance")
    try:
        instance, translated, more = _instance(data, limits, read_cpmpy)
    except InputError as error:
        where = "" if error.line is None else f"line {error.line}: "
        raise Refused(422, where + error.message.partition(", or --allow")[0]) from None
    except (ValueError, OverflowError) as error:
        raise Refused(422, str(error)) from None
    _check_size(instance, limits)
    model, share = _text(data, "model", None), _share(data.get("share"))
    return Question(instance, translated, more, model, share, _options(data.get("options", {}), limits))


def _decode(body: bytes) -> dict[str, Any]:
    def refuse(constant: str) -> Any:
        raise Refused(400, f"{constant} is not a finite number")

    try:
        data = json.loads(body.decode(), parse_constant=refuse)
    except (ValueError, RecursionError) as error:
        raise Refused(400, f"not valid JSON: {error}") from None
    if not isinstance(data, dict):
        raise Refused(400, f"expected a JSON object, got {type(data).__name__}")
    return data


def _instance(
    data: Mapping[str, Any], limits: Limits, read_cpmpy: ReadModel
) -> tuple[Instance, Translated | None, bool]:
    name = str(_text(data, "name", "question"))[:200]
    if "instance" in data:
        described = data["instance"]
        if not isinstance(described, dict):
            raise Refused(422, "instance must be an object in the JSON format of blogdit")
        _check_sizes(described.get("domain_sizes"), limits)
        return formats.from_json(described, name), None, False
    text, suffix = str(_text(data, "text", "")), Path(name).suffix.lower()
    if suffix == CPMPY:
        translated = read_cpmpy(text, Path(name).stem)
        return translated.instance, translated, False
    if suffix not in SUFFIXES:
        raise Refused(422, f"files {suffix!r} are not read here; expected {', '.join(sorted(SUFFIXES - {''}))}")
    _check_header(text, limits)
    problem, colors = _text(data, "problem", None), data.get("colors")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"question{suffix}"
        path.write_text(text, "utf-8", "surrogatepass")
        most = FileLimits(vertices=limits.constraints, edges=limits.constraints)  # more is not even read
        found = list(islice(formats.stream(path, problem, colors, Path(name).stem, limits=most), 2))
    if not found:
        raise Refused(422, "holds no instance")
    return found[0], None, len(found) > 1


def _check_header(text: str, limits: Limits) -> None:
    """Before anything is built: a line that promises a giant, or is one."""
    start = text[:100_000].split("\n", 65)[:64]
    if any(len(line) > max(4 * limits.variables, 1000) for line in start if not line.lstrip().startswith("{")):
        raise Refused(422, f"a line is too long; expected at most {limits.variables} variables")
    promises = [line.split() for line in start if line.split()[:1] == ["p"]]
    promises += [start[0].split()] if is_gset(start) else []
    for field_ in (one for fields in promises for one in fields):
        if field_.isdecimal() and (len(field_) > 9 or int(field_) > limits.constraints):
            raise Refused(422, f"a header with {field_[:20]}; expected numbers up to {limits.constraints}")
    if text.lstrip().startswith("{"):
        try:
            described = json.loads(text.lstrip().split("\n", 1)[0] if "\n{" in text else text)
        except (ValueError, RecursionError):
            return  # the reader of the format says where the mistake is
        _check_sizes(described.get("domain_sizes") if isinstance(described, dict) else None, limits)


def _check_sizes(sizes: Any, limits: Limits) -> None:
    """Domain sizes as they come from a client; what they are not, the reader of the format says."""
    if isinstance(sizes, list) and all(type(size) is int for size in sizes):
        _require(len(sizes), limits.variables, "variables")
        _require(sum(sizes), limits.choices, "values of all variables together")


def _check_size(instance: Instance, limits: Limits) -> None:
    _require(instance.size, limits.variables, "variables")
    _require(int(instance.domain_sizes.sum()), limits.choices, "values of all variables together")
    goal = instance.objective
    terms = 0 if goal is None else len(goal.differ) + len(goal.pairwise) + len(goal.unary)
    _require(sum(len(group) for group in instance.groups) + terms, limits.constraints, "constraints")


def _require(number: int, most: int, what: str) -> None:
    if number > most:
        raise Refused(422, f"{number:,} {what}; expected at most {most:,}")


def _share(share: Any) -> tuple[float, float] | None:
    if share is None:
        return None
    numbers = share if isinstance(share, list) and all(type(one) in (int, float) for one in share) else []
    if len(numbers) != 2 or not 0 < numbers[1] <= numbers[0] <= 1:
        raise Refused(422, "share must be [largest, smallest], both above 0 and at most 1")
    return float(numbers[0]), float(numbers[1])


def _options(options: Any, limits: Limits) -> dict[str, Any]:
    """Options of the solver. Without a budget a job has all the seconds that it may have."""
    if not isinstance(options, dict):
        raise Refused(422, "options must be an object")
    _refuse_unknown(options, OPTIONS, "options")
    given = {name: value for name, value in options.items() if value is not None}
    for name, value in given.items():
        kind, called = KINDS.get(name, ((int, float), "a number"))
        if type(value) not in kind:
            raise Refused(422, f"{name} must be {called}, got {str(value)[:60]!r}")
    for name, most in (("steps", limits.steps), ("chains", limits.chains), ("time_limit", limits.seconds)):
        if given.get(name, 0) > most:
            raise Refused(422, f"{name} must be at most {most:g}, got {given[name]:g}")
    return {"time_limit": limits.seconds, **given}


def _text(data: Mapping[str, Any], key: str, default: str | None) -> str | None:
    value = data.get(key, default)
    if value is not None and not isinstance(value, str):
        raise Refused(422, f"{key} must be a string, got {type(value).__name__}")
    return value


def _refuse_unknown(data: Mapping[str, Any], known: set[str], what: str) -> None:
    if unknown := sorted(set(data) - known):
        raise Refused(422, f"{what} has no {unknown[0][:60]!r}; known: {', '.join(sorted(known))}")
