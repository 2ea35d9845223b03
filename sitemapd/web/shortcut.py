"""The push API's requests, past what Starlette does around every other route.

Its routes are plain ASGI and make their own answers out of errors, so nothing of that is missed; and the
look at every other route, and two more layers for each message, cost as much as the rest of a short request.
"""

from __future__ import annotations

from collections.abc import Sequence

from starlette.routing import BaseRoute, Match
from starlette.types import ASGIApp, Receive, Scope, Send


class Shortcut:
    """ASGI middleware: what fits one of the routes, all below `prefix`, goes there and nothing else does."""

    def __init__(self, app: ASGIApp, routes: Sequence[BaseRoute], prefix: str) -> None:
        self._app = app
        self._routes = routes
        self._prefix = prefix

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] == "http" and scope["path"].startswith(self._prefix):
            for route in self._routes:
                match, found = route.matches(scope)
                if match is Match.FULL:
                    scope.update(found)
                    await route.handle(scope, receive, send)
                    return
        await self._app(scope, receive, send)
