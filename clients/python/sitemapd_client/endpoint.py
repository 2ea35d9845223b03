"""One sitemapd over HTTP: connections that are kept open, with bounds on time and on an answer's size."""

from __future__ import annotations

import codecs
import http.client
import json
import os
import socket
import ssl
import time
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from email.utils import parsedate_to_datetime
from io import BytesIO
from typing import Any, BinaryIO, Final, NamedTuple
from urllib.parse import urlsplit

from sitemapd_client.errors import Problem, Unavailable

# Connections need it. If a thread imported it first, a fork at that moment would leave its module locked in
# the child for ever.
codecs.lookup("idna")

ANSWER_MAX: Final = 16 * 1024 * 1024
"""Bytes of an answer; that of a request in which all is refused has about 4 MiB."""
IDLE_MAX: Final = 8
"""Connections that are kept open while nobody uses them."""
LATER: Final = frozenset({408, 429, 502, 503, 504})
"""Statuses that say: the same again, later. So does a 409 with Retry-After."""


class Answer(NamedTuple):
    """What sitemapd answered; `wait` is Retry-After in seconds."""

    status: int
    wait: float | None
    said: Mapping[str, Any]
    """The JSON object; empty when the answer holds none."""

    @property
    def is_temporary(self) -> bool:
        """Whether the same request may succeed later."""
        return self.status in LATER or (self.status == 409 and self.wait is not None)

    def sentence(self, host: str) -> str:
        """What to tell a person."""
        detail = self.detail
        if 300 <= self.status < 400:
            detail = f"it leads to {self.said.get('location')!r:.200}: give that address"
        return f"sitemapd at {host} answered {self.status}: {detail or 'the answer is not from sitemapd'}"

    @property
    def detail(self) -> str:
        """The sentence of a problem; that of the one event, when the request had one and it was refused."""
        rows = self.said.get("refused")
        if self.status == 422 and isinstance(rows, list) and len(rows) == 1 and isinstance(rows[0], dict):
            return str(rows[0].get("detail", ""))
        return str(self.said.get("detail", ""))

    def error(self, host: str, accepted: int) -> Exception:
        """The exception that the answer means; `accepted` events of the call were stored before."""
        accepted += _count(self.said.get("accepted"))
        if self.is_temporary:
            return Unavailable(self.sentence(host), wait=self.wait, accepted=accepted)
        rule, detail = str(self.said.get("rule", "")), self.detail
        return Problem(self.sentence(host), status=self.status, rule=rule, detail=detail, accepted=accepted)


