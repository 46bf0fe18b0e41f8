"""Installs the oldest versions that the extras of the integrations allow into a folder: `oldest.py FOLDER`."""

from __future__ import annotations

import subprocess
import sys

from installation import integrations, project


def oldest() -> list[str]:
    """Requirements such as `cpmpy==1.1`."""
    extras = project()["optional-dependencies"]
    return [requirement.replace(">=", "==") for name in sorted(integrations()) for requirement in extras[name]]


if __name__ == "__main__":
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--upgrade", "--target", sys.argv[1]]
    subprocess.run([*command, *oldest()], check=True)
