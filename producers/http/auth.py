"""Who may push to which site: bearer tokens, kept as digests only.

1. A token is 32 random bytes, so a plain SHA-256 is enough: there is nothing to guess, and no slow hash
   to pay for at each request.
2. A presented token is compared with those of every site, each in constant time: how long it takes says
   nothing of which one was nearly right.
3. A site without tokens takes requests of this machine alone: the peer's address is a loopback one, no proxy
   has passed the request on, and the Host is this machine's (a web page whose name was made to point
   at 127.0.0.1 is another one). A proxy shows by its headers, by HTTP/1.0, which nginx speaks unless it is
   told otherwise, or by its address in `trusted_proxies`. What another site's page sends is refused.
4. Who has no valid token learns nothing of which sites there are.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import IPv6Address, ip_address
from typing import Final

from starlette.requests import HTTPConnection

from producers.http.problems import Problem

PREFIX: Final = "smd_"
"""What a token begins with, so that scanners for leaked secrets find it."""
_HASH: Final = "sha256:"
_HEX: Final = 64
_USUAL: Final = frozenset({"127.0.0.1", "::1", "localhost"})
_FORWARDED: Final = frozenset({b"forwarded", b"x-real-ip", b"via"})
_HOST: Final = re.compile(r"(?:\[([0-9A-Fa-f:.]*)\]|([^\[\]:]*))(?::\d{0,5})?")
_SAFE: Final = frozenset({"GET", "HEAD"})
PROXIED: Final = "sitemapd.proxied"
"""In the scope of a request that one of the `trusted_proxies` passed on."""
TOKEN: Final = "sitemapd.token"
"""In the scope: the name of the token that a request was let in with, for the log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """Who speaks: a name for the log, and the sources that it may speak for (None: any, and for none)."""

    name: str
    digest: bytes = field(repr=False)
    sources: frozenset[str] | None = None
    """An empty set may look and not push."""

    @property
    def source(self) -> str | None:
        """The source of events that name none."""
        return next(iter(self.sources)) if self.sources is not None and len(self.sources) == 1 else None

    def may(self, source: str | None) -> bool:
        """Whether it may speak for a source, or (None) for whoever owns an entry."""
        return self.sources is None or source in self.sources


LOCAL: Final = Token(name="", digest=b"")
"""A request of this machine to a site without tokens."""


def new_token() -> str:
    """A token that nobody can guess."""
    return PREFIX + secrets.token_urlsafe(32)


def hash_of(token: str) -> str:
    """A token as the settings keep it."""
    return _HASH + _digest(token).hex()


def digest_of(text: str) -> bytes:
    """The digest in what `hash_of` wrote. Raises ValueError for another form."""
    if not text.startswith(_HASH) or len(text) != len(_HASH) + _HEX:
        raise ValueError(f"a token's hash is {_HASH} and {_HEX} hex digits, as `sitemapd token` prints it")
    return bytes.fromhex(text.removeprefix(_HASH))


class Gate:
    """Lets requests in to the sites that they may see. Raises Problem (401, 403, 404)."""

    def __init__(self, tokens: Mapping[str, tuple[Token, ...]]) -> None:
        self._tokens = tokens

    def admit(self, request: HTTPConnection, site: str) -> Token:
        """Who asks for a site."""
        presented = _presented(request)
        holders = self._holders(presented) if presented is not None else {}
        tokens = self._tokens.get(site)
        if tokens is None:
            if holders or (presented is None and local(request) and not any(self._tokens.values())):
                raise Problem(404, "site", f"There is no site {site[:40]!r}: name one of [sites.NAME].")
            raise _unauthorised(presented)
        if not tokens:
            if not local(request):
                raise Problem(
                    403,
                    "loopback",
                    "Without tokens only this machine itself may push, by no proxy and under its own name, "
                    "localhost for one: make a token with `sitemapd token`.",
                )
            if request.scope["method"] not in _SAFE and not same_origin(request):
                raise Problem(
                    403,
                    "cross-site",
                    "A page of another site sent this request, which may not push without a token: make one "
                    "with `sitemapd token`, and send it from a server.",
                )
            return LOCAL
        if site in holders:
            request.scope[TOKEN] = holders[site].name
            return holders[site]
        if holders:
            names = ", ".join(sorted(holders))
            raise Problem(403, "site", f"The token is for {names}, not {site[:40]}: send that site's token.")
        raise _unauthorised(presented)

    def visible(self, request: HTTPConnection) -> dict[str, Token]:
        """The sites that a request may see, and as whom. Raises Problem (401) when there are none."""
        presented = _presented(request)
        holders = self._holders(presented) if presented is not None else {}
        if local(request):
            holders |= {site: LOCAL for site, tokens in self._tokens.items() if not tokens}
        if not holders:
            raise _unauthorised(presented)
        request.scope[TOKEN] = next(iter(holders.values())).name
        return {site: holders[site] for site in self._tokens if site in holders}

    def _holders(self, presented: str) -> dict[str, Token]:
        digest, found = _digest(presented), {}
        for site, tokens in self._tokens.items():
            for token in tokens:
                if hmac.compare_digest(token.digest, digest):
                    found[site] = token
        return found


def local(request: HTTPConnection) -> bool:
    """Whether a request comes from this machine, to this machine, by no proxy."""
    scope, host = request.scope, None
    if scope.get(PROXIED) or scope.get("http_version") == "1.0":
        return False
    for name, value in scope["headers"]:
        if name in _FORWARDED or name.startswith(b"x-forwarded-"):
            return False
        if name == b"host":
            if host is not None:
                return False
            host = value.decode("latin-1")
    peer = scope.get("client")
    return peer is not None and loopback(peer[0]) and loopback(_host(host or ""))


def same_origin(request: HTTPConnection) -> bool:
    """Whether no other site's page sent a request, as far as a browser says; other clients say nothing."""
    if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        return False
    origin = request.headers.get("origin")
    return origin is None or origin.partition("://")[2] == request.headers.get("host")


def loopback(host: str) -> bool:
    """Whether an address or host name is this machine's own."""
    if host in _USUAL:
        return True
    try:
        address = ip_address(host)
    except ValueError:
        return False
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return address.is_loopback


def _host(header: str) -> str:
    """The host of a Host header, without its port; "" for a header that is none."""
    found = _HOST.fullmatch(header)
    return (found[1] or found[2]).lower() if found is not None else ""


def _presented(request: HTTPConnection) -> str | None:
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    token = token.strip()
    return token if scheme.lower() == "bearer" and token else None


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


def _unauthorised(presented: str | None) -> Problem:
    said = "The token is not known here." if presented is not None else "A token is needed."
    detail = f"{said} Send it as `Authorization: Bearer …`; `sitemapd token` makes one."
    return Problem(401, "token", detail, headers={"WWW-Authenticate": 'Bearer realm="sitemapd"'})
