"""A problem of one's own, to train a model for: guests at tables, where those who quarrel must not meet.

blogdit train examples/seating.py --from coloring --minutes 3 --out runs/seating
blogdit generate examples/seating.py --count 3 --out parties.jsonl
blogdit solve parties.jsonl --model runs/seating
"""

import numpy as np

import blogdit


def generate(rng: np.random.Generator, guests: int = 50, tables: int = 5) -> blogdit.Problem:
    """A random party that can be seated: quarrels join guests of different tables in a hidden plan."""
    party = blogdit.Problem("seating")
    seats = [party.variable(f"guest {number}", range(1, tables + 1)) for number in range(guests)]
    hidden = rng.permutation(np.arange(guests) % tables)
    for one in range(guests):
        for other in range(one):
            if hidden[one] != hidden[other] and rng.random() < 0.3:
                party.different([seats[one], seats[other]])
    return party


def render(instance: blogdit.Instance, values: np.ndarray) -> str:
    """A line for each table."""
    names = [label.removeprefix("guest ") for label in instance.labels]
    lines = []
    for place, table in enumerate(instance.values[0]):
        lines.append(f"table {table}: guests {' '.join(names[i] for i in np.flatnonzero(values == place))}")
    return "\n".join(lines)
