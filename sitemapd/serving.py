"""The parts → the HTTP application: files, page, metrics and push API for all sites."""

from __future__ import annotations

import logging
from functools import partial

from starlette.applications import Starlette
from starlette.routing import BaseRoute

from sitemapd.api import push_routes, tokens
from sitemapd.build import Parts
from sitemapd.memory import ease_collector
from sitemapd.web.application import Health, ServedSite, application

log = logging.getLogger(__name__)


def served(parts: Parts, health: Health) -> Starlette:
    """The application for all sites, in a process that is made fit to serve it. Raises BadSetting."""
    ease_collector()
    known = tokens(parts)
    sites = {
        name: ServedSite(
            site=site,
            folder=parts.folder(name),
            store=partial(parts.store, name),
            tokens=known[name],
            indexnow_key=parts.settings.sites[name].indexnow_key,
        )
        for name, site in parts.sites.items()
    }
    return application(sites, health, api=_api(parts))


def _api(parts: Parts) -> list[BaseRoute]:
    if not parts.has_redis:
        log.warning(
            "There is no Redis yet: files are served, and the push API is not until a restart",
            extra={"action": "no_redis"},
        )
        return []
    return push_routes(parts)
