"""Variables that follow from others: computed, never searched for.

Each has a constraint that leaves only one value for it once the others have theirs: a sum that it is equal to, a
minimum, a maximum, an element, a table, or a sum within bounds that it is true for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from blogdit.core.arrays import IntArray, integers
from blogdit.core.constraints import Constraint, Function, Sum, Table
from blogdit.core.domains import Domains


class Derived(NamedTuple):
    """A variable, and the constraint that defines it: number `row` of `instance.constraints[group]`."""

    variable: int
    group: int
    row: int


def checked(rows: Sequence[Any], constraints: Sequence[Constraint], domains: Domains) -> tuple[Derived, ...]:
    """The rows, if every variable follows from variables that are not derived or come before it."""
    given = [Derived(*one) for one in integers(rows, "derived", 2, 3).tolist()]
    known = set(range(len(domains))) - {one.variable for one in given}
    for variable, group, row in given:
        if not 0 <= variable < len(domains) or variable in known:
            wrong = "twice" if variable in known else f"outside 0..{len(domains) - 1}"
            raise ValueError(f"derived names variable {variable} {wrong}")
        if not 0 <= group < len(constraints) or not 0 <= row < len(constraints[group]):
            raise ValueError(f"derived variable {variable} names constraint {row} of group {group}, which is not there")
        inputs = constraints[group].inputs(row, variable, domains)
        if inputs is None:
            kind = constraints[group].kind
            raise ValueError(f"constraint {row} of group {group} ({kind}) does not say what variable {variable} is")
        if early := sorted(set(inputs.tolist()) - known):
            raise ValueError(f"derived variable {variable} follows from variable {early[0]}, which comes after it")
        is_number = not isinstance(constraints[group], Table) and domains.sizes[variable] > 1
        if is_number and (np.diff(domains.of(variable)) <= 0).any():
            raise ValueError(f"derived variable {variable} needs values in rising order")
        known.add(variable)
    return tuple(given)


def sources(
    derived: Sequence[Derived], constraints: Sequence[Constraint], domains: Domains
) -> tuple[IntArray, IntArray]:
    """Pairs (derived variable, variable that it follows from and that is not derived itself), (E, 2); and the most by
    which the number of the first can change with the second alone, (E,)."""
    spans = (domains.greatest - domains.least).tolist()
    found: dict[int, dict[int, int]] = {}  # derived variable -> source -> the most
    for variable, number, row in derived:
        group = constraints[number]
        inputs = group.inputs(row, variable, domains)
        assert inputs is not None, "checked when the instance was built"
        own = {one: found.get(one, {one: spans[one]}) for one in inputs.tolist()}
        if isinstance(group, Sum) and group.when is None:
            entries = group.scopes.entries_of(row)
            terms = zip(group.scopes[row].tolist(), group.weights[entries].tolist(), group.equals[entries], strict=True)
            parts = [(own[i], abs(weight), a < 0) for i, weight, a in terms if i != variable]
            most = Counter[int]()
            for changes, weight, is_number in parts:
                most.update({source: weight * (change if is_number else 1) for source, change in changes.items()})
        elif isinstance(group, Function) and group.which != "element":
            most = Counter({s: max(changes.get(s, 0) for changes in own.values()) for s in set().union(*own.values())})
        else:
            most = Counter({source: spans[variable] for changes in own.values() for source in changes})
        found[variable] = {source: min(change, spans[variable]) for source, change in most.items()}
    rows = [(variable, source, most) for variable, every in found.items() for source, most in sorted(every.items())]
    pairs = np.array(rows, np.int64).reshape(-1, 3)
    return pairs[:, :2], pairs[:, 2]
