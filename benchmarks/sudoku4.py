"""4x4 Sudoku from nothing in three minutes on a CPU. Run: python benchmarks/sudoku4.py [--minutes M] [--seed S]

Trains with `blogdit train sudoku --set box=2 --minutes 3`, then solves fresh puzzles (4 to 6 givens, one solution,
none of them in the training pool) with at most 200 steps and no finisher. Every answer is checked exactly.
Target: at least 99 % solved.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

import blogdit
from blogdit.training.data import generated_data
from blogdit.training.recipe import recipe

STEPS = (10, 25, 50, 100, 200)


def train(out: Path, minutes: float, seed: int) -> None:
    """The command of the documentation, in a process of its own."""
    command = [sys.executable, "-m", "blogdit", "train", "sudoku", "--set", "box=2"]
    command += ["--minutes", str(minutes), "--seed", str(seed), "--out", str(out), "--device", "cpu"]
    print("$ " + " ".join(["blogdit", *command[3:]]), flush=True)
    began = time.monotonic()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    print(f"training took {time.monotonic() - began:.0f} s, start and validation included")


def print_curve(out: Path) -> None:
    """The course of training from its log."""
    records = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
    print("   seconds   updates    energy   entropy  validation solved")
    for record in records:
        if "valid_solved" in record:
            near = [r["energy"] for r in records[max(0, record["update"] - 50) : record["update"]] if r["energy"]]
            print(
                f"{record['seconds']:10.0f}{record['update']:10d}{np.mean(near):10.2f}{record['entropy']:10.1f}"
                f"{100 * record['valid_solved']:17.1f} %"
            )


def fresh_puzzles(count: int, seed: int) -> list[blogdit.Instance]:
    """Puzzles that neither trained nor chose the weights."""
    data = generated_data(recipe("sudoku", {"box": 2}), seed)
    known = {tuple(sorted(p.givens.items())) for p in [*data.training, *data.validation]}
    made = blogdit.generate("sudoku", 2 * count, seed=seed + 1_000_003, box=2, min_givens=4, max_givens=6)
    return [p for p in made if tuple(sorted(p.givens.items())) not in known][:count]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=3.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--puzzles", type=int, default=1000)
    options = parser.parse_args()
    print(f"{platform.machine()}, {os.cpu_count()} cores, torch {torch.__version__}")
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        train(out, options.minutes, options.seed)
        print_curve(out)
        puzzles = fresh_puzzles(options.puzzles, options.seed)
        began = time.monotonic()
        results = blogdit.solve(
            puzzles, model=out / "best.safetensors", device="cpu", steps=max(STEPS), finish="none", seed=options.seed
        )
    seconds = time.monotonic() - began
    solved = [result.steps for result in results if result.status == "solved"]
    print(f"\n{len(puzzles)} fresh puzzles in {seconds:.1f} s")
    for steps in STEPS:
        share = sum(needed <= steps for needed in solved) / len(puzzles)
        print(f"solved within {steps:4d} steps: {100 * share:6.2f} %")
    print(f"target 99 %: {'reached' if len(solved) >= 0.99 * len(puzzles) else 'missed'}")


if __name__ == "__main__":
    main()
