"""The push API: events over HTTP. `Api` is the ASGI application."""

from producers.http.app import Api, ApiSite
from producers.http.auth import Gate, Token
from producers.http.limits import Caps

__all__ = ["Api", "ApiSite", "Caps", "Gate", "Token"]
