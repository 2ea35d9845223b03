"""Pushes URL changes of an app to sitemapd: `Publisher` in the background, the clients at once.

It needs Python 3.9 and the standard library alone, and knows nothing of sitemapd but its HTTP API.
"""

from sitemapd_client.asynchronous import AsyncClient
from sitemapd_client.client import Client
from sitemapd_client.delivery import Counts
from sitemapd_client.errors import ClientError, Problem, Unavailable
from sitemapd_client.publisher import Publisher
from sitemapd_client.results import Refusal, Sent, Synced

__all__ = [
    "AsyncClient",
    "Client",
    "ClientError",
    "Counts",
    "Problem",
    "Publisher",
    "Refusal",
    "Sent",
    "Synced",
    "Unavailable",
]
