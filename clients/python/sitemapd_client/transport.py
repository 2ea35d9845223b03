"""What carries batches of events to sitemapd: an interface, and HTTP."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Final, Protocol

from sitemapd_client.client import events_path
from sitemapd_client.endpoint import Endpoint
from sitemapd_client.errors import Problem, Unavailable
from sitemapd_client.results import Refusal, read_refusals

REQUEST_S: Final = 10.0
"""The longest that a step of a request may take; it holds up the delivering thread alone."""


class Transport(Protocol):
    """Carries batches. Used by one thread at a time, and usable on both sides of a fork."""

    @property
    def target(self) -> str:
        """For what the events are, such as a site and a source: the spool keeps those of others apart."""

    def send(self, lines: Sequence[str], key: str, timeout: float) -> Sequence[Refusal]:
        """Store events in JSON, apart from those that are refused, which it returns.

        `key` is the same when the same lines are tried again; `timeout` is in seconds, for each step. Raises
        Unavailable, and Problem when the lines are too much for one batch (status 413).
        """

    def close(self) -> None:
        """Give connections back."""


class HttpTransport:
    """Batches over HTTP. Raises ValueError for an address or a token that can't be one."""

    def __init__(self, url: str, token: str | None, site: str, source: str | None) -> None:
        self._endpoint = Endpoint(url, token, timeout=REQUEST_S)
        self._path = events_path(site, source)

    @property
    def target(self) -> str:
        """The path: another address may be that of the same sitemapd."""
        return self._path

    def send(self, lines: Sequence[str], key: str, timeout: float) -> Sequence[Refusal]:
        """Deliver a batch. Raises Unavailable, Problem (413).

        What an operator must mend (a token, a site's name) counts as unavailable: events wait for it.
        """
        answer = self._endpoint.ask_lines(self._path, "\n".join(lines).encode(), key, timeout=timeout)
        if answer.status in (202, 422):
            with suppress(KeyError, TypeError, ValueError):
                return read_refusals(answer.said)
        error = answer.error(self._endpoint.host, 0)
        if isinstance(error, Problem) and error.status == 413:
            raise error
        raise Unavailable(str(error), wait=answer.wait) from error

    def close(self) -> None:
        """Close the connection."""
        self._endpoint.close()
