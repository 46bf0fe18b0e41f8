"""Small random instances over all kinds of constraints, and what is true of them by trying everything.

python tests/random_instances.py 3000      checks that many instead of the few that the test suite does
"""

from __future__ import annotations

import itertools
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

import blogdit
from blogdit.core.constraints import (
    AllDifferent,
    Conflict,
    Constraint,
    Count,
    Function,
    Linear,
    NotEqual,
    Sum,
    Table,
)
from blogdit.core.instance import Instance, Objective
from blogdit.core.result import Result
from blogdit.finishers import Deadline, Task, make
from blogdit.method.energy import discrete_energy, energy, objective, one_hot
from helpers import enumerated, random_model

SHARED = 4  # instances that have the same numbers, so that some batches are mixed
NUMBERS = ([0, 1, 2, 3], [5, 6, 7, 8], [-4, 0, 3, 9], [2, -1, 7, 0])
NAMES = (["red", "green", "blue", "grey"],)


# -- drawing -----------------------------------------------------------------------------------------------------------


class Draw:
    """An instance from a seed."""

    def __init__(self, seed: int):
        self.rng = np.random.default_rng((20, seed))
        self.sizes = [self.number(1, 3) for _ in range(self.number(2, 5))]
        self.row = [*NUMBERS, *NAMES, None][self.number(0, 5)]
        self.has_numbers = self.row not in NAMES
        self.own = self.has_numbers and self.row is not None and self.number(0, 3) == 0  # each variable has its numbers
        self.groups: list[Constraint] = []
        self.derived: list[tuple[int, int, int]] = []

    def number(self, low: int, high: int) -> int:
        return int(self.rng.integers(low, high + 1))

    def some(self, least: int = 1, most: int = 3, distinct: bool = True) -> list[int]:
        count = self.number(least, min(most, len(self.sizes)) if distinct else most)
        return self.rng.choice(len(self.sizes), count, replace=not distinct).tolist()

    def value(self, variable: int) -> int:
        return self.number(0, self.sizes[variable] - 1)

    def group(self) -> Constraint:
        kinds = [self._all_different, self._conflict, self._count, self._table, self._clauses]
        kinds += [] if self.own else [self._not_equal]
        kinds += [self._linear, self._sum, self._function, self._shifted] if self.has_numbers else []
        return kinds[self.number(0, len(kinds) - 1)]()

    def _all_different(self) -> Constraint:
        return AllDifferent([self.some(1, 4) for _ in range(self.number(1, 2))])

    def _shifted(self) -> Constraint:
        scope = self.some(2, 4)
        return AllDifferent([scope], [[self.number(-2, 2) for _ in scope]])

    def _not_equal(self) -> Constraint:
        return NotEqual([self.some(2, 2) for _ in range(self.number(1, 3))])

    def _conflict(self) -> Constraint:
        pairs = [self.some(2, 2) for _ in range(self.number(1, 3))]
        return Conflict(pairs, [[self.value(i) for i in pair] for pair in pairs])

    def _count(self) -> Constraint:
        scope, (low, high) = self.some(1, 4), sorted((self.number(0, 2), self.number(0, 3)))
        return Count([scope], [self.number(0, max(self.sizes) - 1)], [low], [high])

    def _linear(self) -> Constraint:
        scope = self.some(1, 4)
        relation = ("<=", "=", ">=")[self.number(0, 2)]
        return Linear([scope], [[self.number(-2, 2) for _ in scope]], [relation], [self.number(-6, 10)])

    def _clauses(self) -> Constraint:
        """Literals and opposites of literals, of which one must hold."""
        scopes = [self.some(1, 3, distinct=False) for _ in range(self.number(1, 3))]
        signs = [[self.number(0, 1) * 2 - 1 for _ in scope] for scope in scopes]
        equals = [[self.value(i) for i in scope] for scope in scopes]
        return Sum(scopes, signs, equals, low=[1 - row.count(-1) for row in signs])

    def _sum(self) -> Constraint:
        scope = self.some(1, 4, distinct=False)
        equals = [self.value(i) if self.number(0, 1) else -1 for i in scope]
        low, high = sorted((self.number(-6, 8), self.number(-4, 10)))
        sides = ((low, high), (low, None), (None, high))[self.number(0, 2)]
        when, exactly = None, False
        if self.number(0, 1):
            variable = self.some(1, 1)[0]
            when, exactly = [[variable, self.value(variable), self.number(0, 1)]], bool(self.number(0, 1))
        weights = [self.number(-2, 2) for _ in scope]
        return Sum([scope], [weights], [equals], [sides[0]], [sides[1]], when, exactly)

    def _function(self) -> Constraint:
        which, result = ("min", "max", "element")[self.number(0, 2)], self.some(1, 1)
        if which != "element":
            return Function(which, result, [self.some(1, 3)])
        index = self.some(1, 1)[0]
        return Function(which, result, [[index, *(self.some(1, 1)[0] for _ in range(self.sizes[index]))]])

    def _table(self) -> Constraint:
        scope = self.some(1, 3)
        return Table([scope], [[self.value(i) for i in scope] for _ in range(self.number(1, 4))])

    def derive(self, values: list[list[Any]]) -> None:
        """One more variable, which follows from the others."""
        scope, variable = self.some(1, 3), len(self.sizes)
        form = self.number(0, 3)
        if form == 0:
            self.groups.append(Sum([scope], None, [[self.value(i) for i in scope]], [1], None, [[variable, 1]], True))
            values.append([0, 1])
        elif form == 1 and self.has_numbers:
            self.groups.append(Function(("min", "max")[self.number(0, 1)], [variable], [scope]))
            values.append(sorted({n for i in scope for n in values[i]}))
        elif form == 2:
            source = scope[0]
            tuples = [[value, self.number(0, 2)] for value in range(self.sizes[source])]
            self.groups.append(Table([[source, variable]], tuples))
            values.append([0, 1, 2])
        else:
            equals = [[*(self.value(i) for i in scope), -1]]
            self.groups.append(Sum([[*scope, variable]], [[1] * len(scope) + [-1]], equals, [0], [0]))
            values.append(list(range(len(scope) + self.number(0, 1))))  # one too few at times
        self.sizes.append(len(values[-1]))
        self.derived.append((variable, len(self.groups) - 1, 0))

    def goal(self) -> Objective | None:
        soft = [(self.group(), self.number(1, 3)) for _ in range(max(self.number(-1, 2), 0))]
        if not soft and self.number(0, 1):
            return None
        unary = [(i, self.value(i)) for i in self.some(1, 3, distinct=False)]
        linear = self.some(1, 2) if self.has_numbers else []
        differ = [] if self.own or self.derived else [self.some(2, 2)]
        return Objective(
            ("minimize", "maximize")[self.number(0, 1)],
            unary, [self.number(-3, 3) for _ in unary],
            differ, [self.number(-3, 3) for _ in differ],
            linear=linear, linear_weights=[self.number(-2, 2) for _ in linear],
            soft=soft,
        )  # fmt: skip

    def instance(self) -> Instance:
        rows = [self.row or [0, 1, 2, 3] for _ in self.sizes]
        if self.own:
            rows = [NUMBERS[self.number(0, 3)] for _ in self.sizes]
        values = [list(row[:size]) for row, size in zip(rows, self.sizes, strict=True)]
        self.groups = [self.group() for _ in range(self.number(0, 4))]
        for _ in range(max(self.number(-2, 2), 0)):
            self.derive(values)
            self.own = True  # from now on variables have different values
        goal = self.goal()
        givens = {i: self.value(i) for i in range(len(self.sizes)) if self.number(0, 5) == 0}
        named = None if self.row is None and not self.derived else values
        return Instance(np.array(self.sizes), tuple(self.groups), goal, givens, values=named, derived=self.derived)


