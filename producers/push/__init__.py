"""Pushing from a Python app of sitemapd's own environment: `from producers.push import Publisher`.

Apps elsewhere install the client alone (clients/python).
"""

from producers.push.publisher import Publisher

__all__ = ["Publisher"]
