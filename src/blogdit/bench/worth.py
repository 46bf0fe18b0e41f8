"""What learning is worth, from records: the whole program beside its parts, budget by budget, and their difference."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from blogdit.bench.markdown import NOTHING, markdown, number, signed, with_interval
from blogdit.bench.measures import Group, Mean, Records, groups
from blogdit.bench.suites import FINISHER, WHOLE, Case, Suite
from blogdit.bench.variants import UNTRAINED

UNITS = {"solved": "solved, % ↑", "distance": "distance, % ↓"}


def table(suite: Suite, labels: Sequence[str], records: Records) -> str:
    """A row for each problem and budget, and before it how often the whole program is ahead of its finisher."""
    rows, verdicts = [], Counter[str]()
    for name, (cases, group) in groups(suite, records).items():
        for case in cases:
            difference = group.difference(case, WHOLE, FINISHER)
            verdict = _verdict(difference, case)
            verdicts[verdict] += difference is not None
            values = sorted({m.value for label in labels if (m := group.measured(case, label)) is not None})
            best = values[-1 if case.metric == "solved" else 0] if len(values) > 1 else None
            count = max(group.counted(case, label) for label in labels)
            cells = [_cell(group, case, label, best) for label in labels]
            first = [f"{name}, {UNITS[case.metric]}", _seconds(group, case), str(count)]
            rows.append([*first, *cells, with_interval(difference, signed), verdict])
    last = [f"{WHOLE} less {FINISHER}", "verdict"]
    summary = ", ".join(f"{verdicts[verdict]} {verdict}" for verdict in ("ahead", "level", "behind"))
    text = f"{WHOLE.capitalize()} against the {FINISHER}, in {sum(verdicts.values())} rows: {summary}.\n\n"
    return text + markdown(["problem", "seconds", "instances", *labels, *last], rows)


def _verdict(difference: Mean | None, case: Case) -> str:
    """By the interval: level, if it holds 0."""
    if difference is None:
        return NOTHING
    if difference.low <= 0 <= difference.high:
        return "level"
    return "ahead" if (difference.value > 0) == (case.metric == "solved") else "behind"


def _cell(group: Group, case: Case, label: str, best: float | None) -> str:
    """A mean, bold if it is the best. It is said where a network took no step on any instance."""
    found = group.measured(case, label)
    if found is None:
        return NOTHING
    text = f"**{number(found.value)}**" if found.value == best else number(found.value)
    of = group.cell(case, label)
    idle = label != FINISHER and all(record["weights"] and not record["steps"] for record in of)
    return f"{text} (no step)" if idle else text


def _seconds(group: Group, case: Case) -> str:
    """What a call had, and for how many instances."""
    of = [record for record in group if record["case"] == case.name]
    together = sorted({(record["budget_seconds"], record["batch"]) for record in of})
    shown = [f"{seconds:.3g} for {batch}" if batch > 1 else f"{seconds:.3g} each" for seconds, batch in together]
    return " or ".join(shown)


def footnotes(labels: Sequence[str], records: Records) -> list[str]:
    """How long calls took, and the weights."""
    longest = {
        label: max(r["call_seconds"] / r["budget_seconds"] for r in records if r["system"] == label) for label in labels
    }
    weights = dict.fromkeys(r["weights"].removesuffix(UNTRAINED) for r in records if r["weights"])
    return [
        "Solved: per cent of instances with a valid answer. Distance: from the best answer of all rows and budgets, in "
        "per cent of the larger objective; an invalid answer counts 100. (no step): a step takes longer than there is "
        "time for.",
        f"Longest call, as a share of its seconds: {', '.join(f'{label} {x:.2f}' for label, x in longest.items())}.",
        f"Weights: {', '.join(weights)}.",
    ]