# -- what is true ------------------------------------------------------------------------------------------------------


def holds(group: Constraint, index: int, x: Sequence[int], means: Sequence[Any]) -> bool:
    """A constraint in plain Python, of values and of what they mean."""
    if isinstance(group, NotEqual | Conflict):
        i, j = group.pairs[index].tolist()
        if isinstance(group, NotEqual):
            return means[i] != means[j]
        return (x[i], x[j]) != tuple(group.values[index].tolist())
    if isinstance(group, Table):
        return [x[i] for i in group.scopes[index].tolist()] in group.tuples.tolist()
    scope, entries = group.scopes[index].tolist(), group.scopes.entries_of(index)
    if isinstance(group, AllDifferent):
        offsets = None if group.offsets is None else group.offsets[entries].tolist()
        taken = (
            [means[i] for i in scope]
            if offsets is None
            else [means[i] + o for i, o in zip(scope, offsets, strict=True)]
        )
        return len(set(taken)) == len(taken)
    if isinstance(group, Function):
        result = means[int(group.results[index])]
        if group.which == "element":
            return result == means[scope[1:][x[scope[0]]]]
        return result == {"min": min, "max": max}[group.which](means[i] for i in scope)
    assert isinstance(group, Sum)
    terms = zip(scope, group.weights[entries].tolist(), group.equals[entries].tolist(), strict=True)
    total = sum(weight * (means[i] if a < 0 else int(x[i] == a)) for i, weight, a in terms)
    inside = group.low[index] <= total <= group.high[index]
    if group.when is None:
        return inside
    variable, value, truth = group.when[index].tolist()
    condition = (x[variable] == value) == bool(truth)
    return condition == inside if group.exactly else inside or not condition


