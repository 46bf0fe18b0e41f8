"""The JSON form of any instance: `{"format": "blogdit-csp", "version": 1, ...}`, documented in docs/formats.md."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import IO, Any, TypeVar

import numpy as np

from blogdit.core.arrays import integers
from blogdit.core.constraints import (
    FAR,
    AllDifferent,
    Conflict,
    Constraint,
    Count,
    FloatArray,
    Function,
    Linear,
    NotEqual,
    Scopes,
    Sum,
    Table,
)
from blogdit.core.errors import InputError
from blogdit.core.instance import Instance, Objective
from blogdit.formats.text import Lines, OnError
from blogdit.problems import families

T = TypeVar("T")

FORMAT, VERSION = "blogdit-csp", 1
# The keys of a constraint in JSON are the arguments and the attributes of its class.
KINDS: dict[str, type[Constraint]] = {
    kind.kind: kind for kind in (AllDifferent, NotEqual, Conflict, Linear, Count, Sum, Function, Table)
}
PLAIN = ("which", "exactly")  # arguments that are no lists
OBJECTIVE_KEYS = (
    "unary", "unary_weights", "linear", "linear_weights", "differ", "differ_weights", "pairwise", "pairwise_weights",
)  # fmt: skip
INSTANCE_KEYS = {
    "format", "version", "problem", "name", "domain_sizes", "givens", "constraints", "objective", "positions", "labels",
    "values", "derived",
}  # fmt: skip


def looks_like_json(start: list[str]) -> bool:
    """Whether the first lines of a file, or half of them, open an object."""
    lines = [line.lstrip() for line in start if line.strip()]
    return bool(lines) and (lines[0].startswith("{") or 2 * sum(line.startswith("{") for line in lines) >= len(lines))


def read_json(
    lines: Lines, stem: str, problem: str | None = None, on_error: OnError | None = None
) -> Iterator[Instance]:
    """Instances of any problem, or of `problem` alone; those of a line with an error are left out if `on_error` is
    there to hear of it."""

    def build(data: Any, line: int, name: str) -> Instance:
        try:
            instance = from_json(data, name)
        except (ValueError, OverflowError) as error:
            raise lines.error(str(error), line) from None
        if problem is not None and instance.problem != problem:
            raise lines.error(f"expected {problem}, got {instance.problem!r}", line)
        return instance

    return _objects(lines, stem, build, on_error)


def json_objects(lines: Lines, stem: str) -> Iterator[tuple[Any, int, str]]:
    """(object, line, default name) of each object: one per line, or a single one over all lines."""
    return _objects(lines, stem, lambda data, line, name: (data, line, name))


def _objects(
    lines: Lines, stem: str, build: Callable[[Any, int, str], T], on_error: OnError | None = None
) -> Iterator[T]:
    if not holds_json_lines(lines.peek(64)):
        yield build(_decode("\n".join(lines), lines, whole_file=True), 1, stem)
        return

    def parse(line: str) -> T | None:
        if not line.strip():
            return None
        alone = lines.number == 1 and not lines.peek(1)
        return build(_decode(line, lines), lines.number, stem if alone else f"{stem}:{lines.number}")

    yield from lines.parse_each(parse, on_error)


def holds_json_lines(start: list[str]) -> bool:
    """The first line is a whole object, or (should it be damaged) a later one that is not indented is."""
    first = [line.strip() for line in start[:1]]
    return any(line.startswith("{") and line.rstrip().endswith("}") for line in first + start[1:])


def _decode(text: str, lines: Lines, whole_file: bool = False) -> Any:
    def refuse(constant: str) -> Any:
        raise lines.error(f"{constant} is not a finite number")

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            names = [name for name, _ in pairs]
            raise lines.error(f"has {next(name for name in names if names.count(name) > 1)!r} twice")
        return found

    try:
        data = json.loads(text, parse_constant=refuse, object_pairs_hook=once)
    except json.JSONDecodeError as error:
        line = error.lineno if whole_file else lines.number
        raise lines.error(f"not valid JSON: {error.msg} (column {error.colno})", line) from None
    except (RecursionError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise lines.error("not valid JSON: nested too deeply or a number too long") from None
    if not isinstance(data, dict):
        raise lines.error(f"expected a JSON object, got {type(data).__name__}")
    return data


def from_json(data: dict[str, Any], name: str = "") -> Instance:
    """The instance that a decoded JSON object describes, or a ValueError."""
    if data.get("format") != FORMAT:
        raise ValueError(f'expected "format": "{FORMAT}", got {data.get("format")!r}')
    if data.get("version") != VERSION:
        raise ValueError(f'expected "version": {VERSION}, got {data.get("version")!r}')
    _refuse_unknown(data, INSTANCE_KEYS, "the instance")
    for key in ("problem", "name"):
        if not isinstance(data.get(key, ""), str):
            raise ValueError(f"{key} must be a string, got {data[key]!r}")
    givens = _array(data.get("givens", []), "givens")
    if givens and not all(isinstance(pair, list) and len(pair) == 2 for pair in givens):
        raise ValueError("givens must be a list of [variable, value] pairs")
    if len({str(pair[0]) for pair in givens}) < len(givens):
        raise ValueError("givens names a variable twice")
    labels, positions, values = data.get("labels"), data.get("positions"), data.get("values")
    groups = [_constraint(entry) for entry in _array(data.get("constraints", []), "constraints")]
    instance = Instance(
        domain_sizes=integers(_array(data.get("domain_sizes"), "domain_sizes"), "domain_sizes", 1),
        constraints=tuple(group for group, weight in groups if weight is None),
        objective=_objective(data.get("objective"), [one for one in groups if one[1] is not None]),
        givens=_given_map(givens),
        problem=data.get("problem", "csp"),
        name=data.get("name") or name,
        positions=None if positions is None else integers(_array(positions, "positions"), "positions", 2),
        labels=None
        if labels is None
        else [tuple(one) if isinstance(one, list) else one for one in _array(labels, "labels")],
        values=None if values is None else _array(values, "values"),
        derived=_array(data.get("derived", []), "derived"),
    )
    family = families().get(instance.problem)
    return instance if family is None else family.adopt(instance)


def to_json(instance: Instance) -> dict[str, Any]:
    data: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "problem": instance.problem,
        "name": instance.name,
        "domain_sizes": instance.domain_sizes.tolist(),
    }
    if instance.givens:
        data["givens"] = [[int(variable), int(value)] for variable, value in instance.givens.items()]
    soft = () if instance.objective is None else instance.objective.soft
    if instance.constraints or soft:
        data["constraints"] = [_entry(group) for group in instance.constraints]
        data["constraints"] += [_entry(group) | {"weight": _weight(weights)} for group, weights in soft]
    if instance.objective is not None:
        terms = {key: getattr(instance.objective, key).tolist() for key in OBJECTIVE_KEYS}
        data["objective"] = {"sense": instance.objective.sense} | {key: term for key, term in terms.items() if term}
    if instance.positions is not None:
        data["positions"] = instance.positions.tolist()
    if instance.labels is not None:
        data["labels"] = plain_labels(instance.labels)
    if instance.values:
        alike = all(row == instance.values[0] for row in instance.values)
        data["values"] = list(instance.values[0]) if alike else [list(row) for row in instance.values]
    if instance.derived:
        data["derived"] = [list(row) for row in instance.derived]
    return data


def plain_labels(labels: Sequence[Any]) -> list[Any]:
    """As JSON holds them; a label of two parts, a row and a column, is a list."""
    lists = (list(label) if isinstance(label, tuple) else label for label in labels)
    return [label if isinstance(label, str | int | float | list) else str(label) for label in lists]


def write_json(instances: Iterable[Instance], handle: IO[str]) -> None:
    """One object per line."""
    for instance in instances:
        handle.write(json.dumps(to_json(instance), separators=(",", ":")) + "\n")


def _arguments(kind: type[Constraint]) -> dict[str, Any]:
    """The arguments of a kind, with their defaults."""
    return {name: one.default for name, one in inspect.signature(kind).parameters.items()}


def _entry(group: Constraint) -> dict[str, Any]:
    defaults = _arguments(type(group))
    plain = {key: _plain(getattr(group, key), key, group) for key in defaults}
    return {"kind": group.kind} | {key: value for key, value in plain.items() if value != defaults[key]}


def _plain(value: Any, key: str, group: Constraint) -> Any:
    if isinstance(value, Scopes):
        return [value[j].tolist() for j in range(len(value))]
    if type(group) is Sum and key in ("low", "high"):
        bounds = [None if abs(one) >= FAR else one for one in value.tolist()]
        return bounds if any(one is not None for one in bounds) else None
    if key in group.per_entry and value is not None:  # one row per scope, as they were given
        offsets = group.scopes.offsets  # type: ignore[attr-defined]
        return [row.tolist() for row in np.split(value, offsets[1:-1])] if len(group) else []
    return value.tolist() if isinstance(value, np.ndarray) else list(value) if isinstance(value, tuple) else value


def _weight(weights: FloatArray) -> float | list[float]:
    """One number, if it is the same for all constraints of a group."""
    return float(weights[0]) if len(weights) and (weights == weights[0]).all() else weights.tolist()


def _constraint(entry: Any) -> tuple[Constraint, Any]:
    """A group and its weight, None if it must hold."""
    kind = KINDS.get(str(entry.get("kind"))) if isinstance(entry, dict) else None
    if kind is None:
        raise ValueError(f'a constraint must be an object with "kind" one of {", ".join(KINDS)}')
    defaults = _arguments(kind)
    _refuse_unknown(entry, {"kind", "weight", *defaults}, kind.kind)
    missing = [key for key, default in defaults.items() if default is inspect.Parameter.empty and key not in entry]
    if missing:
        raise ValueError(f"{kind.kind} needs {missing[0]!r}")
    given = {key: entry[key] for key in defaults if key in entry}
    lists = {key: value for key, value in given.items() if key not in PLAIN}
    return kind(**given | {key: _array(value, f"{kind.kind} {key}") for key, value in lists.items()}), entry.get(
        "weight"
    )


def _objective(entry: Any, soft: Sequence[tuple[Constraint, Any]]) -> Objective | None:
    if entry is None:
        return Objective("minimize", soft=soft) if soft else None
    if not isinstance(entry, dict):
        raise ValueError("objective must be an object")
    _refuse_unknown(entry, {"sense", *OBJECTIVE_KEYS}, "the objective")
    terms = {key: _array(value, f"objective {key}") for key, value in entry.items() if key != "sense"}
    return Objective(entry.get("sense"), **terms, soft=soft)  # type: ignore[arg-type]


def _given_map(pairs: list[list[int]]) -> dict[int, int]:
    for variable, value in pairs:
        if type(variable) is not int or type(value) is not int:
            raise ValueError(f"givens must hold integers, got [{variable!r}, {value!r}]")
    return dict(map(tuple, pairs))  # type: ignore[arg-type]


def _array(value: Any, name: str) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError(f"{name} must be a list, got {type(value).__name__}")
    return value


def _refuse_unknown(data: dict[str, Any], known: set[str], what: str) -> None:
    unknown = sorted(set(data) - known)
    if unknown:
        raise ValueError(f"{what} has no {unknown[0]!r}; known: {', '.join(sorted(known))}")
