"""The parts → the HTTP application: files, page, metrics and push API for all sites."""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache, partial
from ipaddress import ip_address, ip_network
from typing import Final, NamedTuple

from starlette.types import ASGIApp

from sitemap_store.errors import BadSetting
from sitemapd.api import push_api, tokens
from sitemapd.build import Parts
from sitemapd.held import held_report
from sitemapd.memory import ease_collector
from sitemapd.settings import Settings
from sitemapd.web.application import Application, application, no_api
from sitemapd.web.front import Network
from sitemapd.web.probes import Health
from sitemapd.web.server import Server, listen
from sitemapd.web.views import ServedSite

REDIS_S: Final = 3.0
"""How long a command may take here: who asked over HTTP was told long before that Redis does not answer."""

log = logging.getLogger(__name__)


def served(parts: Parts, health: Health) -> Application:
    """The application for all sites, in a process that is made fit to serve it. Raises BadSetting."""
    ease_collector()
    logging.getLogger("sitemapd.access").setLevel("INFO" if parts.settings.access_log else "WARNING")
    parts = replace(parts, redis_timeout=REDIS_S)
    known = tokens(parts)
    sites = {
        name: ServedSite(
            site=site,
            folder=parts.folder(name),
            store=partial(parts.store, name),
            tokens=known[name],
            command=parts.command_for(name),
            held=partial(held_report, parts, name),
            indexnow_key=parts.settings.sites[name].indexnow_key,
        )
        for name, site in parts.sites.items()
    }
    return application(sites, health, api=_api(parts), proxies=proxies(parts))


def proxies(parts: Parts) -> list[Network]:
    """The addresses of `trusted_proxies`. Raises BadSetting."""
    found = []
    for text in sorted(parts.settings.trusted_proxies):
        try:
            found.append(ip_network(text))
        except ValueError as error:
            raise BadSetting(
                setting="trusted_proxies",
                detail=f"{text!r} is no address and no network such as 10.0.0.0/8.",
            ) from error
    return found


class Listeners(NamedTuple):
    """The ports that a process answers HTTP on."""

    http: socket.socket
    probes: socket.socket | None = None


@contextmanager
def listeners(settings: Settings, host: str, port: int) -> Iterator[Listeners]:
    """Take the port, and that of `probes` where it is set; both are closed at the end. Raises BadSetting."""
    with listen(host, port) as http:
        if settings.probes is None:
            yield Listeners(http)
            return
        probe_host, _, probe_port = settings.probes.rpartition(":")
        if not probe_host or not (probe_port.isascii() and probe_port.isdecimal()) or int(probe_port) > 65535:
            raise BadSetting(
                setting="probes",
                detail=f"{settings.probes!r} is no address and port such as 127.0.0.1:8322.",
            )
        with listen(probe_host.strip("[]"), int(probe_port), "probes") as probes:
            yield Listeners(http, probes)


def server(parts: Parts, app: Application, taken: Listeners) -> Server:
    """The server of an application, with the bounds of the settings. Raises BadSetting."""
    networks = proxies(parts)

    @lru_cache(4096)
    def shared(peer: str) -> bool:
        try:
            address = ip_address(peer)
        except ValueError:
            return True  # no address: a unix socket
        return address.is_loopback or any(address in network for network in networks)

    settings = parts.settings
    return Server(
        app,
        taken.http,
        probes=taken.probes,
        connections=settings.connections,
        per_peer=settings.connections_per_peer,
        shared=shared,
    )


def _api(parts: Parts) -> ASGIApp:
    if not parts.has_redis:
        log.warning(
            "There is no Redis yet: files are served, and the push API is not until a restart",
            extra={"action": "no_redis"},
        )
        return no_api
    return push_api(parts)
