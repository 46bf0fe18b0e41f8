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

everyone, all_slots = range(EXAMS), range(SLOTS)
instance = blogdit.Instance(
    [SLOTS] * EXAMS,  # variable i is the slot of exam i
    (
        blogdit.NotEqual(share_students),
        blogdit.Sum(  # the students of the exams that are held in a slot
            [everyone] * SLOTS,
            weights=[students] * SLOTS,
            equals=[[slot] * EXAMS for slot in all_slots],
            high=[SEATS] * SLOTS,
        ),
    ),
    blogdit.Objective(
        "maximize",
        unary=[[exam, slot] for exam in everyone for slot in all_slots],
        unary_weights=[float(wishes[exam, slot]) for exam in everyone for slot in all_slots],
    ),
    givens={0: 2, 1: 4},  # these two are fixed
)

(result,) = blogdit.solve(instance, time_limit=10)
print(f"{result.status}, wishes worth {result.objective:g}, in {result.seconds:.1f} s")
for slot in all_slots:
    exams = np.flatnonzero(result.values == slot)
    print(f"slot {slot}: {students[exams].sum():3} of {SEATS} seats, exams {', '.join(map(str, exams))}")
