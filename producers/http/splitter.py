"""From pieces of a body to batches of events, without ever holding the whole: which splitter a type needs."""

from __future__ import annotations

from collections.abc import Iterator
from email.message import Message
from functools import lru_cache
from typing import Final, Protocol

from producers.http.document import JsonSplitter
from producers.http.lines import NdjsonSplitter
from producers.http.problem import Problem
from producers.ndjson import Lines

JSON: Final = "application/json"
NDJSON: Final = ("application/x-ndjson", "application/ndjson", "application/jsonl", "application/x-jsonlines")


class Batch(Protocol):
    """Some events of a body, still raw; its length is in bytes."""

    def __len__(self) -> int: ...

    def read(self) -> Lines:
        """What they say. Raises Problem (400, 413) when that spoils the whole body."""


class Splitter(Protocol):
    """Takes a body piece by piece. Raises Problem (400, 413) for one that can't be split."""

    def feed(self, piece: bytes) -> Iterator[Batch]:
        """What is complete with this piece, once it is enough for a batch."""

    def end(self) -> Iterator[Batch]:
        """What is left at the end."""


def splitter(content_type: str | None, *, only: str | None = None) -> Splitter:
    """The splitter for a Content-Type. Raises Problem (415)."""
    kind, charset = _kind(content_type or "")
    if charset not in ("utf-8", "utf8", "us-ascii"):
        raise Problem(415, "charset", "JSON is UTF-8: send it so, and say no other charset.")
    if kind in NDJSON and only != JSON:
        return NdjsonSplitter()
    if (kind == JSON or kind.endswith("+json")) and only in (None, JSON):
        return JsonSplitter()
    raise Problem(415, "content-type", f"The Content-Type must be {only or f'{JSON} or {NDJSON[0]}'}.")


@lru_cache(64)
def _kind(content_type: str) -> tuple[str, str]:
    """The type and the charset; clients send the same few again and again."""
    message = Message()
    message["Content-Type"] = content_type
    charset = str(message.get_param("charset", "utf-8")).lower()
    return message.get_content_type() if content_type else "", charset
