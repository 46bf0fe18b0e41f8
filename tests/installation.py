"""The package as an installer would leave it, for programs that find it by its entry points."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent


def project() -> dict[str, Any]:
    """What pyproject.toml says about the package."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def integrations() -> set[str]:
    """The packages that have an integration."""
    return {path.stem.split("_")[0] for path in (ROOT / "src/blogdit/integrations").glob("[a-z]*.py")}


def run_installed(folder: Path, *arguments: str, expected: int = 0) -> str:
    """What Python prints in a process of its own, in which the entry points of pyproject.toml are known.

    The test does not depend on when the package was last installed.
    """
    facts = project()
    metadata = folder / f"{facts['name']}-{facts['version']}.dist-info"
    metadata.mkdir(exist_ok=True)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {facts['name']}\nVersion: {facts['version']}\n")
    sections = [
        f"[{group}]\n" + "".join(f"{name} = {target}\n" for name, target in entries.items())
        for group, entries in facts["entry-points"].items()
    ]
    (metadata / "entry_points.txt").write_text("\n".join(sections))
    path = os.pathsep.join([str(folder), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == expected, done.stdout + done.stderr
    return done.stdout
