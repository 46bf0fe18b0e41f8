"""Random instances over all kinds against enumeration; `random_instances.py` says what is checked."""

from __future__ import annotations

import pytest

from random_instances import check


@pytest.mark.parametrize("first", range(0, 200, 50))
def test_no_claim_is_false(first, little_work):
    """Verification, energies, CP-SAT, and what `solve` says after three steps on a CPU, with and without finishers."""
    seen = check(range(first, first + 50))
    for kind in ("all_different", "not_equal", "conflict", "linear", "count", "sum", "function", "table"):
        assert seen[f"kind {kind}"], "every kind is drawn"
    for what in (
        "derived",
        "soft",
        "auto: solved",
        "auto: optimal",
        "auto: infeasible",
        "none: solved",
        "none: unknown",
    ):
        assert seen[what], "and every status is given"
