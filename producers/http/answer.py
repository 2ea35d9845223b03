"""Answers, errors as answers, and a log line for what was turned away."""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, NamedTuple

from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from producers.http.body import Body, Caps
from producers.http.problem import Problem, unavailable
from sitemap_store.errors import Unavailable

log = logging.getLogger(__name__)

HEADERS: Final = (
    (b"content-type", b"application/json"),
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-robots-tag", b"noindex"),
)


class Answer(NamedTuple):
    """A JSON answer."""

    text: bytes
    status: int = 200
    headers: Mapping[str, str] = {}

    async def send(self, send: Send) -> None:
        """Send it, by ASGI."""
        headers = [*HEADERS, (b"content-length", b"%d" % len(self.text))]
        if self.headers:
            headers += [(name.lower().encode(), value.encode()) for name, value in self.headers.items()]
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        await send({"type": "http.response.body", "body": self.text})


Work = Callable[[Request, Body], Awaitable[Answer]]


def answer(body: Mapping[str, Any], status: int = 200, headers: Mapping[str, str] | None = None) -> Answer:
    """The answer that says this."""
    return Answer(json.dumps(body, separators=(",", ":")).encode() + b"\n", status, headers or {})


class Endpoint:
    """Work as an ASGI application, whose errors become answers.

    They are `{"rule", "detail"}`, and what was accepted before, if any. Plain ASGI, as what a framework
    does around a handler would take longer than storing an event.
    """

    def __init__(self, work: Work, caps: Caps) -> None:
        self._work = work
        self._caps = caps

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        request = Request(scope, receive)
        body = Body(request, self._caps)
        try:
            done = await self._work(request, body)
        except Problem as error:
            done = await self._refusal(request, body, error)
        except Unavailable as error:
            done = await self._refusal(request, body, unavailable(f"{error}."))
        await done.send(send)

    async def _refusal(self, request: Request, body: Body, problem: Problem) -> Answer:
        if request.method != "GET" or problem.status != 404:
            _note(request, problem)
        headers = problem.headers
        if not body.finished:
            await body.drain()
            headers = {**headers, "Connection": "close"}
        said = {"rule": problem.rule, "detail": problem.detail, **problem.more}
        return answer(said, problem.status, headers)


def _note(request: Request, problem: Problem) -> None:
    """Log who was turned away and why: never a header, a query or a body, which may hold secrets."""
    level = logging.WARNING if problem.status in (429, 503) else logging.INFO
    log.log(
        level,
        "%s from %s to %s is answered with %d: %s",
        request.method,
        request.client.host if request.client else "-",
        ascii(request.url.path)[1:-1][:200],
        problem.status,
        problem.detail,
        extra={"action": "push_refused", "status": problem.status, "rule": problem.rule},
    )
