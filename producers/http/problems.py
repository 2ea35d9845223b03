"""Answers of the push API: JSON, problems (RFC 9457), and what became of the events of a request."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from starlette.requests import Request
from starlette.types import Send

from sitemap_store.errors import Refused

if TYPE_CHECKING:
    from producers.http.limits import Body  # which raises Problem


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


def answer(body: Mapping[str, Any], status: int = 200, headers: Mapping[str, str] | None = None) -> Answer:
    """The answer that says this."""
    return Answer(json.dumps(body, separators=(",", ":")).encode() + b"\n", status, headers or {})


async def refusal(request: Request, body: Body, problem: Problem) -> Answer:
    """The answer that states a problem (RFC 9457), once a little of the body was taken in."""
    # Of an overload each request has its line already; a second one would be what there is no time for.
    if problem.rule != "overload" and (request.method != "GET" or problem.status != 404):
        _note(request, problem)
    headers = problem.headers
    if not body.finished:
        await body.drain()
        if not body.finished:
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


SHOWN: Final = 1000
"""How many refusals an answer lists one by one."""
WARNINGS: Final = 100


@dataclass(slots=True, kw_only=True)
class Result:
    """Counts, and the first refusals and warnings; bounded, however long the body is."""

    accepted: int = 0
    refusals: int = 0
    refused: list[dict[str, Any]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def refuse(self, line: int, refused: Refused) -> None:
        """Note a refused event."""
        self.refusals += 1
        if len(self.refused) < SHOWN:
            self.refused.append(
                {
                    "line": line,
                    "loc": _printable(refused.loc),
                    "rule": refused.rule,
                    "detail": _printable(refused.detail),
                }
            )

    def warn(self, warnings: tuple[str, ...]) -> None:
        """Note what was changed or left out in an accepted event."""
        self.warnings += warnings[: WARNINGS - len(self.warnings)]

    @property
    def status(self) -> int:
        """202, or 422 when there were events and every one was refused."""
        return 422 if self.refusals and not self.accepted else 202

    def body(self) -> dict[str, Any]:
        """The answer's JSON."""
        body: dict[str, Any] = {"accepted": self.accepted, "refused": self.refused}
        if self.refusals > len(self.refused):
            body["refused_total"] = self.refusals
        if self.warnings:
            body["warnings"] = [_printable(warning) for warning in self.warnings]
        return body

    def answer(self) -> Answer:
        """The answer."""
        if self.status != 202:
            said = (
                f"All {self.refusals} events were refused." if self.refusals > 1 else "The event was refused."
            )
            rule = self.refused[0]["rule"] if self.refusals == 1 else "events"
            return stated(self.status, rule, said, more=self.body())
        if self.refusals or self.warnings:
            return answer(self.body(), self.status)
        return Answer(b'{"accepted":%d,"refused":[]}\n' % self.accepted, 202)


def _printable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()
