"""Answers, errors as answers, and a log line for what was turned away."""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from producers.http.body import Body, Caps
from producers.http.problem import Problem, unavailable
from sitemap_store.errors import Unavailable

log = logging.getLogger(__name__)

HEADERS: Final[Mapping[str, str]] = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "X-Robots-Tag": "noindex",
}

Work = Callable[[Request, Body], Awaitable[Response]]
Handler = Callable[[Request], Awaitable[Response]]


def answer(body: Mapping[str, Any], status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """A JSON answer."""
    text = json.dumps(body, separators=(",", ":")).encode() + b"\n"
    return Response(text, status, {**HEADERS, **(headers or {})}, "application/json")


def endpoint(work: Work, caps: Caps) -> Handler:
    """A handler whose errors become answers: `{"rule", "detail"}`, and what was accepted before, if any."""

    async def handle(request: Request) -> Response:
        body = Body(request, caps)
        try:
            return await work(request, body)
        except Problem as error:
            problem = error
        except Unavailable as error:
            problem = unavailable(f"{error}.")
        if request.method != "GET" or problem.status != 404:
            _note(request, problem)
        headers = dict(problem.headers)
        if not body.finished:
            await body.drain()
            headers["Connection"] = "close"
        return answer(
            {"rule": problem.rule, "detail": problem.detail, **problem.more}, problem.status, headers
        )

    return handle


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
