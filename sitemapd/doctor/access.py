"""Checks of who gets in: tokens, proxies, and crawlers by robots.txt."""

from __future__ import annotations

import threading
import urllib.error
import urllib.request
from http.client import HTTPException, HTTPMessage
from typing import IO, Final
from urllib.parse import urljoin, urlsplit

from sitemap_store.errors import SitemapdError
from sitemap_store.model.site import index_file
from sitemapd.build import Parts
from sitemapd.serving import proxies

FETCH_S: Final = 10.0
"""Seconds that fetching robots.txt may take in all."""
FETCH_BYTES: Final = 500 * 1024
"""Crawlers need not read more of a robots.txt. Source: RFC 9309, 2.5."""
_REDIRECTS: Final = 5
"""Redirects that crawlers follow. Source: RFC 9309, 2.3.1.2."""


def tokens(parts: Parts) -> str:
    """Check that whoever comes through a proxy can have a token."""
    without = [name for name, site in parts.settings.sites.items() if not site.tokens]
    if not without:
        return "every site has one"
    sites = ", ".join(without)
    if parts.settings.trusted_proxies:
        raise SitemapdError(
            f"{sites}: there is a proxy in front and no token, so nobody can push or see the page through "
            "it: make one with `sitemapd token`"
        )
    return f"{sites}: none, so this machine alone may push; behind a proxy make one, and set trusted_proxies"


def proxy(parts: Parts) -> str:
    """Check that `trusted_proxies` has addresses, and say what follows from it."""
    trusted = ", ".join(map(str, proxies(parts)))
    if trusted:
        return f"requests of {trusted} count as those of the client that their X-Forwarded-For names"
    return (
        "none is trusted: a request with a forwarded header never counts as of this machine, and limits and "
        "log see the proxy's address; behind a proxy set trusted_proxies"
    )


def robots(parts: Parts, name: str, *, seconds: float = FETCH_S) -> str:
    """Fetch the robots.txt of the host in `base_url`, from no other, and check that it lists the index."""
    site = parts.sites[name]
    address = urljoin(site.rules.base, "/robots.txt")
    text = _fetch(address, seconds)
    fields = (line.partition(":") for line in text.splitlines())
    listed = {
        value.partition("#")[0].strip() for field, _, value in fields if field.strip().lower() == "sitemap"
    }
    numbers = parts.store(name).index_files() or [1]
    missing = [url for url in map(site.address, map(index_file, numbers)) if url not in listed]
    if missing:
        raise SitemapdError(
            f"{address} does not list {', '.join(missing)}: add the lines that "
            f"`{parts.command_for(name)} robots` prints"
        )
    return f"{address} lists every index file"


def _fetch(address: str, seconds: float) -> str:
    """The text at an address, as much as counts. Raises SitemapdError within that time, whatever comes."""
    done: list[str | Exception] = []

    def fetch() -> None:
        try:
            with _OPENER.open(address, timeout=seconds) as answer:
                done.append(answer.read(FETCH_BYTES).decode("utf-8-sig", "replace"))
        except urllib.error.HTTPError as error:
            error.close()
            done.append(error)
        except (OSError, HTTPException, ValueError) as error:
            done.append(error)

    # A thread, since a socket's time-out begins anew with each byte.
    thread = threading.Thread(target=fetch, daemon=True)
    thread.start()
    thread.join(seconds)
    found = done[0] if done else TimeoutError(f"no whole answer within {seconds:g} s")
    if isinstance(found, urllib.error.HTTPError):
        hint = "write one with the lines that `sitemapd robots` prints" if found.code == 404 else "see to it"
        raise SitemapdError(f"{address} answers {found.code}: {hint}")
    if isinstance(found, Exception):
        reason = found.reason if isinstance(found, urllib.error.URLError) else found
        raise SitemapdError(
            f"{address} can't be fetched ({reason}): see whether this machine reaches that web server"
        )
    return found


class _SameHost(urllib.request.HTTPRedirectHandler):
    """Follows redirects to the same host alone."""

    max_redirections = _REDIRECTS

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        """Raises URLError for another host."""
        to = urlsplit(newurl)
        if to.scheme not in ("http", "https") or to.hostname != urlsplit(req.full_url).hostname:
            fp.close()
            raise urllib.error.URLError(f"it leads to {newurl}, which is another host than that of base_url")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


_OPENER: Final = urllib.request.build_opener(urllib.request.ProxyHandler({}), _SameHost())
"""It asks the host itself, whatever proxy the environment names."""
