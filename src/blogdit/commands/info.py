"""`blogdit info`"""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

import blogdit
from blogdit.problems import families

PACKAGES = ("torch", "numpy", "networkx", "safetensors")


def info() -> None:
    """Show versions and the problem families with the settings of their generators.

    \b
    Example:
      blogdit info
    """
    print(f"blogdit {blogdit.__version__}")
    print(f"python {platform.python_version()} on {platform.system()} {platform.machine()}")
    for package in PACKAGES:
        print(f"{package} {_version(package)}")
    for name, family in sorted(families().items()):
        print(f"\n{name}: {family.summary}")
        print("  --set " + " ".join(f"{key}={_shown(value)}" for key, value in family.settings.items()))


def _version(package: str) -> str:
    """From the package's metadata: importing torch would take seconds."""
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _shown(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
