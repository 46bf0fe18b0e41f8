"""A nurse roster: who works which shift on which day.

python examples/roster.py
"""

from itertools import pairwise

import blogdit

NURSES = ("Ann", "Ben", "Cleo", "Dan", "Eve", "Fay")
DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
SHIFTS = ("early", "late", "night", "off")
NEEDED = {"early": 2, "late": 1, "night": 1}

roster = blogdit.Problem("roster", "week")
works = {(nurse, day): roster.variable((nurse, day), SHIFTS) for nurse in NURSES for day in DAYS}
for day in DAYS:
    for shift, number in NEEDED.items():
        roster.sum([(1, works[nurse, day], shift) for nurse in NURSES], low=number, high=number)
for nurse in NURSES:
    roster.sum([(1, works[nurse, day], "off") for day in DAYS], low=2, high=3)
    for today, tomorrow in pairwise(DAYS):
        roster.clause([(works[nurse, today], "night", False), (works[nurse, tomorrow], "early", False)])
        roster.clause([(works[nurse, today], "night", False), (works[nurse, tomorrow], "late", False)], weight=1)
nights = [roster.total(f"nights of {nurse}", [(1, works[nurse, day], "night") for day in DAYS]) for nurse in NURSES]
most = roster.maximum("most nights", nights)
roster.clause([(works["Ann", "Sat"], "off")], weight=3)  # a wish
roster.minimize([(2, most), (5, works["Eve", "Wed"], "night")])

(result,) = blogdit.solve(roster.instance(), time_limit=10)
print(f"{result.status}, objective {result.objective:g}, found by {result.found_by}")
print(blogdit.render(result.instance, result.values))
