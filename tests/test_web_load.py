"""The server of `blogdit serve` under load. benchmarks/web.py does the same to a server in a process of its own."""

from __future__ import annotations

import gc
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import httpx
import torch

from blogdit.solver.solver import Solver
from blogdit.web.jobs import Job
from blogdit.web.limits import Limits
from web_cases import CUT, client, events_of, real_server

CLIENTS, JOBS, STEPS = 50, 8, 10
TINY = {"instance": {"format": "blogdit-csp", "version": 1, "domain_sizes": [2, 2]}, "model": "coloring"}


def test_fifty_clients_of_eight_jobs_lose_no_event():
    """Each of the clients of a job sees the same events in full, those who come late, too."""
    with real_server(Limits(jobs=2, queue=JOBS, patience=60, seconds=120)) as (address, service):
        asked = [{**CUT, "options": {"steps": STEPS, "finish": "none", "seed": seed}} for seed in range(JOBS)]
        paths = [httpx.post(f"{address}/solve", json=one, timeout=60).json()["events"] for one in asked]

        def watch(number: int) -> list:
            with httpx.Client(base_url=address, timeout=120) as one:
                return events_of(one, paths[number % JOBS])

        with ThreadPoolExecutor(CLIENTS) as pool:
            seen = list(pool.map(watch, range(CLIENTS)))
        assert service.board.unfinished == 0
    for number, found in enumerate(seen):
        assert [kind for kind, _ in found] == ["question", *["step"] * STEPS, "result"]
        assert [data["step"] for kind, data in found if kind == "step"] == list(range(1, STEPS + 1))
        assert found == seen[number % JOBS]


def alive() -> Counter:
    """How many jobs, solvers and tensors there are."""
    gc.collect()
    kinds = (Job, Solver, torch.Tensor)
    return Counter(kind.__name__ for one in gc.get_objects() for kind in kinds if type(one) is kind)


def test_many_jobs_leave_nothing_behind():
    """What is kept of jobs does not grow with their number. benchmarks/web.py measures the memory of a
    server over 500 jobs."""
    with client(Limits(kept=8)) as api:
        found, board = [], api.service.board
        for number in range(120):
            asked = {**TINY, "options": {"steps": 1, "finish": "none", "seed": number}}
            assert events_of(api, api.post("/solve", json=asked).json()["events"])[-1][0] == "result"
            if number + 1 in (40, 120):
                found.append((alive(), len(board.jobs), sum(job.size for job in board.jobs.values()) // 1000))
        assert board.started == 120
    assert found[0] == found[1]
    assert found[1][0]["Job"] <= 8 + 1
    assert found[1][0]["Solver"] == 0
