"""Problems as users write them down: one small generator each, `generate(name, rng)` for an instance by name.

The same numbers from `rng` give the same instance. All instances of a name have the same number of variables.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import combinations, pairwise

import numpy as np

from blogdit.core.instance import Instance
from blogdit.core.problem import Problem
from blogdit.problems import family

Generator = Callable[[np.random.Generator], Instance]


def generate(name: str, rng: np.random.Generator) -> Instance:
    """One instance of a problem of GENERATORS."""
    if name not in GENERATORS:
        raise ValueError(f"unknown problem {name!r}; known: {', '.join(GENERATORS)}")
    return GENERATORS[name](rng)


# -- rosters and timetables ---------------------------------------------------------------------------------------

NURSES, DAYS, SENIORS = 12, 14, 4
SHIFTS = ("early", "late", "night", "off")
TOO_SHORT = (("night", "early"), ("night", "late"), ("late", "early"))  # rests between a day and the next


def roster(rng: np.random.Generator, tight: bool) -> Instance:
    """Twelve nurses, fourteen days. Every shift is staffed, one senior nurse is there at night, rests and days off are
    kept, and some days are holidays. Wishes and whole weekends off count. `tight`: 8 of 12 nurses work every day
    instead of 5, and nobody works more than 10 days."""
    needed = {"early": 3, "late": 3, "night": 2} if tight else {"early": 2, "late": 2, "night": 1}
    problem = Problem("roster")
    holidays = {(int(nurse), int(rng.integers(DAYS))) for nurse in rng.choice(NURSES, 6, replace=False)}
    works = {
        (nurse, day): problem.variable((nurse, day), SHIFTS, "off" if (nurse, day) in holidays else None)
        for nurse in range(NURSES)
        for day in range(DAYS)
    }
    for day in range(DAYS):
        for shift, number in needed.items():
            problem.sum([(1, works[nurse, day], shift) for nurse in range(NURSES)], number, number)
        problem.clause([(works[nurse, day], "night") for nurse in range(SENIORS)])
    for nurse in range(NURSES):
        row = [works[nurse, day] for day in range(DAYS)]
        problem.sum([(1, cell, "off") for cell in row], low=4 if tight else 6)
        problem.sum([(1, cell, "night") for cell in row], high=4)
        for first in range(DAYS - 5):
            problem.clause([(cell, "off") for cell in row[first : first + 6]])  # five days in a row at most
        for today, tomorrow in pairwise(row):
            for before, after in TOO_SHORT:
                problem.clause([(today, before, False), (tomorrow, after, False)])
        for saturday in (5, 12):
            one = problem.truth((nurse, f"split {saturday}"), [(1, cell, "off") for cell in row[saturday:][:2]], 1, 1)
            problem.clause([(one, 0)], weight=2)
        for day in rng.choice(DAYS, 8, replace=False):
            wish = SHIFTS[int(rng.integers(len(SHIFTS)))]
            problem.clause([(row[int(day)], wish)], weight=int(rng.integers(1, 6)))
    return problem.instance()


def exams(rng: np.random.Generator, count: int = 40, slots: int = 10, students: int = 100) -> Instance:
    """Nobody sits two exams in one slot, and a slot has seats for 1.25 times its even share. It costs 1 for each
    student with exams in two slots that follow each other, and up to 4 for an exam in a slot that its examiner
    dislikes."""
    problem = Problem("exams")
    taken = [sorted(rng.choice(count, 3, replace=False).tolist()) for _ in range(students)]
    together, sizes = np.zeros((count, count), np.int64), np.zeros(count, np.int64)
    for chosen in taken:
        sizes[chosen] += 1
        for a, b in combinations(chosen, 2):
            together[a, b] += 1
    slot_of = [problem.variable(f"exam {exam}", range(slots)) for exam in range(count)]
    seats = max(int(1.25 * sizes.sum() / slots), int(sizes.max()))
    for slot in range(slots):
        terms = [(int(size), variable, slot) for size, variable in zip(sizes, slot_of, strict=True)]
        problem.sum(terms, high=seats)
    apart = [(one, other) for one in range(slots) for other in range(slots) if abs(one - other) > 1]
    for a, b in np.argwhere(together).tolist():
        problem.different([slot_of[a], slot_of[b]])
        problem.table([slot_of[a], slot_of[b]], [*apart, *((slot, slot) for slot in range(slots))], int(together[a, b]))
    dislikes = rng.integers(0, 5, (count, slots))
    problem.minimize([(int(dislikes[e, s]), slot_of[e], s) for e in range(count) for s in range(slots)])
    return problem.instance()


# -- satisfiability -----------------------------------------------------------------------------------------------


def sat(rng: np.random.Generator, variables: int, clauses: int) -> Instance:
    """Random clauses of three different variables. With about 4.26 clauses for a variable half of all instances can be
    satisfied; these may or may not."""
    problem = Problem("sat")
    bits = [problem.variable(f"x{number}") for number in range(variables)]
    for _ in range(clauses):
        chosen, signs = rng.choice(variables, 3, replace=False), rng.integers(0, 2, 3)
        problem.clause([(bits[int(i)], int(sign)) for i, sign in zip(chosen, signs, strict=True)])
    return problem.instance()


def queens(rng: np.random.Generator, size: int = 50, placed: int = 8) -> Instance:
    """A queen for each row, with some queens in place that do not attack each other."""
    problem, held = Problem("queens"), dict[int, int]()
    for row in rng.permutation(size).tolist():
        free = [
            column
            for column in rng.permutation(size).tolist()
            if all(column != other and abs(column - other) != abs(row - at) for at, other in held.items())
        ]
        if free and len(held) < placed:
            held[row] = free[0]
    columns = [problem.variable(f"row {row}", range(size), held.get(row)) for row in range(size)]
    problem.different(columns)
    problem.different(columns, offsets=range(size))
    problem.different(columns, offsets=range(0, -size, -1))
    return problem.instance()


# -- assignment, packing and covering -----------------------------------------------------------------------------


def assignment(rng: np.random.Generator, jobs: int = 40, agents: int = 8) -> Instance:
    """Generalised assignment, of the hard kind D: what takes an agent long costs little, and agents have four fifths of
    the time that the jobs would take on average."""
    problem = Problem("assignment")
    times = rng.integers(1, 101, (agents, jobs))
    costs = 111 - times + rng.integers(-10, 11, (agents, jobs))
    agent_of = [problem.variable(f"job {job}", range(agents)) for job in range(jobs)]
    for agent in range(agents):
        terms = [(int(time), job, agent) for time, job in zip(times[agent], agent_of, strict=True)]
        problem.sum(terms, high=int(0.8 * times[agent].sum() / agents))
    problem.minimize([(int(costs[a, j]), agent_of[j], a) for a in range(agents) for j in range(jobs)])
    return problem.instance()


def packing(rng: np.random.Generator, full: int = 12, spare: int = 4, capacity: int = 100) -> Instance:
    """Bin packing: three items were cut from each of `full` bins, so that the fewest bins are exactly these."""
    problem = Problem("packing")
    sizes: list[int] = []
    for _ in range(full):
        first, second = (int(size) for size in rng.integers(capacity // 5, capacity * 2 // 5, 2))
        sizes += [first, second, capacity - first - second]
    sizes = rng.permutation(sizes).tolist()
    bins = range(full + spare)
    bin_of = [problem.variable(f"item {item} of size {size}", bins) for item, size in enumerate(sizes)]
    used = []
    for number in bins:
        problem.sum([(size, item, number) for size, item in zip(sizes, bin_of, strict=True)], high=capacity)
        used.append(problem.truth(f"bin {number} used", [(1, item, number) for item in bin_of], low=1))
    problem.minimize([(1, one) for one in used])
    return problem.instance()


def cover(rng: np.random.Generator, sets: int = 200, elements: int = 200, share: float = 0.05) -> Instance:
    """Weighted set cover: every element is in about `share` of the sets, and in two at least."""
    problem = Problem("cover")
    chosen = [problem.variable(f"set {number}") for number in range(sets)]
    for _ in range(elements):
        size = max(int(rng.binomial(sets, share)), 2)
        problem.clause([(chosen[int(one)], 1) for one in rng.choice(sets, size, replace=False)])
    problem.minimize([(int(cost), one) for cost, one in zip(rng.integers(1, 101, sets), chosen, strict=True)])
    return problem.instance()


# -- families that people also write down by hand -------------------------------------------------------------------


def _one(problem: str, rng: np.random.Generator, **settings: object) -> Instance:
    return family(problem).make(1, rng, **settings)[0]


GENERATORS: dict[str, Generator] = {
    "roster loose": partial(roster, tight=False),
    "roster tight": partial(roster, tight=True),
    "exams": exams,
    "latin 20": partial(_one, "latin", order=20),
    "latin 30": partial(_one, "latin", order=30),
    "3-sat 200": partial(sat, variables=200, clauses=840),
    "3-sat 250": partial(sat, variables=250, clauses=1065),
    "assignment": assignment,
    "queens": queens,
    "cover": cover,
    "qubo": partial(_one, "qubo", variables=200, p_min=0.1, p_max=0.1),
    "packing": packing,
}
