"""A constraint problem, immutable once built, and the exact check of an answer.

An `Instance` has n variables; variable i takes a value in 0 .. domain_sizes[i] - 1.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from blogdit.core.arrays import check_range, integers
from blogdit.core.constraints import Constraint, IntArray
from blogdit.core.derived import Derived, checked
from blogdit.core.domains import Domains
from blogdit.core.objective import Objective as Objective
from blogdit.core.text import harmless

_Broken = tuple[str, Callable[[int], Any], IntArray, IntArray]  # kind, scope of an index, indices, amounts


def label_text(label: Any) -> str:
    """The name of a variable or a value, as text of one line; one of several parts as words."""
    return harmless(" ".join(map(str, label)) if isinstance(label, tuple) else str(label))


def _itself(variable: int) -> tuple[int, ...]:
    """The scope of what concerns one variable."""
    return (variable,)


@dataclass(frozen=True)
class Violation:
    """One constraint that an assignment breaks, and by how much."""

    kind: str
    variables: tuple[int, ...]
    amount: int

    def describe(self, labels: Sequence[Any] | None = None) -> str:
        shown = [label_text(i if labels is None else labels[i]) for i in self.variables[:12]]
        more = ", ..." if len(self.variables) > 12 else ""
        return f"{self.kind}({', '.join(shown)}{more}) violated by {self.amount}"


@dataclass(frozen=True)
class Verdict:
    """What the exact check found. `satisfied` is true only if every constraint, domain and given holds."""

    violated: int
    objective: float | None
    unmet: int = 0  # soft constraints that are violated; the objective counts their weights
    _broken: tuple[_Broken, ...] = field(default=(), repr=False, compare=False)
    _unmet: tuple[_Broken, ...] = field(default=(), repr=False, compare=False)

    @property
    def satisfied(self) -> bool:
        return self.violated == 0

    @property
    def in_words(self) -> str:
        return f"{self.violated} constraint{'s' * (self.violated != 1)} violated"

    def violations(self) -> Iterator[Violation]:
        """Each violated constraint, one at a time (there may be millions)."""
        return _each(self._broken)

    def unmet_soft(self) -> Iterator[Violation]:
        """Each violated soft constraint."""
        return _each(self._unmet)


def _each(broken: Sequence[_Broken]) -> Iterator[Violation]:
    for kind, scope_of, indices, amounts in broken:
        for index, amount in zip(indices, amounts, strict=True):
            yield Violation(kind, tuple(int(i) for i in scope_of(int(index))), int(amount))


def _kept(labels: Sequence[Any] | None) -> Sequence[Any] | None:
    """So that nobody can change them; a range, as graphs have, stays one."""
    if isinstance(labels, np.ndarray):
        labels = labels.tolist()
    return labels if labels is None or isinstance(labels, range) else tuple(labels)


def _repeated(labels: Sequence[Any]) -> list[Any]:
    """Those that occur more than once; labels that cannot be hashed are not compared."""
    try:
        return [] if len(set(labels)) == len(labels) else [one for one, n in Counter(labels).items() if n > 1]
    except TypeError:
        return []


@dataclass(frozen=True, eq=False)
class Instance:
    """A constraint problem, immutable once built. Everything but `domain_sizes` is optional.

    `givens` maps variables to the value they must keep. `positions` (n, d) places variables on a grid, which a
    model may use; `labels` are the names the variables had where they came from, for reports.

    `values` has a list of numbers or names for each variable, or one list for all: what its values 0, 1, ... mean.
    Sums, minima and comparisons work with these numbers. What names a single value (a given, a literal, a tuple) names
    its place in the list. `derived` has rows (variable, group, row): variables that constraint `row` of
    `constraints[group]` defines, each after those that it follows from. They are computed, never sampled.
    """

    domain_sizes: IntArray
    constraints: tuple[Constraint, ...] = ()
    objective: Objective | None = None
    givens: Mapping[int, int] = field(default_factory=dict)
    problem: str = "csp"
    name: str = ""
    positions: IntArray | None = None
    labels: Sequence[Any] | None = None
    values: Sequence[Any] | None = None
    derived: Sequence[Derived] = ()
    domains: Domains = field(init=False)
    is_given: npt.NDArray[np.bool_] = field(init=False)
    given_values: IntArray = field(init=False)  # 0 where is_given is false

    def __post_init__(self) -> None:
        domains = Domains(self.domain_sizes, self.values)
        sizes = domains.sizes
        if isinstance(self.constraints, Constraint):
            raise ValueError("constraints must be a sequence of them, got one; expected (constraint,)")
        constraints = tuple(self.constraints)
        for group in constraints:
            group.validate(domains)
        if self.objective is not None:
            self.objective.validate(domains)
        try:
            givens = dict(self.givens)
        except (TypeError, ValueError):
            raise ValueError("givens must map variables to values") from None
        variables = integers(list(givens.keys()), "givens", 1)
        values = integers(list(givens.values()), "givens", 1)
        check_range(variables, 0, len(sizes), "givens variables")
        check_range(values, 0, sizes[variables], "givens values")
        is_given, given_values = np.zeros(len(sizes), np.bool_), np.zeros(len(sizes), np.int64)
        is_given[variables], given_values[variables] = True, values
        positions = self.positions
        if positions is not None:
            positions = integers(positions, "positions", 2)
            if len(positions) != len(sizes):
                raise ValueError(f"positions must have one row per variable: {len(positions)} for {len(sizes)}")
        if self.labels is not None and len(self.labels) != len(sizes):
            raise ValueError(f"labels must name each variable: {len(self.labels)} for {len(sizes)}")
        if self.labels is not None and (twice := _repeated(self.labels)):
            raise ValueError(f"labels must differ, got {twice[0]!r} twice")
        for array in (is_given, given_values):
            array.setflags(write=False)
        fields = {
            "domain_sizes": sizes,
            "domains": domains,
            "values": domains.values,
            "derived": checked(self.derived, constraints, domains),
            "constraints": constraints,
            "positions": positions,
            "is_given": is_given,
            "given_values": given_values,
            "givens": MappingProxyType(givens),
            "labels": _kept(self.labels),
        }
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    def __reduce__(self) -> tuple[Any, ...]:
        """For pickle and copy, which know no read-only dict: built again from what it was built from."""
        givens = dict(self.givens)
        arguments = (self.domain_sizes, self.constraints, self.objective, givens, self.problem, self.name)
        return Instance, (*arguments, self.positions, self.labels, self.values, self.derived)

    def __repr__(self) -> str:
        parts = [f"{self.size} variables", f"{sum(len(group) for group in self.constraints)} constraints"]
        parts += [] if self.objective is None else [self.objective.sense]
        return f"<Instance {self.name!r} of {self.problem}: {', '.join(parts)}>"

    @property
    def size(self) -> int:
        """Number of variables."""
        return len(self.domain_sizes)

    @property
    def groups(self) -> tuple[Constraint, ...]:
        """All groups of constraints: those that must hold, then the soft ones."""
        return (*self.constraints, *(group for group, _ in (() if self.objective is None else self.objective.soft)))

    def verify(self, values: npt.ArrayLike) -> Verdict:
        """Check an assignment exactly. Only an ill-formed one (wrong length, not integers) is an error."""
        assignment = integers(values, "values", 1)
        if len(assignment) != self.size:
            raise ValueError(f"values must have one entry per variable: {len(assignment)} for {self.size}")
        broken: list[_Broken] = []
        unmet: list[_Broken] = []

        def record(found: list[_Broken], kind: str, scope_of: Callable[[int], Any], amounts: npt.NDArray[Any]) -> None:
            indices = np.flatnonzero(amounts)
            if len(indices):
                found.append((kind, scope_of, indices, amounts[indices].astype(np.int64)))

        outside = (assignment < 0) | (assignment >= self.domain_sizes)
        record(broken, "domain", _itself, outside)
        record(broken, "given", _itself, self.is_given & (assignment != self.given_values))
        # A value outside its domain is reported above; bounded, it cannot overflow the sums of the checks below.
        assignment = np.clip(assignment, -1, self.domain_sizes) if outside.any() else assignment
        numbers = self.domains.numbers(assignment)
        for group in self.constraints:
            record(broken, group.kind, group.scope, group.violations(assignment, numbers))
        objective = None if self.objective is None else self.objective.value(assignment, numbers)
        for group, _ in () if self.objective is None else self.objective.soft:
            record(unmet, group.kind, group.scope, group.violations(assignment, numbers))
        violated, unmet_number = (sum(len(indices) for _, _, indices, _ in found) for found in (broken, unmet))
        return Verdict(violated, objective, unmet_number, tuple(broken), tuple(unmet))
