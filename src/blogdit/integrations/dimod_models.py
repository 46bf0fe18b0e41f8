"""The models of dimod as instances: binary (BQM), discrete (DQM) and constrained (CQM) quadratic models.

The objective of an instance is the energy of its model, constants included. What an instance cannot say raises a
ValueError that names the variable or the constraint.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import dimod
import numpy as np

from blogdit.core.constraints import Linear
from blogdit.core.domains import MOST_VALUES, named_ranges
from blogdit.core.instance import Instance, Objective
from blogdit.core.problem import Problem
from blogdit.finishers.cp_model import MOST_DECIMALS, whole_weights
from blogdit.problems import qubo

MOST_TERMS = 1 << 24  # of an objective: a product of two integers has a term for each pair of their values
MOST_AMOUNTS = 4096  # of a product, and of what a soft constraint adds up: each has a value of its own
RELATIONS = {"<=": "<=", ">=": ">=", "==": "="}


def instance_of(model: Any, name: str = "") -> Instance:
    """The instance that a model of dimod describes."""
    if isinstance(model, dimod.BinaryQuadraticModel):
        return of_bqm(model, name)
    if isinstance(model, dimod.DiscreteQuadraticModel):
        return of_dqm(model, name)
    if isinstance(model, dimod.ConstrainedQuadraticModel):
        return of_cqm(model, name)
    raise ValueError(f"expected a binary, discrete or constrained quadratic model, got {type(model).__name__}")


def require(model: Any, kind: type) -> None:
    if not isinstance(model, kind):
        raise ValueError(f"expected a {kind.__name__}, got {type(model).__name__}")


def of_bqm(model: Any, name: str = "") -> Instance:
    """A variable for each of the model, 1 for the larger of its two values, and the reference (see `problems.qubo`)."""
    labels = list(model.variables)
    linear, (rows, columns, couplings), offset = model.to_numpy_vectors(labels)
    make = qubo.from_spins if model.vartype is dimod.SPIN else qubo.from_bits
    pairs = np.stack([rows, columns], axis=1).astype(np.int64)
    # In float64: sums of a model in float32 would be rounded.
    terms = (np.asarray(some, np.float64) for some in (linear, couplings))
    return qubo.build(make(next(terms), pairs, next(terms), float(offset), _labels(labels)), name)


def of_dqm(model: Any, name: str = "") -> Instance:
    """A variable for each of the model; its values are the cases."""
    vectors = model.to_numpy_vectors(return_offset=True)
    starts = np.append(vectors.case_starts.astype(np.int64), len(vectors.linear_biases))
    variable = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    cases = np.stack([variable, np.arange(len(variable)) - starts[variable]], axis=1)  # (variable, value) of each case
    linear = np.array(vectors.linear_biases, np.float64)
    linear[: starts[1] if len(starts) > 1 else 0] += float(vectors.offset)  # one case of the first variable is chosen
    first, second = (cases[np.asarray(some, np.int64)] for some in vectors.quadratic[:2])
    return Instance(
        np.diff(starts),
        objective=Objective(
            "minimize",
            unary=cases[linear != 0],
            unary_weights=linear[linear != 0],
            pairwise=np.concatenate([first[:, :1], second[:, :1], first[:, 1:], second[:, 1:]], axis=1),
            pairwise_weights=vectors.quadratic[2],
        ),
        problem="dqm",
        name=name,
        labels=_labels(list(vectors.labels)),
    )


def of_cqm(model: Any, name: str = "") -> Instance:
    """A variable for each of the model, with its numbers as values. Products and soft constraints have variables that
    follow from these and come behind them."""
    labels = list(model.variables)
    domains = {label: _domain(model, label) for label in labels}
    place = {label: i for i, label in enumerate(labels)}
    if any(one.lhs.is_soft() or one.lhs.num_interactions for one in model.constraints.values()):
        return _of_extended_cqm(model, domains, place, name)
    constraints = [_linear(label, one, place) for label, one in model.constraints.items()]
    scopes, coefficients, relations, bounds = (
        (list(part) for part in zip(*constraints, strict=True)) if constraints else ([],) * 4
    )
    return Instance(
        np.array([len(domain) for domain in domains.values()], np.int64),
        constraints=(Linear(scopes, coefficients, relations, bounds),) if constraints else (),
        objective=_objective(model.objective, domains, place),
        problem="cqm",
        name=name,
        labels=_labels(labels),
        values=named_ranges(list(domains.values())),
    )


def _domain(model: Any, label: Any) -> range:
    kind = model.vartype(label)
    if kind is dimod.SPIN:
        return range(-1, 2, 2)
    if kind not in (dimod.BINARY, dimod.INTEGER):
        raise ValueError(f"variable {label!r} is {kind.name}; expected BINARY, SPIN or INTEGER")
    low, high = math.ceil(model.lower_bound(label)), math.floor(model.upper_bound(label))
    if high - low >= MOST_VALUES:
        raise ValueError(f"variable {label!r} has {high - low + 1} values; expected bounds at most {MOST_VALUES} apart")
    return range(low, high + 1)


def _whole(label: Any, numbers: Sequence[float]) -> list[int]:
    """The numbers of a constraint, times a power of ten that makes them whole."""
    whole = whole_weights(numbers)
    if whole is None:
        raise ValueError(
            f"constraint {label!r} cannot be exact; expected numbers with at most {MOST_DECIMALS} decimals"
        )
    return whole


def _linear(label: Any, constraint: Any, place: dict[Any, int]) -> tuple[list[int], list[int], str, int]:
    """Scope, coefficients, relation and bound."""
    left = constraint.lhs
    terms = [(variable, float(left.get_linear(variable))) for variable in left.variables]
    terms = [(variable, bias) for variable, bias in terms if bias]
    *biases, limit = _whole(label, [*(bias for _, bias in terms), float(constraint.rhs) - float(left.offset)])
    if not terms:  # a constraint on a constant: that of a variable with coefficient 0
        return [0], [0], RELATIONS[constraint.sense.value], limit
    return [place[variable] for variable, _ in terms], biases, RELATIONS[constraint.sense.value], limit


def _of_extended_cqm(model: Any, domains: dict[Any, range], place: dict[Any, int], name: str) -> Instance:
    """With quadratic and soft constraints. A product is a variable that a table defines. What a soft constraint adds up
    is a variable, and the objective has the penalty of each of its values."""
    problem = Problem("cqm", name)
    for label, domain in domains.items():
        problem.variable(label, domain)
    products: dict[tuple[int, int], int] = {}

    def product(u: Any, v: Any) -> int:
        i, j = sorted((place[u], place[v]))
        if (i, j) not in products:
            first, second = problem.values[i], problem.values[j]
            pairs = [(x, y) for x, y in itertools.product(first, second) if i != j or x == y]
            if len(pairs) > MOST_AMOUNTS:
                raise ValueError(f"{u!r} times {v!r} has {len(pairs)} cases; expected at most {MOST_AMOUNTS}")
            products[i, j] = result = problem.variable((u, "*", v), sorted({x * y for x, y in pairs}))
            rows = [(x, x * y) if i == j else (x, y, x * y) for x, y in pairs]
            problem.derived.append((result, *problem.table((i, result) if i == j else (i, j, result), rows)))
        return products[i, j]

    costs: list[tuple[int, int, float]] = []  # variable, value and what it costs
    for label, constraint in model.constraints.items():
        left, sense = constraint.lhs, RELATIONS[constraint.sense.value]
        terms = [(float(left.get_linear(v)), place[v]) for v in left.variables if left.get_linear(v)]
        terms += [(float(bias), product(u, v)) for u, v, bias in left.iter_quadratic() if bias]
        given = [*(bias for bias, _ in terms), float(constraint.rhs) - float(left.offset)]
        *biases, bound = _whole(label, given)
        whole: list[tuple[int, int]] = [(bias, i) for bias, (_, i) in zip(biases, terms, strict=True)] or [(0, 0)]
        if not left.is_soft():
            problem.sum(whole, None if sense == "<=" else bound, None if sense == ">=" else bound)
            continue
        scale = max(
            (whole_bias / bias for whole_bias, bias in zip([*biases, bound], given, strict=True) if bias), default=1.0
        )
        total = problem.total(("sum", "of", label), whole, _sums(label, whole, problem))
        power = 2 if left.penalty() == "quadratic" else 1
        for value, number in enumerate(problem.values[total]):
            above = number - bound
            amount = max(above, 0) if sense == "<=" else max(-above, 0) if sense == ">=" else abs(above)
            if amount:
                costs.append((total, value, float(left.weight()) * (amount / scale) ** power))
    goal = _objective(model.objective, domains, place)
    instance = problem.instance()
    if goal is None and not costs:
        return instance
    goal = goal or Objective("minimize")
    return replace(
        instance,
        objective=Objective(
            "minimize",
            unary=[*goal.unary.tolist(), *(cost[:2] for cost in costs)],
            unary_weights=[*goal.unary_weights.tolist(), *(cost[2] for cost in costs)],
            pairwise=goal.pairwise,
            pairwise_weights=goal.pairwise_weights,
        ),
    )


def _sums(label: Any, terms: Sequence[tuple[int, int]], problem: Problem) -> list[int]:
    """The numbers that a sum can be."""
    reached = {0}
    for weight, variable in terms:
        reached = {number + weight * value for number in reached for value in problem.values[variable]}
        if len(reached) > MOST_AMOUNTS:
            raise ValueError(f"soft constraint {label!r} adds up to more than {MOST_AMOUNTS} numbers; expected fewer")
    return sorted(reached)


def _objective(goal: Any, domains: dict[Any, range], place: dict[Any, int]) -> Objective | None:
    """None if there is nothing to minimise."""
    linear = {variable: float(goal.get_linear(variable)) for variable in goal.variables}
    products = [(u, v, float(bias)) for u, v, bias in goal.iter_quadratic() if bias]
    if not products and not any(linear.values()):
        return None
    expected = sum(len(domains[u]) * (len(domains[v]) if u != v else 1) for u, v, _ in products)
    if (terms := expected + sum(len(domains[v]) for v, bias in linear.items() if bias)) > MOST_TERMS:
        raise ValueError(f"the objective has {terms} values and pairs of values; expected at most {MOST_TERMS}")
    costs = {variable: np.array(domains[variable], np.float64) * bias for variable, bias in linear.items()}
    pairwise: list[tuple[int, int, int, int]] = []
    weights: list[float] = []
    for u, v, bias in products:
        if u == v:
            costs[u] += bias * np.array(domains[u], np.float64) ** 2
            continue
        for (a, x), (b, y) in itertools.product(enumerate(domains[u]), enumerate(domains[v])):
            if x and y:
                pairwise.append((place[u], place[v], a, b))
                weights.append(bias * x * y)
    costs[next(iter(costs))] += float(goal.offset)  # one value of the variable is chosen
    unary = [(place[v], a) for v, some in costs.items() for a in np.flatnonzero(some).tolist()]
    return Objective(
        "minimize",
        unary=unary,
        unary_weights=np.concatenate([some[some != 0] for some in costs.values()]),
        pairwise=pairwise,
        pairwise_weights=weights,
    )


def _labels(labels: Sequence[Any]) -> Sequence[Any] | None:
    """None for 0, 1, 2, ..."""
    return None if list(labels) == list(range(len(labels))) else labels
