"""A trace and the page that plays it as one HTML file, which needs neither a server nor a network."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
from pathlib import Path
from typing import Any

from blogdit.core.errors import InputError

PAGE = Path(__file__).parent / "page"
IMPORT = re.compile(r"^import\s.*?from\s+\"\./([\w-]+\.js)\";\n", re.MULTILINE | re.DOTALL)
EXPORT = re.compile(r"^export (?=(?:async )?(?:function|class|const|let)\b)", re.MULTILINE)


def modules(start: str = "replay.js", folder: Path = PAGE) -> list[str]:
    """The file `start` and all that it imports, each after those that it needs."""
    ordered: list[str] = []

    def visit(name: str) -> None:
        if name not in ordered:
            for needed in IMPORT.findall((folder / name).read_text()):
                visit(needed)
            ordered.append(name)

    visit(start)
    return ordered


def script(start: str = "replay.js") -> str:
    """One script. Modules share their names then, so that no two may use the same one at their top."""
    parts = [EXPORT.sub("", IMPORT.sub("", (PAGE / name).read_text())) for name in modules(start)]
    return "\n".join(parts)


def export_html(records: list[dict[str, Any]], title: str) -> str:
    """The whole file. Its policy allows this one script and this one style sheet, and no connection."""
    code, style = script(), (PAGE / "style.css").read_text()
    data = "\n".join(json.dumps(record, separators=(",", ":")) for record in records)
    packed = base64.b64encode(gzip.compress(data.encode(), 9, mtime=0)).decode()
    policy = f"default-src 'none'; script-src '{_hash(code)}'; style-src '{_hash(style)}'; img-src data:"
    text = (PAGE / "replay.html").read_text()
    title = title.replace("&", "&amp;").replace("<", "&lt;")
    for mark, part in (("POLICY", policy), ("TITLE", title), ("STYLE", style), ("TRACE", packed), ("SCRIPT", code)):
        text = text.replace(f"{{{{{mark}}}}}", part)
    return text


def write_html(records: list[dict[str, Any]], out: Path, title: str) -> int:
    """Returns the size in bytes. Nothing is overwritten."""
    if out.exists():
        raise InputError("exists already; expected another file", out)
    data = export_html(records, title).encode()
    try:
        out.write_bytes(data)
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror or error}", out) from None
    return len(data)


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
