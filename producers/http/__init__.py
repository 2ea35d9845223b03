"""The push API: events over HTTP. `routes` gives what a Starlette application mounts."""

from producers.http.access import Gate, Token
from producers.http.api import ApiSite, routes
from producers.http.body import Caps

__all__ = ["ApiSite", "Caps", "Gate", "Token", "routes"]
