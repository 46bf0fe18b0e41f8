"""What is compared with what: a suite is one entry of SUITES.

A suite has cases (columns: a set of instances, a budget, a metric) and entrants (rows: a system with options). `quick`
are small cases on generated instances that a CPU does in seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from blogdit.bench.datasets import Split

Metric = Literal["solved", "objective", "gap", "distance"]


@dataclass(frozen=True)
class Case:
    """A column. Systems that count steps get `steps`, if there are any; all others `seconds` for an instance."""

    name: str
    split: str | Split  # a data set by name, or instances of the user's
    metric: Metric
    seconds: float
    steps: int | None = None
    count: int | None = None  # at most so many instances
    stretch: bool = False  # all graphs of one size may share one stretch of `seconds`, on a GPU
    chains: int | None = None
    sense: Literal["maximize", "minimize"] = "maximize"
    # The case is for this kind of device alone. On a GPU every system then gets all instances in one call.
    device: Literal["cpu", "cuda"] | None = None
    group: str = ""  # cases of one group differ in their budgets alone


@dataclass(frozen=True)
class Entrant:
    """A row."""

    label: str
    system: str
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Suite:
    name: str
    title: str
    cases: tuple[Case, ...]
    quick: tuple[Case, ...]
    entrants: tuple[Entrant, ...]
    runs: int = 1  # independent runs on each instance
    table: Literal["systems", "cost", "instances", "trajectory", "worth"] = "systems"
    figure: Literal["points", "lines", "cost", "instances", "trajectory", "worth"] = "points"
    notes: str = ""
    published_notes: str = ""  # on published numbers
    published: bool = True  # show published numbers beside ours
    refuses: tuple[Literal["seconds", "steps"], ...] = ()  # options that would change what it is about
    checksum: str = ""  # of instances that are the user's


def _entrants(*names: str) -> tuple[Entrant, ...]:
    return tuple(Entrant(name, name) for name in names)


OWN = ("blogdit", "blogdit-brief", "dit", "consformer")
EASY_SUDOKU = Case("Sudoku easy", "satnet-test", "solved", seconds=10, steps=2000)
HARD_SUDOKU = Case("Sudoku hard", "rrn-valid", "solved", seconds=10, steps=2000, count=2000)
COLORING = (
    Case("k=5 n=50", "coloring-5-50", "solved", seconds=10),
    Case("k=5 n=100", "coloring-5-100", "solved", seconds=10),
    Case("k=10 n=100", "coloring-10-100", "solved", seconds=10),
    Case("k=10 n=200", "coloring-10-200", "solved", seconds=10),
)
# Of the ablations: equal steps and chains before the search, on as many graphs as half an hour of a GPU allows.
COUNTED_COLORING = tuple(
    replace(case, steps=2000, chains=16, count=count)
    for case, count in zip(COLORING, (512, 256, 256, 100), strict=True)
)
MIS = (
    Case("RB-small", "rb-small", "objective", seconds=10, steps=1000),
    Case("RB-large", "rb-large", "objective", seconds=20, steps=1000),
)
MAXCUT = {
    name: Case(name, f"gset-{split}", "gap", seconds=180, stretch=True, chains=20)
    for name, split in (("800", "800"), ("1K", "1k"), ("2K", "2k"), (">=3K", "3k"), ("+1/-1", "signs"))
}
CUTS = tuple(replace(MAXCUT[name], name=f"MaxCut {name}") for name in ("800", "1K", "2K", ">=3K"))

QUICK_SUDOKU = Case("31-42 givens", "sudoku-31-42", "solved", seconds=0.5, steps=50, count=6)
QUICK_COLORING = Case("k=5 n=50", "coloring-5-50", "solved", seconds=0.5, count=8)
QUICK_MIS = Case("RB-small", "rb-small", "objective", seconds=0.5, steps=30, count=4)
QUICK_MAXCUT = Case("n=50", "maxcut-50", "objective", seconds=0.5, count=4, chains=4)
QUICK_WORTH = (
    Case("n=50 0.2 s", "maxcut-50", "distance", seconds=0.2, count=4, stretch=True, group="n=50"),
    Case("n=50 0.5 s", "maxcut-50", "distance", seconds=0.5, count=4, stretch=True, group="n=50"),
    Case("3-sat 200 0.5 s", "3-sat-200", "solved", seconds=0.5, count=2, stretch=True, group="3-sat 200"),
)
QUICK = (QUICK_SUDOKU, QUICK_COLORING, QUICK_MIS, QUICK_MAXCUT)

RATES = (
    *((0.3, 0.1), (0.5, 0.1), (0.5, 0.3), (0.7, 0.1), (0.7, 0.3)),
    *((0.7, 0.5), (0.9, 0.1), (0.9, 0.3), (0.9, 0.5), (0.9, 0.7)),
)
STEPS = (25, 50, 100, 200, 500, 1000, 2000)


DECISIONS = ("latin 20", "latin 30", "3-sat 200", "3-sat 250", "queens")  # of the problems of `own`; the others have
OPTIMISATIONS = ("roster loose", "roster tight", "exams", "assignment", "cover", "qubo", "packing")  # an objective


def _own(name: str) -> Case:
    """A problem of `own`. On a GPU all its instances share the seconds."""
    metric: Metric = "solved" if name in DECISIONS else "distance"
    return Case(name, name.replace(" ", "-"), metric, seconds=10, stretch=True, sense="minimize")


# What learning is worth: the same instances and seconds for the whole program and for its parts.
WHOLE, FINISHER = "sampler + finisher", "finisher alone"
WORTH_ENTRANTS = (
    Entrant(WHOLE, "blogdit"),
    Entrant(FINISHER, "blogdit", {"finish_share": 1.0}),
    Entrant("sampler alone", "blogdit", {"finish": "none"}),
    Entrant("untrained sampler", "blogdit", {"finish": "none", "untrained": True}),
    *_entrants("gibbs", "cp-sat"),
)
WORTH_CASES = (
    Case("sudoku hard", "sudoku-minimal", "solved", seconds=0),
    Case("sudoku 16x16", "sudoku-16x16", "solved", seconds=0),
    Case("coloring", "coloring-10-100", "solved", seconds=0),
    Case("maxcut", "maxcut-800", "distance", seconds=0),
    Case("mis", "rb-large", "distance", seconds=0),
    *(_own(name) for name in (*DECISIONS, *OPTIMISATIONS)),
)
BATCH, BATCH_SECONDS, EACH_SECONDS = 50, (0.1, 1, 10, 30), (1, 10)


def _budgets(case: Case) -> list[Case]:
    """A case with several budgets: seconds for a batch on a GPU, which fewer instances have their part of; and seconds
    for each instance on a CPU, where they come one by one."""
    shared = replace(case, group=case.name, count=BATCH)
    return [
        *(
            replace(shared, name=f"{case.name} {seconds:g} s", seconds=seconds / BATCH, stretch=False, device="cuda")
            for seconds in BATCH_SECONDS
        ),
        *(
            replace(shared, name=f"{case.name} {seconds:g} s each", seconds=seconds, stretch=True, device="cpu")
            for seconds in EACH_SECONDS
        ),
    ]


def _steps(split: str, metric: Metric, numbers: tuple[int, ...], count: int) -> tuple[Case, ...]:
    return tuple(Case(str(n), split, metric, seconds=10, steps=n, count=count) for n in numbers)


SUITES = {
    suite.name: suite
    for suite in (
        Suite(
            "worth",
            "What learning is worth",
            tuple(case for one in WORTH_CASES for case in _budgets(one)),
            QUICK_WORTH,
            WORTH_ENTRANTS,
            table="worth",
            figure="worth",
            refuses=("seconds", "steps"),
            notes="Finisher alone: the same finishers in the same turns, which have the time of the network's steps. "
            "Untrained sampler: the same network and chain, with weights as training begins with. Sampler alone, "
            "untrained sampler and gibbs have no finisher.",
        ),
        Suite(
            "sudoku",
            "Sudoku: puzzles solved, per cent",
            (
                Case("easy", "satnet-test", "solved", seconds=10, steps=2000),
                Case("hard", "rrn-valid", "solved", seconds=10, steps=2000),
            ),
            (QUICK_SUDOKU, Case("24-27 givens", "sudoku-24-27", "solved", seconds=0.5, steps=50, count=6)),
            _entrants("blogdit", "blogdit-last-step", *OWN[1:], "gibbs", "rlsa", "cp-sat", "feasibility-jump"),
            notes="CP-SAT's presolve alone solves most puzzles, also for feasibility-jump.",
            published_notes="The published hard column is on the RRN test split, ours on its validation split.",
        ),
        Suite(
            "coloring",
            "Graph colouring: instances solved, per cent",
            COLORING,
            (QUICK_COLORING, Case("k=10 n=100", "coloring-10-100", "solved", seconds=0.5, count=4)),
            _entrants(*OWN, "gibbs", "rlsa", "cp-sat", "feasibility-jump", "greedy", "greedy-dsatur"),
            notes="Many instances have no solution.",
            published_notes="The published numbers are on other instances, which are not public: compare systems "
            "within the live columns, never a live column with a published one.",
        ),
        Suite(
            "maxcut",
            "MaxCut: mean gap to the best known cut, or mean cut where none is known",
            tuple(MAXCUT.values()),
            (QUICK_MAXCUT, Case("n=200", "maxcut-200", "objective", seconds=0.5, count=3, chains=4)),
            _entrants(*OWN, "gibbs", "rlsa", "annealing", "tabu", "cp-sat", "feasibility-jump", "greedy"),
        ),
        Suite(
            "mis",
            "Maximum independent set: mean size",
            MIS,
            (QUICK_MIS,),
            _entrants(*OWN, "gibbs", "rlsa", "annealing", "tabu", "cp-sat", "feasibility-jump", "greedy"),
            published_notes="Published numbers are on other graphs of the same random model.",
        ),
        Suite(
            "ablations",
            "Ablations: what blogdit's parts add",
            (EASY_SUDOKU, HARD_SUDOKU, *COUNTED_COLORING, *MIS, *CUTS),
            QUICK,
            _entrants(
                "blogdit",
                *(f"blogdit-{selector}-blocks" for selector in ("random", "margin", "critical", "related")),
                *("blogdit-brief", "blogdit-no-entropy", "dit", "gibbs"),
            ),
            notes="The cards choose blocks at random for Sudoku and MaxCut, critical ones for colouring and MIS: there "
            "one of the four rows repeats the first. No-entropy and dit were trained as briefly as blogdit-brief. "
            "Every step of dit sees only the givens, so its chain has no memory.",
        ),
        Suite(
            "block-rates",
            "Block rates rho_max to rho_min: mean size of independent sets",
            MIS,
            (QUICK_MIS,),
            tuple(Entrant(f"{a} to {b}", "blogdit", {"rho_max": a, "rho_min": b}) for a, b in RATES),
            notes="One model; the rates differ in solving only.",
        ),
        Suite(
            "steps",
            "Sudoku: puzzles solved, per cent, by number of steps",
            _steps("rrn-valid", "solved", STEPS, 2000),
            _steps("sudoku-31-42", "solved", (5, 10, 20, 40), 6),
            (*(Entrant(name, name, {"finish": "none"}) for name in OWN), Entrant("gibbs", "gibbs")),
            figure="lines",
            notes="Of the chains alone: no search follows the last step.",
            refuses=("seconds", "steps"),
        ),
        Suite(
            "cost",
            "Cost: seconds per instance, and steps of all instances together per second",
            (
                EASY_SUDOKU,
                replace(HARD_SUDOKU, count=1024),
                *(replace(case, steps=2000, count=64) for case in COLORING),
                replace(MIS[0], count=64),
                replace(MIS[1], count=32),
                *(replace(case, seconds=10) for case in CUTS),
            ),
            QUICK,
            _entrants(*OWN, "gibbs", "rlsa", "cp-sat"),
            table="cost",
            figure="cost",
            notes="Steps per second of blogdit and its variants are over all of the time, also that of the search at "
            "the end: where time ends the steps, as on MaxCut, that is half of it.",
        ),
        Suite(
            "per-instance",
            "MaxCut, graph by graph: mean and standard deviation over single chains",
            tuple(MAXCUT.values()),
            (QUICK_MAXCUT,),
            _entrants("blogdit", "blogdit-random-blocks", "blogdit-critical-blocks", "blogdit-no-entropy", "rlsa"),
            runs=20,
            table="instances",
            figure="instances",
            notes="The best cut of each single chain: of blogdit without a finisher, of RLSA with its descent. The "
            "model's card chooses blocks at random: the first two columns differ by the clock only.",
        ),
        Suite(
            "trajectory",
            "Paths through the space of assignments of one Sudoku",
            (Case("rrn-valid", "rrn-valid", "solved", seconds=60, steps=2000),),
            (Case("31-42 givens", "sudoku-31-42", "solved", seconds=5, steps=200),),
            _entrants("blogdit", "rlsa"),
            table="trajectory",
            figure="trajectory",
            refuses=("seconds",),
        ),
        Suite(
            "own",
            "Problems as users write them down: instances solved, or distance from the best answer, per cent",
            tuple(_own(name) for name in (*DECISIONS, *OPTIMISATIONS)),
            tuple(replace(_own(name), seconds=0.5, count=2) for name in ("3-sat 200", "roster loose", "qubo")),
            _entrants("blogdit", "gibbs", "annealing", "tabu", "cp-sat", "feasibility-jump"),
            notes="Latin squares have a solution by construction. Random clauses near the threshold may have none: "
            "compare with the rows of CP-SAT.",
        ),
    )
}
