"""The client's publisher, which goes straight into Redis as well."""

from __future__ import annotations

from typing import Any, Final

import sitemapd_client
from producers.push.direct import Direct

_REDIS: Final = ("redis://", "rediss://", "unix://")


class Publisher(sitemapd_client.Publisher):
    """Pushes events of one site from an app; safe to share between threads.

    `target` is the address of sitemapd's HTTP server (`https://…`), with a `token` if the site has some, or
    of its Redis (`redis://…`). `queue_url` is that of RQ's Redis, if it is another one. `options` are those
    of `sitemapd_client.Publisher`. Raises ValueError, and OSError (the spool).
    """

    def __init__(
        self,
        target: str,
        site: str = "main",
        *,
        token: str | None = None,
        source: str | None = None,
        queue_url: str | None = None,
        **options: Any,
    ) -> None:
        if target.startswith(_REDIS):
            super().__init__(Direct(target, site, source, queue_url), **options)
        else:
            super().__init__(target, token, site, source=source, **options)
