"""Checks records against the JSON of their instances, in plain Python: nothing here is shared with the package."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

STATUSES = {"solved", "optimal", "feasible", "unknown", "infeasible"}
VALID = {"solved", "optimal", "feasible"}
RELATIONS = {"<=": lambda a, b: a <= b, "=": lambda a, b: a == b, ">=": lambda a, b: a >= b}


def numbers(instance: dict[str, Any], x: list[int]) -> list[Any]:
    """What values mean: their names where the instance has some."""
    named = instance.get("values")
    if named is None:
        return x
    lists = named if isinstance(named[0], list) else [named] * len(x)
    return [names[value] for names, value in zip(lists, x, strict=True)]


def holds(group: dict[str, Any], x: list[int], means: list[Any]) -> Iterator[bool]:
    """For each constraint of a group."""
    kind = group["kind"]
    if kind == "not_equal":
        yield from (means[i] != means[j] for i, j in group["pairs"])
    elif kind == "conflict":
        same = group["values"] if not isinstance(group["values"][0], list) else None
        for row, (i, j) in enumerate(group["pairs"]):
            a, b = same or group["values"][row]
            yield not (x[i] == a and x[j] == b)
    else:
        for row, scope in enumerate(group["scopes"]):
            yield _holds(group, row, scope, x, means)


def _holds(group: dict[str, Any], row: int, scope: list[int], x: list[int], means: list[Any]) -> bool:
    def entry(key: str, usual: Any) -> Any:
        return group[key][row] if group.get(key) is not None else usual

    kind, seen = group["kind"], [means[i] for i in scope]
    if kind == "all_different":
        offsets = entry("offsets", None)
        shown = seen if offsets is None else [one + offset for one, offset in zip(seen, offsets, strict=True)]
        return len(set(shown)) == len(shown)
    if kind == "linear":
        total = sum(c * one for c, one in zip(group["coefficients"][row], seen, strict=True))
        return bool(RELATIONS[group["relations"][row]](total, group["bounds"][row]))
    if kind == "count":
        return bool(group["low"][row] <= sum(x[i] == group["values"][row] for i in scope) <= group["high"][row])
    if kind == "table":
        return [x[i] for i in scope] in group["tuples"]
    if kind == "function":
        result = means[group["results"][row]]
        if group["which"] == "element":
            return bool(result == seen[1 + x[scope[0]]])
        return bool(result == (min if group["which"] == "min" else max)(seen))
    if kind == "sum":
        weights, equals = entry("weights", [1] * len(scope)), entry("equals", [-1] * len(scope))
        terms = [means[i] if a < 0 else x[i] == a for i, a in zip(scope, equals, strict=True)]
        total = sum(weight * term for weight, term in zip(weights, terms, strict=True))
        low, high = entry("low", None), entry("high", None)
        inside = (low is None or low <= total) and (high is None or total <= high)
        if group.get("when") is None:
            return inside
        i, a, true = [*group["when"][row], 1][:3]
        literal = (x[i] == a) == bool(true)
        return inside == literal if group.get("exactly") else inside or not literal
    raise SystemExit(f"the checker does not know {kind}")


def violations(instance: dict[str, Any], x: list[int]) -> int:
    """Of hard constraints, domains and givens."""
    wrong = sum(not 0 <= value < size for value, size in zip(x, instance["domain_sizes"], strict=True))
    if wrong:
        return wrong
    wrong, means = sum(x[i] != value for i, value in instance.get("givens", [])), numbers(instance, x)
    hard = (group for group in instance.get("constraints", []) if "weight" not in group)
    return wrong + sum(not met for group in hard for met in holds(group, x, means))


def objective(instance: dict[str, Any], x: list[int]) -> float | None:
    soft = [group for group in instance.get("constraints", []) if "weight" in group]
    goal, means = instance.get("objective"), numbers(instance, x)
    if goal is None and not soft:
        return None
    goal = goal or {"sense": "minimize"}
    terms = lambda name: zip(goal.get(name, []), goal.get(f"{name}_weights", []), strict=True)  # noqa: E731
    total = sum(w for (i, a), w in terms("unary") if x[i] == a)
    total += sum(w for (i, j), w in terms("differ") if means[i] != means[j])
    total += sum(w for (i, j, a, b), w in terms("pairwise") if (x[i], x[j]) == (a, b))
    total += sum(w * means[i] for i, w in terms("linear"))
    for group in soft:
        met = list(holds(group, x, means))
        weights = group["weight"] if isinstance(group["weight"], list) else [group["weight"]] * len(met)
        cost = sum(weight for one, weight in zip(met, weights, strict=True) if not one)
        total += cost if goal["sense"] == "minimize" else -cost
    return float(total)


def check(instances: dict[str, dict[str, Any]], out: Path) -> list[str]:
    """What is wrong with a finished file of records."""
    text, found, seen = out.read_text(), [], Counter[str]()
    if not text.endswith("\n"):
        found.append("the last line is torn")
    for line in text.splitlines():
        record = json.loads(line)
        name = record["instance"]
        seen[name] += 1
        if name not in instances:
            continue
        values = record["values"]
        x = [int(one, 36) - 1 for one in values] if isinstance(values, str) else values
        wrong, goal = violations(instances[name], x), objective(instances[name], x)
        if record["status"] not in STATUSES or (record["status"] in VALID) != (wrong == 0):
            found.append(f"{name}: {record['status']} with {wrong} violations")
        if (goal is None) != (record["objective"] is None) or (
            goal is not None and abs(goal - record["objective"]) > 1e-6 * max(1.0, abs(goal))
        ):
            found.append(f"{name}: objective {record['objective']}, not {goal}")
    found += [f"{name}: {seen[name]} records" for name in instances if seen[name] != 1]
    return found + [f"{name}: not asked for" for name in seen if name not in instances]
