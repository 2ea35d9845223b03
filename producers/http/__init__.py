"""The push API: events over HTTP. `Api` is the ASGI application."""

from producers.http.access import Gate, Token
from producers.http.api import Api, ApiSite
from producers.http.body import Caps

__all__ = ["Api", "ApiSite", "Caps", "Gate", "Token"]
