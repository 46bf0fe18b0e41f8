"""Constraints and costs on variables that a draft has: the bricks of its themes.

A brick adds some constraints of a kind on variables `among` those of a draft. Constraints that must hold fit the hidden
assignment: their bounds are drawn around what it has. Soft ones fit a random assignment, so that not all can be met.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from blogdit.core.constraints import AllDifferent, Conflict, Count, Function, IntArray, Linear, NotEqual, Sum, Table
from blogdit.core.constraints.base import FAR
from blogdit.core.constraints.sums import NUMBER
from blogdit.problems.mixture_draft import Draft

# Clauses for each variable at which random ones stop being satisfiable, by the length of the clauses
THRESHOLDS = {2: 1.0, 3: 4.27, 4: 9.93, 5: 21.1}
LARGEST_TABLE = 48  # tuples
Brick = Callable[[Draft, IntArray, bool], None]


def clauses(draft: Draft, among: IntArray, soft: bool = False, density: float | None = None) -> None:
    """At least one of 2 to 5 literals holds; `density` is a share of the threshold for variables of two values."""
    rng, length = draft.rng, draft.length(among, 2, 5)
    if length < 2:
        return
    wanted = (draft.between(0.3, 1.0) if density is None else density) * THRESHOLDS[length] * len(among)
    number = draft.affordable(wanted if (draft.sizes[among] == 2).all() else min(wanted, 2 * len(among)), length)
    if not number:
        return
    at, scopes = draft.at(soft), draft.scopes(among, number, length)
    # True literals are as likely as false ones, or rarer: then clauses do not point to the hidden assignment.
    chance = 0.5 if draft.chance(0.3) else 0.382
    truth = rng.random(scopes.shape) < chance
    while (unmet := ~truth.any(axis=1)).any():
        truth[unmet] = rng.random((int(unmet.sum()), length)) < chance
    positive = rng.random(scopes.shape) < draft.between(0.3, 0.7)
    values = np.where(truth == positive, at[scopes], other_values(draft, scopes, at))
    signs = np.where(positive, 1, -1)
    draft.post(Sum(scopes, signs, values, low=1 - (~positive).sum(axis=1)), soft)


def other_values(draft: Draft, variables: IntArray, at: IntArray) -> IntArray:
    """For each variable, in an array of any shape, a value that it does not have."""
    sizes = draft.sizes[variables]
    return (at[variables] + 1 + (draft.rng.random(variables.shape) * (sizes - 1)).astype(np.int64)) % sizes


def around(draft: Draft, totals: IntArray, loose: int, exact: float = 0.25) -> tuple[IntArray, IntArray]:
    """Bounds that the totals keep: at least, at most, between, or exactly."""
    kind = draft.rng.choice(4, size=len(totals), p=[0.4 * (1 - exact), 0.4 * (1 - exact), 0.2 * (1 - exact), exact])
    below, above = draft.rng.integers(0, loose + 1, size=(2, len(totals)))
    low = np.where(kind == 1, -FAR, totals - np.where(kind == 3, 0, below))
    high = np.where(kind == 0, FAR, totals + np.where(kind == 3, 0, above))
    return low, high


def counts(draft: Draft, among: IntArray, soft: bool = False) -> None:
    """How many variables of a scope take a value."""
    length = draft.length(among, 3, draft.whole(4, 30))
    number = draft.affordable(draft.between(0.5, 3.0) * len(among) / max(length, 1) + 1, length)
    if not number:
        return
    at, scopes = draft.at(soft), draft.scopes(among, number, length)
    first = scopes[:, 0]
    values = np.where(draft.rng.random(number) < 0.7, at[first], draft.rng.integers(0, draft.sizes[first]))
    totals = (at[scopes] == values[:, None]).sum(axis=1)
    low, high = around(draft, totals, draft.whole(0, 2))
    low, high = np.clip(low, 0, length), np.clip(high, 0, length)
    if draft.chance(0.5) and (draft.sizes[scopes] > values[:, None]).all():
        draft.post(Sum(scopes, None, np.repeat(values[:, None], length, axis=1), low, high), soft)
    else:
        draft.post(Count(scopes, values, low, high), soft)


def linear(draft: Draft, among: IntArray, soft: bool = False) -> None:
    """Sums of numbers with coefficients: short ones, and comparisons of two variables."""
    length = 2 if draft.chance(0.3) else draft.length(among, 2, draft.whole(3, 12))
    if len(among) < 2:
        return
    each = length * float(draft.sizes[among].mean())
    number = draft.affordable(draft.between(0.3, 1.5) * len(among), each)
    if not number:
        return
    at, scopes = draft.at(soft), draft.scopes(among, number, length)
    largest = draft.whole(1, 5)
    coefficients = draft.rng.integers(1, largest + 1, size=scopes.shape)
    if draft.chance(0.6):
        coefficients *= draft.rng.choice([-1, 1], size=scopes.shape)
    if length == 2 and draft.chance(0.5):
        coefficients[:] = [1, -1]
    totals = (coefficients * draft.numbers(at)[scopes]).sum(axis=1)
    low, high = around(draft, totals, draft.whole(0, 2 * largest), exact=0.15)
    one_sided = (low <= -FAR) | (high >= FAR) | (low == high)
    if one_sided.all() or draft.chance(0.5):
        relations = np.where(low == high, "=", np.where(high < FAR, "<=", ">=")).tolist()
        bounds = np.where(high < FAR, high, low)
        draft.post(Linear(scopes, coefficients, relations, bounds), soft)  # type: ignore[arg-type]
    else:
        draft.post(Sum(scopes, coefficients, None, low, high), soft)


def literal_terms(draft: Draft, among: IntArray, at: IntArray, length: int, number: int) -> tuple[IntArray, ...]:
    """Scopes, weights and values of sums of literals, and the sums that the assignment has."""
    scopes = draft.scopes(among, number, length)
    usual = at[scopes]
    values = np.where(draft.rng.random(scopes.shape) < 0.4, usual, draft.rng.integers(0, draft.sizes[scopes]))
    largest = 1 if draft.chance(0.4) else draft.whole(2, 12)
    weights = draft.rng.integers(1, largest + 1, size=scopes.shape)
    if draft.chance(0.25):
        weights *= draft.rng.choice([-1, 1], size=scopes.shape)
    return scopes, weights, values, (weights * (usual == values)).sum(axis=1)


def literal_sums(draft: Draft, among: IntArray, soft: bool = False) -> None:
    """Sums of weights that values earn."""
    length = draft.length(among, 3, draft.whole(4, 40))
    number = draft.affordable(draft.between(0.3, 2.0) * len(among) / max(length, 1) + 1, length)
    if number:
        scopes, weights, values, totals = literal_terms(draft, among, draft.at(soft), length, number)
        low, high = around(draft, totals, draft.whole(0, 5), exact=0.1)
        draft.post(Sum(scopes, weights, values, low, high), soft)


def implications(draft: Draft, among: IntArray, soft: bool = False) -> None:
    """Where a literal holds, a sum has bounds; or there and nowhere else."""
    length = draft.length(among, 2, 8) - 1
    number = draft.affordable(draft.between(0.2, 1.0) * len(among), length + 1)
    if not number or length < 1:
        return
    at, exactly = draft.at(soft), draft.chance(0.4)
    everyone = draft.scopes(among, number, length + 1)
    switch, scopes = everyone[:, 0], everyone[:, 1:]
    _, weights, values, _ = literal_terms(draft, among, at, length, number)
    values %= draft.sizes[scopes]
    totals = (weights * (at[scopes] == values)).sum(axis=1)
    named = np.where(draft.rng.random(number) < 0.5, at[switch], other_values(draft, switch, at))
    positive = draft.rng.random(number) < 0.7
    holds = (at[switch] == named) == positive
    # Where the literal is false, the bounds are missed by one: they may be kept or not, or (exactly) must not.
    bounds = np.where(holds, totals, totals + 1)
    when = np.stack([switch, named, positive.astype(np.int64)], axis=1)
    draft.post(Sum(scopes, weights, values, low=bounds, when=when, exactly=exactly), soft)


def not_equal(draft: Draft, among: IntArray, soft: bool = False) -> None:
    """Pairs that differ."""
    among = draft.alike(among)
    if len(among) < 2:
        return
    number = draft.affordable(draft.between(0.5, 3.0) * len(among), 2 * draft.sizes[among[0]])
    at, pairs = draft.at(soft), np.unique(np.sort(draft.scopes(among, number, 2), axis=1), axis=0)
    pairs = pairs[at[pairs[:, 0]] != at[pairs[:, 1]]]
    if len(pairs):
        draft.post(NotEqual(pairs), soft)


def conflicts(draft: Draft, among: IntArray, soft: bool = False, each: int | None = None) -> None:
    """Pairs of variables, each with some pairs of values that exclude each other."""
    if len(among) < 2:
        return
    each = draft.whole(1, 6) if each is None else each
    number = draft.affordable(draft.between(0.5, 2.0) * len(among), 2 * each)
    if not number:
        return
    at, pairs = draft.at(soft), np.repeat(draft.scopes(among, number, 2), each, axis=0)
    values = draft.rng.integers(0, draft.sizes[pairs])
    rows = np.unique(np.concatenate([pairs, values], axis=1), axis=0)
    rows = rows[(at[rows[:, :2]] != rows[:, 2:]).any(axis=1)]
    if len(rows):
        draft.post(Conflict(rows[:, :2], rows[:, 2:]), soft)


def all_different(draft: Draft, among: IntArray, soft: bool = False, offsets: bool | None = None) -> None:
    """Scopes whose values differ, or whose values with offsets do."""
    shifted = draft.chance(0.5) if offsets is None else offsets
    among = draft.alike(among)
    if len(among) < 3:
        return
    size = int(draft.sizes[among[0]])
    length = draft.length(among, 3, 2 * size if shifted else size + 1)
    at, step = draft.numbers(draft.at(soft)), draft.whole(1, 2)
    scopes, shifts = [], []
    for row in draft.scopes(among, draft.affordable(draft.whole(1, 6), length * size), length):
        shift = step * np.arange(length) * draft.rng.choice([-1, 1]) if shifted else np.zeros(length, np.int64)
        kept = np.sort(np.unique(at[row] + shift, return_index=True)[1])  # the first of each that the others repeat
        if len(kept) >= 3 or (len(kept) == 2 and size == 2):
            scopes.append(row[kept])
            shifts.append(shift[kept])
    if scopes:
        draft.post(AllDifferent(scopes, shifts if shifted else None), soft)  # type: ignore[arg-type]


def tables(draft: Draft, among: IntArray, soft: bool = False, arity: int | None = None) -> None:
    """A relation between variables, listed tuple by tuple, that holds for several scopes."""
    among = draft.alike(among)
    arity = min(draft.whole(2, 3) if arity is None else arity, len(among))
    if arity < 2:
        return
    size, at = int(draft.sizes[among[0]]), draft.at(soft)
    space = size**arity
    number = min(int(draft.between(0.3, 0.75) * space) + 1, LARGEST_TABLE)
    allowed = draft.rng.choice(space, size=number, replace=False)
    scopes = draft.scopes(among, draft.affordable(2 * len(among), number * arity), arity)
    keys = at[scopes] @ size ** np.arange(arity)
    allowed = np.unique(np.concatenate([allowed, keys[: draft.whole(1, 4)]]))
    scopes = scopes[np.isin(keys, allowed)]
    scopes = scopes[: draft.affordable(len(scopes), len(allowed) * arity)]
    if len(scopes):
        draft.post(Table(scopes, allowed[:, None] // size ** np.arange(arity) % size), soft)


# -- variables that follow from others ---------------------------------------------------------------------------------


def truths(draft: Draft, among: IntArray, soft: bool = False) -> None:
    """Variables that say whether sums reach a bound; how many may be true is bounded, or costs."""
    length = draft.length(among, 2, 8)
    number = draft.affordable(min(draft.whole(2, 12), draft.spare, draft.room // 2), length + 1)
    if not number or draft.limits.values[0] > 2:
        return
    scopes, weights, values, totals = literal_terms(draft, among, draft.hidden, length, number)
    low = totals + draft.rng.integers(-2, 3, size=number)
    made = draft.follow(totals >= low, 2)
    when = np.stack([made, np.ones_like(made), np.ones_like(made)], axis=1)
    draft.define(made, Sum(scopes, weights, values, low=low, when=when, exactly=True))
    use(draft, made, soft)


def totals(draft: Draft, among: IntArray, soft: bool = False) -> IntArray:
    """Variables that count how often a scope takes a value."""
    most = draft.limits.values[1]
    length = draft.length(among, 2, most - 1)
    number = min(draft.affordable(draft.whole(2, 8), 2 * length), draft.spare, draft.room // (length + 1))
    if number < 1 or length + 1 < draft.limits.values[0]:
        return np.zeros(0, np.int64)
    scopes = draft.scopes(among, number, length)
    values = np.repeat(draft.hidden[scopes[:, :1]], length, axis=1) % draft.sizes[scopes]
    made = count_up(draft, scopes, values)
    use(draft, made, soft)
    return made


def count_up(draft: Draft, scopes: IntArray, values: IntArray) -> IntArray:
    """A variable for each row of literals: how many of them hold."""
    number, length = scopes.shape
    made = draft.follow((draft.hidden[scopes] == values).sum(axis=1), length + 1)
    equals = np.concatenate([values, np.full((number, 1), NUMBER)], axis=1)
    weights = np.tile([1] * length + [-1], (number, 1))
    none = np.zeros(number, np.int64)
    draft.define(made, Sum(np.concatenate([scopes, made[:, None]], axis=1), weights, equals, none, none))
    return made


def functions(draft: Draft, among: IntArray, soft: bool = False) -> None:
    """Minima, maxima and elements of variables with the same values."""
    index = int(draft.rng.choice(among))
    among = draft.alike(among)
    size = int(draft.sizes[among[0]])
    which = ("min", "max", "element")[draft.whole(0, 2)]
    length = draft.length(among, 2, 6)
    chooses = which == "element" and draft.sizes[index] + 1 < len(among)
    length = int(draft.sizes[index]) if chooses else length
    number = min(draft.affordable(draft.whole(1, 6), (length + 2) * size), draft.spare, draft.room // size)
    if number < 1 or length < 2:
        return
    numbers = draft.numbers(draft.hidden)
    if chooses:
        scopes = draft.scopes(among[among != index], number, length)
        chosen = scopes[:, draft.hidden[index]]
        scopes = np.concatenate([np.full((number, 1), index), scopes], axis=1)
    else:
        which = "max" if which == "element" else which
        scopes = draft.scopes(among, number, length)
        best = (np.argmin if which == "min" else np.argmax)(numbers[scopes], axis=1)
        chosen = scopes[np.arange(number), best]
    made = draft.follow(draft.hidden[chosen], size, draft.lists[draft.kinds[among[0]]])
    draft.define(made, Function(which, made, scopes))
    use(draft, made, soft)


def largest_of(draft: Draft, among: IntArray, which: str = "max") -> IntArray:
    """One variable that is the largest, or the least, of some with the same values."""
    among = among[: draft.limits.longest]
    best = among[(np.argmax if which == "max" else np.argmin)(draft.numbers(draft.hidden)[among])]
    made = draft.follow([draft.hidden[best]], int(draft.sizes[best]), draft.lists[draft.kinds[best]])
    draft.define(made, Function(which, made, among[None]))
    return made


def use(draft: Draft, made: IntArray, soft: bool) -> None:
    """What follows from others plays a part: it is bounded by a sum, or it costs."""
    if soft or draft.chance(0.4):
        draft.charge("linear", made, draft.rng.choice([-1, 1]) * draft.weights(len(made)))
    else:
        numbers = draft.numbers(draft.hidden)[made]
        low, high = around(draft, numbers.sum(keepdims=True), draft.whole(0, 2))
        draft.post(Sum(made[None], None, None, low, high))


# -- costs -------------------------------------------------------------------------------------------------------------


def value_costs(draft: Draft, among: IntArray, soft: bool = False) -> None:
    """Values cost something; of one variable all of them, or some."""
    sizes = draft.sizes[among]
    variables = np.repeat(among, sizes)
    values = np.arange(len(variables)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    rows = np.stack([variables, values], axis=1)
    rows = rows[draft.rng.random(len(rows)) < draft.between(0.2, 1.0)]
    draft.charge("unary", rows, draft.weights(len(rows)) * draft.rng.choice([-1.0, 1.0]))


def number_costs(draft: Draft, among: IntArray, soft: bool = False) -> None:
    """Numbers cost what they are, times a weight."""
    signs = np.ones(len(among)) if draft.chance(0.6) else draft.rng.choice([-1.0, 1.0], size=len(among))
    draft.charge("linear", among, signs * draft.weights(len(among)))


def pair_costs(draft: Draft, among: IntArray, soft: bool = False) -> None:
    """Two variables that differ, or that take two values, cost something."""
    differ = draft.chance(0.5)
    among = draft.alike(among) if differ else among
    number = draft.affordable(draft.between(0.5, 3.0) * len(among), 2 * draft.sizes.mean() if differ else 2)
    if len(among) < 2 or not number:
        return
    pairs = draft.scopes(among, number, 2)
    weights = draft.weights(number) * draft.rng.choice([-1.0, 1.0], size=number)
    draft.entries += int(number * (2 * draft.sizes.mean() if differ else 2))
    if differ:
        draft.charge("differ", pairs, weights)
    else:
        draft.charge("pairwise", np.concatenate([pairs, draft.rng.integers(0, draft.sizes[pairs])], axis=1), weights)


def _totals(draft: Draft, among: IntArray, soft: bool) -> None:
    totals(draft, among, soft)


RULES: tuple[Brick, ...] = (
    clauses, counts, linear, literal_sums, implications, not_equal, conflicts, all_different, tables, truths, _totals,
    functions,
)  # fmt: skip
COSTS: tuple[Brick, ...] = (value_costs, number_costs, pair_costs)
