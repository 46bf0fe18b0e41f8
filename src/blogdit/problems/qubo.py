"""Quadratic functions of bits (QUBO) and of spins (Ising): find the values with the least energy.

    bits:   E = offset + sum_i a_i x_i + sum_ij b_ij x_i x_j,     x in {0, 1}
    spins:  E = offset + sum_i h_i s_i + sum_ij J_ij s_i s_j,     s = 2 x - 1

Here both are cuts, since x_i x_j = (x_i + x_j - [x_i != x_j]) / 2 and s_i s_j = 1 - 2 [x_i != x_j]:

    E = constant + sum_i ones_i x_i + sum_ij differ_ij [x_i != x_j]

An instance has one variable more, the reference. It is given as 0, so that x_i is [x_i != reference] and all terms are
of the kind that the MaxCut model was trained on. Measured on random Ising models, its sampler is far better at that
than at terms of single variables.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from blogdit.core.arrays import FloatArray, IntArray, check_range, integers, reals, whole_number, whole_range
from blogdit.core.constraints.pairs import require_two_variables
from blogdit.core.instance import Instance, Objective
from blogdit.problems.base import Family
from blogdit.problems.graphs import (
    GRAPH_PRESET,
    make_graph,
    probability_range,
    random_graph,
    show_vertices,
)

REFERENCE = "reference"  # the label of the variable that is 0


@dataclass(frozen=True, eq=False)
class Quadratic:
    """E = constant + sum_i ones_i x_i + sum over pairs (i, j) of differ_ij [x_i != x_j]; each pair once, i < j."""

    ones: FloatArray  # (n,)
    pairs: IntArray  # (m, 2)
    differ: FloatArray  # (m,)
    constant: float = 0.0
    labels: Sequence[Any] | None = None

    @property
    def size(self) -> int:
        return len(self.ones)

    def bits(self) -> tuple[FloatArray, FloatArray, float]:
        """a, b and the offset."""
        return self.ones + _at_ends(self.pairs, self.differ, self.size), -2 * self.differ, self.constant

    def spins(self) -> tuple[FloatArray, FloatArray, float]:
        """h, J and the offset."""
        offset = self.constant + float(self.ones.sum() + self.differ.sum()) / 2
        return self.ones / 2, -self.differ / 2, offset


def from_bits(
    linear: npt.ArrayLike,
    pairs: npt.ArrayLike,
    couplings: npt.ArrayLike,
    offset: float = 0.0,
    labels: Sequence[Any] | None = None,
) -> Quadratic:
    """A QUBO. Couplings of a pair that occurs twice, in either order, add up."""
    a, ends, b = _checked(linear, pairs, couplings)
    with np.errstate(over="ignore"):  # what overflows is refused when the instance is built
        return _merged(a + _at_ends(ends, b, len(a)) / 2, ends, -b / 2, float(offset), labels)


def from_spins(
    linear: npt.ArrayLike,
    pairs: npt.ArrayLike,
    couplings: npt.ArrayLike,
    offset: float = 0.0,
    labels: Sequence[Any] | None = None,
) -> Quadratic:
    """An Ising model. Couplings of a pair that occurs twice, in either order, add up."""
    h, ends, strength = _checked(linear, pairs, couplings)
    with np.errstate(over="ignore"):
        constant = float(offset) - float(h.sum()) + float(strength.sum())
        return _merged(2 * h, ends, -2 * strength, constant, labels)


def _checked(linear: Any, pairs: Any, couplings: Any) -> tuple[FloatArray, IntArray, FloatArray]:
    ends = integers(pairs, "pairs", 2, 2)
    check_range(ends, 0, len(linear), "pairs")
    require_two_variables(ends)
    return reals(linear, "linear", len(linear)), ends, reals(couplings, "couplings", len(ends))


def _at_ends(pairs: IntArray, weights: FloatArray, size: int) -> FloatArray:
    """(n,) the sum of the weights of the pairs of each variable."""
    return _sums(pairs.reshape(-1), np.repeat(weights, 2), size)


def _sums(variables: IntArray, weights: FloatArray, size: int) -> FloatArray:
    """(n,) the sum of the weights of each variable."""
    total = np.zeros(size)
    np.add.at(total, variables, weights)
    return total


def _merged(
    ones: FloatArray, pairs: IntArray, differ: FloatArray, constant: float, labels: Sequence[Any] | None
) -> Quadratic:
    graph = make_graph(len(ones), pairs, differ)
    assert graph.weights is not None
    return Quadratic(ones, graph.edges, graph.weights, constant, labels)


def build(data: Any, name: str = "") -> Instance:
    """`data` is a Quadratic, or (linear, pairs, couplings[, offset]) of a QUBO. The last variable is the reference."""
    if isinstance(data, tuple) and len(data) in (3, 4):
        data = from_bits(*data)
    if not isinstance(data, Quadratic):
        raise ValueError(f"a QUBO must be (linear, pairs, couplings[, offset]), got {type(data).__name__}")
    n = data.size
    alone = np.flatnonzero(data.ones)
    edges = np.concatenate([data.pairs, np.stack([alone, np.full(len(alone), n)], axis=1)])
    constant = [data.constant] if data.constant else []
    return Instance(
        domain_sizes=np.full(n + 1, 2, np.int64),
        objective=Objective(
            "minimize",
            unary=[(n, 0)] * len(constant),
            unary_weights=constant,
            differ=edges,
            differ_weights=np.concatenate([data.differ, data.ones[alone]]),
        ),
        givens={n: 0},
        problem="qubo",
        name=name,
        labels=None if data.labels is None else (*data.labels, _fresh(REFERENCE, data.labels)),
    )


def _fresh(name: str, taken: Sequence[Any]) -> str:
    while name in taken:
        name += "_"
    return name


def recognise(instance: Instance) -> Instance:
    """The instance, or a ValueError if it is not of the form that `build` makes."""
    last, goal = instance.size - 1, instance.objective
    if instance.constraints or goal is None or (instance.domain_sizes != 2).any() or dict(instance.givens) != {last: 0}:
        raise ValueError("qubo has domains of size 2, no constraints, and one given: its last variable is 0")
    if goal.sense != "minimize" or len(goal.pairwise) or (goal.unary != [last, 0]).any():
        raise ValueError(
            "the objective of qubo is to minimize 'differ' terms, and one 'unary' term of the last variable"
        )
    return instance


def quadratic_of(instance: Instance) -> Quadratic:
    """Any problem on two values without constraints as a function of its free variables; to maximize is to minimize
    the negative."""
    goal = instance.objective
    if instance.constraints or goal is None or (instance.domain_sizes > 2).any():
        raise ValueError("a quadratic function needs domains of size 2 at most, no constraints and an objective")
    if goal.soft or len(goal.linear):
        raise ValueError(
            "a quadratic function has no soft constraints and no sums of numbers; expected terms of values"
        )
    sign = 1.0 if goal.sense == "minimize" else -1.0
    free = (instance.domain_sizes == 2) & ~instance.is_given
    place, known = np.cumsum(free) - 1, np.where(free, 0, instance.given_values)

    def factor(variables: IntArray, wanted: IntArray) -> tuple[FloatArray, FloatArray]:
        """c and d of [x = wanted] = c + d x; d is 0 where the variable is not free."""
        is_free = free[variables]
        constant = np.where(is_free, wanted == 0, known[variables] == wanted)
        return constant.astype(np.float64), np.where(is_free, 2.0 * wanted - 1.0, 0.0)

    is_cut = free[goal.differ].all(axis=1)
    # To differ from a variable that is known is to have the other value.
    one, other = np.where(free[goal.differ[~is_cut, :1]], goal.differ[~is_cut], goal.differ[~is_cut, ::-1]).T
    single = np.concatenate([goal.unary, np.stack([one, 1 - known[other]], axis=1)])
    weights = sign * np.concatenate([goal.unary_weights, goal.differ_weights[~is_cut]])
    constant, slope = factor(*single.T)
    linear = _sums(single[:, 0], weights * slope, instance.size)
    offset = weights @ constant
    weights, (i, j, a, b) = sign * goal.pairwise_weights, goal.pairwise.T
    (first, first_slope), (second, second_slope) = factor(i, a), factor(j, b)
    offset += weights @ (first * second)
    linear += _sums(i, weights * first_slope * second, instance.size)
    linear += _sums(j, weights * first * second_slope, instance.size)
    both = free[i] & free[j]
    products = from_bits(linear[free], place[goal.pairwise[both, :2]], (weights * first_slope * second_slope)[both])
    pairs = np.concatenate([products.pairs, place[goal.differ[is_cut]]])
    differ = np.concatenate([products.differ, sign * goal.differ_weights[is_cut]])
    labels = None if instance.labels is None else [instance.labels[i] for i in np.flatnonzero(free).tolist()]
    return _merged(products.ones, pairs, differ, float(offset), labels)


def generate(
    count: int,
    rng: np.random.Generator,
    variables: Any = 50,
    p_min: float = 0.05,
    p_max: float = 0.3,
    largest: int = 100,
) -> list[Instance]:
    """Whole coefficients from -largest to largest, of all variables and of each pair with a probability in [p_min,
    p_max]. `variables` may be a range like 50-100."""
    fewest, most = whole_range(variables, "variables", 1)
    p_low, p_high = probability_range(p_min, p_max)
    largest = whole_number(largest, "largest", 1)
    instances: list[Instance] = []
    for _ in range(count):
        n, p = int(rng.integers(fewest, most + 1)), float(p_low + (p_high - p_low) * rng.random())
        pairs = random_graph(n, p, rng).edges
        linear, couplings = (rng.integers(-largest, largest + 1, size=size) for size in (n, len(pairs)))
        instances.append(build((linear, pairs, couplings), name=f"qubo-{len(instances)}"))
    return instances


def render(instance: Instance, values: IntArray | None = None) -> str:
    """The energy, and the variables that are 1."""
    last, goal = instance.size - 1, instance.objective
    assert goal is not None
    lines = [f"{last} variables, {int((goal.differ != last).all(axis=1).sum())} couplings"]
    if values is not None:
        lines.append(f"energy {instance.verify(values).objective:g}")
        lines.append(f"ones: {show_vertices(np.flatnonzero(values == 1), instance.labels)}")
    return "\n".join(lines)


def preset(settings: Mapping[str, Any]) -> dict[str, Any]:
    """As for cuts with weights."""
    return {**GRAPH_PRESET, "signed": True, "layers": 4, "validation_selector": "margin"}


FAMILY = Family(
    name="qubo",
    summary="choose bits (or spins) so that a quadratic function of them is least",
    build=build,
    generate=generate,
    render=render,
    preset=preset,
    recognise=recognise,
    stand_in="maxcut",
)
