"""What is to be small or large."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from blogdit.core.arrays import FloatArray, IntArray, WriteOnce, check_range, integers, reals
from blogdit.core.constraints.base import Constraint
from blogdit.core.constraints.pairs import require_two_variables
from blogdit.core.domains import Domains

Sense = Literal["minimize", "maximize"]
TERMS = ("unary", "linear", "differ", "pairwise", "soft")


class Soft(NamedTuple):
    """Constraints that may be violated, each at the cost of its weight (m,)."""

    group: Constraint
    weights: FloatArray


class Objective(WriteOnce):
    """A sum to minimise or maximise, of five kinds of weighted terms:

    - `unary`: rows (i, a), earned where x_i = a;
    - `linear`: variables i, earned as often as the number of x_i says;
    - `differ`: rows (i, j), earned where x_i != x_j;
    - `pairwise`: rows (i, j, a, b), earned where x_i = a and x_j = b;
    - `soft`: pairs (group of constraints, weight above 0). Each violated constraint costs the weight: it is added to a
      sum to minimise and taken from a sum to maximise. A group has one weight, or one for each of its constraints.
    """

    def __init__(
        self,
        sense: Sense,
        unary: npt.ArrayLike = (),
        unary_weights: npt.ArrayLike = (),
        differ: npt.ArrayLike = (),
        differ_weights: npt.ArrayLike = (),
        pairwise: npt.ArrayLike = (),
        pairwise_weights: npt.ArrayLike = (),
        linear: npt.ArrayLike = (),
        linear_weights: npt.ArrayLike = (),
        soft: Sequence[tuple[Constraint, npt.ArrayLike]] = (),
    ):
        if sense not in ("minimize", "maximize"):
            raise ValueError(f"sense must be minimize or maximize, got {sense!r}")
        self.sense: Sense = sense
        self.unary = integers(unary, "unary", 2, 2)
        self.differ = integers(differ, "differ", 2, 2)
        self.pairwise = integers(pairwise, "pairwise", 2, 4)
        self.linear = integers(linear, "linear", 1)
        self.unary_weights = reals(unary_weights, "unary_weights", len(self.unary))
        self.differ_weights = reals(differ_weights, "differ_weights", len(self.differ))
        self.pairwise_weights = reals(pairwise_weights, "pairwise_weights", len(self.pairwise))
        self.linear_weights = reals(linear_weights, "linear_weights", len(self.linear))
        self.soft = tuple(_soft(group, weight) for group, weight in soft)
        weights = [self.unary_weights, self.differ_weights, self.pairwise_weights, self.linear_weights]
        with np.errstate(over="ignore"):
            if not np.isfinite(np.abs(np.concatenate([*weights, *(weights for _, weights in self.soft)])).sum()):
                raise ValueError("the weights of an objective must have a finite sum")
        require_two_variables(self.differ)
        require_two_variables(self.pairwise[:, :2])

    @property
    def sign(self) -> float:
        """What a term is multiplied by to be minimised."""
        return 1.0 if self.sense == "minimize" else -1.0

    def has_only(self, kind: str) -> bool:
        """Whether all terms are of one kind."""
        return not any(len(getattr(self, name)) for name in TERMS if name != kind)

    def validate(self, domains: Domains) -> None:
        count = len(domains)
        for name, variables in (
            ("unary", self.unary[:, 0]),
            ("differ", self.differ),
            ("pairwise", self.pairwise[:, :2]),
            ("linear", self.linear),
        ):
            check_range(variables, 0, count, f"objective {name} variables")
        check_range(self.unary[:, 1], 0, domains.sizes[self.unary[:, 0]], "objective unary values")
        check_range(self.pairwise[:, 2:], 0, domains.sizes[self.pairwise[:, :2]], "objective pairwise values")
        domains.require_numbers(self.linear, "objective linear")
        domains.require_aligned(self.differ, "objective differ")
        for group, _ in self.soft:
            group.validate(domains)

    def value(self, values: IntArray, numbers: IntArray | None = None) -> float:
        """Of an assignment; `numbers` is what its values mean, if that is not the values themselves."""
        earned = self.unary_weights[values[self.unary[:, 0]] == self.unary[:, 1]].sum()
        earned += self.differ_weights[values[self.differ[:, 0]] != values[self.differ[:, 1]]].sum()
        both = (values[self.pairwise[:, :2]] == self.pairwise[:, 2:]).all(axis=1)
        earned += self.pairwise_weights[both].sum()
        earned += self.linear_weights @ (values if numbers is None else numbers)[self.linear]
        for group, weights in self.soft:
            earned += self.sign * weights[group.violations(values, numbers) > 0].sum()
        return float(earned)

    def better(self, candidate: float, incumbent: float) -> bool:
        return candidate < incumbent if self.sense == "minimize" else candidate > incumbent

    def by_value(self, domains: Domains) -> tuple[IntArray, FloatArray]:
        """The `unary` and `linear` terms as rows (i, a) that are earned where x_i = a, and their weights."""
        numbers = [domains.of(variable) for variable in self.linear.tolist()]
        lengths = [len(row) for row in numbers]
        values = np.concatenate([np.arange(length) for length in lengths] + [np.zeros(0, np.int64)])
        rows = np.stack([np.repeat(self.linear, lengths), values], 1)
        weights = np.repeat(self.linear_weights, lengths) * np.concatenate([*numbers, np.zeros(0, np.int64)])
        return np.concatenate([self.unary, rows]), np.concatenate([self.unary_weights, weights])


def _soft(group: Constraint, weight: npt.ArrayLike) -> Soft:
    if not isinstance(group, Constraint):
        raise ValueError(f"soft must hold pairs of a constraint and a weight, got {group!r}")
    given = np.full(len(group), weight) if np.ndim(weight) == 0 else weight
    weights = reals(given, f"the weight of {group.kind}", len(group))
    if (weights <= 0).any():
        raise ValueError(f"the weight of {group.kind} must be above 0, got {weights.min():g}")
    return Soft(group, weights)