def broken(groups: Sequence[Constraint], x: Sequence[int], means: Sequence[Any]) -> list[tuple[int, int]]:
    return [(g, j) for g, group in enumerate(groups) for j in range(len(group)) if not holds(group, j, x, means)]


def worth(goal: Objective, x: Sequence[int], means: Sequence[Any]) -> float:
    total = sum(w for (i, a), w in zip(goal.unary.tolist(), goal.unary_weights, strict=True) if x[i] == a)
    total += sum(w * means[i] for i, w in zip(goal.linear.tolist(), goal.linear_weights, strict=True))
    total += sum(w for (i, j), w in zip(goal.differ.tolist(), goal.differ_weights, strict=True) if means[i] != means[j])
    for group, weights in goal.soft:
        total += goal.sign * sum(weights[j] for _, j in broken([group], x, means))
    return float(total)


class Truth:
    """Every assignment of an instance: whether it is valid, and what it is worth."""

    def __init__(self, instance: Instance):
        self.instance = instance
        self.every = list(itertools.product(*map(range, instance.domain_sizes.tolist())))
        self.violated, self.worth = [], []
        for x in self.every:
            means = [x[i] if instance.values is None else instance.values[i][x[i]] for i in range(instance.size)]
            self.violated.append(len(broken(instance.constraints, x, means)))
            self.worth.append(0.0 if instance.objective is None else worth(instance.objective, x, means))
        keeps = [all(x[i] == value for i, value in instance.givens.items()) for x in self.every]
        self.valid = [not violated and kept for violated, kept in zip(self.violated, keeps, strict=True)]
        choose = min if instance.objective is None or instance.objective.sense == "minimize" else max
        self.best = choose((w for w, valid in zip(self.worth, self.valid, strict=True) if valid), default=None)


# -- what is claimed ---------------------------------------------------------------------------------------------------


