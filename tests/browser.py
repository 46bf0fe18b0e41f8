"""Debian's Chromium for the tests of the page, or a clear reason why there is none."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
# The last ones keep it from looking for updates: a test talks to this machine alone.
ARGUMENTS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip
SCREENSHOTS = Path(__file__).parent.parent / "build" / "screenshots"


def installed() -> str | None:
    """The path of a browser."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


def find_browser() -> str:
    """Its path. Where there is none, tests are skipped; but in CI that is a failure (`make browser` installs it)."""
    found = installed()
    if found is None and os.environ.get("CI"):
        pytest.fail("CI has no Chromium; make browser installs it")
    if found is None:
        pytest.skip(f"no browser: none of {', '.join(NAMES)} is installed (make browser, or apt-get install chromium)")
    return found
