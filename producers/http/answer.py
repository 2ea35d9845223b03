"""Answers, errors as answers, and a log line for what was turned away."""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Any, Final, NamedTuple

from starlette.requests import Request
from starlette.types import Send

from producers.http.body import Body
from producers.http.problem import Problem

log = logging.getLogger(__name__)

JSON: Final = b"application/json"
PROBLEM: Final = b"application/problem+json"
HEADERS: Final = (
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-robots-tag", b"noindex"),
)


class Answer(NamedTuple):
    """A JSON answer."""

    text: bytes
    status: int = 200
    headers: Mapping[str, str] = {}
    kind: bytes = JSON

    async def send(self, send: Send) -> None:
        """Send it, by ASGI."""
        headers = [(b"content-type", self.kind), *HEADERS, (b"content-length", b"%d" % len(self.text))]
        if self.headers:
            headers += [(name.lower().encode(), value.encode()) for name, value in self.headers.items()]
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        await send({"type": "http.response.body", "body": self.text})


Work = Callable[[Request, Body], Awaitable[Answer]]


def answer(body: Mapping[str, Any], status: int = 200, headers: Mapping[str, str] | None = None) -> Answer:
    """The answer that says this."""
    return Answer(json.dumps(body, separators=(",", ":")).encode() + b"\n", status, headers or {})


async def refusal(request: Request, body: Body, problem: Problem) -> Answer:
    """The answer that states a problem (RFC 9457), once a little of the body was taken in."""
    if request.method != "GET" or problem.status != 404:
        _note(request, problem)
    headers = problem.headers
    if not body.finished:
        await body.drain()
        headers = {**headers, "Connection": "close"}
    return stated(problem.status, problem.rule, problem.detail, headers, problem.more)


def stated(
    status: int,
    rule: str,
    detail: str,
    headers: Mapping[str, str] | None = None,
    more: Mapping[str, Any] | None = None,
) -> Answer:
    """A problem as an answer; `type` is left out, which RFC 9457 reads as about:blank."""
    said = {"title": HTTPStatus(status).phrase, "status": status, "rule": rule, "detail": detail}
    text = json.dumps({**said, **(more or {})}, separators=(",", ":")).encode() + b"\n"
    return Answer(text, status, headers or {}, PROBLEM)


def _note(request: Request, problem: Problem) -> None:
    """Log who was turned away and why: never a header, a query or a body, which may hold secrets."""
    level = logging.WARNING if problem.status in (429, 503) else logging.INFO
    log.log(
        level,
        "%s from %s to %s is answered with %d: %s",
        request.method,
        request.client.host if request.client else "-",
        ascii(request.scope["path"])[1:-1][:200],
        problem.status,
        problem.detail,
        extra={"action": "push_refused", "status": problem.status, "rule": problem.rule},
    )
