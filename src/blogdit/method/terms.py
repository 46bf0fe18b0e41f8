"""Constraints as tensors, kind by kind: what the energies read.

All tensors lead with G groups of variables, as `batch.py` explains, and name variables by their number within the
group. T counts entries of scopes, S constraints. `weights` (G, S) is 1 for a constraint that must hold, its cost for a
soft one, and 0 in padding.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

from torch import Tensor

T = TypeVar("T")

ALWAYS = 2  # in place of the truth of a literal: a sum without a condition


@dataclass(frozen=True)
class PairTerms:
    """Pairs of variables (G, S, 2), with the values (G, S, 2) they must not (or should) take, and weights (G, S).

    `values` is all zero where only the variables matter. Both are int32: large graphs have many pairs.
    """

    variables: Tensor
    values: Tensor
    weights: Tensor


@dataclass(frozen=True)
class Members:
    """The variables of each constraint, each once: `variables[g, e]` is one of constraint `owner[g, e]`, (G, E);
    `present` is false in padding."""

    variables: Tensor
    owner: Tensor
    present: Tensor


@dataclass(frozen=True)
class DifferentTerms:
    """Entry e of a scope with value k takes slot `slots[g, e, k]`, and no two entries of a scope may share a slot.
    Without slots, (G, 0, K), the slot is the value. A scope has `width` slots at most, of which the first
    `required` (G, S) must all be taken: as many as there are variables if these have no choice, else 0."""

    members: Members
    slots: Tensor
    required: Tensor
    weights: Tensor
    width: int


@dataclass(frozen=True)
class Entries:
    """Terms of sums, (G, T): `amounts` times the number of a variable, or times [variable = value]. 0 in padding."""

    variables: Tensor
    owner: Tensor
    values: Tensor
    amounts: Tensor


@dataclass(frozen=True)
class SumTerms:
    """`bounds` (G, S, 2): lowest and highest allowed sum, infinite where there is none; `limits` are the same as whole
    numbers (FAR instead of infinite), which large ones need. `when` (G, S, 3): variable, value, and 1 if the bounds
    count where the variable has the value, 0 where it has not, ALWAYS; (G, 0, 3) if they always count."""

    numbers: Entries
    literals: Entries
    bounds: Tensor
    limits: Tensor
    when: Tensor
    exactly: Tensor  # (G, S)
    weights: Tensor
    members: Members


@dataclass(frozen=True)
class FunctionTerms:
    """The result (G, S) is the largest of the entries (sign 1), the smallest (sign -1), or the one whose place in the
    scope is the value of `index`. Entries (G, T) have variable, owner, place and present."""

    results: Tensor
    signs: Tensor
    index: Tensor
    is_element: Tensor
    entries: Members
    places: Tensor
    weights: Tensor
    members: Members


@dataclass(frozen=True)
class TableTerms:
    """Allowed tuples, one row each: `variables`, `values` and `present` (G, P, arity), `owner` (G, P)."""

    variables: Tensor
    values: Tensor
    present: Tensor
    owner: Tensor
    weights: Tensor
    members: Members


@dataclass(frozen=True)
class Terms:
    """All constraints of a batch that must hold, or all soft ones. Each field has the name of its kind."""

    not_equal: PairTerms
    conflict: PairTerms
    all_different: DifferentTerms
    linear: SumTerms
    count: SumTerms
    sum: SumTerms
    function: FunctionTerms
    table: TableTerms


@dataclass(frozen=True)
class Definitions:
    """Variables (G, D) that constraints define, each with the number of its constraint among those of its kind, and
    the coefficient 1 or -1 that it has in a sum. The coefficient is 0 in padding."""

    variables: Tensor
    rows: Tensor
    coefficients: Tensor


@dataclass(frozen=True)
class DerivedTerms:
    """Variables that follow from others, by what defines them: a sum that they are equal to (`linear`, `sum`), a sum
    within bounds that they are true for (`truth`), a function, a table. `sources` pairs each (owner) with the variables
    from which it follows in the end. No chain of definitions is longer than `depth`."""

    linear: Definitions
    sum: Definitions
    truth: Definitions
    function: Definitions
    table: Definitions
    is_derived: Tensor  # (G, N)
    sources: Members
    depth: int


def map_tensors(record: T, change: Callable[[Tensor], Tensor]) -> T:
    """The same dataclass with `change` applied to every tensor in it, at any depth."""
    changed: dict[str, Any] = {}
    for item in fields(record):  # type: ignore[arg-type]
        value = getattr(record, item.name)
        if isinstance(value, Tensor):
            changed[item.name] = change(value)
        elif value is not None and hasattr(value, "__dataclass_fields__"):
            changed[item.name] = map_tensors(value, change)
    return replace(record, **changed)  # type: ignore[type-var]
