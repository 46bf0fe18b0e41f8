"""Variables that follow from others: computed, never searched for.

Each has a constraint that leaves only one value for it once the others have theirs: a sum that it is equal to, a
minimum, a maximum, an element, a table, or a sum within bounds that it is true for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from blogdit.core.arrays import IntArray, integers
from blogdit.core.constraints import Constraint, Table
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


def sources(derived: Sequence[Derived], constraints: Sequence[Constraint], domains: Domains) -> IntArray:
    """Pairs (derived variable, variable that it follows from and that is not derived itself), (E, 2)."""
    found: dict[int, set[int]] = {}
    for variable, group, row in derived:
        inputs = constraints[group].inputs(row, variable, domains)
        assert inputs is not None, "checked when the instance was built"
        found[variable] = set().union(*(found.get(one, {one}) for one in inputs.tolist()))
    pairs = [(variable, source) for variable, every in found.items() for source in sorted(every)]
    return np.array(pairs, np.int64).reshape(-1, 2)
