"""Text of strangers (names, labels, paths, messages about them) in a form that does no harm on a terminal."""

from __future__ import annotations


def harmless(text: str) -> str:
    """One line in which every character is visible: line ends, escape sequences, marks that turn the direction of
    writing and lone surrogates become their codes, as JSON writes them."""
    return text if text.isprintable() else "".join(one if one.isprintable() else _code(one) for one in text)


def _code(character: str) -> str:
    number = ord(character)
    return f"\\u{number:04x}" if number < 1 << 16 else f"\\U{number:08x}"
