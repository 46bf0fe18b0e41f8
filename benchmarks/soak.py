"""Soak and chaos: `blogdit solve` on random instances of all families and kinds, under everything that may go wrong.

    python benchmarks/soak.py [--minutes 30] [--seed 0]        (make soak)

In rounds, a file of instances is solved into one file of records, while processes are killed, stopped, started twice,
fed with broken weights, put on a full disk, robbed of their input, and shown a clock of the day that jumps. Afterwards
every instance must have one record, every record must be a whole line, and every answer must pass a check that shares
nothing with the package (`checker.py`): it reads the JSON of the instance in plain Python. Beside the rounds one
process solves an endless stream, of which memory and open files are watched. Exit code 0 if all of it holds.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

from checker import check

SMALL = {
    "sudoku": {"box": "2-3"}, "latin": {"order": "4-8"}, "coloring": {"vertices": "10-40"},
    "maxcut": {"vertices": "10-60"}, "mis": {}, "qubo": {"variables": "5-40"},
    "general": {"literals": "30-120", "variables": "5-40"},  # constraints of all kinds, soft ones too
}  # fmt: skip
JUMPING = "import random, time\n_real = time.time\ntime.time = lambda: _real() + random.uniform(-1e7, 1e7)\n"


# -- the chaos ---------------------------------------------------------------------------------------------------------


def blogdit(*arguments: Any, **options: Any) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "blogdit", *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, **options)


def ended(process: subprocess.Popen[str], codes: tuple[int, ...], what: str, found: list[str]) -> None:
    try:
        _, told = process.communicate(timeout=300)
    except subprocess.TimeoutExpired:
        process.kill()
        found.append(f"{what}: did not end")
        return
    if process.returncode not in codes or "Traceback" in told:
        found.append(f"{what}: exit code {process.returncode}: {told[-300:]}")


def make_instances(path: Path, rng: random.Random, count: int) -> dict[str, dict[str, Any]]:
    from blogdit import formats, generate

    made = {}
    for number in range(count):
        family = rng.choice(sorted(SMALL))
        (one,) = generate(family, 1, rng.randrange(1 << 30), **SMALL[family])
        made[f"{family}-{number}"] = formats.to_json(one) | {"name": f"{family}-{number}"}
    path.write_text("".join(json.dumps(one) + "\n" for one in made.values()))
    return made


def round_of_chaos(folder: Path, rng: random.Random, events: Counter[str]) -> list[str]:
    found: list[str] = []
    source, out = folder / "instances.jsonl", folder / "records.jsonl"
    instances = make_instances(source, rng, 40)
    (folder / "sitecustomize.py").write_text(JUMPING)
    command = ["solve", source, "--out", out, "--resume", "--time-limit", "0.3", "--chains", "1"]
    for _ in range(rng.randint(2, 5)):
        event = rng.choice(["kill", "term", "two writers", "input gone", "jumping clock", "weights", "full disk"])
        events[event] += 1
        if event in ("kill", "term"):
            process = blogdit(*command)
            time.sleep(rng.uniform(0.5, 12))
            process.send_signal(signal.SIGKILL if event == "kill" else signal.SIGTERM)
            ended(
                process, (-9, 0, 2, 3) if event == "kill" else (143, -15, 0, 3), event, found
            )  # -15: Python had not begun
        elif event == "two writers":
            first, second = blogdit(*command), blogdit(*command)
            ended(second, (0, 2, 3), event, found)
            ended(first, (0, 2, 3), event, found)
        elif event == "input gone":
            process = blogdit(*command)
            time.sleep(rng.uniform(0, 6))
            hidden = source.rename(folder / "elsewhere")
            ended(process, (0, 2, 3), event, found)
            hidden.rename(source)
        elif event == "jumping clock":
            path = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])
            ended(blogdit(*command, env={**os.environ, "PYTHONPATH": path}), (0, 3), event, found)
        elif event == "weights":
            broken = folder / "broken.safetensors"
            broken.write_bytes(rng.randbytes(rng.randrange(1, 4000)))
            ended(blogdit("solve", source, "--model", broken), (2,), event, found)
        else:
            ended(blogdit("solve", source, "--time-limit", "0.3", "--out", "/dev/full"), (2,), event, found)
    ended(blogdit(*command), (0, 3), "the last run", found)
    return found + check(instances, out)


class Stream:
    """One process that solves an endless stream; its memory and its open files, looked at every few seconds."""

    def __init__(self, folder: Path, rng: random.Random):
        self.source = folder / "stream.jsonl"
        make_instances(self.source, rng, 60)
        out = folder / "stream-records.jsonl"
        self.process = blogdit("solve", "-", "--out", out, "--steps", "5", stdin=subprocess.PIPE)
        self.looks: list[tuple[int, int]] = []  # KiB, files
        threading.Thread(target=self._feed, daemon=True).start()
        threading.Thread(target=self._look, daemon=True).start()

    def _feed(self) -> None:
        lines, number = self.source.read_text().splitlines(), 0
        try:
            while self.process.stdin is not None:
                for line in lines:
                    number += 1
                    self.process.stdin.write(json.dumps(json.loads(line) | {"name": f"i{number}"}) + "\n")
        except (BrokenPipeError, ValueError):
            return

    def _look(self) -> None:
        proc = Path(f"/proc/{self.process.pid}")
        while self.process.poll() is None:
            time.sleep(5)
            try:
                fields = dict(line.split(":", 1) for line in (proc / "status").read_text().splitlines() if ":" in line)
                self.looks.append((int(fields["VmRSS"].split()[0]), len(list((proc / "fd").iterdir()))))
            except (OSError, KeyError):
                return

    def end(self) -> list[str]:
        self.process.send_signal(signal.SIGTERM)
        found: list[str] = []
        ended(self.process, (143,), "the stream", found)
        later = self.looks[len(self.looks) // 2 :]  # the first half warms up
        if len(later) < 3:
            return [*found, "the stream was too short to say anything about memory"]
        (first, files), (last, more_files) = later[0], later[-1]
        print(f"stream: {first / 1024:.0f} -> {last / 1024:.0f} MiB, {files} -> {more_files} open files")
        found += [f"memory grew from {first} to {last} KiB"] if last > 1.2 * first else []
        return found + ([f"open files grew from {files} to {more_files}"] if more_files > files + 2 else [])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    rng, end, rounds = random.Random(asked.seed), time.monotonic() + 60 * asked.minutes, 0
    found, events = list[str](), Counter[str]()
    with tempfile.TemporaryDirectory() as made:
        stream = Stream(Path(made), rng)
        while not found and time.monotonic() < end:
            with tempfile.TemporaryDirectory() as folder:
                found += round_of_chaos(Path(folder), rng, events)
            rounds += 1
        found += stream.end()
    print(
        f"{rounds} rounds of 40 instances; " + ", ".join(f"{count} x {name}" for name, count in sorted(events.items()))
    )
    print("\n".join(found) or "all of it holds")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
