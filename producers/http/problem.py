"""What goes wrong with a request as a whole: a status, a stable code and a sentence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class Problem(Exception):
    """A request that is answered with an error; `detail` is a sentence that says the way out."""

    def __init__(
        self,
        status: int,
        rule: str,
        detail: str,
        *,
        headers: Mapping[str, str] | None = None,
        more: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.rule = rule
        self.detail = detail
        self.headers = dict(headers or {})
        self.more = dict(more or {})
        """Further fields of the answer, such as what was accepted before."""


def unavailable(detail: str) -> Problem:
    """Redis is away: 503, and the client may send the same again."""
    return Problem(503, "unavailable", detail, headers={"Retry-After": "2"})
