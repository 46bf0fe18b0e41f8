"""CPMpy's own tests of solvers, run on blogdit. Run: python benchmarks/cpmpy_tests.py FOLDER [--every N] [-- PYTEST...]

FOLDER is `tests` of CPMpy's source distribution. The release leaves out the helpers of its tests, so this file stands
in for them: it gives the solver `blogdit` to every test that takes a solver, makes it the solver of those that name
none, and leaves out tests of another solver. Of the 14,559 comparisons and reifications every N-th is run. Prints what
passed, was skipped and failed, with reasons.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from cpmpy.solvers.utils import SolverLookup

from blogdit.integrations.cpmpy import CPM_blogdit

SOLVER = "blogdit"
FILES = ("solverinterface", "solveAll", "solvers_solhint", "solvers", "globalconstraints", "constraints", "tools_mus")
MARKERS = ("generate_constraints", "requires_solver", "requires_dependency", "depends_on_solver", "timeout", "flaky")
MANY = ("test_comparison_constraints", "test_reify_imply_constraints")


class Tests:
    """A plugin of pytest: what CPMpy's tests ask for, and a count of what became of them."""

    def __init__(self, every: int):
        self.every = every
        self.counts: dict[str, Counter[str]] = {}
        self.reasons: Counter[str] = Counter()
        self.left_out = 0

    @pytest.fixture
    def solver(self, request: Any) -> str:
        if request.cls is not None:
            request.cls.solver = SOLVER
        return SOLVER

    def pytest_configure(self, config: Any) -> None:
        for name in (
            "generate_constraints",
            "requires_solver",
            "requires_dependency",
            "depends_on_solver",
            "timeout",
            "flaky",
        ):
            config.addinivalue_line("markers", name)

    def pytest_generate_tests(self, metafunc: Any) -> None:
        marker = metafunc.definition.get_closest_marker("generate_constraints")
        if marker is not None:
            made = list(marker.args[0](SOLVER))
            step = self.every if metafunc.definition.name in MANY else 1
            metafunc.parametrize("constraint", made[::step], ids=str)

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        def is_ours(item: Any) -> bool:
            marker = item.get_closest_marker("requires_solver")
            return marker is None or SOLVER in marker.args

        kept = [item for item in items if is_ours(item)]
        self.left_out += len(items) - len(kept)
        items[:] = kept

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.when == "call" or report.outcome != "passed":
            file = Path(report.location[0]).stem.removeprefix("test_")
            self.counts.setdefault(file, Counter())[report.outcome] += 1
            if report.skipped:
                self.reasons[str(report.longrepr[2]).removeprefix("Skipped: ")] += 1

    def rows(self) -> Iterator[str]:
        yield "| file of tests | passed | skipped | failed |"
        yield "|---|---|---|---|"
        for file, counts in [*self.counts.items(), ("all", sum(self.counts.values(), Counter[str]()))]:
            yield f"| {file} | {counts['passed']} | {counts['skipped']} | {counts['failed']} |"
        yield f"\n{self.left_out} tests are of another solver."
        yield from (f"skipped {number}: {reason}" for reason, number in self.reasons.most_common())


def helpers() -> ModuleType:
    """CPMpy's `tests/utils.py`, as far as these tests need it."""
    module = ModuleType("utils")

    def lambda_assert(holds: Callable[[], bool]) -> Callable[[], None]:
        def check() -> None:
            assert holds()

        return check

    module.skip_on_missing_pblib = lambda **_: lambda test: test  # type: ignore[attr-defined]
    module.inclusive_range = lambda low, high: range(low, high + 1)  # type: ignore[attr-defined]
    module.lambda_assert = lambda_assert  # type: ignore[attr-defined]
    return module


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--every", type=int, default=40, help="run every N-th comparison and reification")
    parser.add_argument("pytest", nargs="*", help="options of pytest")
    arguments = parser.parse_args()
    sys.modules["utils"] = helpers()
    others = [one for one in SolverLookup.base_solvers() if one[0] != SOLVER]
    SolverLookup.base_solvers = classmethod(lambda cls: [(SOLVER, CPM_blogdit), *others])  # the first is the default
    tests = Tests(arguments.every)
    files = [str(arguments.folder / f"test_{file}.py") for file in FILES]
    code = pytest.main(["-q", "-p", "no:cacheprovider", *arguments.pytest, *files], plugins=[tests])
    print("\n".join(tests.rows()))
    return int(code)


if __name__ == "__main__":
    sys.exit(main())
