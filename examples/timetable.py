"""An exam timetable: who shares students must not meet, rooms are small, and examiners have wishes.

python examples/timetable.py
"""

import numpy as np

import blogdit

EXAMS, SLOTS, SEATS = 20, 6, 180
random = np.random.default_rng(1)
students = random.integers(10, 60, EXAMS)
wishes = random.integers(0, 10, (EXAMS, SLOTS))  # what an exam in a slot is worth
share_students = [(a, b) for a in range(EXAMS) for b in range(a) if random.random() < 0.2]


def held(exam: int, slot: int) -> int:
    """The variable that is 1 where an exam is held in a slot."""
    return EXAMS + exam * SLOTS + slot


# The first variables are the slots of the exams. A sum counts values, so there is also a 0 or 1 for every exam and
# slot; a table ties the two together.
rows = [[slot, *(int(slot == other) for other in range(SLOTS))] for slot in range(SLOTS)]
everyone, all_slots = range(EXAMS), range(SLOTS)
instance = blogdit.Instance(
    [SLOTS] * EXAMS + [2] * (EXAMS * SLOTS),
    (
        blogdit.NotEqual(share_students),
        blogdit.Table([[exam, *(held(exam, slot) for slot in all_slots)] for exam in everyone], rows),
        blogdit.Linear(
            [[held(exam, slot) for exam in everyone] for slot in all_slots],
            [students] * SLOTS,
            ["<="] * SLOTS,
            [SEATS] * SLOTS,
        ),
    ),
    blogdit.Objective(
        "maximize",
        unary=[[exam, slot] for exam in everyone for slot in all_slots],
        unary_weights=[float(wishes[exam, slot]) for exam in everyone for slot in all_slots],
    ),
    givens={0: 2, 1: 4},  # these two are fixed
)

(result,) = blogdit.solve(instance, model="coloring", time_limit=10)
print(f"{result.status}, wishes worth {result.objective:g}, in {result.seconds:.1f} s")
for slot in all_slots:
    exams = np.flatnonzero(result.values[:EXAMS] == slot)
    print(f"slot {slot}: {students[exams].sum():3} of {SEATS} seats, exams {', '.join(map(str, exams))}")
