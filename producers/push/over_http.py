"""Batches over HTTP, by the standard library alone: one connection that is kept open."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Sequence
from typing import Final
from urllib.parse import quote, urlsplit

from producers.push.transport import NotNow, Rejected

_LATER: Final = "sitemapd can't be reached at {host} ({error})"
TIMEOUT_S: Final = 10.0
"""The longest that a request may wait for an answer; it holds up the delivering thread alone."""
_STORED: Final = (202, 422)


class OverHttp:
    """Sends to the push API at an address such as `https://sitemaps.example.com/`. Raises ValueError."""

    def __init__(
        self,
        address: str,
        site: str,
        token: str | None,
        source: str | None,
    ) -> None:
        parts = urlsplit(address)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{address!r} is no address of an HTTP server")
        secure = parts.scheme == "https"
        kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
        self._connection = kind(parts.hostname, parts.port, timeout=TIMEOUT_S)
        self._host = parts.netloc.rpartition("@")[2]
        self._path = f"{parts.path.rstrip('/')}/v1/sites/{quote(site, safe='')}/events"
        if source is not None:
            self._path += f"?source={quote(source, safe='')}"
        self._headers = {"Content-Type": "application/x-ndjson"}
        if token is not None:
            self._headers["Authorization"] = f"Bearer {token}"

    def send(self, events: Sequence[str], key: str) -> list[Rejected]:
        """Deliver a batch. Raises NotNow."""
        body = "".join(f"{event}\n" for event in events).encode()
        status, wait, text = self._ask(body, {**self._headers, "Idempotency-Key": key})
        try:
            said = json.loads(text)
            if status in _STORED and "accepted" in said:
                return [Rejected(**{k: row[k] for k in ("loc", "rule", "detail")}) for row in said["refused"]]
            detail = str(said["detail"])
        except (ValueError, KeyError, TypeError):
            detail = "the answer is not sitemapd's"
        raise NotNow(f"sitemapd at {self._host} answered {status}: {detail}", wait=wait)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _ask(self, body: bytes, headers: dict[str, str]) -> tuple[int, float | None, bytes]:
        for fresh in (self._connection.sock is None, True):
            try:
                self._connection.request("POST", self._path, body, headers)
                answer = self._connection.getresponse()
                wait = answer.headers.get("Retry-After", "")
                return answer.status, float(wait) if wait.isdecimal() else None, answer.read()
            except (OSError, http.client.HTTPException) as error:
                self._connection.close()
                # A kept connection may have been closed meanwhile: that is no failure yet.
                if fresh or isinstance(error, socket.timeout):
                    raise NotNow(_LATER.format(host=self._host, error=str(error) or "it hung up")) from error
        raise AssertionError
