"""Who may look: requests of this machine, bearer tokens, and a browser that has logged in with a token.

1. The tokens are the push API's. A token shows the sites that it is for, whatever sources it may speak for.
2. The cookie holds when it runs out and, for each token that it was given for, a MAC of that under the
   token's digest. So no session is kept anywhere, a restart logs nobody out, and taking a token out of the
   settings ends its sessions.
3. The cookie is HttpOnly and SameSite=Strict, and the two forms that change anything (login, logout) are
   refused when a browser says that they come from another site.
"""

from __future__ import annotations

import hashlib
import hmac
import time
from collections.abc import Callable, Mapping
from typing import Final

from starlette.requests import HTTPConnection, Request
from starlette.responses import Response

from producers.http import Gate, Token
from producers.http.auth import hash_of, local
from producers.http.problems import Problem

COOKIE: Final = "sitemapd"
SESSION_S: Final = 12 * 3600
_CONTEXT: Final = b"sitemapd status page 1 "
_COOKIE_MAX: Final = 4096


class Access:
    """Says which sites a request may see; `clock` gives seconds since 1970."""

    def __init__(
        self, tokens: Mapping[str, tuple[Token, ...]], *, clock: Callable[[], float] = time.time
    ) -> None:
        self._tokens = tokens
        self._gate = Gate(tokens)
        self._clock = clock

    @property
    def any_token(self) -> bool:
        """Whether there is a token to log in with."""
        return any(self._tokens.values())

    def sites(self, request: HTTPConnection) -> frozenset[str]:
        """The sites that a request may see."""
        if local(request):
            return frozenset(self._tokens)
        if "authorization" in request.headers:
            try:
                return frozenset(self._gate.visible(request))
            except Problem:
                return frozenset()
        return self._of_cookie(request.cookies.get(COOKIE, ""))

    def logged_in(self, request: HTTPConnection) -> bool:
        """Whether it is by its cookie that a request may see anything."""
        return bool(self._of_cookie(request.cookies.get(COOKIE, "")))

    def log_in(self, request: Request, response: Response, token: str) -> bool:
        """Give the browser a session for a token; False when no site knows it."""
        digest = bytes.fromhex(hash_of(token).partition(":")[2])
        known = {
            each.digest
            for tokens in self._tokens.values()
            for each in tokens
            if hmac.compare_digest(each.digest, digest)
        }
        if not known:
            return False
        ends = str(int(self._clock()) + SESSION_S)
        value = ".".join([ends, *(_mac(each, ends) for each in known)])
        response.set_cookie(
            COOKIE,
            value,
            max_age=SESSION_S,
            secure="https" in (request.url.scheme, request.headers.get("x-forwarded-proto")),
            httponly=True,
            samesite="strict",
        )
        return True

    def _of_cookie(self, value: str) -> frozenset[str]:
        ends, *macs = value[:_COOKIE_MAX].split(".")
        if not (ends.isascii() and ends.isdecimal()) or int(ends) < self._clock():
            return frozenset()
        return frozenset(
            site
            for site, tokens in self._tokens.items()
            for token in tokens
            for mac in macs
            if hmac.compare_digest(_mac(token.digest, ends).encode(), mac.encode())
        )


def _mac(digest: bytes, ends: str) -> str:
    return hmac.new(digest, _CONTEXT + ends.encode(), hashlib.sha256).hexdigest()