def check_verifier_and_energies(instance: Instance, truth: Truth) -> None:
    for x, valid, value in zip(truth.every, truth.valid, truth.worth, strict=True):
        verdict = instance.verify(x)
        assert verdict.satisfied == valid
        assert verdict.objective == (None if instance.objective is None else value)
    free = replace(instance, givens={}, derived=())  # energies do not look at givens
    batch, values, _ = enumerated(free)
    sign = 1.0 if instance.objective is None else instance.objective.sign
    violated, cost = torch.tensor(truth.violated) > 0, sign * torch.tensor(truth.worth)
    rows = one_hot(values, batch)
    total, found = discrete_energy(values, batch)
    torch.testing.assert_close(found[:, 0].float(), cost)
    assert torch.equal(total[:, 0] - found[:, 0] > 0.5, violated)
    for form in ("counts", "pairs"):
        relaxed, goal = energy(rows, batch, form=form)[:, 0], objective(rows, batch, form)[:, 0]
        torch.testing.assert_close(goal, cost, rtol=1e-5, atol=1e-4)
        assert torch.equal(relaxed - goal > 0.5, violated)


def check_result(result: Result, truth: Truth) -> None:
    """No false claim, and the values are as good as the status says."""
    instance, place = result.instance, truth.every.index(tuple(result.values.tolist()))
    assert result.verdict.satisfied == truth.valid[place]
    if result.status == "infeasible":
        assert truth.best is None
    elif result.status == "unknown":
        assert not truth.valid[place]
    else:
        assert truth.valid[place]
        assert (result.status == "solved") == (instance.objective is None)
        assert result.objective == (None if instance.objective is None else truth.worth[place])
        assert result.status != "optimal" or result.objective == truth.best


def check_exact(instance: Instance, truth: Truth) -> None:
    """CP-SAT decides small instances, from any start."""
    starts = np.random.default_rng(0).integers(0, instance.domain_sizes, (2, instance.size))
    (finish,) = make("cpu", threads=1)["exact"].finish([Task(instance, starts)], Deadline(), seed=0)
    if truth.best is None:
        assert (finish.values, finish.proof) == (None, "infeasible")
        return
    found = instance.verify(finish.values)
    assert found.satisfied
    assert finish.proof == (None if instance.objective is None else "optimal")
    assert instance.objective is None or found.objective == truth.best


def check(seeds: Sequence[int]) -> Counter[str]:
    """All claims about the instances of these seeds; returns how often each status was given, and each kind drawn."""
    members = [Draw(seed).instance() for seed in seeds]
    truths = [Truth(instance) for instance in members]
    for instance, truth in zip(members, truths, strict=True):
        check_verifier_and_energies(instance, truth)
        check_exact(instance, truth)
    seen = Counter(f"kind {group.kind}" for instance in members for group in instance.groups)
    seen["derived"] = sum(len(instance.derived) for instance in members)
    seen["soft"] = sum(len(instance.objective.soft) for instance in members if instance.objective is not None)
    for finish in ("auto", "none"):
        results = blogdit.solve(members, random_model(), "cpu", steps=3, chains=2, finish=finish)
        for result, truth in zip(results, truths, strict=True):
            check_result(result, truth)
            seen[f"{finish}: {result.status}"] += 1
            sampled = result.found_by == "sampler"
            for variable, group, row in result.instance.derived if sampled else ():
                assert_follows(result, variable, group, row)
    return seen


def assert_follows(result: Result, variable: int, group: int, row: int) -> None:
    """What the sampler says of a derived variable is what its constraint says, if its domain and its given allow it."""
    instance = result.instance
    amounts = instance.constraints[group].violations(result.values, instance.domains.numbers(result.values))
    others = (value for value in range(instance.domain_sizes[variable]) if value != result.values[variable])
    if amounts[row] and variable not in instance.givens:
        for value in others:
            changed = np.where(np.arange(instance.size) == variable, value, result.values)
            assert instance.constraints[group].violations(changed, instance.domains.numbers(changed))[row]


if __name__ == "__main__":
    total: Counter[str] = Counter()
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 3000
    for first in range(0, count, 100):
        total += check(range(first, min(first + 100, count)))
        print(f"{min(first + 100, count)} of {count}: nothing false", flush=True)
    print("\n".join(f"{name}: {number}" for name, number in sorted(total.items())))
