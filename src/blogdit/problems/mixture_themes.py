"""Themes of random problems: structures that people meet, each with sizes, bounds and densities drawn at random.

A theme adds variables and what they are for to a draft. Bounds are drawn around what the hidden assignment has.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from blogdit.core.constraints import AllDifferent, Conflict, Count, IntArray, Linear, NotEqual, Sum, Table
from blogdit.core.constraints.base import FAR
from blogdit.problems import mixture_bricks as bricks
from blogdit.problems.mixture_draft import Draft

Theme = Callable[[Draft], None]


def _grid(number: int, low: int, high: int, draft: Draft) -> tuple[int, int]:
    """Rows and columns of a grid of about so many cells, with `low` to `high` columns."""
    columns = min(draft.whole(low, high), max(number, 1))
    return max(number // columns, 1), columns


def _split(draft: Draft, number: int, length: int) -> IntArray:
    """(rows, length): places 0 .. number - 1, shuffled and cut into rows."""
    return draft.rng.permutation(number)[: number // length * length].reshape(-1, length)


def satisfiability(draft: Draft) -> None:
    """Clauses over yes and no, of several lengths; some may be soft."""
    number, values = draft.shape(2, 2)
    made = draft.variables(number, values)
    parts = draft.whole(1, 2)
    for _ in range(parts):
        bricks.clauses(draft, made, density=draft.between(0.4, 1.0) / parts)
    if draft.chance(0.25):
        bricks.clauses(draft, made, soft=True, density=draft.between(0.3, 1.0))


def assignment(draft: Draft) -> None:
    """Jobs of some size go to places of limited capacity; what a job costs depends on the place."""
    number, places = draft.shape(3, 10)
    made = draft.variables(number, places)
    largest = draft.whole(1, 15)
    for part in np.array_split(made, -(-number // draft.limits.longest)):
        sizes = draft.rng.integers(1, largest + 1, size=len(part))
        if draft.chance(0.5):  # a job takes more in some places than in others
            sizes = np.maximum(sizes + draft.rng.integers(-2, 3, size=(places, len(part))), 1)
        sizes = np.broadcast_to(sizes, (places, len(part)))
        values = np.repeat(np.arange(places)[:, None], len(part), axis=1)
        loads = (sizes * (draft.hidden[part] == values)).sum(axis=1)
        slack = (draft.between(0.0, 0.25) * loads).astype(np.int64)
        low = loads - slack if draft.chance(0.3) else np.full(places, -FAR)
        draft.post(Sum(np.tile(part, (places, 1)), sizes, values, low, loads + slack))
    if draft.chance(0.7):
        costs = draft.rng.integers(1, draft.whole(2, 40) + 1, size=(number, places))
        rows = np.stack(np.meshgrid(made, np.arange(places), indexing="ij"), axis=-1).reshape(-1, 2)
        draft.charge("unary", rows, costs.reshape(-1))
    if draft.chance(0.3):
        bricks.not_equal(draft, made)


def covering(draft: Draft) -> None:
    """Sets are chosen so that elements are in enough, few enough or exactly so many of them; sets cost something."""
    number, values = draft.shape(2, 2)
    chosen = draft.rng.random(number) < draft.between(0.15, 0.5)
    made = draft.variables(number, values, chosen)
    length = draft.length(made, 3, draft.whole(4, 16))
    elements = draft.affordable(draft.between(0.3, 1.2) * number, length)
    scopes = draft.scopes(made, elements, length)
    covered = draft.hidden[scopes].sum(axis=1)
    kind = draft.whole(0, 2)
    if kind == 0:  # cover
        scopes, covered = scopes[covered > 0], covered[covered > 0]
        low, high = np.minimum(covered, draft.whole(1, 2)), np.full(len(covered), length)
    elif kind == 1:  # packing
        scopes, covered = scopes[covered < length], covered[covered < length]
        low, high = np.zeros(len(covered), np.int64), np.maximum(covered, 1)
    else:
        low = high = covered
    if len(scopes):
        ones = np.ones_like(scopes)
        draft.post(Sum(scopes, None, ones, low, high) if draft.chance(0.6) else Count(scopes, ones[:, 0], low, high))
    if kind < 2 or draft.chance(0.3):
        rows = np.stack([made, np.ones_like(made)], axis=1)
        draft.charge("unary", rows, draft.weights(number) * (-1.0 if kind == 1 else 1.0))


def roster(draft: Draft) -> None:
    """People by days: demand, windows of days, forbidden successions, totals, wishes, and a fair share of one shift."""
    rng, (number, shifts) = draft.rng, draft.shape(2, 6, reserve=0.2)
    people, days = _grid(number, 4, 16, draft)
    people = min(people, draft.limits.longest)
    moves = rng.random((shifts, shifts)) < draft.between(0.6, 1.0)  # what may follow what
    moves |= np.eye(shifts, dtype=np.bool_)
    liked = rng.dirichlet(np.full(shifts, 2.0))
    rows = np.zeros((people, days), np.int64)
    rows[:, 0] = rng.choice(shifts, size=people, p=liked)
    for day in range(1, days):
        chances = np.cumsum(moves[rows[:, day - 1]] * liked, axis=1)
        rows[:, day] = (chances < rng.random((people, 1)) * chances[:, -1:]).sum(axis=1).clip(max=shifts - 1)
    cells = draft.variables(people * days, shifts, rows.reshape(-1)).reshape(people, days)
    for shift in range(shifts - 1):
        demand = (rows == shift).sum(axis=0)
        low, high = bricks.around(draft, demand, draft.whole(0, 2), exact=0.4)
        draft.post(Count(cells.T, np.full(days, shift), np.clip(low, 0, people), np.clip(high, 0, people)))
    forbidden = np.argwhere(~moves)
    if len(forbidden) and days > 1:
        pairs = np.stack([cells[:, :-1], cells[:, 1:]], axis=-1).reshape(-1, 2)
        if draft.chance(0.3):
            draft.post(Table(pairs, np.argwhere(moves)))
        else:
            excluded = np.tile(forbidden, (len(pairs), 1))
            draft.post(Conflict(np.repeat(pairs, len(forbidden), axis=0), excluded))
    width = min(draft.whole(2, max(min(7, days), 2)), days)
    windows = np.lib.stride_tricks.sliding_window_view(cells, width, axis=1).reshape(-1, width)
    shift = draft.whole(0, shifts - 1)
    worked = (draft.hidden[windows] == shift).sum(axis=1)
    most = np.full(len(windows), min(worked.max() + draft.whole(0, 1), width))
    draft.post(Sum(windows, None, np.full_like(windows, shift), None, most))
    if draft.chance(0.6):  # hours of a person
        hours = rng.integers(0, 9, size=shifts)
        scopes, values = np.repeat(cells, shifts, axis=1), np.tile(np.arange(shifts), (people, days))
        low, high = bricks.around(draft, hours[rows].sum(axis=1), draft.whole(0, 8), exact=0.1)
        draft.post(Sum(scopes, hours[values], values, low, high))
    if draft.chance(0.6):
        wishes = rng.permutation(cells.reshape(-1))[: draft.whole(1, max(cells.size // 4, 1))]
        refused = np.stack([wishes, rng.integers(0, shifts, size=len(wishes))], axis=1)
        draft.charge("unary", refused, draft.weights(len(wishes)))
    fits = days + 1 <= draft.limits.values[1] and draft.room >= (people + 1) * (days + 1) and draft.spare > people
    if draft.chance(0.7) and fits:
        made = bricks.count_up(draft, cells, np.full_like(cells, shift))
        draft.charge("linear", bricks.largest_of(draft, made), draft.weights(1))
    if draft.chance(0.4):
        bricks.clauses(draft, cells.reshape(-1), soft=True, density=0.1)


def timetable(draft: Draft) -> None:
    """Events at times: some may not meet, some come before others, rooms are few, and some times are liked."""
    number, times = draft.shape(4, 12)
    made = draft.variables(number, times)
    at = draft.hidden
    bricks.not_equal(draft, made)
    for row in draft.scopes(made, draft.affordable(draft.whole(0, 4), times**2), draft.length(made, 2, times)):
        group = row[np.sort(np.unique(at[row], return_index=True)[1])]  # one teacher's events
        if len(group) > 1:
            draft.post(AllDifferent(group[None]))
    for part in np.array_split(made, -(-number // draft.limits.longest)):
        rooms = np.bincount(at[part], minlength=times).max() + draft.whole(0, 1)
        scopes = np.tile(part, (times, 1))
        draft.post(Count(scopes, np.arange(times), np.zeros(times, np.int64), np.full(times, min(rooms, len(part)))))
    if draft.chance(0.6):
        pairs = draft.scopes(made, draft.affordable(0.5 * number, 2 * times), 2)
        pairs = pairs[at[pairs[:, 0]] != at[pairs[:, 1]]]
        later = np.where((at[pairs[:, 0]] > at[pairs[:, 1]])[:, None], pairs[:, ::-1], pairs)
        if len(later):
            signs = np.tile([1, -1], (len(later), 1))
            draft.post(Linear(later, signs, ["<="] * len(later), np.full(len(later), -1)))  # type: ignore[arg-type]
    if draft.chance(0.5):
        bricks.value_costs(draft, made)
    if draft.chance(0.3):
        bricks.not_equal(draft, made, soft=True)


def permutations(draft: Draft) -> None:
    """Rows that hold each value once: with columns that differ, diagonals, sums, or costs of what is next to what."""
    number, size = draft.shape(4, 12)
    size = max(min(size, number), 2)
    rows = max(number // size, 1)
    hidden = draft.rng.permuted(np.tile(np.arange(size), (rows, 1)), axis=1)
    square = rows > 1 and draft.chance(0.5)
    if square:  # shifts of one row have no value twice in a column
        shifts = draft.rng.permutation(size)[np.arange(rows) % size]
        hidden = draft.rng.permutation(size)[(hidden[:1] + shifts[:, None]) % size]
    cells = draft.variables(rows * size, size, hidden.reshape(-1)).reshape(rows, size)
    width = draft.whole(max(size - 2, 2), size)
    draft.post(AllDifferent(np.ascontiguousarray(cells[:, :width])))
    if square:
        for first in range(0, rows, size):
            part = cells[first : first + size].T
            if part.shape[1] > 1 and draft.affordable(1, part.size * size):
                draft.post(AllDifferent(np.ascontiguousarray(part)))
    else:
        bricks.all_different(draft, cells[draft.whole(0, rows - 1)], offsets=True)
    extra = (bricks.linear, bricks.pair_costs, bricks.value_costs, bricks.tables, bricks.clauses)
    for _ in range(draft.whole(0, 2)):
        extra[draft.whole(0, len(extra) - 1)](draft, cells.reshape(-1), False)


def relations(draft: Draft) -> None:
    """Random relations between variables: value pairs that exclude each other, or tuples that are allowed."""
    number, size = draft.shape(3, 12)
    made = draft.variables(number, size)
    if draft.chance(0.5):
        tightness = draft.between(0.1, 0.4)
        bricks.conflicts(draft, made, each=max(int(tightness * size**2), 1))
    for _ in range(draft.whole(0 if draft.constraints else 1, 4)):
        bricks.tables(draft, made)


def knapsacks(draft: Draft) -> None:
    """How many of each thing to take: several resources bound what all of them need, and things are worth something."""
    rng, (number, size) = draft.rng, draft.shape(2, 6)
    first, step = draft.whole(-3, 5), draft.whole(1, 3)
    numbers = first + step * np.arange(size) if draft.chance(0.3) else None
    made = draft.variables(number, size, numbers=numbers)
    length = draft.length(made, 5, draft.limits.longest)
    resources = draft.affordable(draft.whole(1, 6), length * size)
    scopes = draft.scopes(made, resources, length)
    needs = rng.integers(1, draft.whole(2, 30) + 1, size=scopes.shape)
    used = (needs * draft.numbers(draft.hidden)[scopes]).sum(axis=1)
    slack = rng.integers(0, needs.mean().astype(np.int64) + 1, size=resources) if resources else used
    if resources:
        draft.post(Linear(scopes, needs, ["<="] * resources, used + slack))  # type: ignore[arg-type]
    if draft.chance(0.8):
        draft.charge("linear", made, -draft.weights(number))
    else:
        bricks.linear(draft, made)
    if draft.chance(0.4):
        bricks.implications(draft, made)


def couplings(draft: Draft) -> None:
    """Pairs that gain or cost by what they are together; perhaps with a bound on how many take a value."""
    number, size = draft.shape(2, 4 if draft.chance(0.3) else 2)
    made = draft.variables(number, size)
    for _ in range(draft.whole(1, 2)):
        bricks.pair_costs(draft, made)
    if draft.chance(0.4):
        bricks.value_costs(draft, made)
    if draft.chance(0.4):
        bricks.counts(draft, made)


def neighbours(draft: Draft) -> None:
    """Points on a map: those near each other differ; values may cost, or be balanced."""
    number, size = draft.shape(3, 8)
    points = draft.rng.random((number, 2))
    colors = draft.rng.integers(0, size, size=number)
    first, second = np.triu_indices(number, 1)
    if draft.chance(0.6):  # near ones, else any
        order = np.argsort(((points[first] - points[second]) ** 2).sum(axis=1), kind="stable")
    else:
        order = draft.rng.permutation(len(first))
    made = draft.variables(number, size, colors)
    wanted = draft.between(0.3, 1.0) * (size - 0.5) * np.log(size) * number
    pairs = np.stack([made[first[order]], made[second[order]]], axis=1)
    pairs = pairs[draft.hidden[pairs[:, 0]] != draft.hidden[pairs[:, 1]]][: draft.affordable(wanted, 2 * size)]
    if len(pairs):
        draft.post(NotEqual(pairs))
    if draft.chance(0.4):
        bricks.value_costs(draft, made)
    if draft.chance(0.3):
        bricks.counts(draft, made)


def machines(draft: Draft) -> None:
    """Jobs on machines: loads that follow from the choice, the largest of which is to be small."""
    most = draft.limits.values[1]
    jobs, size = draft.shape(2, 5, reserve=0.35)
    rows = _split(draft, jobs, max(min(most - 1, jobs // 2, draft.whole(4, 11)), 1))
    made = draft.variables(jobs, size)
    each, length = len(rows), rows.shape[1] + 1
    fits = draft.room >= (each + 1) * length and draft.spare > each and length >= draft.limits.values[0]
    if fits:
        loads = bricks.count_up(draft, made[rows], np.full_like(rows, draft.whole(0, size - 1)))
        draft.charge("linear", bricks.largest_of(draft, loads), draft.weights(1))
        if draft.chance(0.5) and draft.room >= length and draft.spare:
            draft.charge("linear", bricks.largest_of(draft, loads, "min"), -draft.weights(1))
    for brick in (bricks.functions, bricks.linear, bricks.not_equal, bricks.clauses)[draft.whole(0, 3) :]:
        if draft.chance(0.5):
            brick(draft, made)
    bricks.counts(draft, made)


def orders(draft: Draft) -> None:
    """Activities with durations: of two that share a machine one comes first, and the last is to end early."""
    number, horizon = draft.shape(6, 12, reserve=0.4)
    made = draft.variables(number, horizon)
    if number < 2:
        return
    durations = draft.rng.integers(1, max(horizon // 3, 1) + 1, size=number)
    start = draft.hidden[made]
    pairs = np.unique(np.sort(draft.scopes(made, draft.affordable(number, 4 * horizon), 2), axis=1), axis=0)
    pairs = pairs - made[0]
    before = start[pairs[:, 0]] + durations[pairs[:, 0]] <= start[pairs[:, 1]]
    after = start[pairs[:, 1]] + durations[pairs[:, 1]] <= start[pairs[:, 0]]
    kept = (before | after).nonzero()[0][: min(draft.room // 2, draft.spare)]
    pairs, before = pairs[kept], before[kept]
    if len(pairs) and draft.limits.values[0] == 2:
        first = draft.follow(before, 2)  # x_i + d_i <= x_j
        ends, gaps = made[pairs], -durations[pairs[:, 0]]
        when = np.stack([first, np.ones_like(first)], axis=1)
        signs = np.tile([1, -1], (len(pairs), 1))
        draft.define(first, Sum(ends, signs, None, None, gaps, np.insert(when, 2, 1, axis=1), exactly=True))
        draft.post(Sum(ends, -signs, None, None, -durations[pairs[:, 1]], np.insert(when, 2, 0, axis=1)))
    if draft.room >= horizon and draft.spare and draft.chance(0.7):
        few = draft.scopes(made, 1, draft.length(made, 3, draft.limits.longest))[0]
        draft.charge("linear", bricks.largest_of(draft, few), draft.weights(1))
    if draft.chance(0.4):
        bricks.number_costs(draft, made)


def anything(draft: Draft) -> None:
    """Variables of several sizes, and rules that have nothing to do with each other."""
    parts = draft.whole(1, 3)
    share, begun = draft.share, int(draft.sizes.sum()) / draft.limits.literals
    made = np.zeros(0, np.int64)
    for part in range(parts):
        draft.share = begun + (share - begun) * 0.85 * (part + 1) / parts
        number, size = draft.shape(2, 12)
        numbers = draft.whole(-2, 3) + draft.whole(1, 2) * np.arange(size) if draft.chance(0.25) else None
        made = np.concatenate([made, draft.variables(number, size, numbers=numbers)])
    draft.share = share
    mixed(draft, made, draft.whole(2, 4))


def mixed(draft: Draft, among: IntArray, number: int) -> None:
    """Rules and costs at random, some of them soft."""
    for _ in range(number):
        bricks.RULES[draft.whole(0, len(bricks.RULES) - 1)](draft, among, draft.chance(0.2))
    if draft.chance(0.3):
        bricks.COSTS[draft.whole(0, len(bricks.COSTS) - 1)](draft, among, False)


THEMES: dict[str, Theme] = {
    theme.__name__: theme
    for theme in (
        satisfiability, assignment, covering, roster, timetable, permutations, relations, knapsacks, couplings,
        neighbours, machines, orders, anything,
    )
}  # fmt: skip
