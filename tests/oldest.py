"""Installs the oldest versions that the extras of the integrations allow into a folder: `oldest.py FOLDER`.

Prints the files of tests that have something to do with them. A package that CI has in its oldest version anyway is
left out.
"""

from __future__ import annotations

import subprocess
import sys
from itertools import chain

from packaging.requirements import Requirement
from packaging.version import Version

from installation import ROOT, integrations, project


def oldest() -> dict[str, list[str]]:
    """Requirements of each integration, such as `cpmpy==1.1`."""
    extras = project()["optional-dependencies"]
    return {name: [one.replace(">=", "==") for one in extras[name]] for name in sorted(integrations())}


def is_installed(requirement: str) -> bool:
    """Whether constraints.txt names this very version."""
    asked = Requirement(requirement)
    lines = (line.partition("#")[0].strip() for line in (ROOT / "constraints.txt").read_text().splitlines())
    pinned = {one.name: one.specifier for one in map(Requirement, filter(None, lines))}
    (version,) = (Version(one.version) for one in asked.specifier)
    return asked.name in pinned and version in pinned[asked.name]


if __name__ == "__main__":
    older = {name: some for name, some in oldest().items() if not all(map(is_installed, some))}
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--upgrade", "--target", sys.argv[1]]
    subprocess.run([*command, *chain(*older.values())], check=True, stdout=sys.stderr)
    same = tuple(f"test_integrations_{name}" for name in set(oldest()) - set(older))
    files = sorted((ROOT / "tests").glob("test_integrations_*.py"))
    print(*(file.relative_to(ROOT) for file in files if not file.name.startswith(same)))
