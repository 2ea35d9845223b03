"""Text of others on a terminal."""

from __future__ import annotations


def printable(text: str) -> str:
    """A text whose control characters, which could steer a terminal, are written as escapes."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)