class Endpoint:
    """Sends requests to one address; safe to share between threads, and usable on both sides of a fork.

    `timeout` is in seconds and bounds each of: connecting, sending a block, waiting for the answer, reading
    it. Raises ValueError for an address or a token that can't be one.
    """

    def __init__(
        self, url: str, token: str | None, *, timeout: float, context: ssl.SSLContext | None = None
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{url!r} is no address of an HTTP server: write https:// and a host")
        if "@" in parts.netloc:
            raise ValueError("The address names a user: give what sitemapd must know as token=…")
        if parts.query or parts.fragment:
            raise ValueError(f"{url!r} has more than a path: leave out what follows ? or #")
        try:
            port = parts.port
        except ValueError:
            raise ValueError(f"{url!r} has a port that is none: write a number from 1 to 65535") from None
        if token is not None and not (token and token.isascii() and token.isprintable()):
            raise ValueError("The token is not of visible ASCII characters: see what was pasted")
        self.host = parts.netloc
        self._address = parts.hostname, port
        self._context = (context or ssl.create_default_context()) if parts.scheme == "https" else None
        self._path = parts.path.rstrip("/")
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._timeout = timeout
        self._idle: deque[http.client.HTTPConnection] = deque()
        self._pid = os.getpid()

    def ask(
        self,
        method: str,
        path: str,
        body: BinaryIO,
        length: int,
        headers: Mapping[str, str],
        *,
        timeout: float | None = None,
        answer_timeout: float | None = None,
    ) -> Answer:
        """Send one request with the NDJSON in `body`, which is read from its start. Raises Unavailable.

        `timeout` and `answer_timeout` (seconds) are for this request, instead of the endpoint's.
        """
        limit = timeout or self._timeout
        named = {
            "Content-Type": "application/x-ndjson",
            "Content-Length": str(length),
            **self._headers,
            **headers,
        }
        while True:
            connection, kept = self._connection(limit)
            try:
                return self._exchange(
                    connection, method, self._path + path, body, named, answer_timeout or limit
                )
            except (OSError, http.client.HTTPException) as error:
                connection.close()
                # sitemapd may have closed a kept connection meanwhile: that is no failure yet.
                if kept and not isinstance(error, socket.timeout):
                    continue
                raise Unavailable(
                    f"sitemapd can't be reached at {self.host} ({str(error) or 'it hung up'})"
                ) from error
            except BaseException:
                connection.close()
                raise

    def ask_lines(self, path: str, lines: bytes, key: str, *, timeout: float | None = None) -> Answer:
        """POST events that fit into memory, under an idempotency key. Raises Unavailable."""
        headers = {"Idempotency-Key": key}
        return self.ask("POST", path, BytesIO(lines), len(lines), headers, timeout=timeout)

    def close(self) -> None:
        """Close the connections that are idle; in a child after a fork its copies alone."""
        while self._idle:
            self._idle.pop().close()

    def _connection(self, limit: float) -> tuple[http.client.HTTPConnection, bool]:
        """A connection for this caller alone, and whether it was in use before."""
        if self._pid != os.getpid():
            self.close()  # they are the parent's
            self._pid = os.getpid()
        try:
            connection = self._idle.pop()
        except IndexError:
            host, port = self._address
            if self._context is None:
                return http.client.HTTPConnection(host, port, timeout=limit), False
            return http.client.HTTPSConnection(host, port, timeout=limit, context=self._context), False
        if connection.sock is not None:
            connection.sock.settimeout(limit)
        return connection, True

    def _exchange(
        self,
        connection: http.client.HTTPConnection,
        method: str,
        path: str,
        body: BinaryIO,
        headers: Mapping[str, str],
        limit: float,
    ) -> Answer:
        body.seek(0)
        # sitemapd may have answered, and hung up, before it had all of the body: see what came.
        with suppress(BrokenPipeError, ConnectionResetError):
            connection.request(method, path, body, headers)
        if connection.sock is not None:
            connection.sock.settimeout(limit)
        answer = connection.getresponse()
        text = _read(answer, limit)
        said = _object(text)
        if 300 <= answer.status < 400:
            said = {"location": answer.headers.get("Location", "")}
        if answer.will_close or len(self._idle) >= IDLE_MAX:
            connection.close()
        else:
            self._idle.append(connection)
        return Answer(answer.status, _wait(answer.headers.get("Retry-After", "")), said)


def _read(answer: http.client.HTTPResponse, limit: float) -> bytes:
    deadline = time.monotonic() + limit
    text = b""
    while piece := answer.read1(65536):
        text += piece
        if len(text) > ANSWER_MAX:
            raise http.client.HTTPException(f"the answer has more than {ANSWER_MAX} bytes")
        if time.monotonic() > deadline:
            raise socket.timeout("the answer timed out")
    if answer.length:
        raise http.client.HTTPException("the answer breaks off")
    answer.close()  # else the connection counts as busy
    return text


def _object(text: bytes) -> Mapping[str, Any]:
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return said if isinstance(said, dict) else {}


def _wait(text: str) -> float | None:
    """Retry-After (RFC 9110, 10.2.3) in seconds from now; None when there is none."""
    if text.isdecimal():
        return float(text[:9])
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - time.time())
    except (TypeError, ValueError, IndexError, OverflowError):
        return None


def _count(value: object) -> int:
    return value if isinstance(value, int) and value > 0 else 0
