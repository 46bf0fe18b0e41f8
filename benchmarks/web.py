"""The server of `blogdit serve` under load: `python benchmarks/web.py`. It needs the extras `web` and `dev`.

1. 50 clients watch 8 jobs: each must see every step of its job.
2. 500 jobs one after the other: the memory of the server must not grow with their number.
3. 200 malformed requests: each must be answered with a 4xx.

The server is a process of its own on a free port of this machine. Exit code 1: something did not hold.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx

from blogdit.formats import to_json
from blogdit.problems import generate, sudoku

STEPS = 40
GROWTH = 1.1  # of the memory from the middle to the end of the jobs, at most


def memory(process: int) -> int:
    """Resident megabytes of a process."""
    status = Path(f"/proc/{process}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmRSS:")).split()[1]) // 1024


def cut(seed: int, steps: int = STEPS) -> dict:
    edges = generate("maxcut", 1, seed=seed, vertices=40)[0].objective.differ
    text = f"p edge 40 {len(edges)}\n" + "".join(f"e {a + 1} {b + 1}\n" for a, b in edges.tolist())
    return {"text": text, "problem": "maxcut", "options": {"steps": steps, "finish": "none", "seed": seed}}


def watch(address: str, path: str) -> list[tuple[int, str]]:
    """Number and kind of every event of a job that a client has seen."""
    found = []
    with httpx.stream("GET", address + path, timeout=300) as response:
        for line in response.iter_lines():
            if line.startswith("id: "):
                number = int(line.removeprefix("id: "))
            elif line.startswith("event: "):
                found.append((number, line.removeprefix("event: ")))
    return found


def is_whole(seen: list[tuple[int, str]]) -> bool:
    """No number is missing, and the last event is the result."""
    return [number for number, _ in seen] == list(range(len(seen))) and seen[-1][1] == "result"


def watchers(address: str, clients: int, jobs: int) -> bool:
    paths = [httpx.post(f"{address}/solve", json=cut(seed), timeout=60).json()["events"] for seed in range(jobs)]
    began = time.monotonic()
    with ThreadPoolExecutor(clients) as pool:
        seen = list(pool.map(lambda number: watch(address, paths[number % jobs]), range(clients)))
    complete = sum(is_whole(found) and found == seen[number % jobs] for number, found in enumerate(seen))
    events, seconds = sum(map(len, seen)), time.monotonic() - began
    print(f"{complete} of {clients} clients saw every event of their job; {events} events in {seconds:.1f} s")
    return complete == clients


def many_jobs(address: str, process: int, jobs: int) -> bool:
    puzzles = [sudoku.text(one) for one in generate("sudoku", 8, seed=1, box=2, min_givens=6, max_givens=8)]
    sizes = []
    for number in range(jobs):
        options = {"steps": 5, "finish": "none", "seed": number}
        path = httpx.post(f"{address}/solve", json={"text": puzzles[number % 8], "options": options}).json()["events"]
        assert is_whole(watch(address, path))
        if number + 1 in (jobs // 10, jobs // 2, jobs):
            sizes.append(memory(process))
    print(f"resident after {jobs // 10}, {jobs // 2} and {jobs} jobs: {', '.join(f'{size} MB' for size in sizes)}")
    return sizes[-1] <= GROWTH * sizes[1]


def malformed(number: int, valid: bytes) -> bytes:
    """A request with a mistake: cut off, with bytes changed, or with a value of a wrong kind."""
    rng = random.Random(number)
    if number % 3 == 0:
        return valid[: rng.randrange(len(valid) - 1)]
    if number % 3 == 1:
        changed = bytearray(valid)
        for _ in range(5):
            changed[rng.randrange(len(changed))] = rng.randrange(256)
        return bytes(changed)
    data = json.loads(valid)
    wrong = [None, -1, 1e300, [], {}, "", "x" * 500, [[]], {"a": [None]}, True, 10**30]
    target = data["instance"] if number % 2 else data
    key = rng.choice(sorted(target))
    target[key] = rng.choice(wrong)
    return json.dumps(data).encode()


def fuzz(address: str, requests: int) -> bool:
    valid = json.dumps({"instance": to_json(generate("coloring", 1, seed=0, vertices=12)[0])}).encode()
    statuses: dict[int, int] = {}
    for number in range(requests):
        sent = malformed(number, valid)
        answer = httpx.post(f"{address}/solve", content=sent, headers={"Content-Type": "application/json"}, timeout=60)
        if answer.status_code == 202:  # the change made no mistake
            httpx.delete(address + answer.json()["events"])
        statuses[answer.status_code] = statuses.get(answer.status_code, 0) + 1
    print(f"answers to {requests} damaged requests: {dict(sorted(statuses.items()))}")
    return all(status < 500 for status in statuses)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--jobs", type=int, default=500)
    parser.add_argument("--requests", type=int, default=200)
    chosen = parser.parse_args()
    command = [sys.executable, "-m", "blogdit", "serve", "--port", "0", "--no-browser"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        address = server.stdout.readline().strip().rstrip("/")
        while True:
            try:
                httpx.get(f"{address}/health")
                break
            except httpx.ConnectError:
                time.sleep(0.1)
        held = [
            watchers(address, chosen.clients, 8),
            fuzz(address, chosen.requests),
            many_jobs(address, server.pid, chosen.jobs),
        ]
    finally:
        server.terminate()
        server.wait(30)
    return 0 if all(held) else 1


if __name__ == "__main__":
    sys.exit(main())
